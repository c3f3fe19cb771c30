package calibrate

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"quantscope/analysis/candidate"
	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/codes"
	"quantscope/quant/method"
)

// inputs are the moments of one input made ready for the matrices that share it.
type inputs struct {
	*Moments
	importance []float32 // mean square of each column
	factor     *kernels.Factor
	about      kernels.Diagnosis
	why        string // why nothing can be calibrated by it; "" where it can
}

// ready makes moments ready. What they cannot serve is in why.
func ready(set kernels.Set, v method.Variant, damp float64, m *Moments, expert bool, threads int) (*inputs, error) {
	in := &inputs{Moments: m}
	switch {
	case m.Rows == 0 && expert:
		in.why = "no token of the calibration text was routed to it"
	case m.Rows == 0:
		in.why = "no token of the calibration text reached it"
	}
	if in.why != "" {
		return in, nil
	}
	if v.Importance {
		in.importance = make([]float32, m.N)
		live := false
		for c, s := range m.Sum2 {
			x := float32(s / float64(m.Rows))
			if s < 0 || math.IsNaN(s) || s > math.MaxFloat32 {
				return nil, fmt.Errorf("calibrate: %s: the mean square of column %d is %v", m.At, c, s/float64(m.Rows))
			}
			in.importance[c] = x
			live = live || x > 0
		}
		if !live {
			in.why = fmt.Sprintf("all of its inputs are 0 in %d tokens", m.Rows)
			return in, nil
		}
	}
	if !v.NeedsHessian() {
		return in, nil
	}
	o := kernels.FactorOptions{Damp: damp, Threads: threads}
	if v.ActOrder {
		o.Order = falling(m.H)
	}
	var err error
	if in.factor, in.about, err = set.FactorizeDiagnosed(m.H, o); errors.Is(err, kernels.ErrNoData) {
		in.why = fmt.Sprintf("all of its inputs are 0 in %d tokens", m.Rows)
		return in, nil
	} else if err != nil {
		return nil, fmt.Errorf("calibrate: %s: %w", m.At, err)
	}
	return in, nil
}

