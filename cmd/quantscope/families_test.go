package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/analysis/verify"
)

// family is a golden model of the forward pass, and what of it the commands take. Rows
// of 24 are no blocks of 16 and stay; gpt-oss's experts have one bias for all of them in a
// tensor, which no layout of single experts can say.
type family struct {
	name, targets string
	tiers         bool // it has experts that can be hot or cold
	drafts        bool // it has an MTP layer that is read
}

const (
	linearMaps  = `(q|k|v|o|q_a|q_b|kv_b|gate|up|down|gate_up|out)_proj(\.weight)?|kv_a_proj_with_mqa\.weight|in_proj_(qkvz|qkv|z)\.weight|attn\.w(q_a|q_b|kv|o_a|o_b)\.weight|w[123]\.weight`
	withoutDown = `(q|k|v|o|gate|up|gate_up|out)_proj(\.weight)?|in_proj_(qkvz|qkv|z)\.weight`
	withoutQB   = `(q|k|v|o|q_a|kv_b|gate|up|down)_proj\.weight|kv_a_proj_with_mqa\.weight`
)

var families = []family{
	{"qwen3_moe", withoutDown, true, false},
	{"mixtral", linearMaps, true, false},
	{"glm4_moe_mtp", linearMaps, true, true},
	{"deepseek_v2", linearMaps, true, false},
	{"deepseek_v3_mtp", withoutQB, true, true},
	{"deepseek_v4", linearMaps, true, false},
	{"gpt_oss", `self_attn\.(q|k|v|o)_proj\.weight`, true, false},
	{"gemma3_text", linearMaps, false, false},
	{"gemma4_moe", linearMaps, true, false},
	{"gemma4_ple", linearMaps, false, false},
	{"qwen3_next", withoutDown + `|experts\.\d+\.down_proj\.weight`, true, false},
	{"qwen3_5", linearMaps, false, false},
	{"qwen3_5_moe", linearMaps, true, false},
	{"step3p7", withoutDown + `|moe\.down_proj\.weight`, true, false},
}

// characters makes a checkpoint folder of a golden model, which has no tokenizer: a
// token is a character. A model that has learned nothing ends at random, so there is no
// end token, and every answer is as long as it may be.
func characters(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "analysis", "model", "testdata", name))); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "config.hub.json")); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err = json.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	text, nested := config["text_config"].(map[string]any)
	if !nested {
		text = config
	}
	delete(config, "eos_token_id")
	delete(text, "eos_token_id")
	vocab := map[string]int{"<unk>": 0, "<bos>": 1, "<end>": 2, "<|user|>": 3, "<|assistant|>": 4, "\n": 5}
	var marks []map[string]any
	for _, m := range []string{"<unk>", "<bos>", "<end>", "<|user|>", "<|assistant|>"} {
		marks = append(marks, map[string]any{"id": vocab[m], "content": m, "special": false})
	}
	size := int(text["vocab_size"].(float64))
	for c := ' '; len(vocab) < size; c++ {
		if c == 0x7f {
			c = 0xc0
		}
		vocab[string(c)] = len(vocab)
	}
	for file, doc := range map[string]any{
		"config.json": config,
		"tokenizer.json": map[string]any{
			"version": "1.0", "added_tokens": marks, "decoder": map[string]any{"type": "Fuse"},
			"model": map[string]any{"type": "BPE", "unk_token": "<unk>", "fuse_unk": false, "byte_fallback": false, "vocab": vocab, "merges": []string{}},
		},
		"tokenizer_config.json": map[string]any{
			"bos_token": "<bos>",
			"chat_template": "{% for m in messages %}{% if m.role == 'assistant' %}<|assistant|>{{ m.content }}<end>{% else %}<|user|>{{ m.content }}{% endif %}{% endfor %}" +
				"{% if add_generation_prompt %}<|assistant|>{% endif %}",
		},
	} {
		if data, err = json.Marshal(doc); err != nil {
			t.Fatal(err)
		}
		if err = os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// docOf runs a command that is to end well and reads its document.
func docOf(t *testing.T, doc any, args ...string) {
	t.Helper()
	o := command(t, append(args, "--json")...)
	if err := json.Unmarshal([]byte(o.out), doc); err != nil || o.code != exitGood {
		t.Fatalf("%v: exit %d, %v: %s", args, o.code, err, o.err)
	}
}

// Every command takes every family, from headers to answers, and what can be known of
// their figures holds: a plan's bytes are those that are written, what is written is
// what is measured on the fly to the last digit, the checkpoint is at 0 of itself.
func TestFamilies(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "measure.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			c := familyCase{t: t, family: f, dir: t.TempDir(), model: characters(t, f.name), targets: []string{"--targets", `re:.*\.(` + f.targets + `)$`}}
			for name, text := range map[string][]byte{"text.txt": page[:600], "calib.txt": page[2000:4200]} {
				if err := os.WriteFile(c.at(name), text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			c.structure()
			exports := c.exports()
			c.measured(exports)
			c.calibrated()
			c.layers()
			c.answers()
		})
	}
}

