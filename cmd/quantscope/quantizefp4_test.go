package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/quant/recode/recodetest"
)

// From an FP4 checkpoint without an original to two bits, as a person does it: measured,
// written as the source is, proven, and measured by KL, on the fly and from the folder,
// to the same digit.
func TestQuantizeFP4(t *testing.T) {
	dir := t.TempDir()
	fp4, session, out, packed := filepath.Join(dir, "fp4"), filepath.Join(dir, "run.qscope"), filepath.Join(dir, "out"), filepath.Join(dir, "packed")
	o := command(t, "quantize", "demo", "--variant", "mxfp4", "--out", fp4, "--layout", "compressed-tensors", "--session", filepath.Join(dir, "fp4.qscope"))
	if o.code != exitGood {
		t.Fatalf("%+v", o)
	}
	o = command(t, "quantize", fp4, "--variant", "code2+l2,code2+sym", "--session", session, "--json")
	var doc struct {
		Targets  string `json:"targets"`
		State    string `json:"state"`
		Variants []struct {
			Variant       string  `json:"variant"`
			Effective     string  `json:"effective"`
			BitsPerWeight float64 `json:"bits_per_weight"`
			Tensors       int     `json:"tensors"`
			MeanRel2      float64 `json:"mean_rel2"`
			SignBias      float64 `json:"sign_bias"`
		} `json:"variants"`
		Failed, Fallbacks []eventLine
	}
	if err := json.Unmarshal([]byte(o.out), &doc); err != nil || o.code != exitGood || len(doc.Variants) != 2 || len(doc.Failed)+len(doc.Fallbacks) != 0 || doc.State != "finished" {
		t.Fatalf("exit %d, %v: %s %s", o.code, err, o.out, o.err)
	}
	l2, sym := doc.Variants[0], doc.Variants[1]
	if l2.Variant != "code2" || l2.Effective != "code2-mxfp4" || sym.Effective != "code2-mxfp4+sym" || l2.BitsPerWeight != 2.25 || l2.Tensors != 240 || !(l2.MeanRel2 > 0.05 && l2.MeanRel2 <= sym.MeanRel2 && sym.MeanRel2 < 0.2) {
		t.Errorf("%+v", doc.Variants)
	}
	again := command(t, "quantize", fp4, "--variant", "code2+l2,code2+sym", "--session", session, "--json")
	if again.code != exitGood || again.out != o.out {
		t.Errorf("gone on with, the document is another: %s", again.err)
	}

	o = command(t, "quantize", fp4, "--variant", "code2+sym", "--session", session, "--out", out)
	if o.code != exitGood || !strings.Contains(o.out, "export   "+out+": source, 7 files") {
		t.Fatalf("%+v", o)
	}
	for _, name := range []string{"config.json", "model.safetensors.index.json", "tokenizer.json"} {
		was, err := os.ReadFile(filepath.Join(fp4, name))
		if err != nil {
			t.Fatal(err)
		}
		if is, err := os.ReadFile(filepath.Join(out, name)); err != nil || !bytes.Equal(was, is) {
			t.Errorf("%s changed (%v)", name, err)
		}
	}
	if o = command(t, "quantize", fp4, "--variant", "code2+sym", "--session", filepath.Join(dir, "packed.qscope"), "--out", packed, "--layout", "quantscope"); o.code != exitGood {
		t.Fatalf("%+v", o)
	}
	for _, copied := range []string{out, packed} {
		o = command(t, "verify", fp4, copied, "--json")
		var proof struct {
			OK        bool              `json:"ok"`
			Problems  []json.RawMessage `json:"problems"`
			Recoded   int               `json:"recoded"`
			Codebooks []json.RawMessage `json:"codebooks"`
			Tensors   int               `json:"untouched_tensors"`
			Identical int               `json:"untouched_identical"`
		}
		if err := json.Unmarshal([]byte(o.out), &proof); err != nil || o.code != exitGood || !proof.OK || len(proof.Problems) != 0 || proof.Recoded != 240 || len(proof.Codebooks) == 0 || proof.Identical != proof.Tensors || proof.Tensors == 0 {
			t.Errorf("%s: exit %d, %v: %s", copied, o.code, err, o.out)
		}
	}

	o = command(t, "measure", fp4, "--candidate", "code2+sym", "--candidate", "./"+rel(t, out), "--candidate", packed, "--corpus", "prose", "--chunks", "1", "--json")
	var kl struct {
		Candidates []struct {
			Candidate     string  `json:"candidate"`
			BitsPerWeight float64 `json:"bits_per_weight"`
			KL            float64 `json:"kl_mean"`
			PPL           float64 `json:"ppl"`
		} `json:"candidates"`
	}
	if err := json.Unmarshal([]byte(o.out), &kl); err != nil || o.code != exitGood || len(kl.Candidates) < 3 {
		t.Fatalf("exit %d, %v: %s %s", o.code, err, o.out, o.err)
	}
	fly, folder, two := kl.Candidates[0], kl.Candidates[1], kl.Candidates[2]
	if fly.KL != folder.KL || fly.PPL != folder.PPL || fly.KL != two.KL || !(fly.KL > 0.01) {
		t.Errorf("KL on the fly %v, of the folder %v, packed %v", fly.KL, folder.KL, two.KL)
	}
	if !(fly.BitsPerWeight < folder.BitsPerWeight) || fly.BitsPerWeight != two.BitsPerWeight {
		t.Errorf("bits a weight: %v on the fly, %v as FP4, %v packed", fly.BitsPerWeight, folder.BitsPerWeight, two.BitsPerWeight)
	}
}

