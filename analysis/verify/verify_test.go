package verify

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/export"
	"quantscope/quant/method"
)

// variantsOf are the variants that a layout can store.
func variantsOf(t testing.TB, layout string) []string {
	t.Helper()
	var out []string
	for _, h := range method.Plain() {
		v, err := method.Parse(h.Name)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(export.Formats(layout), v.Scheme) {
			out = append(out, h.Name)
		}
	}
	if len(out) == 0 {
		t.Fatalf("%s stores none of the variants", layout)
	}
	return out
}

// session is what an export was made with.
type session struct {
	variant string
	taps    map[string]kernels.Tap
}

func (s session) Variants() []string { return []string{"other", s.variant} }

func (s session) Record(_ context.Context, variant, name string) (kernels.Tap, bool, error) {
	tap, ok := s.taps[name]
	return tap, ok && variant == s.variant, nil
}

func (e *exported) session(variant string) Session { return session{variant, e.taps} }

// A good export passes in every layout and by every method that has one, with
// what its config says of how it was made and without; the report says what was
// compared.
func TestGoodExports(t *testing.T) {
	for _, layout := range export.Layouts() {
		for _, variant := range variantsOf(t, layout) {
			t.Run(layout+" "+variant, func(t *testing.T) {
				t.Parallel() // most of it waits for files to be durable
				if _, err := export.DefaultConvention(layout, variantWith(t, variant, layout).Scheme); err != nil {
					t.Fatal(err)
				}
				e := exportTiled(t, variant, layout)
				rep := e.good(t, Options{Session: e.session(variant)})
				if rep.Variant != variant || rep.From != "config" || rep.Method != layout {
					t.Errorf("variant %q from %q, method %q", rep.Variant, rep.From, rep.Method)
				}
				forget(t, e.dir)
				rep = e.good(t, Options{})
				if rep.From != "found" {
					t.Errorf("variant %q from %q", rep.Variant, rep.From)
				}
			})
		}
	}
}

// exportTiled exports the attention of a model that has sides of whole tiles.
func exportTiled(t testing.TB, variant, layout string) exported {
	t.Helper()
	src := t.TempDir()
	writeSource(t, src, [][]spec{
		{{"model.embed_tokens.weight", []int64{8, 128}}, {layer + "self_attn.q_proj.weight", []int64{256, 128}}, {layer + "self_attn.k_proj.weight", []int64{128, 128}}},
		{{layer + "self_attn.v_proj.weight", []int64{128, 128}}, {layer + "self_attn.o_proj.weight", []int64{128, 256}}, {"lm_head.weight", []int64{8, 128}}},
	})
	ck, model := openSource(t, src)
	return exportTo(t, ck, model, filepath.Join(t.TempDir(), "out"), "*self_attn*", variant, layout, export.Shared)
}

// forget takes out of the config how the export was made.
func forget(t testing.TB, dir string) {
	t.Helper()
	jsonOf(t, dir, "config.json", func(m map[string]any) { delete(m["quantization_config"].(map[string]any), "quantscope") })
}

// good wants a comparison without a problem, of everything.
func (e *exported) good(t *testing.T, o Options) *Report {
	t.Helper()
	var last Progress
	o.Progress = func(p Progress) { last = p }
	rep := e.verify(t, o)
	if !rep.OK || len(rep.Problems) != 0 {
		t.Fatalf("problems %v", rep.Problems)
	}
	n := len(e.taps)
	if rep.QuantizedTensors != n || rep.QuantizedChecked != n || rep.QuantizedReproduced != n || o.Session != nil && rep.RecordsCompared != n {
		t.Errorf("%d tensors: %+v", n, rep)
	}
	if rep.UntouchedTensors == 0 || rep.UntouchedIdentical != rep.UntouchedTensors || len(rep.UntouchedXXH3) != 16 {
		t.Errorf("%+v", rep)
	}
	if last.Done != last.Total || rep.Bytes != last.Total || last.Total == 0 {
		t.Errorf("progress ends at %d of %d, %d bytes", last.Done, last.Total, rep.Bytes)
	}
	var sum, worst float64
	for _, tap := range e.taps {
		sum, worst = sum+tap.Rel2(), max(worst, tap.RelL2())
	}
	if want := sum / float64(n); math.Abs(float64(rep.MeanRel2)-want) > 1e-9*want || math.Abs(float64(rep.WorstRelL2)-worst) > 1e-9*worst {
		t.Errorf("mean rel2 %v, worst rel_l2 %v; measured when it was made: %v, %v", rep.MeanRel2, rep.WorstRelL2, want, worst)
	}
	return rep
}

