package verify

import (
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/quant/checkpoint"
	"quantscope/quant/convert"
	"quantscope/quant/export"
	"quantscope/quant/layout"
	"quantscope/quant/method"
)

// e2m1 are what codes stand for.
var e2m1 = [16]float64{0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6}

// nearestOf is the code of the nearest of some values to a code's, the first of those
// that are as near.
func nearestOf(code byte, book []byte) byte {
	best := book[0]
	for _, b := range book {
		if math.Abs(e2m1[b]-e2m1[code]) < math.Abs(e2m1[best]-e2m1[code]) {
			best = b
		}
	}
	return best
}

// mapped changes all codes of a tensor.
func mapped(raw []byte, to func(code byte) byte) {
	for i, two := range raw {
		raw[i] = to(two&15) | to(two>>4)<<4
	}
}

// fp4Source is an FP4 checkpoint, and a copy of it whose codes are those of four values
// a matrix, ±a and ±b by turns.
func fp4Source(t testing.TB, variant, where string) (src exported, modules []string) {
	t.Helper()
	base := exportMoE(t, variant, where)
	ck, model := openSource(t, base.dir)
	l, err := layout.Open(ck, model)
	if err != nil {
		t.Fatal(err)
	}
	out := base.copied(t)
	for i := range l.Modules {
		m := &l.Modules[i]
		book := testBooks[i%len(testBooks)]
		bytesOf(t, out.dir, m.CodeTensor().Name, func(raw []byte) { mapped(raw, func(c byte) byte { return nearestOf(c, book) }) })
		modules = append(modules, m.Name)
	}
	return exported{ck: ck, model: model, dir: out.dir}, modules
}

var testBooks = [][]byte{{14, 10, 2, 6}, {15, 11, 3, 7}, {13, 0, 5, 7}}

// Codes that are four values of an FP4 source, each the nearest, under its own scales,
// are told from everything else: how many matrices, by which codebooks, headers and all
// other tensors identical.
func TestRecodedInPlace(t *testing.T) {
	for _, c := range []struct{ variant, layout string }{{"nvfp4", export.ModelOpt}, {"nvfp4", export.CompressedTensors}, {"mxfp4", export.CompressedTensors}} {
		t.Run(c.variant+" "+c.layout, func(t *testing.T) {
			e, modules := fp4Source(t, c.variant, c.layout)
			rep := e.verify(t, Options{})
			if !rep.OK || rep.Recoded != len(modules) || rep.HeadersIdentical != 2 || rep.QuantizedTensors != len(modules) || rep.QuantizedChecked != len(modules) {
				t.Errorf("%+v", rep)
			}
			if want := len(e.ck.Tensors) - len(modules); rep.UntouchedTensors != want || rep.UntouchedIdentical != want {
				t.Errorf("%d of %d untouched, want %d", rep.UntouchedIdentical, rep.UntouchedTensors, want)
			}
			n := 0
			for _, b := range rep.Codebooks {
				if len(b.Values) != 4 || !slices.IsSorted(b.Values) {
					t.Errorf("%v", b)
				}
				n += b.Tensors
			}
			if len(rep.Codebooks) != len(testBooks) || n != len(modules) {
				t.Errorf("%v", rep.Codebooks)
			}
			var sum float64
			for _, name := range modules {
				sum += rel2Of(t, &e, name)
			}
			if want := sum / float64(len(modules)); math.Abs(float64(rep.MeanRel2)-want) > 1e-6*want {
				t.Errorf("mean rel2 %v, by plain loops %v", rep.MeanRel2, want)
			}
		})
	}
}

