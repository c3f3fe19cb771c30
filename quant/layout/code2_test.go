package layout

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// twoConfig is the config of quantscope's layout of two bits.
func twoConfig(format string, group int) string {
	return fmt.Sprintf(`{"model_type":"llama","quantization_config":{"quant_method":"quantscope","version":2,"format":%q,"bits":2,"group_size":%d,
		"targets":["Linear"],"ignore":[],"quantscope":{"variant":"%s+sym","format":%q,"method":"sym"}}}`, format, group, format, format)
}

func f32Part(name string, v float32, shape ...int64) part {
	if shape == nil {
		shape = []int64{}
	}
	return part{name, checkpoint.F32, shape, binary.LittleEndian.AppendUint32(nil, math.Float32bits(v))}
}

// Bytes written by hand: two outputs of twenty inputs, whose second block is short. The
// byte e4 holds the indices 0 1 2 3, the byte 1b 3 2 1 0; the codes 15, 10, 0 and 5 are
// −6, −1, 0 and 3; the scales 38, 40, 30 and 44 are 1, 2, ½ and 3.
var (
	twoCodes  = []byte{0xe4, 0x1b, 0xe4, 0x1b, 0xe4, 0x1b, 0x1b, 0x00, 0xff, 0x1b}
	twoScales = []byte{0x38, 0x40, 0x30, 0x44}
	twoBook   = []byte{15, 10, 0, 5}
	twoValues = [2][]float32{
		{-6, -1, 0, 3, 3, 0, -1, -6, -6, -1, 0, 3, 3, 0, -1, -6, -6, -1, 0, 3},
		{3, 0, -1, -6, 3, 0, -1, -6, -6, -6, -6, -6, 3, 3, 3, 3, 3, 0, -1, -6},
	}
)

// twoParts are the tensors of it; the second-level scale is ¼, or divides as 4.
func twoParts(divides bool) []part {
	global := f32Part(proj+".weight_scale_2", 0.25)
	if divides {
		global = f32Part(proj+".weight_global_scale", 4, 1)
	}
	return []part{
		{proj + ".weight_packed", checkpoint.U8, []int64{2, 5}, twoCodes},
		{proj + ".weight_scale", checkpoint.F8E4M3, []int64{2, 2}, twoScales},
		{proj + ".weight_codebook", checkpoint.U8, []int64{4}, twoBook}, global,
	}
}

