package census

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/quant/demo"
	"quantscope/quant/export"
	"quantscope/quant/layout"
)

// A receipt says how members are made again; without one, or with one that is
// not known, they are rounded to nearest, and that is said. Without one no byte
// of the config changes.
func TestFixByReceipt(t *testing.T) {
	edit := func(t *testing.T, dir string, change func(receipt map[string]any) map[string]any) {
		t.Helper()
		path := filepath.Join(dir, "config.json")
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var all map[string]any
		if err := json.Unmarshal(raw, &all); err != nil {
			t.Fatal(err)
		}
		q := all["quantization_config"].(map[string]any)
		if r := change(q["quantscope"].(map[string]any)); r != nil {
			q["quantscope"] = r
		} else {
			delete(q, "quantscope")
		}
		if raw, err = json.Marshal(all); err == nil {
			err = os.WriteFile(path, raw, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, method, note string
		change             func(map[string]any) map[string]any
	}{
		{"as it is", "nvfp4+mse by modelopt", "", func(r map[string]any) map[string]any { return r }},
		{"none", "nvfp4+rtn by modelopt", "no receipt", func(map[string]any) map[string]any { return nil }},
		{"an unknown method", "nvfp4+rtn by modelopt", "cannot be made again", func(r map[string]any) map[string]any { r["method"] = "gptq"; return r }},
		{"another layout's arithmetic", "nvfp4+rtn by modelopt", "cannot be made again", func(r map[string]any) map[string]any { r["convention"] = "ct"; return r }},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := exportDemo(t, "nvfp4+mse", layout.ModelOpt, export.PerTensor)
			edit(t, dir, c.change)
			out, _, f := fix(t, dir, demo.Label, Options{})
			if f.Method != c.method {
				t.Errorf("by %s, want %s", f.Method, c.method)
			}
			if notes := strings.Join(f.Notes, "; "); c.note == "" && notes != "" || !strings.Contains(notes, c.note) {
				t.Errorf("notes %q, want %q", notes, c.note)
			}
			if after := census(t, out); after.Differing != 0 {
				t.Errorf("%+v", after.Totals)
			}
			same := sideFiles(t, dir)["config.json"] == sideFiles(t, out)["config.json"]
			if same != (c.name == "none") {
				t.Errorf("config unchanged: %t", same)
			}
		})
	}
}
