package kernels

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// wildMatrix draws a matrix whose blocks are each of a kind of their own: normal
// weights of any size, values on and beside the ties of E2M1, equal values, zeros of
// both signs, subnormal numbers, the ends of the range, and now and then an
// element that is not finite. Its data begin at an odd address.
func wildMatrix(rng *rand.Rand, e Element, rows, cols int) Matrix {
	base := math.Exp2(float64(rng.IntN(60) - 40))
	if e == F16 {
		base = math.Exp2(float64(rng.IntN(16) - 10))
	}
	spread, finite := rng.IntN(12)+1, rng.IntN(4) > 0
	ties := []float64{0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6}
	x := make([]float32, rows*cols)
	for r := range rows {
		row := x[r*cols : (r+1)*cols]
		for len(row) > 0 {
			block := row[:min(len(row), BlockNVFP4)]
			row = row[len(block):]
			size := base * math.Exp2(float64(-rng.IntN(spread)))
			kind := rng.IntN(24)
			for i := range block {
				v := size * rng.NormFloat64()
				switch kind {
				case 0: // ties, and one unit beside them; the largest element is 6
					v = size * ties[rng.IntN(len(ties))]
					if i == 0 {
						v = 6 * size
					}
					if f := float32(v); rng.IntN(3) == 0 {
						v = float64(math.Nextafter32(f, 2*f))
					} else if rng.IntN(3) == 0 {
						v = float64(math.Nextafter32(f, 0))
					}
				case 1:
					v = size
				case 2:
					v = math.Copysign(0, v)
				case 3:
					if i != 5 {
						v = math.Copysign(0, v)
					}
				case 4:
					v = 0x1p-149 * float64(rng.IntN(100))
				case 5:
					v *= math.Exp2(float64(-rng.IntN(140)))
				case 6:
					if i == 11 {
						v *= 1e4
					}
				case 7: // several near the largest, so that more than one is clipped
					v = size * (1 - float64(rng.IntN(8))/100)
				case 8:
					v = math.MaxFloat32 * rng.Float64()
					if e == F16 {
						v = 65504 * rng.Float64()
					}
					if rng.IntN(300) > 0 { // too large for most matrices
						v = size
					}
				case 9:
					if special := []float64{math.NaN(), math.Inf(1), math.Inf(-1)}; !finite && rng.IntN(8) == 0 {
						v = special[rng.IntN(3)]
					}
				}
				if rng.IntN(2) == 0 {
					v = -v
				}
				block[i] = float32(v)
			}
		}
	}
	m := Matrix{Element: e, Rows: rows, Cols: cols}
	m.Data = make([]byte, rows*cols*e.Size()+1)[1:]
	if err := EncodeFloats(m.Data, e, x); err != nil {
		panic(err)
	}
	return m
}

