package kernels

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"
)

// powerError is Σ|w−q|^2.4 in f64.
func powerError(w, q []float32) (sum float64) {
	for i := range w {
		sum += math.Pow(math.Abs(float64(w[i])-float64(q[i])), 2.4)
	}
	return sum
}

// The terms are |e|^2.4 to the accuracy that is stated.
func TestRangeTerm(t *testing.T) {
	for e := 0x1p-12; e < 11; e *= 1.01 {
		got, want := float64(rangeTerm(float32(e))), math.Pow(float64(float32(e)), 2.4)
		if math.Abs(got-want) > 2.65e-5*want {
			t.Errorf("%v: %v, want %v", e, got, want)
		}
	}
	if rangeTerm(0) != 0 || rangeTerm(0x1p-13) != 0 || !(rangeTerm(1e30) > 0) || !(rangeTerm(float32(math.Inf(1))) > 0) {
		t.Errorf("%v %v %v", rangeTerm(0), rangeTerm(0x1p-13), rangeTerm(1e30))
	}
}

func TestRangeFactors(t *testing.T) {
	labels := RangeLabels()
	if rangeFactor(0) != 1 || rangeFactor(rangeFactors-1) != 0.6 || len(labels) != MultBins || labels[0] != "1.0" || labels[1] != "0.975" || labels[MultBins-1] != "0.6" {
		t.Errorf("%v … %v, %v", rangeFactor(0), rangeFactor(rangeFactors-1), labels)
	}
	for i := 1; i < rangeFactors; i++ {
		if step := float64(rangeFactor(i-1)) - float64(rangeFactor(i)); math.Abs(step-0.0125) > 1e-7 || rangeBin(i) < rangeBin(i-1) {
			t.Errorf("factor %d is %v, bin %d", i, rangeFactor(i), rangeBin(i))
		}
	}
}

// In each group range finds, of all factors, the one with the least error, to
// the accuracy of the terms, and so is never worse than rtn.
func TestRangeFindsTheLeastError(t *testing.T) {
	for _, format := range []string{"int4-g32", "int4-g128", "int4-g64-sym", "int4-channel"} {
		for _, conv := range Conventions(format) {
			for seed := range uint64(4) {
				if seed == 3 {
					continue // not finite
				}
				f := mustFormat(t, format)
				const rows, cols = 3, 256
				m := Matrix{Element: F32, Rows: rows, Cols: cols, Data: elementsOf(F32, seed, rows*cols)}
				w := make([]float32, rows*cols)
				if err := DecodeFloats(w, F32, m.Data); err != nil {
					t.Fatal(err)
				}
				searching, plain := Spec{Format: format, Convention: conv, Method: "range"}, Spec{Format: format, Convention: conv}
				b, nearest := quantizeBlocks(t, Best(), m, searching, 0), quantizeBlocks(t, Best(), m, plain, 0)
				got, rtn := b.decode(t, searching, m), nearest.decode(t, plain, m)
				group := f.Group
				if group == 0 {
					group = cols
				}
				k := int4Chooser{conv: conv, symmetric: f.MinBits == 0, rule: int4Rule(conv, f.MinBits == 0)}
				for at := 0; at < len(w); at += group {
					part := w[at : at+group]
					r := finiteRange(part)
					least := math.Inf(1)
					for i := range rangeFactors {
						var c blockChoice
						k.fit(r.lo*rangeFactor(i), r.hi*rangeFactor(i), &c)
						q := make([]float32, group)
						for j, x := range part {
							_, q[j] = k.rule.code(x, &c.blockParams)
						}
						least = min(least, powerError(part, q))
					}
					e := powerError(part, got[at:at+group])
					if e > least*(1+1e-4) || e > powerError(part, rtn[at:at+group])*(1+1e-4) {
						t.Errorf("%s %v seed %d, element %d: error %v, least of all %v, rtn %v", format, conv, seed, at, e, least, powerError(part, rtn[at:at+group]))
					}
				}
				if b.tap.Multipliers[0] == b.tap.Blocks && seed == 0 {
					t.Errorf("%s %v: nothing was shrunk", format, conv)
				}
			}
		}
	}
}

// Under Own a scale and a minimum are bf16 before codes are chosen: every code
// is the nearest value that can be had.
func TestInt4OwnIsNearest(t *testing.T) {
	for seed := range uint64(3) {
		m := Matrix{Element: BF16, Rows: 2, Cols: 256, Data: elementsOf(BF16, seed, 512)}
		b := quantizeBlocks(t, Best(), m, Spec{Format: "int4-g128", Convention: Own}, 0)
		for i := range 512 {
			w := BF16ToF32(binary.LittleEndian.Uint16(m.Data[2*i:]))
			block := i / 128
			scale, offset := storedScale(t, b.Scales[2*block:2*block+2]), storedScale(t, b.Mins[2*block:2*block+2])
			code := float64(b.Codes[i/2] >> (i % 2 * 4) & 15)
			x := (float64(w) - float64(offset)) / float64(scale)
			// x is rounded twice on its way, to f32.
			if d := math.Abs(min(max(x, 0), 15) - code); d > 0.5+1e-5 {
				t.Errorf("element %d: %v steps above the minimum have code %v", i, x, code)
			}
			if i%128 == 0 {
				lo := float32(math.Inf(1))
				for j := range 128 {
					lo = min(lo, BF16ToF32(binary.LittleEndian.Uint16(m.Data[2*(i+j):])))
				}
				if offset != lo {
					t.Errorf("group %d: minimum %v, want %v", block, offset, lo)
				}
			}
		}
	}
}

