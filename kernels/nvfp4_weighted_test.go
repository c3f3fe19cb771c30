package kernels

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
)

// checkWeightedSets holds every set's imatrix of nvfp4 against the reference:
// scales, codes, record.
func checkWeightedSets(t *testing.T, m Matrix, spec Spec, importance []float32) {
	t.Helper()
	if checkGlobal(spec.Global, spec.Convention) != nil {
		spec.Global = 0
	}
	want := weigh(t, Reference(), m, spec, importance)
	for _, set := range Available()[1:] {
		got := weigh(t, set, m, spec, importance)
		if !bytes.Equal(got.Scales, want.Scales) {
			t.Fatalf("%s %v %v, %d×%d, global %v: scales: %s", set.Name, m.Element, spec.Convention, m.Rows, m.Cols, spec.Global, firstDiff(got.Scales, want.Scales))
		}
		if !bytes.Equal(got.Codes, want.Codes) || got.tap != want.tap {
			t.Fatalf("%s %v %v, %d×%d: the record or the codes differ\n%+v\n%+v", set.Name, m.Element, spec.Convention, m.Rows, m.Cols, got.tap, want.tap)
		}
	}
}

// weightedCase makes a matrix, a spec and an importance of a few numbers.
func weightedCase(seed uint64, rows, cols uint16, mode uint8, global float32) (Matrix, Spec, []float32) {
	rng := rand.New(rand.NewPCG(seed, 31))
	m := wildMatrix(rng, []Element{BF16, F16, F32}[mode%3], int(rows)%4+1, int(cols)%(5*nvfp4Chunk*BlockNVFP4/4)+1)
	spec := Spec{Format: "nvfp4", Convention: Convention(mode / 3 % 4), Method: imatrix}
	if global > 0 && global <= math.MaxFloat32 {
		spec.Global = global
	}
	importance := testImportance(m.Cols)
	rng.Shuffle(len(importance)/16, func(i, k int) {
		for c := range 16 {
			importance[16*i+c], importance[16*k+c] = importance[16*k+c], importance[16*i+c]
		}
	})
	return m, spec, importance
}

func TestWeightedSets(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 12))
	for mode := range uint8(12) {
		for n := range 6 {
			global := float32(0)
			if n == 5 {
				global = float32(math.Exp2(float64(rng.IntN(100) - 60)))
			}
			cols := []uint16{64*BlockNVFP4 - 1, uint16(rng.IntN(600)), uint16(rng.IntN(5120)), 255, 15, uint16(rng.IntN(2000))}[n]
			m, spec, importance := weightedCase(rng.Uint64(), uint16(rng.IntN(3)), cols, mode, global)
			checkWeightedSets(t, m, spec, importance)
		}
	}
}

func FuzzWeightedSets(f *testing.F) {
	for mode := range uint8(12) {
		f.Add(uint64(mode), uint16(mode%3), uint16(mode)*53, mode, float32(0))
	}
	for i, global := range []float32{1e-45, 1e-38, 1e-30, 0x1p-80, 0.001, 1, 127, 129, 0x1p100, 1e30, math.MaxFloat32} {
		f.Add(uint64(i), uint16(1), uint16(300), uint8(i), global)
	}
	f.Fuzz(func(t *testing.T, seed uint64, rows, cols uint16, mode uint8, global float32) {
		m, spec, importance := weightedCase(seed, rows, cols, mode, global)
		checkWeightedSets(t, m, spec, importance)
	})
}

// A run that begins within a tile of factors, since a block before it has an
// element that is not finite, finds its own.
func TestWeightedRunsBeginAnywhere(t *testing.T) {
	for _, bad := range []int{0, 1, 15, 16, 17, 40} {
		m := heavyTailed(2, 70*BlockNVFP4, uint64(bad))
		for r := range m.Rows {
			copy(m.Data[4*(r*m.Cols+bad*BlockNVFP4+3):], []byte{0, 0, 0xc0, 0x7f})
		}
		checkWeightedSets(t, m, Spec{Format: "nvfp4", Method: imatrix}, testImportance(m.Cols))
	}
}

// The search that stops early finds what trying all scales with the same sums
// finds, at the ends of the f32 range too.
func TestWeightedSearchTriesEnough(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 55))
	for trial := range 4000 {
		j := new(nvfp4Job)
		var w, f nvfp4Block
		var amax float32
		for i := range w {
			w[i] = float32(rng.NormFloat64() * math.Exp(1.5*rng.NormFloat64()))
			f[i] = float32(math.Exp2(-20*rng.Float64()*float64(trial%3))) * float32(min(rng.IntN(4), 1))
			amax = max(amax, w[i], -w[i])
		}
		f[rng.IntN(16)] = 1.5
		j.start(F32, Convention(trial%4), nvfp4Search{sweep: true, top: MaxE4M3}, amax*float32(math.Exp2(6*rng.Float64())), 0)
		j.inUnits(&w)
		start := j.scaleCode(j.rawScale(amax))
		best, least := byte(0), float32(math.Inf(1))
		for s := byte(1); s < nanE4M3; s++ {
			if e := j.weightedError(&w, &f, s); e < least {
				best, least = s, e
			}
		}
		if got := j.bestWeighted(&w, &f, start); got != best {
			t.Fatalf("trial %d: scale %d with %v, of all it is %d with %v", trial, got, j.weightedError(&w, &f, got), best, least)
		}
	}
}
