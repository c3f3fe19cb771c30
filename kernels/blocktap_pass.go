package kernels

import (
	"encoding/binary"
	"sync"
)

// blockRange is what the finite elements of a block span. lo and hi mean
// nothing where amax, f32 bits, is infF32 or more: an element is not finite. A
// zero is +0.
type blockRange struct {
	lo, hi float32
	amax   uint32
	odd    bool // an element is not finite, and was left out
}

// farthest is the distance of the farthest element from a point.
func (r blockRange) farthest(mid float64) float64 {
	return max(float64(r.hi)-mid, mid-float64(r.lo))
}

// add takes another part of the block in.
func (r *blockRange) add(o blockRange) {
	r.lo, r.hi, r.amax = min(r.lo, o.lo), max(r.hi, o.hi), max(r.amax, o.amax)
}

// blockChoice is what was decided for a block.
type blockChoice struct {
	blockParams
	scale     float32 // as its stored bits say
	stored    uint32  // those bits
	beside    uint16  // bits of the minimum, or the zero point
	choice    int     // bin of Tap.Multipliers
	mid       float64 // the middle of what codes reach
	reach     float64 // how far they reach from there
	high      bool    // see blockTap
	low       bool
	subnormal bool
}

// limit is how far from the middle an element counts as clipped.
func (c *blockChoice) limit() float64 { return c.reach * (1 + noDepth) }

// blockChooser decides on scales. w are the elements of the block where it is
// within a row; those that are not finite count for nothing. The range is that
// of the others.
type blockChooser interface {
	choose(w []float32, r blockRange, c *blockChoice)
}

// weightedChooser decides by weighed errors; f are the factors of the elements,
// see groupFactors.
type weightedChooser interface {
	blockChooser
	chooseWeighted(w, f []float32, r blockRange, c *blockChoice)
}

// blockSpan is how many elements are taken at a time where blocks are shorter.
const blockSpan = 2048

// blockPass is one quantization of rows of cols elements to a format whose
// records blockTap describes.
type blockPass struct {
	set                  Set
	element              Element
	rule                 blockRule
	chooser              blockChooser
	weighted             weightedChooser // the chooser under imatrix, else nil
	factors              []float32       // of the columns, for weighted
	scope                Scope
	cols, group          int
	scaleBytes, minBytes int
	*blockBuffers

	// Of the one block under ScopeTensor.
	tensor      blockChoice
	tensorRange blockRange
	tensorMass  float64
	wroteTensor bool

	book *codebook // of a format that has one
	bias *biasSums // the same

	// What codes that are given decode to, all rows of the chunk; nil: codes are chosen.
	decoded []float32
}

// blockBuffers is what a pass works in.
type blockBuffers struct {
	tap     blockTap
	w       []float32
	codes   []byte
	bins    []byte
	ranges  []blockRange
	choices []blockChoice
	params  []blockParams
	tiles   []blockRange // under ScopeTile: of each tile of a band
	mass    []float64    // the same: L2 mass of clipped elements
	lanes   [8]float64   // of a sum of that mass
}

var blockBufferPool = sync.Pool{New: func() any { return new(blockBuffers) }}

// beginBlocks begins a pass. Under ScopeTensor tensor is the choice for all of
// it, else chooser is asked for each block.
func (s Set) beginBlocks(f Format, e Element, cols int, rule blockRule, chooser blockChooser, scaleBytes, minBytes int) *blockPass {
	p := &blockPass{
		set: s, element: e, rule: rule, chooser: chooser, scope: f.Scope, cols: cols, group: f.Group,
		scaleBytes: scaleBytes, minBytes: minBytes, blockBuffers: blockBufferPool.Get().(*blockBuffers),
	}
	p.tap = blockTap{}
	switch f.Scope {
	case ScopeChannel:
		p.group = max(cols, 1)
	case ScopeTensor:
		p.group = blockSpan
	}
	span := p.span()
	p.w = resize(p.w, span)
	p.codes, p.bins = resize(p.codes, span), resize(p.bins, span)
	blocks := ceilDiv(span, p.group)
	p.ranges = resize(p.ranges, blocks)
	if f.Scope == ScopeTile {
		blocks = ceilDiv(cols, p.group)
		p.tiles, p.mass = resize(p.tiles, blocks), resize(p.mass, blocks)
	}
	p.choices, p.params = resize(p.choices, blocks), resize(p.params, blocks)
	return p
}

