package yardstick

import (
	"fmt"
	"math"
)

// attributed says what part of a candidate's divergence the rows derived from it
// account for: the rows in which one group alone is the candidate's are summed and
// held against the whole, each other one stands for itself.
func (t *table) attributed(results []Result) []Attribution {
	if len(t.chunks) == 0 {
		return nil
	}
	var out []Attribution
	for of := range t.s.Candidates {
		var parts []int
		for i, p := range t.s.Candidates {
			switch {
			case p.Of != of:
			case p.Part != "":
				parts = append(parts, i)
			default:
				out = append(out, t.attribution(results, of, []int{i}))
			}
		}
		if len(parts) > 0 {
			out = append(out, t.attribution(results, of, parts))
		}
	}
	return out
}

// attribution holds rows against the whole, over the positions where all have a
// finite divergence.
func (t *table) attribution(results []Result, of int, rows []int) Attribution {
	n := len(t.chunks)
	whole, sum := make([]float64, n), make([]float64, n)
	var count float64
	for k, c := range t.chunks {
	positions:
		for i := range c.Ref {
			w := c.Rows[of][i].KL
			var s float64
			for _, r := range rows {
				s += c.Rows[r][i].KL
			}
			if !finite(w) || !finite(s) {
				continue positions
			}
			whole[k] += w
			sum[k] += s
			count++
		}
	}
	q := t.ratio(sum, whole)
	a := Attribution{Of: of, Rows: rows, Whole: total(whole) / count, Sum: total(sum) / count, Low: q.low, High: q.high}
	label := t.s.Candidates[of].Label
	row := &t.s.Candidates[rows[0]]
	switch {
	case count == 0 || a.Whole == 0 || math.IsNaN(q.at):
		a.Message = fmt.Sprintf("%s has no divergence to attribute", label)
	case row.Part == "":
		a.Message = fmt.Sprintf("%s: %s has %.1f %% of its KL (%.4g of %.4g), 95 %% interval %.1f to %.1f %%",
			label, row.Derived, 100*q.at, a.Sum, a.Whole, 100*q.low, 100*q.high)
	case finite(q.low) && q.low <= 1 && q.high >= 1:
		a.Message = fmt.Sprintf("%s: its %d parts add up to %.1f %% of its KL (%.4g of %.4g), within the error: 95 %% interval %.1f to %.1f %%",
			label, len(rows), 100*q.at, a.Sum, a.Whole, 100*q.low, 100*q.high)
	default:
		side, together, by := "too little", "more", a.Whole-a.Sum
		if by < 0 {
			side, together, by = "too much", "less", -by
		}
		a.Message = fmt.Sprintf("%s: its %d parts do not add up: %.1f %% of its KL (%.4g of %.4g), 95 %% interval %.1f to %.1f %%, %s by %.2g: together they do %s than each alone",
			label, len(rows), 100*q.at, a.Sum, a.Whole, 100*q.low, 100*q.high, side, by, together)
	}
	return a
}

func total(x []float64) (sum float64) {
	for _, v := range x {
		sum += v
	}
	return sum
}
