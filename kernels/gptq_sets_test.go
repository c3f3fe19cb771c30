package kernels

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// gptqRun is all that a run leaves.
type gptqRun struct {
	out    *Output
	result GPTQResult
}

func (r gptqRun) equal(o gptqRun) bool {
	return slices.Equal(r.out.Codes, o.out.Codes) && slices.Equal(r.out.Scales, o.out.Scales) && slices.Equal(r.out.Mins, o.out.Mins) &&
		slices.Equal(r.out.RowE2, o.out.RowE2) && slices.Equal(r.out.RowW2, o.out.RowW2) && r.result == o.result
}

// hostile puts what is not finite, huge, tiny and zero into weights.
func hostile(rng *rand.Rand, w []float32) {
	for range len(w)/16 + 1 {
		i := rng.IntN(len(w))
		w[i] = []float32{
			float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 0, float32(math.Copysign(0, -1)), 1e-40, -3e38, 3e38, 1e20, 1e-20,
		}[rng.IntN(10)]
	}
}

// Every set and any number of threads give the bits of the reference, record
// and output error included: all rules, ragged strips and blocks, weights that are not
// finite or huge.
func TestGPTQBits(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	for trial, shape := range [][2]int{{1, 1}, {3, 17}, {gptqStrip + 21, 40}, {19, 268}, {8, 129}, {2*gptqStrip + 1, 16}} {
		c := correlated(rng, shape[0], shape[1], shape[1]+9)
		if trial%2 == 1 {
			hostile(rng, c.w)
		}
		static := trial%3 == 2
		var o FactorOptions
		if static {
			o.Order = byDiagonal(c.h)
		}
		factors := make([]*Factor, len(Available()))
		for i, s := range Available() {
			f, err := s.Factorize(c.h, o)
			if err != nil {
				t.Fatal(err)
			}
			factors[i] = f
		}
		for _, spec := range gptqSpecs() {
			if spec.Method != "" && spec.Method != Methods(spec.Format)[0] && (trial != 3 || spec.Convention != Conventions(spec.Format)[0]) {
				continue // searches are tested elsewhere
			}
			spec = c.complete(t, spec)
			var want gptqRun
			for i, s := range Available() {
				some := []int{1, 2, 3, 4}
				if i == 0 {
					some = []int{2}
				}
				for _, threads := range some {
					var got gptqRun
					got.out, _, got.result = runGPTQ(t, s, c, factors[i], GPTQOptions{Spec: spec, Static: static, Importance: importanceOf(spec, c.h), Threads: threads})
					switch {
					case want.out == nil:
						want = got
						again, err := s.TapOf(spec, c.operand(), got.out, got.result.Global, 1)
						if err != nil || again.SumE2 != got.result.Tap.SumE2 || again.Codes != got.result.Tap.Codes || again.Elements != int64(c.rows*c.cols) {
							t.Fatalf("%v of %d×%d: %v, or a record of other codes", spec, c.rows, c.cols, err)
						}
					case !got.equal(want):
						t.Fatalf("%s, %d threads: %v of %d×%d: other bits", s.Name, threads, spec, c.rows, c.cols)
					}
				}
			}
		}
	}
}