// What the report counts.
func TestReport(t *testing.T) {
	e := exportMoE(t, "nvfp4", "modelopt")
	rep := e.good(t, Options{})
	if rep.UntouchedTensors != 6 || rep.UntouchedBytes != 2*(32*64+64+2*64+64+64+32*64) || rep.QuantizedTensors != 10 {
		t.Errorf("%+v", rep)
	}
	if rep.QuantizedBytes != rep.TableBytes || rep.TableBytes == 0 {
		t.Errorf("%d bytes, the table says %d", rep.QuantizedBytes, rep.TableBytes)
	}
	again := e.good(t, Options{Threads: 5})
	if again.UntouchedXXH3 != rep.UntouchedXXH3 || again.MeanRel2 != rep.MeanRel2 {
		t.Errorf("five threads report %v %v, one %v %v", again.UntouchedXXH3, again.MeanRel2, rep.UntouchedXXH3, rep.MeanRel2)
	}
}

// Experts that the source stores in one tensor are found again, one by one,
// whichever way round the source has them.
func TestFusedSources(t *testing.T) {
	turned := [][]spec{
		{{"model.embed_tokens.weight", []int64{32, 64}}, {layer + "self_attn.q_proj.weight", []int64{64, 64}}, {layer + "mlp.router.weight", []int64{2, 64}}},
		{{layer + "mlp.experts.gate_up_proj", []int64{2, 64, 96}}, {layer + "mlp.experts.down_proj", []int64{2, 48, 64}}, {"lm_head.weight", []int64{32, 64}}},
	}
	for name, shards := range map[string][][]spec{"[out, in]": fused, "[in, out]": turned} {
		t.Run(name, func(t *testing.T) {
			src := t.TempDir()
			writeSource(t, src, shards)
			if name == "[in, out]" { // gate and up alternate
				writeFile(t, filepath.Join(src, "config.json"), []byte(`{"model_type":"gpt_oss","hidden_size":64,"intermediate_size":48,"num_local_experts":2,"num_hidden_layers":1,"num_attention_heads":4}`))
			}
			ck, model := openSource(t, src)
			e := exportTo(t, ck, model, filepath.Join(t.TempDir(), "out"), "*experts*", "nvfp4", "compressed-tensors", export.Shared)
			if len(e.taps) != 6 {
				t.Fatalf("%d matrices", len(e.taps))
			}
			e.good(t, Options{Session: e.session("nvfp4")})
		})
	}
}

// Global scales of each matrix by itself are right where the export was made so,
// and wrong where its config says that they are shared.
func TestGlobalsOfEachMatrix(t *testing.T) {
	src := t.TempDir()
	writeSource(t, src, moe)
	ck, model := openSource(t, src)
	e := exportTo(t, ck, model, filepath.Join(t.TempDir(), "out"), "*_proj*", "nvfp4", "modelopt", export.PerTensor)
	e.good(t, Options{Session: e.session("nvfp4")})
}

// Records under the matrices' own global scales prove the source, not the
// export, and the report says so.
func TestRecordsUnderOwnGlobals(t *testing.T) {
	e := exportMoE(t, "nvfp4", "modelopt")
	own := exportTo(t, e.ck, e.model, filepath.Join(t.TempDir(), "own"), "*_proj*", "nvfp4", "modelopt", export.PerTensor)
	rep := e.verify(t, Options{Session: own.session("nvfp4")})
	if !rep.OK || rep.RecordsCompared != 10 {
		t.Errorf("%+v", rep)
	}
	if !slices.ContainsFunc(rep.Notes, func(n string) bool {
		return n == "4 records are under global scales other than the output's: those tensors were measured again under their own"
	}) {
		t.Errorf("notes %q", rep.Notes)
	}
}

