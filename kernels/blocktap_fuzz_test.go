package kernels

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
)

// measureBlocks runs a pass that writes nothing.
func measureBlocks(t testing.TB, set Set, m Matrix, spec Spec) Tap {
	t.Helper()
	amax := float32(0)
	if spec.NeedsAmax() {
		var err error
		if amax, err = set.AbsMax(m); err != nil {
			t.Fatal(err)
		}
	}
	p := beginTest(t, set, m, spec, amax)
	if err := p.Rows(m.Data, nil); err != nil {
		t.Fatal(err)
	}
	tap, err := p.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return tap
}

// checkBlockSets holds every set against the reference, chunks against the whole,
// and the record against plain loops over what is decoded.
func checkBlockSets(t *testing.T, m Matrix, spec Spec) {
	t.Helper()
	before := bytes.Clone(m.Data)
	want := quantizeBlocks(t, Reference(), m, spec, 0)
	decoded := want.decode(t, spec, m)
	for i, v := range decoded {
		if v-v != 0 {
			t.Fatalf("%s: element %d decodes to %v", specName(spec), i, v)
		}
	}
	checkScales(t, specName(spec), spec, want.Scales)
	checkBlockTap(t, m, spec, &want, decoded)
	chunk := 1
	if spec.Format == "fp8-block128" {
		chunk = 128
	}
	for _, set := range Available() {
		for _, rows := range []int{0, chunk} {
			got := quantizeBlocks(t, set, m, spec, rows)
			name := set.Name + " " + specName(spec)
			equalBits(t, name+" codes", got.Codes, want.Codes)
			equalBits(t, name+" scales", got.Scales, want.Scales)
			equalBits(t, name+" minima", got.Mins, want.Mins)
			if got.global != want.global {
				t.Errorf("%s: tensor scale %v, want %v", name, got.global, want.global)
			}
			for r := range want.RowE2 {
				if got.RowE2[r] != want.RowE2[r] || got.RowW2[r] != want.RowW2[r] {
					t.Errorf("%s: row %d: %v of %v, want %v of %v", name, r, got.RowE2[r], got.RowW2[r], want.RowE2[r], want.RowW2[r])
				}
			}
			if got.tap != want.tap {
				t.Errorf("%s, %d rows at a time: the record differs from the reference's\n%+v\n%+v", name, rows, got.tap, want.tap)
			}
		}
		if tap := measureBlocks(t, set, m, spec); tap != want.tap {
			t.Errorf("%s %s: measuring alone gives another record", set.Name, specName(spec))
		}
	}
	if !bytes.Equal(m.Data, before) {
		t.Error("the source was written to")
	}
}

// blockMatrix turns bytes into a matrix.
func blockMatrix(raw []byte, cols uint16, element uint8) Matrix {
	m := Matrix{Element: []Element{BF16, F16, F32}[element%3], Cols: int(cols)%300 + 1}
	rowBytes := m.Cols * m.Element.Size()
	m.Rows = min(len(raw)/rowBytes, 140)
	m.Data = raw[:m.Rows*rowBytes]
	return m
}

// elementsOf are random elements of a type, by seed tame, wild or with NaN and
// infinities.
func elementsOf(e Element, seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 5))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(0.02 * rng.NormFloat64())
		switch {
		case seed%4 == 1:
			x[i] = float32(math.Abs(float64(x[i])))
		case seed%4 == 2:
			x[i] *= float32(math.Exp2(float64(rng.IntN(200) - 100)))
		case seed%4 == 3 && rng.IntN(30) == 0:
			x[i] = []float32{0, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), math.MaxFloat32, -math.MaxFloat32, 0x1p-149, 0x1p-126}[rng.IntN(8)]
		}
	}
	raw := make([]byte, n*e.Size())
	if err := EncodeFloats(raw, e, x); err != nil {
		panic(err)
	}
	return raw
}

func FuzzBlocks(f *testing.F) {
	specs := blockSpecs()
	for s := range specs {
		for i, cols := range []uint16{127, 59, 255, 63, 31, 16, 298, 0} {
			f.Add(elementsOf([]Element{BF16, F16, F32}[(s+i)%3], uint64(s+3*i), int(cols+1)*3), cols, uint8((s+i)%3), uint8(s))
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte, cols uint16, element, spec uint8) {
		checkBlockSets(t, blockMatrix(raw, cols, element), specs[int(spec)%len(specs)])
	})
}

// Shapes at the ends: no rows, no columns, one element, more rows than a tile,
// rows that are taken in several parts, and rows of one group that is longer.
func TestBlockShapes(t *testing.T) {
	for _, spec := range blockSpecs() {
		for _, shape := range [][2]int{{0, 64}, {3, 0}, {0, 0}, {1, 1}, {2, 15}, {130, 129}, {257, 16}, {2, 2048 + 130}, {1, 4200}} {
			e := []Element{BF16, F16, F32}[(shape[0]+shape[1])%3]
			m := Matrix{Element: e, Rows: shape[0], Cols: shape[1], Data: elementsOf(e, uint64(shape[1]), shape[0]*shape[1])}
			checkBlockSets(t, m, spec)
		}
	}
}

// Nothing finite, and magnitudes at both ends of f32.
func TestBlockExtremes(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, spec := range blockSpecs() {
		for _, x := range [][]float32{
			{nan}, {inf, -inf, nan}, {nan, 0, 1}, {inf, -0.5, 2}, {math.MaxFloat32}, {-math.MaxFloat32}, {math.MaxFloat32, -math.MaxFloat32, 1},
			{0x1p-149}, {-0x1p-149, 0x1p-149}, {0x1p-126, 0x1p-130}, {0x1.fep127, -0x1.fep127}, {0x1.ff8p127, 0x1.ff0p127}, {3e38, 3.1e38}, {-3e38, -2e38}, {7, 7, 7}, {-7, -7},
			{0x1p126, 0x1.8p126}, {0x1.8000002p127, 1}, {0x1.cp127}, {1e-44, 1e38},
		} {
			row := append(make([]float32, 0, 48), x...)
			for len(row) < 48 {
				row = append(row, x[len(row)%len(x)])
			}
			checkBlockSets(t, f32Matrix(1, len(row), row), spec)
			checkBlockSets(t, f32Matrix(1, len(x), x), spec)
		}
	}
}
