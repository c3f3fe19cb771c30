package bias

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"quantscope/analysis/model"
	"quantscope/kernels"
)

// matrix is one whose weights are compared.
type matrix struct {
	name string
	at   model.Place
}

// matrices are those of the reference that a pass reads, layer by layer, those of no
// layer last.
func matrices(ref *party) []matrix {
	var out []matrix
	for _, m := range ref.own.Matrices() {
		if ref.src.Has(m.Place, "weight") {
			out = append(out, matrix{m.Name, m.Place})
		}
	}
	slices.SortStableFunc(out, func(a, b matrix) int {
		return cmp.Compare(uint(a.at.Layer), uint(b.at.Layer)) // −1 is the largest
	})
	return out
}

// sums are those of one matrix, or of several.
type sums struct {
	kernels.Bias
	e2, w2    float64
	tensors   int
	positive  int
	absBias   float64
	absNull   float64 // of absBias, where errors have random signs
	rowNull2  float64 // of SumRow2
	nonFinite int64
	shapes    int
	books     map[uint16]int
}

// add takes in a matrix that differs.
func (s *sums) add(m *sums, book uint16) {
	s.SumErr, s.SumAbsW = s.SumErr+m.SumErr, s.SumAbsW+m.SumAbsW
	s.Rows, s.Positive = s.Rows+m.Rows, s.Positive+m.Positive
	s.SumRow2, s.RowMax = s.SumRow2+m.SumRow2, max(s.RowMax, m.RowMax)
	s.e2, s.w2 = s.e2+m.e2, s.w2+m.w2
	s.nonFinite += m.nonFinite
	s.tensors++
	v := m.Value()
	s.absBias += math.Abs(v)
	s.absNull += m.null()
	s.rowNull2 += m.rowNull2
	if v > 0 {
		s.positive++
	}
	if book != 0 {
		if s.books == nil {
			s.books = map[uint16]int{}
		}
		s.books[book]++
	}
}

// null is what the magnitude of a matrix's bias is expected to be where its errors have
// random signs: their sum is then about normal, with a variance of Σ(q−w)².
func (s *sums) null() float64 {
	if s.SumAbsW == 0 {
		return 0
	}
	return math.Sqrt(2/math.Pi*s.e2) / s.SumAbsW
}

func (s *sums) rel() float64 {
	if s.w2 == 0 && s.e2 == 0 {
		return 0
	}
	return math.Sqrt(s.e2 / s.w2)
}

// weights are what the sums say.
func (s *sums) weights(candidate, layer int, list []Tensor) *Weights {
	w := &Weights{
		Candidate: candidate, Layer: layer, Tensors: s.tensors, RelL2: s.rel(), Bias: s.Value(), RowRMS: s.RowRMS(), RowMax: s.RowMax,
		NonFinite: s.nonFinite, Shapes: s.shapes, Tensor: list,
	}
	if s.tensors > 0 {
		n := float64(s.tensors)
		w.AbsBias, w.AbsNull, w.Positive = s.absBias/n, s.absNull/n, float64(s.positive)/n
	}
	if s.Rows > 0 {
		w.RowNull = math.Sqrt(s.rowNull2 / float64(s.Rows))
	}
	for mask, n := range s.books {
		w.Books = append(w.Books, Book{kernels.Codebook(mask), n})
	}
	slices.SortFunc(w.Books, func(a, b Book) int {
		return cmp.Or(cmp.Compare(b.Tensors, a.Tensors), slices.Compare(a.Values, b.Values))
	})
	return w
}

// weights compares all matrices of all candidates with the reference's.
func (r *running) weights(ctx context.Context) error {
	list := matrices(r.parties[0])
	n := len(r.parties) - 1
	all, layer, tensors := make([]sums, n), make([]sums, n), make([][]Tensor, n)
	for i, m := range list {
		if err := r.pause(ctx); err != nil {
			return err
		}
		if err := r.compare(ctx, m, all, layer, tensors); err != nil {
			return err
		}
		r.progress(Progress{Stage: "weights", Candidate: -1, Layer: m.at.Layer, Done: int64(i + 1), Of: int64(len(list))})
		if m.at.Layer < 0 || i+1 < len(list) && list[i+1].at.Layer == m.at.Layer {
			continue
		}
		for c := range layer {
			if layer[c].tensors > 0 || layer[c].shapes > 0 {
				if err := r.sink.weights(layer[c].weights(c, m.at.Layer, nil)); err != nil {
					return err
				}
			}
			layer[c] = sums{}
		}
	}
	for c := range all {
		if err := r.sink.weights(all[c].weights(c, -1, tensors[c])); err != nil {
			return err
		}
	}
	return nil
}

