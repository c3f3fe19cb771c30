package align

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/quant/checkpoint"
	"quantscope/quant/layout"
)

const (
	llama = "../model/testdata/llama_untied"
	gemma = "../model/testdata/gemma3_text"
	moe   = "../model/testdata/qwen3_moe"
)

// A model that llm-compressor's AWQ smoothed and quantized: what it did is undone by
// the norms and by the rows of up, and what is left is what rounding to int4 leaves.
func TestAWQ(t *testing.T) {
	r := compare(t, "testdata/awq/master", "testdata/awq/awq", Options{})
	if len(r.Findings) != 0 || len(r.OnlyMaster)+len(r.OnlyCandidate)+len(r.Unread) != 0 {
		t.Errorf("%v, only %v and %v, unread %v", r.Findings, r.OnlyMaster, r.OnlyCandidate, r.Unread)
	}
	for _, x := range r.Tensors {
		smoothed := x.Layer >= 0 && !strings.HasSuffix(x.Tensor, "o_proj") // 8 heads share 2 values: AWQ leaves them
		if smoothed != (x.AsStored != nil) || smoothed && x.AsStored.RelL2 < 2*x.RelL2 {
			t.Errorf("%s: undone %v, %v as stored, %v left", x.Tensor, x.Undone, x.AsStored, x.RelL2)
		}
		if x.RelL2 > 0.12 || x.Kind == "norms" && x.Different != 0 {
			t.Errorf("%s: %v, %d differ", x.Tensor, x.RelL2, x.Different)
		}
	}
	up := r.result(t, "model.layers.0.mlp.up_proj")
	if len(up.Undone) != 2 || up.Undone[0] != "smoothing undone: s in [0.512, 1.95], from post_attention_layernorm" || up.Undone[1] != "rows were divided by s in [0.655, 1.52], which the columns of down were multiplied by" {
		t.Errorf("%q", up.Undone)
	}
	stored := compare(t, "testdata/awq/master", "testdata/awq/awq", Options{AsStored: true})
	if q := stored.result(t, "model.layers.0.self_attn.q_proj"); q.AsStored != nil || q.RelL2 < 0.6 {
		t.Errorf("as stored: %+v", q)
	}
}

// smooth multiplies what stands behind a norm by s and divides the norm, whose
// weights are 1+w where plus is 1.
func smooth(t testing.TB, m *model, layer int, norm string, s []float64, plus float64, behind ...string) {
	at := fmt.Sprintf("layers.%d.", layer)
	n := m.at(t, at+norm+".weight")
	for i := range n.v {
		n.v[i] = float32((plus+float64(n.v[i]))/s[i] - plus)
	}
	for _, b := range behind {
		m.at(t, at+b+".weight").columns(s, 1)
	}
}

