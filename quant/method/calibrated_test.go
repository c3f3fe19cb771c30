package method

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"quantscope/kernels"
)

func TestParseCalibrated(t *testing.T) {
	for _, c := range []struct {
		name, canonical, baseline string
		methods                   string
		importance, gptq, act     bool
		labels                    int
	}{
		{"int4-g128+gptq", "int4-g128+gptq", "int4-g128", "rtn gptq", false, true, false, 1},
		{"int4-g128+rtn+gptq", "int4-g128+gptq", "int4-g128", "rtn gptq", false, true, false, 1},
		{"int4-g128+gptq+act", "int4-g128+gptq+act", "int4-g128", "rtn gptq act", false, true, true, 1},
		{"int4-g128+act+gptq", "int4-g128+gptq+act", "int4-g128", "rtn gptq act", false, true, true, 1},
		{"int4-g128+gptq+range", "int4-g128+range+gptq", "int4-g128+range", "range gptq", false, true, false, 16},
		{"int4-g64-sym+act+range+gptq", "int4-g64-sym+range+gptq+act", "int4-g64-sym+range", "range gptq act", false, true, true, 16},
		{"int4-channel+imatrix", "int4-channel+imatrix", "int4-channel", "imatrix", true, false, false, 16},
		{"nvfp4+gptq+mse_ge1", "nvfp4+mse_ge1+gptq", "nvfp4+mse_ge1", "mse_ge1 gptq", false, true, false, 6},
		{"nvfp4+imatrix", "nvfp4+imatrix", "nvfp4", "imatrix", true, false, false, 16},
		{"nvfp4+gptq+imatrix", "nvfp4+imatrix+gptq", "nvfp4", "imatrix gptq", true, true, false, 16},
		{"mxfp4+imatrix+act+gptq", "mxfp4+imatrix+gptq+act", "mxfp4", "imatrix gptq act", true, true, true, 16},
		{"code2+imatrix", "code2+imatrix", "code2", "l2 imatrix", true, false, false, 1},
		{"code2+gptq", "code2+gptq", "code2", "l2 gptq", false, true, false, 1},
		{"code2+act+gptq+imatrix+sym", "code2+sym+imatrix+gptq+act", "code2+sym", "sym imatrix gptq act", true, true, true, 1},
		{"code2+imatrix+gptq+l2", "code2+imatrix+gptq", "code2", "l2 imatrix gptq", true, true, false, 1},
		{"code2+imatrix+sym", "code2+sym+imatrix", "code2+sym", "sym imatrix", true, false, false, 1},
		{"code2+act+book:6:-6:1:-1+gptq", "code2+book:-6:-1:1:6+gptq+act", "code2+book:-6:-1:1:6", "book:-6:-1:1:6 gptq act", false, true, true, 1},
		{"mxfp4+gptq", "mxfp4+gptq", "mxfp4", "rtn gptq", false, true, false, 1},
	} {
		v, err := Parse(c.name)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		methods := strings.Fields(c.methods)
		if v.Name != c.canonical || !cmp.Equal(v.Methods, methods) || v.Spec.Method != methods[0] || v.Importance != c.importance || v.GPTQ != c.gptq ||
			v.ActOrder != c.act || !v.Calibrated() || v.NeedsHessian() != c.gptq || len(v.Multipliers) != c.labels {
			t.Errorf("%s: %+v", c.name, v)
		}
		b := v.Baseline()
		if want, err := Parse(c.baseline); err != nil || !cmp.Equal(b, want) {
			t.Errorf("%s has the baseline %s: %s", c.name, c.baseline, cmp.Diff(want, b))
		}
		if b.Calibrated() || !cmp.Equal(b.Baseline(), b) {
			t.Errorf("%s: the baseline %s has a baseline", c.name, b.Name)
		}
	}
	v, err := Parse("nvfp4+imatrix+gptq")
	if err != nil {
		t.Fatal(err)
	}
	if v, err = v.WithConvention(kernels.CT); err != nil {
		t.Fatal(err)
	}
	v.Spec.Global = 3
	if got, want := v.Baseline().Spec, (kernels.Spec{Format: "nvfp4", Convention: kernels.CT, Method: "rtn", Global: 3}); got != want {
		t.Errorf("the baseline's spec is %+v", got)
	}
}

