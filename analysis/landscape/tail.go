package landscape

import (
	"cmp"
	"math"
	"slices"
)

// tail lists the outliers that are worse than expected, beyond TailFloor.
func (g *group) tail(r *robust) {
	t := &g.report.Tail
	t.Share, t.Ratio = Exact(0), Undefined("no tensor stands out")
	var off, variance, share, total float64
	for _, y := range g.y {
		total += y
	}
	type one struct {
		item int
		off  float64
	}
	var list []one
	lowest := 1.0
	r.tail = make([]bool, len(r.out))
	for i, out := range r.out {
		if out && r.off[i] < -math.Log(TailFloor) {
			t.Better++
		}
		if r.tail[i] = out && r.off[i] > math.Log(TailFloor); !r.tail[i] {
			continue
		}
		list = append(list, one{g.items[r.items[i]], r.off[i]})
		off += r.off[i]
		variance += r.se[i] * r.se[i]
		share += g.y[r.items[i]]
		lowest = min(lowest, r.p[i])
	}
	if len(list) == 0 {
		t.P = Undefined("no tensor stands out")
		return
	}
	slices.SortStableFunc(list, func(a, b one) int { return cmp.Compare(b.off, a.off) })
	for _, o := range list {
		t.Items = append(t.Items, o.item)
		t.Tensors = append(t.Tensors, g.table.Items[o.item].Name)
	}
	n := float64(len(list))
	t.Count = len(list)
	t.Share, t.P = Exact(share/total), Exact(lowest)
	half := studentQuantile(r.df) * math.Sqrt(variance) / n
	t.Ratio = Value{V: math.Exp(off / n), Low: math.Exp(off/n - half), High: math.Exp(off/n + half)}
}
