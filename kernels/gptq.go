package kernels

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// GPTQ (Frantar et al., GPTQ: Accurate Post-Training Quantization for Generative
// Pre-trained Transformers, 2022) chooses the codes of a row so that
// tr((W−Q)(H+λI)(W−Q)ᵀ) is small, H being the second moments of the inputs: column
// after column is rounded, and the weights that are left are moved to
// make up for the error. LDLQ (Chee et al., QuIP: 2-Bit Quantization of Large
// Language Models With Guarantees, 2023) is the same without an inverse,
// and is what stands here. With H+λI = M·D·Mᵀ, M unit upper triangular, and E =
// W−Q,
//
//	tr(E(H+λI)Eᵀ) = Σ_k D_k·‖e_k + Σ_{j<k} e_j·M[j,k]‖² = Σ_k D_k·‖t_k − q_k‖²
//
// where t_k = w_k + Σ_{j<k} e_j·M[j,k]: the code of column k rounds its target t_k.
//
// Columns come in blocks of factorBlock. What the errors of earlier blocks add
// to a block's targets is one matrix product, E·M; within the block it is added
// column by column. Rows know nothing of each other: strips of them go through
// all blocks by themselves, so that threads make no difference.
//
// A group whose parameters are not static takes them from its weights as
// earlier errors have moved them, which GPTQ keeps and LDLQ does not: minimizing
// the loss over what follows the columns F gives W_R + E_F·A_FR·(A_RR)⁻¹, A =
// H+λI, and with the factors A_FR·(A_RR)⁻¹ = M_FR·(M_RR)⁻¹, of which the
// first columns, a group G, are W_G + E_F·M_FG·(M_GG)⁻¹.

// GPTQOptions are how codes are chosen.
type GPTQOptions struct {
	Spec Spec // its Method chooses the parameters of a group
	// Importance are the second moments of the columns, for the method imatrix.
	Importance []float32
	Amax       float32 // of the whole matrix, or of those that share a global scale, where Spec.NeedsAmax
	// Static groups take their parameters from the weights as they are, all before
	// the first column; else from the weights that earlier errors moved. A factor
	// with an order needs them. Formats with a scale a row have no others.
	Static  bool
	Threads int
}

// GPTQResult is what became of a matrix.
type GPTQResult struct {
	Global float32 // as Pass.Global
	Tap    Tap     // of the weights against what the codes decode to; see TapOf
	// OutE2 is tr((W−Q)·H·(W−Q)ᵀ), without the damping: the loss less λ·‖W−Q‖².
	// Its error is some 1e-6 of the loss, which is much of it where the damping is
	// most of the loss; OutputError has no such part. It is never negative.
	OutE2 float64
}

// errOrder is what GPTQ says of a factor with an order and groups that are not
// static.
var errOrder = errors.New("an order of columns needs static groups")

// gptqFormats are the formats that GPTQ chooses codes of.
func gptqFormats() []string {
	var names []string
	for _, f := range formats {
		if _, ok := quantizers[f.Name]; ok && hasGPTQ(f) {
			names = append(names, f.Name)
		}
	}
	return names
}

// hasGPTQ says whether codes of a format are rounded to a grid that a block's
// parameters fix, along rows.
func hasGPTQ(f Format) bool {
	return f.Name == "nvfp4" || f.Name == "mxfp4" || f.Element == "int4" || f.Codebook
}

// GPTQ chooses the codes of w, rows×n, so that the output error under the
// Hessian is small; out has the lengths of Pass.Sizes for all rows, out nil or a
// slice of it nil is not wanted. With a diagonal Hessian, and in a column
// without influence, they are those of a Pass under the same parameters. A
// weight that is not finite gets the code that a Pass gives it, and its error
// counts as 0.
func (s Set) GPTQ(w Operand, f *Factor, o GPTQOptions, out *Output) (GPTQResult, error) {
	s = s.orReference()
	j, err := s.newGPTQ(w, f, o, out)
	if err != nil {
		return GPTQResult{}, err
	}
	return j.run()
}

