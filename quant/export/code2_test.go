package export

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/kernels"
)

// Bytes of two bits are counted as they are stored: packed with the four values of the
// codebook, or in codes of four bits.
func TestTwoBitBytes(t *testing.T) {
	for _, c := range []struct {
		layout, format string
		side           int
		bytes          int64
	}{
		{Own, "code2", 128, 128*32 + 128*8 + 4 + 4}, {Own, "code2", 2048, 2048*512 + 2048*128 + 4 + 4},
		{Own, "code2-mxfp4", 128, 128*32 + 128*4 + 4}, {Own, "code2-mxfp4", 2048, 2048*512 + 2048*64 + 4},
		{ModelOpt, "code2", 128, 128*64 + 128*8 + 4}, {CompressedTensors, "code2", 2048, 2048*1024 + 2048*128 + 4},
		{CompressedTensors, "code2-mxfp4", 128, 128*64 + 128*4},
	} {
		conv, err := DefaultConvention(c.layout, c.format)
		if err != nil {
			t.Fatal(err)
		}
		n, err := StoredBytes(c.layout, kernels.Spec{Format: c.format, Convention: conv}, c.side, c.side)
		if err != nil || n != c.bytes {
			t.Errorf("%s in %s, %d×%d: %d bytes, want %d (%v)", c.format, c.layout, c.side, c.side, n, c.bytes, err)
		}
	}
	for layout, want := range map[string]string{Own: "code2", ModelOpt: "nvfp4", CompressedTensors: "nvfp4"} {
		if got := StoredFormat(layout, "code2"); got != want {
			t.Errorf("%s stores code2 as %s, want %s", layout, got, want)
		}
	}
	if StoredFormat(CompressedTensors, "code2-mxfp4") != "mxfp4" || StoredFormat(ModelOpt, "fp8") != "fp8" || StoredFormat("none", "code2") != "code2" {
		t.Error("other formats")
	}
}

// What a layout of FP4 and one of two bits can hold, and what they refuse.
func TestTwoBitShapes(t *testing.T) {
	for _, c := range []struct {
		layout, format string
		cols           int
		word           string
	}{
		{Own, "code2", 20, ""}, {Own, "code2", 30, "no multiple of 4"}, {ModelOpt, "code2", 20, "no multiple of 16"}, {CompressedTensors, "code2-mxfp4", 48, "no multiple of 32"},
		{ModelOpt, "code2-mxfp4", 64, "code2-mxfp4 is available as compressed-tensors, quantscope"},
	} {
		if err := Fits(c.layout, c.format, 8, c.cols); c.word == "" && err != nil || c.word != "" && (err == nil || !strings.Contains(err.Error(), c.word)) {
			t.Errorf("%s in %s, %d inputs: %v, want %q", c.format, c.layout, c.cols, err, c.word)
		}
	}
	for _, c := range []struct {
		layout  string
		formats []string
		fine    bool
	}{
		{ModelOpt, []string{"code2", "nvfp4", "fp8"}, true}, {ModelOpt, []string{"code2", "fp8-block128"}, false},
		{CompressedTensors, []string{"code2", "code2-mxfp4", "fp8"}, true}, {Own, []string{"code2", "int4-g128"}, false}, {Own, []string{"code2", "code2-mxfp4"}, false},
	} {
		if err := Together(c.layout, c.formats); (err == nil) != c.fine || err != nil && !errors.Is(err, ErrLayout) {
			t.Errorf("%v in %s: %v", c.formats, c.layout, err)
		}
	}
}

// Scales of two bits are those of the format of four that they are of: the second-level
// one is shared where that is, and the same number.
func TestTwoBitGlobals(t *testing.T) {
	if !SharesGlobal("code2") || SharesGlobal("code2-mxfp4") || SharesGlobal("mxfp4") || !SharesGlobal("nvfp4") || SharesGlobal("fp8") {
		t.Error("which formats share a scale")
	}
	for _, c := range kernels.Conventions("code2") {
		want, err := GlobalScale(kernels.Spec{Format: "nvfp4", Convention: c}, 3.5)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := GlobalScale(kernels.Spec{Format: "code2", Convention: c, Method: "sym", Codebook: 1}, 3.5); err != nil || got != want || got == 0 {
			t.Errorf("%v: %v, %v, want %v", c, got, err, want)
		}
	}
}

