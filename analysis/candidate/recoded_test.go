package candidate

import (
	"bytes"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/recipe"
	"quantscope/quant/recode"
)

// deepSeekStyle is the demo with its experts as DeepSeek-V4 stores them: E2M1 codes in
// bytes with a sign and powers of two for each 32 inputs, as F8_E8M0.
func deepSeekStyle(t testing.TB, from string) string {
	t.Helper()
	ck := stored(t, open(t, from)).ck
	var out []tensor
	for _, x := range readAll(t, ck) {
		if name, ok := strings.CutSuffix(x.name, ".weight_packed"); ok {
			x.name, x.dtype = name+".weight", checkpoint.I8
		} else if name, ok := strings.CutSuffix(x.name, ".weight_scale"); ok {
			x.name, x.dtype = name+".scale", checkpoint.F8E8M0
		}
		out = append(out, x)
	}
	config := withConfig(t, ck.ConfigJSON(), "quantization_config", `{"quant_method":"fp8","weight_block_size":[128,128],"scale_fmt":"ue8m0"}`)
	return writeModel(t, withConfig(t, config, "expert_dtype", `"fp4"`), out)
}

// gptOSS is the golden model with its experts as blocks: gate and up alternate along the
// outputs of one tensor, all experts in it.
func gptOSS(t testing.TB) string {
	t.Helper()
	ck := stored(t, open(t, filepath.Join("..", "model", "testdata", "gpt_oss"))).ck
	var out []tensor
	for _, x := range readAll(t, ck) {
		if len(x.shape) != 3 {
			out = append(out, x)
			continue
		}
		e, in, n := int(x.shape[0]), int(x.shape[1]), int(x.shape[2])
		var codes, scales []byte
		for k := range e {
			m := kernels.Matrix{Element: kernels.BF16, Rows: n, Cols: in}
			for r := range n {
				for c := range in {
					m.Data = append(m.Data, x.data[2*((k*in+c)*n+r):][:2]...)
				}
			}
			q, _ := quantized(t, kernels.Spec{Format: "mxfp4", Convention: kernels.CT32}, m)
			codes, scales = append(codes, q.Codes...), append(scales, q.Scales...)
		}
		out = append(out,
			tensor{x.name + "_blocks", checkpoint.U8, []int64{int64(e), int64(n), int64(in / 32), 16}, codes},
			tensor{x.name + "_scales", checkpoint.U8, []int64{int64(e), int64(n), int64(in / 32)}, scales})
	}
	return writeModel(t, withConfig(t, ck.ConfigJSON(), "quantization_config", `{"quant_method":"mxfp4"}`), out)
}

// fp4Checkpoint is a way of storing FP4 codes, with what two bits cost there.
type fp4Checkpoint struct {
	dir, effective string
	bits           float64
}

// fp4Checkpoints are the demo and the golden model in every way of storing FP4 that there
// is a writer or a fixture of.
func fp4Checkpoints(t testing.TB) map[string]fp4Checkpoint {
	t.Helper()
	x := stored(t, open(t, "demo"))
	mx := exported(t, x.ck, x.top, "", "compressed-tensors", "mxfp4")
	return map[string]fp4Checkpoint{
		"nvfp4 of modelopt":           {exported(t, x.ck, x.top, "", "modelopt", "nvfp4"), "code2+sym", 2.5},
		"nvfp4 of compressed-tensors": {exported(t, x.ck, x.top, "", "compressed-tensors", "nvfp4"), "code2+sym", 2.5},
		"mxfp4 of compressed-tensors": {mx, "code2-mxfp4+sym", 2.25},
		"mxfp4 of deepseek":           {deepSeekStyle(t, mx), "code2-mxfp4+sym", 2.25},
		"mxfp4 of gpt-oss":            {gptOSS(t), "code2-mxfp4+sym", 2.25},
	}
}

