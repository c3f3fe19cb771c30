package kernels

import (
	"fmt"
	"math"
)

// Methods choose the codebook of a tensor with the least squared error, weighed
// by the importance of columns where there is one: l2 of all 1,365, sym of the
// 21 that are ±a, ±b.

// ChooseCodebook chooses the codebook of a whole matrix under a method of code2:
// a mask of codes for Spec.Codebook. amax is the largest finite magnitude, of the
// matrix or of those that share a global scale with it, unless Spec.Global is
// given. importance is nil or has a number for each column, see BeginWeighted.
//
// It compares Σ f·step²·(w/step − v)² of all codebooks that the method has, with
// f the importance or 1, from f64 sums over elements in their order. Of equals it
// takes the first, by values ascending; a matrix of zeros alone has one with a 0.
func (s Set) ChooseCodebook(spec Spec, m Matrix, amax float32, importance []float32) (uint16, error) {
	return s.ChooseCodebookOf(spec, StoredOperand(m), amax, importance)
}

// ChooseCodebookOf is ChooseCodebook of an operand that is no transpose.
func (s Set) ChooseCodebookOf(spec Spec, w Operand, amax float32, importance []float32) (uint16, error) {
	if err := w.check(); err != nil {
		return 0, fmt.Errorf("code2: %w", err)
	}
	rows, cols := w.Dims()
	m, stored := w.Stored()
	element := F32
	if stored {
		element = m.Element
	}
	c, err := s.BeginCodebook(spec, element, cols, amax, importance)
	if err != nil || cols == 0 {
		return c.Choose(), err
	}
	if stored {
		err := c.Rows(m.Data)
		return c.Choose(), err
	}
	atOnce := max(1, min(1<<16/cols, rows))
	part, data := make([]float32, atOnce*cols), make([]byte, 4*atOnce*cols)
	for first := 0; first < rows; first += atOnce {
		n := min(atOnce, rows-first) * cols
		if err := s.ExpandRows(part[:n], w, first); err != nil {
			return 0, err
		}
		if err := EncodeFloats(data[:4*n], F32, part[:n]); err != nil {
			return 0, err
		}
		if err := c.Rows(data[:4*n]); err != nil {
			return 0, err
		}
	}
	return c.Choose(), nil
}

// CodebookSearch is ChooseCodebook of a matrix that comes in chunks of whole rows
// from the top. The choice does not depend on how it is cut. It has one user.
type CodebookSearch struct {
	set       Set
	spec      Spec
	element   Element
	cols      int
	amax      float32
	factors   []float32 // of the columns; nil: all the same
	row       []float32
	scales    []byte
	sums      bookSums
	symmetric bool
}

// BeginCodebook begins a search; the arguments are those of ChooseCodebook.
func (s Set) BeginCodebook(spec Spec, e Element, cols int, amax float32, importance []float32) (*CodebookSearch, error) {
	if _, _, err := spec.check(); err != nil {
		return nil, err
	}
	if spec.Format != "code2" {
		return nil, fmt.Errorf("%s has no codebook: %w", spec.Format, ErrUnsupported)
	}
	c := &CodebookSearch{
		set: s.orReference(), element: e, cols: cols, amax: amax, symmetric: spec.Method == "sym",
		spec: Spec{Format: "nvfp4", Convention: spec.Convention, Global: spec.Global},
	}
	if importance != nil {
		if err := checkImportance(importance, cols); err != nil {
			return nil, fmt.Errorf("code2: %w", err)
		}
		c.factors = groupFactors(importance, max(cols, 1))
	}
	// What is wrong with the rest, a pass says.
	p, err := c.set.Begin(c.spec, e, 0, cols, amax)
	if err != nil {
		return nil, fmt.Errorf("code2: %w", err)
	}
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
		return fmt.Errorf("code2: %d bytes are no rows of %d: %w", len(data), rowBytes, ErrShape)
	}
	rows, perRow := len(data)/rowBytes, ceilDiv(c.cols, BlockNVFP4)
	p, err := c.set.Begin(c.spec, c.element, rows, c.cols, c.amax)
	if err != nil {
		return fmt.Errorf("code2: %w", err)
	}
	c.row, c.scales = resize(c.row, c.cols), resize(c.scales, perRow)
	for ; len(data) > 0; data = data[rowBytes:] {
		if err = p.Rows(data[:rowBytes], &Output{Scales: c.scales}); err == nil {
			err = c.set.DecodeFloats(c.row, c.element, data[:rowBytes])
		}
		if err != nil {
			break
		}
		c.sums.addRow(c.row, c.scales, p.Global(), c.spec.Convention, c.factors)
	}
	_, _ = p.Finish()
	return err
}

// Choose is the mask of codes for Spec.Codebook; 0 of no search.
func (c *CodebookSearch) Choose() uint16 {
	if c == nil {
		return 0
	}
	return c.sums.best(c.symmetric)
}

// bookSums are Σ f·step² and Σ f·step²·x of the elements of each cell, where x =
// w/step.
type bookSums struct{ square, first [bookCells]float64 }

// addRow adds the finite elements of a row to their cells.
func (b *bookSums) addRow(row []float32, scales []byte, global float32, conv Convention, importance []float32) {
	for i, x := range row {
		if x-x != 0 {
			continue
		}
		step := nvfp4Step(scales[i/BlockNVFP4], global, conv)
		if step == 0 {
			continue // whatever the code, it stands for 0
		}
		weight := float64(step)
		if importance != nil {
			weight *= float64(importance[i])
		}
		cell := bookCell(x / step)
		b.square[cell] += float64(weight * float64(step))
		b.first[cell] += float64(weight * float64(x))
	}
}

// best is the codebook with the least error: Σ over its values, each with the
// elements that are nearest to it, of v²·Σweight − 2v·Σweight·x, to which Σ
// weight·x² is the same for all.
func (b *bookSums) best(symmetric bool) uint16 {
	// between[i][k] is the border of cells halfway between two values.
	var between [15][15]int
	var v [15]float64
	for i, code := range e2m1Ascending {
		v[i] = float64(e2m1Values[code])
	}
	for i := range v {
		for k := range v {
			between[i][k] = int((v[i]+v[k])*2) - bookFirst
		}
	}
	var square, first [bookCells + 1]float64 // of the cells below each border
	for cell := range bookCells {
		square[cell+1] = square[cell] + b.square[cell]
		first[cell+1] = first[cell] + b.first[cell]
	}
	part := func(i, from, to int) float64 {
		return float64(v[i]*v[i]*(square[to]-square[from])) - float64(2*v[i]*(first[to]-first[from]))
	}
	var best uint16
	least := math.Inf(1)
	for i := range 15 {
		for k := i + 1; k < 15; k++ {
			ik := between[i][k]
			one := part(i, 0, ik)
			for l := k + 1; l < 15; l++ {
				kl := between[k][l]
				two := one + part(k, ik, kl)
				for n := l + 1; n < 15; n++ {
					if symmetric && (i+n != 14 || k+l != 14) {
						continue
					}
					ln := between[l][n]
					if e := two + part(l, kl, ln) + part(n, ln, bookCells); e < least {
						least = e
						best = 1<<e2m1Ascending[i] | 1<<e2m1Ascending[k] | 1<<e2m1Ascending[l] | 1<<e2m1Ascending[n]
					}
				}
			}
		}
	}
	return best
}