// rel2Of is the error of a module against the source's, by plain loops.
func rel2Of(t testing.TB, e *exported, module string) float64 {
	t.Helper()
	values := func(ck *checkpoint.Checkpoint) []float32 {
		model := openedModel(t, ck)
		m, ok := model.Lookup(module)
		if !ok {
			t.Fatalf("no %s", module)
		}
		dst := make([]float32, m.Rows*m.Cols)
		if err := m.Dequantize(t.Context(), dst, 0, &layout.Stored{}); err != nil {
			t.Fatal(err)
		}
		return dst
	}
	out, _ := openSource(t, e.dir)
	w, q := values(e.ck), values(out)
	var e2, w2 float64
	for i := range w {
		d := float64(w[i]) - float64(q[i])
		e2, w2 = e2+d*d, w2+float64(w[i])*float64(w[i])
	}
	return e2 / w2
}

func openedModel(t testing.TB, ck *checkpoint.Checkpoint) *layout.Layout {
	t.Helper()
	_, model := openSource(t, ck.Path)
	l, err := layout.Open(ck, model)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// What is no recoding is named with its first place; scales, headers and configs must
// be the source's.
func TestRecodedFaults(t *testing.T) {
	good, _ := fp4Source(t, "nvfp4", export.ModelOpt)
	const first, second = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
	const up = layer + "mlp.experts.1.up_proj."
	for _, f := range []struct {
		name, id, file, tensor string
		words                  []string
		do                     func(t *testing.T, dir string)
	}{
		{"one code", TensorChanged, second, up + "weight", []string{"at [3,5] code", "and at [", "it becomes"}, func(t *testing.T, dir string) {
			bytesOf(t, dir, up+"weight", func(raw []byte) { raw[3*32+2] ^= 0x70 })
		}},
		{"five values", TensorChanged, second, up + "weight", []string{"they are of 5 values", "of at most 4"}, func(t *testing.T, dir string) {
			m := sourceCodes(t, good.ck, up+"weight")
			bytesOf(t, dir, up+"weight", func(raw []byte) {
				copy(raw, m)
				mapped(raw, func(c byte) byte { return nearestOf(c, []byte{15, 11, 1, 3, 7}) })
			})
		}},
		{"not the nearest", TensorChanged, second, up + "weight", []string{"code 7 (6) becomes 3 (1.5), and 6 of the same four is nearer"}, func(t *testing.T, dir string) {
			m := sourceCodes(t, good.ck, up+"weight")
			bytesOf(t, dir, up+"weight", func(raw []byte) {
				copy(raw, m)
				mapped(raw, func(c byte) byte {
					switch c {
					case 7:
						return 3
					case 6:
						return 7
					}
					return nearestOf(c, []byte{15, 11, 3, 7})
				})
			})
		}},
		{"a scale", TensorChanged, second, up + "weight_scale", []string{"1 of 128 bytes differ", "at byte 9"}, func(t *testing.T, dir string) {
			bytesOf(t, dir, up+"weight_scale", func(raw []byte) { raw[9]++ })
		}},
		{"a global scale", TensorChanged, second, up + "weight_scale_2", []string{"differ"}, func(t *testing.T, dir string) {
			bytesOf(t, dir, up+"weight_scale_2", func(raw []byte) { raw[0] ^= 1 })
		}},
		{"a norm", TensorChanged, second, "model.norm.weight", []string{"1 of 128 bytes"}, func(t *testing.T, dir string) {
			bytesOf(t, dir, "model.norm.weight", func(raw []byte) { raw[7] ^= 1 })
		}},
		{"a header", HeaderChanged, first, "", []string{"codes alone"}, func(t *testing.T, dir string) {
			path := filepath.Join(dir, first)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			i := strings.Index(string(data), `"format":"pt"`)
			copy(data[i:], `"format":"np"`)
			writeFile(t, path, data)
		}},
		{"a config", ConfigChanged, "config.json", "", []string{"byte for byte"}, func(t *testing.T, dir string) {
			path := filepath.Join(dir, "config.json")
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, path, append(data, '\n'))
		}},
	} {
		t.Run(f.name, func(t *testing.T) {
			e := good.copied(t)
			f.do(t, e.dir)
			rep := e.verify(t, Options{})
			if rep.OK || len(rep.Problems) != 1 {
				t.Fatalf("%v", rep.Problems)
			}
			p := rep.Problems[0]
			if p.ID != f.id || p.File != f.file || p.Tensor != f.tensor {
				t.Errorf("%+v", p)
			}
			for _, w := range f.words {
				if !strings.Contains(p.Message, w) {
					t.Errorf("%q is not in %q", w, p.Message)
				}
			}
		})
	}
}

