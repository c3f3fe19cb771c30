package kernels

import (
	"math"
	"testing"
	"time"
)

// What is measured is a rate, also where next to nothing is asked for.
func TestMeasure(t *testing.T) {
	rates := map[string]float64{
		"memcpy of nothing":  MeasureMemcpy(0, 0),
		"memcpy":             MeasureMemcpy(1<<16, time.Millisecond),
		"fma, threads":       MeasureFMA(0, 0),
		"fma, three threads": MeasureFMA(3, time.Microsecond),
	}
	for _, s := range Available() {
		rates[s.Name] = s.MeasureFMA(1, time.Millisecond)
	}
	for name, r := range rates {
		if !(r > 0) || math.IsInf(r, 0) {
			t.Errorf("%s: rate %v", name, r)
		}
	}
}

// The loops count what they do: a whole number of their rounds, no more than
// asked for but for the first.
func TestFMALoopCounts(t *testing.T) {
	for _, s := range Available() {
		least := s.fmaLoop(0)
		if least <= 0 {
			t.Errorf("%s: %d steps at least", s.Name, least)
		}
		for _, steps := range []int{least - 1, least, 10 * least, 10*least + 1} {
			if done := s.fmaLoop(steps); done%least != 0 || done > max(steps, least) || done <= steps-least {
				t.Errorf("%s: %d steps of %d", s.Name, done, steps)
			}
		}
	}
}
