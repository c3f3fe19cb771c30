package candidate

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/method"
	"quantscope/quant/recipe"
)

func TestLabels(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "a=b")
	if err := os.Mkdir(there, 0o777); err != nil {
		t.Fatal(err)
	}
	for spec, want := range map[string][2]string{
		"nvfp4": {"", "nvfp4"}, "mine=nvfp4": {"mine", "nvfp4"}, "my own=fp8@re:a=b": {"my own", "fp8@re:a=b"},
		"fp8@re:a=b": {"", "fp8@re:a=b"}, "./x=y": {"", "./x=y"}, there: {"", there}, "=x": {"", "=x"}, "l=" + there: {"l", there},
	} {
		if label, rest := cutLabel(spec); label != want[0] || rest != want[1] {
			t.Errorf("%s: %q, %q", spec, label, rest)
		}
	}
}

// A variant is what its name says, whatever folders there are.
func TestFolderOfAVariantsName(t *testing.T) {
	ref := open(t, "demo")
	x := stored(t, ref)
	dir := exported(t, x.ck, x.top, "", "modelopt", "fp8")
	t.Chdir(filepath.Dir(dir))
	if err := os.Rename(dir, "nvfp4"); err != nil {
		t.Fatal(err)
	}
	for spec, want := range map[string]Kind{"nvfp4": Variant, "./nvfp4": Checkpoint} {
		c := mustParse(t, ref, spec, Options{})
		defer c.Close()
		if c.Kind != want || c.Spec != spec {
			t.Errorf("%s is a %s", spec, c.Kind)
		}
	}
}

// No spec makes a panic, and every refusal is one line.
func FuzzParse(f *testing.F) {
	f.Chdir(f.TempDir()) // a spec may be a path: none leads out of an empty folder
	ref, err := Open(f.Context(), "demo", Options{})
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{"ref", "x=nvfp4@all", "nvfp4+mse@linear", "fp8@*q_proj*,re:.*k", "int4-g128@", "=", "@", "a=b=c", "nvfp4@@x", "nvfp4@[", "mxfp4+", "x.yaml", "x.qscope", "x.gguf", "nvfp4@model.layers.0.mlp.up_proj", "fp8@lm_head"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		spec = strings.NewReplacer("/", "_", "\\", "_").Replace(spec)
		c, err := Parse(t.Context(), ref, spec, Options{})
		if err != nil {
			if strings.ContainsAny(err.Error(), "\r\n") && !strings.ContainsAny(spec, "\r\n") {
				t.Errorf("%q: more than a line: %v", spec, err)
			}
			return
		}
		if c.Label == "" || c.Effective == "" || c.BitsPerWeight <= 0 || c.BitsPerWeight > 16 {
			t.Errorf("%q: %+v", spec, c)
		}
	})
}

