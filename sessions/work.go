package sessions

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"

	"quantscope/kernels"
)

// item is a tensor that was read, with the variants that want it.
type item struct {
	tensor   int
	m        kernels.Matrix
	buf      []byte
	variants []int
	digest   uint64 // of m's bytes; a worker makes it
}

// measureAll measures what is to do now. It returns when that is done, or soon
// after ctx ended. The error is one of the environment.
func (e *engine) measureAll(ctx context.Context) error {
	select {
	case <-e.left: // what a cancelled run left behind is given back before a new one claims
	case <-ctx.Done():
		return nil
	}
	// As many tensors wait as are being worked on, within the pool's budget.
	items := make(chan item, e.threads)
	var readErr error
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(items)
		readErr = e.read(ctx, items)
	})
	for range e.threads {
		wg.Go(func() {
			for it := range items {
				e.work1(ctx, it)
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		wg.Wait()
		close(ended)
	}()
	e.left = ended
	select {
	case <-ended:
		return readErr
	case <-ctx.Done():
	}
	select {
	case <-ended:
		return readErr
	case <-e.clock.After(graceAfterCancel):
		return nil
	}
}

// read prefetches tensors in file order until nothing is to do. Variants that
// were added meanwhile are had in the next pass.
func (e *engine) read(ctx context.Context, items chan<- item) error {
	for again := true; again; {
		again = false
		for t := range e.job.Tensors {
			vs := e.claim(t)
			if len(vs) == 0 {
				continue
			}
			again = true
			if err := e.fetch(ctx, t, vs, items); err != nil {
				if ctx.Err() != nil {
					return nil // cancelled, not broken
				}
				return err
			}
		}
	}
	return nil
}

// fetch reads one tensor and hands it to the workers. A tensor that cannot be
// read is a failure in the log; the error is one of the environment, or ctx's.
func (e *engine) fetch(ctx context.Context, t int, vs []int, items chan<- item) error {
	if err := e.gate.pass(ctx); err != nil {
		e.release(t, vs)
		return err
	}
	need := e.job.Source.Need(t)
	buf, err := e.pool.Get(ctx, need)
	if err != nil {
		e.release(t, vs)
		return err
	}
	m, err := e.job.Source.Read(ctx, t, buf)
	if err != nil {
		e.pool.Put(buf)
		switch {
		case ctx.Err() != nil:
			e.release(t, vs)
			return ctx.Err()
		case gone(err):
			e.release(t, vs)
			return &EnvError{Path: e.job.Meta.SourcePath, Reason: "the source is gone", Err: err}
		}
		for _, v := range vs {
			e.fail(v, t, err.Error(), 0, 0)
		}
		return nil
	}
	select {
	case items <- item{tensor: t, m: m, buf: buf, variants: vs}:
		return nil
	case <-ctx.Done():
		e.pool.Put(buf)
		e.release(t, vs)
		return ctx.Err()
	}
}

// work1 measures one tensor under all variants that want it, if it is still what
// other variants were measured of.
func (e *engine) work1(ctx context.Context, it item) {
	defer e.pool.Put(it.buf)
	it.digest = weightsDigest(it.m.Data)
	if err := e.checkDigest(it.tensor, it.digest); err != nil {
		e.release(it.tensor, it.variants)
		e.stop(err)
		return
	}
	for i, v := range it.variants {
		if e.gate.pass(ctx) != nil {
			e.release(it.tensor, it.variants[i:])
			return
		}
		e.measure(v, it)
	}
}

// measure measures one tensor under one variant and records what came of it.
func (e *engine) measure(v int, it item) {
	q := e.quantizer(v)
	got, err := safely(q, it.m)
	if err != nil {
		e.fail(v, it.tensor, e.where(it.tensor)+": "+oneLine(err.Error()), 0, 0)
		return
	}
	if got.Tap.NaN+got.Tap.Inf > 0 {
		e.fail(v, it.tensor, e.where(it.tensor)+": "+nonFinite(it.m, got.Tap.NaN, got.Tap.Inf), got.Tap.NaN, got.Tap.Inf)
		return
	}
	if err := e.keepDigest(it.tensor, it.digest); err != nil {
		e.release(it.tensor, []int{v})
		e.stop(err)
		return
	}
	events := []stored{newTapEvent(v, it.tensor, &got.Tap, it.digest)}
	if got.Effective != "" && got.Effective != q.Variant.Name {
		events = append(events, newNote(EventFallback, v, it.tensor, note{
			Message:   fmt.Sprintf("%s: %s in place of %s: %s", e.where(it.tensor), got.Effective, q.Variant.Name, got.Why),
			Requested: q.Variant.Name, Effective: got.Effective,
		}))
	}
	// In one post: a kill must not keep the record and lose what is said of it.
	e.rec.post(append(events, e.examine(v, it.tensor, &got.Tap)...)...)
	e.settle(v, it.tensor)
}

// examine looks at a record for what a person should know. What lies in the
// weights rather than in the variant is said with the first variant that is
// measured of a tensor.
func (e *engine) examine(v, t int, tap *kernels.Tap) (findings []stored) {
	find := func(n note) {
		n.Message = e.where(t) + ": " + n.Message
		findings = append(findings, newNote(EventFinding, v, t, n))
	}
	first := e.firstOf(t)
	switch {
	case tap.SumW2 == 0 && tap.Blocks > 0:
		if first {
			find(note{Message: "every weight is zero", Code: "zero-matrix"})
		}
	case tap.SumW2 > 0 && tap.SumQ2 == 0:
		find(note{Message: "every weight became zero", Code: "all-zero"})
	case identityBroken(tap):
		gap, bound := Figure(tap.IdentityGap()), Figure(identityBound(tap))
		find(note{
			Message: fmt.Sprintf("rel2 and cosine contradict one another by %.3g (rounding explains %.3g)", float64(gap), float64(bound)),
			Code:    "identity-gap", Value: &gap, Bound: &bound,
		})
	}
	if tap.ScaleLow > 0 && first {
		find(note{
			Message: fmt.Sprintf("%d of %d block scales underflow E4M3 and are raised to 2⁻⁹, which no cosine shows", tap.ScaleLow, tap.Blocks),
			Code:    "scale-underflow",
		})
	}
	return findings
}

// firstOf says whether no variant has been measured of a tensor yet.
func (e *engine) firstOf(t int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ws := range e.work {
		if ws[t] == settledWork {
			return false
		}
	}
	return true
}

// fail records that a tensor could not be measured.
func (e *engine) fail(v, t int, message string, nan, inf int64) {
	e.rec.note(EventFailed, v, t, note{Message: message, NaN: nan, Inf: inf})
	e.settle(v, t)
}

// where names a tensor in a message: its file and its name.
func (e *engine) where(t int) string {
	return e.job.Tensors[t].File + ": tensor " + strconv.Quote(e.job.Tensors[t].Name)
}

// safely measures; a panic of a kernel is an error of this tensor.
func safely(q Quantizer, m kernels.Matrix) (got Measurement, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error in %s: %v", q.Variant.Name, p)
		}
	}()
	if q.Measure == nil {
		return got, errors.New("variant has no quantizer")
	}
	return q.Measure(m)
}

