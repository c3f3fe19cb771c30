package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"quantscope/analysis/landscape"
	"quantscope/quant/topology"
	"quantscope/sessions"
)

// hostile is a name that would run, load or break out, were it markup.
const hostile = `layers.0.<script>alert(1)</script>"'><img src=x onerror=alert(2)>&amp;`

// fixture is a finished session of layers × experts × three projections under
// some variants; rel2 of each is Gaussian about a mean of its own.
func fixture(layers, experts int, variants ...string) *sessions.State {
	st := &sessions.State{Meta: sessions.Meta{
		Path: "/somewhere/run.qscope", SourcePath: "/models/toy", SourceIdentity: strings.Repeat("5c", 32), Family: "glm4_moe", Summary: "toy of the tests",
		Targets: "default: routed experts", Program: "test", KernelSet: "ref", SourceBytes: 10_400_000, CreatedUnixMS: 1_764_460_800_000,
	}}
	for l := 1; l <= layers; l++ {
		for e := range experts {
			for _, p := range []string{"gate", "up", "down"} {
				st.Tensors = append(st.Tensors, sessions.Tensor{
					ID: len(st.Tensors), Name: fmt.Sprintf("model.layers.%d.mlp.experts.%d.%s_proj.weight", l, e, p), File: "model.safetensors", DType: "BF16", Rows: 64, Cols: 64,
					Role: topology.Role{Kind: topology.Expert, Layer: l, Expert: e, Projection: p, Param: "weight", MTP: l == layers && layers > 1},
				})
			}
		}
	}
	rng := rand.New(rand.NewPCG(7, 7))
	for v, name := range variants {
		st.Variants = append(st.Variants, sessions.Variant{ID: v, Name: name, Effective: name, Scheme: "nvfp4", BitsPerWeight: 4.5})
		records := make([]sessions.Record, len(st.Tensors))
		for t := range records {
			rel2 := 0.009 * (1 - 0.2*float64(v)) * (1 + 0.01*rng.NormFloat64())
			records[t] = sessions.Record{
				Seq: int64(1 + v*len(records) + t), Variant: v, Tensor: t, Rel2: rel2, RelL2: math.Sqrt(rel2), Cos: 1 - rel2/2, Amax: 0.1, W2: 1, E2: rel2,
				Elements: 4096, Blocks: 256, Shallow: 120, Deep: int64(v % 2 * (30 + t%9)),
			}
		}
		st.Records = append(st.Records, records)
	}
	n := int64(len(st.Tensors) * len(variants))
	st.Progress = sessions.Progress{State: sessions.RunFinished, Done: n, Total: n}
	return st
}

// build makes a report, or fails the test.
func build(t *testing.T, st *sessions.State, o Options) *Report {
	t.Helper()
	r, err := Build(t.Context(), st, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// write is the report as HTML.
func write(t *testing.T, r *Report) string {
	t.Helper()
	var b strings.Builder
	if err := r.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// interval is a value with an interval around it.
func interval(v, half float64) landscape.Value {
	return landscape.Value{V: v, Low: v - half, High: v + half}
}