// A session of other weights, or of another method, is told.
func TestRecordDiffers(t *testing.T) {
	e := exportMoE(t, "nvfp4", "modelopt")
	other := exportMoE(t, "nvfp4+mse", "modelopt")
	rep := e.verify(t, Options{Session: other.session("nvfp4")})
	if rep.OK || rep.RecordsCompared != 10 || !slices.ContainsFunc(rep.Problems, func(p Problem) bool {
		return p.ID == RecordDiffers && p.Tensor == layer+"self_attn.q_proj.weight" && p.File == firstShard
	}) {
		t.Errorf("%+v", rep.Problems)
	}
	delete(e.taps, layer+"mlp.experts.1.up_proj.weight")
	if _, err := Run(t.Context(), e.ck, e.model, e.dir, Options{Session: e.session("nvfp4+mse")}); !errors.Is(err, ErrSession) || !strings.Contains(err.Error(), "nvfp4+mse") {
		t.Errorf("a session without the variant: %v", err)
	}
	rep = e.verify(t, Options{Session: e.session("nvfp4")})
	if len(rep.Problems) != 1 || rep.Problems[0].ID != RecordMissing || rep.Problems[0].Tensor != layer+"mlp.experts.1.up_proj.weight" {
		t.Errorf("%+v", rep.Problems)
	}
}

// The variant that the caller states is the one that counts.
func TestStatedVariant(t *testing.T) {
	e := exportMoE(t, "nvfp4+mse", "modelopt")
	rep := e.verify(t, Options{Variant: "nvfp4"})
	if rep.OK || rep.From != "options" || rep.Variant != "nvfp4" || rep.QuantizedReproduced > 0 {
		t.Errorf("%+v", rep)
	}
	if _, err := Run(t.Context(), e.ck, e.model, e.dir, Options{Variant: "nvfp4+magic"}); err == nil {
		t.Error("a variant that does not exist is taken")
	}
}

