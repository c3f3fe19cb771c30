package kernels

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Scope is what one scale of a format covers.
type Scope uint8

// Scopes.
const (
	ScopeNone    Scope = iota // the format has no scale
	ScopeTensor               // the whole tensor
	ScopeChannel              // one row, that is one output channel
	ScopeGroup                // Group consecutive elements of a row
	ScopeTile                 // a square of Group rows by Group columns
)

// Format says how one tensor is stored: bits, groups, scales. What a tensor
// takes is computed from here and from nowhere else.
type Format struct {
	Name        string
	Description string

	Bits    int       // of one element
	Element string    // the elements' number format
	Codes   []float32 // the value of each element code, where a table of at most 16 says it; nil otherwise
	// Codebook says that a tensor has four of the values of Codes, and that a code is
	// the index of one of them, see Spec.Codebook. Tap.Codes counts by Codes.
	Codebook bool

	Scope     Scope
	Group     int    // elements a side that share a scale under ScopeGroup and ScopeTile; 0 otherwise
	Scale     string // the scales' number format; "" under ScopeNone
	ScaleBits int    // of one scale
	MinBits   int    // of what is stored beside each scale (a minimum); 0 in symmetric formats

	TensorBytes int // stored once a tensor beside all that: a second-level scale
}

// codebookBytes is what the four values of a codebook take, a byte each.
const codebookBytes = CodebookValues

// formats is the one table. FP8 scales and second-level scales are f32;
// asymmetric int4 keeps a bf16 scale and a bf16 minimum a group.
var formats = []Format{
	{Name: "f32", Description: "IEEE single precision", Bits: 32, Element: "f32"},
	{Name: "bf16", Description: "bfloat16", Bits: 16, Element: "bf16"},
	{Name: "f16", Description: "IEEE half precision", Bits: 16, Element: "f16"},
	{Name: "nvfp4", Description: "E2M1 in blocks of 16 with E4M3 scales and one f32 scale a tensor",
		Bits: 4, Element: "e2m1", Codes: slices.Clone(e2m1Values[:]), Scope: ScopeGroup, Group: BlockNVFP4, Scale: "e4m3", ScaleBits: 8, TensorBytes: 4},
	{Name: "mxfp4", Description: "E2M1 in blocks of 32 with E8M0 scales",
		Bits: 4, Element: "e2m1", Codes: slices.Clone(e2m1Values[:]), Scope: ScopeGroup, Group: 32, Scale: "e8m0", ScaleBits: 8},
	{Name: "fp8", Description: "E4M3 with one scale a tensor", Bits: 8, Element: "e4m3", Scope: ScopeTensor, Scale: "f32", ScaleBits: 32},
	{Name: "fp8-channel", Description: "E4M3 with one scale a row", Bits: 8, Element: "e4m3", Scope: ScopeChannel, Scale: "f32", ScaleBits: 32},
	{Name: "fp8-block128", Description: "E4M3 with one scale a 128×128 tile", Bits: 8, Element: "e4m3", Scope: ScopeTile, Group: 128, Scale: "f32", ScaleBits: 32},
	int4Format("int4-g32", 32, false), int4Format("int4-g64", 64, false), int4Format("int4-g128", 128, false), int4Format("int4-channel", 0, false),
	int4Format("int4-g32-sym", 32, true), int4Format("int4-g64-sym", 64, true), int4Format("int4-g128-sym", 128, true), int4Format("int4-channel-sym", 0, true),
	{Name: "code2", Description: "two bits: four of NVFP4's code values a tensor, with its scales",
		Bits: 2, Element: "e2m1", Codes: slices.Clone(e2m1Values[:]), Codebook: true, Scope: ScopeGroup, Group: BlockNVFP4, Scale: "e4m3", ScaleBits: 8, TensorBytes: 4 + codebookBytes},
	{Name: "code2-mxfp4", Description: "two bits: four of MXFP4's code values a tensor, with its scales",
		Bits: 2, Element: "e2m1", Codes: slices.Clone(e2m1Values[:]), Codebook: true, Scope: ScopeGroup, Group: 32, Scale: "e8m0", ScaleBits: 8, TensorBytes: codebookBytes},
}

