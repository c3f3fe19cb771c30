package logs

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func read(t testing.TB, text string) *Report {
	t.Helper()
	r, err := Read(t.Context(), "x.log", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A log of llama-quantize: what was asked for and what was written, and the
// fallbacks, which its exit code does not tell.
func TestLlamaQuantize(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "llama-quantize.log"))
	if err != nil {
		t.Fatal(err)
	}
	r := read(t, string(text))
	if r.Wanted != "Q4_K_M" || !slices.Equal(r.Tools, []string{llamaQuantize}) {
		t.Errorf("%s by %q", r.Wanted, r.Tools)
	}
	want := []TypeShare{ // of 14 tensors that the log has
		{"f32", "f32", 4, 4 * 576, "output_norm.weight"}, {"q8_0", "q8_0", 1, 576 * 49152, "token_embd.weight"},
		{"q4_k", "q5_0", 7, 2*576*192 + 3*576*576 + 2*576*1536, "blk.0.attn_k.weight"}, {"q6_k", "q8_0", 1, 576 * 192, "blk.0.attn_v.weight"}, {"q6_k", "q6_k", 1, 1536 * 576, "blk.0.ffn_down.weight"},
	}
	if diff := cmp.Diff(want, r.Types); diff != "" {
		t.Error(diff)
	}
	fell := 0
	for _, e := range r.Events {
		if e.ID == "log-fallback" {
			fell++
		}
	}
	if fell != 2 || len(r.Events) != 2 || r.Events[0].Module != "blk.0.attn_k.weight" || r.Events[0].Count < 10 {
		t.Errorf("%+v", r.Events)
	}
}

// Older versions say a fallback in the middle of a tensor's line, and a dry run
// writes the type in parentheses.
func TestOtherVersionsOfLlamaQuantize(t *testing.T) {
	old := "[   5/ 291]      blk.0.attn_q.weight - [  576,   576,     1,     1], type =    f16, \n\nllama_tensor_get_type : tensor cols 576 x 576 are not divisible by 256, required for q4_K - using fallback quantization q5_0\nconverting to q5_0 .. size =     0.63 MiB ->     0.22 MiB\n" +
		"[   6/ 291]    blk.0.attn_norm.weight - [  576,     1,     1,     1], type =    f32, size =    0.002 MiB\n" +
		"[   7/ 291]    blk.0.ffn_up.weight    - [  256,   512,     1,     1], type =    f16, size =     1.00 MiB ->     0.50 MiB (q4_K)\n"
	want := []TypeShare{{"q4_k", "q5_0", 1, 576 * 576, "blk.0.attn_q.weight"}, {"f32", "f32", 1, 576, "blk.0.attn_norm.weight"}, {"q4_k", "q4_k", 1, 256 * 512, "blk.0.ffn_up.weight"}}
	if diff := cmp.Diff(want, read(t, old).Types); diff != "" {
		t.Error(diff)
	}
}