// However methods are ordered, a variant has one name, and that name is it.
func TestNamesAreCanonical(t *testing.T) {
	known := Known()
	rapid.Check(t, func(t *rapid.T) {
		scheme := rapid.SampledFrom(schemes).Draw(t, "scheme")
		names := rapid.SliceOfDistinct(rapid.SampledFrom(append(methodsFor(scheme), "mse", imatrix, gptq, act, "book:6:1:-6:-1")), rapid.ID).Draw(t, "methods")
		v, err := Parse(strings.Join(append([]string{scheme}, names...), "+"))
		if err != nil {
			for _, e := range []error{ErrUnknown, ErrNotFor, ErrIncomplete, ErrConflict} {
				if errors.Is(err, e) {
					return
				}
			}
			t.Fatal(err)
		}
		again, err := Parse(v.Name)
		if err != nil || !cmp.Equal(v, again) {
			t.Fatalf("%v: %s", err, cmp.Diff(v, again))
		}
		slices.Reverse(names)
		again, err = Parse(strings.Join(append([]string{scheme}, names...), "+"))
		if err != nil || !cmp.Equal(v, again) {
			t.Fatalf("backwards: %v: %s", err, cmp.Diff(v, again))
		}
		at := func(name string) bool { return slices.ContainsFunc(known, func(h Help) bool { return h.Name == name }) }
		if b := v.Baseline(); !at(b.Name) && !b.NamesBook() {
			t.Fatalf("the baseline %s is not offered", v.Baseline().Name)
		}
	})
}

// Importance makes what takes it, with less weighed error than the baseline;
// where it is missing, or not taken, that is said.
func TestMeasureWeighted(t *testing.T) {
	m := matrix(16, 256, func(i int) float32 { return float32(math.Sin(float64(i*i)) * math.Exp(math.Sin(float64(i)))) })
	importance := make([]float32, m.Cols)
	for c := range importance {
		importance[c] = float32(math.Exp(3 * math.Cos(float64(c*c))))
	}
	for _, h := range Known() {
		v, err := Parse(h.Name)
		if err != nil {
			t.Fatal(err)
		}
		_, err = v.MeasureWeighted(kernels.Best(), m, importance)
		switch {
		case v.GPTQ && !errors.Is(err, ErrNeedsCalibration), !v.Calibrated() && !errors.Is(err, kernels.ErrShape), v.Importance && !v.GPTQ && err != nil:
			t.Errorf("%s: %v", v.Name, err)
		}
		if !v.Importance || v.GPTQ {
			continue
		}
		if _, err := v.MeasureWeighted(kernels.Best(), m, importance[1:]); !errors.Is(err, kernels.ErrShape) {
			t.Errorf("%s with an importance too few: %v", v.Name, err)
		}
		if got, base := weighed(t, v, m, importance), weighed(t, v.Baseline(), m, importance); got > base || got == base && !v.NeedsMatrix() { // a codebook may be the best either way
			t.Errorf("%s has a weighed error of %v, its baseline %v", v.Name, got, base)
		}
	}
}

// weighed is Σ importance·(w−q)² of a variant.
func weighed(t *testing.T, v Variant, m kernels.Matrix, importance []float32) float64 {
	t.Helper()
	amax, err := kernels.Best().AbsMax(m)
	if err != nil {
		t.Fatal(err)
	}
	weights := importance
	if !v.Importance {
		importance = nil
	}
	spec, err := v.Prepared(kernels.Best(), kernels.StoredOperand(m), amax, importance)
	if err != nil {
		t.Fatal(err)
	}
	p, err := v.BeginPrepared(kernels.Best(), spec, m.Element, m.Rows, m.Cols, amax, importance)
	if err != nil {
		t.Fatal(err)
	}
	n := p.Sizes(m.Rows)
	out := kernels.Output{Codes: make([]byte, n.Codes), Scales: make([]byte, n.Scales), Mins: make([]byte, n.Mins)}
	if err := p.Rows(m.Data, &out); err != nil {
		t.Fatal(err)
	}
	w, q := make([]float32, m.Rows*m.Cols), make([]float32, m.Rows*m.Cols)
	if err := kernels.DecodeFloats(w, m.Element, m.Data); err != nil {
		t.Fatal(err)
	}
	if err := kernels.Dequantize(q, spec, m.Rows, m.Cols, out.Codes, out.Scales, out.Mins, p.Global()); err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for i := range w {
		d := float64(w[i] - q[i])
		sum += float64(weights[i%m.Cols]) * d * d
	}
	return sum
}

// Nothing is made in place of what needs inputs.
func TestCalibratedVariantsDoNotFallBack(t *testing.T) {
	m := matrix(2, 256, func(i int) float32 { return float32(i%7) - 3 })
	n := 0
	for _, h := range Known() {
		v, err := Parse(h.Name)
		if err != nil {
			t.Fatal(err)
		}
		if !v.Calibrated() {
			continue
		}
		n++
		if _, err := v.Measure(kernels.Reference(), m); !errors.Is(err, ErrNeedsCalibration) || !strings.Contains(err.Error(), v.Name) {
			t.Errorf("%s: %v", v.Name, err)
		}
		if _, _, err := v.MeasureRows(kernels.Reference(), m); !errors.Is(err, ErrNeedsCalibration) {
			t.Errorf("%s: %v", v.Name, err)
		}
	}
	if n == 0 {
		t.Error("no calibrated variant is known")
	}
}
