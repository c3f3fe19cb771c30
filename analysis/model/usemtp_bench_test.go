package model

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkUseMTP goes on with the hundred prompts of TestUseMTP, one after the
// other, with no drafts and with one to four a step: share of drafts that stay, mean
// tokens a step, tokens a second, and that over no drafts, from one run.
func BenchmarkUseMTP(b *testing.B) {
	g, f := readUseMTP(b), openedDemo(b)
	prompts := g.Prompts
	if testing.Short() { // that it runs at all
		prompts = prompts[:10]
	}
	src := NewResident(f.source())
	plain := 0.0
	for k := range 5 {
		b.Run(fmt.Sprintf("drafts=%d", k), func(b *testing.B) {
			var tokens, steps, drafted, accepted int
			best := 0.0
			for b.Loop() {
				tokens, steps, drafted, accepted = 0, 0, 0, 0
				began := time.Now()
				for _, p := range prompts {
					out, drafts, passes := drafted1(b, f, src, p.Prompt, g.New, k)
					tokens, steps, drafted = tokens+len(out), steps+passes, drafted+len(drafts)
					for _, d := range drafts {
						if d.Accepted {
							accepted++
						}
					}
				}
				best = max(best, float64(tokens)/time.Since(began).Seconds())
			}
			if k == 0 {
				plain = best
			} else {
				b.ReportMetric(float64(accepted)/float64(drafted), "accepted")
			}
			b.ReportMetric(float64(tokens)/float64(steps), "tokens/step")
			b.ReportMetric(best, "tokens/s")
			b.ReportMetric(best/plain, "x/plain")
			b.ReportMetric(0, "ns/op")
		})
	}
}
