package verify

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/layout"
)

// shownPositions is how many places a message names.
const shownPositions = 3

// places counts where something is wrong, and keeps the first.
type places struct {
	n     int64
	shown []string
}

func (p *places) add(format string, args ...any) {
	if p.n++; len(p.shown) < shownPositions {
		p.shown = append(p.shown, fmt.Sprintf(format, args...))
	}
}

// String is what was kept.
func (p *places) String() string {
	text := strings.Join(p.shown, ", ")
	if p.n > int64(len(p.shown)) {
		text += ", …"
	}
	return text
}

// tally is what is wrong with one module.
type tally struct {
	m      *layout.Module
	format kernels.Format
	groups int // scales of a row, where a row has its own

	allScales, allCodes int64

	scaleDiff, codeDiff, minDiff places
	bookDiff                     string // how the codebook is another; "" where it is not
	pairs                        [256]bool
	book                         uint16 // of codes of two bits
	notFinite, zero              places
	beyond, notNearest           places
	slack                        float64 // share of a value that is not known of it
	nonFinite                    int64   // of the source
	totals                       totals
	compensated                  bool // what it was held against
	kept                         bool // was held against codes that were kept
}

func newTally(j *job) *tally {
	t := &tally{m: j.module, format: j.module.Format(), groups: 1}
	if t.format.Scope == kernels.ScopeGroup {
		t.groups = (j.module.Cols + t.format.Group - 1) / t.format.Group
	}
	return t
}

// equal says whether all that was compared is equal.
func (t *tally) equal() bool { return t.differences() == 0 }

func (t *tally) bookDiffs() int64 {
	if t.bookDiff != "" {
		return 1
	}
	return 0
}

// look notes which codes are used.
func (t *tally) look(s *layout.Stored) {
	switch {
	case s.Codebook != 0:
		t.book = s.Codebook
	case t.m.FP4():
		for _, b := range s.Codes {
			t.pairs[b] = true
		}
	}
}

// codebook is that of codes of two bits, or the values that those of four bits take
// where these are no more than four; 0 elsewhere.
func (t *tally) codebook() uint16 {
	if t.book != 0 || !t.m.FP4() {
		return t.book
	}
	mask := maskOf(&t.pairs)
	if bits.OnesCount16(mask) > kernels.CodebookValues {
		return 0
	}
	return mask
}

// byRow says whether rows have scales of their own.
func (t *tally) byRow() bool {
	return t.format.Scope == kernels.ScopeGroup || t.format.Scope == kernels.ScopeChannel
}

// code is the element code of a column in a row of codes.
func (t *tally) code(row []byte, col int) byte {
	switch t.format.Bits {
	case 2:
		return row[col/4] >> (col % 4 * 2) & 3
	case 4:
		return row[col/2] >> (col % 2 * 4) & 15
	}
	return row[col]
}

// compare holds what is stored of some rows against what was made again. Codes
// of a block with another scale follow from that and are not counted.
func (t *tally) compare(have *layout.Stored, want *kernels.Output, first int) {
	t.allScales += int64(len(want.Scales))
	t.allCodes += int64(len(want.Codes))
	if bytes.Equal(have.Codes, want.Codes) && bytes.Equal(have.Scales, want.Scales) && bytes.Equal(have.Mins, want.Mins) {
		return
	}
	if len(have.Codes) != len(want.Codes) || len(have.Scales) != len(want.Scales) || len(have.Mins) != len(want.Mins) {
		t.scaleDiff.add("%d, %d and %d bytes of codes, scales and minima, not %d, %d and %d", len(have.Codes), len(have.Scales), len(have.Mins), len(want.Codes), len(want.Scales), len(want.Mins))
		return
	}
	if !t.byRow() {
		size := t.scaleBytes(have, 1)
		for k := 0; k+size <= len(have.Scales); k += size {
			if a, b := have.Scales[k:k+size], want.Scales[k:k+size]; !bytes.Equal(a, b) {
				t.scaleDiff.add("%s: %s stored, %s wanted", t.scaleAt(k/size, first), t.scaleText(a), t.scaleText(b))
			}
		}
	}
	rowBytes := (t.m.Cols*t.format.Bits + 7) / 8
	for r := 0; (r+1)*rowBytes <= len(have.Codes); r++ {
		t.compareRow(have, want, r, rowBytes, first+r)
	}
}

func (t *tally) compareRow(have *layout.Stored, want *kernels.Output, r, rowBytes, row int) {
	a, b := have.Codes[r*rowBytes:(r+1)*rowBytes], want.Codes[r*rowBytes:(r+1)*rowBytes]
	size, minSize, width := 0, 0, t.m.Cols
	if t.byRow() {
		size = t.scaleBytes(have, len(have.Codes)/rowBytes)
		minSize = len(have.Mins) / (len(have.Codes) / rowBytes) / t.groups
		if t.format.Group > 0 {
			width = t.format.Group
		}
	}
	for g := range t.groups {
		at := r*t.groups + g
		if size > 0 {
			if x, y := have.Scales[at*size:(at+1)*size], want.Scales[at*size:(at+1)*size]; !bytes.Equal(x, y) {
				t.scaleDiff.add("[%d,%d]: %s stored, %s wanted", row, g, t.scaleText(x), t.scaleText(y))
				continue
			}
		}
		if minSize > 0 {
			if x, y := have.Mins[at*minSize:(at+1)*minSize], want.Mins[at*minSize:(at+1)*minSize]; !bytes.Equal(x, y) {
				t.minDiff.add("[%d,%d]: 0x%x stored, 0x%x wanted", row, g, x, y)
				continue
			}
		}
		for c := g * width; c < min((g+1)*width, t.m.Cols); c++ {
			if x, y := t.code(a, c), t.code(b, c); x != y {
				t.codeDiff.add("[%d,%d]: 0x%x stored, 0x%x wanted", row, c, x, y)
			}
		}
	}
}

