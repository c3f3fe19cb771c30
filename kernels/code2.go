package kernels

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// The format code2 is NVFP4 whose codes are four of the fifteen E2M1 values, the
// codebook, the same four in all of a tensor. Scales and the global scale are
// those of NVFP4's round to nearest and stay as they are. A code is two bits, see
// PackCode2, which with the scales makes 2.5 bits a weight.
//
// An element gets the value of the codebook that is nearest to w/step, of two
// that are equally near the one with the smaller magnitude, of ±v the positive
// one. An element that is not finite is coded as a 0 is. Clipping is measured
// from the largest magnitude of the codebook.

// ErrNeedsCodebook is the answer to a pass of code2 without Spec.Codebook, which
// ChooseCodebook chooses.
var ErrNeedsCodebook = errors.New("needs a codebook, which is chosen from the whole matrix first")

// CodebookValues is how many codes a codebook has.
const CodebookValues = 4

func init() {
	q := quantizer{
		conventions: []Convention{ModelOpt, ModelOptStatic, CT32, CT},
		methods:     []string{"l2", "sym"},
		stored:      func(Format, Convention) (int, int) { return 1, 0 },
		needsAmax:   true, multiple: 1,
	}
	q.begin = func(s Set, _ Format, spec Spec, e Element, _, cols int, amax float32, _ []float32) (passImpl, error) {
		if spec.Codebook == 0 {
			return nil, ErrNeedsCodebook
		}
		if err := checkGlobal(spec.Global, spec.Convention); err != nil {
			return nil, err
		}
		s.nvfp4Count, s.nvfp4Encode = nvfp4CountRef, nvfp4EncodeBook
		p := s.beginNVFP4(e, cols, spec.Convention, nvfp4Search{top: MaxE4M3}, amax, spec.Global)
		p.job.book = newCodebook(spec.Codebook)
		p.job.reach = p.job.book.reach
		return &code2Pass{nvfp4Pass: p, tables: tablesOfBook(spec.Codebook), nibbles: make([]byte, ceilDiv(cols, 2))}, nil
	}
	quantizers["code2"] = q
}

// code2Pass packs what an NVFP4 pass with a codebook writes.
type code2Pass struct {
	*nvfp4Pass
	tables  *bookTables
	nibbles []byte // of a row
}

func (p *code2Pass) rows(data []byte, rows int, out *Output) {
	if out.Codes == nil || p.cols == 0 {
		p.nvfp4Pass.rows(data, rows, out)
		return
	}
	eachRow(out, data, rows, ceilDiv(p.cols, 4), ceilDiv(p.cols, BlockNVFP4), func(data, packed []byte, row *Output) {
		row.Codes = p.nibbles
		p.nvfp4Pass.rows(data, 1, row)
		p.tables.packRow(packed, p.nibbles, p.cols)
	})
}

// eachRow takes an output apart into rows, whose codes are packed. The Output that f
// gets is without codes, and the same for all rows.
func eachRow(out *Output, data []byte, rows, packed, scales int, f func(data, packed []byte, row *Output)) {
	var row Output
	rowBytes := len(data) / max(rows, 1)
	for r := range rows {
		row = Output{}
		if out.Scales != nil {
			row.Scales = out.Scales[r*scales:][:scales]
		}
		if out.RowE2 != nil {
			row.RowE2 = out.RowE2[r:][:1]
		}
		if out.RowW2 != nil {
			row.RowW2 = out.RowW2[r:][:1]
		}
		f(data[r*rowBytes:][:rowBytes], out.Codes[r*packed:][:packed], &row)
	}
}

// checkCodebook refuses a mask that is no codebook of the format. Every format
// has 0, which is none.
func (spec *Spec) checkCodebook() error {
	if spec.Codebook == 0 {
		return nil
	}
	if f, err := FormatByName(spec.Format); err != nil || !f.Codebook {
		return fmt.Errorf("%s has no codebook: %w", spec.Format, ErrUnsupported)
	}
	return checkMask(spec.Codebook)
}

func checkMask(mask uint16) error {
	if bits.OnesCount16(mask) != CodebookValues || mask&(1<<8) != 0 {
		return fmt.Errorf("codebook %#04x: want %d of the 15 E2M1 values, a bit for each code and none for −0: %w", mask, CodebookValues, ErrRange)
	}
	return nil
}

