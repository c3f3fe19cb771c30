package candidate

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Sizes of the demo, by hand. Linear weights and embeddings that the pass reads,
// the MTP layer not among them:
//
//	embedding and head            2·1024·128         =   262,144
//	attention of 5 layers         5·(2·128+2·64)·128 =   245,760   5·4 matrices
//	the dense layer's MLP         3·384·128          =   147,456
//	routers                       4·16·128           =     8,192
//	routed experts                4·16·3·128·128     = 3,145,728   192 matrices
//	shared experts                4·3·128·128        =   196,608
//
// and beside them 5·(2·128+2·32)+128 norms of bf16 and 4·16 biases of f32.
func TestSizes(t *testing.T) {
	const (
		experts = 3_145_728
		all     = 262_144 + 245_760 + 147_456 + 8_192 + experts + 196_608
		beside  = 2*(5*(2*128+2*32)+128) + 4*4*16
		rest    = all - experts
		nvfp4   = experts/2 + experts/16 + 192*4 // codes, block scales, global scales
		int4    = experts/2 + 4*experts/128      // codes, bf16 scales and minima
		fp8     = experts + 192*4
	)
	ref := open(t, "demo")
	for _, c := range []struct {
		spec   string
		bytes  int64 // of the matrices
		shares []Share
		is     string
		base   string
	}{
		{"ref", 2 * all, []Share{{"bf16", 2 + 20 + 3 + 4 + 192 + 12, all, 1}}, "bf16", ""},
		{"nvfp4", nvfp4 + 2*rest, []Share{{"nvfp4", 192, experts, float64(experts) / all}, {"bf16", 41, rest, float64(rest) / all}}, "nvfp4", ""},
		{"nvfp4+rtn", nvfp4 + 2*rest, []Share{{"nvfp4", 192, experts, float64(experts) / all}, {"bf16", 41, rest, float64(rest) / all}}, "nvfp4", ""},
		{"nvfp4+mse@default", nvfp4 + 2*rest, []Share{{"nvfp4", 192, experts, float64(experts) / all}, {"bf16", 41, rest, float64(rest) / all}}, "nvfp4+mse", "nvfp4"},
		{"int4-g128+range", int4 + 2*rest, []Share{{"int4-g128", 192, experts, float64(experts) / all}, {"bf16", 41, rest, float64(rest) / all}}, "int4-g128+range", "int4-g128"},
		{"fp8@*experts*", fp8 + 196_608 + 12*4 + 2*(rest-196_608), []Share{{"fp8", 204, experts + 196_608, float64(experts+196_608) / all}, {"bf16", 29, rest - 196_608, float64(rest-196_608) / all}}, "fp8@*experts*", ""},
	} {
		got := mustParse(t, ref, c.spec, Options{})
		if got.Bytes != c.bytes+beside || math.Abs(got.BitsPerWeight-8*float64(c.bytes)/all) > 1e-12 {
			t.Errorf("%s: %d bytes, %v bits a weight; want %d, %v", c.spec, got.Bytes, got.BitsPerWeight, c.bytes+beside, 8*float64(c.bytes)/all)
		}
		if diff := cmp.Diff(got.Schemes, c.shares, cmpopts.EquateApprox(0, 1e-15)); diff != "" {
			t.Errorf("%s: %s", c.spec, diff)
		}
		if got.Effective != c.is || got.Baseline != c.base || got.Spec != c.spec || got.Label != c.spec || len(got.Fallbacks) != 0 || got.Identity != ref.Identity || got.Path != "demo" {
			t.Errorf("%+v", got)
		}
	}
	if ref.TokenizerID == "" || ref.TokenizerErr != nil || len(ref.Identity) != 64 || ref.Kind != Checkpoint {
		t.Errorf("%+v", ref)
	}
}

// A tied head is the embedding, and counts once.
func TestTiedSizes(t *testing.T) {
	c := open(t, "../model/testdata/llama_tied")
	params := int64(0)
	for _, s := range c.Schemes {
		params += s.Params
	}
	layers := int64(len(c.Arch.Layers))
	if want := 256*64 + layers*(2*64*64+2*32*64+3*96*64); params != want || c.Bytes != 2*(want+layers*2*64+64) || !c.Arch.Tied {
		t.Errorf("%d parameters, want %d; %d bytes", params, want, c.Bytes)
	}
	if c.Tokenizer != nil || c.TokenizerErr == nil || c.TokenizerID != "" {
		t.Errorf("a tokenizer: %v", c.TokenizerErr)
	}
}
