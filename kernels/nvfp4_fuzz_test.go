package kernels

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// guarded is a slice of n bytes between canaries, and a check that they still
// stand.
func guarded(n int) (inner []byte, intact func() bool) {
	const pad, mark = 64, 0xa5
	whole := bytes.Repeat([]byte{mark}, n+2*pad)
	return whole[pad : pad+n : pad+n], func() bool {
		for i := range pad {
			if whole[i] != mark || whole[pad+n+i] != mark {
				return false
			}
		}
		return true
	}
}

// checkAgainstOracle quantizes with every set and compares codes, scales,
// global scale and choices with the oracle, and the tap record with plain
// loops; the records of all sets are equal.
func checkAgainstOracle(t *testing.T, m Matrix, o NVFP4Options) {
	t.Helper()
	w := make([]float32, m.Rows*m.Cols)
	if err := DecodeFloats(w, m.Element, m.Data); err != nil {
		t.Fatal(err)
	}
	if _, err := Reference().NVFP4(m, o, nil); err != nil {
		// The only thing wrong with such input can be a global scale under
		// which 6·448 decodes to infinity.
		or := oracle{conv: o.Convention, global: o.GlobalScale}
		if top := 6 * or.step(0x7e); !errors.Is(err, ErrRange) || top <= math.MaxFloat32 {
			t.Fatalf("%v, with 6·448 decoding to %v", err, top)
		}
		return
	}
	codes, scales, global, choices := oracleNVFP4(w, m.Rows, m.Cols, o)
	before := bytes.Clone(m.Data)
	var first Tap
	for i, set := range Available() {
		q := quantized{NVFP4Output: newOutput(m), m: m}
		var codesIntact, scalesIntact func() bool
		q.Codes, codesIntact = guarded(len(q.Codes))
		q.Scales, scalesIntact = guarded(len(q.Scales))
		var err error
		if q.tap, err = set.NVFP4(m, o, &q.NVFP4Output); err != nil {
			t.Fatal(err)
		}
		name := set.Name + " " + o.Convention.String() + " " + o.Method.String()
		if !codesIntact() || !scalesIntact() || !bytes.Equal(m.Data, before) {
			t.Fatalf("%s wrote outside of its output", name)
		}
		if math.Float32bits(q.GlobalScale) != math.Float32bits(global) {
			t.Fatalf("%s: global scale %v, want %v", name, q.GlobalScale, global)
		}
		if !bytes.Equal(q.Scales, scales) {
			t.Fatalf("%s: scales: %s", name, firstDiff(q.Scales, scales))
		}
		if !bytes.Equal(q.Codes, codes) {
			t.Fatalf("%s: codes: %s", name, firstDiff(q.Codes, codes))
		}
		if q.tap.Multipliers != choices {
			t.Fatalf("%s: choices %v, want %v", name, q.tap.Multipliers, choices)
		}
		checkTap(t, q, q.decode(t, o.Convention))
		if measured, err := set.NVFP4(m, o, nil); err != nil || measured != q.tap {
			t.Errorf("%s: measuring alone gives another record (%v)", name, err)
		}
		if i == 0 {
			first = q.tap
		} else if q.tap != first {
			t.Errorf("%s: the record differs from the reference's\n%+v\n%+v", name, q.tap, first)
		}
	}
}

// fuzzInput turns bytes into a matrix and options.
func fuzzInput(raw []byte, cols, mode uint8, global float32) (Matrix, NVFP4Options) {
	m := Matrix{Element: []Element{BF16, F16, F32}[mode%3], Cols: int(cols)%70 + 1}
	o := NVFP4Options{Convention: Convention(mode / 3 % 4), Method: NVFP4Method(mode / 12 % 5)}
	if global > 0 && global <= math.MaxFloat32 {
		o.GlobalScale = global
	}
	rowBytes := m.Cols * m.Element.Size()
	m.Rows = min(len(raw)/rowBytes, 4)
	m.Data = raw[:m.Rows*rowBytes]
	return m, o
}

func FuzzNVFP4(f *testing.F) {
	rng := rand.New(rand.NewPCG(7, 7))
	specials := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 6, 5, 2.5, 0.25, 1e-45, -1e-45, 0x1p-126, 1e-30, 1e30,
		math.MaxFloat32, -math.MaxFloat32, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 448 * 6, 464}
	for mode := range uint8(60) {
		for n := range 5 {
			cols := uint8([]int{15, 16, 29, 47, 0}[n])
			raw := make([]byte, 4*70*4)
			for i := 0; i+4 <= len(raw); i += 4 {
				x := float32(rng.NormFloat64() * math.Exp2(float64(rng.IntN(8*n+1))))
				if rng.IntN(20) == 0 && n > 1 {
					x = specials[rng.IntN(len(specials))]
				}
				switch mode % 3 {
				case 0:
					binary.LittleEndian.PutUint16(raw[i:], F32ToBF16(x))
					binary.LittleEndian.PutUint16(raw[i+2:], F32ToBF16(-x/3))
				case 1:
					binary.LittleEndian.PutUint16(raw[i:], F32ToF16(x))
					binary.LittleEndian.PutUint16(raw[i+2:], F32ToF16(-x/3))
				default:
					binary.LittleEndian.PutUint32(raw[i:], math.Float32bits(x))
				}
			}
			global := float32(0)
			if n == 3 {
				global = []float32{1e-45, 1e-30, 0.01, 1, 1e30, math.MaxFloat32}[rng.IntN(6)]
			}
			f.Add(raw, cols, mode, global)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte, cols, mode uint8, global float32) {
		m, o := fuzzInput(raw, cols, mode, global)
		checkAgainstOracle(t, m, o)
	})
}
