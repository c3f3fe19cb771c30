package kernels

import (
	"fmt"
	"math"
)

// BlockNVFP4 is how many consecutive elements of a row share an NVFP4 scale.
// The last block of a row is short where the row is not a multiple of it; a
// block never runs into the next row.
const BlockNVFP4 = 16

// NVFP4Method is how an NVFP4 quantizer chooses a block's scale.
type NVFP4Method uint8

// Methods.
const (
	NVFP4RTN         NVFP4Method = iota // the scale that maps the largest magnitude to 6
	NVFP4MSE                            // of nine multiples of that, 0.7 to 1.5, the one with the least squared error
	NVFP4MSEGE1                         // the same over the multiples from 1 up
	NVFP4Sweep                          // of all 126 positive E4M3 scales the one with the least squared error
	NVFP4FourOverSix                    // the largest magnitude goes to 6 or to 4, whichever has less error
)

// String is the method's name in a variant.
func (m NVFP4Method) String() string {
	switch m {
	case NVFP4RTN:
		return "rtn"
	case NVFP4MSE:
		return "mse"
	case NVFP4MSEGE1:
		return "mse_ge1"
	case NVFP4Sweep:
		return "sweep"
	case NVFP4FourOverSix:
		return "4over6"
	}
	return fmt.Sprintf("nvfp4 method(%d)", uint8(m))
}

// Labels name the bins of Tap.Multipliers under this method, in order.
func (m NVFP4Method) Labels() []string {
	switch m {
	case NVFP4RTN:
		return []string{"1.0"}
	case NVFP4MSE:
		return []string{"0.7", "0.8", "0.9", "1.0", "1.1", "1.2", "1.3", "1.4", "1.5"}
	case NVFP4MSEGE1:
		return []string{"1.0", "1.1", "1.2", "1.3", "1.4", "1.5"}
	case NVFP4Sweep:
		return []string{"≤-8", "-7", "-6", "-5", "-4", "-3", "-2", "-1", "0", "+1", "+2", "+3", "+4", "+5", "+6", "≥+7"}
	case NVFP4FourOverSix:
		return []string{"6", "4"}
	}
	return nil
}

// NVFP4Options says what an NVFP4 quantization does. The zero value is round
// to nearest in ModelOpt's convention with the global scale taken from the
// matrix.
type NVFP4Options struct {
	Convention Convention
	Method     NVFP4Method
	// GlobalScale is the stored global scale to use: weight_scale_2 (ModelOpt)
	// or weight_global_scale (compressed-tensors). 0 takes it from the matrix;
	// one under which values decode to infinity is refused with ErrRange.
	GlobalScale float32
}

// NVFP4Output is where a quantization writes. Each slice is either nil (not
// wanted) or has exactly the stated length.
type NVFP4Output struct {
	Codes       []byte    // Rows·ceil(Cols/2): the even column in the low nibble; after an odd last column the high nibble is 0
	Scales      []byte    // Rows·ceil(Cols/16): E4M3
	GlobalScale float32   // as stored: weight_scale_2, or weight_global_scale under CT and CT32
	RowE2       []float64 // Rows: Σ(w−q)² of each row
	RowW2       []float64 // Rows: Σw² of each row
}

// NVFP4 quantizes a matrix and measures the round trip in the same pass. With
// out nil it only measures.
//
// Every input has a defined result. A block without a finite element other
// than 0 has codes 0 and the scale that its convention gives for amax 0 (1 in
// ModelOpt, 0.125 in compressed-tensors, 2⁻⁹ in a sweep); an all-zero matrix
// has the global scale 1. A non-finite element gets code 0 and counts for
// nothing but Tap.NaN and Tap.Inf. A weight_scale_2 that would underflow to 0
// is the smallest positive f32, and one so large that the largest code would
// decode to infinity is lowered to the largest that does not.
//
// NVFP4FourOverSix follows nvidia-modelopt, whose four-over-six knows the
// static rule for block scales only: under ModelOpt it takes that of
// ModelOptStatic.
func (s Set) NVFP4(m Matrix, o NVFP4Options, out *NVFP4Output) (Tap, error) {
	search, ok := o.Method.search()
	if !ok {
		return Tap{}, fmt.Errorf("%v: %w", o.Method, ErrUnsupported)
	}
	if o.Convention > CT {
		return Tap{}, fmt.Errorf("nvfp4: %v: %w", o.Convention, ErrUnsupported)
	}
	if err := checkGlobal(o.GlobalScale, o.Convention); err != nil {
		return Tap{}, fmt.Errorf("nvfp4: %w", err)
	}
	if o.Method == NVFP4FourOverSix && o.Convention == ModelOpt {
		o.Convention = ModelOptStatic
	}
	return s.nvfp4(m, o.Convention, search, o.GlobalScale, out)
}