// falling is the order of columns by the Hessian's diagonal, the largest first and
// of equal ones the first.
func falling(h kernels.Dense) []int {
	order := make([]int, h.Cols)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := h.Data[a*h.Stride+a], h.Data[b*h.Stride+b]
		switch {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	return order
}

// making is one matrix on its way into codes.
type making struct {
	set     kernels.Set
	v, base method.Variant
	t       *target
	w       kernels.Matrix // its weights, as stored or in f32
	lent    bool           // as stored
	amax    float32        // of the matrix or of those that share its global scale, where a spec needs it
	in      *inputs        // nil where it wants none
	threads int
}

// made is what became of a matrix.
type made struct {
	codes  codes.Matrix
	tap    kernels.Tap
	trade  Trade
	raised int // how often its damping was raised
}

// sign writes down in the codes what they are.
func (m *made) sign(t *target, rows, cols int) (*made, error) {
	c := &m.codes
	c.Name, c.Rows, c.Cols = t.name, rows, cols
	c.Effective, c.Why = m.trade.Effective, m.trade.Why
	f := figures{Trade: m.trade, Raised: m.raised}
	if !t.kept {
		f.Tap = &m.tap
	}
	var err error
	if c.Figures, err = json.Marshal(f); err != nil { // JSON has no infinities, which a record of absurd weights may hold
		f.Tap = nil
		c.Figures, err = json.Marshal(f)
	}
	if err != nil {
		return nil, fmt.Errorf("calibrate: %s: %w", t.name, err)
	}
	return m, nil
}

// asStored is what becomes of a matrix that cannot be quantized at all.
func asStored(t *target, rows, cols int) (*made, error) {
	m := &made{trade: Trade{
		Effective: t.as, Why: t.why, N: cols, Rank: -1, Cond: undefined, DampShare: undefined, Codes: 0,
		Rel2: undefined, BaseRel2: undefined, Out2: undefined, BaseOut2: undefined,
	}}
	return m.sign(t, rows, cols)
}

// newMaking reads the weights of a matrix; they are valid as long as w is.
func newMaking(set kernels.Set, v, base method.Variant, t *target, rows, cols int, w model.Weight) (*making, error) {
	if w.Rows != rows || w.Cols != cols {
		return nil, fmt.Errorf("calibrate: %s is %d×%d where %d×%d was planned: %w", t.name, w.Rows, w.Cols, rows, cols, kernels.ErrShape)
	}
	k := &making{set: set, v: v, base: base, t: t}
	if k.w, k.lent = w.Operand.Stored(); k.lent {
		return k, nil
	}
	x := make([]float32, rows*cols)
	if err := set.ExpandRows(x, w.Operand, 0); err != nil {
		return nil, fmt.Errorf("calibrate: %s: %w", t.name, err)
	}
	k.w = kernels.Matrix{Element: kernels.F32, Rows: rows, Cols: cols, Data: make([]byte, 4*len(x))}
	if err := set.EncodeFloats(k.w.Data, kernels.F32, x); err != nil {
		return nil, fmt.Errorf("calibrate: %s: %w", t.name, err)
	}
	return k, nil
}

// run chooses the codes. What the inputs cannot serve stays at the baseline, with
// the reason.
func (k *making) run() (*made, error) {
	out, err := k.choose()
	if err != nil {
		return nil, fmt.Errorf("calibrate: %s: %w", k.t.name, err)
	}
	return out.sign(k.t, k.w.Rows, k.w.Cols)
}

func (k *making) choose() (*made, error) {
	plain, tap, err := k.encode(k.base, nil)
	if err != nil {
		return nil, err
	}
	t := Trade{
		Effective: k.v.Name, N: k.w.Cols, Rank: -1, Cond: undefined, DampShare: undefined, Codes: int64(k.w.Rows) * int64(k.w.Cols),
		Rel2: Float(tap.Rel2()), BaseRel2: Float(tap.Rel2()), Out2: undefined, BaseOut2: undefined,
	}
	if k.t.reached {
		t.Input = k.t.input.String()
	}
	if k.in != nil {
		k.about(&t)
	}
	why := k.t.why
	if why == "" && !k.t.chosen {
		why = k.in.why
	}
	if why != "" || k.t.chosen {
		return k.stays(plain, tap, t, why)
	}
	chosen, tap, err := k.calibrated()
	if errors.Is(err, kernels.ErrUnsupported) { // of this matrix: the variant was checked
		return k.stays(plain, tap, t, err.Error())
	}
	if err != nil {
		return nil, err
	}
	t.Rel2 = Float(tap.Rel2())
	if t.Changed, err = changed(k.base.Scheme, &plain, &chosen); err != nil {
		return nil, err
	}
	if err := k.outputErrors(&t, &plain, &chosen); err != nil {
		return nil, err
	}
	m := &made{codes: chosen, tap: tap, trade: t}
	if k.in.factor != nil {
		m.raised = k.in.factor.Raised()
	}
	return m, nil
}

// about fills in what the inputs are.
func (k *making) about(t *Trade) {
	t.Tokens = k.in.Rows
	if k.in.factor == nil {
		return
	}
	d := &k.in.about
	t.Rank, t.Cond, t.DampShare, t.Dead = d.Rank, Float(d.Cond), Float(d.DampShare), d.Dead
	if int64(t.Rank) > k.in.Rows { // that many at most, whatever rounding adds
		t.Rank = int(k.in.Rows)
	}
}

// stays leaves a matrix at the baseline.
func (k *making) stays(plain codes.Matrix, tap kernels.Tap, t Trade, why string) (*made, error) {
	t.Effective, t.Why, t.Chosen = k.base.Name, why, k.t.chosen
	if k.in != nil && k.in.why == "" {
		if err := k.outputErrors(&t, &plain, &plain); err != nil {
			return nil, err
		}
	}
	return &made{codes: plain, tap: tap, trade: t}, nil
}

// encode quantizes the matrix by a variant without a Hessian.
func (k *making) encode(v method.Variant, importance []float32) (codes.Matrix, kernels.Tap, error) {
	spec, err := v.Prepared(k.set, kernels.StoredOperand(k.w), k.amax, importance)
	if err != nil {
		return codes.Matrix{}, kernels.Tap{}, err
	}
	p, err := v.BeginPrepared(k.set, spec, k.w.Element, k.w.Rows, k.w.Cols, k.amax, importance)
	if err != nil {
		return codes.Matrix{}, kernels.Tap{}, err
	}
	out := room(p, k.w.Rows)
	global := p.Global()
	rowsErr := p.Rows(k.w.Data, &out)
	tap, err := p.Finish() // in any case: it gives back what it holds
	if rowsErr != nil {
		err = rowsErr
	}
	return k.matrix(&out, global, spec.Codebook), tap, err
}

// matrix is what became of the weights, before it is signed.
func (k *making) matrix(out *kernels.Output, global float32, book uint16) codes.Matrix {
	return codes.Matrix{Rows: k.w.Rows, Cols: k.w.Cols, Codes: out.Codes, Scales: out.Scales, Mins: out.Mins, Global: global, Codebook: book}
}

// room is what the codes of so many rows take.
func room(p *kernels.Pass, rows int) kernels.Output {
	s := p.Sizes(rows)
	return kernels.Output{Codes: make([]byte, s.Codes), Scales: make([]byte, s.Scales), Mins: make([]byte, s.Mins)}
}

// hookCalibrated lets a test put another calibrator in place.
var hookCalibrated func(k *making) (codes.Matrix, kernels.Tap, error)

// calibrated chooses codes by what goes in.
func (k *making) calibrated() (codes.Matrix, kernels.Tap, error) {
	switch {
	case hookCalibrated != nil:
		return hookCalibrated(k)
	case !k.v.NeedsHessian():
		return k.encode(k.v, k.in.importance)
	}
	spec, err := k.v.Prepared(k.set, kernels.StoredOperand(k.w), k.amax, k.in.importance)
	if err != nil {
		return codes.Matrix{}, kernels.Tap{}, err
	}
	plain := k.base.Spec // as large, and without importance
	plain.Codebook = spec.Codebook
	p, err := k.base.BeginPrepared(k.set, plain, k.w.Element, k.w.Rows, k.w.Cols, k.amax, nil)
	if err != nil {
		return codes.Matrix{}, kernels.Tap{}, err
	}
	out := room(p, k.w.Rows)
	_, _ = p.Finish() // no rows came, which is an error, and was meant
	r, err := k.set.GPTQ(kernels.StoredOperand(k.w), k.in.factor, kernels.GPTQOptions{
		Spec: spec, Importance: k.in.importance, Amax: k.amax, Static: k.v.ActOrder, Threads: k.threads,
	}, &out)
	return k.matrix(&out, r.Global, spec.Codebook), r.Tap, err
}

// outputErrors fills in what the baseline and the chosen codes do to the outputs,
// under one and the same Hessian without damping, or its diagonal where there is no
// other.
func (k *making) outputErrors(t *Trade, plain, chosen *codes.Matrix) error {
	rows := spread(k.w.Rows, k.w.Cols)
	if rows != nil {
		t.OutRows = len(rows)
	}
	var err error
	if t.BaseOut2, err = k.outputError(plain, rows); err != nil || chosen == plain {
		t.Out2 = t.BaseOut2
		return err
	}
	t.Out2, err = k.outputError(chosen, rows)
	return err
}

// outputError is tr((W−Q)H(W−Q)ᵀ)/tr(WHWᵀ) over rows; nil: all.
func (k *making) outputError(m *codes.Matrix, rows []int) (Float, error) {
	c := *m
	c.Name, c.Rows, c.Cols = k.t.name, k.w.Rows, k.w.Cols
	q, err := candidate.CodedWeight(k.set, k.base.Spec, &c)
	if err != nil {
		return 0, err
	}
	w := kernels.StoredOperand(k.w)
	var e2, w2 float64
	if k.in.H.Data != nil {
		e2, w2, err = k.set.OutputError(k.in.H, w, q.Operand, rows, k.threads)
	} else {
		e2, w2, err = diagonalError(k.set, k.in.Sum2, w, q.Operand, rows)
	}
	if err != nil {
		return 0, err
	}
	if e2 == 0 {
		return 0, nil
	}
	return Float(e2 / w2), nil
}

// undefined is a figure that was not measured.
var undefined = Float(math.NaN())
