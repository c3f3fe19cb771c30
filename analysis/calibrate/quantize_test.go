package calibrate

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/codes"
)

func TestSpreadOfRows(t *testing.T) {
	for _, c := range []struct{ rows, n, want int }{
		{128, 128, 0}, {4096, 256, 0}, {4097, 256, 4096}, {2048, 2048, 128}, {100, 1 << 20, 0}, {0, 10, 0}, {5, 0, 0}, {1 << 20, 1 << 30, 128}, {1 << 30, 1, 1 << 28},
	} {
		if c.want > 1<<20 { // the list is too long to look at, and is not made here
			continue
		}
		got := spread(c.rows, c.n)
		if len(got) != c.want {
			t.Errorf("%d×%d: %d rows, want %d", c.rows, c.n, len(got), c.want)
			continue
		}
		if c.want == 0 {
			continue
		}
		least, most := c.rows, 0
		for i := 1; i < len(got); i++ {
			least, most = min(least, got[i]-got[i-1]), max(most, got[i]-got[i-1])
		}
		if got[0] != 0 || got[len(got)-1] >= c.rows || least < 1 || most-least > 1 || got[len(got)-1]+most+1 < c.rows {
			t.Errorf("%d×%d: from %d to %d, %d to %d apart", c.rows, c.n, got[0], got[len(got)-1], least, most)
		}
	}
}

func TestChanged(t *testing.T) {
	base := func() *codes.Matrix {
		return &codes.Matrix{Codes: []byte{0x21, 0x43, 0x65}, Scales: []byte{1, 2, 3, 4}, Mins: []byte{5, 6}, Global: 1}
	}
	for _, c := range []struct {
		scheme string
		change func(*codes.Matrix)
		want   int64
	}{
		{"int4-g128", func(*codes.Matrix) {}, 0},
		{"int4-g128", func(m *codes.Matrix) { m.Codes[0] = 0x31 }, 1},
		{"int4-g128", func(m *codes.Matrix) { m.Codes[0], m.Codes[2] = 0x12, 0x64 }, 3},
		{"int4-g128", func(m *codes.Matrix) { m.Scales[0], m.Scales[1] = 9, 9 }, 1},
		{"int4-g128", func(m *codes.Matrix) { m.Scales[1], m.Scales[2], m.Mins[0] = 9, 9, 9 }, 3},
		{"nvfp4", func(m *codes.Matrix) { m.Scales[0], m.Scales[1], m.Global = 9, 9, 2 }, 3},
	} {
		b := base()
		c.change(b)
		if got, err := changed(c.scheme, base(), b); err != nil || got != c.want {
			t.Errorf("%s: %d changed, want %d (%v)", c.scheme, got, c.want, err)
		}
	}
	// Two bits are compared by their values: index 2 of −4 −1 1 4 is 1, of −4 −1 0.5 4 it is
	// 0.5, and the others are the same.
	book := func(mask uint16, packed ...byte) *codes.Matrix {
		return &codes.Matrix{Rows: 2, Cols: 5, Codes: packed, Scales: []byte{1, 2}, Codebook: mask}
	}
	const one, half = 1<<2 | 1<<6 | 1<<10 | 1<<14, 1<<1 | 1<<6 | 1<<10 | 1<<14
	for i, c := range []struct {
		a, b *codes.Matrix
		want int64
	}{
		{book(one, 0xe4, 2, 0x1b, 0), book(one, 0xe4, 2, 0x1b, 0), 0},
		{book(one, 0xe4, 2, 0x1b, 0), book(one, 0xe4, 2, 0x18, 3), 2},
		{book(one, 0xe4, 2, 0x1b, 0), book(half, 0xe4, 2, 0x1b, 0), 3},
		{book(one, 0x44, 1, 0x10, 0), book(half, 0x44, 1, 0x10, 0), 0},
	} {
		if got, err := changed("code2", c.a, c.b); err != nil || got != c.want {
			t.Errorf("two bits, %d: %d changed, want %d (%v)", i, got, c.want, err)
		}
	}
	if _, err := changed("code2", book(one, 0xe4, 2, 0x1b, 0), book(0, 0xe4, 2, 0x1b, 0)); !errors.Is(err, kernels.ErrNeedsCodebook) {
		t.Errorf("without a codebook: %v", err)
	}
	short := base()
	short.Mins = nil
	if _, err := changed("int4-g128", base(), short); err == nil {
		t.Error("fields of two lengths are compared")
	}
}