// rel is a path from here, with slashes, so that a label has no drive or root in it.
func rel(t *testing.T, path string) string {
	t.Helper()
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	r, err := filepath.Rel(wd, path)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.ToSlash(r)
}

// What FP4 codes cannot become is refused in a line with what they can, before anything
// is written.
func TestQuantizeFP4Refused(t *testing.T) {
	dir := t.TempDir()
	fp4 := recodetest.Write(t, recodetest.DeepSeek, recodetest.Tensors(recodetest.DeepSeek, 8))
	nan := recodetest.Tensors(recodetest.DeepSeek, 8)
	for i := range nan {
		if strings.HasSuffix(nan[i].Name, "layers.0.mlp.experts.1.up_proj.scale") {
			nan[i].Data[7] = 255
		}
	}
	broken := recodetest.Write(t, recodetest.DeepSeek, nan)
	out := filepath.Join(dir, "out")
	for name, c := range map[string]struct {
		args []string
		code int
		says []string
	}{
		"another scheme": {[]string{fp4, "--variant", "nvfp4+mse"}, exitBadInput, []string{"nothing to quantize", "code2+l2, code2+sym"}},
		"by default":     {[]string{fp4}, exitBadInput, []string{"code2+l2, code2+sym"}},
		"both":           {[]string{fp4, "--variant", "code2,nvfp4"}, exitUsage, []string{"variant nvfp4", "code2+l2, code2+sym"}},
		"calibrated":     {[]string{fp4, "--variant", "code2+imatrix"}, exitUsage, []string{"code2+imatrix", "possible: code2"}},
		"a layout":       {[]string{fp4, "--variant", "code2", "--out", out, "--layout", "modelopt"}, exitUsage, []string{"layout modelopt", "source", "quantscope"}},
		"no layout":      {[]string{"demo", "--variant", "code2", "--out", out}, exitUsage, []string{"needs a layout", "modelopt, compressed-tensors"}},
		"its own layout": {[]string{"demo", "--variant", "nvfp4", "--out", out, "--layout", "source"}, exitUsage, []string{"floating point"}},
		"a scale of NaN": {[]string{broken, "--variant", "code2", "--out", out}, exitBadInput, []string{"layers.0.mlp.experts.1.up_proj.weight", "32 NaN", "is incomplete"}},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"quantize"}, c.args...)
			o := command(t, append(args, "--session", filepath.Join(t.TempDir(), "s.qscope"))...)
			if o.code != c.code {
				t.Errorf("exit %d, want %d: %s", o.code, c.code, o.err)
			}
			for _, s := range c.says {
				if !strings.Contains(o.err, s) {
					t.Errorf("%q does not say %q", o.err, s)
				}
			}
		})
	}
}
