package kernels

import (
	"fmt"
	"math"
	"slices"
	"sync"
)

// FP4 is a matrix of E2M1 codes as a checkpoint stores it: rows×cols, two codes a
// byte, the even element in the low nibble, block scales by row.
//
// Its figures are those of the numbers value·step, step being the f32 of a block, in
// f64: what f32 rounds in decoding is not in them. An element is not finite where its
// scale is NaN (E4M3 0x7f and 0xff, E8M0 0xff) or value·step is beyond f32; it counts
// as Tap.NaN or Tap.Inf and enters nothing else. Elements with a step of 0 are zeros,
// whatever their codes. −0 is a 0, but for its sign; see Recode.
type FP4 struct {
	Format     string // nvfp4 or mxfp4
	Convention Convention
	Rows, Cols int
	Codes      []byte
	Scales     []byte
	Global     float32 // as stored; of nvfp4
}

// check refuses a matrix whose parts do not fit, and says what its format is.
func (m *FP4) check() (Format, error) {
	f, err := m.header()
	if err != nil {
		return f, err
	}
	return f, m.lengths(f, m.Rows, m.Codes, m.Scales)
}

// header checks all but codes and scales.
func (m *FP4) header() (Format, error) {
	if m.Format != "nvfp4" && m.Format != "mxfp4" {
		return Format{}, fmt.Errorf("recode: codes of %q: %w (known: nvfp4, mxfp4)", m.Format, ErrUnsupported)
	}
	f, err := FormatByName(m.Format)
	if err != nil {
		return f, err
	}
	if known := quantizers[m.Format].conventions; !slices.Contains(known, m.Convention) {
		return f, fmt.Errorf("recode: %s: convention %v: %w (known: %v)", m.Format, m.Convention, ErrUnsupported, known)
	}
	if m.Rows < 0 || m.Cols < 0 {
		return f, fmt.Errorf("recode: %s of %d×%d: %w", m.Format, m.Rows, m.Cols, ErrShape)
	}
	if m.Format == "nvfp4" {
		if m.Global == 0 {
			return f, fmt.Errorf("recode: nvfp4: no global scale: %w", ErrRange)
		}
		if err := checkGlobal(m.Global, m.Convention); err != nil {
			return f, fmt.Errorf("recode: nvfp4: %w", err)
		}
	}
	return f, nil
}

// lengths checks the codes and scales of some rows.
func (m *FP4) lengths(f Format, rows int, codes, scales []byte) error {
	for _, x := range []struct {
		what       string
		have, each int
	}{{"bytes of codes", len(codes), ceilDiv(m.Cols, 2)}, {"scales", len(scales), ceilDiv(m.Cols, f.Group)}} {
		if want, ok := product(rows, x.each); !ok || want != x.have {
			return fmt.Errorf("recode: %s: %d %s for %d×%d, want %d: %w", m.Format, x.have, x.what, rows, m.Cols, want, ErrShape)
		}
	}
	return nil
}

// rowsOf is how many rows codes are.
func (m *FP4) rowsOf(codes []byte) int {
	if m.Cols == 0 {
		return 0
	}
	return len(codes) / ceilDiv(m.Cols, 2)
}

// ChooseRecoding chooses the codebook of an FP4 matrix under a method of code2, "" for
// the first, from the histogram of its codes weighed by their steps squared, and by the
// importance of columns where that is not nil: exact, but for the rounding of f64 sums.
// The error is that against the FP4 matrix, whose scales stay as they are.
func (s Set) ChooseRecoding(m FP4, method string, importance []float32) (Recoding, error) {
	if _, err := m.check(); err != nil {
		return Recoding{}, err
	}
	c, err := s.BeginRecoding(m, method, importance)
	if err != nil {
		return Recoding{}, err
	}
	if err := c.Rows(m.Codes, m.Scales); err != nil {
		return Recoding{}, err
	}
	return c.Best(), nil
}

// Recode writes the codes of an FP4 matrix under a codebook to dst, as long as
// m.Codes and in its packing: every code becomes that of the nearest of the four
// values, of two the one with the smaller magnitude, of ±v that of the code's sign, so
// that 0 becomes v and −0 becomes −v; what pads an odd row stays. dst may be m.Codes itself.
// These are the codes that a pass over the decoded matrix gives with the same scales,
// where its zeros keep their signs, and but that in f32 a value halfway between two may
// come out beside the middle.
// The tap compares with the FP4 matrix; its bias has the figures of r.
func (s Set) Recode(dst []byte, m FP4, r Recoding) (Tap, error) {
	if _, err := m.check(); err != nil {
		return Tap{}, err
	}
	p, err := s.BeginRecode(m, r)
	if err != nil {
		return Tap{}, err
	}
	if err := p.Rows(dst, m.Codes, m.Scales); err != nil {
		return Tap{}, err
	}
	return p.Finish()
}

// RecodingSearch is ChooseRecoding of a matrix that comes in chunks of whole rows. The
// choice does not depend on how it is cut, and without importance not on the order of
// rows either. It has one user.
type RecodingSearch struct {
	m       FP4
	f       Format
	method  string
	factors []float32
	counts  *fp4Counts
	weighed [256][16]float64 // Σ importance, by scale and code
	best    Recoding
}

// BeginRecoding begins a search; the arguments are those of ChooseRecoding, of m
// without its rows, codes and scales. Best must be called to give back what it holds.
func (s Set) BeginRecoding(m FP4, method string, importance []float32) (*RecodingSearch, error) {
	f, err := m.header()
	if err != nil {
		return nil, err
	}
	if method == "" {
		method = codebookMethods[0]
	}
	if _, err := checkBookMethod("recode", method); err != nil {
		return nil, err
	}
	c := &RecodingSearch{m: m, f: f, method: method}
	if importance != nil {
		if err := checkImportance(importance, m.Cols); err != nil {
			return nil, fmt.Errorf("recode: %w", err)
		}
		c.factors = groupFactors(importance, max(m.Cols, 1))
	}
	c.counts = newFP4Counts()
	return c, nil
}