// Two bits of FP4: every value is one of four multiples of its step, the same four in
// all of a stored matrix, and depends on the source's code alone; what is no target
// stays. It is the same whether codes are kept between passes or not.
func TestRecodedFP4(t *testing.T) {
	for name, c := range fp4Checkpoints(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ref := open(t, c.dir)
			v, kept := mustParse(t, ref, "code2+sym", Options{Mem: -1}), mustParse(t, ref, "code2+sym", Options{})
			if v.Effective != c.effective || v.Baseline != "code2" || v.Kind != Variant || len(v.Fallbacks) != 0 {
				t.Errorf("%s is %s of %s, with %v", v.Spec, v.Effective, v.Baseline, v.Fallbacks)
			}
			s, base, again := source(t, v), source(t, ref), source(t, kept)
			x := stored(t, ref)
			quantized := 0
			for _, m := range x.fp4.stock.Model.Matrices {
				fp4, ok := x.fp4.stock.Lookup(m.Name)
				if !ok || !reads(m.Role, x.spec) {
					continue
				}
				quantized++
				checkRecoded(t, fp4, x.partsOf(fp4), base, s, again)
			}
			scheme := strings.TrimSuffix(c.effective, "+sym")
			k := slices.IndexFunc(v.Schemes, func(s Share) bool { return s.Scheme == scheme })
			if quantized == 0 || k < 0 || v.Schemes[k].Tensors != quantized {
				t.Fatalf("%d matrices, %v", quantized, v.Schemes)
			}
			// Two bits a code and the scales; once a tensor its codebook of four bytes, and
			// NVFP4's second-level scale of four.
			var bits, params float64
			for _, it := range v.items {
				if it.scheme != scheme {
					if it.matrix && !slices.Equal(values(t, base, it.Place), values(t, s, it.Place)) {
						t.Errorf("%s changed", it.tensor)
					}
					continue
				}
				once := 4
				if c.bits == 2.5 {
					once = 8
				}
				bits, params = bits+8*float64(it.bytes-int64(once)), params+float64(it.params)
			}
			if per := bits / params; per != c.bits {
				t.Errorf("%v bits a weight, want %v", per, c.bits)
			}
		})
	}
}

// checkRecoded compares all parts of a matrix with the reference's.
func checkRecoded(t *testing.T, m *recode.Matrix, parts []placed, base, s, again traced) {
	t.Helper()
	book := map[float32]bool{}
	to := map[float32]float32{}
	for _, p := range parts {
		w, q := values(t, base, p.at), values(t, s, p.at)
		if got := values(t, again, p.at); !slices.Equal(got, q) {
			t.Fatalf("%s: what is kept differs", m.Name)
		}
		steps := stepsOf(t, m, p)
		for i := range w {
			if steps[i] == 0 {
				continue
			}
			// A quotient of a product is the factor up to rounding; the values of E2M1 are
			// half units apart at the least.
			from, is := halves(w[i]/steps[i]), halves(q[i]/steps[i])
			if was, ok := to[from]; ok && was != is && (from != 0 || was != -is) { // zeros go by their signs, which decoding loses
				t.Fatalf("%s: %v becomes %v and %v", m.Name, from, was, is)
			}
			to[from], book[is] = is, true
		}
	}
	for v := range book {
		if len(book) > 4 || len(book) == 4 && !book[-v] {
			t.Fatalf("%s: the values in use are %v", m.Name, book)
		}
	}
}

func halves(v float32) float32 { return float32(math.Round(2*float64(v)) / 2) }

