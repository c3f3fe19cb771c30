package landscape

import (
	"encoding/json"
	"math"
	"regexp"
	"strings"
	"testing"
)

// Tables that leave statistics without a meaning: every figure is a number or
// says why it is none, in the report and in JSON, and the verdict is a sentence.
func TestDegenerate(t *testing.T) {
	dense := func(layers int, parts ...string) (out []entry) {
		for l := range layers {
			for i, p := range parts {
				out = append(out, entry{l, -1, p, 0.009 + 0.0001*float64((l*7+i*3)%5)})
			}
		}
		return out
	}
	experts := func(layers, n int, parts ...string) (out []entry) {
		for l := range layers {
			for e := range n {
				for i, p := range parts {
					out = append(out, entry{l, e, p, 0.009 + 0.0001*float64((l*7+i*3+e*e)%5)})
				}
			}
		}
		return out
	}
	same := func(v float64, in []entry) []entry {
		for i := range in {
			in[i].rel2 = v
		}
		return in
	}
	every := func(k int, state State, rel2 float64) func(*Table) {
		return func(t *Table) {
			for i := range t.Items {
				if i%k == 0 {
					s := &t.Arms[0].Samples[i]
					s.State, s.Rel2, s.RelL2 = state, rel2, rel2
				}
			}
		}
	}
	none := func(*Table) {}
	for _, c := range []struct {
		name    string
		entries []entry
		change  func(*Table)
		kind    VerdictKind
		want    string // in the sentence
		why     map[string]string
	}{
		{"one tensor", dense(1, "q"), none, Unknown, "unknown: 1 tensor: fewer than three tensors; the worst 1 of 1 tensor",
			map[string]string{".Decomposition.Layer": "fewer than three tensors", ".Anova.F": "no experts"}},
		{"two tensors", dense(1, "q", "k"), none, Unknown, "2 tensors: fewer than three", nil},
		{"three projections of one layer", dense(1, "gate", "up", "down"), none, Unknown, "leave nothing to compare with",
			map[string]string{".Decomposition.Layer": "as many levels as tensors"}},
		{"nothing measured", dense(3, "q", "k"), every(1, Pending, 0), Unknown, "unknown: none of 6 tensors measured",
			map[string]string{".CosMin": "nothing measured", ".WorstShare": "nothing measured", ".Anova.P": "nothing measured", ".Neighbours.Mean": "nothing measured"}},
		{"all failed", dense(3, "q", "k"), every(1, Failed, 0), Unknown, "unknown: 6 tensors could not be measured", nil},
		{"all NaN", dense(3, "q", "k"), every(1, Measured, math.NaN()), Unknown, "6 tensors measured, none with finite figures", nil},
		{"no error anywhere", same(0, experts(3, 9, three...)), none, Flat, "flat: 81 tensors without any error",
			map[string]string{".WorstShare": "no tensor has an error", ".WorstOverMean": "no tensor has an error", ".Decomposition.Layer": "all tensors have the same error", ".Tail.Ratio": "no tensor has an error"}},
		{"the same error everywhere", same(0.009, experts(3, 9, three...)), none, Flat, "flat: the worst 1 of 81 tensors (1.23 %) holds 1.23 % of the error, so no",
			map[string]string{".Decomposition.Expert": "all tensors have the same error", ".Selectors/0.P": "the records do not have it"}},
		{"one layer", experts(1, 30, three...), none, Flat, "flat",
			map[string]string{".Decomposition.Layer": "one layer only", ".Neighbours.Mean": "one layer only", ".Layers/L00.Ratio": "nothing of its kind to compare with"}},
		{"one expert", experts(20, 1, three...), none, Flat, "flat",
			map[string]string{".Decomposition.Expert": "one expert only", ".Anova.AdjustedF": ""}},
		{"one projection", experts(6, 9, "up"), none, Flat, "flat", map[string]string{".Decomposition.Projection": "one projection only"}},
		{"dense", dense(20, "q", "k", "v", "o"), none, Flat, "flat",
			map[string]string{".Decomposition.Expert": "no experts", ".Anova.KruskalP": "no experts", ".Neighbours.Mean": "no experts"}},
		{"every fifth NaN", experts(6, 9, three...), every(5, Measured, math.NaN()), Flat, "(33 without finite figures)", nil},
		{"every fifth infinite", experts(6, 9, three...), every(5, Measured, math.Inf(1)), Flat, "(33 without finite figures)", nil},
		{"every fifth failed", experts(6, 9, three...), every(5, Failed, 0), Flat, "(33 failed)", nil},
		{"every fifth pending", experts(6, 9, three...), every(5, Pending, 0), Flat, "(33 not measured yet)", nil},
		{"every fifth exact", experts(6, 9, three...), every(5, Measured, 0), Flat, "flat", nil},
		{"tiny", same(math.SmallestNonzeroFloat64, experts(3, 9, three...)), none, Flat, "flat", nil},
		{"huge", func() []entry { e := experts(3, 9, three...); e[3].rel2 = 1e200; return e }(), none, Structured, "1 of 81 tensors ×", nil},
		{"an expert for each layer", func() (out []entry) {
			for l := range 12 {
				for i, p := range three {
					out = append(out, entry{l, l, p, 0.009 + 0.0001*float64((l*7+i*3)%5)})
				}
			}
			return out
		}(), none, Flat, "flat",
			map[string]string{".Decomposition.Layer": "it cannot be told apart from the other factors", ".Anova.AdjustedF": "experts cannot be told apart from layers and projections"}},
		{"two thousand layers", dense(2000, "q"), none, Unknown, "2001 layers, experts and projections are more than the 1500 that are told apart",
			map[string]string{".Decomposition.Layer": "2001 layers, experts and projections are more than the 1500 that are told apart"}},
		{"effects without noise", func() (out []entry) {
			for l := range 6 {
				for i, p := range three {
					out = append(out, entry{l, -1, p, 0.009 * float64(l+1) * float64(i+1)})
				}
			}
			return out
		}(), none, Unknown, "leave no variance", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := handTable(c.entries...)
			c.change(table)
			report := analyzed(t, table)
			g := &report.Groups[0]
			if g.Verdict.Kind != c.kind || !strings.Contains(g.Verdict.Sentence, c.want) {
				t.Errorf("%s, want %s with %q", g.Verdict.Sentence, c.kind, c.want)
			}
			all := figures(g)
			for at, v := range all {
				if v.Defined() && (math.IsNaN(v.V) || math.IsInf(v.V, 0)) {
					t.Errorf("%s is %v", at, v.V)
				}
				if v.Defined() && v.HasInterval() && !(v.Low <= v.V && v.V <= v.High) {
					t.Errorf("%s: %v lies outside of [%v, %v]", at, v.V, v.Low, v.High)
				}
			}
			for at, want := range c.why {
				if v, ok := all[at]; !ok || want == "" && v.Defined() || v.Why != want && want != "" {
					t.Errorf("%s: %+v, want %q", at, v, want)
				}
			}
			text, err := json.Marshal(report)
			if err != nil || strings.Contains(string(text), `"NaN"`) || strings.Contains(string(text), "Infinity") || strings.Contains(string(text), ":null,\"why\":\"\"") || regexp.MustCompile(`(pairs|experts|tensors|places|effects|layers)":null`).Match(text) {
				t.Errorf("%v: %s", err, text)
			}
		})
	}
}

// What noise would have of nothing is no figure either.
func TestNoShareByChanceOfNothing(t *testing.T) {
	for _, c := range []struct {
		layers int
		has    bool
	}{{1, false}, {3, true}} {
		d := analyzed(t, noisy(1, c.layers, 8, 0.02, noEffect)).Groups[0].Decomposition
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if has := strings.Contains(string(text), `"layer_by_chance"`); has != c.has || d.Layer.Defined() != c.has || !strings.Contains(string(text), `"expert_by_chance"`) {
			t.Errorf("%d layers: %s", c.layers, text)
		}
	}
}
