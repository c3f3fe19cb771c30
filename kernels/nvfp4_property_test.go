package kernels

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// drawMatrix makes a matrix of weights whose blocks differ in size, some of
// them with an outlier, zero or constant.
func drawMatrix(t *rapid.T) Matrix {
	rows, cols := rapid.IntRange(1, 5).Draw(t, "rows"), rapid.IntRange(1, 70).Draw(t, "cols")
	seed := rapid.Uint64().Draw(t, "seed")
	spread := rapid.IntRange(0, 30).Draw(t, "octaves")
	base := rapid.IntRange(-60, 60).Draw(t, "exponent")
	m := gaussianBF16(rows, cols, seed)
	x := make([]float32, rows*cols)
	if err := DecodeFloats(x, BF16, m.Data); err != nil {
		t.Fatal(err)
	}
	for i := range x {
		block := uint64(i/cols*100 + i%cols/BlockNVFP4)
		h := (seed ^ block) * 0x9e3779b97f4a7c15 >> 32
		x[i] = float32(math.Ldexp(float64(x[i]), base-int(h)%(spread+1)))
		switch h >> 8 % 8 {
		case 0:
			x[i] = 0
		case 1:
			x[i] = float32(math.Copysign(math.Ldexp(1, base), float64(x[i])))
		case 2:
			if i%BlockNVFP4 == 5 {
				x[i] *= 40
			}
		}
	}
	e := rapid.SampledFrom([]Element{BF16, F32}).Draw(t, "element")
	m = Matrix{Element: e, Rows: rows, Cols: cols, Data: make([]byte, rows*cols*e.Size())}
	if err := EncodeFloats(m.Data, e, x); err != nil {
		t.Fatal(err)
	}
	return m
}

// notWorse says whether a search's block error a is not above another
// candidate's error b, allowing for the f32 rounding of what the search
// compares. x[i] is off by at most δ = 4·2⁻²⁴ of itself, so the root of an
// error by at most δ times the root of the block's Σw², and the sums by less.
func notWorse(a, b, w2 float64) bool {
	const delta = 0x1p-21
	return math.Sqrt(a) <= math.Sqrt(b)+2*delta*math.Sqrt(w2)+delta*math.Sqrt(b)
}

func TestNVFP4Properties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := drawMatrix(rt)
		conv := rapid.SampledFrom([]Convention{ModelOpt, ModelOptStatic, CT32, CT}).Draw(rt, "convention")
		perRow := ceilDiv(m.Cols, BlockNVFP4)
		w := make([]float32, m.Rows*m.Cols)
		if err := DecodeFloats(w, m.Element, m.Data); err != nil {
			rt.Fatal(err)
		}
		w2 := make([]float64, m.Rows*perRow)
		for i, v := range w {
			w2[i/m.Cols*perRow+i%m.Cols/BlockNVFP4] += float64(v) * float64(v)
		}
		for _, set := range Available() {
			errs := map[NVFP4Method][]float64{}
			for _, method := range allMethods {
				q := quantize(t, set, m, NVFP4Options{Method: method, Convention: conv})
				checkTap(t, q, q.decode(t, conv))
				errs[method] = blockErrors(t, q, conv)
				if gap := q.tap.IdentityGap(); gap > 1e-12*max(1, q.tap.Rel2()) {
					rt.Errorf("%s %v: identity gap %v", set.Name, method, gap)
				}
				// Nothing is clipped beyond the rounding of the scale unless a
				// search prefers it.
				if method != NVFP4MSE && method != NVFP4Sweep && q.tap.Deep != 0 {
					rt.Errorf("%s %v %v: %d deep clips, depths %v", set.Name, conv, method, q.tap.Deep, q.tap.Depth)
				}
				if q.tap.ScaleHigh != 0 {
					rt.Errorf("%s %v %v: %d scales clamped high", set.Name, conv, method, q.tap.ScaleHigh)
				}
			}
			for b := range w2 {
				for _, c := range []struct{ better, than NVFP4Method }{
					{NVFP4MSE, NVFP4RTN}, {NVFP4MSEGE1, NVFP4RTN}, {NVFP4MSE, NVFP4MSEGE1}, {NVFP4Sweep, NVFP4MSE},
				} {
					if x, y := errs[c.better][b], errs[c.than][b]; !notWorse(x, y, w2[b]) {
						rt.Errorf("%s %v block %d: %v has error %v, %v has %v", set.Name, conv, b, c.better, x, c.than, y)
					}
				}
			}
		}
	})
}

// A search with a list finds what trying the list without bounds finds, for
// any list; sweep and the named lists are compared with the oracle elsewhere.
func TestNVFP4AnyList(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := drawMatrix(rt)
		list := rapid.SliceOfN(rapid.Float32Range(0.25, 4), 1, 12).Draw(rt, "multipliers")
		first := rapid.IntRange(0, len(list)-1).Draw(rt, "first")
		w := make([]float32, m.Rows*m.Cols)
		if err := DecodeFloats(w, m.Element, m.Data); err != nil {
			rt.Fatal(err)
		}
		q := quantized{NVFP4Output: newOutput(m), m: m}
		tap, err := Reference().nvfp4(m, ModelOpt, nvfp4Search{multipliers: list, first: first, top: MaxE4M3}, 0, &q.NVFP4Output)
		if err != nil {
			rt.Fatal(err)
		}
		or := newOracle(w, NVFP4Options{})
		var choices [MultBins]int64
		for b := range q.Scales {
			perRow := ceilDiv(m.Cols, BlockNVFP4)
			start := b/perRow*m.Cols + b%perRow*BlockNVFP4
			block := make([]float32, BlockNVFP4)
			copy(block, w[start:min(start+BlockNVFP4, (b/perRow+1)*m.Cols)])
			var amax float32
			for _, v := range block {
				amax = max(amax, float32(math.Abs(float64(v))))
			}
			choice := first
			best := or.err(block, or.scale(amax*list[first]))
			for i, f := range list {
				if e := or.err(block, or.scale(amax*f)); e < best {
					best, choice = e, i
				}
			}
			choices[choice]++
			if want := or.scale(amax * list[choice]); q.Scales[b] != want {
				rt.Errorf("block %d: scale %v, want %v", b, E4M3ToF32(q.Scales[b]), E4M3ToF32(want))
			}
		}
		if tap.Multipliers != choices {
			rt.Errorf("choices %v, want %v", tap.Multipliers, choices)
		}
	})
}
