package kernels

import "fmt"

// Methods choose the codebook of a tensor by squared errors, weighed by the
// importance of columns where there is one:
//
//	l2      of all 1,365 the one with the least error
//	sym     of the 21 that are ±a, ±b the one with the least error
//	asym    a control: of those that are not their own mirror image and have sym's
//	        error to 2 %, the one with the largest sign bias Σ(q−w)/Σ|w|; where none
//	        has, the one whose error is nearest to sym's
//	mirror  its control: the values of asym with their signs turned
//	book:…  the four values that the name has
//
// Of equals the first counts, by values ascending. The sign bias is that of the
// record, which weighs nothing.

// codebookMethods are the methods of formats with a codebook.
var codebookMethods = []string{"l2", "sym", "asym", "mirror"}

// Recoding is a codebook that was chosen, and what the choice was worth.
type Recoding struct {
	Codebook uint16
	L2, Sym  float64 // as Bias has them
}

// BookErrors are the errors of the best codebooks, for the record; see Bias. The zero
// value says that they are not known.
type BookErrors struct {
	Known   bool
	L2, Sym float64
}

// Use makes the spec one with the codebook of r, whose record says what r says.
func (spec *Spec) Use(r Recoding) {
	spec.Codebook, spec.Books = r.Codebook, BookErrors{Known: true, L2: r.L2, Sym: r.Sym}
}

// ChooseCodebook chooses the codebook of a whole matrix under a method of a format
// with codebooks: a mask of codes for Spec.Codebook. amax is the largest finite
// magnitude, of the matrix or of those that share a global scale with it, where
// NeedsAmax says so. importance is nil or has a number for each column, see
// BeginWeighted.
//
// It compares Σ f·step²·(w/step − v)² of all codebooks that the method has, with
// f the importance or 1, from f64 sums over elements in their order. Of equals it
// takes the first, by values ascending; a matrix of zeros alone has one with a 0.
func (s Set) ChooseCodebook(spec Spec, m Matrix, amax float32, importance []float32) (uint16, error) {
	return s.ChooseCodebookOf(spec, StoredOperand(m), amax, importance)
}

// ChooseCodebookOf is ChooseCodebook of an operand that is no transpose.
func (s Set) ChooseCodebookOf(spec Spec, w Operand, amax float32, importance []float32) (uint16, error) {
	r, err := s.ChooseBook(spec, w, amax, importance)
	return r.Codebook, err
}

// ChooseBook is ChooseCodebookOf with what the choice was worth, for Spec.Use.
func (s Set) ChooseBook(spec Spec, w Operand, amax float32, importance []float32) (Recoding, error) {
	if err := w.check(); err != nil {
		return Recoding{}, fmt.Errorf("code2: %w", err)
	}
	rows, cols := w.Dims()
	m, stored := w.Stored()
	element := F32
	if stored {
		element = m.Element
	}
	c, err := s.BeginCodebook(spec, element, cols, amax, importance)
	if err != nil || cols == 0 {
		return c.Best(), err
	}
	if stored {
		err := c.Rows(m.Data)
		return c.Best(), err
	}
	atOnce := max(1, min(1<<16/cols, rows))
	part, data := make([]float32, atOnce*cols), make([]byte, 4*atOnce*cols)
	for first := 0; first < rows; first += atOnce {
		n := min(atOnce, rows-first) * cols
		if err := s.ExpandRows(part[:n], w, first); err != nil {
			return Recoding{}, err
		}
		if err := EncodeFloats(data[:4*n], F32, part[:n]); err != nil {
			return Recoding{}, err
		}
		if err := c.Rows(data[:4*n]); err != nil {
			return Recoding{}, err
		}
	}
	return c.Best(), nil
}

// CodebookSearch is ChooseCodebook of a matrix that comes in chunks of whole rows
// from the top. The choice does not depend on how it is cut. It has one user.
type CodebookSearch struct {
	set     Set
	spec    Spec // of the format of four bits whose scales are taken
	name    string
	method  string
	element Element
	cols    int
	group   int
	amax    float32
	steps   *[256]float32
	factors []float32 // of the columns; nil: all the same
	row     []float32
	scales  []byte
	sums    bookSums
}

