package sessions

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"quantscope/kernels"
	"quantscope/quant/recode"
)

// fp4Item is a matrix of FP4 codes in hand.
type fp4Item struct {
	kernels.FP4
	room []byte // for other codes
}

// readFP4 reads a matrix into buf, which has what its source needs.
func (w *worker) readFP4(ctx context.Context, src *fp4Source, it *item, buf []byte) error {
	e := w.e
	start := e.meter.reads()
	m, err := src.Read(ctx, it.tensor, buf)
	e.meter.read(start, int64(len(m.Data)))
	if err != nil {
		return e.readError(ctx, err)
	}
	it.m = m
	it.fp4 = &fp4Item{src.matrices[it.tensor].FP4(m.Data), buf[len(m.Data):]}
	w.hash.begin(e.digest(it.tensor).sha != 0)
	w.hash.add(m.Data)
	it.look.digest = w.hash.digest()
	return nil
}

// eachFP4 hands decoded rows to f, some at a time. f may end it with an error.
func (w *worker) eachFP4(it *item, f func(first int, rows []float32) error) error {
	if it.m.Rows == 0 || it.m.Cols == 0 {
		return nil
	}
	n := max(pieceBytes/(4*it.m.Cols), 1)
	rows := make([]float32, min(n, it.m.Rows)*it.m.Cols)
	for first := 0; first < it.m.Rows; first += n {
		part := rows[:min(n, it.m.Rows-first)*it.m.Cols]
		if err := recode.Rows(part, &it.fp4.FP4, first); err != nil {
			return err
		}
		if err := f(first, part); err != nil {
			return err
		}
	}
	return nil
}

// fp4Moments looks at the weights that FP4 codes stand for.
func (w *worker) fp4Moments(it *item) error {
	var data []byte
	return w.eachFP4(it, func(_ int, rows []float32) error {
		data = room(data, 4*len(rows))
		if err := w.e.set.EncodeFloats(data, kernels.F32, rows); err != nil {
			return err
		}
		return w.e.set.Moments(kernels.Matrix{Element: kernels.F32, Rows: 1, Cols: len(rows), Data: data}, &it.look.moments)
	})
}

// recode is one variant's go at a matrix of FP4 codes. What goes wrong with it is in the
// shot; an error is one of the export.
func (w *worker) recode(ctx context.Context, it *item, s *shot) error {
	start := time.Now()
	book, err := func() (book uint16, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("internal error in %s: %v", s.q.Variant.Name, p)
			}
		}()
		r, err := w.e.set.ChooseRecoding(it.fp4.FP4, s.q.recodes, nil)
		if err != nil {
			return 0, err
		}
		s.got.Tap, err = w.e.set.Recode(it.fp4.room[:len(it.fp4.Codes)], it.fp4.FP4, r)
		return r.Codebook, err
	}()
	s.weights = int64(it.m.Rows) * int64(it.m.Cols)
	w.e.meter.passed(s.variant, int64(len(it.m.Data)), s.weights, time.Since(start))
	if s.err = err; err != nil || s.got.Tap.NaN+s.got.Tap.Inf > 0 { // the export stays unfinished
		return nil
	}
	x := w.e.job.export
	if !x.wants(s.q.Variant.Name, it.tensor) {
		return nil
	}
	if err := x.put(ctx, it.tensor, it.fp4.room[:len(it.fp4.Codes)], book); err != nil {
		return exportFailure(x, err)
	}
	return nil
}

// nonFiniteFP4 is nonFinite of a matrix of FP4 codes, where scales are what is not
// finite.
func (w *worker) nonFiniteFP4(it *item, nan, inf int64) (string, error) {
	at := map[bool]string{}
	err := w.eachFP4(it, func(first int, rows []float32) error {
		for i, v := range rows {
			if isNaN := v != v; isNaN || math.IsInf(float64(v), 0) {
				if _, ok := at[isNaN]; !ok {
					at[isNaN] = fmt.Sprintf(" at [%d,%d]", first+i/it.m.Cols, i%it.m.Cols)
				}
			}
		}
		return nil
	})
	var parts []string
	for _, k := range []struct {
		word  string
		n     int64
		isNaN bool
	}{{"NaN", nan, true}, {"Inf", inf, false}} {
		switch {
		case k.n == 1:
			parts = append(parts, k.word+at[k.isNaN])
		case k.n > 1:
			parts = append(parts, fmt.Sprintf("%d %s, the first%s", k.n, k.word, at[k.isNaN]))
		}
	}
	return "weights are not finite, by their block scales: " + strings.Join(parts, "; "), err
}

// rows measures one matrix again, row by row.
func (s *fp4Source) rows(ctx context.Context, q Quantizer, tensor int, weights digest, where string) ([]float64, error) {
	buf := make([]byte, s.Need(tensor))
	m, err := s.Read(ctx, tensor, buf)
	if err != nil {
		return nil, err
	}
	if weights.differs(digestOf(m.Data, weights.sha != 0)) {
		return nil, fmt.Errorf("%s: %w", where, errWeightsChanged)
	}
	set, was := kernels.Best(), s.matrices[tensor].FP4(m.Data)
	r, err := set.ChooseRecoding(was, q.recodes, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	is := was
	is.Codes = buf[len(m.Data):]
	if _, err := set.Recode(is.Codes, was, r); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	out := make([]float64, m.Rows)
	a, b := make([]float32, m.Cols), make([]float32, m.Cols)
	for row := range out {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := recode.Rows(a, &was, row); err != nil {
			return nil, err
		}
		if err := recode.Rows(b, &is, row); err != nil {
			return nil, err
		}
		var e2, w2 float64
		for i, x := range a {
			d := float64(x) - float64(b[i])
			e2, w2 = math.FMA(d, d, e2), w2+float64(x)*float64(x)
		}
		if e2 != 0 {
			out[row] = math.Sqrt(e2 / w2)
		}
	}
	return out, nil
}