// newGPTQ checks what GPTQ was given.
func (s Set) newGPTQ(w Operand, f *Factor, o GPTQOptions, out *Output) (*gptqJob, error) {
	q, format, err := o.Spec.check() // which completes it
	if err != nil {
		return nil, err
	}
	name := format.Name
	if !hasGPTQ(format) {
		return nil, fmt.Errorf("%s: gptq: %w (known: %s)", name, ErrUnsupported, strings.Join(gptqFormats(), ", "))
	}
	if err := w.check(); err != nil {
		return nil, fmt.Errorf("%s: gptq: %w", name, err)
	}
	rows, cols := w.Dims()
	switch {
	case f == nil || f.n != cols:
		n := 0
		if f != nil {
			n = f.n
		}
		return nil, fmt.Errorf("%s: gptq: a hessian of %d columns for a matrix of %d: %w", name, n, cols, ErrShape)
	case w.transposed:
		return nil, fmt.Errorf("%s: gptq: of a transpose: %w", name, ErrUnsupported)
	case f.order != nil && !o.Static && format.Scope == ScopeGroup && !format.Codebook:
		return nil, fmt.Errorf("%s: gptq: %w", name, errOrder)
	case o.Importance != nil && len(o.Importance) != cols:
		return nil, fmt.Errorf("%s: gptq: importance of %d columns for %d: %w", name, len(o.Importance), cols, ErrShape)
	}
	if out == nil {
		out = &Output{}
	}
	j := &gptqJob{set: s, w: w, f: f, o: o, params: o.Spec, format: format, rows: rows, cols: cols, group: format.Group, rule: gptqRuleOf(format, o.Spec.Convention)}
	j.weighs = slices.Contains(q.weighted, o.Spec.Method)
	j.static = o.Static || format.Scope != ScopeGroup || format.Codebook
	if format.Scope != ScopeGroup {
		j.group = max(cols, 1)
	}
	if o.Spec.Codebook != 0 {
		j.book = newGPTQBook(o.Spec.Codebook)
	}
	j.scaleBytes, j.minBytes = q.stored(format, o.Spec.Convention)
	// A pass over no rows checks the rest: shape, amax, global scale, importance.
	p, err := j.begin(F32, rows, cols, o.Importance)
	if err != nil {
		return nil, err
	}
	j.global = p.Global()
	want := p.Sizes(rows)
	_ = p.impl.finish()
	if base, ok := CodebookBase(name); ok { // whose scales it has
		j.params = Spec{Format: base, Convention: o.Spec.Convention, Global: o.Spec.Global}
	}
	for _, x := range []struct {
		what       string
		wanted     bool
		have, want int
	}{
		{"code bytes", out.Codes != nil, len(out.Codes), want.Codes},
		{"scale bytes", out.Scales != nil, len(out.Scales), want.Scales},
		{"bytes of minima", out.Mins != nil, len(out.Mins), want.Mins},
		{"row errors", out.RowE2 != nil, len(out.RowE2), rows},
		{"row norms", out.RowW2 != nil, len(out.RowW2), rows},
	} {
		if x.wanted && x.have != x.want {
			return nil, fmt.Errorf("%s: gptq: %d %s for %d×%d, want %d: %w", name, x.have, x.what, rows, cols, x.want, ErrShape)
		}
	}
	// The record wants them in any case.
	j.out = &Output{Codes: orMake(out.Codes, want.Codes), Scales: orMake(out.Scales, want.Scales), Mins: orMake(out.Mins, want.Mins), RowE2: out.RowE2, RowW2: out.RowW2}
	j.loss = make([]float64, rows)
	return j, nil
}

// orMake is s, or a slice of n where there is none.
func orMake(s []byte, n int) []byte {
	if s == nil {
		return make([]byte, n)
	}
	return s
}

// run goes through the strips. A strip that is done is recorded by whoever
// finds it to be the next one, since a record takes rows in their order.
func (j *gptqJob) run() (GPTQResult, error) {
	record, err := j.set.beginGiven(j.o.Spec, j.w, j.out, j.global, j.o.Amax)
	if err != nil {
		return GPTQResult{}, err
	}
	strips := ceilDiv(j.rows, gptqStrip)
	errs := make([]error, strips)
	queue := inOrder{ready: make([]bool, strips)}
	eachTask(threadCount(j.o.Threads), strips, func(i int) {
		if j.cols > 0 {
			s := gptqSpaces.Get().(*gptqSpace)
			errs[i] = j.strip(s, i*gptqStrip, min(gptqStrip, j.rows-i*gptqStrip))
			gptqSpaces.Put(s)
		}
		queue.done(i, func(next int) {
			if errs[next] == nil {
				errs[next] = record.rows(next*gptqStrip, min(gptqStrip, j.rows-next*gptqStrip))
			}
		})
	})
	tap := record.tap.finish()
	for _, err := range errs {
		if err != nil {
			return GPTQResult{}, fmt.Errorf("%s: gptq: %w", j.format.Name, err)
		}
	}
	sum := 0.0
	for _, x := range j.loss {
		sum += x
	}
	return GPTQResult{Global: j.global, Tap: tap, OutE2: max(0, sum-j.f.lambda*tap.SumE2)}, nil
}

// inOrder calls a function for each task in their order, one call at a time.
type inOrder struct {
	mu    sync.Mutex
	ready []bool
	next  int
	busy  bool
}

// done says that task i is. It calls f for the tasks whose turn has come,
// unless another goroutine is at it.
func (q *inOrder) done(i int, f func(task int)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ready[i] = true
	if q.busy {
		return
	}
	q.busy = true
	for q.next < len(q.ready) && q.ready[q.next] {
		at := q.next
		q.mu.Unlock()
		f(at)
		q.mu.Lock()
		q.next++
	}
	q.busy = false
}
