package verify

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/quant/export"
	"quantscope/quant/method"
	"quantscope/quant/recipe"
	"quantscope/quant/topology"
)

// mixedSession is a session that made a mixture.
type mixedSession struct {
	session
	name, sum string
	how       map[string]string
}

func (s mixedSession) Recipe(variant string) (string, string, bool) {
	return s.name, s.sum, variant == s.variant
}

func (s mixedSession) How(variant, matrix string) (string, bool) {
	how, ok := s.how[matrix]
	return how, ok && variant == s.variant
}

const mixedSum = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

// exportMixed exports attention in FP8, expert 0 in NVFP4 and expert 1 in NVFP4 by
// another method.
func exportMixed(t testing.TB, layout string) (exported, mixedSession) {
	t.Helper()
	src := t.TempDir()
	writeSource(t, src, moe)
	ck, model := openSource(t, src)
	sel, err := recipe.Select(model, "*_proj*")
	if err != nil {
		t.Fatal(err)
	}
	variants := []method.Variant{variantWith(t, "fp8-channel", layout), variantWith(t, "nvfp4", layout), variantWith(t, "nvfp4+mse", layout)}
	s := mixedSession{session: session{variant: "recipe:mix"}, name: "mix", sum: mixedSum, how: map[string]string{}}
	var of []int
	for _, m := range sel.Matrices {
		g := 0
		if m.Role.Kind == topology.Expert {
			g = 1 + m.Role.Expert
		}
		of = append(of, g)
		s.how[m.Name] = variants[g].Name
	}
	plan, err := export.NewMixedPlan(ck, model, sel.Matrices, variants, of, export.Settings{Layout: layout, Globals: export.Shared, Recipe: export.Recipe{Name: "mix", SHA256: mixedSum}})
	if err != nil {
		t.Fatal(err)
	}
	e := exportPlan(t, ck, model, filepath.Join(t.TempDir(), "out"), plan)
	s.taps = e.taps
	return e, s
}

// TestGoodMixtures: every tensor of a mixture is made again by its group of the
// receipt, held against the session's record, and counted by group.
func TestGoodMixtures(t *testing.T) {
	for _, layout := range []string{export.CompressedTensors, export.ModelOpt} {
		t.Run(layout, func(t *testing.T) {
			e, s := exportMixed(t, layout)
			rep := e.good(t, Options{Session: s})
			if rep.From != "config" || rep.Recipe != "mix" || rep.RecipeSHA256 != mixedSum || len(rep.Groups) != 3 || len(rep.Notes) != 0 {
				t.Errorf("%+v", rep)
			}
			for _, g := range rep.Groups {
				want := map[string]int{"fp8-channel": 4, "nvfp4": 3, "nvfp4+mse": 3}[g.Variant]
				if g.Modules != want || g.Reproduced != want {
					t.Errorf("%+v, want %d", g, want)
				}
			}
			// Without the receipt two methods of one scheme cannot be told apart, and the
			// other scheme can.
			forget(t, e.dir)
			if rep := e.verify(t, Options{}); rep.From != "found" || rep.QuantizedReproduced < 7 || len(rep.Groups) != 0 || rep.Recipe != "" {
				t.Errorf("%+v", rep)
			}
		})
	}
}

// receiptGroups changes the receipt of an export.
func receiptGroups(t testing.TB, dir string, change func(receipt map[string]any, groups []any)) {
	t.Helper()
	jsonOf(t, dir, "config.json", func(m map[string]any) {
		r := m["quantization_config"].(map[string]any)["quantscope"].(map[string]any)
		change(r, r["groups"].([]any))
	})
}

