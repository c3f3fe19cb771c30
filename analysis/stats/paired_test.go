package stats

import (
	"math"
	"testing"
)

func TestPaired(t *testing.T) {
	pairs := [][2]float64{{1, 0.5}, {2, 2}, {4, 5}, {3, 2}, {math.NaN(), 1}, {1, math.Inf(1)}}
	for _, c := range []struct{ worse, wins, ties, losses int }{{1, 2, 1, 1}, {-1, 1, 1, 2}, {0, 0, 0, 0}} {
		var p Paired
		for _, ab := range pairs {
			p.Add(ab[0], ab[1], c.worse)
		}
		if p.N != 4 || p.LeftOut != 2 || p.Wins != c.wins || p.Ties != c.ties || p.Losses != c.losses {
			t.Errorf("worse %d: %+v", c.worse, p)
		}
		if got := p.Change(); got != -0.05 {
			t.Errorf("change %v, want -0.05", got)
		}
	}
}

func TestPairedWithoutPairs(t *testing.T) {
	var p Paired
	p.Add(math.NaN(), 1, 1)
	if got := p.Change(); !math.IsNaN(got) || p.N != 0 || p.LeftOut != 1 {
		t.Errorf("change of nothing is %v", got)
	}
}

func TestRelativeChange(t *testing.T) {
	for _, c := range [][3]float64{{2, 1, -0.5}, {-2, -1, 0.5}, {0, 0, 0}, {3, 3, 0}, {0, 1, math.NaN()}, {math.Inf(1), math.Inf(1), math.NaN()}} {
		if got := RelativeChange(c[0], c[1]); got != c[2] && !(math.IsNaN(got) && math.IsNaN(c[2])) {
			t.Errorf("%v → %v is %v, want %v", c[0], c[1], got, c[2])
		}
	}
}