// beginWeightedBlocks is beginBlocks for a chooser that weighs errors, of groups
// or rows.
func (s Set) beginWeightedBlocks(f Format, e Element, cols int, rule blockRule, chooser weightedChooser, scaleBytes, minBytes int, importance []float32) *blockPass {
	p := s.beginBlocks(f, e, cols, rule, chooser, scaleBytes, minBytes)
	p.weighted, p.factors = chooser, groupFactors(importance, p.group)
	return p
}

// resize is a slice of n elements, the same one where it is long enough.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// span is how many elements of a row are taken at a time: whole blocks, and
// all of the row where that is one block.
func (p *blockPass) span() int {
	if p.scope == ScopeChannel {
		return p.group
	}
	return blockSpan // groups are powers of two
}

func (p *blockPass) global() float32 {
	if p.scope == ScopeTensor {
		return p.tensor.scale
	}
	return 0
}

func (p *blockPass) rows(data []byte, rows int, out *Output) {
	p.writeTensor(out)
	if p.cols == 0 {
		p.emptyRows(rows, out)
		return
	}
	rowBytes := p.cols * p.element.Size()
	for top := 0; top < rows; top += p.band() {
		n := min(p.band(), rows-top)
		band := data[top*rowBytes : (top+n)*rowBytes]
		if p.scope == ScopeTile {
			p.chooseTiles(band, n, out, top/p.group*len(p.choices))
		}
		for r := range n {
			p.row(band[r*rowBytes:(r+1)*rowBytes], out, top+r)
			w2, e2 := p.tap.endRow()
			if p.bias != nil {
				p.bias.endRow()
			}
			if out.RowW2 != nil {
				out.RowW2[top+r] = w2
			}
			if out.RowE2 != nil {
				out.RowE2[top+r] = e2
			}
		}
		if p.scope == ScopeTile {
			for i := range p.choices {
				p.tap.block(p.tiles[i].amax, &p.choices[i], p.tiles[i].farthest(p.choices[i].mid), p.mass[i])
			}
		}
	}
}

// emptyRows quantizes rows of no elements, however many there are. Where each
// has a scale it is that of zeros.
func (p *blockPass) emptyRows(rows int, out *Output) {
	clear(out.RowE2)
	clear(out.RowW2)
	if p.scope != ScopeChannel {
		return
	}
	t := &p.tap
	t.blocks += int64(rows)
	t.zeroBlocks += int64(rows)
	t.choices[0] += int64(rows)
	if out.Scales == nil && out.Mins == nil {
		return
	}
	p.chooser.choose(nil, blockRange{}, &p.choices[0])
	for i := range rows {
		p.store(out, i, &p.choices[0])
	}
}

// band is how many rows are taken at a time.
func (p *blockPass) band() int {
	if p.scope == ScopeTile {
		return p.group
	}
	return 1
}

// writeTensor writes the scale of the whole tensor into the first chunk.
func (p *blockPass) writeTensor(out *Output) {
	if p.scope != ScopeTensor || p.wroteTensor {
		return
	}
	p.wroteTensor = true
	p.store(out, 0, &p.tensor)
}

// store writes the scale and what stands beside it of block i of the chunk.
func (p *blockPass) store(out *Output, i int, c *blockChoice) {
	if out.Scales != nil {
		putBits(out.Scales[i*p.scaleBytes:(i+1)*p.scaleBytes], c.stored)
	}
	if out.Mins != nil {
		putBits(out.Mins[i*p.minBytes:(i+1)*p.minBytes], uint32(c.beside))
	}
}

// putBits writes the low bytes of bits, little-endian, as many as dst has.
func putBits(dst []byte, bits uint32) {
	switch len(dst) {
	case 1:
		dst[0] = byte(bits)
	case 2:
		binary.LittleEndian.PutUint16(dst, uint16(bits))
	case 4:
		binary.LittleEndian.PutUint32(dst, bits)
	}
}

func (p *blockPass) finish() Tap {
	if p.scope == ScopeTensor && p.tap.elements > 0 {
		p.tap.block(p.tensorRange.amax, &p.tensor, p.tensorRange.farthest(p.tensor.mid), p.tensorMass)
	}
	t := p.tap.record()
	p.bias.record(&t)
	blockBufferPool.Put(p.blockBuffers)
	p.blockBuffers = nil
	return t
}
