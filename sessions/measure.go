package sessions

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"quantscope/kernels"
)

// pieceBytes is how much of a tensor goes through the kernels at once: little
// enough to stay in a core's second-level cache while every variant has its turn.
const pieceBytes = 1 << 20

// item is a tensor in hand, with the variants that want it.
type item struct {
	tensor   int
	variants []int
	m        kernels.Matrix // without data where it is read in pieces
	look     look           // at the data, where there are some
	fp4      *fp4Item       // what is stored of FP4 codes; nil of floats
}

// look is what is known of a tensor before it is quantized.
type look struct {
	amax    float32 // largest finite magnitude
	digest  digest
	moments kernels.Moments
}

// shot is one variant's go at a tensor.
type shot struct {
	variant int
	q       Quantizer
	pass    *kernels.Pass // nil where Measure does it
	got     Measurement
	err     error  // of this tensor under this variant
	weights int64  // that went through the pass
	stored  bool   // what it leaves is written to the export
	book    uint16 // codebook of the pass
}

// worker measures tensors. What it keeps from one to the next spares garbage.
type worker struct {
	e       *engine
	hash    hasher
	claimed []item
	shots   []shot
	out     kernels.Output
}

// aim sets up the shots of an item.
func (w *worker) aim(it item) {
	w.shots = w.shots[:0]
	for _, v := range it.variants {
		w.shots = append(w.shots, shot{variant: v, q: w.e.quantizer(v).at(it.tensor)})
	}
}

// measure measures one tensor under all variants that want it, if it is still
// what other variants were measured of. The error is one of the environment or
// of ctx; the variants that nothing came of are released then.
func (w *worker) measure(ctx context.Context, it item) error {
	e := w.e
	runtime.Gosched() // whoever draws waits for a processor no longer than a tensor takes
	w.aim(it)
	defer func() {
		for i := range w.shots {
			e.meter.partial.Add(-w.shots[i].weights)
		}
	}()
	inPieces := it.m.Data == nil && it.m.Rows*it.m.Cols > 0
	err := func() error {
		if inPieces && w.needsAmax() {
			var err error
			if it.look, err = w.survey(ctx, it); err != nil {
				return err
			}
		}
		if !inPieces || it.look.digest.known() {
			if err := e.checkDigest(it.tensor, it.look.digest); err != nil {
				return err
			}
		}
		if it.fp4 != nil {
			return w.fp4Moments(&it)
		}
		return w.quantize(ctx, &it, inPieces)
	}()
	var broken *readFailure
	switch {
	case errors.As(err, &broken):
		for _, v := range it.variants {
			e.fail(v, it.tensor, broken.err.Error(), 0, 0)
		}
		return nil
	case err != nil:
		e.release(it.tensor, it.variants)
		return err
	}
	for i := range w.shots {
		s := &w.shots[i]
		if s.q.Spec == nil {
			if err = e.gate.pass(ctx); i == 0 {
				err = nil // a tensor in hand is measured once at least
			}
			switch {
			case err != nil:
			case it.fp4 != nil:
				err = w.recode(ctx, &it, s)
			default:
				w.measureWhole(&it, s)
			}
		}
		if err == nil {
			err = w.record(ctx, &it, s)
		}
		if err != nil {
			for _, s := range w.shots[i:] {
				e.release(it.tensor, []int{s.variant})
			}
			return err
		}
	}
	return nil
}

// measureWhole is for a variant that takes a matrix as a whole.
func (w *worker) measureWhole(it *item, s *shot) {
	start := time.Now()
	s.got, s.err = safely(s.q, it.m)
	s.weights = int64(it.m.Rows) * int64(it.m.Cols)
	w.e.meter.passed(s.variant, int64(len(it.m.Data)), s.weights, time.Since(start))
}

// needsAmax says whether a shot wants to know the largest magnitude first.
func (w *worker) needsAmax() bool {
	for i := range w.shots {
		if q := &w.shots[i].q; q.Spec != nil && q.Spec.NeedsAmax() {
			return true
		}
	}
	return false
}

// examined is look at rows that are in memory, piece by piece, so that each is
// still in the cache for what comes after the digest.
func (w *worker) examined(m kernels.Matrix, amax bool, l *look) error {
	rowBytes := m.Cols * m.Element.Size()
	if rowBytes == 0 {
		return nil
	}
	rows := max(pieceBytes/rowBytes, 1)
	for data := m.Data; len(data) > 0; {
		piece := m
		piece.Data = data[:min(rows*rowBytes, len(data))]
		piece.Rows = len(piece.Data) / rowBytes
		data = data[len(piece.Data):]
		w.hash.add(piece.Data)
		if err := w.e.set.Moments(piece, &l.moments); err != nil {
			return err
		}
		if !amax {
			continue
		}
		a, err := w.e.set.AbsMax(piece)
		if err != nil {
			return err
		}
		l.amax = max(l.amax, a)
	}
	return nil
}

// survey reads a tensor in pieces only to look at it.
func (w *worker) survey(ctx context.Context, it item) (look, error) {
	var l look
	w.hash.begin(w.e.digest(it.tensor).sha != 0)
	err := w.eachPiece(ctx, it, w.rowsAtOnce(it.m, 1), func(_ int, data []byte) error {
		return w.examined(rowsIn(it.m, data), true, &l)
	})
	l.digest = w.hash.digest()
	return l, err
}