type familyCase struct {
	family
	t          *testing.T
	dir, model string
	targets    []string
}

func (c *familyCase) at(name string) string { return filepath.Join(c.dir, name) }

// with are the arguments of a command on the model and the family's targets.
func (c *familyCase) with(command string, args ...string) []string {
	return append(append([]string{command, c.model}, c.targets...), args...)
}

func (c *familyCase) structure() {
	var d struct {
		Tensors, Params int64
		Unknown         []string
		Cache           []struct{ Attention string }
	}
	docOf(c.t, &d, "inspect", c.model)
	if len(d.Unknown) > 0 || d.Tensors < 30 || d.Params < 80_000 || len(d.Cache) == 0 {
		c.t.Errorf("inspect: %+v", d)
	}
}

// exports are folders by layout and variant, planned before and proven after.
func (c *familyCase) exports() map[string]string {
	out := map[string]string{}
	for _, x := range [][2]string{{"modelopt", "nvfp4"}, {"compressed-tensors", "fp8"}, {"quantscope", "int4-channel"}} {
		name, variant := x[0], x[1]
		dir := c.at(name)
		var plan struct {
			BytesAfter int64 `json:"bytes_after"`
			Groups     []struct{ Matrices int }
		}
		docOf(c.t, &plan, c.with("plan", "--variant", variant, "--layout", name, "--accept", "expert-count,fused-experts-missed")...)
		var made struct {
			Export   struct{ State string }
			Variants []struct {
				Tensors   int
				MeanRelL2 float64 `json:"mean_rel_l2"`
			}
		}
		docOf(c.t, &made, c.with("quantize", "--variant", variant, "--layout", name, "--out", dir, "--session", dir+".qscope")...)
		if v := made.Variants[0]; made.Export.State != "whole" || v.Tensors != plan.Groups[0].Matrices || !(v.MeanRelL2 > 0.01 && v.MeanRelL2 < 0.12) {
			c.t.Errorf("%s: planned %+v, made %+v", name, plan, made)
		}
		if n := tensorBytes(c.t, dir); n != plan.BytesAfter {
			c.t.Errorf("%s: %d bytes are planned, %d stored", name, plan.BytesAfter, n)
		}
		var rep verify.Report
		docOf(c.t, &rep, "verify", c.model, dir)
		if !rep.OK || rep.QuantizedTensors != plan.Groups[0].Matrices || rep.QuantizedReproduced != rep.QuantizedTensors || rep.UntouchedIdentical != rep.UntouchedTensors {
			c.t.Errorf("%s: %+v", name, rep)
		}
		var found struct {
			Findings []struct{ ID, Severity, Tensor, Message string }
		}
		docOf(c.t, &found, "lint", dir, "--from", c.model, "--fail-on", "never")
		for _, x := range found.Findings {
			// The goldens have no processors, and not all MTP layers that they tell of.
			if x.Severity != "note" && x.ID != "preprocessor-missing" && x.ID != "mtp-missing" {
				c.t.Errorf("%s: %s: %s: %s", name, x.ID, x.Tensor, x.Message)
			}
		}
		out[variant] = dir
	}
	var copied convertDocument
	docOf(c.t, &copied, "convert", out["nvfp4"], c.at("converted"), "--layout", "compressed-tensors")
	if !copied.OK || copied.CodesEqual != copied.Modules || copied.Modules == 0 {
		c.t.Errorf("convert: %+v", copied)
	}
	var held struct {
		Matrices struct{ Tensors, Equal int }
		Others   struct{ Tensors, Equal int }
	}
	docOf(c.t, &held, "compare", c.model, out["nvfp4"])
	if held.Others.Equal != held.Others.Tensors || held.Matrices.Tensors-held.Matrices.Equal < copied.Modules {
		c.t.Errorf("compare: %+v of %d quantized modules", held, copied.Modules)
	}
	return out
}

