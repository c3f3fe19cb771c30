package calibrate

import (
	"context"
	"strings"
	"testing"

	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/kernels"
	"quantscope/quant/demo"
	"quantscope/quant/method"
	"quantscope/quant/recipe"
)

// demoReference opens the demo for the time of a test.
func demoReference(t testing.TB) *candidate.Candidate {
	t.Helper()
	return openReference(t, demo.Label)
}

func openReference(t testing.TB, path string) *candidate.Candidate {
	t.Helper()
	c, err := candidate.Open(context.Background(), path, candidate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// demoText is the demo's text for calibration, at most so many chunks of it.
func demoText(t testing.TB, ref *candidate.Candidate, chunks int) *corpus.Corpus {
	t.Helper()
	list, err := corpus.Load(context.Background(), demo.Calibration, corpus.Options{Tokenizer: ref.Tokenizer, Chunks: chunks, Calib: true})
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}

// setup is a variant of the reference's targets, "" for the default ones.
func setup(t testing.TB, ref *candidate.Candidate, variant, targets string, chunks int) Setup {
	t.Helper()
	v, err := method.Parse(variant)
	if err != nil {
		t.Fatal(err)
	}
	sel, err := recipe.Select(ref.Topology, targets)
	if err != nil {
		t.Fatal(err)
	}
	return Setup{Reference: ref, Variant: v, Targets: targets, Matrices: sel.Matrices, Corpus: demoText(t, ref, chunks), Set: kernels.Best(), Threads: 2, Program: "test"}
}

// calibrated runs a setup to its end.
func calibrated(t testing.TB, s Setup, sink Sink) *Outcome {
	t.Helper()
	j, err := Prepare(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	out, err := j.Run(context.Background(), sink)
	if err != nil {
		t.Fatal(err)
	}
	if out.Store != nil {
		t.Cleanup(func() {
			if err := out.Store.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return out
}

// TestDenseFirstLayer: a model whose layer 0 is dense calibrates its experts, those
// of the MTP layer too, each by what is routed to it, and is better for it.
func TestDenseFirstLayer(t *testing.T) {
	ref := demoReference(t)
	if ref.Arch.Layers[0].MoE != nil || ref.Arch.Layers[1].MoE == nil || len(ref.Arch.MTP) == 0 {
		t.Fatal("the demo is another model")
	}
	const chunks = 32
	s := setup(t, ref, "int4-g128+gptq", "", chunks)
	tokens := s.Corpus.Tokens()
	var units []string
	experts := map[int]int64{}
	results := 0
	out := calibrated(t, s, Sink{
		Unit: func(u string, _ float64) error { units = append(units, u); return nil },
		Counts: func(c Counts) {
			for _, n := range c.Expert {
				experts[c.Layer] += n
			}
			if c.MTP != (c.Layer == 5) || c.TopK != 2 || len(c.Expert) != 16 {
				t.Errorf("%+v", c)
			}
		},
		Matrix: func(r Result) error {
			results++
			m := s.Matrices[r.Matrix]
			tr := r.Trade
			if tr.Effective != "int4-g128+gptq" || tr.Why != "" || tr.Changed == 0 || r.Codes.Name != m.Name || r.Source.Data == nil || r.Tap.Elements != int64(m.Rows*m.Cols) {
				t.Errorf("%s: %+v", m.Name, tr)
			}
			if tr.Rel2 < tr.BaseRel2 || tr.Out2 <= 0 || tr.OutRows != 0 || tr.Cond < 1 || tr.DampShare <= 0 || tr.DampShare >= 1 {
				t.Errorf("%s: weight error %v of %v, output error %v of %v, condition %v, damping %v", m.Name, tr.Rel2, tr.BaseRel2, tr.Out2, tr.BaseOut2, tr.Cond, tr.DampShare)
			}
			if m.Role.Projection != "down" && tr.Tokens != tokens && tr.Tokens != tokens-chunks {
				t.Errorf("%s: measured on %d tokens", m.Name, tr.Tokens)
			}
			return nil
		},
	})
	if got := strings.Join(units, ","); got != "layer 1,layer 2,layer 3,layer 4,mtp 5" || results != 240 {
		t.Errorf("%s, %d matrices", got, results)
	}
	for l, n := range experts {
		want := 2 * tokens
		if l == 5 { // the last token of a chunk has none after it
			want -= 2 * chunks
		}
		if n != want {
			t.Errorf("experts of layer %d were given %d tokens, want %d", l, n, want)
		}
	}
	if len(experts) != 5 {
		t.Errorf("tokens are counted in %d layers", len(experts))
	}
	if err := out.Gate(); err != nil {
		t.Error(err)
	}
	if out.Calibrated != 240 || len(out.Fallbacks) != 0 || out.FellBack != 0 || out.Params != 240*128*128 || !out.Rank.Met() {
		t.Errorf("%+v", out)
	}
	if m := out.All; float64(m.Out2) > 0.8*float64(m.BaseOut2) {
		t.Errorf("output error %v of %v", m.Out2, m.BaseOut2)
	}
}
