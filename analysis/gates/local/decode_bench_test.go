package local

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"quantscope/analysis/gates/chat"
	"quantscope/quant/demo"
)

// decodePrompts are texts in five languages, and questions, as the demo was trained on.
func decodePrompts(b *testing.B, e *Engine) []string {
	b.Helper()
	corpora, err := demo.Corpora()
	if err != nil {
		b.Fatal(err)
	}
	var out []string
	for i := range corpora {
		for k := range 2 {
			out = append(out, e.Detokenize(corpora[i].Chunk(k)[:64]))
		}
	}
	return out
}

// BenchmarkDecode makes 64 tokens after each of ten prompts of the demo's corpora of
// 64 tokens, one at a time and eight at a time, with 0 to 4 drafts a step. x/plain is the rate
// over that of one text without drafts in the same run.
func BenchmarkDecode(b *testing.B) {
	c := openedDemo(b)
	var engines []*Engine
	for k := range 5 {
		engines = append(engines, engineOf(b, c, Options{Speculate: k, Threads: 2}))
	}
	plain := 0.0
	for _, texts := range []int{1, 8} {
		for k, e := range engines {
			b.Run(fmt.Sprintf("texts=%d/drafts=%d", texts, k), func(b *testing.B) {
				prompts := decodePrompts(b, e)
				before, _ := e.Counters(b.Context())
				best := 0.0
				for b.Loop() {
					begun, made := time.Now(), 0
					var wg sync.WaitGroup
					var mu sync.Mutex
					next := make(chan string, len(prompts))
					for _, p := range prompts {
						next <- p
					}
					close(next)
					for range texts {
						wg.Go(func() {
							for p := range next {
								r, err := e.Ask(b.Context(), chat.Request{Prompt: p, MaxTokens: 64, IgnoreEOS: true}, nil)
								if err != nil {
									b.Error(err)
								}
								mu.Lock()
								made += r.CompletionTokens
								mu.Unlock()
							}
						})
					}
					wg.Wait()
					best = max(best, float64(made)/time.Since(begun).Seconds())
				}
				after, _ := e.Counters(b.Context())
				if k == 0 && texts == 1 {
					plain = best
				}
				b.ReportMetric(best, "tokens/s")
				b.ReportMetric(best/plain, "x/plain")
				if rate, length := after.Since(before).Acceptance(); k > 0 {
					b.ReportMetric(rate, "accepted")
					b.ReportMetric(length, "length")
				}
			})
		}
	}
}

// BenchmarkPrompt takes in a prompt of 960 tokens.
func BenchmarkPrompt(b *testing.B) {
	c := openedDemo(b)
	e := engineOf(b, c, Options{Threads: 2})
	corpora, err := demo.Corpora()
	if err != nil {
		b.Fatal(err)
	}
	best := 0.0
	prompt := corpora[0].IDs[:960]
	for b.Loop() {
		begun := time.Now()
		if _, err := e.Ask(b.Context(), chat.Request{Tokens: prompt, MaxTokens: 1}, nil); err != nil {
			b.Fatal(err)
		}
		best = max(best, float64(len(prompt))/time.Since(begun).Seconds())
	}
	b.ReportMetric(best, "tokens/s")
}
