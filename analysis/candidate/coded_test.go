package candidate

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"quantscope/analysis/model"
	"quantscope/kernels"
)

// random is a matrix of f32 elements of widely different sizes.
func random(seed uint64, rows, cols int) kernels.Matrix {
	r := rand.New(rand.NewPCG(seed, 1))
	m := kernels.Matrix{Element: kernels.F32, Rows: rows, Cols: cols, Data: make([]byte, 4*rows*cols)}
	for i := range rows * cols {
		binary.LittleEndian.PutUint32(m.Data[4*i:], math.Float32bits(float32(r.NormFloat64()*math.Exp(r.NormFloat64()))))
	}
	return m
}

// quantized makes codes of a matrix in one piece, as an exporter does.
func quantized(t testing.TB, spec kernels.Spec, m kernels.Matrix) (out kernels.Output, global float32) {
	t.Helper()
	amax, err := kernels.Reference().AbsMax(m)
	if err != nil {
		t.Fatal(err)
	}
	p, err := kernels.Reference().Begin(spec, m.Element, m.Rows, m.Cols, amax)
	if err != nil {
		t.Fatal(err)
	}
	s := p.Sizes(m.Rows)
	out = kernels.Output{Codes: make([]byte, s.Codes), Scales: make([]byte, s.Scales), Mins: make([]byte, s.Mins)}
	if err := p.Rows(m.Data, &out); err != nil {
		t.Fatal(err)
	}
	global = p.Global()
	if _, err := p.Finish(); err != nil {
		t.Fatal(err)
	}
	return out, global
}

