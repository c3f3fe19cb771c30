package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// inverse64 is the inverse of a positive definite matrix by Gauss and Jordan.
func inverse64(a []float64, n int) []float64 {
	m := make([][]float64, n)
	for i := range m {
		m[i] = make([]float64, 2*n)
		copy(m[i], a[i*n:(i+1)*n])
		m[i][n+i] = 1
	}
	for k := range n {
		best := k
		for i := k; i < n; i++ {
			if math.Abs(m[i][k]) > math.Abs(m[best][k]) {
				best = i
			}
		}
		m[k], m[best] = m[best], m[k]
		f := 1 / m[k][k]
		for j := range m[k] {
			m[k][j] *= f
		}
		for i := range n {
			if g := m[i][k]; i != k && g != 0 {
				for j := range m[i] {
					m[i][j] -= g * m[k][j]
				}
			}
		}
	}
	out := make([]float64, n*n)
	for i := range n {
		copy(out[i*n:], m[i][n:])
	}
	return out
}

// damped64 is H+λI in an order of columns.
func damped64(h Dense, order []int, lambda float64) []float64 {
	n := h.Cols
	a := make([]float64, n*n)
	for i := range n {
		for j := range n {
			x, y := i, j
			if order != nil {
				x, y = order[i], order[j]
			}
			a[i*n+j] = float64(h.Data[max(x, y)*h.Stride+min(x, y)])
		}
		a[i*n+i] += lambda
	}
	return a
}

// eliminated is the inverse of H+λI of which each column is eliminated after its turn:
// row k holds, from its diagonal on, what that row is when the columns before k are gone.
// It depends on no weight and no format, so that all specs of a case share it.
func (b *textbook) eliminated(h Dense, order []int, lambda float64) []float64 {
	if b.of != &h.Data[0] {
		b.of, b.kept = &h.Data[0], map[string][]float64{}
	}
	key := fmt.Sprint(order, lambda)
	if inv := b.kept[key]; inv != nil {
		return inv
	}
	n := h.Cols
	inv := inverse64(damped64(h, order, lambda), n)
	for k := range n {
		for i := k + 1; i < n; i++ {
			g := inv[i*n+k] / inv[k*n+k]
			for j := k + 1; j < n; j++ {
				inv[i*n+j] -= g * inv[k*n+j]
			}
		}
	}
	b.kept[key] = inv
	return inv
}

// textbook keeps the inverses of one Hessian, the one whose data begin at of.
type textbook struct {
	of   *float32
	kept map[string][]float64
}

