package tui

import (
	"fmt"
	"slices"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/muesli/termenv"

	"quantscope/sessions"
	"quantscope/views"
	"quantscope/views/viewstest"
)

// BenchmarkFrame is one frame of a live run at the size of the performance
// contract: 37,152 tensors × 4 variants at 200×60, with about a thousand new
// records, Update and View. p99 must stay below 16 ms.
func BenchmarkFrame(b *testing.B) {
	const layers, experts, perFrame = 43, 288, 1000
	whole := viewstest.Big(layers, experts, "nvfp4", "nvfp4+mse", "nvfp4+mse_ge1", "nvfp4+sweep")
	whole.Meta.Path = "/tmp/big.qscope"
	var records []sessions.Record
	for t := range whole.Tensors { // as an engine does: all variants of a tensor after each other
		for v := range whole.Variants {
			records = append(records, whole.Records[v][t])
		}
	}
	o := fixed()
	profile := termenv.TrueColor
	o.Profile = &profile
	for _, c := range []struct{ name, key string }{{"map", "1"}, {"clipping", "2"}, {"compare", "4"}, {"log", "8"}, {"tensor", "enter"}} {
		b.Run(fmt.Sprintf("%s/%dx%dx%d", c.name, len(whole.Tensors), len(whole.Variants), perFrame), func(b *testing.B) {
			start := func() *Model {
				empty := sessions.State{Meta: whole.Meta, Tensors: whole.Tensors, Variants: slices.Clone(whole.Variants), Progress: whole.Progress}
				for range whole.Variants {
					empty.Records = append(empty.Records, make([]sessions.Record, len(whole.Tensors)))
				}
				empty.Progress.State = sessions.RunRunning
				m := New(newFakeFeed(sessions.Live, whole, &empty), o)
				m.Update(tea.WindowSizeMsg{Width: 200, Height: 60})
				m.Update(keyOf(c.key))
				m.View()
				return m
			}
			m := start()
			at := 0
			var took []time.Duration
			for b.Loop() {
				if at >= len(records) {
					b.StopTimer()
					m.end()
					m, at = start(), 0
					b.StartTimer()
				}
				next := records[at:min(at+perFrame, len(records))]
				at += len(next)
				batch := sessions.Batch{Records: next, Progress: sessions.Progress{
					State: sessions.RunRunning, Variant: 3, Done: int64(at), Total: int64(len(records)), BytesPerSec: 1.2e9, ETASeconds: 60,
				}, LastSeq: next[len(next)-1].Seq}
				begun := time.Now()
				m.Update(batchMsg{src: m.src, batch: batch})
				frameBytes = len(m.View())
				took = append(took, time.Since(begun))
			}
			m.end()
			report(b, took)
		})
	}
}

// BenchmarkCursor is a frame in which only the cursor moves.
func BenchmarkCursor(b *testing.B) {
	whole := viewstest.Big(43, 288, "nvfp4", "nvfp4+mse", "nvfp4+mse_ge1", "nvfp4+sweep")
	o := fixed()
	profile := termenv.TrueColor
	o.Profile = &profile
	m := New(newFakeFeed(sessions.Saved, whole, whole), o)
	defer m.end()
	m.Update(tea.WindowSizeMsg{Width: 200, Height: 60})
	keys := []string{"right", "down", "right", "right", "up", "left"}
	var took []time.Duration
	for b.Loop() {
		begun := time.Now()
		m.Update(keyOf(keys[len(took)%len(keys)]))
		frameBytes = len(m.View())
		took = append(took, time.Since(begun))
	}
	report(b, took)
}

// BenchmarkFilter is what one letter of a filter costs outside the loop.
func BenchmarkFilter(b *testing.B) {
	tensors := viewstest.Experts(0, 43, 0, 288)
	for b.Loop() {
		if f, err := views.NewFilter(`layers\.(3|4).*up`, tensors); err != nil || f.Count == 0 {
			b.Fatal(f.Count, err)
		}
	}
}

// frameBytes keeps the compiler from leaving out the work.
var frameBytes int

func report(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	ms := func(p float64) float64 { return float64(took[int(p*float64(len(took)-1))].Microseconds()) / 1000 }
	b.ReportMetric(ms(0.5), "p50-ms")
	b.ReportMetric(ms(0.99), "p99-ms")
	b.ReportMetric(ms(1), "max-ms")
}

// BenchmarkAudit is a frame in which the selection moves through the pairs of an
// audit of 12,384, over a session of 37,152 tensors.
func BenchmarkAudit(b *testing.B) {
	whole := viewstest.Big(43, 288, "nvfp4", "nvfp4+mse", "nvfp4+mse_ge1", "nvfp4+sweep")
	whole.Audits = []*sessions.Audit{auditOver("/data/out", 43, 288, true)}
	o := fixed()
	profile := termenv.TrueColor
	o.Profile = &profile
	m := New(auditing80(sessions.Saved, whole), o)
	defer m.end()
	m.Update(tea.WindowSizeMsg{Width: 200, Height: 60})
	m.Update(keyOf("7"))
	m.Update(keyOf("enter"))
	var took []time.Duration
	for b.Loop() {
		begun := time.Now()
		m.Update(keyOf([]string{"down", "down", "up", "pgdown", "home"}[len(took)%5]))
		frameBytes = len(m.View())
		took = append(took, time.Since(begun))
	}
	report(b, took)
}

// BenchmarkCalibrationFrame is one frame of a calibrated run at that size: a
// layer of 864 tensors with its records, its counts and its trades, on the map by
// tokens, and in Compare as the trade.
func BenchmarkCalibrationFrame(b *testing.B) {
	const layers, experts = 43, 288
	whole := viewstest.Big(layers, experts, "int4-g128", "int4-g128+gptq", "nvfp4", "nvfp4+imatrix")
	setup, units := viewstest.Calibration(whole, 1)
	o := fixed()
	profile := termenv.TrueColor
	o.Profile = &profile
	tokens, _ := views.MetricByName("tokens")
	for _, c := range []struct {
		name string
		keys []string
	}{{"map", []string{"1"}}, {"trade", []string{"4", "c"}}} {
		b.Run(fmt.Sprintf("%s/%dx%d", c.name, len(whole.Tensors), len(whole.Variants)), func(b *testing.B) {
			start := func() *Model {
				st := whole.Clone()
				clear(st.Records[1])
				st.Calibrations = []*sessions.Calibration{{Setup: setup}}
				st.Progress.State = sessions.RunRunning
				m := New(newFakeFeed(sessions.Live, whole, st), o)
				m.Update(tea.WindowSizeMsg{Width: 200, Height: 60})
				m.Update(keyOf("V"))
				m.scene.SetMetric(tokens)
				for _, k := range c.keys {
					m.Update(keyOf(k))
				}
				m.View()
				return m
			}
			m, at := start(), 0
			var took []time.Duration
			for b.Loop() {
				if at == len(units) {
					b.StopTimer()
					m.end()
					m, at = start(), 0
					b.StartTimer()
				}
				u := units[at]
				at++
				batch := sessions.Batch{CalibsDone: []sessions.CalibDone{{Unit: u}}, Progress: sessions.Progress{State: sessions.RunRunning, Variant: 1}}
				for _, x := range u.Matrices {
					batch.Records = append(batch.Records, whole.Records[1][x.Tensor])
				}
				batch.LastSeq = whole.LastSeq + int64(at)
				begun := time.Now()
				m.Update(batchMsg{src: m.src, batch: batch})
				frameBytes = len(m.View())
				took = append(took, time.Since(begun))
			}
			m.end()
			report(b, took)
		})
	}
}