// What a spec cannot mean is refused in one line, with what is known.
func TestParseRefuses(t *testing.T) {
	ref := open(t, "demo")
	for spec, c := range map[string]struct {
		is  error
		say []string
	}{
		"":                       {ErrSpec, []string{"FILE.gguf", "int4-g128@linear"}},
		"nvfp5":                  {method.ErrUnknown, []string{`"nvfp5"`, "known variants: nvfp4[+mse|", "known forms: ref"}},
		"nvfp4+best":             {method.ErrUnknown, []string{`"best"`, "known for nvfp4: rtn, mse"}},
		"bf16":                   {method.ErrUnsupported, []string{"bf16"}},
		"nvfp4@none.such":        {ErrSpec, []string{"none.such", "nearest: "}},
		"nvfp4@":                 {ErrSpec, []string{"no targets", "linear"}},
		"nvfp4+mse@ ":            {ErrSpec, []string{"no targets"}},
		"nvfp4@re:(":             {recipe.ErrPattern, []string{"re:("}},
		"nvfp4@*norm*":           {recipe.ErrNothing, []string{"nothing to quantize"}},
		"nvfp4@model.layers.5.*": {recipe.ErrNothing, []string{"forward pass reads"}},
		"./no/such/folder":       {fs.ErrNotExist, []string{"./no/such/folder"}},
		"missing.gguf":           {fs.ErrNotExist, []string{"missing.gguf"}},
		"missing.safetensors":    {fs.ErrNotExist, []string{"missing.safetensors"}},
		"missing.yaml":           {fs.ErrNotExist, []string{"missing.yaml"}},
		"missing.qscope":         {fs.ErrNotExist, []string{"missing.qscope"}},
	} {
		_, err := Parse(t.Context(), ref, spec, Options{})
		if !errors.Is(err, c.is) {
			t.Errorf("%q: %v, want %v", spec, err, c.is)
			continue
		}
		for _, s := range c.say {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%q: %v does not say %q", spec, err, s)
			}
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: more than a line", spec)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Parse(ctx, ref, "demo", Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A session leads to its newest export, by whoever can read sessions.
func TestSessionExport(t *testing.T) {
	ref := open(t, "demo")
	x := stored(t, ref)
	dir := exported(t, x.ck, x.top, "", "modelopt", "nvfp4")
	session := filepath.Join(t.TempDir(), "s.qscope")
	if err := os.WriteFile(session, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	c := mustParse(t, ref, session, Options{Export: func(_ context.Context, path string) (string, error) {
		if path != session {
			t.Errorf("asked for %s", path)
		}
		return dir, nil
	}})
	defer c.Close()
	if c.Path != dir || c.Spec != session || c.Effective != "nvfp4, bf16" {
		t.Errorf("%+v", c)
	}
	compareAll(t, c, mustParse(t, ref, "nvfp4", Options{}))
	none := errors.New("no whole export")
	if _, err := Parse(t.Context(), ref, session, Options{Export: func(context.Context, string) (string, error) { return "", none }}); !errors.Is(err, none) {
		t.Errorf("%v", err)
	}
	if _, err := Parse(t.Context(), ref, session, Options{}); !errors.Is(err, ErrSpec) {
		t.Errorf("%v", err)
	}
}

// An export that was not finished is none.
func TestUnfinishedExport(t *testing.T) {
	ref := open(t, "demo")
	x := stored(t, ref)
	dir := exported(t, x.ck, x.top, "", "modelopt", "nvfp4")
	if err := os.WriteFile(filepath.Join(dir, checkpoint.UnfinishedPrefix+".json"), []byte("{}"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), dir, Options{}); err == nil || !strings.Contains(err.Error(), "not finished") {
		t.Errorf("%v", err)
	}
}

// What is stored as codes already stays, and is told of as a fallback.
func TestFallbacks(t *testing.T) {
	demo := open(t, "demo")
	ck := stored(t, demo).ck
	const fp8 = "model.layers.1.mlp.experts.3.up_proj.weight"
	var out []tensor
	for _, x := range readAll(t, ck) {
		if x.name != fp8 {
			out = append(out, x)
			continue
		}
		q, _ := quantized(t, kernels.Spec{Format: "fp8"}, kernels.Matrix{Element: kernels.BF16, Rows: 128, Cols: 128, Data: x.data})
		out = append(out, tensor{x.name, checkpoint.F8E4M3, x.shape, q.Codes}, tensor{x.name + "_scale", checkpoint.F32, []int64{}, q.Scales})
	}
	ref := open(t, writeModel(t, ck.ConfigJSON(), out))
	c := mustParse(t, ref, "nvfp4", Options{})
	if len(c.Fallbacks) != 1 {
		t.Fatalf("%+v", c.Fallbacks)
	}
	if f := c.Fallbacks[0]; f.Tensor != fp8 || f.Requested != "nvfp4" || f.Effective != "f8_e4m3" || f.Params != 128*128 || !strings.Contains(f.Reason, "already quantized") {
		t.Errorf("%+v", f)
	}
	up := needOf(t, ref, "layer 1 expert 3 up").Place
	sameBits(t, "fallback", values(t, source(t, c), up), values(t, source(t, ref), up))
	all := mustParse(t, ref, "nvfp4@linear", Options{})
	if len(all.Fallbacks) != 1 || all.Fallbacks[0].Tensor != fp8 {
		t.Errorf("%+v", all.Fallbacks)
	}
}

// A recipe's groups have a variant each; what it ignores stays.
func TestRecipes(t *testing.T) {
	ref := open(t, "demo")
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "r.yaml")
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	path := write(`
source: elsewhere
groups:
  - targets: ["*layers.[12].mlp.experts.*"]
    scheme: nvfp4
    methods: [mse]
  - targets: ["*self_attn*", "*shared_experts*"]
    scheme: fp8
ignore: ["*layers.5.*"]
exemptions: ["*layers.3.self_attn.q_proj*"]
`)
	c := mustParse(t, ref, path, Options{})
	if c.Kind != Recipe || c.Effective != "fp8, nvfp4+mse" || c.Baseline != "" || len(c.Fallbacks) != 0 || c.Label != path {
		t.Errorf("%+v", c)
	}
	if f := findingsOf(c.Findings, "recipe-source"); len(f) != 1 || !strings.Contains(f[0].Message, "elsewhere") {
		t.Errorf("%v", c.Findings)
	}
	s := source(t, c)
	for place, from := range map[string]*Candidate{
		"layer 1 expert 4 up": mustParse(t, ref, "nvfp4+mse", Options{}), "layer 3 expert 4 up": ref, "layer 3 attention q": ref,
		"layer 2 attention q": mustParse(t, ref, "fp8@linear", Options{}), "layer 2 shared_expert up": mustParse(t, ref, "fp8@linear", Options{}),
	} {
		p := needOf(t, ref, place).Place
		sameBits(t, place, values(t, s, p), values(t, source(t, from), p))
	}
	// Built-in ones by their names; one that is called as a variant is by recipe: alone.
	for spec, want := range map[string]string{"mixed-nvfp4-fp8": "fp8-channel, nvfp4", "recipe:moe-nvfp4": "nvfp4", "recipe:int4-g128": "int4-g128", "recipe:" + path: "fp8, nvfp4+mse"} {
		if c := mustParse(t, ref, spec, Options{}); c.Kind != Recipe || c.Effective != want || c.Label != spec {
			t.Errorf("%s: %+v", spec, c)
		}
	}
	if c := mustParse(t, ref, "int4-g128", Options{}); c.Kind != Variant {
		t.Errorf("%+v", c)
	}
	if _, err := Parse(t.Context(), ref, "recipe:none-such", Options{}); !errors.Is(err, ErrSpec) || !errors.Is(err, recipe.ErrBuiltin) || !strings.Contains(err.Error(), "moe-nvfp4") {
		t.Errorf("an unknown one: %v", err)
	}
	// Matrices that servers fuse share a second-level scale whatever the methods are.
	mixed := mustParse(t, ref, write("groups:\n  - {targets: [\"*experts*gate_proj*\"], scheme: nvfp4}\n  - {targets: [\"*experts*up_proj*\"], scheme: nvfp4, methods: [mse]}\n"), Options{})
	for place, from := range map[string]string{"layer 1 expert 4 gate": "nvfp4", "layer 1 expert 4 up": "nvfp4+mse"} {
		p := needOf(t, ref, place).Place
		sameBits(t, place, values(t, source(t, mixed), p), values(t, source(t, mustParse(t, ref, from, Options{})), p))
	}
	for name, bad := range map[string][2]string{
		"overlap":   {"groups:\n  - {targets: [\"*experts*\"], scheme: nvfp4}\n  - {targets: [\"*up_proj*\"], scheme: fp8}\n", "both match"},
		"no match":  {"groups:\n  - {targets: [\"*nothing*\"], scheme: nvfp4}\n", "match nothing"},
		"a scheme":  {"groups:\n  - {targets: [\"*experts*\"], scheme: nvfp5}\n", "nvfp5"},
		"only MTP":  {"groups:\n  - {targets: [\"*layers.5.*experts*\"], scheme: nvfp4}\n", "nothing to quantize"},
		"not YAML":  {"groups: [", "r.yaml"},
		"no groups": {"name: x\n", "no groups"},
	} {
		path := write(bad[0])
		_, err := Parse(t.Context(), ref, path, Options{})
		if err == nil || !strings.Contains(err.Error(), bad[1]) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Another tokenizer and another vocabulary are findings; whoever measures decides.
func TestDifferences(t *testing.T) {
	ref := open(t, "demo")
	dir := changed(t, ref, func(x tensor) tensor { return x })
	side, ok := stored(t, ref).ck.SideFile("tokenizer.json")
	if !ok {
		t.Fatal("the demo has no tokenizer")
	}
	text, err := side.Read()
	if err != nil {
		t.Fatal(err)
	}
	put := func(text []byte) {
		if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	put(text)
	if c := mustParse(t, ref, dir, Options{}); len(c.Findings) != 0 || c.TokenizerID != ref.TokenizerID {
		t.Errorf("the same tokenizer: %v", c.Findings)
	}
	put([]byte(strings.ReplaceAll(string(text), "<|user|>", "<|person|>")))
	c := mustParse(t, ref, dir, Options{})
	if f := findingsOf(c.Findings, "tokenizer-differs"); len(f) != 1 || f[0].Message == "" {
		t.Errorf("another tokenizer: %v", c.Findings)
	}
	put([]byte("{"))
	c = mustParse(t, ref, dir, Options{})
	if c.TokenizerErr == nil || !strings.Contains(c.TokenizerErr.Error(), dir) || len(c.Findings) != 0 {
		t.Errorf("a broken tokenizer: %v, %v", c.TokenizerErr, c.Findings)
	}
	odd := open(t, "../model/testdata/llama_tied")
	f := differences(ref, odd)
	if len(f) != 2 || f[1].ID != "architecture-differs" || f[0].ID != "vocabulary-differs" || !strings.Contains(f[0].Message, "256") || !strings.Contains(f[0].Message, "1024") {
		t.Errorf("%v", f)
	}
}