// checkSets quantizes with every set, at addresses offset bytes off, and wants
// what the reference gives: every byte, every sum and every count.
func checkSets(t *testing.T, m Matrix, o NVFP4Options, offset int) {
	t.Helper()
	want := newOutput(m)
	want.RowE2, want.RowW2 = make([]float64, m.Rows), make([]float64, m.Rows)
	tap, err := Reference().NVFP4(m, o, &want)
	if err != nil {
		if o.GlobalScale == 0 {
			t.Fatal(err)
		}
		return
	}
	before := bytes.Clone(m.Data)
	for _, set := range Available()[1:] {
		out := NVFP4Output{RowE2: make([]float64, m.Rows), RowW2: make([]float64, m.Rows)}
		codes, codesIntact := guarded(len(want.Codes) + offset)
		scales, scalesIntact := guarded(len(want.Scales) + offset)
		lead := slices.Concat(codes[:offset], scales[:offset])
		out.Codes, out.Scales = codes[offset:], scales[offset:]
		got, err := set.NVFP4(m, o, &out)
		name := set.Name + " " + o.Convention.String() + " " + o.Method.String()
		switch {
		case err != nil:
			t.Fatal(name, err)
		case !codesIntact() || !scalesIntact() || !bytes.Equal(m.Data, before) ||
			!bytes.Equal(lead, slices.Concat(codes[:offset], scales[:offset])):
			t.Fatalf("%s wrote outside of its output", name)
		case out.GlobalScale != want.GlobalScale:
			t.Fatalf("%s: global scale %v, want %v", name, out.GlobalScale, want.GlobalScale)
		case !bytes.Equal(out.Scales, want.Scales):
			t.Fatalf("%s: scales: %s", name, firstDiff(out.Scales, want.Scales))
		case !bytes.Equal(out.Codes, want.Codes):
			t.Fatalf("%s: codes: %s", name, firstDiff(out.Codes, want.Codes))
		case !slices.Equal(out.RowE2, want.RowE2) || !slices.Equal(out.RowW2, want.RowW2):
			t.Fatalf("%s: rows %v of %v, want %v of %v", name, out.RowE2, out.RowW2, want.RowE2, want.RowW2)
		case got != tap:
			t.Fatalf("%s: the record differs from the reference's\n%+v\n%+v", name, got, tap)
		}
	}
}

// setsCase makes a matrix and options of a few numbers.
func setsCase(seed uint64, rows, cols uint16, mode uint8, global float32) (Matrix, NVFP4Options) {
	e := []Element{BF16, F16, F32}[mode%3]
	o := NVFP4Options{Convention: Convention(mode / 3 % 4), Method: NVFP4Method(mode / 12 % 5)}
	if global > 0 && global <= math.MaxFloat32 {
		o.GlobalScale = global
	}
	return wildMatrix(rand.New(rand.NewPCG(seed, 3)), e, int(rows)%4+1, int(cols)%(5*nvfp4Chunk*BlockNVFP4/4)+1), o
}

// Every set gives the same bits, for whole groups of blocks and what is left of
// them, whatever they hold.
func TestNVFP4Sets(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for mode := range uint8(60) {
		for n := range 6 {
			global := float32(0)
			if n == 5 {
				global = float32(math.Exp2(float64(rng.IntN(100) - 60)))
			}
			cols := []uint16{64*BlockNVFP4 - 1, uint16(rng.IntN(600)), uint16(rng.IntN(5120)), 255, 15, uint16(rng.IntN(2000))}[n]
			m, o := setsCase(rng.Uint64(), uint16(rng.IntN(3)), cols, mode, global)
			checkSets(t, m, o, rng.IntN(64))
			if t.Failed() {
				return
			}
		}
	}
}

func FuzzNVFP4Sets(f *testing.F) {
	for mode := range uint8(60) {
		f.Add(uint64(mode), uint16(mode%3), uint16(mode)*53, mode, float32(0))
	}
	for i, global := range []float32{1e-45, 1e-38, 1e-30, 0x1p-80, 0.001, 1, 127, 129, 0x1p100, 1e30, math.MaxFloat32} {
		f.Add(uint64(i), uint16(1), uint16(300), uint8(i), global)
	}
	f.Fuzz(func(t *testing.T, seed uint64, rows, cols uint16, mode uint8, global float32) {
		m, o := setsCase(seed, rows, cols, mode, global)
		checkSets(t, m, o, int(seed%64))
	})
}

// Every set finds the largest magnitude wherever it stands.
func TestAbsMaxEverywhere(t *testing.T) {
	for _, set := range Available() {
		for _, e := range []Element{BF16, F16, F32} {
			for _, n := range []int{0, 1, 15, 127, 128, 129, 300, 513} {
				data := make([]byte, n*e.Size())
				for i := range n {
					clear(data)
					bits := uint32(0x8001) // negative: the smallest subnormal of 16 bits
					if e == F32 {
						binary.LittleEndian.PutUint32(data[4*i:], 0x80000001)
					} else {
						binary.LittleEndian.PutUint16(data[2*i:], uint16(bits))
					}
					want := absMaxRef(e, data)
					if got := set.absMax(e, data); got != want || want == 0 {
						t.Fatalf("%s %v: element %d of %d: %#x, want %#x", set.Name, e, i, n, got, want)
					}
				}
			}
		}
	}
}