// rowsIn are some rows of a matrix, whose elements data holds.
func rowsIn(m kernels.Matrix, data []byte) kernels.Matrix {
	m.Data = data
	if rowBytes := m.Cols * m.Element.Size(); rowBytes > 0 {
		m.Rows = len(data) / rowBytes
	}
	return m
}

// rowsAtOnce is how many rows make a piece: a multiple of what the passes want.
func (w *worker) rowsAtOnce(m kernels.Matrix, multiple int) int {
	rowBytes := max(m.Cols*m.Element.Size(), 1)
	return max(w.e.piece/rowBytes/multiple, 1) * multiple
}

// quantize takes the tensor through the passes of all shots, piece by piece.
// What goes wrong with one shot is in it.
func (w *worker) quantize(ctx context.Context, it *item, inPieces bool) error {
	multiple := 1
	passes := false
	for i := range w.shots {
		s := &w.shots[i]
		if s.q.Spec == nil {
			continue
		}
		amax, err := s.q.sharing(w.e.job).amax(ctx, s.q.Spec.Format, it.tensor, it.look.amax)
		if err != nil {
			return w.e.readError(ctx, err)
		}
		spec := *s.q.Spec
		if s.q.Codebook {
			book, err := w.codebook(ctx, *it, spec, amax)
			if err != nil {
				return err
			}
			spec.Use(book)
		}
		if s.pass, s.err = w.e.set.Begin(spec, it.m.Element, it.m.Rows, it.m.Cols, amax); s.err != nil {
			continue
		}
		passes, s.book = true, spec.Codebook
		s.stored = w.e.job.export.wants(s.q.Variant.Name, it.tensor)
		multiple = lcm(multiple, s.pass.RowMultiple())
	}
	multiple = lcm(multiple, w.e.job.export.rowMultiple())
	var streamed error
	if passes {
		if inPieces {
			w.hash.begin(w.e.digest(it.tensor).sha != 0)
		}
		rows := w.rowsAtOnce(it.m, multiple)
		surveyed := it.look.digest.known()
		streamed = w.eachPiece(ctx, *it, rows, func(from int, data []byte) error {
			if inPieces {
				w.hash.add(data)
			}
			if inPieces && !surveyed {
				if err := w.e.set.Moments(rowsIn(it.m, data), &it.look.moments); err != nil {
					return err
				}
			}
			return w.rows(it.tensor, from, it.m.Cols*it.m.Element.Size(), data)
		})
	}
	for i := range w.shots {
		s := &w.shots[i]
		if s.pass == nil {
			continue
		}
		tap, err := finishPass(s) // in any case: it gives back what it holds
		if s.got.Tap = tap; s.err == nil {
			s.err = err
		}
	}
	if streamed != nil || !inPieces || !passes {
		return streamed
	}
	d := w.hash.digest()
	if it.look.digest.differs(d) { // between the two readings
		return w.e.weightsChanged(it.tensor)
	}
	it.look.digest = d
	return w.e.checkDigest(it.tensor, it.look.digest)
}

// codebook chooses the codes that a tensor is limited to, in a reading of its own.
func (w *worker) codebook(ctx context.Context, it item, spec kernels.Spec, amax float32) (kernels.Recoding, error) {
	search, err := w.e.set.BeginCodebook(spec, it.m.Element, it.m.Cols, amax, nil)
	if err != nil {
		return kernels.Recoding{}, nil // a pass says the same
	}
	err = w.eachPiece(ctx, it, w.rowsAtOnce(it.m, 1), func(_ int, data []byte) error { return search.Rows(data) })
	return search.Best(), err
}

// rows takes some rows through all passes.
func (w *worker) rows(t, from, rowBytes int, data []byte) error {
	x := w.e.job.export
	for i := range w.shots {
		s := &w.shots[i]
		if s.pass == nil || s.err != nil {
			continue
		}
		start := time.Now()
		var out *kernels.Output
		if s.stored {
			out = w.output(s.pass, len(data)/rowBytes)
		}
		if s.err = passRows(s, data, out); s.err != nil {
			continue
		}
		n := int64(len(data) / elementSize(w.e.job.Tensors[t].DType))
		s.weights += n
		w.e.meter.passed(s.variant, int64(len(data)), n, time.Since(start))
		if out == nil {
			continue
		}
		if err := x.writer.StoreMade(x.matrix(t), from, out, kernels.Spec{Global: s.pass.Global(), Codebook: s.book}); err != nil {
			return exportFailure(x, err)
		}
	}
	return nil
}

// passRows is one step of a pass; a panic of a kernel is an error of this tensor.
func passRows(s *shot, data []byte, out *kernels.Output) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error in %s: %v", s.q.Variant.Name, p)
		}
	}()
	return s.pass.Rows(data, out)
}

func finishPass(s *shot) (tap kernels.Tap, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error in %s: %v", s.q.Variant.Name, p)
		}
	}()
	return s.pass.Finish()
}

func lcm(a, b int) int {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
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
