package kernels

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Spec says what a quantization does.
type Spec struct {
	Format     string     // a name in the table of formats
	Convention Convention // whose arithmetic; one that Conventions lists for the format
	Method     string     // how codes and scales are chosen: one that Methods or Weighted lists for the format, or that names a codebook; "" is the first
	// Global is the stored second-level or tensor scale to use, where the format
	// has one; 0 takes it from the matrix.
	Global float32
	// Codebook are the codes of a format with codebooks, a bit each: what
	// ChooseCodebook gives. 0 for every other format.
	Codebook uint16
	// Books are the errors of the search that Codebook is from, for the record alone:
	// see Use.
	Books BookErrors
}

// Conventions lists whose arithmetic a format can follow, the default first;
// none for a format without a quantizer.
func Conventions(format string) []Convention {
	if q, ok := quantizers[format]; ok {
		return slices.Clone(q.conventions)
	}
	return nil
}

// Methods lists the methods of a format that read nothing but its weights, the
// plain one first; none for a format without a quantizer.
func Methods(format string) []string {
	if q, ok := quantizers[format]; ok {
		return slices.Clone(q.methods)
	}
	return nil
}

// MultiplierLabels name the bins of Tap.Multipliers under a method of a format,
// in order; none for what cannot be made.
func MultiplierLabels(format, method string) []string {
	q, ok := quantizers[format]
	known := slices.Contains(q.methods, method) || slices.Contains(q.weighted, method)
	if f, err := FormatByName(format); err == nil && f.Codebook && NamesBook(method) {
		_, err := NamedBook(method)
		known = err == nil
	}
	if !ok || !known {
		return nil
	}
	if q.labels == nil {
		return []string{"1.0"}
	}
	return q.labels(method)
}

// Sizes are the bytes that a quantization of rows×cols elements leaves.
type Sizes struct {
	Codes  int // packed by row: two 4-bit codes a byte, the even column in the low nibble, or one 8-bit code a byte
	Scales int // as stored, little-endian, row-major
	Mins   int // as stored: minima (Own) or zero points, one signed byte each (CT, CT32) of asymmetric formats
}

// Output is where a chunk of rows goes. Each slice is either nil (not wanted)
// or has exactly the length that Pass.Sizes gives for the rows of the chunk.
type Output struct {
	Codes, Scales, Mins []byte
	RowE2, RowW2        []float64 // one a row: Σ(w−q)² and Σw²
}

// Pass is one quantization of one matrix, which comes in chunks of whole rows
// from the top, so that a matrix need not be in memory at once. The result, tap
// record included, does not depend on how it was cut, bit for bit. A Pass has
// one user.
type Pass struct {
	format     Format
	scaleBytes int
	minBytes   int
	rows, cols int
	next       int // row
	rowBytes   int
	multiple   int
	impl       passImpl
	err        error
}

// passImpl is a pass of one family of formats. Lengths were checked.
type passImpl interface {
	rows(data []byte, rows int, out *Output)
	global() float32
	finish() Tap
}

// quantizer is what the table below knows of a format.
type quantizer struct {
	conventions []Convention
	methods     []string
	weighted    []string                     // methods that need importance
	labels      func(method string) []string // of Tap.Multipliers; nil where there is one choice, 1.0
	// stored says how large a scale and what stands beside it are under a
	// convention, in bytes.
	stored func(f Format, c Convention) (scale, beside int)
	// begin: importance is that of the columns under a method of weighted, else nil.
	begin func(s Set, f Format, spec Spec, e Element, rows, cols int, amax float32, importance []float32) (passImpl, error)
	// needsAmax says that begin wants the largest magnitude of the whole matrix.
	needsAmax bool
	multiple  int // rows that a chunk must be a multiple of, unless it is the last
}

// quantizers is the table of formats that can be made. It is filled by the
// file of each family.
var quantizers = map[string]quantizer{}