// gptq is GPTQ as its authors state it, in f64: the weights that are left
// are moved after every column by the inverse of the Hessian, from which the column is
// then eliminated. Parameters are those that a pass gives the moved weights.
func (b *textbook) gptq(t testing.TB, c gptqCase, spec Spec, order []int, static bool, lambda float64, amax float32, importance []float32) (codes []byte, q []float32) {
	t.Helper()
	n := c.cols
	_, f, err := spec.check()
	if err != nil {
		t.Fatal(err)
	}
	group := f.Group
	if f.Scope != ScopeGroup {
		group, static = n, true
	}
	static = static || spec.Codebook != 0
	inv := b.eliminated(c.h, order, lambda)
	column := func(k int) int {
		if order == nil {
			return k
		}
		return order[k]
	}
	moved := make([]float64, len(c.w)) // in the matrix's own order
	for i, x := range c.w {
		moved[i] = float64(x)
	}
	s := Reference()
	q, codes = make([]float32, len(c.w)), make([]byte, len(c.w))
	params := make([]blockParams, c.rows*ceilDiv(n, group))
	choose := func(first, last int) {
		w := Matrix{Element: F32, Rows: c.rows, Cols: last - first}
		var flat []float32
		for r := range c.rows {
			for k := first; k < last; k++ {
				flat = append(flat, float32(moved[r*n+k]))
			}
		}
		w.Data = make([]byte, 4*len(flat))
		_ = s.EncodeFloats(w.Data, F32, flat)
		var weights []float32
		if importance != nil {
			weights = importance[first:last]
		}
		p, err := s.beginFor(spec, F32, c.rows, last-first, amax, weights)
		if err != nil {
			t.Fatal(err)
		}
		global := p.Global()
		out := sizedOutput(p.Sizes(c.rows), c.rows)
		if err := p.Rows(w.Data, out); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Finish(); err != nil {
			t.Fatal(err)
		}
		quant, _, _ := spec.check()
		size, _ := quant.stored(f, spec.Convention)
		d := blockDecoder{conv: spec.Convention, scaleBytes: size, scales: out.Scales, mins: out.Mins, rule: int4Rule(spec.Convention, f.MinBits == 0)}
		per := ceilDiv(last-first, group)
		for r := range c.rows {
			for g := range per {
				p := &params[r*ceilDiv(n, group)+first/group+g]
				if f.Scale == "e4m3" {
					p.step = nvfp4Step(out.Scales[r*per+g], global, spec.Convention)
				} else {
					p.step, p.offset = d.scale(r*per+g), d.offset(r*per+g)
				}
			}
		}
	}
	if static {
		choose(0, n)
	}
	rule := gptqRuleOf(f, spec.Convention)
	for k := range n {
		col := column(k)
		if !static && k%group == 0 {
			choose(k, min(k+group, n))
		}
		for r := range c.rows {
			p := &params[r*ceilDiv(n, group)+col/group]
			if spec.Codebook != 0 {
				codes[r*n+col], q[r*n+col] = nearestOf(Codebook(spec.Codebook), moved[r*n+col], p.step)
			} else {
				codes[r*n+col], q[r*n+col] = rule.code(float32(moved[r*n+col]), p.step, p.offset)
			}
			e := (moved[r*n+col] - float64(q[r*n+col])) / inv[k*n+k]
			for j := k + 1; j < n; j++ {
				moved[r*n+column(j)] -= e * inv[k*n+j]
			}
		}
	}
	return codes, q
}

// nearestOf is the index of the value that is nearest to x/step, and v·step: of two that
// are equally near the one with the smaller magnitude, of ±v the positive one.
func nearestOf(values []float32, x float64, step float32) (code byte, q float32) {
	u := 0.0
	if step != 0 {
		u = float64(float32(x) / step)
	}
	best := math.Inf(1)
	for i, v := range values {
		d, at := math.Abs(u-float64(v)), values[code]
		if d < best || d == best && (math.Abs(float64(v)) < math.Abs(float64(at)) || v == -at && v > 0) {
			best, code = d, byte(i)
		}
	}
	return code, float32(values[code] * step)
}

// outputError64 is tr((W−Q)·H·(W−Q)ᵀ) by its definition.
func outputError64(c gptqCase, q []float32) (sum float64) {
	n := c.cols
	for r := range c.rows {
		for i := range n {
			e := float64(c.w[r*n+i]) - float64(q[r*n+i])
			for j := range n {
				sum += e * float64(c.h.Data[i*c.h.Stride+j]) * (float64(c.w[r*n+j]) - float64(q[r*n+j]))
			}
		}
	}
	return sum
}

// runGPTQ is GPTQ with all that it needs, and what its codes decode to.
func runGPTQ(t testing.TB, s Set, c gptqCase, f *Factor, o GPTQOptions) (out *Output, q []float32, r GPTQResult) {
	t.Helper()
	o.Amax, _ = s.AbsMax(c.matrix())
	out = gptqOutput(t, o.Spec, c.rows, c.cols)
	r, err := s.GPTQ(c.operand(), f, o, out)
	if err != nil {
		t.Fatalf("%v: %v", o.Spec, err)
	}
	q = make([]float32, len(c.w))
	if err := s.Dequantize(q, o.Spec, c.rows, c.cols, out.Codes, out.Scales, out.Mins, r.Global); err != nil {
		t.Fatal(err)
	}
	return out, q, r
}