// What the tools' own lines say, buried in progress bars, colours and rubbish.
func TestSigns(t *testing.T) {
	const bar = "Calibrating:  47%|████▋     | 15/32 [00:07<00:08,  1.98it/s]"
	for _, c := range []struct{ line, id, tool, module string }{
		{"2026-11-01T10:00:00 | WARNING | imatrix_mse: no importance data available. Falling back to uniform MSE.", "log-uniform-observer", llmCompressor, ""},
		{"local_hessian: model.layers.3.mlp.up_proj input features (200) not divisible by block_size (128); falling back to plain MSE for these weights.", "log-uniform-observer", modelOpt, "model.layers.3.mlp.up_proj"},
		{"====== llama_model_quantize_impl: did not find weights for blk.3.ffn_up_exps.weight", "log-uniform-observer", llamaQuantize, "blk.3.ffn_up_exps.weight"},
		{"UserWarning: 3/64 amax entries of this quantizer are invalid; calibration never activated the corresponding layer or expert (or saw NaN", "log-uncalibrated", modelOpt, ""},
		{"awq_lite: Disabling for model.layers.0.mlp.gate_proj, quantizing with max calibration.", "log-uncalibrated", modelOpt, "model.layers.0.mlp.gate_proj"},
		{"WARN Quantization: Module `model.layers.1.mlp.experts.7.up_proj` -> Using `rtn` fallback quantization (observed 0 samples, threshold=0.5%, max_total=1000).", "log-uncalibrated", gptqModel, "model.layers.1.mlp.experts.7.up_proj"},
		{"WARNING Using KV cache scaling factor 1.0 for fp8_e4m3. This may cause accuracy issues.", "log-uncalibrated", vllm, ""},
		{"Some weights of Qwen3ForCausalLM were not initialized from the model checkpoint at x and are newly initialized: ['lm_head.weight']", "log-missing-keys", transformers, ""},
		{"RuntimeError: Missing key(s) in state_dict: \"mtp.fc.weight\"", "log-missing-keys", "", "mtp.fc.weight"},
		{"ValueError: Following weights were not initialized from checkpoint: {'model.layers.3.mlp.gate.weight'}", "log-missing-keys", vllm, "model.layers.3.mlp.gate.weight"},
		{"model.layers.4.mlp.gate.weight_scale | UNEXPECTED |", "log-unexpected-keys", transformers, "model.layers.4.mlp.gate.weight_scale"},
		{"Parameter model.layers.0.self_attn.q_proj.input_scale not found in params_dict", "log-unexpected-keys", sglang, "model.layers.0.self_attn.q_proj.input_scale"},
		{"WARNING auto_round: some layers are skipped quantization (shape not divisible by 128): model.layers.[0-3].mlp.shared_expert_gate", "log-skipped", autoRound, ""},
		{"The layer lm_head is not quantized.", "log-skipped", gptqModel, ""},
		{"Fallback applied: model.layers.0.mlp.down_proj → Q5_0", "log-fallback", autoRound, "model.layers.0.mlp.down_proj"},
		{"Failed to quantize model.layers.2.mlp.up_proj: shape. Keeping original weight.", "log-fallback", autoRound, "model.layers.2.mlp.up_proj"},
		{"Your GPU does not have native support for FP4 computation but FP4 quantization is being used.", "log-fallback", vllm, ""},
		{"compressed_tensors: format nvfp4a16 is not available for this module", "log-not-available", "", ""},
		{"Ignoring `layer_config` of lm_head", "log-ignoring", "", ""},
		{"model.layers.3 loss: nan", "log-nonfinite", "", "model.layers.3"},
		{"torch.linalg: the input is not positive-definite", "log-nonfinite", "", ""},
		{"Traceback (most recent call last):", "log-failed", "", ""},
		{"torch.OutOfMemoryError: CUDA out of memory", "log-failed", "", ""},
	} {
		for how, text := range map[string]string{
			"by itself":          c.line + "\n",
			"after a bar":        bar + c.line + "\n",
			"before bars":        c.line + "\r" + bar + "\r" + bar + strings.Repeat(" ", 200) + "\n",
			"in colours":         "\x1b[33m" + strings.Replace(c.line, " ", " \x1b[1m", 2) + "\x1b[0m\x1b[K\n",
			"among rubbish":      "\xff\xfe\x00" + c.line + "\x1b]0;" + bar + "\x07\n",
			"in a long line":     strings.Repeat(bar+"\r", 50) + "\x1b[2K" + c.line,
			"with Windows' ends": "\r\n" + c.line + "\r\n",
		} {
			r := read(t, text)
			if len(r.Events) != 1 || r.Events[0].ID != c.id || r.Events[0].Tool != c.tool || r.Events[0].Module != c.module {
				t.Errorf("%s %s: %+v, want %s by %q about %q", c.line, how, r.Events, c.id, c.tool, c.module)
				continue
			}
			if want := how == "before bars"; r.Events[0].Hidden != want {
				t.Errorf("%s %s: hidden is %v", c.line, how, r.Events[0].Hidden)
			}
		}
	}
}

