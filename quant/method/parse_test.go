package method

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantscope/kernels"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, canonical string
		scheme, method  string
		bits            float64
		multipliers     int
		convention      kernels.Convention
	}{
		{"nvfp4", "nvfp4", "nvfp4", "rtn", 4.5, 1, kernels.ModelOpt},
		{"nvfp4+rtn", "nvfp4", "nvfp4", "rtn", 4.5, 1, kernels.ModelOpt},
		{"nvfp4+mse", "nvfp4+mse", "nvfp4", "mse", 4.5, 9, kernels.ModelOpt},
		{"nvfp4+mse_ge1", "nvfp4+mse_ge1", "nvfp4", "mse_ge1", 4.5, 6, kernels.ModelOpt},
		{"nvfp4+sweep", "nvfp4+sweep", "nvfp4", "sweep", 4.5, 16, kernels.ModelOpt},
		{"nvfp4+4over6", "nvfp4+4over6", "nvfp4", "4over6", 4.5, 2, kernels.ModelOpt},
		{"mxfp4", "mxfp4", "mxfp4", "rtn", 4.25, 1, kernels.CT32},
		{"fp8", "fp8", "fp8", "rtn", 8, 1, kernels.ModelOpt},
		{"fp8-channel", "fp8-channel", "fp8-channel", "rtn", 8, 1, kernels.ModelOpt},
		{"fp8-block128+rtn", "fp8-block128", "fp8-block128", "rtn", 8 + 32.0/(128*128), 1, kernels.DeepSeek},
		{"int4-g128", "int4-g128", "int4-g128", "rtn", 4.25, 1, kernels.Own},
		{"int4-g128+range", "int4-g128+range", "int4-g128", "range", 4.25, 16, kernels.Own},
		{"int4-g32-sym+range", "int4-g32-sym+range", "int4-g32-sym", "range", 4.5, 16, kernels.Own},
		{"code2", "code2", "code2", "l2", 2.5, 1, kernels.ModelOpt},
		{"code2+l2", "code2", "code2", "l2", 2.5, 1, kernels.ModelOpt},
		{"code2+sym", "code2+sym", "code2", "sym", 2.5, 1, kernels.ModelOpt},
		{"code2+mirror", "code2+mirror", "code2", "mirror", 2.5, 1, kernels.ModelOpt},
		{"code2-mxfp4+asym", "code2-mxfp4+asym", "code2-mxfp4", "asym", 2.25, 1, kernels.CT32},
		{"code2+book:4:1.5:-1:-4", "code2+book:-4:-1:1.5:4", "code2", "book:-4:-1:1.5:4", 2.5, 1, kernels.ModelOpt},
		{"code2-mxfp4+book:0:0.5:-0.5:6", "code2-mxfp4+book:-0.5:0:0.5:6", "code2-mxfp4", "book:-0.5:0:0.5:6", 2.25, 1, kernels.CT32},
		{"int4-channel", "int4-channel", "int4-channel", "rtn", 4, 1, kernels.Own},
	} {
		v, err := Parse(c.name)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if v.Name != c.canonical || v.Scheme != c.scheme || !cmp.Equal(v.Methods, []string{c.method}) || v.BitsPerWeight != c.bits || len(v.Multipliers) != c.multipliers ||
			v.Spec != (kernels.Spec{Format: c.scheme, Convention: c.convention, Method: c.method}) {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	const bookValues = "(known: -6, -4, -3, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 4, 6)"
	const variants = "nvfp4[+mse|+mse_ge1|+sweep|+4over6|+imatrix], mxfp4[+imatrix], int4-g128[+range|+imatrix], int4-g128-sym[+range|+imatrix], fp8, fp8-channel, fp8-block128, int4-g64"
	for _, c := range []struct {
		name    string
		reason  error
		mention []string
	}{
		{"", ErrUnknown, []string{`""`, variants}},
		{"nvfp5", ErrUnknown, []string{`"nvfp5"`, variants}},
		{"NVFP4", ErrUnknown, []string{`"NVFP4"`, variants}},
		{"bf16", ErrUnsupported, []string{`"bf16"`, variants}},
		{"f32+range", ErrUnsupported, []string{`"f32"`, variants}},
		{"int4-g128+awq", ErrUnknown, []string{`"awq"`, "known for int4-g128: rtn, range, imatrix, gptq, act)"}},
		{"mxfp4+mse", ErrUnknown, []string{`"mse"`, "known for mxfp4: rtn, imatrix, gptq, act)"}},
		{"fp8+gptq", ErrNotFor, []string{`"gptq" is not for fp8`, "4 or 2 bits", "(known for fp8: rtn)"}},
		{"fp8-channel+gptq+act", ErrNotFor, []string{"fp8-channel"}},
		{"fp8-block128+imatrix", ErrNotFor, []string{`"imatrix" is not for fp8-block128`, "nothing to weigh"}},
		{"code2+act", ErrIncomplete, []string{`"act" needs gptq`, "code2+gptq+act"}},
		{"code2+l2+sym", ErrConflict, []string{"l2 and sym both choose the codebook"}},
		{"code2+rtn", ErrUnknown, []string{"known for code2: l2, sym, asym, mirror, book:A:B:C:D, imatrix, gptq, act)"}},
		{"code2-mxfp4+asym+mirror", ErrConflict, []string{"asym and mirror both choose the codebook"}},
		{"code2-mxfp4+range", ErrUnknown, []string{"known for code2-mxfp4: l2, sym, asym, mirror, book:A:B:C:D, imatrix, gptq, act)"}},
		{"nvfp4+book:-4:-1:1:4", ErrNotFor, []string{"is not for nvfp4, which has no codebook (known for nvfp4: rtn, mse"}},
		{"code2+book:1:2:3", kernels.ErrRange, []string{"3 values: want 4 that differ", bookValues}},
		{"code2+book:1:2:3:4:6", kernels.ErrRange, []string{"5 values: want 4 that differ", bookValues}},
		{"code2+book:1:2:3:1", kernels.ErrRange, []string{"1 is there twice", bookValues}},
		{"code2+book:-4:-1:.5:4", kernels.ErrRange, []string{`".5" is no value of a codebook`, bookValues}},
		{"code2+book:-4:-0:1:4", kernels.ErrRange, []string{`"-0" is no value of a codebook`, bookValues}},
		{"code2+book:-4:1.50:2:5", kernels.ErrRange, []string{`"1.50"`}},
		{"code2+book:", kernels.ErrRange, []string{`"" is no value`, bookValues}},
		{"code2+book", ErrUnknown, []string{"book:A:B:C:D"}},
		{"code2+sym+book:-4:-1:1:4", ErrConflict, []string{"sym and book:-4:-1:1:4 both choose the codebook"}},
		{"code2+book:-4:-1:1:4+book:4:-4:1:-1", ErrConflict, []string{"both choose the codebook"}},
		{"code2+imatrix+book:-4:-1:1:4", ErrConflict, []string{"nothing to weigh"}},
		{"code2-mxfp4+book:-4:-1:1:4+imatrix+gptq", ErrConflict, []string{"nothing to weigh"}},
		{"int4-g128+act", ErrIncomplete, []string{`"act" needs gptq`, "int4-g128+gptq+act"}},
		{"nvfp4+act+mse", ErrIncomplete, []string{"nvfp4+gptq+act"}},
		{"nvfp4+mse+imatrix", ErrConflict, []string{"mse and imatrix"}},
		{"int4-g128+gptq+range+imatrix", ErrConflict, []string{"range and imatrix"}},
		{"int4-g128+gptq+gptq", ErrDuplicate, []string{`"gptq"`}},
		{"nvfp4+gptq+act+act", ErrDuplicate, []string{`"act"`}},
		{"int4-g128+range+rtn", ErrConflict, []string{"range and rtn"}},
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
		"nvfp4,nvfp4+rtn": ErrDuplicate, "nvfp4,,nvfp4+mse": ErrUnknown, "": ErrUnknown, "nvfp4,bf16": ErrUnsupported, "fp8,mxfp4,fp8": ErrDuplicate,
	} {
		if _, err := ParseList(comma); !errors.Is(err, reason) {
			t.Errorf("%q: %v, want %v", comma, err, reason)
		}
	}
}

// What the pickers offer can be parsed, under the very name, and is all that
// can be made.
func TestKnown(t *testing.T) {
	seen := map[string]bool{}
	for _, h := range Known() {
		v, err := Parse(h.Name)
		if err != nil || v.Name != h.Name || h.Description == "" || seen[h.Name] {
			t.Errorf("%+v: %q, %v", h, v.Name, err)
		}
		if len(v.Multipliers) == 0 || len(v.Multipliers) > kernels.MultBins {
			t.Errorf("%s: %d labels", h.Name, len(v.Multipliers))
		}
		seen[h.Name] = true
	}
	for _, f := range kernels.Formats() {
		for _, m := range choosers(f.Name) {
			if !seen[variantName(f.Name, m)] {
				t.Errorf("%s+%s is not offered", f.Name, m)
			}
		}
	}
	for _, h := range Known() {
		v, err := Parse(h.Name)
		if err != nil || v.Calibrated() != h.Calibrated {
			t.Errorf("%+v: calibrated %v", h, v.Calibrated())
		}
		if plain := slices.Contains(Plain(), h); plain == h.Calibrated {
			t.Errorf("%s is among the plain: %v", h.Name, plain)
		}
	}
}

func TestConventions(t *testing.T) {
	for _, name := range []string{"modelopt", "modelopt-static", "ct32", "ct", "own", "deepseek"} {
		c, err := ParseConvention(name)
		if err != nil || c.String() != name {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
	if _, err := ParseConvention("gguf"); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "modelopt, modelopt-static, ct32, ct, own, deepseek") {
		t.Errorf("%v", err)
	}
	for _, h := range Known() {
		v, err := Parse(h.Name)
		if err != nil {
			t.Fatal(err)
		}
		for c := range kernels.DeepSeek + 2 {
			w, err := v.WithConvention(c)
			known := slices.Contains(kernels.Conventions(v.Scheme), c)
			switch {
			case known && (err != nil || w.Spec.Convention != c || w.Name != v.Name || v.Spec.Convention != kernels.Conventions(v.Scheme)[0]):
				t.Errorf("%s by %v: %+v, %v", h.Name, c, w, err)
			case !known && !errors.Is(err, ErrUnknown):
				t.Errorf("%s by %v: %v", h.Name, c, err)
			case !known && !strings.Contains(err.Error(), kernels.Conventions(v.Scheme)[0].String()):
				t.Errorf("%v does not list what is known", err)
			}
		}
	}
}

// Every variant measures a matrix, with less error where more bits or a search
// are spent.
func TestMeasureEveryVariant(t *testing.T) {
	m := matrix(8, 256, func(i int) float32 { return float32(math.Sin(float64(i*i)) * math.Exp(math.Sin(float64(i)))) })
	rel := map[string]float64{}
	for _, h := range Plain() {
		v, err := Parse(h.Name)
		if err != nil {
			t.Fatal(err)
		}
		most := 0.2
		if v.NeedsMatrix() {
			most = 0.5
		}
		tap, errs, err := v.MeasureRows(kernels.Reference(), m)
		if err != nil || tap.Elements != 8*256 || len(errs) != 8 || !(tap.RelL2() > 0.005 && tap.RelL2() < most) {
			t.Errorf("%s: %v, %d elements, rel_l2 %v", h.Name, err, tap.Elements, tap.RelL2())
		}
		rel[h.Name] = tap.Rel2()
	}
	for _, less := range [][2]string{
		{"fp8", "nvfp4"}, {"fp8-channel", "mxfp4"}, {"nvfp4+sweep", "nvfp4"}, {"nvfp4", "mxfp4"}, {"int4-g32", "int4-g128"}, {"int4-g128", "int4-channel"}, {"nvfp4", "code2"},
	} {
		if rel[less[0]] >= rel[less[1]] {
			t.Errorf("%s has a rel2 of %v, %s of %v", less[0], rel[less[0]], less[1], rel[less[1]])
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
