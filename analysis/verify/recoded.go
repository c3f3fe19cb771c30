package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"quantscope/kernels"
	"quantscope/quant/export"
	"quantscope/quant/layout"
	"quantscope/quant/method"
	"quantscope/quant/recode"
)

// HeaderChanged is the problem of a file of which more than codes is another than in
// the source, where codes alone may be.
const HeaderChanged = "header-changed"

// Book is a codebook and how many matrices have it.
type Book struct {
	Values  []float32 `json:"values"`
	Tensors int       `json:"tensors"`
}

// recodes is what is known of the source's FP4 matrices, whose codes an output may
// have changed.
type recodes struct {
	fp4      map[string]*recode.Matrix // of the source, by the names that modules of the output may have
	copies   map[string][]recoding     // by the tensor of codes, of outputs that store them as the source does
	consumed map[string]bool           // tensors of the source that packed ones stand for
	methods  []string                  // that may have chosen the codebooks
	stated   statement                 // who says so
}

// recoding is a module of the output and the source's matrix that it is a recoding of.
type recoding struct {
	out  *layout.Module
	from *recode.Matrix
}

// recoded is what came of one.
type recoded struct {
	order  int // of the job, and of the module in it
	part   int
	name   string
	totals totals
	book   uint16
	made   map[string]bool // methods that make it of the source, bit for bit
	packed bool
	module *layout.Module

	recorded bool // compared with the session's record
}

// stock finds the source's FP4 matrices.
func (r *run) stock() error {
	r.copies, r.consumed, r.fp4 = map[string][]recoding{}, map[string]bool{}, map[string]*recode.Matrix{}
	if !recode.MayHave(r.src) {
		return nil
	}
	lay, err := layout.OpenWith(r.src, r.model, r.Layout)
	if err != nil {
		return err
	}
	s := recode.Find(r.src, r.model, lay)
	for i := range s.Model.Matrices {
		m, ok := s.Lookup(s.Model.Matrices[i].Name)
		if !ok {
			continue
		}
		r.fp4[m.Module.Name] = m
		if m.Expert >= 0 {
			r.fp4[export.ExpertModule(m.Module.Name)] = m
		}
	}
	return nil
}

// recoding says whether a module of the output is one of the source's FP4 matrices with
// other codes, and takes it as that. stays says that its tensors are compared byte by
// byte as well.
func (r *run) recoding(m *layout.Module) (is, stays bool) {
	from, ok := r.fp4[m.Name]
	if !ok || from.Rows != m.Rows || from.Cols != m.Cols {
		return false, false
	}
	base, packed := kernels.CodebookBase(m.Spec.Format)
	switch {
	case packed && base == from.Module.Spec.Format:
		for _, f := range from.Module.Fields {
			r.consumed[f.Tensor.Name] = true
		}
		r.count(m)
		r.jobs = append(r.jobs, job{out: m.CodeTensor(), recodings: []recoding{{m, from}}, bytes: m.Bytes() + from.Module.Bytes()})
		return true, false
	case m.Spec == from.Module.Spec && m.CodeTensor().Name == from.Tensor && r.isCopy(m):
		r.copies[from.Tensor] = append(r.copies[from.Tensor], recoding{m, from})
		return true, true
	}
	return false, false
}

// methodsOf finds out which choosers may have made recoded matrices: those of the
// variant that is stated, else all.
func (r *run) methodsOf() error {
	if len(r.copies) == 0 && len(r.consumed) == 0 {
		return nil
	}
	st := statement{}
	for _, said := range []struct{ name, from string }{{r.Variant, "options"}, {r.layout.Receipt.Variant, "config"}, {r.onlyVariant(), "session"}} {
		if said.name == "" {
			continue
		}
		v, err := method.Parse(said.name)
		if err != nil {
			if said.from == "options" {
				return err
			}
			continue
		}
		if !isBook(v.Scheme) {
			if said.from == "options" {
				return fmt.Errorf("variant %s: %s is stored in four bits, and only two bits are made of its codes: %w", v.Name, r.src.Path, ErrVariant)
			}
			continue
		}
		st = statement{variant: v, from: said.from}
		break
	}
	switch r.stated = st; {
	case st.variant.Name == "":
		r.methods = kernels.Methods("code2")
	case st.variant.Calibrated():
		r.note("%s is calibrated, so that its codes cannot be made again of the source's alone: they were held against what any recoding is", st.variant.Name)
	default:
		r.methods = []string{st.variant.Spec.Method}
	}
	return nil
}

