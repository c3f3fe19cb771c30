package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// gptqCase is a matrix with a Hessian.
type gptqCase struct {
	rows, cols int
	w          []float32
	h          Dense
}

// correlated draws weights, and inputs whose columns go together.
func correlated(rng *rand.Rand, rows, cols, tokens int) gptqCase {
	c := gptqCase{rows: rows, cols: cols, w: make([]float32, rows*cols)}
	for i := range c.w {
		c.w[i] = float32(rng.NormFloat64()) / 16
	}
	const hidden = 12
	mix := make([]float64, hidden*cols)
	for i := range mix {
		mix[i] = rng.NormFloat64()
	}
	x := Dense{Rows: tokens, Cols: cols, Stride: cols, Data: make([]float32, tokens*cols)}
	for t := range tokens {
		var z [hidden]float64
		for i := range z {
			z[i] = rng.NormFloat64()
		}
		for k := range cols {
			v := 0.3 * rng.NormFloat64()
			for i := range z {
				v += z[i] * mix[i*cols+k] / 4
			}
			x.Data[t*cols+k] = float32(v)
		}
	}
	c.h, _ = NewDense(cols, cols)
	if err := Best().SYRK(c.h, DenseOperand(x), GEMMOptions{}); err != nil {
		panic(err)
	}
	return c
}

func (c gptqCase) operand() Operand {
	return DenseOperand(Dense{Rows: c.rows, Cols: c.cols, Stride: c.cols, Data: c.w})
}

func (c gptqCase) matrix() Matrix {
	m := Matrix{Element: F32, Rows: c.rows, Cols: c.cols, Data: make([]byte, 4*len(c.w))}
	if err := EncodeFloats(m.Data, F32, c.w); err != nil {
		panic(err)
	}
	return m
}

func identityHessian(n int, f float32) Dense {
	h, _ := NewDense(n, n)
	for i := range n {
		h.Data[i*n+i] = f
	}
	return h
}

// gptqSpecs are all that GPTQ can do.
func gptqSpecs() (specs []Spec) {
	for _, f := range gptqFormats() {
		for _, c := range Conventions(f) {
			methods := slices.Concat(Methods(f), Weighted(f))
			if testing.Short() { // where processors are emulated: each in its turn
				methods = methods[len(specs)%len(methods):][:1]
			}
			for _, m := range methods {
				specs = append(specs, Spec{Format: f, Convention: c, Method: m})
			}
		}
	}
	return specs
}

func (spec Spec) String() string {
	return fmt.Sprintf("%s/%v/%s", spec.Format, spec.Convention, spec.Method)
}

// complete is a spec with the codebook of the case's weights, where its format has
// one.
func (c gptqCase) complete(t testing.TB, spec Spec) Spec {
	t.Helper()
	f, err := FormatByName(spec.Format)
	if err != nil {
		t.Fatal(err)
	}
	if spec.Codebook != 0 || !f.Codebook {
		return spec
	}
	m := c.matrix()
	amax, _ := Reference().AbsMax(m)
	book, err := Best().ChooseBook(spec, StoredOperand(m), amax, nil)
	if err != nil {
		t.Fatal(err)
	}
	spec.Use(book)
	return spec
}

// importanceOf is the diagonal of a Hessian, for the methods that want one.
func importanceOf(spec Spec, h Dense) []float32 {
	if spec.Method != "imatrix" {
		return nil
	}
	d := make([]float32, h.Cols)
	for i := range d {
		d[i] = h.Data[i*h.Stride+i]
	}
	return d
}

// beginFor is Begin, or BeginWeighted where there is importance.
func (s Set) beginFor(spec Spec, e Element, rows, cols int, amax float32, importance []float32) (*Pass, error) {
	if importance != nil {
		return s.BeginWeighted(spec, e, rows, cols, amax, importance)
	}
	return s.Begin(spec, e, rows, cols, amax)
}

// plain is what a Pass makes of a matrix.
func plain(t testing.TB, s Set, spec Spec, m Matrix, importance []float32) (out *Output, global float32, tap Tap) {
	t.Helper()
	amax, err := s.AbsMax(m)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.beginFor(spec, m.Element, m.Rows, m.Cols, amax, importance)
	if err != nil {
		t.Fatalf("%v: %v", spec, err)
	}
	out, global = sizedOutput(p.Sizes(m.Rows), m.Rows), p.Global()
	if err := p.Rows(m.Data, out); err != nil {
		t.Fatalf("%v: %v", spec, err)
	}
	if tap, err = p.Finish(); err != nil {
		t.Fatalf("%v: %v", spec, err)
	}
	return out, global, tap
}