// diagonalError is OutputError of a Hessian that is its diagonal.
func TestDiagonalError(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const rows, n = 7, 300
	matrix := func() []float32 {
		x := make([]float32, rows*n)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return x
	}
	sum2, h := make([]float64, n), kernels.Dense{Rows: n, Cols: n, Stride: n, Data: make([]float32, n*n)}
	for c := range sum2 {
		h.Data[c*n+c] = float32(rng.ExpFloat64())
		sum2[c] = float64(h.Data[c*n+c])
	}
	w, q := matrix(), matrix()
	dense := func(x []float32) kernels.Operand {
		return kernels.DenseOperand(kernels.Dense{Rows: rows, Cols: n, Stride: n, Data: x})
	}
	for _, some := range [][]int{nil, {0, 3, 6}, {}} {
		e2, w2, err := diagonalError(kernels.Best(), sum2, dense(w), dense(q), some)
		wantE, wantW, wantErr := kernels.Reference().OutputError(h, dense(w), dense(q), some, 1)
		if err != nil || wantErr != nil || math.Abs(e2-wantE) > 1e-6*wantE || math.Abs(w2-wantW) > 1e-6*wantW {
			t.Errorf("rows %v: %v and %v, want %v and %v (%v, %v)", some, e2, w2, wantE, wantW, err, wantErr)
		}
	}
	w[5] = float32(math.NaN())
	if e2, w2, err := diagonalError(kernels.Best(), sum2, dense(w), dense(q), nil); err != nil || math.IsNaN(e2) || math.IsNaN(w2) {
		t.Errorf("a weight that is no number: %v, %v, %v", e2, w2, err)
	}
	if _, _, err := diagonalError(kernels.Best(), sum2[1:], dense(w), dense(q), nil); err == nil {
		t.Error("moments of too few columns are taken")
	}
}

func TestFalling(t *testing.T) {
	h := kernels.Dense{Rows: 5, Cols: 5, Stride: 5, Data: make([]float32, 25)}
	for i, v := range []float32{2, 5, 2, 0, 5} {
		h.Data[6*i] = v
	}
	if got := falling(h); !slices.Equal(got, []int{1, 4, 0, 2, 3}) {
		t.Errorf("%v", got)
	}
}

func TestFloat(t *testing.T) {
	for _, c := range []struct {
		v    float64
		text string
	}{{0.25, "0.25"}, {math.NaN(), `"NaN"`}, {math.Inf(1), `"Infinity"`}, {math.Inf(-1), `"-Infinity"`}, {math.Copysign(0, -1), "-0"}} {
		b, err := json.Marshal(Float(c.v))
		if err != nil || string(b) != c.text {
			t.Errorf("%v: %s, %v", c.v, b, err)
		}
		var back Float
		if err := json.Unmarshal(b, &back); err != nil || math.Float64bits(float64(back)) != math.Float64bits(c.v) && !math.IsNaN(c.v) || math.IsNaN(c.v) != math.IsNaN(float64(back)) {
			t.Errorf("%s: %v, %v", b, back, err)
		}
	}
	for _, bad := range []string{`"nan"`, `true`, `{}`, `"1"`} {
		if json.Unmarshal([]byte(bad), new(Float)) == nil {
			t.Errorf("%s is a figure", bad)
		}
	}
}

// A record with a figure that JSON has no number for is left out, and what is read
// back computes it anew.
func TestSignOfAbsurdWeights(t *testing.T) {
	m := &made{tap: kernels.Tap{SumE2: math.Inf(1)}, trade: Trade{Effective: "x", Cond: undefined, Rel2: undefined, Out2: undefined, BaseRel2: undefined, BaseOut2: undefined, DampShare: undefined}}
	if _, err := m.sign(&target{name: "a"}, 2, 3); err != nil {
		t.Fatal(err)
	}
	var f figures
	if err := json.Unmarshal(m.codes.Figures, &f); err != nil || f.Tap != nil || f.Effective != "x" {
		t.Errorf("%s, %v", m.codes.Figures, err)
	}
	m.tap.SumE2 = 1.5
	if _, err := m.sign(&target{name: "a"}, 2, 3); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(m.codes.Figures, &f); err != nil || f.Tap == nil || f.Tap.SumE2 != 1.5 {
		t.Errorf("%s, %v", m.codes.Figures, err)
	}
}