// sameBits wants the same values, of a NaN only that it is one.
func sameBits(t testing.TB, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) && (got[i] == got[i] || want[i] == want[i]) {
			t.Fatalf("%s: value %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

// every calls f for each format with each arithmetic that it knows.
func every(f func(spec kernels.Spec)) {
	for _, format := range kernels.Formats() {
		for _, c := range kernels.Conventions(format.Name) {
			spec := kernels.Spec{Format: format.Name, Convention: c}
			if format.Codebook {
				spec.Codebook = 1<<2 | 1<<7 | 1<<10 | 1 // −1, 0, 1, 6
			}
			f(spec)
		}
	}
}

// A panel anywhere in a matrix, of any format and arithmetic, is what decoding
// the whole matrix gives there; so are rows of a part of it.
func TestPanels(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	sets := kernels.Available()
	every(func(spec kernels.Spec) {
		for _, shape := range [][2]int{{1, 1}, {3, 31}, {5, 256}, {130, 300}, {257, 515}, {16, 1024}} {
			rows, cols := shape[0], shape[1]
			out, global := quantized(t, spec, random(uint64(rows), rows, cols))
			want := make([]float32, rows*cols)
			if err := kernels.Reference().Dequantize(want, spec, rows, cols, out.Codes, out.Scales, out.Mins, global); err != nil {
				t.Fatal(err)
			}
			whole, err := newCoded(sets[r.IntN(len(sets))], spec, rows, cols, 0, 0, out.Codes, out.Scales, out.Mins, global)
			if err != nil {
				t.Fatalf("%+v %v: %v", spec, shape, err)
			}
			for try := range 12 {
				c, first, step := whole, 0, 1
				if try%3 == 1 && rows > 2 {
					first, step = r.IntN(2), 1+r.IntN(2)
					if c, err = whole.part((rows-first-1)/step+1, first, step); err != nil {
						t.Fatal(err)
					}
				}
				row0 := r.IntN(c.rows)
				n := 1 + r.IntN(c.rows-row0)
				col0 := kernels.PanelDepth * r.IntN(ceil(cols, kernels.PanelDepth))
				width := min(kernels.PanelDepth, cols-col0)
				got := make([]float32, n*width)
				if err := c.panel(got, row0, n, col0, width); err != nil {
					t.Fatalf("%+v %v: %v", spec, shape, err)
				}
				for i := range n {
					sameBits(t, spec.Format+" "+spec.Convention.String(), got[i*width:][:width], want[(first+(row0+i)*step)*cols+col0:][:width])
				}
			}
			row := make([]float32, 2*cols)
			at := []int32{int32(rows - 1), 0}
			if err := whole.lookup("it", at, row); err != nil {
				t.Fatal(err)
			}
			sameBits(t, "last row", row[:cols], want[(rows-1)*cols:])
			sameBits(t, "first row", row[cols:], want[:cols])
		}
	})
}

// Tiles of sizes that panels do not begin with.
func TestOddTiles(t *testing.T) {
	const rows, cols = 70, 600
	r := rand.New(rand.NewPCG(3, 4))
	codes := make([]byte, rows*cols)
	for i := range codes {
		codes[i] = byte(r.Uint32())
	}
	for _, tile := range [][2]int{{32, 96}, {7, 128}, {128, 48}, {1, 1000}, {3, 1}} {
		scales := make([]byte, 4*ceil(rows, tile[0])*ceil(cols, tile[1]))
		for i := 0; i < len(scales); i += 4 {
			binary.LittleEndian.PutUint32(scales[i:], math.Float32bits(r.Float32()))
		}
		want := make([]float32, rows*cols)
		if err := kernels.DequantizeFP8Tiles(want, kernels.DeepSeek, rows, cols, tile[0], tile[1], codes, scales); err != nil {
			t.Fatal(err)
		}
		c, err := newCoded(kernels.Best(), kernels.Spec{Format: "fp8-block128", Convention: kernels.DeepSeek}, rows, cols, tile[0], tile[1], codes, scales, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for row := range rows {
			got := make([]float32, cols)
			if err := c.row(got, row); err != nil {
				t.Fatal(err)
			}
			sameBits(t, "row", got, want[row*cols:][:cols])
		}
		got := make([]float32, 50*256)
		if err := c.panel(got, 11, 50, 256, 256); err != nil {
			t.Fatal(err)
		}
		for i := range 50 {
			sameBits(t, "panel", got[i*256:][:256], want[(11+i)*cols+256:][:256])
		}
	}
}

// Codes made on the fly, in parts beside each other and from whatever the source
// is stored as, are those of one pass over the matrix, and decode to the same.
func TestQuantizing(t *testing.T) {
	every(func(spec kernels.Spec) {
		for _, shape := range [][2]int{{3, 31}, {300, 515}, {257, 1024}} {
			m := random(7, shape[0], shape[1])
			want, global := quantized(t, spec, m)
			amax, err := kernels.Reference().AbsMax(m)
			if err != nil {
				t.Fatal(err)
			}
			dense := make([]float32, m.Rows*m.Cols)
			if err := kernels.DecodeFloats(dense, kernels.F32, m.Data); err != nil {
				t.Fatal(err)
			}
			for name, operand := range map[string]kernels.Operand{
				"stored": kernels.StoredOperand(m),
				"panels": kernels.PanelOperand(m.Rows, m.Cols, func(dst []float32, row0, rows, col0, cols int) error {
					for r := range rows {
						copy(dst[r*cols:][:cols], dense[(row0+r)*m.Cols+col0:])
					}
					return nil
				}),
			} {
				for _, threads := range []int{1, 3} {
					q := quantizing{set: kernels.Best(), spec: spec, w: model.Weight{Rows: m.Rows, Cols: m.Cols, Operand: operand}, amax: amax, threads: threads}
					c, err := q.run(t.Context(), func(n int) []byte { return make([]byte, n) })
					if err != nil {
						t.Fatalf("%+v: %v", spec, err)
					}
					if string(c.codes) != string(want.Codes) || string(c.scales) != string(want.Scales) || string(c.mins) != string(want.Mins) || c.global != global {
						t.Errorf("%+v %v of %s by %d threads: other codes", spec, shape, name, threads)
					}
				}
			}
		}
	})
}

// What does not fit its format is refused.
func TestCodedRefuses(t *testing.T) {
	spec := kernels.Spec{Format: "nvfp4"}
	for name, bad := range map[string]func() (*coded, error){
		"codes": func() (*coded, error) {
			return newCoded(kernels.Best(), spec, 2, 32, 0, 0, make([]byte, 31), make([]byte, 4), nil, 1)
		},
		"scales": func() (*coded, error) {
			return newCoded(kernels.Best(), spec, 2, 32, 0, 0, make([]byte, 32), make([]byte, 5), nil, 1)
		},
		"format": func() (*coded, error) {
			return newCoded(kernels.Best(), kernels.Spec{Format: "nvfp5"}, 2, 32, 0, 0, nil, nil, nil, 1)
		},
		"part": func() (*coded, error) {
			c, err := newCoded(kernels.Best(), spec, 2, 32, 0, 0, make([]byte, 32), make([]byte, 4), nil, 1)
			if err != nil {
				t.Fatal(err)
			}
			return c.part(2, 1, 1)
		},
	} {
		if _, err := bad(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