// Ordinary lines are no findings.
func TestOrdinaryLines(t *testing.T) {
	r := read(t, strings.Join([]string{
		"Loading checkpoint shards: 100%|██████████| 2/2 [00:00<00:00, 12.15it/s]", "quantizing model.layers.3.mlp.up_proj ... error 0.0123",
		"--allow-fallback was given", "fallback=True", "llama_model_quantize_impl: model size  =   270.00 MiB", "Saved 2 shards, 0 warnings", "ignore: ['lm_head', 're:.*gate$']",
		"INFO loss: 0.01 finance dataset nan", "Expected output is calibrated",
	}, "\n"))
	if len(r.Events) != 0 {
		t.Errorf("%+v", r.Events)
	}
}

// Lines that differ in numbers and names alone are one event with a count; lines
// about speed are mild.
func TestEventsAreCounted(t *testing.T) {
	var b strings.Builder
	for i := range 40 {
		b.WriteString("Failed to quantize model.layers." + string(rune('0'+i%10)) + ".mlp.up_proj: shape. Keeping original weight.\n")
	}
	b.WriteString("flash attention is not available, falling back to eager\n")
	r := read(t, b.String())
	if len(r.Events) != 2 || r.Events[0].Count != 40 || r.Events[0].Line != 1 || r.Events[0].Last != 40 || r.Events[0].Mild || !r.Events[1].Mild {
		t.Errorf("%+v", r.Events)
	}
}

// The number of events that are kept is bounded.
func TestEventsAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range maxEvents + 10 {
		b.WriteString("falling back to " + string(rune('a'+i%26)) + string(rune('a'+i/26)) + "\n")
	}
	if r := read(t, b.String()); len(r.Events) > maxEvents || len(r.Events)+r.More < maxEvents {
		t.Errorf("%d events, %d more", len(r.Events), r.More)
	}
}

// endless never ends, as a pipe that nobody closes.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	copy(p, "nothing\n")
	return min(len(p), 8), nil
}

func TestReadingIsBrokenOff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Read(ctx, "x", io.Reader(endless{})); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// No log makes the reader fail, or an event without a line and a text.
func FuzzRead(f *testing.F) {
	text, err := os.ReadFile(filepath.Join("testdata", "llama-quantize.log"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("İİİİ falling back\r\x1b[2K"))
	f.Add([]byte("[   1/   2] x - [9223372036854775807, 9223372036854775807], type = f16, converting to q4_0 .. size"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := read(t, string(in))
		for _, e := range r.Events {
			if e.Line < 1 || e.Line > r.Lines || e.Count < 1 || e.Last < e.Line || len(e.Text) > 4*shownText {
				t.Fatalf("%+v of %d lines", e, r.Lines)
			}
		}
		for _, s := range r.Types {
			if s.Tensors < 1 || s.Params < 0 {
				t.Fatalf("%+v", s)
			}
		}
	})
}

// A log of a hundred megabytes is read in the time that reading it twice takes.
func BenchmarkRead(b *testing.B) {
	text := strings.Repeat("Calibrating:  47%|████▋     | 15/32 [00:07<00:08,  1.98it/s]\rCompressing model.layers.3.mlp.up_proj error 0.0123\n", 1<<13)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		read(b, text)
	}
}

// Finding signs at once is finding them one by one.
func FuzzOpening(f *testing.F) {
	for i := range signs {
		f.Add(strings.Join(signs[i].words, " and then "))
	}
	f.Add("fallback= falling back")
	f.Fuzz(func(t *testing.T, line string) {
		low := strings.ToLower(line)
		want, at := -1, 0
		for i := range signs {
			if p := signs[i].find(low); p >= 0 {
				want, at = i, p
				break
			}
		}
		if got, where := openings.first(low); got != want || where != at {
			t.Fatalf("%q: %d at %d, want %d at %d", line, got, where, want, at)
		}
	})
}