// compare compares one matrix of the reference with all that are not the same.
func (r *running) compare(ctx context.Context, m matrix, all, layer []sums, tensors [][]Tensor) error {
	ref := r.parties[0]
	defer r.release()
	var w *model.Weight
	for c, p := range r.parties[1:] {
		if p.own == ref.own || sameOrigin(ref.src, p.src, m.at) || !p.src.Has(m.at, "weight") {
			continue
		}
		if w == nil {
			v, err := ref.src.Weight(ctx, m.at)
			if err != nil {
				return named(ref, m, err)
			}
			w = &v
		}
		q, err := p.src.Weight(ctx, m.at)
		if err != nil {
			return named(p, m, err)
		}
		if q.Rows != w.Rows || q.Cols != w.Cols {
			all[c].shapes++
			layer[c].shapes++
			continue
		}
		s, err := r.difference(ctx, *w, q)
		if err != nil {
			return named(p, m, err)
		}
		if s.e2 != 0 || s.nonFinite > 0 {
			all[c].add(s, q.Codebook)
			layer[c].add(s, q.Codebook)
			tensors[c] = append(tensors[c], Tensor{m.name, m.at.Layer, m.at.Expert, s.rel(), s.Value(), s.RowRMS(), s.RowMax})
		}
		p.src.Release()
	}
	return nil
}

// sameOrigin says whether a matrix of two sources is known to be the same.
func sameOrigin(a, b model.Source, at model.Place) bool {
	x, ok := a.(model.Origins)
	y, also := b.(model.Origins)
	if !ok || !also {
		return false
	}
	o := x.WeightOrigin(at)
	return o != nil && o == y.WeightOrigin(at)
}

// named puts whose matrix it is before an error.
func named(p *party, m matrix, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%s: %s: %w", p.label, m.name, err)
}

// pieceBytes is how much of a matrix is expanded at once.
const pieceBytes = 1 << 20

// difference are the sums of one matrix: of each row over its columns in their order,
// then row by row.
func (r *running) difference(ctx context.Context, w, q model.Weight) (*sums, error) {
	s := &sums{}
	if w.Rows == 0 || w.Cols == 0 {
		return s, nil
	}
	n := min(max(pieceBytes/(4*w.Cols), 1)*max(r.threads, 1), w.Rows)
	a, b := make([]float32, n*w.Cols), make([]float32, n*w.Cols)
	rows := make([]weightRow, n)
	for first := 0; first < w.Rows; first += n {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		some := min(n, w.Rows-first)
		errs := make([]error, some)
		share(some, r.threads, some*w.Cols, func(from, to int) {
			for _, of := range []struct {
				dst []float32
				w   model.Weight
			}{{a, w}, {b, q}} {
				if err := r.set.ExpandRows(of.dst[from*w.Cols:to*w.Cols], of.w.Operand, first+from); err != nil {
					errs[from] = err
					return
				}
			}
			for k := from; k < to; k++ {
				rows[k] = weightRowOf(a[k*w.Cols:][:w.Cols], b[k*w.Cols:][:w.Cols])
			}
		})
		if err := cmp.Or(errs...); err != nil {
			return nil, err
		}
		for _, row := range rows[:some] {
			s.row(row)
		}
	}
	return s, nil
}

// weightRow are the sums of one row over elements that are finite in both.
type weightRow struct {
	err, absW, e2, w2 float64
	nonFinite         int64
}

func weightRowOf(w, q []float32) (r weightRow) {
	for i, v := range w {
		a, e := float64(v), float64(q[i])-float64(v)
		if math.IsNaN(e) || math.IsInf(e, 0) {
			r.nonFinite++
			continue
		}
		r.err += e
		r.absW += math.Abs(a)
		r.e2 += float64(e * e)
		r.w2 += float64(a * a)
	}
	return r
}

// row takes in a row, as kernels.Bias defines it.
func (s *sums) row(r weightRow) {
	s.SumErr, s.SumAbsW = s.SumErr+r.err, s.SumAbsW+r.absW
	s.e2, s.w2 = s.e2+r.e2, s.w2+r.w2
	s.nonFinite += r.nonFinite
	if r.absW == 0 {
		return
	}
	v := r.err / r.absW
	s.Rows++
	if v > 0 {
		s.Positive++
	}
	s.SumRow2 += float64(v * v)
	s.rowNull2 += r.e2 / float64(r.absW*r.absW)
	s.RowMax = max(s.RowMax, math.Abs(v))
}
