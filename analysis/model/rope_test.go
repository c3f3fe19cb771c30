package model

import (
	"math"
	"testing"
)

// TestYarnBounds: the ramp between frequencies that stay and those that are
// divided ends at channel Dim−1, half of which are pairs, and where both of its
// ends are one place it is a step.
func TestYarnBounds(t *testing.T) {
	for _, c := range []struct {
		name string
		rope Rope
		ramp []float64 // by pair: 0 keeps the frequency, 1 divides it
	}{
		// 8·ln(4000/64π)/(2·ln 100) = 2.6 → 2, 8·ln(4000/2π)/(2·ln 100) = 5.6 → 6.
		{"from 2 to 6", Rope{Dim: 8, Theta: 100, OriginalMax: 4000}, []float64{0, 0, 0, 0.25}},
		// 4.6 → 4 and 7.6 → 8, of which 7 is the last; the others −0.6 → 0 and 2.4 → 3.
		{"from 4 to 7", Rope{Dim: 8, Theta: 100, OriginalMax: 40000}, []float64{0, 0, 0, 0}},
		{"from 0 to 3", Rope{Dim: 8, Theta: 100, OriginalMax: 100}, []float64{0, 1. / 3, 2. / 3, 1}},
		// 4·ln(6/2π)/(2·ln 10000) = −0.01 → 0, and below it 0.
		{"a step", Rope{Dim: 4, Theta: 10000, OriginalMax: 6}, []float64{0, 1}},
	} {
		r := c.rope
		r.Kind, r.Factor, r.BetaFast, r.BetaSlow = RopeYarn, 4, 32, 1
		for i, got := range r.Frequencies(1) {
			f := math.Pow(r.Theta, -2*float64(i)/float64(r.Dim))
			if want := f/4*c.ramp[i] + f*(1-c.ramp[i]); !(math.Abs(got-want) <= 1e-12*want) {
				t.Errorf("%s: pair %d turns by %g, want %g", c.name, i, got, want)
			}
		}
	}
}