// What ends a run: no output, an output that is no checkpoint, the end of the
// context.
func TestErrors(t *testing.T) {
	e := exportMoE(t, "nvfp4", "modelopt")
	empty := t.TempDir()
	for _, path := range []string{filepath.Join(empty, "gone"), empty} {
		if _, err := Run(t.Context(), e.ck, e.model, path, Options{}); err == nil {
			t.Errorf("%s passes for a checkpoint", path)
		}
	}
	writeFile(t, filepath.Join(empty, "incomplete-export.json"), []byte("{}"))
	if _, err := Run(t.Context(), e.ck, e.model, empty, Options{}); err == nil || !strings.Contains(err.Error(), "not finished") {
		t.Errorf("an export without a shard: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, e.ck, e.model, e.dir, Options{}); err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
}

// The source itself is no export of anything: everything is untouched.
func TestSourceAgainstItself(t *testing.T) {
	e := exportMoE(t, "nvfp4", "modelopt")
	rep, err := Run(t.Context(), e.ck, e.model, e.ck.Path, Options{})
	if err != nil || !rep.OK || rep.QuantizedTensors != 0 || rep.UntouchedIdentical != len(e.ck.Tensors) || len(rep.Notes) != 1 {
		t.Errorf("%v %+v", err, rep)
	}
	// And what was quantized already is untouched when it is copied.
	out, model := openSource(t, e.dir)
	rep, err = Run(t.Context(), out, model, e.dir, Options{})
	if err != nil || !rep.OK || rep.QuantizedTensors != 0 || rep.UntouchedIdentical != len(out.Tensors) {
		t.Errorf("%v %+v", err, rep)
	}
}

// An output that lost a whole layer, as MTP layers are lost, says so in one
// line beside the tensors.
func TestMissingLayer(t *testing.T) {
	src := t.TempDir()
	writeSource(t, src, [][]spec{
		{{"model.embed_tokens.weight", []int64{8, 64}}, {layer + "self_attn.q_proj.weight", []int64{64, 64}}, {"lm_head.weight", []int64{8, 64}}},
		{{"model.layers.1.self_attn.q_proj.weight", []int64{64, 64}}, {"model.layers.1.eh_proj.weight", []int64{64, 128}}},
	})
	ck, model := openSource(t, src)
	out := t.TempDir()
	writeSource(t, out, [][]spec{{{"model.embed_tokens.weight", []int64{8, 64}}, {layer + "self_attn.q_proj.weight", []int64{64, 64}}, {"lm_head.weight", []int64{8, 64}}}})
	rep, err := Run(t.Context(), ck, model, out, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := "layer 1 of the source, which predicts further tokens (MTP), is missing whole: 2 tensors"
	if len(rep.Problems) != 2 || !slices.Contains(rep.Notes, want) {
		t.Errorf("problems %v, notes %q, want %q", rep.Problems, rep.Notes, want)
	}
}

// The older way of ModelOpt: hf_quant_config.json alone says what is quantized.
func TestSideConfigAlone(t *testing.T) {
	e := exportMoE(t, "nvfp4", "modelopt")
	jsonOf(t, e.dir, "config.json", func(m map[string]any) { delete(m, "quantization_config") })
	if rep := e.good(t, Options{}); rep.Method != "modelopt" || rep.From != "found" {
		t.Errorf("%+v", rep)
	}
	jsonOf(t, e.dir, "hf_quant_config.json", func(m map[string]any) { m["quantization"].(map[string]any)["exclude_modules"] = []any{"lm_head"} })
	rep := e.verify(t, Options{})
	if len(rep.Problems) != 1 || rep.Problems[0].ID != "declared-not-quantized" || rep.Problems[0].Tensor != layer+"mlp.gate.weight" {
		t.Errorf("%+v", rep.Problems)
	}
}

// Weights of the source that are not finite are no reason to trust what was made
// of them, and enter no figure.
func TestNonFiniteSource(t *testing.T) {
	src := t.TempDir()
	writeSource(t, src, moe)
	bytesOf(t, src, layer+"self_attn.q_proj.weight", func(raw []byte) { raw[11], raw[10], raw[101], raw[100] = 0x7F, 0xC0, 0xFF, 0x80 }) // NaN and −Inf
	ck, model := openSource(t, src)
	e := exportTo(t, ck, model, filepath.Join(t.TempDir(), "out"), "*_proj*", "nvfp4", "modelopt", export.PerTensor)
	rep := e.verify(t, Options{})
	if len(rep.Problems) != 1 || rep.Problems[0].ID != SourceInfinite || !strings.Contains(rep.Problems[0].Message, "2 weights") {
		t.Errorf("%+v", rep.Problems)
	}
	if math.IsNaN(float64(rep.MeanRel2)) || math.IsInf(float64(rep.MeanRel2), 0) || rep.QuantizedReproduced != 10 {
		t.Errorf("%+v", rep)
	}
}

// Scales of the key-value cache are no part of any weight.
func TestCacheScales(t *testing.T) {
	e := exportMoE(t, "nvfp4", "modelopt")
	rewrite(t, e.dir, func(specs []checkpoint.Spec, data map[string][]byte) []checkpoint.Spec {
		for _, name := range []string{layer + "self_attn.k_proj.k_scale", layer + "self_attn.v_scale"} {
			data[name] = []byte{0, 0, 0x80, 0x3F}
			specs = append(specs, checkpoint.Spec{Name: name, DType: checkpoint.F32, Shape: []int64{}})
		}
		return specs
	})
	rep := e.good(t, Options{})
	if len(rep.Notes) == 0 || !strings.HasPrefix(rep.Notes[0], "2 scales of the key-value cache") {
		t.Errorf("notes %q", rep.Notes)
	}
}