func (c *familyCase) measured(exports map[string]string) {
	args := []string{"--candidate", "same=ref", "--candidate", "nvfp4,fp8,int4-channel", "--corpus", c.at("text.txt"), "--chunk", "48", "--chunks", "2", "--no-floor", "--session", c.at("kl.qscope")}
	for variant, dir := range exports {
		args = append(args, "--candidate", "stored-"+variant+"="+dir)
	}
	d := measureDoc(c.t, exitGood, c.with("measure", args...)[1:]...)
	kl := map[string]measuredJSON{}
	for _, x := range d.Candidates {
		kl[x.Candidate] = x
	}
	if x := kl["same"]; x.KLMean != 0 || x.KLMax != 0 || x.Top1 != 1 {
		c.t.Errorf("the checkpoint against itself: %+v", x)
	}
	for variant := range exports {
		fly, stored := kl[variant], kl["stored-"+variant]
		if !(fly.KLMean > 0) || fly.NaN+fly.Infinite > 0 || stored.KLMean != fly.KLMean || stored.KLMax != fly.KLMax {
			c.t.Errorf("%s: KL %v on the fly, %v of the export", variant, fly.KLMean, stored.KLMean)
		}
	}
	if !(kl["fp8"].KLMean < kl["nvfp4"].KLMean) {
		c.t.Errorf("fp8 %v, nvfp4 %v", kl["fp8"].KLMean, kl["nvfp4"].KLMean)
	}
}

func (c *familyCase) calibrated() {
	corpus := []string{"--corpus", c.at("calib.txt"), "--chunk", "48"}
	d := calibrationDoc(c.t, append([]string{"calibrate", c.model, "--out", c.at("moments")}, corpus...)...)
	if d.Inputs == 0 || d.Measured != d.Inputs || !d.Hessians {
		c.t.Errorf("calibrate: %d of %d inputs", d.Measured, d.Inputs)
	}
	var made struct {
		Variants []struct {
			Variant     string
			Calibration *struct {
				Calibrated int
				Changed    int64
				Gate       string
				OutRatio   float64 `json:"out_ratio"`
			}
		}
	}
	docOf(c.t, &made, c.with("quantize", "--variant", "nvfp4+gptq", "--calibration", c.at("moments"), "--session", c.at("gptq.qscope"), "--allow-fallback")...)
	for _, v := range made.Variants {
		if x := v.Calibration; x == nil || x.Calibrated == 0 || x.Changed == 0 || x.Gate != "passed" || !(x.OutRatio < 0.9) {
			c.t.Errorf("%s: %+v", v.Variant, x)
		}
	}
}

