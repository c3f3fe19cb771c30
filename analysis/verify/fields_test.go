package verify

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/quant/export"
)

// One wrong bit in any field of any layout is found in its tensor.
func TestEveryFieldOfEveryLayout(t *testing.T) {
	ids := map[string]string{
		"weight": CodesDiffer, "weight_packed": CodesDiffer, "weight_scale": ScalesDiffer, "weight_zero_point": MinsDiffer, "weight_min": MinsDiffer,
		"weight_scale_2": GlobalDiffers, "weight_global_scale": GlobalDiffers, "weight_shape": "module-incomplete",
	}
	for _, c := range []struct{ layout, variant string }{
		{"modelopt", "nvfp4"}, {"modelopt", "fp8"}, {"modelopt", "fp8-channel"}, {"modelopt", "fp8-block128"},
		{"compressed-tensors", "nvfp4"}, {"compressed-tensors", "mxfp4"}, {"compressed-tensors", "fp8"}, {"compressed-tensors", "fp8-channel"},
		{"compressed-tensors", "fp8-block128"}, {"compressed-tensors", "int4-g32"}, {"compressed-tensors", "int4-g128-sym"}, {"quantscope", "int4-g64"},
	} {
		t.Run(c.layout+" "+c.variant, func(t *testing.T) {
			t.Parallel() // most of it waits for files to be durable
			good := exportTiled(t, c.variant, c.layout)
			ck, _ := openSource(t, good.dir)
			const module = layer + "self_attn.q_proj."
			fields := 0
			for i := range ck.Tensors {
				s := &ck.Tensors[i]
				param, ok := strings.CutPrefix(s.Name, module)
				if !ok {
					continue
				}
				fields++
				bad := good.copied(t)
				bytesOf(t, bad.dir, s.Name, func(raw []byte) { raw[len(raw)/2] ^= 1 })
				rep := bad.verify(t, Options{})
				want := ids[param]
				if param == "weight_scale" && s.Elements() == 1 {
					want = GlobalDiffers // the scale of the tensor
				}
				found := false
				for _, p := range rep.Problems {
					found = found || p.ID == want && (p.Tensor == s.Name || want == "module-incomplete" && strings.HasPrefix(p.Tensor, module)) && p.File == firstShard
				}
				if !found || rep.OK || want == "" {
					t.Errorf("%s: no %s in %v", s.Name, want, rep.Problems)
				}
			}
			if fields < 2 {
				t.Errorf("%d fields", fields)
			}
		})
	}
}

// Tensors that are read in several pieces are read to their ends, and positions
// count from the start of the tensor.
func TestFaultsInLaterPieces(t *testing.T) {
	src := t.TempDir()
	writeSource(t, src, [][]spec{
		{{"model.embed_tokens.weight", []int64{1200, 1024}}, {layer + "self_attn.q_proj.weight", []int64{1280, 1024}}},
		{{"lm_head.weight", []int64{8, 1024}}},
	})
	ck, model := openSource(t, src)
	for _, c := range []struct {
		layout, variant, scale string
		row                    int // of the changed scale's row of scales
	}{{"compressed-tensors", "nvfp4", "weight_scale", 1000}, {"compressed-tensors", "int4-g128", "weight_scale", 1000}, {"modelopt", "fp8-block128", "weight_scale", 9}} {
		t.Run(c.variant, func(t *testing.T) {
			e := exportTo(t, ck, model, filepath.Join(t.TempDir(), "out"), "*_proj*", c.variant, c.layout, export.Shared)
			e.good(t, Options{})
			out, _ := openSource(t, e.dir)
			const module = layer + "self_attn.q_proj."
			codes, scales := module+"weight", module+c.scale
			if _, ok := out.Lookup(codes); !ok {
				codes += "_packed"
			}
			bytesOf(t, e.dir, "model.embed_tokens.weight", func(raw []byte) { raw[1<<20+5] ^= 1 })
			bytesOf(t, e.dir, codes, func(raw []byte) { raw[len(raw)-1] ^= 1 })
			rows := 1280
			if c.variant == "fp8-block128" {
				rows = 10
			}
			bytesOf(t, e.dir, scales, func(raw []byte) { raw[len(raw)/rows*c.row] ^= 1 })
			rep := e.verify(t, Options{})
			want := map[string]string{
				TensorChanged: "the first at byte 1048581", CodesDiffer: "[1279,10", ScalesDiffer: fmt.Sprintf("1 scales differ from what %s", c.variant),
			}
			for id, words := range want {
				if !slices.ContainsFunc(rep.Problems, func(p Problem) bool { return p.ID == id && strings.Contains(p.Message, words) }) {
					t.Errorf("no %s with %q in %v", id, words, rep.Problems)
				}
			}
			if at := fmt.Sprintf("[%d,0]", c.row); !strings.Contains(fmt.Sprint(rep.Problems), at) || len(rep.Problems) != 3 {
				t.Errorf("no scale at %s in %v", at, rep.Problems)
			}
		})
	}
}