// scaleBytes is the size of one stored scale.
func (t *tally) scaleBytes(s *layout.Stored, rows int) int {
	if t.byRow() {
		return len(s.Scales) / max(rows*t.groups, 1)
	}
	return t.m.ScaleSize()
}

// scaleText shows a stored scale.
func (t *tally) scaleText(raw []byte) string {
	return fmt.Sprintf("0x%x (%v)", raw, scaleValue(t.format.Scale, raw))
}

// scaleValue decodes a stored scale.
func scaleValue(kind string, raw []byte) float32 {
	switch {
	case kind == "e4m3":
		return kernels.E4M3ToF32(raw[0])
	case kind == "e8m0":
		return kernels.E8M0ToF32(raw[0])
	case kind == "f16":
		return kernels.F16ToF32(binary.LittleEndian.Uint16(raw))
	case len(raw) == 2:
		return kernels.BF16ToF32(binary.LittleEndian.Uint16(raw))
	case len(raw) == 4:
		return math.Float32frombits(binary.LittleEndian.Uint32(raw))
	}
	return float32(math.NaN())
}

// scales looks for scales that are none.
func (t *tally) scales(s *layout.Stored, first int) {
	size := t.m.ScaleSize()
	if size == 0 {
		return
	}
	for k := 0; k+size <= len(s.Scales); k += size {
		v := scaleValue(t.format.Scale, s.Scales[k:k+size])
		var p *places
		switch {
		case v-v != 0:
			p = &t.notFinite
		case v <= 0:
			p = &t.zero
		default:
			continue
		}
		p.add("%s", t.scaleAt(k/size, first))
	}
}

// scaleAt is where a scale stands that was read with the rows from first on.
func (t *tally) scaleAt(i, first int) string {
	across := t.groups
	if rows, cols := t.m.Tile(); rows > 0 {
		across = (t.m.Cols + cols - 1) / cols
		first /= rows
	}
	return fmt.Sprintf("[%d,%d]", first+i/across, i%across)
}

// report turns what was found into problems.
func (t *tally) report(r *run, f found, remade bool) {
	codes := t.m.CodeTensor()
	scales := codes
	if s := t.m.ScaleTensor(); s != nil {
		scales = s
	}
	mins := codes
	if s := t.m.MinTensor(); s != nil {
		mins = s
	}
	how := "what " + specText(f.spec)
	if t.compensated {
		how += ", compensated,"
	}
	how += " makes of the source"
	if t.kept {
		how = "those that were kept"
	}
	if t.nonFinite > 0 {
		r.problem(SourceInfinite, r.fileOf(codes), codes.Name, "%d weights of the source are NaN or infinite", t.nonFinite)
	}
	if t.notFinite.n > 0 {
		r.problem(ScaleNonFinite, r.fileOf(scales), scales.Name, "%d scales are NaN or infinite, at %v", t.notFinite.n, &t.notFinite)
	}
	if t.zero.n > 0 && (!remade || t.scaleDiff.n > 0) {
		r.problem(ScaleZero, r.fileOf(scales), scales.Name, "%d scales are 0 or negative, at %v", t.zero.n, &t.zero)
	}
	if t.scaleDiff.n > 0 {
		r.problem(ScalesDiffer, r.fileOf(scales), scales.Name, "%d scales differ from %s, at %v", t.scaleDiff.n, how, &t.scaleDiff)
	}
	if t.minDiff.n > 0 {
		r.problem(MinsDiffer, r.fileOf(mins), mins.Name, "%d minima or zero points differ from %s, at %v", t.minDiff.n, how, &t.minDiff)
	}
	if t.bookDiff != "" {
		book := t.m.BookTensor()
		r.problem(CodebookDiffers, r.fileOf(book), book.Name, "differs from %s: %s", how, t.bookDiff)
	}
	if t.codeDiff.n > 0 {
		r.problem(CodesDiffer, r.fileOf(codes), codes.Name, "%d codes differ from %s, at %v", t.codeDiff.n, how, &t.codeDiff)
	}
	if t.codebook() != 0 { // four values are that far apart
		t.beyond, t.notNearest = places{}, places{}
	}
	if t.beyond.n > 0 {
		r.problem(ErrorBound, r.fileOf(codes), codes.Name, "%d weights are further from the source than half of the largest step of their block, at %v", t.beyond.n, &t.beyond)
	}
	if n := int64(t.m.Rows) * int64(t.m.Cols); t.notNearest.n > 0 && float64(t.notNearest.n) < fewOf*float64(n) {
		r.problem(CodesDiffer, r.fileOf(codes), codes.Name, "%d of %d codes are not the nearest to the source, at %v", t.notNearest.n, n, &t.notNearest)
	} else if t.notNearest.n > 0 {
		r.sums.mu.Lock()
		r.sums.moved++
		r.sums.mu.Unlock()
	}
}

// fewOf is the share of codes below which codes that are not the nearest are a
// fault: methods that weigh errors against one another move far more of them.
const fewOf = 0.01