// Two bits decode to what their bytes say, row by row and whole.
func TestTwoBits(t *testing.T) {
	for _, divides := range []bool{false, true} {
		_, l := openPath(t, write(t, twoConfig("code2", 16), twoParts(divides)))
		if len(l.Modules) != 1 || len(l.Findings) != 0 || l.Receipt.Variant != "code2+sym" {
			t.Fatalf("%+v", l)
		}
		m := &l.Modules[0]
		if m.Method != Quantscope || m.Spec.Format != "code2" || m.Rows != 2 || m.Cols != 20 || m.Format().Bits != 2 || m.Bytes() != 10+4+4+4 || m.FP4() {
			t.Errorf("%+v", m)
		}
		if want := map[bool]kernels.Convention{false: kernels.ModelOpt, true: kernels.CT}[divides]; m.Spec.Convention != want || m.divides() != divides {
			t.Errorf("convention %v, want %v", m.Spec.Convention, want)
		}
		mask, err := m.Codebook(t.Context())
		if err != nil || !slices.Equal(kernels.Codebook(mask), []float32{-6, -1, 0, 3}) {
			t.Errorf("codebook %#04x, %v", mask, err)
		}
		steps := []float32{0.25, 0.5, 0.125, 0.75}
		var want []float32
		for r, row := range twoValues {
			for c, v := range row {
				want = append(want, v*steps[2*r+c/16])
			}
		}
		sameFloats(t, "row by row", decode(t, m, 1), want)
		sameFloats(t, "whole", decode(t, m, 2), want)
		var s Stored
		if err := m.Read(t.Context(), &s, 1, 1); err != nil {
			t.Fatal(err)
		}
		if got := m.Steps(&s); !slices.Equal(got, steps[2:]) || m.StepIndex(&s, 0, 17) != 1 || m.SpecOf(&s).Codebook != mask {
			t.Errorf("steps %v", got)
		}
		for _, word := range []string{"2-bit codes, the first input in the lowest bits", "weight_codebook", map[bool]string{false: "the global scale multiplies", true: "the global scale divides"}[divides]} {
			if !strings.Contains(m.Reading(), word) {
				t.Errorf("%q is not in %q", word, m.Reading())
			}
		}
	}
	// Blocks of 32 with powers of two, in bytes of either type.
	for _, dtype := range []checkpoint.DType{checkpoint.U8, checkpoint.F8E8M0} {
		_, l := openPath(t, write(t, twoConfig("code2-mxfp4", 32), []part{
			{proj + ".weight_packed", checkpoint.U8, []int64{2, 5}, twoCodes},
			{proj + ".weight_scale", dtype, []int64{2, 1}, []byte{126, 130}},
			{proj + ".weight_codebook", checkpoint.U8, []int64{4}, twoBook},
		}))
		if len(l.Modules) != 1 || len(l.Findings) != 0 || l.Modules[0].Spec.Format != "code2-mxfp4" || l.Modules[0].Bytes() != 10+2+4 {
			t.Fatalf("%+v", l)
		}
		var want []float32
		for r, row := range twoValues {
			for _, v := range row {
				want = append(want, v*[]float32{0.5, 8}[r])
			}
		}
		sameFloats(t, "powers", decode(t, &l.Modules[0], 2), want)
		if got := decode(t, &l.Modules[0], 1); !slices.Equal(got, want) {
			t.Errorf("%v", got)
		}
		var s Stored
		if err := l.Modules[0].Read(t.Context(), &s, 0, 2); err != nil || !slices.Equal(l.Modules[0].Steps(&s), []float32{0.5, 8}) {
			t.Errorf("steps %v, %v", l.Modules[0].Steps(&s), err)
		}
	}
}