// sourceCodes are the bytes of a tensor.
func sourceCodes(t testing.TB, ck *checkpoint.Checkpoint, name string) []byte {
	t.Helper()
	x, ok := ck.Lookup(name)
	if !ok {
		t.Fatalf("no %s", name)
	}
	raw := make([]byte, x.Size)
	if err := ck.ReadAt(t.Context(), x, 0, raw); err != nil {
		t.Fatal(err)
	}
	return raw
}

// packedOf writes an FP4 checkpoint in two bits, by codebooks of a test, in the place
// of e's output.
func packedOf(t testing.TB, ck *checkpoint.Checkpoint, variant string) exported {
	t.Helper()
	_, model := openSource(t, ck.Path)
	l := openedModel(t, ck)
	v, err := method.Parse(variant)
	if err != nil {
		t.Fatal(err)
	}
	two, err := convert.NewTwoBits(t.Context(), ck, model, l, v)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "out")
	w, err := export.Create(t.Context(), two.Plan(), dir, export.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for i := range l.Modules {
		m := &l.Modules[i]
		unit, ok := two.Unit(m.Name)
		if !ok || !w.Wanted(unit) {
			t.Fatalf("no %s", m.Name)
		}
		var s layout.Stored
		if err := m.Read(t.Context(), &s, 0, m.Rows); err != nil {
			t.Fatal(err)
		}
		book := testBooks[i%len(testBooks)]
		var mask uint16
		for _, c := range book {
			mask |= 1 << c
		}
		mapped(s.Codes, func(c byte) byte { return nearestOf(c, book) })
		if err := two.Put(t.Context(), w, unit, s.Codes, mask); err != nil {
			t.Fatal(err)
		}
	}
	res, err := w.Finish(t.Context())
	if err != nil || !res.Whole {
		t.Fatalf("%+v, %v", res, err)
	}
	return exported{ck: ck, model: model, dir: dir}
}