// compare holds one run against the textbook: codes but for near
// ties, the output error, and the loss that GPTQ itself gives.
func (b *textbook) compare(t testing.TB, s Set, c gptqCase, spec Spec, order []int, static bool, damp float64) {
	t.Helper()
	importance := importanceOf(spec, c.h)
	spec = c.complete(t, spec)
	format, err := FormatByName(spec.Format)
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.Factorize(c.h, FactorOptions{Order: order, Damp: damp})
	if err != nil {
		t.Fatal(err)
	}
	out, q, r := runGPTQ(t, s, c, f, GPTQOptions{Spec: spec, Static: static, Importance: importance})
	amax, _ := s.AbsMax(c.matrix())
	codes, want := b.gptq(t, c, spec, order, static, f.Lambda(), amax, importance)
	what := fmt.Sprintf("%s: %v of %d×%d, static %v, order %v", s.Name, spec, c.rows, c.cols, static, order != nil)
	differ := 0
	for i, x := range codes {
		row, col := i/c.cols, i%c.cols
		if each := 8 / format.Bits; out.Codes[row*ceilDiv(c.cols*format.Bits, 8)+col/each]>>(col%each*format.Bits)&(1<<format.Bits-1) != x {
			differ++
		}
	}
	if differ*1000 > len(codes) && differ > 1 {
		t.Fatalf("%s: %d of %d codes differ from the textbook's", what, differ, len(codes))
	}
	ours, theirs := outputError64(c, q), outputError64(c, want)
	if ours > theirs*1.0005+1e-12 && differ > 1 {
		t.Fatalf("%s: output error %v, the textbook's %v", what, ours, theirs)
	}
	// A target is an f32 that is rounded once for each column before it, so that it is off by
	// as many half units of the weight; of an error E that moves ‖E‖² in the Hessian's norm
	// by at most twice the product of the norms.
	own := outputError64(c, make([]float32, len(c.w)))
	slack := 1e-5*(ours+f.Lambda()*r.Tap.SumE2) + 2*float64(c.cols+1)*0x1p-24*math.Sqrt(ours*own)
	if math.Abs(r.OutE2-ours) > slack {
		t.Fatalf("%s: says an output error of %v, it is %v", what, r.OutE2, ours)
	}
	e2, w2, err := s.OutputError(c.h, c.operand(), DenseOperand(Dense{Rows: c.rows, Cols: c.cols, Stride: c.cols, Data: q}), nil, 2)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(e2-ours) > 1e-9*ours || math.Abs(w2-own) > 1e-9*own {
		t.Fatalf("%s: output errors %v of %v, want %v of %v", what, e2, w2, ours, own)
	}
}

// Every format, convention and method against the textbook, with moved and static
// groups, and in the order of the diagonal.
func TestGPTQIsTheTextbooks(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	c := correlated(rng, 7, 168, 400)
	order := rng.Perm(c.cols)
	var b textbook
	for _, spec := range gptqSpecs() {
		b.compare(t, Best(), c, spec, nil, false, 0)
		b.compare(t, Best(), c, spec, nil, true, 0)
		b.compare(t, Best(), c, spec, order, true, 0)
	}
}

// M is rounded to f32, and targets are f32: where fewer tokens than columns and a
// tenth of the usual damping leave a condition of 1e5 and more, codes are still those of
// f64 but for near ties.
func TestGPTQIllConditioned(t *testing.T) {
	c := correlated(rand.New(rand.NewPCG(13, 13)), 40, 256, 90)
	d, err := Best().Diagnose(c.h, FactorOptions{Damp: 0.001})
	if err != nil || d.Cond < 1e4 || d.Rank != 90 {
		t.Fatalf("%+v, %v", d, err)
	}
	var b textbook
	for _, spec := range []Spec{{Format: "int4-g128", Convention: Own}, {Format: "int4-g32-sym", Convention: CT32}, {Format: "nvfp4"}, {Format: "mxfp4", Convention: CT32}} {
		b.compare(t, Best(), c, spec, nil, false, 0.001)
		b.compare(t, Best(), c, spec, byDiagonal(c.h), true, 0.001)
	}
}