func int4Format(name string, group int, symmetric bool) Format {
	f := Format{Name: name, Bits: 4, Element: "int4", Scope: ScopeGroup, Group: group, Scale: "bf16", ScaleBits: 16}
	over := fmt.Sprintf("a group of %d", group)
	if group == 0 {
		f.Scope, over = ScopeChannel, "a row"
	}
	if symmetric {
		f.Description = "4-bit integers with a bf16 scale " + over
	} else {
		f.Description = "4-bit integers with a bf16 scale and minimum " + over
		f.MinBits = 16
	}
	return f
}

// Formats lists the table, wide formats first.
func Formats() []Format { return slices.Clone(formats) }

// FormatByName finds a format. An unknown name is an error that lists the
// known ones.
func FormatByName(name string) (Format, error) {
	for _, f := range formats {
		if f.Name == name {
			return f, nil
		}
	}
	known := make([]string, len(formats))
	for i, f := range formats {
		known[i] = f.Name
	}
	return Format{}, fmt.Errorf("format %q: %w (known: %s)", name, ErrUnknownFormat, strings.Join(known, ", "))
}

// Scales is how many scales a rows×cols tensor has. A row's short last group
// has its own.
func (f Format) Scales(rows, cols int) (int, error) {
	if rows < 0 || cols < 0 {
		return 0, fmt.Errorf("%s %d×%d: %w", f.Name, rows, cols, ErrShape)
	}
	n, ok := 0, true
	switch f.Scope {
	case ScopeTensor:
		n = 1
	case ScopeChannel:
		n = rows
	case ScopeGroup:
		n, ok = product(rows, ceilDiv(cols, f.Group))
	case ScopeTile:
		n, ok = product(ceilDiv(rows, f.Group), ceilDiv(cols, f.Group))
	}
	if !ok {
		return 0, fmt.Errorf("%s %d×%d: too large to count: %w", f.Name, rows, cols, ErrShape)
	}
	return n, nil
}

// Bytes is what a rows×cols tensor takes: codes, padded to whole bytes in each
// row, scales and what is stored once a tensor.
func (f Format) Bytes(rows, cols int) (int64, error) {
	scales, err := f.Scales(rows, cols)
	if err != nil {
		return 0, err
	}
	rowBits, ok1 := product(cols, f.Bits)
	codes, ok2 := product(rows, ceilDiv(rowBits, 8))
	beside, ok3 := product(scales, (f.ScaleBits+f.MinBits)/8)
	if !ok1 || !ok2 || !ok3 || int64(beside) > math.MaxInt64-int64(f.TensorBytes)-int64(codes) {
		return 0, fmt.Errorf("%s %d×%d: too large to count: %w", f.Name, rows, cols, ErrShape)
	}
	return int64(codes) + int64(beside) + int64(f.TensorBytes), nil
}

// BitsPerWeight is the bits of an element with its share of the scales of
// whole groups. What is stored once a row or once a tensor is not in it; it
// vanishes as matrices grow, and Bytes counts it.
func (f Format) BitsPerWeight() float64 {
	share := 0.0
	switch f.Scope {
	case ScopeGroup:
		share = 1 / float64(f.Group)
	case ScopeTile:
		share = 1 / (float64(f.Group) * float64(f.Group))
	}
	return float64(f.Bits) + float64(f.ScaleBits+f.MinBits)*share
}

// ScaleBinStart is the scale at which a bin of Tap.Scales begins: four E4M3
// codes a bin in nvfp4, an octave from 2⁻²⁴ on in the other formats. The first
// bin begins at 0; the last one of the others has no end.
func (f Format) ScaleBinStart(bin int) float64 {
	switch {
	case bin <= 0 || bin >= ScaleBins:
		return 0
	case f.Scale == "e4m3":
		return float64(e4m3Values[bin*128/ScaleBins])
	}
	return math.Ldexp(1, firstScaleOctave+bin)
}

// ErrorScales is the unit of Tap.Errors in scales of the block: 1, but in FP8,
// where it is the distance between the largest codes.
func (f Format) ErrorScales() float64 {
	if f.Element == "e4m3" {
		return widestE4M3
	}
	return 1
}
