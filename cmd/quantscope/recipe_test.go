package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/quant/exchange"
)

// A recipe goes out in every format that can say it, and comes back the same.
func TestRecipeExportImport(t *testing.T) {
	for _, f := range exchange.Formats() {
		dir := t.TempDir()
		out, back := filepath.Join(dir, "foreign"), filepath.Join(dir, "back.yaml")
		recipe := "moe-nvfp4"
		if f.Name == "gptqmodel" {
			recipe = "int4-g128"
		}
		if o := command(t, "recipe", "export", "demo", "--recipe", recipe, "--format", f.Name, "--out", out); o.code != exitGood {
			t.Errorf("%s: exit %d: %s", f.Name, o.code, o.err)
			continue
		}
		if o := command(t, "recipe", "import", "demo", out, "--format", f.Name, "--out", back); o.code != exitGood {
			t.Errorf("%s: exit %d: %s", f.Name, o.code, o.err)
			continue
		}
		var want, got struct {
			Groups []struct {
				Variant  string
				Matrices int
			}
		}
		for path, doc := range map[string]any{recipe: &want, back: &got} {
			o := command(t, "plan", "demo", "--recipe", path, "--json")
			if err := json.Unmarshal([]byte(o.out), doc); err != nil || o.code != exitGood {
				t.Fatalf("%s: plan of %s: exit %d, %v: %s", f.Name, path, o.code, err, o.err)
			}
		}
		scheme := strings.TrimSuffix(got.Groups[0].Variant, "+gptq")
		if len(got.Groups) != 1 || scheme != want.Groups[0].Variant || got.Groups[0].Matrices != want.Groups[0].Matrices {
			t.Errorf("%s: came back as %+v, went out as %+v", f.Name, got.Groups, want.Groups)
		}
	}
}

func TestRecipeUsage(t *testing.T) {
	there := filepath.Join(t.TempDir(), "there")
	if err := os.WriteFile(there, []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"recipe"}, exitUsage, "export, import, formats"},
		{[]string{"recipe", "convert"}, exitUsage, "export, import, formats"},
		{[]string{"recipe", "export", "demo", "--recipe", "moe-nvfp4", "--format", "exl3"}, exitUsage, "known: llm-compressor"},
		{[]string{"recipe", "export", "demo", "--format", "mlx"}, exitUsage, "--recipe"},
		{[]string{"recipe", "export", "demo", "--recipe", "moe", "--format", "mlx"}, exitUsage, "built in: "},
		{[]string{"recipe", "export", "demo", "--recipe", "moe-nvfp4", "--format", "mlx", "--out", there}, exitUsage, "--force"},
		{[]string{"recipe", "export", "demo", "--recipe", "moe-nvfp4", "--format", "gptqmodel"}, exitBadInput, "nvfp4"},
		{[]string{"recipe", "import", "demo", there, "--format", "mlx"}, exitBadInput, there},
		{[]string{"recipe", "import", "demo", there + ".not", "--format", "mlx"}, exitBadInput, "no such file"},
	} {
		o := command(t, c.args...)
		if o.code != c.code || !strings.Contains(o.err, c.says) || strings.Count(o.err, "\n") != 1 || o.out != "" {
			t.Errorf("%v: exit %d: %s%s", c.args, o.code, o.err, o.out)
		}
	}
	if o := command(t, "recipe", "formats"); o.code != exitGood || !strings.Contains(o.out, "tensor-type-file") {
		t.Errorf("formats: exit %d: %s", o.code, o.out)
	}
}