// BeginCodebook begins a search; the arguments are those of ChooseCodebook.
func (s Set) BeginCodebook(spec Spec, e Element, cols int, amax float32, importance []float32) (*CodebookSearch, error) {
	_, f, err := spec.check()
	if err != nil {
		return nil, err
	}
	base, ok := CodebookBase(f.Name)
	if !ok {
		return nil, fmt.Errorf("%s has no codebook: %w", spec.Format, ErrUnsupported)
	}
	c := &CodebookSearch{
		set: s.orReference(), element: e, cols: cols, amax: amax, name: f.Name, method: spec.Method, group: f.Group,
		spec: Spec{Format: base, Convention: spec.Convention, Global: spec.Global},
	}
	if importance != nil {
		if err := checkImportance(importance, cols); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		c.factors = groupFactors(importance, max(cols, 1))
	}
	// What is wrong with the rest, a pass says.
	p, err := c.set.Begin(c.spec, e, 0, cols, amax)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	c.steps = stepsOf(c.spec.Format, p.Global(), c.spec.Convention)
	_, _ = p.Finish()
	return c, nil
}

// Rows takes the next rows in.
func (c *CodebookSearch) Rows(data []byte) error {
	rowBytes := c.cols * c.element.Size()
	if rowBytes == 0 && len(data) == 0 {
		return nil
	}
	if rowBytes == 0 || len(data)%rowBytes != 0 {
		return fmt.Errorf("%s: %d bytes are no rows of %d: %w", c.name, len(data), rowBytes, ErrShape)
	}
	p, err := c.set.Begin(c.spec, c.element, len(data)/rowBytes, c.cols, c.amax)
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	c.row, c.scales = resize(c.row, c.cols), resize(c.scales, ceilDiv(c.cols, c.group))
	for ; len(data) > 0; data = data[rowBytes:] {
		if err = p.Rows(data[:rowBytes], &Output{Scales: c.scales}); err == nil {
			err = c.set.DecodeFloats(c.row, c.element, data[:rowBytes])
		}
		if err != nil {
			break
		}
		c.addRow()
	}
	_, _ = p.Finish()
	return err
}

// addRow adds the finite elements of a row to the sums.
func (c *CodebookSearch) addRow() {
	for i, x := range c.row {
		if x-x != 0 {
			continue
		}
		f := 1.0
		if c.factors != nil {
			f = float64(c.factors[i])
		}
		step := c.steps[c.scales[i/c.group]]
		if step == 0 { // whatever the code, it stands for 0
			c.sums.whole += float64(float64(x) * float64(x) * f)
			continue
		}
		c.sums.add(bookCell(x/step), float64(x), float64(step), f)
	}
}

// Choose is the mask of codes for Spec.Codebook; 0 of no search.
func (c *CodebookSearch) Choose() uint16 { return c.Best().Codebook }

// Best is the choice with what it was worth, for Spec.Use.
func (c *CodebookSearch) Best() Recoding {
	if c == nil {
		return Recoding{}
	}
	return c.sums.choose(c.method)
}

// BookWorth is what a codebook would be worth.
type BookWorth struct {
	Codebook uint16
	Error    float64 // Σ f·(w−q)², with f the importance or 1
	Dot      float64 // Σ f·q·w
	Sum      float64 // Σ q, which less Σ w is Bias.SumErr
}

// Worths are those of all 1,365 codebooks, in the order of their values: what a choice
// compares.
func (c *CodebookSearch) Worths() []BookWorth {
	if c == nil {
		return nil
	}
	var out []BookWorth
	c.sums.each(func(t bookTrial) {
		out = append(out, BookWorth{t.mask, max(0, c.sums.whole+t.error), t.dot, t.bias})
	})
	return out
}

// stepsOf are the steps of a format of E2M1 codes by the byte of a block's scale.
func stepsOf(format string, global float32, conv Convention) *[256]float32 {
	t := new([256]float32)
	for c := range t {
		if format == "mxfp4" {
			t[c] = E8M0ToF32(byte(c))
		} else {
			t[c] = nvfp4Step(byte(c), global, conv)
		}
	}
	return t
}
