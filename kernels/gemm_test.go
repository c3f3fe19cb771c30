package kernels

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// chain is what GEMM's comment says of one element.
func chain(a, b func(k int) float32, depth int, alpha float32, c float32) float32 {
	for k0 := 0; k0 < depth; k0 += PanelDepth {
		var s float32
		for k := k0; k < min(k0+PanelDepth, depth); k++ {
			s = fma32(a(k), b(k), s)
		}
		c = fma32(alpha, s, c)
	}
	return c
}

// factor is a matrix in all the ways that it can be handed to a product.
type factor struct {
	rows, cols int
	at         []float32 // row-major
}

// randomFactor holds bf16 numbers, so that every element format stores them.
func randomFactor(rng *rand.Rand, rows, cols int) factor {
	f := factor{rows, cols, make([]float32, rows*cols)}
	for i := range f.at {
		f.at[i] = roundBF16(float32(rng.NormFloat64()))
	}
	return f
}

var factorKinds = []string{"dense", "bf16", "f16", "f32", "panels"}

// operand gives f as stored in kind, f itself or as the transpose of its
// transpose. Panels look that they are asked for as the left or right factor
// would be.
func (f factor) operand(t testing.TB, kind string, transposed, left bool) Operand {
	t.Helper()
	rows, cols, at := f.rows, f.cols, f.at
	if transposed {
		rows, cols = cols, rows
		at = make([]float32, len(f.at))
		transposeRef(at, f.rows, f.at, f.cols, f.rows, f.cols)
	}
	var o Operand
	switch kind {
	case "dense":
		stride := cols + 3
		d := Dense{Rows: rows, Cols: cols, Stride: stride, Data: make([]float32, max(0, rows*stride-3))}
		for i := range d.Data {
			d.Data[i] = float32(math.NaN()) // between rows: not to be read
		}
		for r := range rows {
			copy(d.Data[r*stride:], at[r*cols:(r+1)*cols])
		}
		o = DenseOperand(d)
	case "panels":
		o = PanelOperand(rows, cols, func(dst []float32, row0, nr, col0, nc int) error {
			if len(dst) != nr*nc {
				return fmt.Errorf("%d elements for %d×%d", len(dst), nr, nc)
			}
			first, n, of := row0, nr, rows
			if left != transposed {
				first, n, of = col0, nc, cols
			}
			if first%PanelDepth != 0 || n != min(PanelDepth, of-first) {
				return fmt.Errorf("a panel of steps %d…%d of %d", first, first+n, of)
			}
			for r := range nr {
				copy(dst[r*nc:][:nc], at[(row0+r)*cols+col0:])
			}
			return nil
		})
	default:
		e := map[string]Element{"bf16": BF16, "f16": F16, "f32": F32}[kind]
		m := Matrix{Element: e, Rows: rows, Cols: cols, Data: make([]byte, rows*cols*e.Size())}
		if err := Reference().EncodeFloats(m.Data, e, at); err != nil {
			t.Fatal(err)
		}
		o = StoredOperand(m)
	}
	if transposed {
		return o.T()
	}
	return o
}

// rounded is f as kind stores it.
func (f factor) rounded(kind string) factor {
	if kind != "f16" {
		return f
	}
	out := factor{f.rows, f.cols, make([]float32, len(f.at))}
	for i, x := range f.at {
		out.at[i] = F16ToF32(F32ToF16(x))
	}
	return out
}

