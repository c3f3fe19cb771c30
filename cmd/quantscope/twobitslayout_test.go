package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/analysis/verify"
)

// Two bits are exported packed, proven, stored as FP4 codes and packed again, and each
// command says what it sees.
func TestTwoBitsThroughLayouts(t *testing.T) {
	packed := exported(t, "quantscope", "code2+sym")
	o := command(t, "verify", "demo", packed, "--json")
	var rep verify.Report
	if err := json.Unmarshal([]byte(o.out), &rep); err != nil || o.code != exitGood {
		t.Fatalf("%v: exit %d, %s", err, o.code, o.err)
	}
	if rep.Variant != "code2+sym" || rep.QuantizedTensors == 0 || rep.QuantizedReproduced != rep.QuantizedTensors || len(rep.Codebooks) == 0 || rep.Recoded != 0 {
		t.Errorf("%+v", rep)
	}
	checkDocumented(t, o.out)
	wide, back := filepath.Join(t.TempDir(), "wide"), filepath.Join(t.TempDir(), "back")
	o = command(t, "convert", packed, wide, "--layout", "modelopt", "--json")
	var doc convertDocument
	if err := json.Unmarshal([]byte(o.out), &doc); err != nil || o.code != exitGood {
		t.Fatalf("%v: exit %d, %s", err, o.code, o.err)
	}
	if !doc.OK || doc.From != "quantscope" || doc.CodesEqual != doc.Modules || doc.Values.Differ != 0 || len(doc.Groups) != 1 || doc.Groups[0].Scheme != "nvfp4" {
		t.Errorf("%+v", doc)
	}
	o = command(t, "verify", "demo", wide)
	if o.code != exitGood || !strings.Contains(o.out, "made again") || !strings.Contains(o.out, "codebooks") {
		t.Errorf("exit %d: %s%s", o.code, o.out, o.err)
	}
	if o = command(t, "convert", wide, back, "--layout", "quantscope"); o.code != exitGood || !strings.Contains(o.out, "code2") {
		t.Fatalf("exit %d: %s%s", o.code, o.out, o.err)
	}
	names, err := filepath.Glob(filepath.Join(packed, "*.safetensors"))
	if err != nil || len(names) == 0 {
		t.Fatalf("%v, %v", names, err)
	}
	for _, name := range names {
		a, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(back, filepath.Base(name)))
		if err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s is not the same: %v", filepath.Base(name), err)
		}
	}
	if o = command(t, "inspect", packed); o.code != exitGood || !strings.Contains(o.out, "2-bit codes") || strings.Contains(o.out, "unknown") {
		t.Errorf("exit %d: %s%s", o.code, o.out, o.err)
	}
	if o = command(t, "lint", packed); o.code != exitGood {
		t.Errorf("exit %d: %s%s", o.code, o.out, o.err)
	}
	o = command(t, "convert", exported(t, "modelopt", "nvfp4"), filepath.Join(t.TempDir(), "none"), "--layout", "quantscope")
	o.refused(t, exitBadInput)
	if !strings.Contains(o.err, "uses 15 values") || !strings.Contains(o.err, "module model.layers.") {
		t.Errorf("%s", o.err)
	}
}
