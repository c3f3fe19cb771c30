package main

import (
	"encoding/json"
	"math"
	"path/filepath"
	"testing"
)

// TestBiasOfFP4: of a reference that is quantized its quantized matrices are compared
// too, against their decoded values, whether two bits are made on the fly or stored.
func TestBiasOfFP4(t *testing.T) {
	dir := t.TempDir()
	nv, two := filepath.Join(dir, "nv"), filepath.Join(dir, "two")
	for _, args := range [][]string{
		{"quantize", "demo", "--variant", "nvfp4", "--out", nv, "--layout", "modelopt"},
		{"quantize", nv, "--variant", "code2+sym", "--out", two},
	} {
		if o := command(t, args...); o.code != exitGood {
			t.Fatalf("exit %d: %s", o.code, o.err)
		}
	}
	o := command(t, "bias", nv, "--candidate", "code2+sym", "--candidate", two, "--corpus", "prose", "--chunks", "1", "--no-floor", "--json")
	var d biasDocument
	if err := json.Unmarshal([]byte(o.out), &d); err != nil {
		t.Fatalf("exit %d: %s: %v", o.code, o.err, err)
	}
	made, stored := d.Candidates[0].Weights, d.Candidates[1].Weights
	if made == nil || made.Tensors != 192 || len(made.Books) != 1 || made.Books[0].Tensors != 192 || math.Abs(float64(made.RelL2)-0.326) > 0.001 {
		t.Fatalf("made: %+v", made)
	}
	if stored == nil || stored.Tensors != 192 || stored.RelL2 != made.RelL2 || stored.Bias != made.Bias || stored.RowRMS != made.RowRMS {
		t.Errorf("stored %+v, made %+v", stored, made)
	}
}
