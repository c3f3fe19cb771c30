package mend

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantscope/quant/checkpoint"
	"quantscope/quant/layout"
	"quantscope/quant/topology"
)

var methods = []string{layout.ModelOpt, layout.CompressedTensors}

func isMTP(_ string, mtp bool) bool { return mtp }

// A checkpoint from which nothing is lost is left alone.
func TestNothingToDo(t *testing.T) {
	for _, method := range methods {
		for _, packMTP := range []bool{false, true} {
			p := planOf(t, open(t, write(t, made{method: method, packMTP: packMTP})), openDemo(t))
			if got := needed(p); len(got) > 0 {
				t.Errorf("%s, MTP packed %v: %v to do: %+v", method, packMTP, got, p.Steps)
			}
		}
	}
}

// MTP layers can be lost in three ways, and each combination comes back: tensors with
// the source's bytes, an index that names all of them, a config that declares them and
// names them among the exceptions.
func TestGraft(t *testing.T) {
	src := openDemo(t)
	for _, method := range methods {
		for name, m := range map[string]made{
			"dropped":              {drop: isMTP},
			"dropped and unlisted": {drop: isMTP, nonlisting: true},
			"some dropped":         {drop: func(name string, mtp bool) bool { return mtp && strings.Contains(name, "experts.7.") }},
			"not in the index":     {unindexed: isMTP},
			"quantized, unlisted":  {packMTP: true, unindexed: isMTP},
			"not declared":         {config: func(c map[string]any) { delete(c, "num_nextn_predict_layers") }},
			"declared as none":     {drop: isMTP, config: func(c map[string]any) { c["num_nextn_predict_layers"] = 0 }},
			"one file":             {drop: isMTP, single: true, nonlisting: true},
			"both":                 {drop: func(name string, mtp bool) bool { return mtp && strings.Contains(name, "self_attn") }, unindexed: isMTP},
		} {
			t.Run(method+" "+name, func(t *testing.T) {
				m.method = method
				dir := write(t, m)
				p := planOf(t, open(t, dir), src)
				if !slices.Contains(needed(p), GraftMTP) {
					t.Fatalf("nothing to graft: %+v", p.Steps)
				}
				for _, inPlace := range []bool{false, true} {
					to := ""
					if inPlace {
						res, err := p.Apply(t.Context(), Options{InPlace: true})
						if err != nil {
							t.Fatal(err)
						}
						checked(t, p, res)
						to = dir
					} else {
						to = mended(t, p)
					}
					got := open(t, to)
					if f := got.Findings; len(f) > 0 {
						t.Errorf("findings of the reader: %v", f)
					}
					top, err := topology.FromCheckpoint(got)
					if err != nil {
						t.Fatal(err)
					}
					if top.MTPLayers != 1 || top.Config.MTPLayers != 1 {
						t.Errorf("%d MTP layers stored, %d declared, want 1 and 1", top.MTPLayers, top.Config.MTPLayers)
					}
					lay, err := layout.Open(got, top)
					if err != nil {
						t.Fatal(err)
					}
					for _, f := range lay.Findings {
						t.Errorf("finding %s %s: %s", f.ID, f.Tensor, f.Message)
					}
					for i := range src.Tensors {
						if r := p.src.top.Roles[i]; !r.MTP || m.packMTP && r.Kind == topology.Expert {
							continue
						}
						if diff, err := equal(t.Context(), src, &src.Tensors[i], got, true); err != nil || diff != "" {
							t.Errorf("%s: %s %v", src.Tensors[i].Name, diff, err)
						}
					}
				}
			})
		}
	}
}

// A file that stands where grafted tensors would go, and is no part of the checkpoint,
// stays as it is.
func TestGraftBesideStranger(t *testing.T) {
	const stranger, text = "model-mtp-00001.safetensors", "somebody's"
	dir := write(t, made{method: methods[0], drop: isMTP, side: map[string]string{stranger: text}})
	p := planOf(t, open(t, dir), openDemo(t), GraftMTP)
	res, err := p.Apply(t.Context(), Options{InPlace: true})
	if err != nil {
		t.Fatal(err)
	}
	checked(t, p, res)
	if got, err := os.ReadFile(filepath.Join(dir, stranger)); err != nil || string(got) != text {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "model-mtp-00002.safetensors")); err != nil {
		t.Error(err)
	}
}

