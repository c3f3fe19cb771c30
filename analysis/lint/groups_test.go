package lint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/quant/checkpoint"
	"quantscope/quant/layout/layouttest"
)

// edited is a packed demo whose tensor of a name ends in other bytes, from offset
// on.
func edited(t *testing.T, form layouttest.Form, tensor string, offset int64, data []byte) string {
	t.Helper()
	dir, _ := layouttest.Demo(t, form)
	ck, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	x, ok := ck.Lookup(tensor)
	if !ok {
		t.Fatalf("no %s", tensor)
	}
	at := x.Offset + offset
	path := filepath.Join(dir, ck.Files[x.File].Name)
	if err := ck.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(data, at); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// What is wrong in the values of GPTQ's side tensors is named, with where it is.
func TestGroups(t *testing.T) {
	const q = "model.layers.0.self_attn.q_proj."
	for _, c := range []struct {
		name, id, tensor string
		form             layouttest.Form
		offset           int64
		data             []byte
		severity         Severity
		words            []string
	}{
		{"g_idx too large", "g-idx-range", q + "g_idx", layouttest.Form{Bits: 4, Group: 32, Order: true}, 4 * 9, []byte{4, 0, 0, 0}, Error, []string{"1 of 128 inputs", "input 9, in 4"}},
		{"g_idx below 0", "g-idx-range", q + "g_idx", layouttest.Form{Bits: 4, Group: 32}, 4 * 127, []byte{255, 255, 255, 255}, Error, []string{"input 127, in -1"}},
		{"zero point of 0", "zero-points-zero", q + "qzeros", layouttest.Form{Bits: 4, Group: 64, Sym: true}, 5, []byte{0xF7}, Warning, []string{"1 of 256 zero points are 0", "group 0, output 11"}},
		{"not the middle", "zero-points-not-middle", q + "qzeros", layouttest.Form{Bits: 8, Group: 64, V2: true, Sym: true}, 130, []byte{7}, Error, []string{"1 of 256 zero points are not 128", "group 1, output 2: 7"}},
		{"infinite scale", "scale-nonfinite", q + "scales", layouttest.Form{Bits: 4, Group: 64}, 2 * 129, []byte{0, 0x7C}, Error, []string{"1 of 256 scales are infinite", "[1,1]"}},
		{"NaN scale of AWQ", "scale-nonfinite", q + "scales", layouttest.Form{AWQ: true, Bits: 4, Group: 64}, 2, []byte{1, 0x7E}, Error, []string{"NaN", "[0,1]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var named []Finding
			for _, f := range of(c.id, lintPath(t, edited(t, c.form, c.tensor, c.offset, c.data))) {
				if f.Severity == c.severity {
					named = append(named, f)
				}
			}
			if len(named) != 1 || named[0].Tensor != c.tensor || named[0].File != "model.safetensors" || named[0].Fix == "" {
				t.Fatalf("%+v", named)
			}
			for _, w := range c.words {
				if !strings.Contains(named[0].Message, w) {
					t.Errorf("no %q in %s", w, named[0].Message)
				}
			}
		})
	}
}

// A packed model without faults has no findings.
func TestGroupsOfGoodModels(t *testing.T) {
	for _, form := range []layouttest.Form{{Bits: 4, Group: 64, Sym: true, Order: true}, {AWQ: true, Bits: 4, Group: 32}, {Bits: 3, Group: 32}} {
		dir, _ := layouttest.Demo(t, form)
		if found := lintPath(t, dir); len(found) != 0 {
			t.Errorf("%+v: %v", form, found)
		}
	}
}
