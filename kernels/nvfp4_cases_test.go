package kernels

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// hashF32 is the sha256 of the values as little-endian f32, with every NaN
// written as 0x7FC00000 and every −0 as +0.
func hashF32(x []float32) string {
	raw := make([]byte, 0, 4*len(x))
	for _, v := range x {
		b := math.Float32bits(v)
		switch {
		case v != v:
			b = 0x7fc00000
		case v == 0:
			b = 0
		}
		raw = binary.LittleEndian.AppendUint32(raw, b)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// A matrix of zeros, one with a zero row and a zero block, and one of −0: all
// scales are finite and what is zero decodes to zero.
func TestNVFP4CaseAllZero(t *testing.T) {
	g := golden(t, "cases/zeros.safetensors")
	for _, set := range Available() {
		for _, method := range allMethods {
			for name, x := range g {
				m := x.matrix(t)
				q := quantize(t, set, m, NVFP4Options{Method: method})
				decoded := q.decode(t, ModelOpt)
				checkTap(t, q, decoded)
				for i, v := range decoded {
					if v-v != 0 || binary.LittleEndian.Uint16(x.data[2*i:])&0x7fff == 0 && v != 0 {
						t.Errorf("%s %v %s: element %d decodes to %v", set.Name, method, name, i, v)
					}
				}
				for _, s := range q.Scales {
					if v := E4M3ToF32(s); !(v > 0) {
						t.Errorf("%s %v %s: a scale of %v", set.Name, method, name, v)
					}
				}
				if !(q.GlobalScale > 0 && q.GlobalScale <= math.MaxFloat32) {
					t.Errorf("%s %v %s: global scale %v", set.Name, method, name, q.GlobalScale)
				}
				wantZero := q.tap.Blocks
				if name == "experts.1.down_proj.weight" {
					wantZero = 4 + 1 // row 2 and one block of row 0
				}
				if q.tap.ZeroBlocks != wantZero {
					t.Errorf("%s %v %s: %d zero blocks, want %d", set.Name, method, name, q.tap.ZeroBlocks, wantZero)
				}
				if method != NVFP4RTN || name != "experts.1.down_proj.weight" {
					continue
				}
				const want = "7f93fc33d064428d6168ddf5b482488fdefa9749a54414385b5e7d8cf1a57db8"
				if got := hashF32(decoded); got != want || float64(q.GlobalScale) != 0.0010056268656626344 {
					t.Errorf("%s: decoded values hash to %s, want %s; global scale %v", set.Name, got, want, q.GlobalScale)
				}
			}
		}
	}
}

// ModelOpt's own result for an all-zero tensor is NaN throughout. Ours is
// scale 1 and codes 0.
func TestNVFP4ZeroTensor(t *testing.T) {
	m := need(t, golden(t, "golden/nvfp4_zero_tensor.safetensors"), "w").matrix(t)
	one := F32ToE4M3(1)
	for _, set := range Available() {
		for _, method := range allMethods {
			for _, conv := range []Convention{ModelOpt, ModelOptStatic} {
				q := quantize(t, set, m, NVFP4Options{Method: method, Convention: conv})
				if q.GlobalScale != 1 || !slices.Equal(q.Scales, bytes.Repeat([]byte{one}, len(q.Scales))) || !slices.Equal(q.Codes, make([]byte, len(q.Codes))) {
					t.Errorf("%s %v %v: global %v scales %v codes %v", set.Name, method, conv, q.GlobalScale, q.Scales, q.Codes)
				}
				if cos, rel := q.tap.Cos(), q.tap.RelL2(); cos != 1 || rel != 0 {
					t.Errorf("%s %v %v: cos %v, rel_l2 %v", set.Name, method, conv, cos, rel)
				}
			}
		}
	}
}

// One large value and the rest near 1e-5: 14 of 16 block scales would round to
// 0; they are raised to 2⁻⁹ and counted.
func TestNVFP4CaseScaleUnderflow(t *testing.T) {
	for name, x := range golden(t, "cases/outlier.safetensors") {
		for _, set := range Available() {
			q := quantize(t, set, x.matrix(t), NVFP4Options{})
			decoded := q.decode(t, ModelOpt)
			checkTap(t, q, decoded)
			const want = "e453d0507af4a362b8df57641252ee202a3391f051d344342295553feaba1bf1"
			if got := hashF32(decoded); got != want || float64(q.GlobalScale) != 0.014880952425301075 {
				t.Errorf("%s %s: decoded values hash to %s, want %s; global scale %v", set.Name, name, got, want, q.GlobalScale)
			}
			if q.tap.Blocks != 16 || q.tap.ScaleLow != 14 || q.tap.ScaleHigh != 0 {
				t.Errorf("%s %s: %d of %d block scales clamped low, %d high; want 14 of 16", set.Name, name, q.tap.ScaleLow, q.tap.Blocks, q.tap.ScaleHigh)
			}
		}
	}
}

// Rows of 60: the last block of each row is short and has its own scale.
func TestNVFP4CasePartialBlock(t *testing.T) {
	m := need(t, golden(t, "cases/partial.safetensors"), "model.layers.0.mlp.gate_proj.weight").matrix(t)
	for _, set := range Available() {
		q := quantize(t, set, m, NVFP4Options{})
		const want = "9d4b3dda8aeb9872adac7d303a3fed43e3eabcb450ad7f822db85788cc9a4de4"
		if got := hashF32(q.decode(t, ModelOpt)); got != want || float64(q.GlobalScale) != 0.0088355652987957 {
			t.Errorf("%s: decoded values hash to %s, want %s; global scale %v", set.Name, got, want, q.GlobalScale)
		}
		if q.tap.Blocks != 3*4 || len(q.Codes) != 3*30 {
			t.Errorf("%s: %d blocks, %d bytes", set.Name, q.tap.Blocks, len(q.Codes))
		}
	}
}

var allMethods = []NVFP4Method{NVFP4RTN, NVFP4MSE, NVFP4MSEGE1, NVFP4Sweep, NVFP4FourOverSix}

// Every width to beyond four blocks, every method and convention.
func TestNVFP4EveryWidth(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for cols := range 67 {
		x := make([]float32, 3*cols)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		for _, method := range allMethods {
			for conv := ModelOpt; conv <= CT; conv++ {
				checkAgainstOracle(t, f32Matrix(3, cols, x), NVFP4Options{Method: method, Convention: conv})
			}
		}
	}
	checkAgainstOracle(t, f32Matrix(0, 16, nil), NVFP4Options{})
}

// A short last block is quantized as if it were filled up with zeros, which
// are not counted.
func TestNVFP4Padding(t *testing.T) {
	const rows, cols = 3, 41
	rng := rand.New(rand.NewPCG(3, 2))
	x, padded := make([]float32, rows*cols), make([]float32, rows*48)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
		padded[i/cols*48+i%cols] = x[i]
	}
	for _, set := range Available() {
		for _, method := range allMethods {
			a := quantize(t, set, f32Matrix(rows, cols, x), NVFP4Options{Method: method})
			b := quantize(t, set, f32Matrix(rows, 48, padded), NVFP4Options{Method: method})
			if !bytes.Equal(a.Scales, b.Scales) {
				t.Errorf("%s %v: scales: %s", set.Name, method, firstDiff(a.Scales, b.Scales))
			}
			for r := range rows {
				if got, want := a.Codes[r*21:(r+1)*21], b.Codes[r*24:r*24+21]; !bytes.Equal(got, want) {
					t.Errorf("%s %v: row %d: codes: %s", set.Name, method, r, firstDiff(got, want))
				}
			}
			b.tap.Elements -= rows * 7
			b.tap.Codes[0] -= rows * 7
			b.tap.Errors[0] -= rows * 7
			if a.tap != b.tap {
				t.Errorf("%s %v: the records differ:\n%+v\n%+v", set.Name, method, a.tap, b.tap)
			}
		}
	}
}

// A non-finite element leaves the rest of its block as if it were 0.
func TestNVFP4NonFinite(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	rng := rand.New(rand.NewPCG(3, 3))
	x := make([]float32, 2*40)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	holed, bad := slices.Clone(x), slices.Clone(x)
	for i, v := range map[int]float32{3: nan, 17: inf, 18: -inf, 39: nan, 40: inf} {
		holed[i], bad[i] = 0, v
	}
	for _, set := range Available() {
		for _, method := range allMethods {
			a, b := quantize(t, set, f32Matrix(2, 40, bad), NVFP4Options{Method: method}), quantize(t, set, f32Matrix(2, 40, holed), NVFP4Options{Method: method})
			if !bytes.Equal(a.Codes, b.Codes) || !bytes.Equal(a.Scales, b.Scales) || a.GlobalScale != b.GlobalScale {
				t.Errorf("%s %v: the finite elements were quantized differently", set.Name, method)
			}
			b.tap.NaN, b.tap.Inf = 2, 3
			b.tap.Codes[0] -= 5
			b.tap.Errors[0] -= 5
			if a.tap != b.tap {
				t.Errorf("%s %v: the records differ:\n%+v\n%+v", set.Name, method, a.tap, b.tap)
			}
		}
	}
	all := f32Matrix(1, 3, []float32{nan, inf, nan})
	for _, set := range Available() {
		q := quantize(t, set, all, NVFP4Options{})
		if q.GlobalScale != 1 || q.tap.NaN != 2 || q.tap.Inf != 1 || q.tap.ZeroBlocks != 1 || q.tap.SumW2 != 0 {
			t.Errorf("%s: nothing finite gives %+v", set.Name, q.tap)
		}
	}
}

func TestFirstNonFinite(t *testing.T) {
	x := make([]float32, 4*5)
	if _, _, _, ok := FirstNonFinite(f32Matrix(4, 5, x)); ok {
		t.Error("found something among zeros")
	}
	x[13], x[17] = float32(math.Inf(-1)), float32(math.NaN())
	for _, e := range []Element{BF16, F16, F32} {
		m := Matrix{Element: e, Rows: 4, Cols: 5, Data: make([]byte, 20*e.Size())}
		if err := EncodeFloats(m.Data, e, x); err != nil {
			t.Fatal(err)
		}
		if r, c, isNaN, ok := FirstNonFinite(m); r != 2 || c != 3 || isNaN || !ok {
			t.Errorf("%v: row %d, column %d, NaN %v, %v", e, r, c, isNaN, ok)
		}
		clear(m.Data[:14*e.Size()])
		if r, c, isNaN, ok := FirstNonFinite(m); r != 3 || c != 2 || !isNaN || !ok {
			t.Errorf("%v: row %d, column %d, NaN %v, %v", e, r, c, isNaN, ok)
		}
	}
	if _, _, _, ok := FirstNonFinite(Matrix{Element: F32, Rows: 2, Cols: 2}); ok {
		t.Error("found something in a matrix without data")
	}
}

func TestNVFP4Refuses(t *testing.T) {
	m := f32Matrix(2, 20, make([]float32, 40))
	nan := float32(math.NaN())
	for name, c := range map[string]struct {
		m    Matrix
		o    NVFP4Options
		out  *NVFP4Output
		want error
	}{
		"unknown element":    {Matrix{Element: 77, Rows: 1, Cols: 1, Data: make([]byte, 4)}, NVFP4Options{}, nil, ErrUnsupported},
		"short data":         {Matrix{Element: F32, Rows: 2, Cols: 20, Data: m.Data[1:]}, NVFP4Options{}, nil, ErrShape},
		"negative rows":      {Matrix{Element: F32, Rows: -2, Cols: -20, Data: m.Data}, NVFP4Options{}, nil, ErrShape},
		"overflow":           {Matrix{Element: F32, Rows: math.MaxInt/2 + 1, Cols: 4, Data: nil}, NVFP4Options{}, nil, ErrShape},
		"unknown method":     {m, NVFP4Options{Method: 99}, nil, ErrUnsupported},
		"unknown convention": {m, NVFP4Options{Convention: 9}, nil, ErrUnsupported},
		"negative global":    {m, NVFP4Options{GlobalScale: -1}, nil, ErrRange},
		"NaN global":         {m, NVFP4Options{GlobalScale: nan}, nil, ErrRange},
		"infinite global":    {m, NVFP4Options{GlobalScale: float32(math.Inf(1))}, nil, ErrRange},
		"huge global":        {m, NVFP4Options{GlobalScale: 1e36}, nil, ErrRange},
		"tiny reciprocal":    {m, NVFP4Options{GlobalScale: 1e-36, Convention: CT32}, nil, ErrRange},
		"codes":              {m, NVFP4Options{}, &NVFP4Output{Codes: make([]byte, 19)}, ErrShape},
		"scales":             {m, NVFP4Options{}, &NVFP4Output{Scales: make([]byte, 5)}, ErrShape},
		"row errors":         {m, NVFP4Options{}, &NVFP4Output{RowE2: make([]float64, 1)}, ErrShape},
		"row norms":          {m, NVFP4Options{}, &NVFP4Output{RowW2: make([]float64, 3)}, ErrShape},
	} {
		if _, err := Reference().NVFP4(c.m, c.o, c.out); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, err := (Set{}).NVFP4(m, NVFP4Options{}, nil); err != nil {
		t.Errorf("the zero Set: %v", err)
	}
	if _, err := Reference().NVFP4(Matrix{Element: F32, Rows: math.MaxInt, Cols: 0}, NVFP4Options{}, nil); err != nil {
		t.Errorf("rows without columns: %v", err)
	}
	for name, err := range map[string]error{
		"elements":   DequantizeNVFP4(make([]float32, 3), make([]byte, 2), make([]byte, 1), 1, ModelOpt, 1, 4),
		"codes":      DequantizeNVFP4(make([]float32, 4), make([]byte, 3), make([]byte, 1), 1, ModelOpt, 1, 4),
		"scales":     DequantizeNVFP4(make([]float32, 4), make([]byte, 2), make([]byte, 2), 1, ModelOpt, 1, 4),
		"negative":   DequantizeNVFP4(nil, nil, nil, 1, ModelOpt, -1, 0),
		"convention": DequantizeNVFP4(nil, nil, nil, 1, 7, 0, 0),
	} {
		if err == nil {
			t.Errorf("decoding accepted wrong %s", name)
		}
	}
}

// Nothing that grows with the matrix is allocated, and a job that was used
// before leaves no trace.
func TestNVFP4Reuse(t *testing.T) {
	m, small := gaussianBF16(64, 4096, 5), gaussianBF16(2, 40, 6)
	for _, set := range Available() {
		for _, method := range allMethods {
			o := NVFP4Options{Method: method}
			want, err := set.NVFP4(small, o, nil)
			if err != nil {
				t.Fatal(err)
			}
			allocs := testing.AllocsPerRun(3, func() {
				if _, err := set.NVFP4(m, o, nil); err != nil {
					t.Error(err)
				}
			})
			if allocs > 2 {
				t.Errorf("%s %v: %v allocations a call", set.Name, method, allocs)
			}
			if got, err := set.NVFP4(small, o, nil); err != nil || got != want {
				t.Errorf("%s %v: another record after another matrix (%v)", set.Name, method, err)
			}
		}
	}
}

func TestNVFP4Concurrent(t *testing.T) {
	m := gaussianBF16(16, 256, 9)
	for _, set := range Available() {
		want := quantize(t, set, m, NVFP4Options{Method: NVFP4MSE})
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 20 {
					out := newOutput(m)
					tap, err := set.NVFP4(m, NVFP4Options{Method: NVFP4MSE}, &out)
					if err != nil || tap != want.tap || !bytes.Equal(out.Codes, want.Codes) || !bytes.Equal(out.Scales, want.Scales) {
						t.Errorf("%s: another result (%v)", set.Name, err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
}