// 5 steps are a tie and off by a whole step, the only error of that size without
// clipping: kernels that take a run for tame must notice. The first run makes errors of
// all later ones smaller than the largest so far.
func TestNVFP4WholeStepErrors(t *testing.T) {
	const blocks = 3*nvfp4Chunk + 7
	for _, e := range []Element{BF16, F16, F32} {
		x := make([]float32, 2*blocks*BlockNVFP4)
		fives := int64(0)
		for i := range x {
			x[i] = []float32{6, -1, 4.5, 0.25}[i%4] / 4
			if i < BlockNVFP4 {
				x[i] *= 8
			}
			if i/BlockNVFP4 > nvfp4Chunk && i%37 == 0 && i%BlockNVFP4 != 0 {
				x[i] = 5. / 4
				fives++
			}
		}
		data := make([]byte, len(x)*e.Size())
		if err := EncodeFloats(data, e, x); err != nil {
			t.Fatal(err)
		}
		m := Matrix{Element: e, Rows: 2, Cols: len(x) / 2, Data: data}
		o := NVFP4Options{GlobalScale: 0x1p-6}
		checkSets(t, m, o, 0)
		tap, err := Reference().NVFP4(m, o, nil)
		if err != nil || tap.Errors[ErrorBins-1] != fives || fives == 0 {
			t.Errorf("%v: %d errors of a step, want %d (%v)", e, tap.Errors[ErrorBins-1], fives, err)
		}
	}
}

// At the ends of what kernels take: small elements that leave no exact rest,
// quotients that round to 0, to infinity and to subnormal numbers.
func TestNVFP4SetsAtTheEnds(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	for _, e := range []Element{BF16, F16, F32} {
		for _, global := range []float32{0x1p-80, 0x1.9p-79, 0x1.fp-70, 0x1.1p-20, 0x1.7p6, 0x1.3p20, 0x1.5p99, 0x1p100} {
			x := make([]float32, 40*BlockNVFP4)
			for i := range x {
				exponent := rng.IntN(278) - 149
				if i%3 == 0 { // about 2⁻¹⁵⁰ steps, or what is least
					exponent = max(-149, math.Ilogb(float64(global))-150+rng.IntN(20)-10)
				}
				x[i] = float32(math.Ldexp(1+rng.Float64(), exponent))
				if i%BlockNVFP4 == 0 {
					x[i] = global * float32(math.Exp2(float64(rng.IntN(12))))
				}
				if rng.IntN(2) == 0 {
					x[i] = -x[i]
				}
			}
			m := Matrix{Element: e, Rows: 2, Cols: len(x) / 2, Data: make([]byte, len(x)*e.Size())}
			if err := EncodeFloats(m.Data, e, x); err != nil {
				t.Fatal(err)
			}
			for conv := ModelOpt; conv <= CT; conv++ {
				stored := global
				if conv == CT || conv == CT32 {
					stored = 1 / global
				}
				checkSets(t, m, NVFP4Options{Convention: conv, GlobalScale: stored}, 0)
			}
		}
	}
}

// Weights as checkpoints have them, where most runs are calm.
func TestNVFP4SetsOfWeights(t *testing.T) {
	for seed := range uint64(3) {
		m := gaussianBF16(12, 2*nvfp4Chunk*BlockNVFP4+48, seed)
		for conv := ModelOpt; conv <= CT; conv++ {
			for _, method := range []NVFP4Method{NVFP4RTN, NVFP4MSE} {
				checkSets(t, m, NVFP4Options{Convention: conv, Method: method}, int(seed))
			}
		}
	}
}
