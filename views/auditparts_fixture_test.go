package views

import (
	"testing"

	"quantscope/analysis/lint"
	recipes "quantscope/quant/plan"
	"quantscope/sessions"
	"quantscope/views/viewstest"
)

// plannedState is the demo's session with a second variant that follows a recipe:
// gates and ups are nvfp4, downs int4 with GPTQ, and the MTP layer is kept. Three
// downs ran as rounding to nearest.
func plannedState(t testing.TB) *sessions.State {
	t.Helper()
	st := viewstest.Empty(viewstest.Experts(1, 4, 1, 16), "nvfp4", "recipe:mix")
	st.Meta = viewstest.Demo().Meta
	run := &sessions.RecipeRun{Variant: 1, Name: "mix", Schemes: []string{"nvfp4", "int4-g128+gptq"}}
	for _, name := range run.Schemes {
		v := viewstest.Empty(nil, name).Variants[0]
		run.Groups = append(run.Groups, v)
	}
	for i := range st.Tensors {
		g := 0
		switch {
		case st.Tensors[i].Role.MTP:
			g = -1
		case st.Tensors[i].Role.Projection == "down":
			g = 1
		}
		run.Of = append(run.Of, g)
		viewstest.Measure(st, 0, i)
		if g >= 0 {
			viewstest.Measure(st, 1, i)
		}
	}
	run.Plan = madeUpPlan()
	st.Recipes = []*sessions.RecipeRun{run}
	fell := 0
	for i := range st.Tensors {
		if run.Of[i] == 1 && fell < 3 {
			fell++
			st.Log = append(st.Log, sessions.Event{
				Seq: st.LastSeq + int64(fell), Kind: sessions.EventFallback, Variant: 1, Tensor: i,
				Requested: "int4-g128+gptq", Effective: "int4-g128", Why: "no token came to its inputs", Message: "int4-g128 in place of int4-g128+gptq",
			})
		}
	}
	st.LastSeq += int64(fell)
	st.Exports = []sessions.ExportRef{{Dir: "out", Abs: "/data/out", Layout: "compressed-tensors", State: sessions.ExportWhole}}
	return st
}

// madeUpPlan is a plan with something of everything in it.
func madeUpPlan() *recipes.Plan {
	return &recipes.Plan{
		Recipe: "mix", Summary: "glm4_moe · 4+1 MoE layers", Layout: "compressed-tensors",
		Groups: []recipes.Group{
			{Share: recipes.Share{Scheme: "nvfp4", Variant: "nvfp4", Matrices: 128, Params: 2_097_152, ShareParams: 0.42, BytesBefore: 4_194_304, BytesAfter: 1_179_648}, BitsPerWeight: 4.5,
				Targets: []recipes.Pattern{{Pattern: `re:model\.layers\.[1-4]\.mlp\.experts\..*\.(?:gate_proj|up_proj)$`, Matches: 128}}},
			{Share: recipes.Share{Scheme: "int4-g128", Variant: "int4-g128+gptq", Matrices: 64, Params: 1_048_576, ShareParams: 0.21, BytesBefore: 2_097_152, BytesAfter: 557_056}, BitsPerWeight: 4.25,
				Targets: []recipes.Pattern{{Pattern: "*.down_proj", Matches: 64}, {Pattern: "*.dwon_proj"}}},
		},
		Ignore:     []recipes.Pattern{{Pattern: "re:.*norm.*", Modules: 56}, {Pattern: "lm_head", Matches: 1}},
		Exemptions: []recipes.Pattern{{Pattern: "*.experts.3.*", Matches: 12}},
		Kept: []recipes.Share{
			{Scheme: "bf16", Matrices: 100, Params: 1_800_000, ShareParams: 0.37, BytesBefore: 3_600_000, BytesAfter: 3_600_000},
			{Scheme: "f32", Params: 80, ShareParams: 1.6e-5, BytesBefore: 320, BytesAfter: 320},
		},
		Matrices: 292, Targeted: 192, Ignored: 50, Exempted: 12, Untargeted: 38,
		Coverage: []recipes.Cover{
			{Kind: "expert", Matrices: 240, Targeted: 192, Ignored: 10, Untargeted: 38, Params: 3_932_160},
			{Kind: "shared_expert", Matrices: 52, Ignored: 40, Exempted: 12, Params: 245_760},
		},
		Experts: &recipes.Experts{Layers: 4, Experts: 16, Projections: 3, MTPLayers: 1, Expected: 240, Targeted: 192, Kept: 10, Missing: []string{"layer 4: experts 3-15"}},
		Before:  recipes.Memory{Ranks: 2, WeightsBytes: 4_000_000, KVBytes: 1_000_000}, After: recipes.Memory{Ranks: 2, WeightsBytes: 1_500_000, KVBytes: 1_000_000, Loader: "Glm4MoeForCausalLM",
			LeftOut: []recipes.Part{{Name: "MTP layers", Bytes: 2_360_000, Why: "a class of its own loads it, when tokens are drafted"}}, Notes: []string{"heads are divided by two"}},
		Params: 5_000_000, BytesBefore: 10_400_000, BytesAfter: 5_300_000, BitsBefore: 16, BitsAfter: 8.48,
		DecodeBefore: recipes.Decode{BytesPerToken: 4_500_000, BytesPerRank: 2_250_000}, DecodeAfter: recipes.Decode{BytesPerToken: 2_000_000, BytesPerRank: 1_000_000},
		Findings: []recipes.Finding{
			{ID: recipes.TargetNoMatch, Severity: recipes.Error, Where: "groups[1].targets[1]", Pattern: "*.dwon_proj", Message: "matches no matrix", Fix: "did you mean *.down_proj?"},
			{ID: recipes.MTPTargeted, Severity: recipes.Warning, Tensor: "model.layers.5.mlp.experts.2.up_proj.weight", Message: "1 matrix in an MTP layer is targeted", Fix: "name the layer in ignore"},
		},
		SchemeShares: []recipes.Share{{Scheme: "nvfp4", ShareParams: 0.42}, {Scheme: "bf16", ShareParams: 0.37}, {Scheme: "int4-g128", ShareParams: 0.21}, {Scheme: "f32", ShareParams: 1.6e-5}},
	}
}

// explained are findings in full.
func explained() []lint.Finding {
	list := madeUpFindings()
	list[0].Explanation = "Servers fuse gate and up into one matrix and keep one second-level scale for it."
	list[0].Server = "It decodes the others off by the ratio."
	list[0].Evidence = []lint.Evidence{{What: "pairs that differ", Value: "6 of 16"}, {What: "largest ratio", Value: "1.2"}}
	list[0].More = 4
	return append(list,
		lint.Finding{ID: "tokenizer-truncation", Severity: lint.Error, File: "tokenizer.json", Line: 12, Message: "truncation to max_length 512 is baked in", Fix: "set truncation to null", Mend: lint.MendTokenizer},
		lint.Finding{ID: "head-quantized", Severity: lint.Note, File: "model.safetensors", Tensor: "lm_head.weight", Message: "lm_head is packed as fp8-channel"},
		lint.Finding{ID: "mtp-lost", Severity: lint.Warning, Message: "the config declares an MTP layer that is not there"})
}

// partsScene looks at an export with findings, of a session with a recipe.
func partsScene(s *Scene) *Scene { return auditScene(s, madeUpCensus(5, 16, true), explained()) }