// The config of two bits says which, in quantscope's own words; that of an FP4 layout is
// the one of the format whose codes are stored, and the receipt says what they are.
func TestTwoBitConfigs(t *testing.T) {
	ck, model := openModel(t, dense().write(t))
	for _, layout := range []string{Own, ModelOpt, CompressedTensors} {
		p := planOf(t, ck, model, "model.layers.0.*proj.weight", layout, "code2")
		var root struct {
			Q map[string]any `json:"quantization_config"`
		}
		if err := json.Unmarshal(configOf(p), &root); err != nil {
			t.Fatal(err)
		}
		receipt := root.Q["quantscope"].(map[string]any)
		if receipt["format"] != "code2" || receipt["method"] != "l2" || receipt["global_scale"] != "shared" {
			t.Errorf("%s: %v", layout, receipt)
		}
		switch layout {
		case Own:
			if root.Q["format"] != "code2" || root.Q["version"] != 2.0 || root.Q["bits"] != 2.0 || root.Q["group_size"] != 16.0 {
				t.Errorf("%v", root.Q)
			}
			continue
		case ModelOpt:
			if root.Q["quant_algo"] != "W4A16_NVFP4" {
				t.Errorf("%v", root.Q)
			}
		default:
			if root.Q["format"] != "nvfp4-pack-quantized" {
				t.Errorf("%v", root.Q)
			}
		}
		delete(root.Q, "quantscope")
		var other struct {
			Q map[string]any `json:"quantization_config"`
		}
		q := planOf(t, ck, model, "model.layers.0.*proj.weight", layout, "nvfp4")
		if err := json.Unmarshal(configOf(q), &other); err != nil {
			t.Fatal(err)
		}
		delete(other.Q, "quantscope")
		a, _ := json.Marshal(root.Q)
		b, _ := json.Marshal(other.Q)
		if string(a) != string(b) {
			t.Errorf("%s: %s, that of nvfp4 is %s", layout, a, b)
		}
		for i := range p.Shards {
			if string(p.Shards[i].Header) != string(q.Shards[i].Header) {
				t.Errorf("%s: %s has another header than in nvfp4", layout, p.Shards[i].Name)
			}
		}
	}
}

// configOf is the config of an export as JSON, which the source's NaN is not.
func configOf(p *Plan) []byte {
	text := p.Texts[slices.IndexFunc(p.Texts, func(x Text) bool { return x.Name == configName })].Data
	return bytes.ReplaceAll(text, []byte("NaN"), []byte("null"))
}

// Rows come with their codebook, all of a matrix with the same; an export that was
// given up and goes on is the one that was not.
func TestTwoBitWriter(t *testing.T) {
	ck, model := openModel(t, dense().write(t))
	for _, layout := range []string{Own, ModelOpt} {
		p := planOf(t, ck, model, "model.layers.0.*proj.weight", layout, "code2")
		all := prepare(t, p)
		whole := filepath.Join(t.TempDir(), "whole")
		mustWrite(t, p, all, whole, Options{})
		dir := filepath.Join(t.TempDir(), "out")
		w, err := Create(t.Context(), p, dir, Options{files: &faults{}})
		if err != nil {
			t.Fatal(err)
		}
		name := p.Matrices[0].Name
		for _, c := range []struct {
			made kernels.Spec
			id   error
		}{{kernels.Spec{Global: 1}, kernels.ErrCodebook}, {kernels.Spec{Global: 1, Codebook: 7}, kernels.ErrCodebook}, {kernels.Spec{Codebook: 1<<8 | 7}, kernels.ErrCodebook}} {
			if err := w.StoreMade(0, 0, all[0].rows(p, 0, 0, 8), c.made); !errors.Is(err, c.id) || !strings.Contains(err.Error(), name) {
				t.Errorf("%v: %v", c.made, err)
			}
		}
		if err := w.StoreMade(0, 0, all[0].rows(p, 0, 0, 8), all[0].made()); err != nil {
			t.Fatal(err)
		}
		other := all[0].made()
		if other.Codebook = 1 | 1<<3 | 1<<9 | 1<<15; other.Codebook == all[0].book {
			other.Codebook ^= 3
		}
		if err := w.StoreMade(0, 8, all[0].rows(p, 0, 8, 8), other); !errors.Is(err, ErrMatrix) || !strings.Contains(err.Error(), name) {
			t.Errorf("another codebook: %v", err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, configName)); err == nil {
			t.Error("has a config, and is not whole")
		}
		mustWrite(t, p, all, dir, Options{Resume: true})
		sameFiles(t, dir, whole)
	}
}
