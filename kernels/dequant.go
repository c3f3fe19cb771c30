package kernels

import (
	"encoding/binary"
	"math"
	"sync"
)

// Rows of codes decoded by a set: vectors where a set has kernels for codes of
// four bits, the definitions of blockDecoder and DequantizeNVFP4 for what is left.

// nibbleKernels decode 32·rounds codes of four bits, two in a byte, by a table of
// 16 values; steps and offsets have one number for every 16 codes.
type nibbleKernels struct {
	steps  func(dst *float32, src *byte, table, steps *float32, rounds int)          // value·step
	zeros  func(dst *float32, src *byte, table, steps, offsets *float32, rounds int) // (value−offset)·step
	minima func(dst *float32, src *byte, table, steps, offsets *float32, rounds int) // value·step+offset, rounded once
}

// Codes of a round, and codes for which a kernel reads one step.
const (
	nibbleRound = 32
	nibbleStep  = 16
)

// dequantSpace is what a call spreads scales and offsets into.
type dequantSpace struct{ scales, steps, mins, offsets []float32 }

var dequantSpaces = sync.Pool{New: func() any { return new(dequantSpace) }}

// spread repeats one number of a group for every nibbleStep codes.
func spread(dst, groups []float32, width int) {
	if width == nibbleStep {
		copy(dst, groups)
		return
	}
	each := ceilDiv(width, nibbleStep)
	for ; len(dst) > each; dst, groups = dst[each:], groups[1:] {
		for i := range dst[:each] {
			dst[i] = groups[0]
		}
	}
	for i := range dst {
		dst[i] = groups[0]
	}
}

// vectors decodes the columns of a row that a kernel can, the first ones, and says
// how many. width is how many columns share a scale, block the row's first scale.
func (d *blockDecoder) vectors(w *dequantSpace, row []float32, code []byte, block, width int, values *[256]float32) int {
	cols := len(row)
	if !d.four {
		d.set.convert.decodeE4M3(row, code)
		for from := 0; from < cols; from += width {
			d.set.rows.scale(row[from:min(from+width, cols)], d.scale(block+from/width))
		}
		if d.rule == ruleE4M3BF16 {
			d.set.convert.roundBF16(row)
		}
		return cols
	}
	rounds := cols / nibbleRound
	if rounds == 0 || width%nibbleStep != 0 && width < cols {
		return 0
	}
	done := rounds * nibbleRound
	groups, steps := ceilDiv(done, width), done/nibbleStep
	w.scales, w.steps = atLeast(w.scales, groups), atLeast(w.steps, steps)
	d.scalesOf(w.scales[:groups], block)
	spread(w.steps[:steps], w.scales, width)
	dst, src, table := &row[0], &code[0], &values[0]
	if len(d.mins) == 0 {
		d.set.nibbles.steps(dst, src, table, &w.steps[0], rounds)
	} else {
		w.mins, w.offsets = atLeast(w.mins, groups), atLeast(w.offsets, steps)
		for i := range groups {
			w.mins[i] = d.offset(block + i)
		}
		spread(w.offsets[:steps], w.mins, width)
		if d.rule == ruleIntMin {
			d.set.nibbles.minima(dst, src, table, &w.steps[0], &w.offsets[0], rounds)
		} else {
			d.set.nibbles.zeros(dst, src, table, &w.steps[0], &w.offsets[0], rounds)
		}
	}
	switch d.rule {
	case ruleIntSym, ruleIntZeroBF16, ruleIntMin:
		d.set.convert.roundBF16(row[:done])
	}
	return done
}

// scalesOf are the scales from block on.
func (d *blockDecoder) scalesOf(dst []float32, block int) {
	src := d.scales[block*d.scaleBytes:]
	switch d.scaleBytes {
	case 1:
		for i := range dst {
			dst[i] = E8M0ToF32(src[i])
		}
	case 2:
		for i := range dst {
			dst[i] = BF16ToF32(binary.LittleEndian.Uint16(src[2*i:]))
		}
	default:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	}
}

// nvfp4Vectors decodes the first columns of a row, and says how many.
func (s *Set) nvfp4Vectors(w *dequantSpace, row []float32, code, scale []byte, global float32, conv Convention, values *[16]float32) int {
	rounds := len(row) / nibbleRound
	if rounds == 0 {
		return 0
	}
	w.steps = atLeast(w.steps, len(scale))
	for i, c := range scale {
		w.steps[i] = nvfp4Step(c, global, conv)
	}
	s.nibbles.steps(&row[0], &code[0], &values[0], &w.steps[0], rounds)
	return rounds * nibbleRound
}
