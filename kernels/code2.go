package kernels

import (
	"errors"
	"fmt"
	"math/bits"
)

// The formats code2 and code2-mxfp4 are NVFP4 and MXFP4 whose codes are four of the
// fifteen E2M1 values, the codebook, the same four in all of a tensor. Scales and the
// global scale are those of round to nearest and stay as they are. A code is two bits,
// see PackCode2, which with the scales makes 2.5 and 2.25 bits a weight.
//
// An element gets the value of the codebook that is nearest to w/step, of two
// that are equally near the one with the smaller magnitude, of ±v, between which only
// zeros are, that of their sign. An element that is not finite is coded as a 0 is. Clipping is measured
// from the largest magnitude of the codebook.

// ErrNeedsCodebook is the answer to a pass of a format with codebooks without
// Spec.Codebook, which ChooseCodebook chooses.
var ErrNeedsCodebook = errors.New("needs a codebook, which is chosen from the whole matrix first")

// CodebookValues is how many codes a codebook has.
const CodebookValues = 4

func init() {
	quantizers["code2"] = quantizer{
		conventions: []Convention{ModelOpt, ModelOptStatic, CT32, CT},
		methods:     codebookMethods,
		stored:      func(Format, Convention) (int, int) { return 1, 0 },
		needsAmax:   true, multiple: 1,
		begin: func(s Set, f Format, spec Spec, e Element, _, cols int, amax float32, _ []float32) (passImpl, error) {
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
			p.job.bias = newBiasSums(spec)
			return newBookPass(p, f, spec, cols), nil
		},
	}
	quantizers["code2-mxfp4"] = quantizer{
		conventions: mxfp4Conventions,
		methods:     codebookMethods,
		stored:      func(Format, Convention) (int, int) { return 1, 0 },
		multiple:    1,
		begin: func(s Set, f Format, spec Spec, e Element, _, cols int, _ float32, _ []float32) (passImpl, error) {
			if spec.Codebook == 0 {
				return nil, ErrNeedsCodebook
			}
			book := newCodebook(spec.Codebook)
			p := s.beginBlocks(f, e, cols, ruleE2M1, bookScales{mxfp4Chooser(spec.Convention), book.reach}, 1, 0)
			p.book, p.bias = book, newBiasSums(spec)
			return newBookPass(p, f, spec, cols), nil
		},
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

// bookPass packs what a pass with a codebook writes.
type bookPass struct {
	passImpl
	tables      *bookTables
	cols, group int
	nibbles     []byte // of a row
}

func newBookPass(p passImpl, f Format, spec Spec, cols int) *bookPass {
	return &bookPass{passImpl: p, tables: tablesOfBook(spec.Codebook), cols: cols, group: f.Group, nibbles: make([]byte, ceilDiv(cols, 2))}
}

func (p *bookPass) rows(data []byte, rows int, out *Output) {
	if out.Codes == nil || p.cols == 0 {
		p.passImpl.rows(data, rows, out)
		return
	}
	packed, scales, rowBytes := ceilDiv(p.cols, 4), ceilDiv(p.cols, p.group), len(data)/max(rows, 1)
	for r := range rows {
		row := Output{Codes: p.nibbles}
		if out.Scales != nil {
			row.Scales = out.Scales[r*scales:][:scales]
		}
		if out.RowE2 != nil {
			row.RowE2 = out.RowE2[r:][:1]
		}
		if out.RowW2 != nil {
			row.RowW2 = out.RowW2[r:][:1]
		}
		p.passImpl.rows(data[r*rowBytes:][:rowBytes], 1, &row)
		p.tables.packRow(out.Codes[r*packed:][:packed], p.nibbles, p.cols)
	}
}
