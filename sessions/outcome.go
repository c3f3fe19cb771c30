package sessions

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"quantscope/kernels"
)

// record records what came of one variant's go at a tensor. The error is one of
// the environment.
func (w *worker) record(ctx context.Context, it *item, s *shot) error {
	e, tap := w.e, &s.got.Tap
	if s.err != nil {
		e.fail(s.variant, it.tensor, e.where(it.tensor)+": "+oneLine(s.err.Error()), 0, 0)
		return nil
	}
	if tap.NaN+tap.Inf > 0 {
		what, err := "", error(nil)
		if it.fp4 != nil {
			what, err = w.nonFiniteFP4(it, tap.NaN, tap.Inf)
		} else {
			what, err = w.nonFinite(ctx, *it, tap.NaN, tap.Inf)
		}
		if err != nil {
			return err
		}
		e.fail(s.variant, it.tensor, e.where(it.tensor)+": "+what, tap.NaN, tap.Inf)
		return nil
	}
	if err := e.keepDigest(it.tensor, it.look.digest); err != nil {
		return err
	}
	tap.SetMoments(it.look.moments)
	if was, ok := e.hadBefore(s.variant, it.tensor); ok {
		now := NewRecord(s.variant, it.tensor, tap)
		if !now.sameFigures(&was) {
			return &ExportError{e.job.export.o.Dir, e.where(it.tensor) + ": quantized again it is not what the session's record says"}
		}
		e.settle(s.variant, it.tensor)
		return nil
	}
	events := []stored{newTapEvent(s.variant, it.tensor, tap, it.look.digest.xxh)}
	if s.got.Effective != "" && s.got.Effective != s.q.Variant.Name {
		events = append(events, newNote(EventFallback, s.variant, it.tensor, note{
			Message:   fmt.Sprintf("%s: %s in place of %s: %s", e.where(it.tensor), s.got.Effective, s.q.Variant.Name, s.got.Why),
			Requested: s.q.Variant.Name, Effective: s.got.Effective, Why: s.got.Why,
		}))
	}
	// In one post: a kill must not keep the record and lose what is said of it.
	e.rec.post(append(events, e.examine(s.variant, it.tensor, &s.q.Variant, tap)...)...)
	e.settle(s.variant, it.tensor)
	return nil
}

// lost is for a tensor that could not be read: a failure in the log, or, where
// the environment or ctx is why, work given back and an error.
func (w *worker) lost(it item, err error) error {
	var broken *readFailure
	if !errors.As(err, &broken) {
		w.e.release(it.tensor, it.variants)
		return err
	}
	for _, v := range it.variants {
		w.e.fail(v, it.tensor, broken.err.Error(), 0, 0)
	}
	return nil
}

// examine looks at a record for what a person should know. What lies in the
// weights rather than in the variant is said with the first variant that is
// measured of a tensor.
func (e *engine) examine(v, t int, variant *Variant, tap *kernels.Tap) (findings []stored) {
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
			Message: fmt.Sprintf("%d of %d block scales %s, which no cosine shows", tap.ScaleLow, tap.Blocks, underflow(variant.Scheme)),
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
	e.mu.Lock()
	e.failed++
	e.mu.Unlock()
	e.settle(v, t)
}

// hadBefore is the record of a tensor that is quantized once more for an export.
func (e *engine) hadBefore(v, t int) (Record, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r, ok := e.again[pair{v, t}]
	return r, ok
}

// where names a tensor in a message: its file and its name.
func (e *engine) where(t int) string {
	return e.job.Tensors[t].File + ": tensor " + strconv.Quote(e.job.Tensors[t].Name)
}

// underflow says what becomes of a block scale that a scheme cannot hold.
func underflow(scheme string) string {
	if f, err := kernels.FormatByName(scheme); err == nil {
		switch f.Scale {
		case "e4m3":
			return "underflow E4M3 and are raised to 2⁻⁹"
		case "e8m0":
			return "underflow E8M0 and are raised to 2⁻¹²⁷"
		}
	}
	return "underflow and are raised to the least that can be stored"
}