// with replaces a tensor, or takes it away where data is nil.
func with(parts []part, field string, to part) []part {
	out := slices.Clone(parts)
	for i := range out {
		if out[i].name == proj+"."+field {
			if to.data == nil {
				return slices.Delete(out, i, i+1)
			}
			to.name = cmpOr(to.name, out[i].name)
			out[i] = to
		}
	}
	return out
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// What is stored in another shape or type, or beside what it cannot stand beside, is
// refused by module and reason, from headers alone.
func TestTwoBitsThatDoNotFit(t *testing.T) {
	good := twoParts(false)
	for _, c := range []struct {
		what  string
		parts []part
		id    string
		words []string
	}{
		{"five values", with(good, "weight_codebook", part{"", checkpoint.U8, []int64{5}, make([]byte, 5)}), Incomplete, []string{"weight_codebook is [5], want [4]"}},
		{"a matrix of values", with(good, "weight_codebook", part{"", checkpoint.U8, []int64{1, 4}, make([]byte, 4)}), Incomplete, []string{"weight_codebook is [1 4]"}},
		{"values in I8", with(good, "weight_codebook", part{"", checkpoint.I8, []int64{4}, make([]byte, 4)}), UnknownForm, []string{"weight_codebook I8"}},
		{"no scales", with(good, "weight_scale", part{}), UnknownForm, []string{"has weight_codebook U8, weight_packed U8, weight_scale_2 F32"}},
		{"codes of experts", with(good, "weight_packed", part{"", checkpoint.U8, []int64{1, 2, 5}, twoCodes}), Incomplete, []string{"weight_packed is [1 2 5], want [outputs, inputs/4]"}},
		{"codes of four bits", with(good, "weight_packed", part{"", checkpoint.U8, []int64{2, 10}, make([]byte, 20)}), Incomplete, []string{"weight_scale is [2 2], want [2 3]"}},
		{"both second-level scales", append(slices.Clone(good), f32Part(proj+".weight_global_scale", 4, 1)), Incomplete, []string{"weight_scale_2 beside", "weight_global_scale"}},
		{"no second-level scale", with(good, "weight_scale_2", part{}), Incomplete, []string{"neither weight_scale_2 nor weight_global_scale"}},
		{"a second-level scale in bf16", with(good, "weight_scale_2", part{"", checkpoint.BF16, []int64{}, make([]byte, 2)}), Incomplete, []string{"weight_scale_2 is BF16, want F32"}},
		{"two second-level scales", with(good, "weight_scale_2", part{"", checkpoint.F32, []int64{2}, make([]byte, 8)}), Incomplete, []string{"has 2 elements, want 1"}},
		{"a second-level scale beside powers", with(good, "weight_scale", part{"", checkpoint.U8, []int64{2, 1}, make([]byte, 2)}), Incomplete, []string{"weight_scale_2 beside scales that are powers of two"}},
		{"scales of another shape", with(good, "weight_scale", part{"", checkpoint.F8E4M3, []int64{1, 4}, twoScales}), Incomplete, []string{"weight_scale is [1 4], want [2 2]"}},
		{"nothing", with(with(good, "weight_packed", part{"", checkpoint.U8, []int64{0, 5}, []byte{}}), "weight_scale", part{"", checkpoint.F8E4M3, []int64{0, 2}, []byte{}}), Incomplete, []string{"empty"}},
	} {
		_, l := openPath(t, write(t, twoConfig("code2", 16), c.parts))
		i := slices.IndexFunc(l.Findings, func(f Finding) bool { return f.ID == c.id })
		if len(l.Modules) != 0 || i < 0 {
			t.Errorf("%s: %d modules, findings %v", c.what, len(l.Modules), l.Findings)
			continue
		}
		for _, w := range c.words {
			if !strings.Contains(l.Findings[i].Message, w) {
				t.Errorf("%s: %q is not in %q", c.what, w, l.Findings[i].Message)
			}
		}
	}
}

// A codebook that is none is an error that names file and tensor, once codes are asked
// for; headers do not show it.
func TestCodebooksThatAreNone(t *testing.T) {
	for _, c := range []struct {
		book []byte
		word string
	}{
		{[]byte{15, 10, 10, 5}, "the value -1 twice"}, {[]byte{15, 10, 8, 5}, "−0"}, {[]byte{10, 15, 0, 5}, "-6 after -1"},
		{[]byte{15, 10, 5, 0}, "0 after 3"}, {[]byte{15, 10, 0, 21}, "code 21"},
	} {
		_, l := openPath(t, write(t, twoConfig("code2", 16), with(twoParts(false), "weight_codebook", part{"", checkpoint.U8, []int64{4}, c.book})))
		if len(l.Modules) != 1 || len(l.Findings) != 0 {
			t.Fatalf("%+v", l)
		}
		err := l.Modules[0].Read(t.Context(), &Stored{}, 0, 2)
		var fe *checkpoint.FileError
		if !errors.Is(err, kernels.ErrCodebook) || !errors.As(err, &fe) || fe.Tensor != proj+".weight_codebook" || !strings.HasSuffix(fe.File, ".safetensors") || !strings.Contains(err.Error(), c.word) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: %v, want %q", c.book, err, c.word)
		}
	}
}

