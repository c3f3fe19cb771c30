package calibrate

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/demo"
	"quantscope/quant/topology"
)

// TestGoldenHessians compares with what transformers' hooks are given: rows, counts
// of experts, traces, norms and elements. Both passes are f32 with sums in another
// order; an element is off by at most 1e-5 of what its two columns allow.
func TestGoldenHessians(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "hessians.json"))
	must(t, err)
	var gold struct {
		Chunks, Layer, Expert int
		Counts                []int64
		Inputs                map[string]struct {
			Rows, Columns int
			Trace, Norm   float64
			At            []int
			H             [][]float64
		}
	}
	must(t, json.Unmarshal(data, &gold))
	o := openModel(t, "demo")
	corpora, err := demo.Corpora()
	must(t, err)
	text := corpora[slices.IndexFunc(corpora, func(c demo.Corpus) bool { return c.Name == demo.Calibration })]
	var chunks [][]int32
	for k := range gold.Chunks {
		chunks = append(chunks, text.Chunk(k))
	}
	at := func(k topology.Kind, layer, expert int, projection string) model.Place {
		return model.Place{Kind: k, Layer: layer, Expert: expert, Projection: projection}
	}
	names := map[model.Place]string{
		at(topology.Attention, gold.Layer, -1, "q"):          "q",
		at(topology.Attention, gold.Layer, -1, "o"):          "o",
		at(topology.Router, gold.Layer, -1, ""):              "router",
		at(topology.SharedExpert, gold.Layer, -1, "down"):    "shared down",
		at(topology.Expert, gold.Layer, gold.Expert, "down"): "expert down",
		at(topology.MLP, 0, -1, "down"):                      "dense down",
		at(topology.Head, -1, -1, ""):                        "head",
	}
	compared, worst := 0, 0.0
	each := func(v Wave) error {
		if v.Counts != nil && v.Counts.Layer == gold.Layer && !slices.Equal(v.Counts.Expert, gold.Counts) {
			t.Errorf("tokens of experts are %v, want %v", v.Counts.Expert, gold.Counts)
		}
		for _, m := range v.Moments {
			want, ok := gold.Inputs[names[m.At]]
			if !ok {
				continue
			}
			compared++
			if m.Rows != int64(want.Rows) || m.N != want.Columns {
				t.Fatalf("%s: %d rows of %d, want %d of %d", m.At, m.Rows, m.N, want.Rows, want.Columns)
			}
			var trace, norm, sum float64
			for _, h := range m.H.Data {
				norm += float64(h) * float64(h)
			}
			diagonal := func(i int) float64 { return float64(m.H.Data[i*m.N+i]) }
			for i := range m.N {
				trace += diagonal(i)
				sum += m.Sum2[i]
			}
			for name, pair := range map[string][2]float64{
				"trace": {trace, want.Trace}, "sum of second moments": {sum, want.Trace}, "norm": {math.Sqrt(norm), want.Norm},
			} {
				if d := math.Abs(pair[0]/pair[1] - 1); !(d <= 1e-5) {
					t.Errorf("%s: %s is %g, want %g", m.At, name, pair[0], pair[1])
				}
			}
			for i, r := range want.At {
				for j, c := range want.At {
					d := math.Abs(float64(m.H.Data[r*m.N+c])-want.H[i][j]) / math.Sqrt(want.H[i][i]*want.H[j][j])
					if worst = max(worst, d); !(d <= 1e-5) {
						t.Errorf("%s: (%d, %d) is %g, want %g", m.At, r, c, m.H.Data[r*m.N+c], want.H[i][j])
					}
				}
			}
		}
		return nil
	}
	src := o.source()
	w, err := model.NewWalk(t.Context(), o.spec, src, chunks, model.WalkOptions{Set: kernels.Best(), Threads: 2})
	must(t, err)
	defer w.Close()
	col := NewCollector(CollectOptions{Set: kernels.Best(), Threads: 2})
	for i := range o.spec.Layers {
		must(t, col.LayerPass(t.Context(), w, src, wantsOf(o, &o.spec.Layers[i], nil), each))
	}
	must(t, col.Head(t.Context(), w, src, Want{Input: HeadInput(o.spec, src), Hessian: true}, each))
	if compared != len(gold.Inputs) || compared != len(names) {
		t.Errorf("compared %d inputs, want %d", compared, len(gold.Inputs))
	}
	t.Logf("the worst element is off by %.1e", worst)
}