// Packed codes of an FP4 source are held against it: codebook, codes, scales and what
// stands beside them.
func TestRecodedPacked(t *testing.T) {
	for _, c := range []struct{ variant, layout, two, global string }{
		{"nvfp4", export.ModelOpt, "code2", "weight_scale_2"}, {"nvfp4", export.CompressedTensors, "code2+sym", "weight_global_scale"}, {"mxfp4", export.CompressedTensors, "code2", ""},
	} {
		t.Run(c.variant+" "+c.layout, func(t *testing.T) {
			base := exportMoE(t, c.variant, c.layout)
			ck, _ := openSource(t, base.dir)
			good := packedOf(t, ck, c.two)
			// The variant that the receipt names is not what chose these codebooks.
			forget(t, good.dir)
			n := 10
			rep := good.verify(t, Options{})
			if !rep.OK || rep.Recoded != n || rep.QuantizedTensors != n || rep.HeadersIdentical != 0 || rep.Method != layout.Quantscope || len(rep.Codebooks) != len(testBooks) {
				t.Fatalf("%+v", rep)
			}
			const name = layer + "mlp.experts.1.up_proj."
			if c.global != "" {
				e := good.copied(t)
				other := map[string]string{"weight_scale_2": "weight_global_scale", "weight_global_scale": "weight_scale_2"}[c.global]
				rewrite(t, e.dir, func(specs []checkpoint.Spec, data map[string][]byte) []checkpoint.Spec {
					for i := range specs {
						if specs[i].Name == name+c.global {
							specs[i].Name = name + other
							data[name+other] = data[name+c.global]
						}
					}
					return specs
				})
				rep := e.verify(t, Options{})
				if rep.OK || !slices.ContainsFunc(rep.Problems, func(p Problem) bool {
					return p.ID == GlobalDiffers && p.Tensor == name+other && strings.Contains(p.Message, "read otherwise than the source's")
				}) {
					t.Errorf("%s called %s: %v", c.global, other, rep.Problems)
				}
			}
			for _, f := range []struct {
				name, id, tensor string
				words            []string
				do               func(raw []byte)
			}{
				{"a code", CodesDiffer, "weight_packed", []string{"no recoding", "code"}, func(raw []byte) { raw[5] ^= 0x0c }},
				{"a scale", ScalesDiffer, "weight_scale", []string{"from byte 9 on"}, func(raw []byte) { raw[9]++ }},
				{"a global scale", GlobalDiffers, c.global, []string{"the source's"}, func(raw []byte) { raw[1] ^= 1 }},
				{"a value twice", Unreadable, "weight_codebook", []string{"the value -4 twice"}, func(raw []byte) { raw[1] = raw[0] }},
				{"another codebook", CodesDiffer, "weight_packed", []string{"is nearer"}, func(raw []byte) { raw[2] = 0 }},
			} {
				if f.tensor == "" {
					continue
				}
				e := good.copied(t)
				at := f.tensor
				if strings.Contains(f.name, "twice") || strings.Contains(f.name, "another") {
					at = "weight_codebook"
				}
				bytesOf(t, e.dir, name+at, f.do)
				rep := e.verify(t, Options{})
				i := slices.IndexFunc(rep.Problems, func(p Problem) bool { return p.ID == f.id && p.Tensor == name+f.tensor })
				if rep.OK || i < 0 {
					t.Errorf("%s: %v", f.name, rep.Problems)
					continue
				}
				for _, w := range f.words {
					if !strings.Contains(rep.Problems[i].Message, w) {
						t.Errorf("%s: %q is not in %q", f.name, w, rep.Problems[i].Message)
					}
				}
			}
		})
	}
}

// Masks of codes that are used have −0 as 0.
func TestUsedCodes(t *testing.T) {
	if mask := usedCodes([]byte{0x83, 0x3f}); mask != 1|1<<3|1<<15 || bits.OnesCount16(filled(mask)) != 4 {
		t.Errorf("%#04x", mask)
	}
}

// Packed codes of a source in bf16 whose codebook is another than the method chooses are
// told by it, once a matrix; so are codes, and codes of four bits.
func TestTwoBitFaults(t *testing.T) {
	const name = layer + "mlp.experts.1.up_proj."
	for _, c := range []struct {
		where, tensor, id string
		words             []string
		do                func(raw []byte)
	}{
		{export.Own, "weight_codebook", CodebookDiffers, []string{"code2+sym", "stored", "wanted"}, func(raw []byte) { raw[3]++ }},
		{export.Own, "weight_packed", CodesDiffer, []string{"1 codes differ", "[0,20]: 0x", "wanted"}, func(raw []byte) { raw[5] ^= 1 }},
		{export.Own, "weight_scale", ScalesDiffer, []string{"1 scales differ"}, func(raw []byte) { raw[5]++ }},
		{export.ModelOpt, "weight", CodesDiffer, []string{"1 codes differ", "[0,10]: 0x"}, func(raw []byte) { raw[5] ^= 8 }},
	} {
		e := exportMoE(t, "code2+sym", c.where)
		bytesOf(t, e.dir, name+c.tensor, c.do)
		rep := e.verify(t, Options{})
		if rep.OK || len(rep.Problems) != 1 || rep.Problems[0].ID != c.id || rep.Problems[0].Tensor != name+c.tensor {
			t.Errorf("%s %s: %v", c.where, c.tensor, rep.Problems)
			continue
		}
		for _, w := range c.words {
			if !strings.Contains(rep.Problems[0].Message, w) {
				t.Errorf("%s %s: %q is not in %q", c.where, c.tensor, w, rep.Problems[0].Message)
			}
		}
	}
}