func sizedOutput(z Sizes, rows int) *Output {
	return &Output{Codes: make([]byte, z.Codes), Scales: make([]byte, z.Scales), Mins: make([]byte, z.Mins), RowE2: make([]float64, rows), RowW2: make([]float64, rows)}
}

func gptqOutput(t testing.TB, spec Spec, rows, cols int) *Output {
	t.Helper()
	q, f, err := spec.check()
	if err != nil {
		t.Fatal(err)
	}
	n, _ := f.Scales(rows, cols)
	scale, beside := q.stored(f, spec.Convention)
	return sizedOutput(Sizes{Codes: rows * ceilDiv(cols*f.Bits, 8), Scales: n * scale, Mins: n * beside}, rows)
}

func sameOutput(t testing.TB, what string, got, want *Output) {
	t.Helper()
	for _, x := range []struct {
		name      string
		got, want []byte
	}{{"codes", got.Codes, want.Codes}, {"scales", got.Scales, want.Scales}, {"minima", got.Mins, want.Mins}} {
		if !slices.Equal(x.got, x.want) {
			n := 0
			for i := range x.got {
				if x.got[i] != x.want[i] {
					n++
				}
			}
			t.Fatalf("%s: %d of %d bytes of %s differ", what, n, len(x.got), x.name)
		}
	}
}

// With an identity Hessian GPTQ is the pass that chooses its parameters, bit for
// bit, record included, for every format, convention and method, with static
// groups and without, in any order of columns.
func TestGPTQIdentityIsThePass(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	c := correlated(rng, 19, 300, 4)
	c.w[5], c.w[301], c.w[700] = float32(math.NaN()), float32(math.Inf(1)), float32(math.Copysign(0, -1))
	for i := range 64 {
		c.w[3*300+i] = 0
	}
	order := rng.Perm(c.cols)
	for i := range c.w {
		c.w[i] += 0 // of two bits, a pass goes by the sign of a zero, and a target of GPTQ has none
	}
	m := c.matrix()
	amax, _ := Reference().AbsMax(m)
	options := []FactorOptions{{}, {Order: order}}
	sets := Available()
	for _, s := range slices.Delete(sets, 1, max(len(sets)-1, 1)) { // the reference, and the best where there is another
		var factors []*Factor
		for _, o := range options {
			f, err := s.Factorize(identityHessian(c.cols, 2), o)
			if err != nil {
				t.Fatal(err)
			}
			factors = append(factors, f)
		}
		for _, spec := range gptqSpecs() {
			spec = c.complete(t, spec)
			importance := importanceOf(spec, c.h)
			want, global, tap := plain(t, s, spec, m, importance)
			tap.Multipliers = [MultBins]int64{tap.Blocks}
			for i, o := range options {
				f := factors[i]
				for _, static := range []bool{false, true} {
					if o.Order != nil && !static {
						continue
					}
					out := gptqOutput(t, spec, c.rows, c.cols)
					r, err := s.GPTQ(c.operand(), f, GPTQOptions{Spec: spec, Amax: amax, Static: static, Importance: importance}, out)
					if err != nil {
						t.Fatalf("%v: %v", spec, err)
					}
					what := fmt.Sprintf("%s: %v, static %v, order %v", s.Name, spec, static, o.Order != nil)
					sameOutput(t, what, out, want)
					if r.Global != global || !slices.Equal(out.RowE2, want.RowE2) || !slices.Equal(out.RowW2, want.RowW2) {
						t.Fatalf("%s: global scale %v, want %v, or row sums differ", what, r.Global, global)
					}
					if spec.Method == "range" || spec.Method == "imatrix" {
						tap.ScaleLow, tap.ScaleHigh = r.Tap.ScaleLow, r.Tap.ScaleHigh
					}
					if r.Tap != tap {
						t.Fatalf("%s: record\n%+v, want\n%+v", what, r.Tap, tap)
					}
					if d := r.OutE2 - 2*tap.SumE2; math.Abs(d) > 1e-5*tap.SumE2 {
						t.Fatalf("%s: output error %v, want %v", what, r.OutE2, 2*tap.SumE2)
					}
				}
			}
		}
	}
}
