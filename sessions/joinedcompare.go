package sessions

import (
	"math"

	"quantscope/analysis/compare"
	"quantscope/analysis/landscape"
	"quantscope/quant/method"
)

// Comparison makes the input of a comparison of variant vb of b with variant va of
// a, over the tensors that both sessions have. Both may be the same state.
// Sessions of different sources are a *JoinError.
func Comparison(a *State, va int, b *State, vb int, by Metric) (*compare.Input, error) {
	m, err := match(a, b)
	if err != nil {
		return nil, err
	}
	in := &compare.Input{
		Metric: compare.Metric{Name: by.Name, Help: by.Help, Worse: by.Worse, Relative: by.Relative, Diverging: by.Diverging},
		Items:  make([]compare.Item, len(m.a)),
		A:      a.side(va, m.a, by, m.aloneA), B: b.side(vb, m.b, by, m.aloneB),
	}
	for i, t := range m.a {
		n := &a.Tensors[t]
		in.Items[i] = compare.Item{Name: n.Name, Role: n.Role, Elements: int64(n.Rows) * int64(n.Cols)}
	}
	return in, nil
}

// side is one variant over some tensors.
func (s *State) side(v int, tensors []int, by Metric, alone int) compare.Side {
	variant := &s.Variants[v]
	out := compare.Side{
		Session: s.Meta.Path, Variant: variant.Name, Alone: alone,
		States: make([]landscape.State, len(tensors)), Values: make([]float64, len(tensors)), Bytes: make([]int64, len(tensors)),
	}
	known, err := method.Parse(variant.Plain())
	for i, t := range tensors {
		out.Bytes[i], out.Values[i] = -1, math.NaN()
		if err == nil {
			out.Bytes[i] = known.Bytes(s.Tensors[t].Rows, s.Tensors[t].Cols)
		}
		switch r := &s.Records[v][t]; {
		case r.Seq == 0:
		case r.Failed:
			out.States[i] = landscape.Failed
		default:
			out.States[i], out.Values[i] = landscape.Measured, by.Of(r)
		}
	}
	return out
}