// nonFinite says how many weights are not finite and where the first of each
// kind is.
func nonFinite(m kernels.Matrix, nan, inf int64) string {
	var parts []string
	for _, k := range []struct {
		word string
		n    int64
		is   func(float32) bool
	}{
		{"NaN", nan, func(f float32) bool { return f != f }},
		{"Inf", inf, func(f float32) bool { return math.IsInf(float64(f), 0) }},
	} {
		if k.n == 0 {
			continue
		}
		s := k.word
		if k.n > 1 {
			s = fmt.Sprintf("%d %s, the first", k.n, k.word)
		}
		if row, col, ok := firstElement(m, k.is); ok {
			s += fmt.Sprintf(" at [%d,%d]", row, col)
		}
		parts = append(parts, s)
	}
	return "weights are not finite: " + strings.Join(parts, "; ")
}

// firstElement finds the first element, in row-major order, of which is is true.
func firstElement(m kernels.Matrix, is func(float32) bool) (row, col int, ok bool) {
	for i := range m.Rows * m.Cols {
		if is(element(m, i)) {
			return i / m.Cols, i % m.Cols, true
		}
	}
	return 0, 0, false
}

// element is element i of a matrix, NaN and infinities as such. The value of a
// finite f16 element is not exact: only its class is asked for.
func element(m kernels.Matrix, i int) float32 {
	switch m.Element {
	case kernels.F32:
		b := m.Data[4*i:]
		return math.Float32frombits(uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24)
	case kernels.BF16:
		return math.Float32frombits(uint32(m.Data[2*i])<<16 | uint32(m.Data[2*i+1])<<24)
	case kernels.F16:
		bits := uint32(m.Data[2*i]) | uint32(m.Data[2*i+1])<<8
		exp, frac := bits>>10&0x1f, bits&0x3ff
		if exp == 0x1f { // infinity, or NaN with a fraction
			return math.Float32frombits(0x7f800000 | frac<<13)
		}
		return float32(frac)
	}
	return 0
}