// layers goes by depth and by expert.
func (c *familyCase) layers() {
	text := []string{"--corpus", c.at("text.txt"), "--chunk", "48"}
	var bias struct {
		Candidates []struct {
			Stream struct {
				RelL2     float64 `json:"rel_l2"`
				Nonfinite int64
			}
			Depth []struct{ Layer int }
		}
		Layers int
	}
	docOf(c.t, &bias, c.with("bias", append(text, "--candidate", "nvfp4", "--chunks", "1", "--no-floor", "--session", c.at("bias.qscope"))...)...)
	if b := bias.Candidates[0]; !(b.Stream.RelL2 > 0.01 && b.Stream.RelL2 < 1) || b.Stream.Nonfinite != 0 || len(b.Depth) != bias.Layers+1 {
		c.t.Errorf("bias: %+v of %d layers", b, bias.Layers)
	}
	tier := append(text, "--workload", c.at("calib.txt"), "--budget", "0,100%", "--window", "64", "--chunks", "3", "--kl", "--kl-chunks", "1", "--no-controls", "--session", c.at("tier.qscope"))
	if !c.tiers {
		o := command(c.t, append([]string{"tier", c.model}, tier...)...)
		if o.refused(c.t, exitBadInput); !strings.Contains(o.err, "has no routed experts") {
			c.t.Errorf("%s", o.err)
		}
		return
	}
	var d struct {
		Budgets []struct {
			KLMean float64 `json:"kl_mean"`
			Hits   float64
		}
		Ends     []struct{ KL string }
		Problems []string
	}
	docOf(c.t, &d, append([]string{"tier", c.model}, tier...)...)
	if len(d.Budgets) != 2 || !(d.Budgets[1].KLMean < d.Budgets[0].KLMean) || d.Budgets[0].Hits != 0 || d.Budgets[1].Hits != 1 || len(d.Problems) > 0 {
		c.t.Errorf("tier: %+v", d)
	}
	for _, e := range d.Ends {
		if e.KL != "equal" {
			c.t.Errorf("tier: none hot is not all cold, or all hot not all: %+v", d.Ends)
		}
	}
}

const familySuite = `name: families
about: Short greedy answers, held against the baseline's.
probes:
  - id: same
    about: Answers are the baseline's to the letter.
    grader: same
    settings: {max_tokens: 6, may_truncate: true}
    cases:
      - {ask: "Name a river."}
      - {prompt: "The sea was calm, and"}
`

func (c *familyCase) answers() {
	if err := os.WriteFile(c.at("suite.yaml"), []byte(familySuite), 0o600); err != nil {
		c.t.Fatal(err)
	}
	var d struct {
		Probes []struct {
			Candidate              string
			Passed, Passes, Errors int
			OK                     bool
		}
		Arms []struct {
			Role   string
			Tokens int64
		}
	}
	args := []string{"--candidate", "same=ref", "--candidate", "nvfp4", "--suite", c.at("suite.yaml"), "--fail-on", "error", "--no-placebo", "--session", c.at("gates.qscope")}
	if c.drafts {
		args = append(args, "--speculate", "1")
	}
	docOf(c.t, &d, c.with("gates", args...)...)
	if len(d.Probes) != 3 {
		c.t.Fatalf("gates: %+v", d)
	}
	for _, p := range d.Probes {
		if p.Passes != 2 || p.Errors != 0 || p.Candidate != "nvfp4" && (p.Passed != 2 || !p.OK) {
			c.t.Errorf("gates: %+v", p)
		}
	}
}

// tensorBytes are those of a folder's tensors, headers aside.
func tensorBytes(t *testing.T, dir string) int64 {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	if err != nil || len(names) == 0 {
		t.Fatalf("%v: %v", names, err)
	}
	n := int64(0)
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		header := int64(0)
		for i := range 8 {
			header |= int64(data[i]) << (8 * i)
		}
		n += int64(len(data)) - 8 - header
	}
	return n
}
