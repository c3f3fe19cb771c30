package report

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"quantscope/analysis/bias"
	"quantscope/analysis/tier"
	"quantscope/analysis/yardstick"
	"quantscope/sessions"
)

// biasRun is a look at two candidates, of which the second leans more and more to one
// side.
func biasRun() *sessions.BiasRun {
	b := &sessions.BiasRun{Setup: &bias.Setup{
		Reference: yardstick.Party{Label: "ref" + hostile}, Candidates: []yardstick.Party{{Label: "code2+sym", BitsPerWeight: 2.5}, {Label: "code2" + hostile, BitsPerWeight: math.NaN()}},
		Corpora: []yardstick.CorpusRef{{Name: "prose", SHA256: strings.Repeat("ab", 32)}}, Positions: 2048, Layers: 4, Activations: "f32", KernelSet: "ref",
	}, End: &bias.End{State: "finished"}}
	for c := range 2 {
		b.Weights = append(b.Weights, &bias.Weights{Candidate: c, Layer: -1, Tensors: 9, RelL2: 0.3125, Bias: 0.0125 * float64(c), AbsBias: 0.01, RowRMS: 0.04, RowMax: 0.1,
			Books: []bias.Book{{Values: []float32{-6, -1, 0, 3}, Tensors: 4}, {Values: []float32{-3, -1, 1, 3}, Tensors: 3}, {Values: []float32{-4, -1, 1, 4}}, {Values: []float32{-2, -1, 1, 2}}, {Values: []float32{-6, -2, 2, 6}}}})
		b.Divergences = append(b.Divergences, &bias.Divergence{Candidate: c, Positions: 2048, KL: 0.25 + float64(c), StdErr: 0.01, Top1: 0.7})
	}
	for layer := -1; layer < 4; layer++ {
		for c := range 2 {
			f := bias.Flow{Positions: 2048, Rel: 0.1 * float64(layer+1), Bias: 0.0625 * float64(c*(layer+1)), Shift: math.NaN(), Null: 0.001}
			b.Rows = append(b.Rows, &bias.Row{Candidate: c, Layer: layer, Part: bias.Residual, Flow: f})
		}
	}
	return b
}

func tierRun(windows int) *sessions.TierRun {
	t := &sessions.TierRun{Setup: &tier.Setup{
		Shape: tier.Shape{Layers: []int{1, 3}, Experts: 8, TopK: 2, Hot: []int64{9, 9}, Cold: []int64{5, 5}}, Model: "demo", Hot: "nvfp4", Cold: "code2+sym" + hostile, Routed: "demo",
		Workload: tier.WorkloadRef{Name: "calib" + hostile, Kind: tier.Recorded, SHA256: strings.Repeat("cd", 32), Tokens: 64 * windows}, Policy: tier.DefaultPolicy(), Trace: 1,
		Budgets: []tier.Budget{{Label: "25%", Bytes: 36, Share: 0.25}, {Label: "50%", Bytes: 72, Share: 0.5}},
	}}
	for b := range 2 {
		for i := range windows {
			t.Windows = append(t.Windows, &tier.Window{Budget: b, Index: i, Pairs: 100, Hits: int64(40 + i%20), Promoted: 1, Evicted: 1, Hot: 4 + 4*b, PerLayer: []int{1 + b, 3 + 3*b}})
		}
	}
	return t
}

// Looks at biases and hot tiers are parts of the page: what was found in words, charts
// by depth and by window, a line on each candidate and budget. Names are text whatever
// they hold, and what is not a number breaks a line, not the page.
func TestLooks(t *testing.T) {
	st := fixture(2, 2, "nvfp4")
	run := tierRun(1000)
	run.End = &tier.End{State: "finished", Verdict: "it breathes" + hostile, Curve: &tier.Curve{Share: []float64{0, 0.5, 1}, Hits: []float64{0, 0.8, 1}, Knee: 0.5, Rise: 0.3, Noise: 0.02}, Results: []*tier.Result{
		{Budget: 0, Windows: 1000, Coverage: 0.25, Hits: 0.5, Settled: 0.625, Best: 0.75, ChurnWindow: 2.5, Held: 7, Replace: 100, Beside: 120, Controls: []tier.Control{{Name: "random", Hits: 0.125}}}, {Budget: 1, Hits: math.NaN()},
	}}
	st.Biases, st.Tiers = []*sessions.BiasRun{biasRun()}, []*sessions.TierRun{run, tierRun(0)}
	html := write(t, build(t, st, Options{}))
	for _, want := range []string{
		"Do errors have a sign?", "Against ref", "positions over prose (sha256 abababababab), 4 layers", "Sign bias of the residual stream by depth", "0.312", "-6 -1 0 3: 4; -3 -1 1 3: 3; -4 -1 1 4: 0; 2 others", "1.2500",
		"Which experts are hot?", "windows of 256 tokens over ", "It breathes", "Hits by window", "Hot experts of each layer at the end", "with its knee at 50", "Unfinished: 0 windows", "It is drawn when a run has finished.",
		"code2layers.0.&lt;script&gt;", "workload calib",
	} {
		if !strings.Contains(html, want) {
			i := strings.Index(html, want[:min(len(want), 12)])
			t.Errorf("the page does not say %q; %.300s", want, html[max(i, 0):])
		}
	}
	for _, not := range []string{"<script>alert", "<img src=x"} {
		if strings.Contains(html, not) {
			t.Errorf("the page holds %q", not)
		}
	}
	if bad := regexp.MustCompile(`(?:d|x|y|cx|cy|width|height)="[^"]*(?:NaN|Inf)[^"]*"`).FindString(html); bad != "" {
		t.Errorf("a picture has %s", bad)
	}
	// A thousand windows are drawn in points that fit, and the picture stays small.
	_, part, _ := strings.Cut(html, `id="tier"`)
	part, _, _ = strings.Cut(part, `id="maps"`)
	if len(part) > 60_000 {
		t.Errorf("the part of the tiers takes %d bytes", len(part))
	}
	without := write(t, build(t, fixture(2, 2, "nvfp4"), Options{}))
	if strings.Contains(without, "Which experts are hot?") || strings.Contains(without, "Do errors have a sign?") {
		t.Error("a page of a session without looks speaks of them")
	}
}

// A line is broken where a figure is not finite, and a figure alone is a dot.
func TestBrokenLines(t *testing.T) {
	n := new(ids)
	nan := math.NaN()
	pic := string(lineChart(n, span{}, span{}, "x", "y", "t", "d", true, []series{{class: "kl0", at: [][2]float64{{0, 1}, {1, 2}, {2, nan}, {3, 2}, {4, math.Inf(1)}, {5, 1}, {6, -1}}}}))
	if got := strings.Count(pic, `class="kl0"`); got != 3 {
		t.Errorf("%d pieces: %s", got, pic)
	}
	if !strings.Contains(pic, `class="mean"`) {
		t.Error("0 is not marked")
	}
	if lineChart(n, span{}, span{}, "x", "y", "t", "d", true, []series{{at: [][2]float64{{0, nan}}}}) != "" {
		t.Error("a chart of nothing")
	}
	if fmt.Sprint(least([]series{{at: [][2]float64{{0, nan}, {1, 0.5}, {2, 0.25}}}}, digits(3))) != "0.250 to 0.500" {
		t.Error(least([]series{{at: [][2]float64{{0, nan}, {1, 0.5}, {2, 0.25}}}}, digits(3)))
	}
}
