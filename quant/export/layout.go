package export

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// Names of the layouts.
const (
	ModelOpt          = "modelopt"           // what NVIDIA's Model Optimizer exports
	CompressedTensors = "compressed-tensors" // what llm-compressor exports
	Own               = "quantscope"         // ours, for what the others cannot say
)

// Errors that callers tell apart.
var (
	ErrUnknown = errors.New("unknown")          // a layout that does not exist
	ErrLayout  = errors.New("not available")    // a scheme or a convention that a layout cannot store
	ErrMatrix  = errors.New("cannot be stored") // a matrix, or rows of one
	ErrSource  = errors.New("source")           // a checkpoint that cannot be exported
	ErrOutput  = errors.New("output folder")    // one that an export cannot be written to
	ErrChanged = errors.New("has changed")      // an export that cannot be continued with this plan
	ErrMissing = errors.New("incomplete")       // matrices that were not stored
)

// scheme is one format in one layout.
type scheme struct {
	layout, format string
	as             string               // format that is stored in its place, whose codes can say it; "" for its own
	conventions    []kernels.Convention // whose arithmetic can be stored, the default first
	fields         func(kernels.Format, kernels.Convention, int64, int64) []field
	// Rows and columns must be multiples of these, where they are not 0.
	rowUnit, colUnit int
	rowMultiple      int // chunks of rows must be multiples of this
}

// Field is a part of a quantized matrix that is a tensor of its own.
type Field uint8

// Fields.
const (
	Codes      Field = iota + 1 // element codes; as I32 in rows of whole words
	Scales                      // block, group, row or tensor scales
	Mins                        // minima
	ZeroPoints                  // zero points, as I32 eight rows to a word
	Global                      // the second-level scale of the tensor
	Shape                       // rows and columns of the matrix
	Codebook                    // the four codes of E2M1 that codes of two bits stand for
)

// field is a Field as a layout stores it.
type field struct {
	kind   Field
	suffix string // of the tensor's name, below the module
	dtype  checkpoint.DType
	shape  []int64
}

// schemes is the table of what can be written.
var schemes = makeSchemes()

func makeSchemes() []scheme {
	modelOpt := []kernels.Convention{kernels.ModelOpt}
	ct := []kernels.Convention{kernels.CT32, kernels.CT}
	table := []scheme{
		{layout: ModelOpt, format: "nvfp4", conventions: []kernels.Convention{kernels.ModelOpt, kernels.ModelOptStatic}, fields: modelOptNVFP4, colUnit: kernels.BlockNVFP4},
		{layout: ModelOpt, format: "fp8", conventions: modelOpt, fields: modelOptFP8},
		{layout: ModelOpt, format: "fp8-channel", conventions: modelOpt, fields: modelOptFP8},
		{layout: ModelOpt, format: "fp8-block128", conventions: modelOpt, fields: modelOptFP8, rowUnit: 128, colUnit: 128, rowMultiple: 128},
		{layout: CompressedTensors, format: "nvfp4", conventions: ct, fields: ctNVFP4, colUnit: kernels.BlockNVFP4},
		{layout: CompressedTensors, format: "mxfp4", conventions: ct, fields: ctMXFP4, colUnit: 32},
		{layout: ModelOpt, format: "code2", as: "nvfp4", conventions: []kernels.Convention{kernels.ModelOpt, kernels.ModelOptStatic}, fields: modelOptNVFP4, colUnit: kernels.BlockNVFP4},
		{layout: CompressedTensors, format: "code2", as: "nvfp4", conventions: ct, fields: ctNVFP4, colUnit: kernels.BlockNVFP4},
		{layout: CompressedTensors, format: "code2-mxfp4", as: "mxfp4", conventions: ct, fields: ctMXFP4, colUnit: 32},
		{layout: CompressedTensors, format: "fp8", conventions: ct, fields: ctFP8},
		{layout: CompressedTensors, format: "fp8-channel", conventions: ct, fields: ctFP8},
		{layout: CompressedTensors, format: "fp8-block128", conventions: ct, fields: ctFP8, rowMultiple: 128},
	}
	for _, f := range kernels.Formats() {
		if f.Element != "int4" {
			continue
		}
		s := scheme{layout: CompressedTensors, format: f.Name, conventions: ct, fields: ctInt4, colUnit: f.Group}
		if f.MinBits > 0 {
			s.rowMultiple = rowsPerWord
		}
		table = append(table, s)
	}
	for _, f := range kernels.Formats() {
		if f.Element == "int4" && f.MinBits > 0 {
			table = append(table, scheme{layout: Own, format: f.Name, conventions: []kernels.Convention{kernels.Own}, fields: ownInt4, colUnit: 2})
		}
	}
	for _, name := range []string{"code2", "code2-mxfp4"} {
		table = append(table, scheme{layout: Own, format: name, conventions: kernels.Conventions(name), fields: ownCode2, colUnit: codesPerByte})
	}
	for i := range table {
		table[i].rowMultiple = max(table[i].rowMultiple, 1)
	}
	return table
}