// The exceptions are one pattern for a layer that is all MTP's, and names where a
// part of it is quantized.
func TestExceptions(t *testing.T) {
	src := openDemo(t)
	entries := func(dir, file string, path ...string) []string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range path {
			if text, err = member(text, key); err != nil {
				t.Fatal(err)
			}
		}
		var list []string
		if err := json.Unmarshal(text, &list); err != nil {
			t.Fatal(err)
		}
		return list
	}
	for _, c := range []struct {
		method, file string
		path         []string
		want         string
	}{
		{layout.ModelOpt, configName, []string{quantKey, "ignore"}, "model.layers.5.*"},
		{layout.ModelOpt, modelOptName, []string{"quantization", "exclude_modules"}, "model.layers.5.*"},
		{layout.CompressedTensors, configName, []string{quantKey, "ignore"}, `re:^model\.layers\.5\..*`},
	} {
		dir := write(t, made{method: c.method, nonlisting: true})
		before := entries(dir, c.file, c.path...)
		p := planOf(t, open(t, dir), src)
		if got := needed(p); !slices.Equal(got, []string{IgnoreMTP}) {
			t.Fatalf("%s: %v to do, want %s alone", c.method, got, IgnoreMTP)
		}
		got := entries(mended(t, p), c.file, c.path...)
		if diff := cmp.Diff(append(slices.Clone(before), c.want), got); diff != "" {
			t.Errorf("%s %s: %s", c.method, c.file, diff)
		}
	}
	dir := write(t, made{method: layout.CompressedTensors, nonlisting: true, packMTP: true})
	before := entries(dir, configName, quantKey, "ignore")
	partly := mended(t, planOf(t, open(t, dir), src))
	got := entries(partly, configName, quantKey, "ignore")
	for _, e := range got[len(before):] {
		if !strings.HasPrefix(strings.ReplaceAll(e, `\`, ""), "re:^model.layers.5.") && !strings.HasPrefix(e, "model.layers.5.") {
			t.Errorf("exception %q", e)
		}
	}
	part := open(t, partly)
	top, err := topology.FromCheckpoint(part)
	if err != nil {
		t.Fatal(err)
	}
	lay, err := layout.Open(part, top)
	if err != nil || len(lay.Findings) > 0 {
		t.Errorf("beside quantized parts: %v %v", err, lay.Findings)
	}
	if len(got) == len(before) {
		t.Error("nothing was added")
	}
}

// Families name their MTP parts differently, and so do the methods their exceptions.
func TestPatterns(t *testing.T) {
	names := []string{"model.layers.0.mlp.up_proj.weight", "mtp.fc.weight", "mtp.layers.0.self_attn.q_proj.weight", "model.layers.61.eh_proj.weight"}
	w := &work{Plan: &Plan{}, mixed: map[string]bool{"model": true, "model.layers": true, "model.layers.0": true, "model.layers.0.mlp": true}}
	for _, c := range []struct {
		style listStyle
		want  []string
	}{
		{expressions, []string{"re:^mtp.*", `re:^model\.layers\.61\..*`}},
		{wildcards, []string{"mtp*", "model.layers.61.*"}},
		{substrings, []string{"mtp", "model.layers.61."}},
		{dynamic, []string{"-:^mtp.*", `-:^model\.layers\.61\..*`}},
	} {
		var modules []string
		for _, n := range names[1:] {
			modules = append(modules, strings.TrimSuffix(n, ".weight"))
		}
		if diff := cmp.Diff(c.want, w.patterns(c.style, modules)); diff != "" {
			t.Errorf("style %d: %s", c.style, diff)
		}
	}
	w.mixed["mtp"], w.mixed["mtp.layers"], w.mixed["mtp.layers.0"] = true, true, true
	w.mixed["mtp.fc"] = true
	if got := w.patterns(dynamic, []string{"mtp.fc"}); !slices.Equal(got, []string{`-:^mtp\.fc$`}) {
		t.Errorf("of a module beside quantized ones: %q", got)
	}
}

// Files beside the weights come back as the source has them; what newer tools keep in
// one file is taken apart for those that read two.
func TestSideFiles(t *testing.T) {
	const image = `{"image_processor_type": "Qwen2VLImageProcessor", "min_pixels": 3136}`
	processors := `{"image_processor": ` + image + `, "processor_class": "Qwen3VLProcessor"}`
	src := write(t, made{side: map[string]string{"processor_config.json": processors, "chat_template.jinja": "{{ messages }}\n"}})
	pristine, err := os.ReadFile(filepath.Join(src, tokenizerName))
	if err != nil {
		t.Fatal(err)
	}
	limited, err := checkpoint.SetMember(pristine, "truncation", []byte(`{"direction": "Right", "max_length": 512, "strategy": "LongestFirst", "stride": 0}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		side  map[string]string
		steps []string
		says  string
	}{
		{"truncation", map[string]string{tokenizerName: string(limited), "processor_config.json": processors, preprocessorName: image, templateName: "{{ messages }}\n"}, []string{Tokenizer}, "truncation to 512"},
		{"no tokenizer", map[string]string{tokenizerName: "", "processor_config.json": processors, preprocessorName: image, templateName: "{{ messages }}\n"}, []string{Tokenizer}, "not there"},
		{"no processors", map[string]string{templateName: "{{ messages }}\n"}, []string{Processors}, "image_processor of processor_config.json"},
		{"other template", map[string]string{"processor_config.json": processors, preprocessorName: image, templateName: "{{ bos }}"}, []string{ChatTemplate}, "9 bytes"},
		{"all", map[string]string{tokenizerName: string(limited)}, []string{Processors, Tokenizer, ChatTemplate}, "not there"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := planOf(t, open(t, write(t, made{method: layout.ModelOpt, side: c.side})), open(t, src))
			if diff := cmp.Diff(c.steps, needed(p)); diff != "" {
				t.Fatal(diff)
			}
			if text := fmt.Sprint(p.Steps); !strings.Contains(text, c.says) {
				t.Errorf("the plan does not say %q: %s", c.says, text)
			}
			to := mended(t, p)
			for name, want := range map[string]string{tokenizerName: string(pristine), "processor_config.json": processors, templateName: "{{ messages }}\n"} {
				if got, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(got) != want {
					t.Errorf("%s is not the source's (%v)", name, err)
				}
			}
			text, err := os.ReadFile(filepath.Join(to, preprocessorName))
			var got map[string]any
			if err != nil || json.Unmarshal(text, &got) != nil || got["image_processor_type"] != "Qwen2VLImageProcessor" || got["min_pixels"] != 3136.0 {
				t.Errorf("%s: %v %s", preprocessorName, err, text)
			}
		})
	}
}

