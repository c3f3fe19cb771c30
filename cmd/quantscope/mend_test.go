package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// exported is an export of the demo.
func exported(t *testing.T, layout, variant string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "out")
	o := command(t, "quantize", "demo", "--variant", variant, "--out", dir, "--layout", layout, "--session", filepath.Join(t.TempDir(), "s.qscope"))
	if o.code != exitGood {
		t.Fatalf("exit %d: %s", o.code, o.err)
	}
	return dir
}

// editJSON changes a JSON file.
func editJSON(t *testing.T, path string, edit func(map[string]any)) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var root map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // verify compares numbers as they are written
	if err := d.Decode(&root); err != nil {
		t.Fatal(err)
	}
	edit(root)
	if text, err = json.MarshalIndent(root, "", "  "); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o666); err != nil {
		t.Fatal(err)
	}
}

// mendJSON is what the tests read of mend --json.
type mendJSON struct {
	Needed bool
	Steps  []struct {
		ID      string
		Needed  bool
		Changes []struct{ File, What, Before, After string }
	}
	Written *struct{ Dir, Backup string }
	Checked *struct {
		OK           bool
		Joined, Kept int
		Steps        []string
	}
}

// An export whose MTP layer is in no index, whose exceptions are lost and whose
// tokenizer is cut is mended, in a new folder and in place, and then lints clean.
func TestMendCommand(t *testing.T) {
	for _, layout := range []string{"modelopt", "compressed-tensors"} {
		dir := exported(t, layout, "nvfp4")
		lost := 0
		editJSON(t, filepath.Join(dir, "model.safetensors.index.json"), func(ix map[string]any) {
			for name := range ix["weight_map"].(map[string]any) {
				if strings.HasPrefix(name, "model.layers.5.") && !strings.Contains(name, "mlp.experts.") {
					delete(ix["weight_map"].(map[string]any), name)
					lost++
				}
			}
		})
		drop := func(list any) (left []any) {
			for _, e := range list.([]any) {
				if !strings.Contains(strings.ReplaceAll(e.(string), `\`, ""), "layers.5.") {
					left = append(left, e)
				}
			}
			return left
		}
		editJSON(t, filepath.Join(dir, "config.json"), func(c map[string]any) {
			q := c["quantization_config"].(map[string]any)
			q["ignore"] = drop(q["ignore"])
		})
		if layout == "modelopt" {
			editJSON(t, filepath.Join(dir, "hf_quant_config.json"), func(c map[string]any) {
				q := c["quantization"].(map[string]any)
				q["exclude_modules"] = drop(q["exclude_modules"])
			})
		}
		editJSON(t, filepath.Join(dir, "tokenizer.json"), func(c map[string]any) {
			c["truncation"] = map[string]any{"max_length": 512}
		})
		if o := command(t, "lint", dir); o.code != exitCheckFailed {
			t.Errorf("%s: lint of the broken export: exit %d", layout, o.code)
		}
		o := command(t, "mend", dir, "--from", "demo", "--dry-run")
		if o.code != exitCheckFailed || !strings.Contains(o.out, "truncation to 512") {
			t.Errorf("%s: dry run: exit %d\n%s%s", layout, o.code, o.out, o.err)
		}
		to := filepath.Join(t.TempDir(), "mended")
		for _, args := range [][]string{{"--to", to}, {"--in-place"}} {
			o := command(t, append([]string{"mend", dir, "--from", "demo", "--json"}, args...)...)
			var doc mendJSON
			if err := json.Unmarshal([]byte(o.out), &doc); err != nil || o.code != exitGood {
				t.Fatalf("%s %v: exit %d, %v: %s", layout, args, o.code, err, o.err)
			}
			var done []string
			for _, s := range doc.Steps {
				if s.Needed {
					done = append(done, s.ID)
				}
			}
			if got := strings.Join(done, " "); got != "graft-mtp ignore-mtp tokenizer" {
				t.Errorf("%s %v: steps %s", layout, args, got)
			}
			if doc.Checked == nil || !doc.Checked.OK || doc.Checked.Joined != lost || len(doc.Checked.Steps) != 5 {
				t.Errorf("%s %v: checked %+v, want %d new in the index", layout, args, doc.Checked, lost)
			}
			if o := command(t, "lint", doc.Written.Dir); o.code != exitGood {
				t.Errorf("%s %v: lint of the mended one: exit %d\n%s", layout, args, o.code, o.out)
			}
			if o := command(t, "verify", "demo", doc.Written.Dir); o.code != exitGood {
				t.Errorf("%s %v: verify of the mended one: exit %d\n%s", layout, args, o.code, o.out)
			}
		}
	}
}

func TestMendUsage(t *testing.T) {
	dir := exported(t, "modelopt", "nvfp4")
	for _, args := range [][]string{
		{"mend", dir},
		{"mend", dir, "--from", "demo", "--steps", "mtp"},
		{"mend", dir, "--from", "demo", "--in-place", "--to", "x"},
		{"mend", dir, "--from", "demo", "--dry-run", "--to", "x"},
		{"mend", "demo", "--from", "demo", "--in-place"},
	} {
		if o := command(t, args...); o.code != exitUsage || strings.Count(o.err, "\n") != 1 {
			t.Errorf("%v: exit %d: %s", args, o.code, o.err)
		}
	}
	if o := command(t, "mend", dir, "--from", "demo"); o.code != exitGood {
		t.Errorf("nothing to mend: exit %d: %s", o.code, o.err)
	}
	if _, err := os.Stat(dir + "-mended"); err == nil {
		t.Error("a copy was made where nothing is to be mended")
	}
	if err := os.Remove(filepath.Join(dir, "tokenizer_config.json")); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{dir, filepath.Join(dir, "sub"), filepath.Join(dir, "config.json"), filepath.Dir(dir)} {
		command(t, "mend", dir, "--from", "demo", "--to", to).refused(t, exitUsage) // with nothing on standard output
	}
	if o := command(t, "mend", "demo", "--from", dir); o.code != exitBadInput || !strings.Contains(o.err, "wrong way round") {
		t.Errorf("the wrong way round: exit %d: %s", o.code, o.err)
	}
}

// A module that the source has quantized and the checkpoint has plain is there: with
// the source's parts of it grafted it would be stored twice.
func TestMendFromQuantizedSource(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	if o := command(t, "quantize", "demo", "--recipe", "moe-nvfp4", "--session", filepath.Join(dir, "s.qscope"), "--out", out, "--layout", "compressed-tensors"); o.code != exitGood {
		t.Fatal(o.err)
	}
	o := command(t, "mend", out, "--from", exported(t, "compressed-tensors", "nvfp4"), "--dry-run")
	if o.code != exitGood || !strings.Contains(o.out, "MTP tensors of the source are there") {
		t.Errorf("exit %d: %s%s", o.code, o.out, o.err)
	}
}
