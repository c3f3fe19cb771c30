package method

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantscope/kernels"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, canonical string
		method          string
		multipliers     int
	}{
		{"nvfp4", "nvfp4", "rtn", 1},
		{"nvfp4+rtn", "nvfp4", "rtn", 1},
		{"nvfp4+mse", "nvfp4+mse", "mse", 9},
		{"nvfp4+mse_ge1", "nvfp4+mse_ge1", "mse_ge1", 6},
		{"nvfp4+sweep", "nvfp4+sweep", "sweep", 16},
		{"nvfp4+4over6", "nvfp4+4over6", "4over6", 2},
	} {
		v, err := Parse(c.name)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if v.Name != c.canonical || v.Scheme != "nvfp4" || !cmp.Equal(v.Methods, []string{c.method}) || v.BitsPerWeight != 4.5 || len(v.Multipliers) != c.multipliers {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	const variants = "nvfp4, nvfp4+mse, nvfp4+mse_ge1, nvfp4+sweep, nvfp4+4over6"
	for _, c := range []struct {
		name    string
		reason  error
		mention []string
	}{
		{"", ErrUnknown, []string{`""`, variants}},
		{"nvfp5", ErrUnknown, []string{`"nvfp5"`, variants}},
		{"NVFP4", ErrUnknown, []string{`"NVFP4"`, variants}},
		{"mxfp4", ErrUnsupported, []string{`"mxfp4"`, variants}},
		{"int4-g128+gptq", ErrUnsupported, []string{"int4-g128", variants}},
		{"nvfp4+gptq", ErrUnknown, []string{`"gptq"`, "rtn, mse, mse_ge1, sweep, 4over6"}},
		{"nvfp4+", ErrUnknown, []string{`""`, "rtn, mse"}},
		{"nvfp4+mse+", ErrUnknown, []string{`""`}},
		{"nvfp4+mse+sweep", ErrConflict, []string{"mse and sweep"}},
		{"nvfp4+rtn+mse", ErrConflict, []string{"rtn and mse"}},
		{"nvfp4+mse+mse", ErrDuplicate, []string{`"mse"`}},
	} {
		_, err := Parse(c.name)
		if !errors.Is(err, c.reason) {
			t.Errorf("%q: %v, want %v", c.name, err, c.reason)
			continue
		}
		for _, m := range c.mention {
			if !strings.Contains(err.Error(), m) {
				t.Errorf("%q: %q does not mention %q", c.name, err, m)
			}
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: more than a line: %q", c.name, err)
		}
	}
}

func TestParseList(t *testing.T) {
	list, err := ParseList("nvfp4, nvfp4+mse,nvfp4+mse_ge1")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, v := range list {
		names = append(names, v.Name)
	}
	if want := []string{"nvfp4", "nvfp4+mse", "nvfp4+mse_ge1"}; !cmp.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	for comma, reason := range map[string]error{
		"nvfp4,nvfp4+rtn": ErrDuplicate, "nvfp4,,nvfp4+mse": ErrUnknown, "": ErrUnknown, "nvfp4,fp8": ErrUnsupported,
	} {
		if _, err := ParseList(comma); !errors.Is(err, reason) {
			t.Errorf("%q: %v, want %v", comma, err, reason)
		}
	}
}

// What the pickers offer can be parsed, under the very name.
func TestKnown(t *testing.T) {
	for _, h := range Known() {
		if v, err := Parse(h.Name); err != nil || v.Name != h.Name || h.Description == "" {
			t.Errorf("%+v: %q, %v", h, v.Name, err)
		}
	}
}

func matrix(rows, cols int, f func(i int) float32) kernels.Matrix {
	m := kernels.Matrix{Element: kernels.F32, Rows: rows, Cols: cols, Data: make([]byte, 4*rows*cols)}
	for i := range rows * cols {
		binary.LittleEndian.PutUint32(m.Data[4*i:], math.Float32bits(f(i)))
	}
	return m
}

func TestMeasure(t *testing.T) {
	const rows, cols = 3, 40
	m := matrix(rows, cols, func(i int) float32 {
		if i/cols == 1 {
			return 0
		}
		return float32(math.Sin(float64(i * i)))
	})
	v, err := Parse("nvfp4+mse")
	if err != nil {
		t.Fatal(err)
	}
	tap, err := v.Measure(kernels.Reference(), m)
	if err != nil {
		t.Fatal(err)
	}
	again, errs, err := v.MeasureRows(kernels.Reference(), m)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tap, again); diff != "" {
		t.Errorf("the two measurements differ: %s", diff)
	}
	if len(errs) != rows || errs[1] != 0 || errs[0] <= 0 || errs[0] > 0.2 || errs[2] <= 0 {
		t.Errorf("row errors %v", errs)
	}
	e2 := 0.0
	for r, e := range errs {
		w2 := 0.0
		for c := range cols {
			x := float64(math.Float32frombits(binary.LittleEndian.Uint32(m.Data[4*(r*cols+c):])))
			w2 += x * x
		}
		e2 += e * e * w2
	}
	if math.Abs(e2-tap.SumE2) > 1e-9*tap.SumE2 {
		t.Errorf("rows give an error of %v, the record says %v", e2, tap.SumE2)
	}

	// 8 columns a half block: codes 20 bytes and 3 scales a row, and the global scale.
	if got := v.Bytes(rows, cols); got != rows*(20+3)+4 {
		t.Errorf("%d bytes", got)
	}
	if v.Bytes(-1, 3) != -1 || v.Bytes(math.MaxInt, math.MaxInt) != -1 {
		t.Error("an impossible shape has a size")
	}
	m.Data = m.Data[1:]
	if _, _, err := v.MeasureRows(kernels.Reference(), m); !errors.Is(err, kernels.ErrShape) {
		t.Errorf("short data: %v", err)
	}
	m.Rows = -1
	if _, _, err := v.MeasureRows(kernels.Reference(), m); !errors.Is(err, kernels.ErrShape) {
		t.Errorf("negative rows: %v", err)
	}
	if _, errs, err := v.MeasureRows(kernels.Reference(), matrix(math.MaxInt32, 0, nil)); err == nil && errs != nil {
		t.Errorf("rows without columns: %v", errs)
	}
}