// A source whose own tokenizer was cut gives one that is not.
func TestSourceWithTruncation(t *testing.T) {
	clean := write(t, made{})
	text, err := os.ReadFile(filepath.Join(clean, tokenizerName))
	if err != nil {
		t.Fatal(err)
	}
	limited, err := checkpoint.SetMember(text, "truncation", []byte(`{"max_length": 77}`))
	if err != nil {
		t.Fatal(err)
	}
	dirty := write(t, made{side: map[string]string{tokenizerName: string(limited)}})
	out := write(t, made{method: layout.ModelOpt, side: map[string]string{tokenizerName: string(limited)}})
	p := planOf(t, open(t, out), open(t, dirty), Tokenizer)
	got, err := os.ReadFile(filepath.Join(mended(t, p), tokenizerName))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := member(got, "truncation")
	if err != nil || string(raw) != "null" {
		t.Errorf("truncation is %s (%v)", raw, err)
	}
}

// A template inside tokenizer_config.json comes back there; a file that would hide it
// gets its text.
func TestInnerTemplate(t *testing.T) {
	inner := `{"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": "{% for m in messages %}{{ m }}{% endfor %}"}`
	src := write(t, made{side: map[string]string{tokenizerConf: inner}})
	for name, side := range map[string]map[string]string{
		"lost":   {tokenizerConf: `{"tokenizer_class": "PreTrainedTokenizerFast"}`},
		"hidden": {tokenizerConf: inner, templateName: "other"},
	} {
		p := planOf(t, open(t, write(t, made{method: layout.ModelOpt, side: side})), open(t, src), ChatTemplate)
		if !p.Needed() {
			t.Fatalf("%s: nothing to do", name)
		}
		to := mended(t, p)
		text, err := os.ReadFile(filepath.Join(to, templateName))
		if err != nil {
			conf, err := os.ReadFile(filepath.Join(to, tokenizerConf))
			if err != nil {
				t.Fatal(err)
			}
			raw, err := member(conf, templateMember)
			var s string
			if err != nil || json.Unmarshal(raw, &s) != nil {
				t.Fatalf("%s: %v %s", name, err, raw)
			}
			text = []byte(s)
		}
		if string(text) != "{% for m in messages %}{{ m }}{% endfor %}" {
			t.Errorf("%s: the template is %q", name, text)
		}
	}
}