// The config is held against what is stored, and its version is asked for.
func TestTwoBitsConfig(t *testing.T) {
	for _, c := range []struct{ config, word string }{
		{twoConfig("code2-mxfp4", 32), "group_size 32"},
		{strings.Replace(twoConfig("code2", 16), `"bits":2`, `"bits":4`, 1), "num_bits 4"},
		{strings.Replace(twoConfig("code2", 16), `"format":"code2"`, `"format":"int4-g32"`, 1), "type int, format int4-g32"},
		{twoConfig("code2-mxfp4", 16), "says format code2-mxfp4"},
		{strings.Replace(twoConfig("code2", 16), `"format":"code2"`, `"format":"code3"`, 1), "format code3"},
	} {
		_, l := openPath(t, write(t, c.config, twoParts(false)))
		if len(l.Findings) != 1 || l.Findings[0].ID != Contradicts || !strings.Contains(l.Findings[0].Message, c.word) {
			t.Errorf("%v, want %q", l.Findings, c.word)
		}
	}
	for _, config := range []string{strings.Replace(twoConfig("code2", 16), `"version":2`, `"version":1`, 1), strings.Replace(twoConfig("code2", 16), `"version":2`, `"version":3`, 1)} {
		ck, err := checkpoint.Open(write(t, config, twoParts(false)))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := readConfigs(ck); !errors.Is(err, kernels.ErrUnsupported) || !strings.Contains(err.Error(), "version") {
			t.Errorf("%v", err)
		}
		_ = ck.Close()
	}
}

// FuzzTwoBits decodes random bytes of random shapes as plain loops over bits do, or
// refuses them.
func FuzzTwoBits(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed, uint8(seed), uint8(3*seed+1), seed%3 == 0, seed%2 == 0, []byte{15, 10, 0, 5})
	}
	f.Add(uint64(9), uint8(2), uint8(7), false, false, []byte{15, 8, 0, 5})
	f.Add(uint64(10), uint8(2), uint8(7), false, false, []byte{0, 1, 2})
	f.Fuzz(func(t *testing.T, seed uint64, rows8, bytes8 uint8, powers, divides bool, book []byte) {
		rng := rand.New(rand.NewPCG(seed, 4))
		rows, stored := int(rows8%5)+1, int(bytes8%23)+1
		cols, block := 4*stored, 16
		random := func(n int) []byte {
			out := make([]byte, n)
			for i := range out {
				out[i] = byte(rng.Uint32())
			}
			return out
		}
		if powers {
			block = 32
		}
		groups := (cols + block - 1) / block
		codes, scales := random(rows*stored), random(rows*groups)
		dtype := checkpoint.F8E4M3
		if powers {
			dtype = checkpoint.U8
		}
		parts := []part{
			{proj + ".weight_packed", checkpoint.U8, []int64{int64(rows), int64(stored)}, codes},
			{proj + ".weight_scale", dtype, []int64{int64(rows), int64(groups)}, scales},
			{proj + ".weight_codebook", checkpoint.U8, []int64{int64(len(book))}, book},
		}
		global := float32(math.Exp(4 * rng.NormFloat64()))
		switch {
		case powers:
		case divides:
			parts = append(parts, f32Part(proj+".weight_global_scale", global, 1))
		default:
			parts = append(parts, f32Part(proj+".weight_scale_2", global))
		}
		l := openMemory(t, twoConfig("code2", 16), parts)
		if len(book) != 4 {
			if len(l.Modules) != 0 {
				t.Fatalf("%d values, and a module", len(book))
			}
			return
		}
		if len(l.Modules) != 1 {
			t.Fatalf("%v", l.Findings)
		}
		m := &l.Modules[0]
		dst := make([]float32, rows*cols)
		err := m.Dequantize(t.Context(), dst, 0, &Stored{})
		e2m1 := [16]float32{0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6}
		fine := true
		for i, c := range book {
			fine = fine && c < 16 && c != 8 && (i == 0 || book[i-1] < 16 && e2m1[c] > e2m1[book[i-1]])
		}
		if fine != (err == nil) {
			t.Fatalf("%v: %v", book, err)
		}
		if err != nil {
			return
		}
		for r := range rows {
			for c := range cols {
				v := e2m1[book[codes[r*stored+c/4]>>(c%4*2)&3]]
				scale := scales[r*groups+c/block]
				var step float32
				switch {
				case powers:
					step = kernels.E8M0ToF32(scale)
				case divides:
					step = kernels.E4M3ToF32(scale) / global
				default:
					step = kernels.E4M3ToF32(scale) * global
				}
				if got, want := dst[r*cols+c], v*step; got != want && (got == got || want == want) {
					t.Fatalf("[%d,%d]: %v, want %v", r, c, got, want)
				}
			}
		}
	})
}
