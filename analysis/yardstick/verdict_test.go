package yardstick

import (
	"math"
	"testing"
)

func TestVerdicts(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		p    Pair
		want Verdict
	}{
		{Pair{Equal: true, DKL: nan, Low: nan, High: nan}, Equal},
		{Pair{DKL: -2, Low: -3, High: -1}, Better},
		{Pair{DKL: 2, Low: 1, High: 3}, Worse},
		{Pair{DKL: -1, Low: -2, High: 0}, NotToldApart},
		{Pair{DKL: 1, Low: 0, High: 2}, NotToldApart},
		{Pair{DKL: 1, Low: -1, High: 3}, NotToldApart},
		{Pair{DKL: 1, Low: nan, High: 3}, Undecided},
		{Pair{DKL: 1, Low: 0.5, High: inf}, Undecided},
		{Pair{DKL: nan, Low: 1, High: 2}, Undecided},
	} {
		if got := c.p.Verdict(); got != c.want {
			t.Errorf("%+v: %s, want %s", c.p, got, c.want)
		}
	}
}