// Mending in place can be broken off after any file: the checkpoint opens at every
// moment, and mending again ends where it would have.
func TestBrokenOff(t *testing.T) {
	for _, single := range []bool{false, true} {
		for after := range 12 {
			dir := write(t, made{method: layout.ModelOpt, drop: isMTP, single: single, nonlisting: true,
				config: func(c map[string]any) { c["num_nextn_predict_layers"] = 0 }, side: map[string]string{tokenizerName: "{}"}})
			src := openDemo(t)
			left := after
			errStop := errors.New("stopped")
			p := planOf(t, open(t, dir), src)
			_, err := p.Apply(t.Context(), Options{InPlace: true, stop: func() error {
				if left--; left < 0 {
					return errStop
				}
				return nil
			}})
			if err != nil && !errors.Is(err, errStop) {
				t.Fatal(err)
			}
			whole := err == nil
			again := planOf(t, open(t, dir), src)
			if again.Needed() == whole {
				t.Errorf("one file %v, stopped after %d: to do %v, whole %v", single, after, needed(again), whole)
			}
			res, err := again.Apply(t.Context(), Options{InPlace: true})
			if err != nil {
				t.Fatalf("one file %v, stopped after %d: %v", single, after, err)
			}
			checked(t, again, res)
			if f := open(t, dir).Findings; len(f) > 0 {
				t.Errorf("one file %v, stopped after %d: %v", single, after, f)
			}
			if whole {
				break
			}
		}
	}
}

// What is replaced in place is kept.
func TestKept(t *testing.T) {
	dir := write(t, made{method: layout.CompressedTensors, nonlisting: true})
	before, err := os.ReadFile(filepath.Join(dir, configName))
	if err != nil {
		t.Fatal(err)
	}
	res, err := planOf(t, open(t, dir), openDemo(t)).Apply(t.Context(), Options{InPlace: true})
	if err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(filepath.Join(res.Backup, configName))
	if err != nil || !bytes.Equal(kept, before) {
		t.Errorf("kept: %v", err)
	}
	if filepath.Dir(res.Backup) != dir || !strings.HasPrefix(filepath.Base(res.Backup), ".") {
		t.Errorf("kept in %s", res.Backup)
	}
}

// Where something ends a copy, nothing is left of it, and the checkpoint is as it was.
func TestCancelledCopy(t *testing.T) {
	dir := write(t, made{method: layout.ModelOpt, drop: isMTP})
	p := planOf(t, open(t, dir), openDemo(t))
	ctx, cancel := context.WithCancel(t.Context())
	parent := t.TempDir()
	_, err := p.Apply(ctx, Options{To: filepath.Join(parent, "to"), Progress: func(int64) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	left, err := os.ReadDir(parent)
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

// Places that cannot take the result, sources that are none, steps that are not known
// are refused before anything is written.
func TestRefusals(t *testing.T) {
	dir := write(t, made{method: layout.ModelOpt, drop: isMTP})
	out, src := open(t, dir), openDemo(t)
	p := planOf(t, out, src)
	for _, to := range []string{dir, filepath.Join(dir, "below"), filepath.Dir(dir), filepath.Join(dir, configName)} {
		if _, err := p.Apply(t.Context(), Options{To: to}); !errors.Is(err, ErrOutput) {
			t.Errorf("to %s: %v", to, err)
		}
	}
	if _, err := NewPlan(out, src, []string{"grafting"}); !errors.Is(err, ErrStep) || !strings.Contains(err.Error(), "graft-mtp, ignore-mtp") {
		t.Errorf("an unknown step: %v", err)
	}
	if _, err := NewPlan(src, out, nil); !errors.Is(err, ErrSource) {
		t.Errorf("the wrong way round: %v", err)
	}
	other := open(t, write(t, made{config: func(c map[string]any) { c["hidden_size"] = 256 }}))
	if _, err := NewPlan(out, other, nil); !errors.Is(err, ErrSource) || !strings.Contains(err.Error(), "hidden_size") {
		t.Errorf("another model: %v", err)
	}
}

// A tensor that is stored and not registered, and is another than the source's, is not
// taken for it.
func TestStrayOfOtherShape(t *testing.T) {
	dir := write(t, made{method: layout.ModelOpt, drop: isMTP})
	src := openDemo(t)
	name := ""
	for i := range src.Tensors {
		if m, _ := layout.Split(src.Tensors[i].Name); strings.HasSuffix(m, "layers.5.eh_proj") {
			name = src.Tensors[i].Name
		}
	}
	w, err := checkpoint.NewWriter(filepath.Join(dir, "left.safetensors"), []checkpoint.Spec{{Name: name, DType: checkpoint.U8, Shape: []int64{1}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	p := planOf(t, open(t, dir), src)
	if err := p.Refused(); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "left.safetensors") {
		t.Errorf("refused: %v", err)
	}
}