// What a Pass leaves has that Pass's record, for every format, convention and
// method, in all that does not come from the search: also where the source is bf16 or comes
// in panels, and where elements are not finite.
func TestTapOfAPass(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	c := correlated(rng, 261, 150, 1)
	hostile(rng, c.w[:2000])
	for i := range c.w { // 3e38 would leave nothing else to see
		if x := math.Abs(float64(c.w[i])); x > 1e10 && x < 1e39 {
			c.w[i] = 2
		}
	}
	clear(c.w[150*40 : 150*44])
	m := c.matrix()
	half := Matrix{Element: BF16, Rows: m.Rows, Cols: m.Cols, Data: make([]byte, len(m.Data)/2)}
	if err := EncodeFloats(half.Data, BF16, c.w); err != nil {
		t.Fatal(err)
	}
	specs := gptqSpecs()
	for _, f := range []string{"fp8", "fp8-channel", "fp8-block128"} {
		for _, conv := range Conventions(f) {
			specs = append(specs, Spec{Format: f, Convention: conv})
		}
	}
	panels := PanelOperand(c.rows, c.cols, func(dst []float32, row0, rows, col0, cols int) error {
		for r := range rows {
			copy(dst[r*cols:(r+1)*cols], c.w[(row0+r)*c.cols+col0:])
		}
		return nil
	})
	importance := make([]float32, c.cols)
	for i := range importance {
		importance[i] = float32(i % 7)
	}
	for _, spec := range specs {
		spec = c.complete(t, spec)
		weights := importance
		if spec.Method != "imatrix" {
			weights = nil
		}
		for i, w := range []Operand{StoredOperand(m), StoredOperand(half), panels} {
			source := m
			if i == 1 {
				source = half
			}
			out, global, want := plain(t, Best(), spec, source, weights)
			want.Multipliers = [MultBins]int64{want.Blocks}
			for _, s := range []Set{Reference(), Best()} {
				again := &Output{Codes: out.Codes, Scales: out.Scales, Mins: out.Mins, RowE2: make([]float64, c.rows), RowW2: make([]float64, c.rows)}
				got, err := s.TapOf(spec, w, again, global, 2)
				if err != nil {
					t.Fatalf("%v: %v", spec, err)
				}
				if spec.Method == "range" || spec.Method == "imatrix" {
					got.ScaleLow, got.ScaleHigh = want.ScaleLow, want.ScaleHigh
				}
				if got != want || !slices.Equal(again.RowE2, out.RowE2) || !slices.Equal(again.RowW2, out.RowW2) {
					t.Fatalf("%s: %v, source %d: record\n%+v, want\n%+v", s.Name, spec, i, got, want)
				}
			}
		}
	}
}