// checkProduct compares a product with chain, and looks that nothing else of C
// is written.
func checkProduct(t *testing.T, s Set, a, b factor, kindA, kindB string, ta, tb bool, o GEMMOptions) {
	t.Helper()
	const mark = 12345
	m, n, depth := a.rows, b.cols, a.cols
	stride := n + 5
	c := Dense{Rows: m, Cols: n, Stride: stride, Data: make([]float32, m*stride+64)}
	for i := range c.Data {
		c.Data[i] = mark
	}
	if m*stride >= 5 {
		c.Data = c.Data[:m*stride-5+64]
	}
	name := fmt.Sprintf("%s: %d×%d×%d %s(%v)·%s(%v) %+v", s.Name, m, n, depth, kindA, ta, kindB, tb, o)
	if err := s.GEMM(c, a.operand(t, kindA, ta, true), b.operand(t, kindB, tb, false), o); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	a, b = a.rounded(kindA), b.rounded(kindB)
	alpha := o.Alpha
	if alpha == 0 {
		alpha = 1
	}
	for i, got := range c.Data {
		r, j := i/stride, i%stride
		if r >= m || j >= n {
			if got != mark {
				t.Fatalf("%s: wrote outside of C at (%d, %d)", name, r, j)
			}
			continue
		}
		var before float32
		if o.Accumulate {
			before = mark
		}
		want := chain(func(k int) float32 { return a.at[r*depth+k] }, func(k int) float32 { return b.at[k*n+j] }, depth, alpha, before)
		if !sameF32(got, want) {
			t.Fatalf("%s: (%d, %d) is %x, want %x", name, r, j, got, want)
		}
	}
}

// Every way to hand a matrix over gives the bits that GEMM's comment says.
func TestGEMMOperands(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	a, b := randomFactor(rng, 19, PanelDepth+37), randomFactor(rng, PanelDepth+37, 53)
	for _, s := range Available() {
		for _, kindA := range factorKinds {
			for _, kindB := range factorKinds {
				for i := range 4 {
					checkProduct(t, s, a, b, kindA, kindB, i&1 != 0, i&2 != 0, GEMMOptions{Accumulate: i%3 == 0, Threads: 1 + i%3})
				}
			}
		}
	}
}

// Ragged sizes around every tile and panel.
func TestGEMMShapes(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for _, s := range Available() {
		for m := range 34 {
			n, depth := rng.IntN(70), rng.IntN(40)
			checkProduct(t, s, randomFactor(rng, m, depth), randomFactor(rng, depth, n), "dense", "dense", m%2 == 0, m%3 == 0, GEMMOptions{Alpha: 0.37})
		}
		for _, shape := range [][3]int{
			{1, 1, 1}, {1, 33, 0}, {0, 5, 7}, {5, 0, 7}, {1, 500, 300}, {3, 64, 2*PanelDepth + 1}, {130, 40, 20}, {13, 32, PanelDepth},
			{14, 32, PanelDepth - 1}, {27, 31, 4}, {1, 1030, 9}, {1030, 3, 5},
		} {
			a, b := randomFactor(rng, shape[0], shape[2]), randomFactor(rng, shape[2], shape[1])
			for _, o := range []GEMMOptions{{Threads: 3}, {Accumulate: true, Alpha: -3}} {
				checkProduct(t, s, a, b, "dense", "bf16", false, true, o)
				checkProduct(t, s, a, b, "dense", "dense", true, false, o)
			}
		}
	}
}

// Work for many goroutines, which small products do not start.
func TestGEMMThreads(t *testing.T) {
	const m, n, depth = 230, 310, 530
	x, w := gaussian(t, m, depth, 1), gaussian(t, n, depth, 2)
	var first Dense
	for _, s := range asmSets() {
		for _, threads := range []int{1, 2, 7, 64} {
			c, _ := NewDense(m, n)
			if err := s.GEMM(c, DenseOperand(x), DenseOperand(w).T(), GEMMOptions{Threads: threads}); err != nil {
				t.Fatal(err)
			}
			if first.Data == nil {
				first = c
			}
			for i := range c.Data {
				if c.Data[i] != first.Data[i] {
					t.Fatalf("%s, %d threads: (%d, %d) is %x, was %x", s.Name, threads, i/n, i%n, c.Data[i], first.Data[i])
				}
			}
		}
	}
	// The error stays within the bound of GEMM's comment.
	count := float64(PanelDepth + ceilDiv(depth, PanelDepth))
	gamma := count * 0x1p-24 / (1 - count*0x1p-24)
	for i, got := range first.Data {
		var sum, size float64
		for k := range depth {
			p := float64(x.Data[i/n*depth+k]) * float64(w.Data[i%n*depth+k])
			sum, size = sum+p, size+math.Abs(p)
		}
		if e := math.Abs(float64(got) - sum); e > gamma*size {
			t.Fatalf("(%d, %d) is off by %g, bound %g", i/n, i%n, e, gamma*size)
		}
	}
}