// recodedAlone says that nothing of the output is held against a source of more bits.
func (r *run) recodedAlone() bool {
	return (len(r.copies) > 0 || len(r.consumed) > 0) && !slices.ContainsFunc(r.jobs, func(j job) bool { return j.module != nil })
}

func (r *run) onlyVariant() string {
	if r.Session != nil && len(r.Session.Variants()) == 1 {
		return r.Session.Variants()[0]
	}
	return ""
}

// recode looks at the modules of a job whose codes are not the source's. The reason
// why they are no recoding is said, "" where they are.
func (w *worker) recode(ctx context.Context, i int, j *job) (why string, err error) {
	var all []recoded
	for k, x := range j.recodings {
		got, why, err := w.recodeOne(ctx, x)
		if why != "" || err != nil {
			return why, err
		}
		if got != nil {
			got.order, got.part = i, k
			all = append(all, *got)
		}
	}
	w.sums.mu.Lock()
	defer w.sums.mu.Unlock()
	w.sums.recoded = append(w.sums.recoded, all...)
	return "", nil
}

// lut is what each code of the source became, and where that was seen first.
type lut struct {
	to  [16]int8 // −1: the source does not have the code
	row [16]int
	col [16]int
}

// add takes a row in; why says where it is no function of the source's codes.
func (l *lut) add(from, to []byte, cols, row int) (why string) {
	for c := range cols {
		a, b := from[c/2]>>(c%2*4)&15, to[c/2]>>(c%2*4)&15
		switch was := l.to[a]; {
		case was < 0:
			l.to[a], l.row[a], l.col[a] = int8(b), row, c
		case was != int8(b):
			return fmt.Sprintf("at [%d,%d] code %d (%v) becomes %d (%v), and at [%d,%d] it becomes %d (%v)",
				row, c, a, kernels.E2M1ToF32(a), b, kernels.E2M1ToF32(b), l.row[a], l.col[a], was, kernels.E2M1ToF32(byte(was)))
		}
	}
	return ""
}

// verdict is the codebook, or why there is none: more than four values, or a code that
// does not become the nearest of them.
func (l *lut) verdict() (book uint16, why string) {
	for _, b := range l.to {
		if b >= 0 {
			book |= 1 << b
		}
	}
	if book&(1<<8) != 0 { // −0
		book = book&^(1<<8) | 1
	}
	values := kernels.Codebook(book)
	if len(values) > kernels.CodebookValues {
		return 0, fmt.Sprintf("they are of %d values (%v), of at most %d", len(values), values, kernels.CodebookValues)
	}
	for a, b := range l.to {
		if b < 0 {
			continue
		}
		x, y := kernels.E2M1ToF32(byte(a)), kernels.E2M1ToF32(byte(b))
		for _, v := range values {
			if abs(x-v) < abs(x-y) {
				return 0, fmt.Sprintf("at [%d,%d] code %d (%v) becomes %d (%v), and %v of the same four is nearer", l.row[a], l.col[a], a, x, b, y, v)
			}
		}
	}
	return book, ""
}

func abs(x float32) float32 { return float32(math.Abs(float64(x))) }

// recodeOne holds a module against the source's matrix: scales must be the same bytes,
// each code what becomes of the source's. Of one that has the source's codes nothing
// is given. What cannot be read of the output is reported by why.
func (w *worker) recodeOne(ctx context.Context, x recoding) (got *recoded, why string, err error) {
	m, from := x.out, x.from
	buf := make([]byte, from.Bytes())
	src, err := from.Read(ctx, buf)
	if err != nil {
		return nil, "", err
	}
	if err := m.Read(ctx, &w.stored, 0, m.Rows); err != nil {
		return nil, "", w.unreadable(ctx, &job{out: m.CodeTensor()}, err)
	}
	codes := w.stored.Codes
	packed := m.BookTensor() != nil
	if packed {
		w.four = grow(w.four, m.Rows*((m.Cols+1)/2))
		if err := kernels.UnpackCode2(w.four, codes, m.Rows, m.Cols, w.stored.Codebook); err != nil {
			return nil, oneLine(err), nil
		}
		codes = w.four
		w.samePlaces(m, &w.stored, src, from)
	} else if bytes.Equal(codes, src.Codes) {
		return nil, "", nil
	}
	l := lut{}
	for k := range l.to {
		l.to[k] = -1
	}
	row := len(codes) / m.Rows
	for r := range m.Rows {
		if why := l.add(src.Codes[r*row:][:row], codes[r*row:][:row], m.Cols, r); why != "" {
			return nil, why, nil
		}
	}
	book, why := l.verdict()
	if why != "" {
		return nil, why, nil
	}
	if packed {
		book = w.stored.Codebook
	}
	got = &recoded{name: from.Name, book: book, made: map[string]bool{}, packed: packed, module: m}
	if err := w.distance(got, m, &src); err != nil {
		return nil, "", err
	}
	return got, "", w.remake(ctx, got, x, src, codes)
}