func init() {
	methods := make([]string, 0, NVFP4FourOverSix+1)
	for m := NVFP4RTN; m <= NVFP4FourOverSix; m++ {
		methods = append(methods, m.String())
	}
	quantizers["nvfp4"] = quantizer{
		conventions: []Convention{ModelOpt, ModelOptStatic, CT32, CT},
		methods:     methods,
		weighted:    []string{imatrix},
		labels: func(m string) []string {
			if m == imatrix { // like a sweep it tries all scales
				return NVFP4Sweep.Labels()
			}
			return NVFP4Method(slices.Index(methods, m)).Labels()
		},
		stored: func(Format, Convention) (int, int) { return 1, 0 },
		begin: func(s Set, _ Format, spec Spec, e Element, _, cols int, amax float32, importance []float32) (passImpl, error) {
			weighs := spec.Method == imatrix
			m := NVFP4Sweep
			if !weighs {
				m = NVFP4Method(slices.Index(methods, spec.Method))
			}
			if err := checkGlobal(spec.Global, spec.Convention); err != nil {
				return nil, err
			}
			if m == NVFP4FourOverSix && spec.Convention == ModelOpt {
				spec.Convention = ModelOptStatic
			}
			search, _ := m.search()
			p := s.beginNVFP4(e, cols, spec.Convention, search, amax, spec.Global)
			if weighs {
				p.job.weights = newNVFP4Weights(importance)
			}
			return p, nil
		},
		needsAmax: true, multiple: 1,
	}
}

// check finds the quantizer of a spec and completes it.
func (spec *Spec) check() (quantizer, Format, error) {
	f, err := FormatByName(spec.Format)
	if err != nil {
		return quantizer{}, f, err
	}
	q, ok := quantizers[spec.Format]
	if !ok {
		return q, f, fmt.Errorf("format %q has no quantizer: %w", spec.Format, ErrUnsupported)
	}
	if spec.Method == "" {
		spec.Method = q.methods[0]
	}
	if f.Codebook {
		named, err := checkBookMethod(f.Name, spec.Method)
		if err != nil {
			return q, f, err
		}
		if named != 0 {
			spec.Method = BookMethod(named)
			if spec.Codebook != 0 && spec.Codebook != named {
				return q, f, fmt.Errorf("%s: codebook %#04x, where %s is %#04x: %w", f.Name, spec.Codebook, spec.Method, named, ErrRange)
			}
		}
	} else if known := slices.Concat(q.methods, q.weighted); !slices.Contains(known, spec.Method) {
		return q, f, fmt.Errorf("%s: method %q: %w (known: %s)", spec.Format, spec.Method, ErrUnsupported, strings.Join(known, ", "))
	}
	if !slices.Contains(q.conventions, spec.Convention) {
		known := make([]string, len(q.conventions))
		for i, c := range q.conventions {
			known[i] = c.String()
		}
		return q, f, fmt.Errorf("%s: convention %v: %w (known: %s)", spec.Format, spec.Convention, ErrUnsupported, strings.Join(known, ", "))
	}
	if err := spec.checkCodebook(); err != nil {
		return q, f, err
	}
	return q, f, nil
}

// NeedsAmax says whether Begin wants the largest magnitude of the whole
// matrix; it is false where Global is given and nothing else is needed.
func (spec Spec) NeedsAmax() bool {
	q, _, err := spec.check()
	return err == nil && q.needsAmax && spec.Global == 0
}

// AbsMax is the largest finite magnitude among the elements of a matrix, 0
// where there is none.
func (s Set) AbsMax(m Matrix) (float32, error) {
	if err := m.check(); err != nil {
		return 0, err
	}
	return s.orReference().finiteAbsMax(m), nil
}

// Begin begins a quantization. amax is the largest finite magnitude of the
// whole matrix where NeedsAmax says so, else it is not looked at. A method that
// weighs errors is ErrNeedsImportance here: BeginWeighted begins it.
func (s Set) Begin(spec Spec, e Element, rows, cols int, amax float32) (*Pass, error) {
	return s.begin(spec, e, rows, cols, amax, nil, false)
}

