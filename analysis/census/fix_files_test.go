package census

import (
	"bytes"
	"encoding/json"
	"testing"

	"quantscope/analysis/verify"
	"quantscope/quant/demo"
)

// checkSide wants all files beside the weights as they were, but for the receipt.
func checkSide(t *testing.T, dir, out string, f *Fixed) {
	t.Helper()
	a, b := sideFiles(t, dir), sideFiles(t, out)
	for name := range a {
		if name != "config.json" && a[name] != b[name] {
			t.Errorf("%s differs", name)
		}
	}
	if len(a) != len(b) {
		t.Errorf("%d files beside the weights, there were %d", len(b), len(a))
	}
	type config struct {
		Quantization struct {
			Receipt struct {
				Variant string
				Globals string `json:"global_scale"`
				Fixed   struct{ Compensated, Requantized int }
			} `json:"quantscope"`
		} `json:"quantization_config"`
	}
	var was, is config
	var wasAll, isAll map[string]any
	for _, x := range []struct {
		text string
		into []any
	}{{a["config.json"], []any{&was, &wasAll}}, {b["config.json"], []any{&is, &isAll}}} {
		for _, v := range x.into {
			if err := json.Unmarshal([]byte(x.text), v); err != nil {
				t.Fatal(err)
			}
		}
	}
	r := is.Quantization.Receipt
	if was.Quantization.Receipt.Globals != "tensor" || r.Globals != "shared" || r.Variant != was.Quantization.Receipt.Variant || r.Fixed.Compensated != f.Compensated || r.Fixed.Requantized != f.Requantized {
		t.Errorf("receipt %+v, was %+v", r, was.Quantization.Receipt)
	}
	for _, all := range []map[string]any{wasAll, isAll} {
		receipt := all["quantization_config"].(map[string]any)["quantscope"].(map[string]any)
		delete(receipt, "global_scale")
		delete(receipt, "fixed")
	}
	one, _ := json.Marshal(wasAll)
	two, _ := json.Marshal(isAll)
	if !bytes.Equal(one, two) {
		t.Error("config.json differs in more than the receipt")
	}
}

// checkVerify wants the proof of the copy to find nothing, and as many matrices
// compensated as were.
func checkVerify(t *testing.T, out string, rep *Report, f *Fixed) {
	t.Helper()
	compensated := 0
	for _, l := range rep.Layers {
		for _, g := range l.Groups {
			for _, m := range g.Members {
				if g.Fix.By == ByCompensation && m.Name != g.Fix.Kept {
					compensated++
				}
			}
		}
	}
	ck, model := open(t, demo.Label)
	v, err := verify.Run(t.Context(), ck, model, out, verify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !v.OK || v.QuantizedCompensated != compensated || compensated != f.Compensated || v.QuantizedReproduced != v.QuantizedTensors-compensated {
		t.Errorf("%d of %d compensated matrices proven, %d made again: %+v", v.QuantizedCompensated, compensated, v.QuantizedReproduced, v.Problems)
	}
}
