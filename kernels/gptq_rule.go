package kernels

import "math"

// gptqRule is the arithmetic of a format's codes, given a step and an offset.
type gptqRule uint8

// Rules: those of blockRule for integers, E2M1 of the quotient by the step, and the
// nearest of a codebook to that quotient. MXFP4's products with the inverse give the
// same, steps being powers of two.
const (
	gptqE2M1 gptqRule = iota
	gptqE2M1Down
	gptqIntMin
	gptqIntSym
	gptqIntZero
	gptqIntZeroBF16
	gptqCodebook
	gptqRules
)

// gptqRuleOf is the rule of a format under a convention.
func gptqRuleOf(f Format, c Convention) gptqRule {
	if f.Element == "e2m1" {
		if f.Codebook {
			return gptqCodebook
		}
		if f.Name == "mxfp4" && c == ModelOpt {
			return gptqE2M1Down
		}
		return gptqE2M1
	}
	return gptqIntMin + gptqRule(int4Rule(c, f.MinBits == 0)-ruleIntMin)
}

// code is the code of one finite target, and what it decodes to. A step of 0
// (an NVFP4 one that underflowed) gives code 0. gptqBook has codes of its own.
func (r gptqRule) code(t, step, offset float32) (code byte, q float32) {
	switch r {
	case gptqE2M1:
		if step == 0 {
			return 0, 0
		}
		cell := e2m1Cell(t / step)
		return e2m1Codes[cell], float32(e2m1Nearest[cell] * step)
	case gptqE2M1Down:
		code = e2m1Down(t / step)
		return code, float32(e2m1Values[code] * step)
	}
	return (ruleIntMin + blockRule(r-gptqIntMin)).code(t, &blockParams{step: step, offset: offset})
}

// gptqColumns are neighbouring columns of one block of at most factorBlock of
// them, in lanes of rows: element k·lanes+i is of column k and row i.
type gptqColumns struct {
	lanes  int
	odd    bool      // there is a step of 0, or one with which a product may overflow
	width  int       // columns of the block
	m      []float32 // M[k, j] of the block at k·factorBlock+j
	d      []float64 // D of its columns
	params []int32   // of each column: where its parameters begin in steps and offsets

	w              []float32 // weights
	c              []float32 // what earlier columns add to the targets
	e              []float32 // w−q
	codes          []byte
	steps, offsets []float32
	book           *gptqBook // of gptqCodebook
	loss           []float64 // of each lane: Σ D·(target−q)²
}

// gptqKernels are what a set brings to GPTQ.
type gptqKernels struct {
	lanes   int
	columns func(r gptqRule, j *gptqColumns, first, last int)  // see gptqColumnsRef
	moved   func(j *gptqColumns, first, last int, v []float32) // see gptqMovedRef
}

const gptqRefLanes = 16

var gptqRef = gptqKernels{lanes: gptqRefLanes, columns: gptqColumnsRef, moved: gptqMovedRef}

// gptqColumnsRef chooses the codes of columns first … last−1, one after the
// other, and adds what their errors mean for those behind them in the block:
//
//	t = w + c
//	e = w − q               q by the rule of t
//	c[j] = fma(e, M[k,j], c[j])   for k < j < width
//	loss = fma(D, r·r, loss)      r = t − q in f64, the square is rounded
//
// A weight that is not finite is a 0 without an error, and a target that is
// not finite is the weight itself.
func gptqColumnsRef(r gptqRule, j *gptqColumns, first, last int) {
	lanes := j.lanes
	for k := first; k < last; k++ {
		w, c, e := j.w[k*lanes:][:lanes], j.c[k*lanes:][:lanes], j.e[k*lanes:][:lanes]
		steps, offsets := j.steps[j.params[k]:][:lanes], j.offsets[j.params[k]:][:lanes]
		for i := range lanes {
			t, finite := gptqTarget(w[i], c[i])
			var code byte
			var q float32
			if j.book != nil {
				code, q = j.book.code(t, steps[i])
			} else {
				code, q = r.code(t, steps[i], offsets[i])
			}
			j.codes[k*lanes+i] = code
			e[i] = 0
			if finite {
				e[i] = w[i] - q
				d := float64(t) - float64(q)
				j.loss[i] = math.FMA(j.d[k], float64(d*d), j.loss[i])
			}
		}
		for to := k + 1; to < j.width; to++ {
			m, dst := j.m[k*factorBlock+to], j.c[to*lanes:][:lanes]
			for i, x := range e {
				dst[i] = fma32(x, m, dst[i])
			}
		}
	}
}

// gptqTarget is w + c, w where that is not finite, and 0 where w is not.
func gptqTarget(w, c float32) (t float32, finite bool) {
	if math.Float32bits(w)&^signF32 >= infF32 {
		return 0, false
	}
	if t = w + c; math.Float32bits(t)&^signF32 >= infF32 {
		t = w
	}
	return t, true
}

// gptqMovedRef gives the weights of columns first … last−1 as earlier errors
// have moved them, W + C·M⁻¹ with M the square of these columns, into v, which
// has lanes of its own. In f32:
//
//	x = c;  x[j] = fma(−x[k], M[k,j], x[j]) for k < j, k ascending;  v = w + x
//
// with gptqTarget's exceptions, but that a weight that is not finite stays.
func gptqMovedRef(j *gptqColumns, first, last int, v []float32) {
	lanes := j.lanes
	n := last - first
	copy(v[:n*lanes], j.c[first*lanes:])
	for k := range n {
		x := v[k*lanes:][:lanes]
		for to := k + 1; to < n; to++ {
			m, dst := j.m[(first+k)*factorBlock+first+to], v[to*lanes:][:lanes]
			for i := range x {
				dst[i] = fma32(-x[i], m, dst[i])
			}
		}
		for i, w := range j.w[(first+k)*lanes:][:lanes] {
			t, finite := gptqTarget(w, x[i])
			if !finite {
				t = w
			}
			x[i] = t
		}
	}
}
