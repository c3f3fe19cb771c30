package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// What a session holds is reported again only where what it is of has not changed:
// weights of the same names and sizes, a config, a recipe or a head under the same
// path make a measurement of their own.
func TestMeasureOfWhatHasChanged(t *testing.T) {
	const q = "model.layers.1.self_attn.q_proj.weight"
	recipe := func(layer string) []byte {
		return []byte("name: r\ngroups:\n  - targets: [\"model.layers." + layer + ".self_attn.*_proj.weight\"]\n    scheme: nvfp4\n    methods: []\n")
	}
	write := func(t *testing.T, path string, b []byte) {
		t.Helper()
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		args   func(dir, file string) []string
		change func(t *testing.T, dir, file string)
	}{
		"weights of a candidate": {
			func(dir, _ string) []string { return []string{"demo", "--candidate", "m=" + dir} },
			func(t *testing.T, dir, _ string) { spoilWeight(t, dir, q, 5, 0x4000) },
		},
		"weights of the reference": {
			func(dir, _ string) []string { return []string{dir, "--candidate", "nvfp4"} },
			func(t *testing.T, dir, _ string) { spoilWeight(t, dir, q, 5, 0x4000) },
		},
		"weights of a head": {
			func(dir, _ string) []string { return []string{"demo", "--candidate", "nvfp4", "--head-from", dir} },
			func(t *testing.T, dir, _ string) { spoilWeight(t, dir, "lm_head.weight", 5, 0x4000) },
		},
		"a config": {
			func(dir, _ string) []string { return []string{"demo", "--candidate", "m=" + dir} },
			func(t *testing.T, dir, _ string) {
				path := filepath.Join(dir, "config.json")
				b, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				write(t, path, bytes.Replace(b, []byte(`"rms_norm_eps": 1e-05`), []byte(`"rms_norm_eps": 1e-02`), 1))
			},
		},
		"a recipe": {
			func(_, file string) []string { return []string{"demo", "--candidate", "r=" + file} },
			func(t *testing.T, _, file string) { write(t, file, recipe("2")) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, file := demoFolder(t), filepath.Join(t.TempDir(), "r.yaml")
			write(t, file, recipe("1"))
			args := append(c.args(dir, file), "--corpus", "prose", "--chunks", "1", "--no-floor", "--session", filepath.Join(t.TempDir(), "kl.qscope"))
			last := func(d measureJSON) measuredJSON { return d.Candidates[len(d.Candidates)-1] }
			before := last(measureDoc(t, exitGood, args...))
			if again := last(measureDoc(t, exitGood, args...)); again.KLMean != before.KLMean {
				t.Errorf("KL %g, then %g of the same", before.KLMean, again.KLMean)
			}
			c.change(t, dir, file)
			after := last(measureDoc(t, exitGood, args...))
			if after.KLMean == before.KLMean {
				t.Errorf("KL %g is of what was there before", after.KLMean)
			}
		})
	}
}