// What GPTQ, TapOf and OutputError cannot do is refused by name.
func TestGPTQRefuses(t *testing.T) {
	c := correlated(rand.New(rand.NewPCG(10, 10)), 4, 64, 80)
	s := Best()
	f, err := s.Factorize(c.h, FactorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ordered, err := s.Factorize(c.h, FactorOptions{Order: byDiagonal(c.h)})
	if err != nil {
		t.Fatal(err)
	}
	int4 := Spec{Format: "int4-g32", Convention: Own}
	sick := errors.New("the disk is on fire")
	broken := PanelOperand(4, 64, func([]float32, int, int, int, int) error { return sick })
	for _, x := range []struct {
		w    Operand
		f    *Factor
		o    GPTQOptions
		out  *Output
		is   error
		says string
	}{
		{c.operand(), f, GPTQOptions{Spec: Spec{Format: "fp8", Convention: ModelOpt}}, nil, ErrUnsupported, "int4-g128"},
		{c.operand(), f, GPTQOptions{Spec: Spec{Format: "fp8-block128", Convention: DeepSeek}}, nil, ErrUnsupported, "known: nvfp4"},
		{c.operand(), f, GPTQOptions{Spec: Spec{Format: "int5"}}, nil, ErrUnknownFormat, "int5"},
		{c.operand(), f, GPTQOptions{Spec: Spec{Format: "int4-g32", Convention: Own, Method: "sweep"}}, nil, ErrUnsupported, "sweep"},
		{c.operand(), f, GPTQOptions{Spec: Spec{Format: "int4-g32", Convention: DeepSeek}}, nil, ErrUnsupported, "deepseek"},
		{c.operand(), nil, GPTQOptions{Spec: int4}, nil, ErrShape, "0 columns"},
		{DenseOperand(Dense{Rows: 4, Cols: 32, Stride: 64, Data: c.w}), f, GPTQOptions{Spec: int4}, nil, ErrShape, "64 columns for a matrix of 32"},
		{DenseOperand(Dense{Rows: 64, Cols: 64, Stride: 64, Data: make([]float32, 4096)}).T(), f, GPTQOptions{Spec: int4}, nil, ErrUnsupported, "transpose"},
		{c.operand(), ordered, GPTQOptions{Spec: int4}, nil, errOrder, "static groups"},
		{c.operand(), f, GPTQOptions{Spec: Spec{Format: "int4-g32", Convention: Own, Method: "imatrix"}}, nil, ErrNeedsImportance, "importance"},
		{c.operand(), f, GPTQOptions{Spec: int4, Importance: make([]float32, 3)}, nil, ErrShape, "importance"},
		{c.operand(), f, GPTQOptions{Spec: int4}, &Output{Codes: make([]byte, 3)}, ErrShape, "3 code bytes"},
		{c.operand(), f, GPTQOptions{Spec: int4}, &Output{RowE2: make([]float64, 3)}, ErrShape, "row errors"},
		{c.operand(), f, GPTQOptions{Spec: Spec{Format: "code2"}}, nil, ErrNeedsCodebook, "needs a codebook"},
		{c.operand(), ordered, GPTQOptions{Spec: Spec{Format: "code2", Codebook: 1 << 8}}, nil, ErrRange, "codebook 0x0100"},
		{broken, f, GPTQOptions{Spec: int4}, nil, sick, "int4-g32"},
		{broken, f, GPTQOptions{Spec: Spec{Format: "nvfp4"}, Amax: float32(math.NaN())}, nil, ErrRange, "NaN"},
	} {
		_, err := s.GPTQ(x.w, x.f, x.o, x.out)
		if !errors.Is(err, x.is) || !strings.Contains(err.Error(), x.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: %v; want %v with %q", x.o.Spec, err, x.is, x.says)
		}
	}
	// Formats with a scale a row have static parameters: an order is no matter.
	channel := Spec{Format: "int4-channel", Convention: Own}
	if _, err := s.GPTQ(c.operand(), ordered, GPTQOptions{Spec: channel}, nil); err != nil {
		t.Error(err)
	}
	if _, err := s.TapOf(int4, c.operand(), nil, 0, 1); !errors.Is(err, ErrShape) {
		t.Errorf("no codes: %v", err)
	}
	if _, err := s.TapOf(Spec{Format: "nvfp4"}, c.operand(), gptqOutput(t, Spec{Format: "nvfp4"}, 4, 64), 0, 1); !errors.Is(err, ErrRange) {
		t.Errorf("no global scale: %v", err)
	}
	for _, rows := range [][]int{{4}, {-1}} {
		if _, _, err := s.OutputError(c.h, c.operand(), c.operand(), rows, 1); !errors.Is(err, ErrRange) {
			t.Errorf("rows %v: %v", rows, err)
		}
	}
	if _, _, err := s.OutputError(c.h, c.operand(), broken, nil, 1); !errors.Is(err, sick) {
		t.Errorf("%v", err)
	}
	if _, _, err := s.OutputError(c.h, c.operand(), DenseOperand(Dense{Rows: 3, Cols: 64, Stride: 64, Data: c.w}), nil, 1); !errors.Is(err, ErrShape) {
		t.Errorf("%v", err)
	}
}

// A matrix without rows has codes of none, and no errors.
func TestGPTQOfNothing(t *testing.T) {
	f, err := Best().Factorize(identityHessian(32, 1), FactorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	empty := DenseOperand(Dense{Cols: 32, Stride: 32})
	for _, spec := range gptqSpecs() {
		spec = gptqCase{cols: 32}.complete(t, spec)
		r, err := Best().GPTQ(empty, f, GPTQOptions{Spec: spec, Importance: importanceOf(spec, identityHessian(32, 1))}, nil)
		if err != nil || r.OutE2 != 0 || r.Tap.Elements != 0 {
			t.Errorf("%v: %+v, %v", spec, r, err)
		}
	}
	if e, w, err := Best().OutputError(identityHessian(32, 1), empty, empty, nil, 2); e != 0 || w != 0 || err != nil {
		t.Error(e, w, err)
	}
}

// The output error of some rows is that of all of them in parts, for any threads
// and any set; a weight that is not finite counts for nothing.
func TestOutputErrorOfRows(t *testing.T) {
	c := correlated(rand.New(rand.NewPCG(11, 11)), errorRows+9, 140, 200)
	q := slices.Clone(c.w)
	for i := range q {
		q[i] = roundBF16(q[i])
	}
	quantized := DenseOperand(Dense{Rows: c.rows, Cols: c.cols, Stride: c.cols, Data: q})
	c.w[3*c.cols+7] = float32(math.NaN())
	all, own, err := Reference().OutputError(c.h, c.operand(), quantized, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	var sum, sumOwn float64
	for first := 0; first < c.rows; first += 50 {
		var rows []int
		for r := first; r < min(first+50, c.rows); r++ {
			rows = append(rows, r)
		}
		rows[0], rows[len(rows)-1] = rows[len(rows)-1], rows[0]
		e, w, err := Best().OutputError(c.h, c.operand(), quantized, rows, 2)
		if err != nil {
			t.Fatal(err)
		}
		sum, sumOwn = sum+e, sumOwn+w
	}
	if math.Abs(sum-all) > 1e-12*all || math.Abs(sumOwn-own) > 1e-12*own || !(all > 0) {
		t.Errorf("in parts %v of %v, together %v of %v", sum, sumOwn, all, own)
	}
	for _, s := range Available() {
		for threads := 1; threads <= 4; threads++ {
			e, w, err := s.OutputError(c.h, c.operand(), quantized, nil, threads)
			if err != nil || e != all || w != own {
				t.Errorf("%s, %d threads: %v of %v, %v; want %v of %v", s.Name, threads, e, w, err, all, own)
			}
		}
	}
}

// Codes, record and errors of any small matrix against the textbook, and every set
// against the reference.
func FuzzGPTQ(f *testing.F) {
	f.Add(uint64(1), uint8(3), uint8(40), uint8(0), uint8(60), false)
	f.Add(uint64(2), uint8(1), uint8(1), uint8(7), uint8(0), true)
	f.Add(uint64(3), uint8(5), uint8(33), uint8(30), uint8(2), true)
	f.Add(uint64(4), uint8(17), uint8(16), uint8(99), uint8(9), false)
	specs := gptqSpecs()
	for i := range specs { // lanes are rows: as many as two vectors have, and a rest
		f.Add(uint64(5+i), uint8(18+i%2), uint8(20+i%28), uint8(i), uint8(40), i%3 == 0)
	}
	f.Fuzz(func(t *testing.T, seed uint64, rows, cols, which, tokens uint8, ordered bool) {
		rng := rand.New(rand.NewPCG(seed, 1))
		c := correlated(rng, 1+int(rows)%20, 1+int(cols)%48, 1+int(tokens))
		spec := specs[int(which)%len(specs)]
		var order []int
		if ordered {
			order = byDiagonal(c.h)
		}
		if seed%2 == 0 {
			new(textbook).compare(t, Best(), c, spec, order, ordered, 0)
			hostile(rng, c.w)
		}
		spec = c.complete(t, spec)
		var want gptqRun
		for _, s := range Available() {
			factor, err := s.Factorize(c.h, FactorOptions{Order: order})
			if err != nil {
				t.Fatal(err)
			}
			var got gptqRun
			got.out, _, got.result = runGPTQ(t, s, c, factor, GPTQOptions{Spec: spec, Static: ordered, Importance: importanceOf(spec, c.h)})
			if want.out == nil {
				want = got
			} else if !got.equal(want) {
				t.Fatalf("%s: %v of %d×%d: other bits", s.Name, spec, c.rows, c.cols)
			}
		}
	})
}