// samePlaces wants the scales of a packed module to be the source's, byte for byte.
func (w *worker) samePlaces(m *layout.Module, s *layout.Stored, src kernels.FP4, from *recode.Matrix) {
	if !bytes.Equal(s.Scales, src.Scales) {
		t := m.ScaleTensor()
		w.problem(ScalesDiffer, w.fileOf(t), t.Name, "are not the source's, from byte %d on", firstDiff(src.Scales[:min(len(src.Scales), len(s.Scales))], s.Scales))
	}
	t := m.GlobalTensor()
	if t == nil {
		return
	}
	if divides(m.Spec.Convention) != divides(src.Convention) {
		w.problem(GlobalDiffers, w.fileOf(t), t.Name, "stands under a name by which it is read otherwise than the source's %s", from.Module.GlobalTensor().Name)
	} else if math.Float32bits(s.Global) != math.Float32bits(src.Global) {
		w.problem(GlobalDiffers, w.fileOf(t), t.Name, "is %v, the source's %v", s.Global, src.Global)
	}
}

// distance sums up how far the values of a module, which w.stored holds, are from the
// source's. What is not finite in the source is in no sum.
func (w *worker) distance(got *recoded, m *layout.Module, src *kernels.FP4) error {
	step := max(1, chunkBytes/(8*m.Cols))
	all := w.stored
	for first := 0; first < m.Rows; first += step {
		n := min(step, m.Rows-first)
		w.w, w.floats = grow(w.w, n*m.Cols), grow(w.floats, n*m.Cols)
		if err := recode.Rows(w.w, src, first); err != nil {
			return err
		}
		part := all
		part.Codes, part.Scales = rowsOf(all.Codes, m.Rows, first, n), rowsOf(all.Scales, m.Rows, first, n)
		if err := m.Decode(w.floats, &part); err != nil {
			return err
		}
		sum := got.totals
		if !sum.add(w.w, w.floats) {
			sum = got.totals
			for k, x := range w.w {
				if x-x == 0 {
					sum.add(w.w[k:k+1], w.floats[k:k+1])
				}
			}
		}
		got.totals = sum
	}
	return nil
}

// remake makes a matrix again by each method that may have made it, and holds it
// against the session's record.
func (w *worker) remake(ctx context.Context, got *recoded, x recoding, src kernels.FP4, codes []byte) error {
	again := make([]byte, len(src.Codes))
	for _, name := range w.methods {
		r, err := w.Set.ChooseRecoding(src, name, nil)
		if errors.Is(err, kernels.ErrUnsupported) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", x.from.Name, err)
		}
		tap, err := w.Set.Recode(again, src, r)
		if err != nil {
			return fmt.Errorf("%s: %w", x.from.Name, err)
		}
		if !bytes.Equal(again, codes) {
			continue
		}
		got.made[name] = true
		variant := w.stated.variant.Name
		if variant == "" {
			variant = variantOf(kernels.Spec{Format: "code2", Method: name})
		}
		if w.Session == nil || got.recorded || !slices.Contains(w.Session.Variants(), variant) {
			continue
		}
		rec, ok, err := w.Session.Record(ctx, variant, x.from.Name)
		if err != nil {
			return err
		}
		t := x.out.CodeTensor()
		if !ok {
			w.problem(RecordMissing, w.fileOf(t), t.Name, "the session has no record of %s under %s", x.from.Name, variant)
			continue
		}
		got.recorded = true
		w.sums.mu.Lock()
		w.rep.RecordsCompared++
		w.sums.mu.Unlock()
		tap.HasMoments, tap.SumW, tap.SumW3, tap.SumW4 = rec.HasMoments, rec.SumW, rec.SumW3, rec.SumW4
		if diff := tapDiff(&tap, &rec); diff != "" {
			w.problem(RecordDiffers, w.fileOf(t), t.Name, "the source measured again differs from the session's record: %s", diff)
		}
	}
	return nil
}