// Rows one by one, and K in two parts, give the bits of the whole.
func TestGEMMInParts(t *testing.T) {
	const m, n, depth = 17, 47, 2*PanelDepth + 9
	x, w := gaussian(t, m, depth, 1), gaussian(t, n, depth, 2)
	columns := func(d Dense, from, to int) Operand {
		return DenseOperand(Dense{Rows: d.Rows, Cols: to - from, Stride: d.Stride, Data: d.Data[from:]})
	}
	for _, s := range Available() {
		whole, _ := NewDense(m, n)
		rows, _ := NewDense(m, n)
		parts, _ := NewDense(m, n)
		err := s.GEMM(whole, DenseOperand(x), DenseOperand(w).T(), GEMMOptions{})
		for r := range m {
			one := Dense{Rows: 1, Cols: n, Stride: n, Data: rows.Data[r*n:]}
			in := Dense{Rows: 1, Cols: depth, Stride: depth, Data: x.Data[r*depth:]}
			err = errors.Join(err, s.GEMM(one, DenseOperand(in), DenseOperand(w).T(), GEMMOptions{}))
		}
		for k := 0; k < depth; k += PanelDepth {
			end := min(k+PanelDepth, depth)
			err = errors.Join(err, s.GEMM(parts, columns(x, k, end), columns(w, k, end).T(), GEMMOptions{Accumulate: true}))
		}
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range whole.Data {
			if rows.Data[i] != want || parts.Data[i] != want {
				t.Fatalf("%s: element %d is %x, by rows %x, in parts %x", s.Name, i, want, rows.Data[i], parts.Data[i])
			}
		}
	}
}

// Numbers that go wrong where a lane is lost or an operation rounds twice.
func TestGEMMSpecialNumbers(t *testing.T) {
	inf := float32(math.Inf(1))
	specials := []float32{0, float32(math.Copysign(0, -1)), 1e-45, -1e-45, 0x1p-126, 0x1p-75, -0x1p-75, 1, 1 + 0x1p-23, 3e38, -3e38, inf, -inf, float32(math.NaN())}
	rng := rand.New(rand.NewPCG(3, 3))
	for _, s := range Available() {
		for range 40 {
			a, b := randomFactor(rng, 15, 23), randomFactor(rng, 23, 33)
			for range 8 {
				a.at[rng.IntN(len(a.at))] = specials[rng.IntN(len(specials))]
				b.at[rng.IntN(len(b.at))] = specials[rng.IntN(len(specials))]
			}
			checkProduct(t, s, a, b, "dense", "dense", false, true, GEMMOptions{Alpha: 0x1p-3})
		}
	}
}

// A value in each place of a tile reaches its place of C and no other.
func TestGEMMEveryLane(t *testing.T) {
	for _, s := range Available() {
		rows, cols := s.gemm.tileRows, s.gemm.tileCols
		a, b := factor{rows, 5, make([]float32, rows*5)}, factor{5, cols, make([]float32, cols*5)}
		for i := range a.at {
			a.at[i] = float32(i + 1)
		}
		for i := range b.at {
			b.at[i] = 1 / float32(i+1)
		}
		checkProduct(t, s, a, b, "dense", "dense", false, false, GEMMOptions{})
		checkProduct(t, s, a, b, "f32", "f32", true, true, GEMMOptions{Accumulate: true})
	}
}