// Layouts lists the layouts.
func Layouts() []string {
	var names []string
	for _, s := range schemes {
		if !slices.Contains(names, s.layout) {
			names = append(names, s.layout)
		}
	}
	return names
}

// Formats lists the formats that a layout can store; none for an unknown
// layout.
func Formats(layout string) []string {
	var names []string
	for _, s := range schemes {
		if s.layout == layout {
			names = append(names, s.format)
		}
	}
	return names
}

// DefaultConvention is the arithmetic that a layout's own tools follow for a
// format.
func DefaultConvention(layout, format string) (kernels.Convention, error) {
	s, err := findScheme(layout, format)
	if err != nil {
		return 0, err
	}
	return s.conventions[0], nil
}

func findScheme(layout, format string) (scheme, error) {
	if !slices.Contains(Layouts(), layout) {
		return scheme{}, fmt.Errorf("layout %q: %w (known: %s)", layout, ErrUnknown, strings.Join(Layouts(), ", "))
	}
	for _, s := range schemes {
		if s.layout == layout && s.format == format {
			return s, nil
		}
	}
	var others []string
	for _, s := range schemes {
		if s.format == format {
			others = append(others, s.layout)
		}
	}
	more := ""
	if len(others) > 0 {
		more = fmt.Sprintf("; %s is available as %s", format, strings.Join(others, ", "))
	}
	return scheme{}, fmt.Errorf("format %s in layout %s: %w (%s has: %s%s)", format, layout, ErrLayout, layout, strings.Join(Formats(layout), ", "), more)
}

// StoredFormat is the format that a module of a layout is read back as: of a format of
// two bits in a layout of FP4 that whose codes it is stored in, else the format itself.
func StoredFormat(layout, format string) string {
	if s, err := findScheme(layout, format); err == nil && s.as != "" {
		return s.as
	}
	return format
}

// check wants the spec's convention to be one that can be stored.
func (s scheme) check(spec kernels.Spec) error {
	if slices.Contains(s.conventions, spec.Convention) {
		return nil
	}
	known := make([]string, len(s.conventions))
	for i, c := range s.conventions {
		known[i] = c.String()
	}
	return fmt.Errorf("convention %v of %s in layout %s: %w (known: %s)", spec.Convention, s.format, s.layout, ErrLayout, strings.Join(known, ", "))
}

// checkShape wants whole blocks where the layout cannot hold others.
func (s scheme) checkShape(rows, cols int) error {
	switch {
	case s.colUnit > 0 && cols%s.colUnit != 0:
		return fmt.Errorf("%d inputs are no multiple of %d, which %s in layout %s needs", cols, s.colUnit, s.format, s.layout)
	case s.rowUnit > 0 && rows%s.rowUnit != 0:
		return fmt.Errorf("%d outputs are no multiple of %d, which %s in layout %s needs", rows, s.rowUnit, s.format, s.layout)
	}
	return nil
}
