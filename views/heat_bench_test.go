package views

import (
	"slices"
	"testing"
	"time"

	"github.com/muesli/termenv"

	"quantscope/views/viewstest"
)

// heatBudget is what one drawing of a map may allocate: the picture, the
// buckets' bookkeeping, and nothing that grows with the number of cells.
const heatBudget = 16

func TestHeatAllocations(t *testing.T) {
	h := heatOf(t, viewstest.Big(43, 288, "nvfp4"), 0, termenv.TrueColor)
	h.SetSize(200, 60)
	cursor := 0
	got := testing.AllocsPerRun(20, func() {
		cursor += 100
		h.SetCursor(cursor)
		if len(h.View()) < 1000 {
			t.Fatal("nothing was drawn")
		}
	})
	if got > heatBudget {
		t.Errorf("%.0f allocations a frame, want at most %d", got, heatBudget)
	}
}

// drawBudget is what one drawing of the largest map may take: a third of a
// frame at 60 a second.
const drawBudget = 5 * time.Millisecond

// The best of many drawings is taken: it says what the code costs, however busy
// the machine is.
func TestHeatDrawsInTime(t *testing.T) {
	h := heatOf(t, viewstest.Big(43, 288, "nvfp4"), 0, termenv.TrueColor)
	h.SetSize(200, 60)
	values, states := slices.Clone(h.values), slices.Clone(h.states)
	best := time.Hour
	for i := range 50 {
		values[i*500] += 1e-4
		t0 := time.Now()
		h.SetValues(values, states)
		h.View()
		best = min(best, time.Since(t0))
	}
	if best > drawBudget {
		t.Errorf("a drawing takes %v, want at most %v", best, drawBudget)
	}
}

func BenchmarkHeat(b *testing.B) {
	for _, c := range []struct {
		name            string
		layers, experts int
		w, h            int
		profile         termenv.Profile
	}{
		{"43x288x3/200x60/truecolor", 43, 288, 200, 60, termenv.TrueColor},
		{"43x288x3/200x30/half", 43, 288, 200, 30, termenv.TrueColor},
		{"43x288x3/200x60/none", 43, 288, 200, 60, termenv.Ascii},
		{"61x256x3/200x60/truecolor", 61, 256, 200, 60, termenv.TrueColor},
		{"5x16x3/80x24/truecolor", 5, 16, 80, 24, termenv.TrueColor},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := viewstest.Big(c.layers, c.experts, "nvfp4")
			h := heatOf(b, s, 0, c.profile)
			h.SetSize(c.w, c.h)
			values, states := slices.Clone(h.values), slices.Clone(h.states)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				values[i%len(values)] += 1e-6
				h.SetValues(values, states)
				h.View()
			}
			b.ReportMetric(float64(len(h.View())), "bytes/frame")
		})
	}
}