// begin is Begin and, weighted, BeginWeighted, whose importance was checked.
func (s Set) begin(spec Spec, e Element, rows, cols int, amax float32, importance []float32, weighted bool) (*Pass, error) {
	q, f, err := spec.check()
	if err != nil {
		return nil, err
	}
	switch weighs := slices.Contains(q.weighted, spec.Method); {
	case weighs && !weighted:
		return nil, fmt.Errorf("%s: method %q: %w", spec.Format, spec.Method, ErrNeedsImportance)
	case weighted && !weighs:
		return nil, fmt.Errorf("%s: method %q weighs nothing: %w", spec.Format, spec.Method, ErrUnsupported)
	}
	if e.Size() == 0 {
		return nil, fmt.Errorf("%s: %v as a source: %w (known: bf16, f16, f32)", spec.Format, e, ErrUnsupported)
	}
	if _, ok := product(rows, cols, e.Size()); !ok {
		return nil, fmt.Errorf("%s: %d×%d: %w", spec.Format, rows, cols, ErrShape)
	}
	if _, err := f.Bytes(rows, cols); err != nil {
		return nil, err
	}
	if math.IsNaN(float64(amax)) || math.IsInf(float64(amax), 0) || amax < 0 {
		return nil, fmt.Errorf("%s: largest magnitude %v: %w", spec.Format, amax, ErrRange)
	}
	impl, err := q.begin(s.orReference(), f, spec, e, rows, cols, amax, importance)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", spec.Format, err)
	}
	p := &Pass{format: f, rows: rows, cols: cols, rowBytes: cols * e.Size(), multiple: q.multiple, impl: impl}
	p.scaleBytes, p.minBytes = q.stored(f, spec.Convention)
	return p, nil
}

// Global is the tensor's own scale as stored, 0 where the format keeps none
// beside its scales.
func (p *Pass) Global() float32 { return p.impl.global() }

// RowMultiple is how many rows a chunk must be a multiple of, unless it is the
// last.
func (p *Pass) RowMultiple() int { return p.multiple }

// Sizes are the lengths of what the next rows leave. A scale that covers the
// whole tensor belongs to the first chunk.
func (p *Pass) Sizes(rows int) Sizes {
	n := 0
	switch {
	case p.format.Scope == ScopeTensor && p.next > 0:
	case rows >= 0 && rows <= p.rows-p.next:
		n, _ = p.format.Scales(rows, p.cols)
	}
	return Sizes{Codes: rows * ceilDiv(p.cols*p.format.Bits, 8), Scales: n * p.scaleBytes, Mins: n * p.minBytes}
}

// errPass is what a pass that went wrong, or is over, answers.
var errPass = errors.New("the pass is over")

// Rows quantizes the next rows, whose elements data holds. out may be nil.
func (p *Pass) Rows(data []byte, out *Output) error {
	if p.err != nil {
		return p.err
	}
	if out == nil {
		out = &Output{}
	}
	rows := p.rows - p.next
	if p.rowBytes > 0 {
		if rows = len(data) / p.rowBytes; rows*p.rowBytes != len(data) || rows > p.rows-p.next {
			return fmt.Errorf("%s: %d bytes are no rows of %d, of which %d are left: %w", p.format.Name, len(data), p.rowBytes, p.rows-p.next, ErrShape)
		}
	} else if len(data) != 0 {
		return fmt.Errorf("%s: %d bytes for rows of none: %w", p.format.Name, len(data), ErrShape)
	}
	if rows < p.rows-p.next && rows%p.multiple != 0 {
		return fmt.Errorf("%s: a chunk of %d rows is no multiple of %d: %w", p.format.Name, rows, p.multiple, ErrShape)
	}
	want := p.Sizes(rows)
	for _, o := range []struct {
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
		if o.wanted && o.have != o.want {
			return fmt.Errorf("%s: %d %s for %d rows, want %d: %w", p.format.Name, o.have, o.what, rows, o.want, ErrShape)
		}
	}
	p.impl.rows(data, rows, out)
	p.next += rows
	return nil
}

// Finish ends the pass and gives its tap record. Rows that did not come are an
// error. It must be called once, on every pass, to give back what it holds.
func (p *Pass) Finish() (Tap, error) {
	if p.err != nil {
		return Tap{}, p.err
	}
	p.err = errPass
	t := p.impl.finish()
	if p.next != p.rows && p.cols > 0 {
		return Tap{}, fmt.Errorf("%s: %d of %d rows came: %w", p.format.Name, p.next, p.rows, ErrShape)
	}
	return t, nil
}

// orReference is the set itself, or the reference for one that was not taken
// from Available.
func (s Set) orReference() Set {
	if s.absMax == nil {
		return Reference()
	}
	return s
}
