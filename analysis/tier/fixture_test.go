package tier

import "pgregory.net/rapid"

// shapes draws models whose experts take as much in every layer, or not.
func shapes(even bool) *rapid.Generator[Shape] {
	return rapid.Custom(func(t *rapid.T) Shape {
		s := Shape{Experts: rapid.IntRange(1, 12).Draw(t, "experts")}
		s.TopK = rapid.IntRange(1, s.Experts).Draw(t, "top k")
		n := rapid.IntRange(1, 4).Draw(t, "layers")
		at := 0
		for range n {
			at += rapid.IntRange(1, 3).Draw(t, "gap")
			s.Layers = append(s.Layers, at)
			size := int64(100)
			if !even {
				size = rapid.Int64Range(1, 300).Draw(t, "bytes")
			}
			s.Hot, s.Cold = append(s.Hot, size), append(s.Cold, max(size/2, 1))
		}
		return s
	})
}

// traceOf draws a workload for a model.
func traceOf(t *rapid.T, s Shape, tokens int) *Trace {
	z := zipf{exponent: rapid.Float64Range(0, 3).Draw(t, "exponent"), seed: rapid.Uint64().Draw(t, "seed"), tokens: tokens, drift: rapid.IntRange(0, 40).Draw(t, "drift")}
	tr, err := z.trace("drawn", s.Layers, s.Experts, s.TopK)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func policies() *rapid.Generator[Policy] {
	return rapid.Custom(func(t *rapid.T) Policy {
		return Policy{
			Window: rapid.IntRange(1, 30).Draw(t, "window"), Decay: rapid.Float64Range(0, 0.95).Draw(t, "decay"),
			Hysteresis: rapid.Float64Range(0, 1).Draw(t, "hysteresis"), Stay: rapid.IntRange(0, 3).Draw(t, "stay"),
			Moves: rapid.IntRange(0, 4).Draw(t, "moves"), PerLayer: rapid.Bool().Draw(t, "per layer"),
		}
	})
}

func setupOf(s Shape, p Policy, budgets ...string) (*Setup, error) {
	out := &Setup{Shape: s, Policy: p, Trace: TraceMoves, Hot: "nvfp4", Cold: "code2+sym", Seed: 7}
	for _, text := range budgets {
		b, err := ParseBudget(text, &s)
		if err != nil {
			return nil, err
		}
		out.Budgets = append(out.Budgets, b)
	}
	return out, nil
}

// all keeps windows.
func all(into *[]*Window) Sink {
	return func(w *Window) error {
		*into = append(*into, w)
		return nil
	}
}