func TestGEMMRefuses(t *testing.T) {
	d := func(rows, cols, stride, n int) Dense {
		return Dense{Rows: rows, Cols: cols, Stride: stride, Data: make([]float32, n)}
	}
	good := DenseOperand(d(4, 4, 4, 16))
	broken := errors.New("source gone")
	s := Best()
	for i, c := range []struct {
		c    Dense
		a, b Operand
		want error
	}{
		{d(4, 4, 4, 15), good, good, ErrShape},
		{d(4, 4, 3, 16), good, good, ErrShape},
		{d(-4, 4, 4, 16), good, good, ErrShape},
		{d(4, 4, 4, 16), good, DenseOperand(d(5, 4, 4, 20)), ErrShape},
		{d(4, 4, 4, 16), DenseOperand(d(4, 4, 4, 3)), good, ErrShape},
		{d(4, 4, 4, 16), DenseOperand(d(4, 4, math.MaxInt/2, 16)), good, ErrShape},
		{d(4, 4, 4, 16), good, StoredOperand(Matrix{Element: BF16, Rows: 4, Cols: 4, Data: make([]byte, 31)}), ErrShape},
		{d(4, 4, 4, 16), good, StoredOperand(Matrix{Element: 9, Rows: 4, Cols: 4, Data: make([]byte, 32)}), ErrUnsupported},
		{d(4, 4, 4, 16), good, PanelOperand(4, 4, func([]float32, int, int, int, int) error { return broken }), broken},
		{d(4, 4, 4, 16), PanelOperand(4, 4, func([]float32, int, int, int, int) error { return broken }), good, broken},
	} {
		if err := s.GEMM(c.c, c.a, c.b, GEMMOptions{}); !errors.Is(err, c.want) {
			t.Errorf("case %d: %v, want %v", i, err, c.want)
		}
	}
	if err := s.SYRK(d(4, 5, 5, 20), good, GEMMOptions{}); !errors.Is(err, ErrShape) {
		t.Errorf("second moments of 4 columns into 4×5: %v", err)
	}
	if _, err := NewDense(math.MaxInt/2, 3); !errors.Is(err, ErrShape) {
		t.Errorf("a matrix that no memory holds: %v", err)
	}
}

// fma32 against exact arithmetic.
func TestFMA32(t *testing.T) {
	exact := func(x, y, z float32) float32 {
		f := func(v float32) *big.Float { return new(big.Float).SetPrec(2000).SetFloat64(float64(v)) }
		sum := f(x)
		got, _ := sum.Add(sum.Mul(sum, f(y)), f(z)).Float32()
		return got
	}
	rng := rand.New(rand.NewPCG(4, 4))
	random := func() float32 { // sparse mantissas and near exponents, where ties are
		man := rng.Uint32() & rng.Uint32() & rng.Uint32() & (1<<23 - 1)
		return math.Float32frombits(rng.Uint32()&signF32 | uint32(127-40+rng.IntN(80))<<23 | man)
	}
	twice := 0
	for range 200_000 {
		x, y, z := random(), random(), random()
		switch rng.IntN(4) {
		case 0:
			z *= 0x1p-50
		case 1: // a result below the normal range
			x, y, z = x*0x1p-70, y*0x1p-70, z*0x1p-126
		}
		want := exact(x, y, z)
		if got := fma32(x, y, z); got != want {
			t.Fatalf("fma32(%x, %x, %x) = %x, want %x", x, y, z, got, want)
		}
		if float32(float64(x)*float64(y)+float64(z)) != want {
			twice++
		}
	}
	if twice == 0 {
		t.Error("no case rounds twice: the test shows nothing")
	}
}

func FuzzGEMM(f *testing.F) {
	for i := range uint64(12) {
		f.Add(i, uint8(i*7), uint8(i*11), uint16(i*53), uint8(i))
	}
	for mode := range uint8(16) { // each way of storing B, and of turning A and B
		f.Add(uint64(mode), uint8(19), uint8(39), uint16(77+mode), mode<<3|mode&7)
	}
	f.Fuzz(func(t *testing.T, seed uint64, m, n uint8, depth uint16, mode uint8) {
		rng := rand.New(rand.NewPCG(seed, 5))
		k := int(depth % (PanelDepth + 50))
		a, b := randomFactor(rng, int(m%20), k), randomFactor(rng, k, int(n%40))
		for range min(5, len(a.at)) {
			a.at[rng.IntN(len(a.at))] = math.Float32frombits(rng.Uint32())
		}
		o := GEMMOptions{Accumulate: mode&1 != 0, Alpha: float32(mode>>1&3) / 3, Threads: 1 + int(mode>>7)}
		for _, s := range Available() {
			checkProduct(t, s, a, b, "dense", []string{"dense", "bf16", "f16", "panels"}[mode>>3&3], mode&32 != 0, mode&64 != 0, o)
		}
	})
}
