package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/analysis/verify"
)

// A codebook that is named goes wherever a chooser goes, under one name: through a run,
// an export, a proof, FP4 codes, a recipe, the session of another run, and KL.
func TestNamedCodebook(t *testing.T) {
	const typed, variant = "code2+book:4:-4:1.5:-1", "code2+book:-4:-1:1.5:4"
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	proven := func(source, out, from string, more ...string) {
		t.Helper()
		o := command(t, append([]string{"verify", source, out, "--json"}, more...)...)
		var rep verify.Report
		if err := json.Unmarshal([]byte(o.out), &rep); err != nil || o.code != exitGood || rep.Variant != variant || rep.From != from || rep.QuantizedReproduced == 0 || rep.QuantizedReproduced != max(rep.QuantizedTensors, rep.Recoded) {
			t.Errorf("%s: exit %d, %v: %q from %q, %d of %d made again, %d recoded: %s", out, o.code, err, rep.Variant, rep.From, rep.QuantizedReproduced, rep.QuantizedTensors, rep.Recoded, o.err)
			return
		}
		if len(rep.Codebooks) != 1 {
			t.Errorf("%s: %+v", out, rep.Codebooks)
		}
	}

	session, packed := file("run.qscope"), file("packed")
	o := command(t, "quantize", "demo", "--variant", typed, "--session", session, "--out", packed, "--layout", "quantscope", "--json")
	var doc struct {
		Variants []struct {
			Variant   string            `json:"variant"`
			Codebooks []json.RawMessage `json:"codebooks"`
		} `json:"variants"`
	}
	if err := json.Unmarshal([]byte(o.out), &doc); err != nil || o.code != exitGood || len(doc.Variants) != 1 || doc.Variants[0].Variant != variant || len(doc.Variants[0].Codebooks) != 1 {
		t.Fatalf("exit %d, %v: %s %s", o.code, err, o.out, o.err)
	}
	proven("demo", packed, "config", "--session", session)
	if o = command(t, "quantize", "demo", "--session", session, "--global-scale", "shared", "--variant", "code2+book:1:-1:6:-6"); o.code != exitGood || !strings.Contains(o.out, "code2+book:-6:-1:1:6 ") {
		t.Errorf("added: exit %d: %s%s", o.code, o.out, o.err)
	}

	recipe := file("book.yaml")
	if err := os.WriteFile(recipe, []byte("groups:\n  - targets: ['re:.*mlp\\.experts\\..*proj']\n    scheme: code2\n    methods: [\"book:4:-4:1.5:-1\"]\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	wide := file("wide")
	if o = command(t, "quantize", "demo", "--recipe", recipe, "--session", file("recipe.qscope"), "--out", wide, "--layout", "modelopt"); o.code != exitGood {
		t.Fatalf("exit %d: %s", o.code, o.err)
	}
	proven("demo", wide, "config")

	fp4, recoded := exported(t, "modelopt", "nvfp4"), file("recoded")
	if o = command(t, "quantize", fp4, "--variant", typed, "--session", file("fp4.qscope"), "--out", recoded); o.code != exitGood {
		t.Fatalf("exit %d: %s", o.code, o.err)
	}
	proven(fp4, recoded, "options", "--variant", typed)
	proven(fp4, recoded, "session", "--session", file("fp4.qscope"))

	o = command(t, "measure", "demo", "--candidate", typed+"@default", "--candidate", "kept="+packed, "--candidate", recipe, "--corpus", "prose", "--chunks", "1", "--json")
	var kl struct {
		Candidates []struct {
			Candidate string  `json:"candidate"`
			Effective string  `json:"effective"`
			KL        float64 `json:"kl_mean"`
		} `json:"candidates"`
	}
	if err := json.Unmarshal([]byte(o.out), &kl); err != nil || o.code != exitGood || len(kl.Candidates) < 3 {
		t.Fatalf("exit %d, %v: %s %s", o.code, err, o.out, o.err)
	}
	fly, kept, by := kl.Candidates[0], kl.Candidates[1], kl.Candidates[2]
	if fly.Candidate != typed+"@default" || fly.Effective != variant || kept.Candidate != "kept" || !(fly.KL > 0.01) || fly.KL != kept.KL || fly.KL != by.KL {
		t.Errorf("%+v", kl.Candidates[:3])
	}
}

// Codes with error feedback on a codebook that is named are kept in a folder under its
// name, and are what an export has.
func TestNamedCodebookCalibrated(t *testing.T) {
	const variant = "code2+book:-6:-1.5:1:4+gptq"
	dir := t.TempDir()
	session, out := filepath.Join(dir, "run.qscope"), filepath.Join(dir, "out")
	o := command(t, "quantize", "demo", "--variant", "code2+gptq+book:4:1:-6:-1.5", "--targets", "re:.*layers.1.mlp.experts.0.*", "--calib-chunks", "1", "--session", session, "--out", out, "--layout", "quantscope")
	if o.code != exitGood || !strings.Contains(o.out, variant) {
		t.Fatalf("exit %d: %s%s", o.code, o.out, o.err)
	}
	kept := filepath.Join(session+".codes", variant)
	o = command(t, "verify", "demo", out, "--codes", kept, "--session", session)
	if o.code != exitGood || !strings.Contains(o.out, "of -6 -1.5 1 4") {
		t.Errorf("exit %d: %s%s", o.code, o.out, o.err)
	}
}

// What names no codebook is refused with the values that there are.
func TestNamedCodebookRefused(t *testing.T) {
	for name, says := range map[string]string{
		"code2+book:1:2:3": "3 values: want 4", "code2-mxfp4+book:1:2:3:.5": `".5" is no value`, "code2+book:-0:1:2:3": `"-0" is no value`,
		"code2+book:1:2:3:4+imatrix": "nothing to weigh", "nvfp4+book:1:2:3:4": "has no codebook",
	} {
		o := command(t, "quantize", "demo", "--variant", name, "--session", filepath.Join(t.TempDir(), "s.qscope"))
		o.refused(t, exitUsage)
		if !strings.Contains(o.err, says) {
			t.Errorf("%s: %s", name, o.err)
		}
	}
}