// Smoothing by hand, without rounding, is undone to the last places: of norms that
// multiply by their weights and by 1 and these, through o of shared heads, through
// experts and their router.
func TestSmoothingByHand(t *testing.T) {
	for _, tt := range []struct {
		name, path string
		change     func(m *model)
		words      map[string]string // what is undone, by tensor
	}{
		{"llama", llama, func(m *model) {
			smooth(t, m, 1, "input_layernorm", scales(64, 1), 0, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
			s := scales(16, 2) // two heads of values for eight of queries
			m.at(t, "layers.1.self_attn.v_proj.weight").rows(s)
			wide := make([]float64, 64)
			for c := range wide {
				wide[c] = s[c/8/4*8+c%8]
			}
			m.at(t, "layers.1.self_attn.o_proj.weight").columns(wide, 1)
		}, map[string]string{
			"model.layers.1.self_attn.q_proj": "from input_layernorm", "model.layers.1.self_attn.v_proj": "rows were divided", "model.layers.1.self_attn.o_proj": "from the rows of v",
			"model.layers.1.input_layernorm.weight": "3 matrices behind it",
		}},
		{"gemma", gemma, func(m *model) {
			smooth(t, m, 0, "pre_feedforward_layernorm", scales(64, 3), 1, "mlp.gate_proj", "mlp.up_proj")
			smooth(t, m, 0, "input_layernorm", scales(64, 4), 1, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
		}, map[string]string{
			"model.layers.0.mlp.gate_proj": "from pre_feedforward_layernorm (as 1+w)", "model.layers.0.self_attn.k_proj": "from input_layernorm (as 1+w)",
		}},
		{"experts", moe, func(m *model) {
			behind := []string{"mlp.gate"}
			for e := range 8 {
				behind = append(behind, fmt.Sprintf("mlp.experts.%d.gate_proj", e), fmt.Sprintf("mlp.experts.%d.up_proj", e))
			}
			smooth(t, m, 0, "post_attention_layernorm", scales(64, 5), 0, behind...)
			s := scales(24, 6)
			m.at(t, "layers.0.mlp.experts.3.up_proj.weight").rows(s)
			m.at(t, "layers.0.mlp.experts.3.down_proj.weight").columns(s, 1)
		}, map[string]string{
			"model.layers.0.mlp.gate": "from post_attention_layernorm", "model.layers.0.mlp.experts.7.up_proj": "from post_attention_layernorm", "model.layers.0.mlp.experts.3.down_proj": "from the rows of up",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			master := load(t, tt.path)
			path := master.write(t, checkpoint.F32)
			changed := load(t, tt.path)
			tt.change(changed)
			r := compare(t, path, changed.write(t, checkpoint.F32), Options{})
			for _, x := range r.Tensors {
				if x.RelL2 > 2e-6 {
					t.Errorf("%s: %v left, undone %v", x.Tensor, x.RelL2, x.Undone)
				}
			}
			for name, want := range tt.words {
				if x := r.result(t, name); !strings.Contains(strings.Join(x.Undone, "; "), want) || x.AsStored == nil || x.AsStored.RelL2 < 0.1 {
					t.Errorf("%s: %q, want %q", name, x.Undone, want)
				}
			}
			if len(r.Findings) != 0 {
				t.Errorf("%v", r.Findings)
			}
		})
	}
}

// Rounding to int4 after smoothing does not hide it, nor does storing norms in bf16.
// What is left is more than rounding alone leaves (0.12), since s is taken out of its
// errors too.
func TestSmoothingUnderNoise(t *testing.T) {
	changed := load(t, llama)
	smooth(t, changed, 0, "input_layernorm", scales(64, 1), 0, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
	for _, p := range []string{"q", "k", "v", "o"} {
		changed.at(t, "layers.0.self_attn."+p+"_proj.weight").quantize()
	}
	r := compare(t, llama, changed.write(t, checkpoint.BF16), Options{})
	for _, p := range []string{"q", "k", "v"} {
		if x := r.result(t, "model.layers.0.self_attn."+p+"_proj"); x.RelL2 > 0.17 || x.AsStored == nil || x.AsStored.RelL2 < 0.4 {
			t.Errorf("%s: %v of %+v", x.Tensor, x.RelL2, x.AsStored)
		}
	}
	if o := r.result(t, "model.layers.0.self_attn.o_proj"); len(o.Undone) != 0 || o.RelL2 > 0.13 || len(r.Findings) != 0 {
		t.Errorf("o, which was not smoothed: %+v, %v", o, r.Findings)
	}
}

// Nothing is undone without evidence: a norm that was trained on, matrices of which
// one does not follow the norm, columns that nothing was divided by.
func TestNothingUndone(t *testing.T) {
	t.Run("norm", func(t *testing.T) {
		changed := load(t, llama)
		changed.at(t, "layers.0.input_layernorm.weight").columns(scales(64, 9), 1)
		r := compare(t, llama, changed.write(t, checkpoint.F32), Options{})
		if x := r.result(t, "model.layers.0.input_layernorm.weight"); len(x.Undone) != 0 || x.Different == 0 || r.Matrices.Undone != 0 {
			t.Errorf("%+v", x)
		}
	})
	t.Run("one apart", func(t *testing.T) {
		changed := load(t, llama)
		smooth(t, changed, 0, "input_layernorm", scales(64, 1), 0, "self_attn.q_proj", "self_attn.k_proj")
		changed.at(t, "layers.0.self_attn.v_proj.weight").quantize()
		r := compare(t, llama, changed.write(t, checkpoint.F32), Options{})
		if !slices.ContainsFunc(r.Findings, func(f Finding) bool {
			return f.ID == SmoothingDisagrees && f.Tensor == "model.layers.0.self_attn.v_proj" && strings.Contains(f.Message, "model.layers.0.input_layernorm.weight was divided by s")
		}) || len(r.Findings) != 1 {
			t.Errorf("%v", r.Findings)
		}
		if v := r.result(t, "model.layers.0.self_attn.v_proj"); len(v.Undone) != 0 {
			t.Errorf("%q", v.Undone)
		}
	})
	t.Run("columns", func(t *testing.T) {
		changed := load(t, llama)
		changed.at(t, "layers.2.mlp.down_proj.weight").columns(scales(80, 3), 1)
		r := compare(t, llama, changed.write(t, checkpoint.F32), Options{})
		if len(r.Findings) != 1 || r.Findings[0].ID != ScaledColumns || r.Matrices.Undone != 0 {
			t.Errorf("%v, %d undone", r.Findings, r.Matrices.Undone)
		}
	})
	t.Run("another matrix", func(t *testing.T) {
		changed := load(t, llama)
		copy(changed.at(t, "layers.0.self_attn.k_proj.weight").v, changed.at(t, "layers.1.self_attn.k_proj.weight").v)
		r := compare(t, llama, changed.write(t, checkpoint.F32), Options{})
		if len(r.Findings) != 1 || r.Findings[0].ID != Unexplained || r.Findings[0].Tensor != "model.layers.0.self_attn.k_proj" || r.Matrices.Undone != 0 {
			t.Errorf("%v", r.Findings)
		}
	})
}

// order puts rows into another order.
func (w *weight) order(order []int) {
	cols := int(w.shape[1])
	out := make([]float32, len(w.v))
	for r, from := range order {
		copy(out[r*cols:][:cols], w.v[from*cols:])
	}
	w.v = out
}

// Orders of rows are found by name or row by row, exactly and under rounding, with
// smoothing beside them, and put back.
func TestOrders(t *testing.T) {
	pairs := func(heads, width int) []int {
		out := make([]int, heads*width)
		for r := range out {
			h, in := r/width, r%width
			out[h*width+2*(in%(width/2))+in/(width/2)] = r
		}
		return out
	}
	heads := make([]int, 64)
	for r := range heads {
		heads[r] = (r/8*3+5)%8*8 + r%8
	}
	random := make([]int, 80)
	for r := range random {
		random[r] = (r*37 + 11) % 80
	}
	for _, tt := range []struct {
		suffix string
		order  []int
		noise  bool
		want   string
	}{
		{"layers.0.self_attn.q_proj", pairs(8, 8), false, "rotary rows of 8 heads of 8: halves stand as pairs: put back"},
		{"layers.0.self_attn.k_proj", pairs(2, 8), true, "rotary rows of 2 heads of 8: halves stand as pairs: put back"},
		{"layers.1.self_attn.q_proj", heads, false, "8 heads of 8 stand in another order: the master's are [1 4 7 2 5 0 3 6]: put back"},
		{"layers.2.mlp.gate_proj", random, false, "80 of 80 rows stand in an order that has no name: put back"},
		{"layers.2.mlp.gate_proj", random, true, "80 of 80 rows stand in an order that has no name: put back"},
	} {
		changed := load(t, llama)
		w := changed.at(t, tt.suffix+".weight")
		w.order(tt.order)
		limit := 0.0
		if tt.noise {
			w.quantize()
			limit = 0.13
		}
		r := compare(t, llama, changed.write(t, checkpoint.F32), Options{})
		x := r.result(t, "model."+tt.suffix)
		if len(x.Undone) != 1 || x.Undone[0] != tt.want || float64(x.RelL2) > limit || limit == 0 && x.Different != 0 || len(r.Findings) != 0 {
			t.Errorf("%s: %q, %v left, %d differ, %v; want %q", tt.suffix, x.Undone, x.RelL2, x.Different, r.Findings, tt.want)
		}
	}

	changed := load(t, llama)
	smooth(t, changed, 0, "input_layernorm", scales(64, 1), 0, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
	for p, order := range map[string][]int{"q": pairs(8, 8), "k": pairs(2, 8)} {
		w := changed.at(t, "layers.0.self_attn."+p+"_proj.weight")
		w.order(order)
		w.quantize()
	}
	r := compare(t, llama, changed.write(t, checkpoint.F32), Options{})
	for _, p := range []string{"q", "k"} {
		if x := r.result(t, "model.layers.0.self_attn."+p+"_proj"); len(x.Undone) != 2 || x.RelL2 > 0.17 || len(r.Findings) != 0 {
			t.Errorf("%s: %q, %v, %v", x.Tensor, x.Undone, x.RelL2, r.Findings)
		}
	}
}

// C18: rows of q and k of a file stand in pairs; with the right number of heads for
// each, every value is the master's. C25: one layer under two conventions.
func TestCases(t *testing.T) {
	cases := filepath.Join("testdata", "cases")
	r := compare(t, filepath.Join(cases, "C18-head-order", "hf"), filepath.Join(cases, "C18-head-order", "model-F16.gguf"), Options{})
	for p, want := range map[string]string{"q": "rotary rows of 4 heads of 8", "k": "rotary rows of 2 heads of 8", "v": ""} {
		x := r.result(t, "model.layers.0.self_attn."+p+"_proj")
		if x.MaxAbs != 0 || x.Different != 0 || (want == "") != (len(x.Undone) == 0) || !strings.Contains(strings.Join(x.Undone, ""), want) {
			t.Errorf("%+v", x)
		}
	}
	r = compare(t, filepath.Join(cases, "C25-two-conventions", "multiplier"), filepath.Join(cases, "C25-two-conventions", "divisor"), Options{})
	if x := r.Tensors; len(x) != 1 || x[0].MaxAbs != 0 || x[0].Different != 0 || x[0].Cols != 64 {
		t.Errorf("%+v", x)
	}
}

// Values that are not finite are counted and in no figure.
func TestNonFinite(t *testing.T) {
	changed := load(t, llama)
	w := changed.at(t, "layers.0.self_attn.v_proj.weight")
	w.v[3], w.v[70] = float32(math.NaN()), float32(math.Inf(1))
	r := compare(t, llama, changed.write(t, checkpoint.F32), Options{})
	if x := r.result(t, "model.layers.0.self_attn.v_proj"); x.NonFinite != 2 || x.Different != 2 || x.RelL2 != 0 || x.MaxAbs != 0 {
		t.Errorf("%+v", x)
	}
	if worst := r.Worst(3); len(worst) != 1 || r.Matrices.NonFinite != 2 {
		t.Errorf("%+v", worst)
	}
}

// Threads change nothing; a context that ends ends it; nothing in common is refused.
func TestCompareManners(t *testing.T) {
	a, b := compare(t, "testdata/awq/master", "testdata/awq/awq", Options{Threads: 1}), compare(t, "testdata/awq/master", "testdata/awq/awq", Options{Threads: 5})
	if fmt.Sprint(a.Tensors, a.Kinds, a.Findings) != fmt.Sprint(b.Tensors, b.Kinds, b.Findings) {
		for i := range a.Tensors {
			if x, y := fmt.Sprintf("%+v", a.Tensors[i].RelL2), fmt.Sprintf("%+v", b.Tensors[i].RelL2); x != y {
				t.Errorf("%s: %s and %s", a.Tensors[i].Tensor, x, y)
			}
		}
	}
	s, err := Open(t.Context(), llama, layout.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := Compare(ctx, s, s, Options{Progress: func(Progress) { cancel() }}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := Compare(t.Context(), s, &Side{Path: "empty"}, Options{}); !errors.Is(err, ErrNothing) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
}