// TestMixtureFaults: what is wrong with a mixture is named, in the tensor that it is
// wrong of.
func TestMixtureFaults(t *testing.T) {
	gate := func(expert string) string { return layer + "mlp.experts." + expert + ".gate_proj.weight_packed" }
	group := func(groups []any, variant string) map[string]any {
		i := slices.IndexFunc(groups, func(g any) bool { return g.(map[string]any)["variant"] == variant })
		return groups[i].(map[string]any)
	}
	for _, c := range []struct {
		name   string
		do     func(t *testing.T, e *exported, s *mixedSession)
		id     string
		tensor string
		words  []string
	}{
		{"groups of one scheme swapped in the receipt", func(t *testing.T, e *exported, _ *mixedSession) {
			receiptGroups(t, e.dir, func(_ map[string]any, groups []any) {
				a, b := group(groups, "nvfp4"), group(groups, "nvfp4+mse")
				a["targets"], b["targets"] = b["targets"], a["targets"]
			})
		}, ScalesDiffer, layer + "mlp.experts.0.gate_proj.weight_scale", []string{"nvfp4+mse"}},
		{"a tensor in the group of another scheme", func(t *testing.T, e *exported, _ *mixedSession) {
			receiptGroups(t, e.dir, func(_ map[string]any, groups []any) {
				a, b := group(groups, "fp8-channel"), group(groups, "nvfp4")
				a["targets"], b["targets"] = b["targets"], a["targets"]
			})
		}, "config-contradicts", gate("0"), []string{"is stored as nvfp4", "fp8-channel"}},
		{"a tensor in no group", func(t *testing.T, e *exported, _ *mixedSession) {
			receiptGroups(t, e.dir, func(_ map[string]any, groups []any) { group(groups, "nvfp4")["targets"] = []any{"nothing"} })
		}, "config-contradicts", gate("0"), []string{"none of the groups"}},
		{"a tensor in two groups", func(t *testing.T, e *exported, _ *mixedSession) {
			receiptGroups(t, e.dir, func(_ map[string]any, groups []any) { group(groups, "nvfp4")["targets"] = []any{"re:.*experts.*"} })
		}, "config-contradicts", gate("1"), []string{"several have"}},
		{"groups of the config swapped", func(t *testing.T, e *exported, _ *mixedSession) {
			jsonOf(t, e.dir, "config.json", func(m map[string]any) {
				g := m["quantization_config"].(map[string]any)["config_groups"].(map[string]any)
				a, b := g["group_0"].(map[string]any), g["group_1"].(map[string]any)
				a["targets"], b["targets"] = b["targets"], a["targets"]
			})
		}, "config-contradicts", gate("0"), []string{"group_0"}},
		{"codes of two groups swapped", func(t *testing.T, e *exported, _ *mixedSession) {
			swapTensors(t, e.dir, gate("0"), gate("1"))
		}, CodesDiffer, gate("1"), []string{"nvfp4+mse"}},
		{"another recipe than the session's", func(_ *testing.T, _ *exported, s *mixedSession) { s.sum = strings.Repeat("0", 64) },
			RecipeDiffers, "", []string{mixedSum, strings.Repeat("0", 64)}},
		{"another name than the session's", func(_ *testing.T, _ *exported, s *mixedSession) { s.name = "mixed" },
			RecipeDiffers, "", []string{"mix", "mixed"}},
		{"another group than the session's", func(_ *testing.T, _ *exported, s *mixedSession) {
			s.how[layer+"mlp.experts.0.gate_proj.weight"] = "nvfp4+sweep"
		}, RecipeDiffers, gate("0"), []string{"made as nvfp4,", "nvfp4+sweep"}},
		{"what the session kept", func(_ *testing.T, _ *exported, s *mixedSession) {
			delete(s.how, layer+"mlp.experts.0.gate_proj.weight")
		}, RecipeDiffers, gate("0"), []string{"keeps it"}},
		{"a record of another tensor", func(_ *testing.T, _ *exported, s *mixedSession) {
			s.taps[layer+"self_attn.q_proj.weight"] = s.taps[layer+"self_attn.o_proj.weight"]
		}, RecordDiffers, layer + "self_attn.q_proj.weight", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, s := exportMixed(t, export.CompressedTensors)
			c.do(t, &e, &s)
			rep := e.verify(t, Options{Session: s})
			i := slices.IndexFunc(rep.Problems, func(p Problem) bool { return p.ID == c.id && p.Tensor == c.tensor })
			if rep.OK || i < 0 {
				t.Fatalf("no %s of %q in %v", c.id, c.tensor, rep.Problems)
			}
			for _, w := range c.words {
				if !strings.Contains(rep.Problems[i].Message, w) {
					t.Errorf("%q does not name %q", rep.Problems[i].Message, w)
				}
			}
		})
	}
	t.Run("an unknown variant in the receipt", func(t *testing.T) {
		e, _ := exportMixed(t, export.CompressedTensors)
		receiptGroups(t, e.dir, func(_ map[string]any, groups []any) { group(groups, "fp8-channel")["variant"] = "fp8-channel+magic" })
		rep := e.verify(t, Options{})
		if !rep.OK || rep.QuantizedReproduced != 10 || !slices.ContainsFunc(rep.Notes, func(n string) bool { return strings.Contains(n, "fp8-channel+magic") }) {
			t.Errorf("%+v", rep)
		}
	})
}

// swapTensors swaps the bytes of two tensors of one size.
func swapTensors(t testing.TB, dir, a, b string) {
	t.Helper()
	var of [2][]byte
	for i, name := range []string{a, b} {
		bytesOf(t, dir, name, func(raw []byte) { of[i] = bytes.Clone(raw) })
	}
	for i, name := range []string{b, a} {
		bytesOf(t, dir, name, func(raw []byte) { copy(raw, of[i]) })
	}
}

// TestRecipeOfOneScheme: a recipe whose groups are one variant leaves a receipt
// without groups, and is made again by it.
func TestRecipeOfOneScheme(t *testing.T) {
	src := t.TempDir()
	writeSource(t, src, moe)
	ck, model := openSource(t, src)
	sel, err := recipe.Select(model, "*experts*")
	if err != nil {
		t.Fatal(err)
	}
	v := []method.Variant{variantWith(t, "nvfp4+mse", export.ModelOpt)}
	plan, err := export.NewMixedPlan(ck, model, sel.Matrices, v, make([]int, len(sel.Matrices)), export.Settings{Layout: export.ModelOpt, Globals: export.Shared, Recipe: export.Recipe{Name: "one", SHA256: mixedSum}})
	if err != nil {
		t.Fatal(err)
	}
	e := exportPlan(t, ck, model, filepath.Join(t.TempDir(), "out"), plan)
	rep := e.good(t, Options{})
	if rep.Variant != "nvfp4+mse" || rep.From != "config" || rep.Recipe != "one" || len(rep.Groups) != 1 || rep.Groups[0].Reproduced != 6 {
		t.Errorf("%+v", rep)
	}
	if _, err := os.Stat(filepath.Join(e.dir, "hf_quant_config.json")); err != nil {
		t.Error(err)
	}
}