// Codebook lists the values of a mask of codes, ascending.
func Codebook(mask uint16) []float32 {
	var out []float32
	for _, code := range e2m1Ascending {
		if mask&(1<<code) != 0 {
			out = append(out, e2m1Values[code])
		}
	}
	return out
}

// e2m1Ascending are the codes in the order of their values, but for −0.
var e2m1Ascending = [15]byte{15, 14, 13, 12, 11, 10, 9, 0, 1, 2, 3, 4, 5, 6, 7}

// Every place where the nearest value can change is a multiple of a quarter:
// cells are a quarter wide, from −7 up, and their ends are open.
const (
	bookCells = 56
	bookFirst = -28 // quarters
)

// bookCell is the cell of x = w/step. What lies on the border of two is in the
// one nearer to 0, and 0 in the positive one.
func bookCell(x float32) int {
	t := float64(x) * 4
	if t > 0 {
		t = math.Ceil(t) - 1
	} else {
		t = max(math.Floor(t), bookFirst)
	}
	return int(min(t, bookFirst+bookCells-1)) - bookFirst
}

// codebook finds the nearest of four values.
type codebook struct {
	codes  [bookCells]byte
	values [bookCells]float32
	reach  float64
}

func newCodebook(mask uint16) *codebook {
	b := new(codebook)
	for cell := range b.codes {
		middle := (float64(cell+bookFirst) + 0.5) / 4
		least := math.Inf(1)
		for _, code := range e2m1Ascending {
			if d := math.Abs(float64(e2m1Values[code]) - middle); mask&(1<<code) != 0 && d < least {
				b.codes[cell], b.values[cell], least = code, e2m1Values[code], d
			}
		}
		b.reach = max(b.reach, math.Abs(float64(b.values[cell])))
	}
	return b
}

// nvfp4EncodeBook is nvfp4EncodeRef with a codebook.
func nvfp4EncodeBook(j *nvfp4Job, src, scales, codes []byte) {
	var w nvfp4Block
	stride := BlockNVFP4 * j.element.Size()
	for i, scale := range scales {
		w.load(j.element, src[i*stride:(i+1)*stride])
		j.encodeBook(&w, j.steps[scale&127], codes[i*8:i*8+8], BlockNVFP4, 0)
	}
}

// encodeBook is encode with a codebook. Only the first n elements are there, and
// those of them are not finite that odd has a bit for: the record has them as
// codes 0 without error, as it has what is not there.
func (j *nvfp4Job) encodeBook(w *nvfp4Block, step float32, codes []byte, n int, odd uint16) {
	t := &j.tap
	divisor := step
	if step == 0 {
		divisor = float32(math.Inf(1))
	}
	l := &t.lanes
	codes = codes[:BlockNVFP4/2]
	for i := range codes {
		var stored, counted byte
		for half := range 2 {
			at := 2*i + half
			x := w[at]
			u := x / divisor
			cell := bookCell(u)
			code, v := j.book.codes[cell], j.book.values[cell]
			if at < n {
				stored |= code << (4 * half)
			}
			if at >= n || odd>>at&1 != 0 {
				code, u, v, x = 0, 0, 0, 0
			}
			counted |= code << (4 * half)
			t.errors[errorBin(u-v)&63]++
			w0, q0 := float64(x), float64(float32(v*step))
			e := w0 - q0
			l.w2[i] += float64(w0 * w0)
			l.q2[i] += float64(q0 * q0)
			l.wq[i] += float64(w0 * q0)
			l.e2[i] = math.FMA(e, e, l.e2[i])
			l.worst[i] = max(l.worst[i], math.Abs(e))
		}
		codes[i] = stored
		t.pairs[counted]++
	}
}

// oddBits has a bit for each element that is not finite.
func oddBits(e Element, src []byte) (odd uint16) {
	size := e.Size()
	for i := range len(src) / size {
		if x := loadElement(e, src[i*size:]); math.Float32bits(x)&^signF32 >= infF32 {
			odd |= 1 << i
		}
	}
	return odd
}