// stepsOf is what a code of 1 stands for, element by element of a part of a matrix.
func stepsOf(t testing.TB, m *recode.Matrix, p placed) []float32 {
	t.Helper()
	x, err := m.Read(t.Context(), make([]byte, m.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	for i := range x.Codes {
		x.Codes[i] = 0x22
	}
	all, out := make([]float32, m.Rows*m.Cols), make([]float32, 0, p.rows*m.Cols)
	if err := recode.Rows(all, &x, 0); err != nil {
		t.Fatal(err)
	}
	for r := range p.rows {
		out = append(out, all[(p.first+r*p.step)*m.Cols:][:m.Cols]...)
	}
	return out
}

// What cannot be made of FP4 codes is refused in a line that says why and what can; what
// is asked for and is none of them is counted.
func TestRecodedRefused(t *testing.T) {
	all := fp4Checkpoints(t)
	nv, mx := open(t, all["nvfp4 of modelopt"].dir), open(t, all["mxfp4 of deepseek"].dir)
	for _, c := range []struct {
		ref  *Candidate
		spec string
		says []string
	}{
		{nv, "nvfp4+mse", []string{"nothing to quantize", "code2+l2, code2+sym"}},
		{nv, "int4-g128", []string{"nothing to quantize", "code2+l2, code2+sym"}},
		{nv, "code2-mxfp4", []string{"code2-mxfp4", "NVFP4's scales", "possible: code2"}},
		{nv, "code2+sym+gptq", []string{"code2+sym+gptq", "possible: code2+sym"}},
		{mx, "code2+imatrix", []string{"code2+imatrix", "possible: code2"}},
		{nv, "code2@lm_head.weight", []string{"nothing to quantize", "stored as BF16"}},
	} {
		got, err := Parse(t.Context(), c.ref, c.spec, Options{})
		if err == nil {
			t.Errorf("%s is %s", c.spec, got.Effective)
			continue
		}
		for _, s := range append(c.says, "candidate") {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %v does not say %q", c.spec, err, s)
			}
		}
		if !errors.Is(err, ErrSpec) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", c.spec, err)
		}
	}
	if _, err := Parse(t.Context(), nv, "code2@lm_head.weight", Options{}); !errors.Is(err, recipe.ErrNothing) {
		t.Error(err)
	}
	v := mustParse(t, mx, "code2-mxfp4@linear", Options{})
	if v.Effective != "code2-mxfp4@linear" || len(v.Fallbacks) == 0 || v.Fallbacks[0].Effective != "bf16" || !strings.Contains(v.Fallbacks[0].Reason, "only FP4 codes") {
		t.Errorf("%s: %v", v.Effective, v.Fallbacks[:min(1, len(v.Fallbacks))])
	}
	params := int64(0)
	for _, f := range v.Fallbacks {
		params += f.Params
	}
	recoded := int64(0)
	for _, s := range v.Schemes {
		if s.Scheme == "code2-mxfp4" {
			recoded = s.Params
		}
	}
	if want := mustParse(t, open(t, "demo"), "nvfp4@linear", Options{}).Schemes[0].Params; params+recoded != want {
		t.Errorf("%d parameters fall back and %d do not, of %d", params, recoded, want)
	}
}

// Scales at the ends of E8M0 and blocks of zeros among them: what comes of them is
// finite, and no larger than the block's largest code.
func TestRecodedScales(t *testing.T) {
	ck := stored(t, open(t, deepSeekStyle(t, fp4Checkpoints(t)["mxfp4 of compressed-tensors"].dir))).ck
	const name = "model.layers.1.mlp.experts.0.down_proj"
	all := readAll(t, ck)
	for i := range all {
		x := &all[i]
		x.data = bytes.Clone(x.data)
		switch x.name {
		case name + ".scale":
			x.data[0], x.data[1], x.data[2] = 0, 0, 252 // 2⁻¹²⁷ twice, 2¹²⁵
		case name + ".weight":
			clear(x.data[:16])                                  // a block of zeros
			copy(x.data[16:], bytes.Repeat([]byte{0x97}, 16))   // 6 and −0.5
			copy(x.data[32:48], bytes.Repeat([]byte{0x1f}, 16)) // −6 and 0.5
		}
	}
	c := open(t, writeModel(t, ck.ConfigJSON(), all))
	v := mustParse(t, c, "code2", Options{})
	at := needOf(t, c, "layer 1 expert 0 down").Place
	w, q := values(t, source(t, c), at), values(t, source(t, v), at)
	least := math.Ldexp(1, -127)
	for i := range 96 {
		bound := 6 * least
		if i >= 64 {
			bound = math.Ldexp(6, 125)
		}
		if !(math.Abs(float64(q[i])) <= bound) || math.Abs(float64(w[i])) > bound {
			t.Fatalf("element %d is %v, was %v", i, q[i], w[i])
		}
	}
}