// A value is coded as the half-open codes say: the lowest is the minimum itself,
// a constant group decodes to itself.
func TestInt4Constant(t *testing.T) {
	for _, v := range []float32{3, -0.125, 1} {
		m := f32Matrix(1, 32, slices.Repeat([]float32{v}, 32))
		b := quantizeBlocks(t, Best(), m, Spec{Format: "int4-g32", Convention: Own}, 0)
		for i, q := range b.decode(t, Spec{Format: "int4-g32", Convention: Own}, m) {
			if q != v {
				t.Errorf("element %d of %v decodes to %v", i, v, q)
			}
		}
		if b.tap.SumE2 != 0 || b.tap.Shallow+b.tap.Deep != 0 || b.tap.ScaleLow != 0 {
			t.Errorf("%v: %+v", v, b.tap)
		}
	}
}

// The range of codes reaches half a step beyond the outermost ones: round to
// nearest clips only what the scale's own rounding leaves out; a range that was
// shrunk clips deep.
func TestInt4Clipping(t *testing.T) {
	m := Matrix{Element: BF16, Rows: 16, Cols: 512, Data: elementsOf(BF16, 4, 16*512)}
	for _, format := range []string{"int4-g32", "int4-g128-sym"} {
		for _, conv := range Conventions(format) {
			tap := measureBlocks(t, Best(), m, Spec{Format: format, Convention: conv})
			if tap.Deep != 0 || conv == CT32 && tap.Shallow != 0 || depthAbove(&tap, 1.0/256) != 0 {
				t.Errorf("%s %v: %d shallow, %d deep, %v", format, conv, tap.Shallow, tap.Deep, tap.Depth)
			}
			searched := measureBlocks(t, Best(), m, Spec{Format: format, Convention: conv, Method: "range"})
			if searched.Shallow+searched.Deep == 0 || searched.ShallowL2+searched.DeepL2 == 0 || format == "int4-g128-sym" && searched.Deep == 0 {
				t.Errorf("%s %v: a smaller range clips %d blocks shallow, %d deep", format, conv, searched.Shallow, searched.Deep)
			}
		}
	}
}

// depthAbove is how many clipped blocks are in bins that begin above a depth.
func depthAbove(t *Tap, depth float64) (n int64) {
	for i, v := range t.Depth {
		if float64(i)/DepthBins > depth {
			n += v
		}
	}
	return n
}

// A given tensor scale is used and reported, and one that cannot be is refused.
func TestFP8Global(t *testing.T) {
	m := Matrix{Element: BF16, Rows: 2, Cols: 40, Data: elementsOf(BF16, 0, 80)}
	spec := Spec{Format: "fp8", Global: 0x1p-14}
	if spec.NeedsAmax() {
		t.Error("a largest magnitude is asked for beside a scale")
	}
	b := quantizeBlocks(t, Best(), m, spec, 1)
	decoded := b.decode(t, spec, m)
	checkBlockTap(t, m, spec, &b, decoded)
	if b.global != 0x1p-14 || storedScale(t, b.Scales) != 0x1p-14 || b.tap.Deep != 1 || b.tap.DeepL2 == 0 {
		t.Errorf("global %v, %d deep with %v", b.global, b.tap.Deep, b.tap.DeepL2)
	}
	again := make([]float32, len(decoded))
	if err := Dequantize(again, spec, m.Rows, m.Cols, b.Codes, nil, nil, b.global); err != nil || !slices.Equal(again, decoded) {
		t.Errorf("decoded by the tensor scale alone: %v", err)
	}
	for _, c := range []struct {
		conv   Convention
		global float32
	}{{ModelOpt, -1}, {ModelOpt, math.MaxFloat32}, {ModelOpt, float32(math.Inf(1))}, {ModelOpt, float32(math.NaN())}, {CT, 1.001}} {
		_, err := Best().Begin(Spec{Format: "fp8", Convention: c.conv, Global: c.global}, BF16, 1, 1, 1)
		if err == nil || !strings.Contains(err.Error(), "tensor scale") {
			t.Errorf("%v under %v: %v", c.global, c.conv, err)
		}
	}
}

func TestDequantizeRefuses(t *testing.T) {
	dst := make([]float32, 64)
	spec := Spec{Format: "int4-g32", Convention: Own}
	for name, err := range map[string]error{
		"format":     Dequantize(dst, Spec{Format: "int5"}, 1, 64, nil, nil, nil, 0),
		"quantizer":  Dequantize(dst, Spec{Format: "bf16"}, 1, 64, nil, nil, nil, 0),
		"convention": Dequantize(dst, Spec{Format: "int4-g32", Convention: DeepSeek}, 1, 64, make([]byte, 32), make([]byte, 4), make([]byte, 4), 0),
		"elements":   Dequantize(dst, spec, 1, 63, make([]byte, 32), make([]byte, 4), make([]byte, 4), 0),
		"codes":      Dequantize(dst, spec, 1, 64, make([]byte, 31), make([]byte, 4), make([]byte, 4), 0),
		"scales":     Dequantize(dst, spec, 1, 64, make([]byte, 32), make([]byte, 3), make([]byte, 4), 0),
		"minima":     Dequantize(dst, spec, 1, 64, make([]byte, 32), make([]byte, 4), nil, 0),
		"shape":      Dequantize(dst, spec, -1, 64, make([]byte, 32), make([]byte, 4), make([]byte, 4), 0),
		"overflow":   Dequantize(nil, spec, math.MaxInt, math.MaxInt, nil, nil, nil, 0),
	} {
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := Dequantize(dst, spec, 1, 64, make([]byte, 32), make([]byte, 4), make([]byte, 4), 0); err != nil {
		t.Error(err)
	}
}