// Rows takes the next rows in.
func (c *RecodingSearch) Rows(codes, scales []byte) error {
	if c.counts == nil {
		return errPass
	}
	rows := c.m.rowsOf(codes)
	if err := c.m.lengths(c.f, rows, codes, scales); err != nil {
		return err
	}
	rowCodes, rowScales := ceilDiv(c.m.Cols, 2), ceilDiv(c.m.Cols, c.f.Group)
	for r := range rows {
		row, scale := codes[r*rowCodes:][:rowCodes], scales[r*rowScales:][:rowScales]
		c.counts.addRow(row, scale, c.m.Cols, c.f.Group)
		for i := range c.factors {
			c.weighed[scale[i/c.f.Group]][row[i/2]>>(i%2*4)&15] += float64(c.factors[i])
		}
	}
	return nil
}

// Best ends the search and gives the choice.
func (c *RecodingSearch) Best() Recoding {
	if c.counts == nil {
		return c.best
	}
	c.counts.fold()
	var sums bookSums
	for scale, step := range stepsOf(c.f.Name, c.m.Global, c.m.Convention) {
		if step-step != 0 || step == 0 {
			continue
		}
		for code, n := range &c.counts.codes[scale] {
			v := float64(e2m1Values[code])
			if n == 0 || beyondF32(v, step) {
				continue
			}
			f := float64(n)
			if c.factors != nil {
				f = c.weighed[scale][code]
			}
			sums.addMany(bookCellOf(code), v, float64(step), f, float64(n))
		}
	}
	c.best = sums.choose(c.method)
	fp4CountsPool.Put(c.counts)
	c.counts = nil
	return c.best
}

// addMany is add of n elements of x = v, of which f is the sum of their factors.
func (b *bookSums) addMany(cell int, v, step, f, n float64) {
	square := float64(step * step)
	b.square[cell] += float64(square * f)
	b.first[cell] += float64(float64(square*v) * f)
	b.steps[cell] += float64(step * n)
	b.whole += float64(float64(square*(v*v)) * f)
}

// beyondF32 says whether a value is none of f32's.
func beyondF32(v float64, step float32) bool {
	return math.Abs(v*float64(step)) > math.MaxFloat32
}

// RecodePass is Recode of a matrix that comes in chunks of whole rows from the top. The
// record does not depend on how it is cut. It has one user.
type RecodePass struct {
	m      FP4
	f      Format
	tables *recodeTables
	counts *fp4Counts
	steps  *[256]float32
	halves [256]float64 // of steps; 0 of those that are not finite
	wild   [256]bool    // steps whose larger codes are beyond f32
	bias   *biasSums
	next   int
}

// BeginRecode begins a recoding; of m its codes and scales are not looked at. Finish
// must be called to give back what it holds.
func (s Set) BeginRecode(m FP4, r Recoding) (*RecodePass, error) {
	f, err := m.header()
	if err != nil {
		return nil, err
	}
	if r.Codebook == 0 {
		return nil, fmt.Errorf("recode: %w", ErrNeedsCodebook)
	}
	if err := checkMask(r.Codebook); err != nil {
		return nil, fmt.Errorf("recode: %w", err)
	}
	spec := Spec{}
	spec.Use(r)
	p := &RecodePass{m: m, f: f, tables: newRecodeTables(r.Codebook), counts: newFP4Counts(), steps: stepsOf(m.Format, m.Global, m.Convention), bias: newBiasSums(spec)}
	for i, step := range p.steps {
		if step-step == 0 {
			p.halves[i], p.wild[i] = float64(step)/2, beyondF32(MaxE2M1, step)
		}
	}
	return p, nil
}

// Rows recodes the next rows; dst may be codes.
func (p *RecodePass) Rows(dst, codes, scales []byte) error {
	if p.counts == nil {
		return errPass
	}
	rows := p.m.rowsOf(codes)
	if err := p.m.lengths(p.f, rows, codes, scales); err != nil {
		return err
	}
	if len(dst) != len(codes) {
		return fmt.Errorf("recode: %s: room for %d bytes of codes, want %d: %w", p.m.Format, len(dst), len(codes), ErrShape)
	}
	if rows > p.m.Rows-p.next {
		return fmt.Errorf("recode: %s: %d rows, of which %d are left: %w", p.m.Format, rows, p.m.Rows-p.next, ErrShape)
	}
	rowCodes, rowScales := ceilDiv(p.m.Cols, 2), ceilDiv(p.m.Cols, p.f.Group)
	for r := range rows {
		p.row(dst[r*rowCodes:][:rowCodes], codes[r*rowCodes:][:rowCodes], scales[r*rowScales:][:rowScales])
	}
	p.next += rows
	return nil
}

// Finish ends the pass and gives its record. Rows that did not come are an error.
func (p *RecodePass) Finish() (Tap, error) {
	if p.counts == nil {
		return Tap{}, errPass
	}
	t := p.record()
	fp4CountsPool.Put(p.counts)
	p.counts = nil
	if p.next != p.m.Rows && p.m.Cols > 0 {
		return Tap{}, fmt.Errorf("recode: %s: %d of %d rows came: %w", p.m.Format, p.next, p.m.Rows, ErrShape)
	}
	return t, nil
}

var fp4CountsPool = sync.Pool{New: func() any { return new(fp4Counts) }}

func newFP4Counts() *fp4Counts {
	c := fp4CountsPool.Get().(*fp4Counts)
	*c = fp4Counts{}
	return c
}