// nvfp4 is NVFP4 for any search.
func (s Set) nvfp4(m Matrix, conv Convention, search nvfp4Search, global float32, out *NVFP4Output) (Tap, error) {
	if err := m.check(); err != nil {
		return Tap{}, fmt.Errorf("nvfp4: %w", err)
	}
	if out == nil {
		out = new(NVFP4Output)
	}
	if err := out.check(m.Rows, m.Cols); err != nil {
		return Tap{}, fmt.Errorf("nvfp4: %w", err)
	}
	s = s.orReference()
	p := s.beginNVFP4(m.Element, m.Cols, conv, search, s.finiteAbsMax(m), global)
	out.GlobalScale = p.global()
	p.rows(m.Data, m.Rows, &Output{Codes: out.Codes, Scales: out.Scales, RowE2: out.RowE2, RowW2: out.RowW2})
	return p.finish(), nil
}

func (out *NVFP4Output) check(rows, cols int) error {
	for _, o := range []struct {
		what       string
		wanted     bool
		have, each int
	}{
		{"codes", out.Codes != nil, len(out.Codes), ceilDiv(cols, 2)},
		{"scales", out.Scales != nil, len(out.Scales), ceilDiv(cols, BlockNVFP4)},
		{"row errors", out.RowE2 != nil, len(out.RowE2), 1},
		{"row norms", out.RowW2 != nil, len(out.RowW2), 1},
	} {
		if want, ok := product(rows, o.each); o.wanted && (!ok || o.have != want) {
			return fmt.Errorf("%d %s for %d×%d: %w", o.have, o.what, rows, cols, ErrShape)
		}
	}
	return nil
}

// finiteAbsMax is the largest finite magnitude of a matrix.
func (s Set) finiteAbsMax(m Matrix) float32 {
	const part = 1 << 16 // bytes: where one has an element that is not finite, it is gone through again
	var amax uint32
	for data := m.Data; len(data) > 0; {
		head := data[:min(len(data), part)]
		data = data[len(head):]
		a := s.absMax(m.Element, head)
		if a >= infF32 {
			a = finiteAbsMaxRef(m.Element, head)
		}
		amax = max(amax, a)
	}
	return math.Float32frombits(amax)
}

// nvfp4Chunk is how many blocks are quantized at a time where the caller does
// not want codes and scales, so that they have somewhere to go.
const nvfp4Chunk = 256

// nvfp4Row quantizes one row: runs of whole finite blocks by the set's kernel,
// what is left block by block. codes and scales are nil where not wanted.
func (s Set) nvfp4Row(j *nvfp4Job, src, codes, scales []byte) {
	size := j.element.Size()
	stride := BlockNVFP4 * size
	if j.weights != nil {
		j.weights.at = 0
	}
	for len(src) > 0 {
		n := min(len(src)/stride, nvfp4Chunk)
		c, sc := j.codes[:n*BlockNVFP4/2], j.scales[:n]
		if codes != nil {
			c = codes[:n*BlockNVFP4/2]
		}
		if scales != nil {
			sc = scales[:n]
		}
		found := &j.tap.clips.amax
		done := s.blockAmax(j.element, src[:n*stride], found[:n])
		run, amax, choices := src[:done*stride], found[:done], j.choices[:done]
		s.chooseNVFP4(j, run, amax, sc[:done], choices)
		s.nvfp4Count(j, run, amax, sc[:done], choices)
		s.nvfp4Encode(j, run, sc[:done], c[:done*BlockNVFP4/2])
		if codes != nil {
			codes = codes[done*BlockNVFP4/2:]
		}
		if scales != nil {
			scales = scales[done:]
		}
		j.tap.elements += int64(done * BlockNVFP4)
		src = src[done*stride:]
		if j.weights != nil {
			j.weights.at += done
		}
		if done == n && len(src) >= stride || len(src) == 0 {
			continue
		}
		// The short last block, or one with an element that is not finite.
		part := src[:min(len(src), stride)]
		scale := j.part(part, j.codes[:BlockNVFP4/2])
		if codes != nil {
			codes = codes[copy(codes, j.codes[:ceilDiv(len(part)/size, 2)]):]
		}
		if scales != nil {
			scales[0] = scale
			scales = scales[1:]
		}
		src = src[len(part):]
		if j.weights != nil {
			j.weights.at++
		}
	}
}

// part quantizes a block that is short or has non-finite elements.
func (j *nvfp4Job) part(src, codes []byte) (scale byte) {
	t := &j.tap
	var w nvfp4Block
	amax, nan, inf := w.loadPart(j.element, src)
	elements := int64(len(src) / j.element.Size())
	t.elements += elements
	t.nan += nan
	t.inf += inf
	t.padding += BlockNVFP4 - elements + nan + inf
	return j.block(&w, amax, src, codes)
}
