package viewstest

import (
	"context"
	"math"

	"quantscope/analysis/tier"
	"quantscope/sessions"
)

// TierBudgets are the budgets that Tier runs at.
var TierBudgets = []string{"0%", "10%", "25%", "50%", "100%"}

// Tier is a finished run of a hot tier over layers first … first+layers−1 of experts
// each: a workload of two phases in which a quarter of the ranks change half way, at
// trace level trace. It is what the manager makes of it.
func Tier(first, layers, experts, tokens, trace int) *sessions.TierRun {
	s, t := tierTrace(first, layers, experts, tokens, trace)
	r := &sessions.TierRun{Setup: s, AtUS: 2_000_000}
	end, err := tier.Run(context.Background(), s, t, tier.Options{Trace: trace}, func(w *tier.Window) error {
		r.Windows = append(r.Windows, w)
		return nil
	})
	if err != nil {
		panic(err) // of a fixture
	}
	end.State = string(sessions.RunFinished)
	r.End = end
	return r
}

func tierTrace(first, layers, experts, tokens, trace int) (*tier.Setup, *tier.Trace) {
	topK := min(2, experts)
	t := &tier.Trace{Name: "prose, math", Kind: "recorded", Experts: experts, TopK: topK, Tokens: tokens,
		Phases: []tier.Phase{{Name: "prose", First: 0}, {Name: "math", First: tokens / 2}}}
	for l := range layers {
		t.Layers = append(t.Layers, first+l)
	}
	for token := range tokens {
		for l := range layers {
			k := 2 * (token*layers + l)
			for i := range topK {
				// The rank is drawn in proportion to 1/rank; who has it depends on the
				// layer, and for every fourth rank on the phase.
				u := unit(7919*k + 104729*i + 13)
				rank := min(int(math.Pow(float64(experts+1), u))-1, experts-1)
				e := (rank*5 + l*3) % experts
				if rank%4 == 1 && token >= tokens/2 {
					e = (e + experts/2 + 1) % experts
				}
				for i > 0 && t.Choices[len(t.Choices)-1] == uint16(e) {
					e = (e + 1) % experts
				}
				t.Choices = append(t.Choices, uint16(e))
			}
		}
	}
	s := &tier.Setup{
		Shape: tier.Shape{Layers: t.Layers, Experts: experts, TopK: topK}, Source: "5f1c", Model: "demo",
		Hot: "nvfp4", Cold: "code2+sym", Routed: "demo", Policy: tier.Policy{Window: 64, Decay: 0.5, Hysteresis: 0.25, Stay: 1},
		Trace: trace, KernelSet: "ref", Program: "test",
		Workload: tier.WorkloadRef{Name: t.Name, Kind: t.Kind, SHA256: "9a3e", Tokens: tokens, Phases: t.Phases},
	}
	for range layers {
		s.Shape.Hot, s.Shape.Cold = append(s.Shape.Hot, 27_660), append(s.Shape.Cold, 15_384)
	}
	for _, text := range TierBudgets {
		b, err := tier.ParseBudget(text, &s.Shape)
		if err != nil {
			panic(err) // of a fixture
		}
		s.Budgets = append(s.Budgets, b)
	}
	return s, t
}

// TierUntil is the beginning of a run: its first n windows.
func TierUntil(r *sessions.TierRun, n int) *sessions.TierRun {
	c := *r
	c.Windows, c.End = r.Windows[:n:n], nil
	return &c
}
