package report

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"quantscope/analysis/yardstick"
	"quantscope/sessions"
)

// A measurement is a table of the page: a line a candidate, what is no number as
// such, a gate that fails in words. Names are text whatever they hold.
func TestKL(t *testing.T) {
	row := func(kl float64, top int32) yardstick.Row {
		return yardstick.Row{KL: kl, Reverse: kl, NLL: 1 + kl, Top: top}
	}
	nan := yardstick.Row{KL: math.NaN(), Reverse: math.NaN(), NLL: math.NaN()}
	setup := &yardstick.Setup{
		Reference: yardstick.Party{Label: "ref<script>", Baseline: -1, Of: -1},
		Candidates: []yardstick.Party{
			{Label: "nvfp4", BitsPerWeight: 4.5, Baseline: -1, Of: -1},
			{Label: "bad", BitsPerWeight: 4.5, Baseline: -1, Of: -1},
			{Label: "bf16 activations", BitsPerWeight: 16, Floor: true, Baseline: -1, Of: -1},
		},
		Corpora:     []yardstick.CorpusRef{{Name: "prose", SHA256: strings.Repeat("ab", 32), IDs: [][]int32{{1, 2, 3}, {3, 2, 1}}}},
		Activations: "f32", Positions: "all", KernelSet: "ref", VocabRef: 9, Texts: map[int32]string{1: "a", 2: "b", 3: "c"},
	}
	y := &sessions.Yard{Setup: setup, End: &sessions.YardEnd{State: sessions.RunFinished}}
	for k := range 2 {
		y.Chunks = append(y.Chunks, &yardstick.Chunk{
			Index: k, Ref: []yardstick.RefRow{{NLL: 1, MaxP: 0.5, Top: 2}, {NLL: 1, MaxP: 0.5, Top: 3}},
			Rows: [][]yardstick.Row{{row(0.25, 2), row(0.75, 4)}, {row(0.1, 2), nan}, {row(2e-7, 2), row(4e-7, 3)}},
		})
	}
	r, err := Build(t.Context(), &sessions.State{Yards: []*sessions.Yard{y}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := r.WriteHTML(&out); err != nil {
		t.Fatal(err)
	}
	html := out.String()
	for _, want := range []string{"What predictions lose", "KL to ref&lt;script&gt;", "0.5000", "3.0e-07", "2 not a number, 0 infinite", "the ruler&#39;s floor", "prose", "abababababab", "Gate finite failed", "4 of 4 positions"} {
		if !strings.Contains(html, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(html, "ref<script>") {
		t.Error("a name is taken for markup")
	}
	without, err := Build(t.Context(), &sessions.State{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if err := without.WriteHTML(&out); err != nil || strings.Contains(out.String(), "What predictions lose") {
		t.Errorf("a session without measurements: %v", err)
	}
}
