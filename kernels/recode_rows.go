package kernels

import (
	"encoding/binary"
	"math"
)

// fp4Counts is what an FP4 matrix consists of, by the byte of a block's scale. Counts
// are whole numbers, so that no order matters.
type fp4Counts struct {
	pairs  [256][256]uint32 // bytes of whole blocks, folded into codes in time
	since  uint32           // how many at most are in one of pairs
	codes  [256][16]int64
	blocks [256][8]int64 // by the magnitude of their largest code
}

// addRow counts the codes of a row.
func (c *fp4Counts) addRow(codes, scales []byte, cols, group int) {
	if uint64(c.since)+uint64(len(codes)) > math.MaxUint32 {
		c.fold()
	}
	c.since += uint32(len(codes))
	whole, each := cols/group, group/2
	for i, scale := range scales[:whole] {
		pairs := &c.pairs[scale]
		for block := codes[i*each:][:each]; len(block) >= 8; block = block[8:] {
			x := binary.LittleEndian.Uint64(block)
			pairs[x&255]++
			pairs[x>>8&255]++
			pairs[x>>16&255]++
			pairs[x>>24&255]++
			pairs[x>>32&255]++
			pairs[x>>40&255]++
			pairs[x>>48&255]++
			pairs[x>>56]++
		}
	}
	for i := whole * group; i < cols; i++ {
		c.codes[scales[whole]][codes[i/2]>>(i%2*4)&15]++
	}
}

// fold moves counts of pairs to those of codes.
func (c *fp4Counts) fold() {
	if c.since == 0 {
		return
	}
	for scale := range c.pairs {
		codes := &c.codes[scale]
		for pair, n := range &c.pairs[scale] {
			codes[pair&15] += int64(n)
			codes[pair>>4] += int64(n)
		}
	}
	c.pairs, c.since = [256][256]uint32{}, 0
}

// recodeTables say what becomes of a byte of two codes.
type recodeTables struct {
	codes  [16]byte    // what becomes of a code
	values [16]float64 // what that stands for
	terms  [16]int64   // 2·(q−w)/step from bit 0 on, 2·|w|/step from termShift on
	pairs  [256]int64  // of a byte: what becomes of it in the low one, the sum of its terms from pairShift on
	reach  float64
}

// A block of 32 has sums of up to 32·24 of either term, and of 16 low bytes, which stay
// below pairShift.
const (
	termShift = 16
	pairShift = 16
)

func newRecodeTables(mask uint16) *recodeTables {
	t, book := new(recodeTables), newCodebook(mask)
	for code, v := range &e2m1Values {
		cell := bookCellOf(code)
		t.codes[code], t.values[code] = book.codes[cell], float64(book.values[cell])
		t.terms[code] = int64(2*(book.values[cell]-v)) + int64(2*math.Abs(float64(v)))<<termShift
	}
	for pair := range t.pairs {
		t.pairs[pair] = int64(t.codes[pair&15]|t.codes[pair>>4]<<4) + (t.terms[pair&15]+t.terms[pair>>4])<<pairShift
	}
	t.reach = book.reach
	return t
}

// largestCode is the magnitude, without its sign, of the largest of sixteen codes.
func largestCode(x uint64) uint64 {
	const ones = 0x1111111111111111
	in := x >> 2 & ones
	largest := uint64(0)
	if in != 0 {
		largest = 4
	} else {
		in = ones
	}
	if with := x >> 1 & in; with != 0 {
		largest, in = largest|2, with
	}
	if x&in != 0 {
		largest |= 1
	}
	return largest
}

// translate writes what becomes of the first n codes of a byte each two; the rest stays.
func (t *recodeTables) translate(dst, codes []byte, n int) {
	for i := range n / 2 {
		dst[i] = byte(t.pairs[codes[i]])
	}
	if n%2 != 0 {
		dst[n/2] = codes[n/2]&0xf0 | t.codes[codes[n/2]&15]
	}
}

// block counts a block of n codes, whose terms sum is the sum of, by its largest one,
// and gives its Σ(q−w) and Σ|w|.
func (p *RecodePass) block(scale byte, sum int64, largest uint64, codes []byte, n int) (err, abs float64) {
	if p.wild[scale] {
		sum, largest = 0, 0
		for i := range n {
			if code := codes[i/2] >> (i % 2 * 4) & 15; !beyondF32(float64(e2m1Values[code]), p.steps[scale]) {
				sum += p.tables.terms[code]
				largest = max(largest, uint64(code&7))
			}
		}
	}
	p.counts.blocks[scale][largest]++
	low, half := int64(int16(sum)), p.halves[scale]
	return float64(float64(low) * half), math.Abs(float64(float64((sum-low)>>termShift) * half))
}

// row recodes and measures a row. Its Σ(q−w) and Σ|w| are added block by block, each
// the product of its step with a whole number of halves.
func (p *RecodePass) row(dst, codes, scales []byte) {
	t := p.tables
	p.counts.addRow(codes, scales, p.m.Cols, p.f.Group)
	group := p.f.Group
	whole, each := p.m.Cols/group, group/2
	var err, abs float64
	var own [16]byte
	for i, scale := range scales[:whole] {
		block, to := own[:each], dst[i*each:][:each]
		copy(block, codes[i*each:]) // to may be where they are
		sum, largest := int64(0), uint64(0)
		for at := 0; at < each; at += 8 {
			x := binary.LittleEndian.Uint64(block[at:])
			largest = max(largest, largestCode(x))
			a, b, c, d := t.pairs[x&255], t.pairs[x>>8&255], t.pairs[x>>16&255], t.pairs[x>>24&255]
			e, f, g, h := t.pairs[x>>32&255], t.pairs[x>>40&255], t.pairs[x>>48&255], t.pairs[x>>56]
			sum += a + b + c + d + e + f + g + h
			binary.LittleEndian.PutUint64(to[at:], uint64(byte(a))|uint64(byte(b))<<8|uint64(byte(c))<<16|uint64(byte(d))<<24|
				uint64(byte(e))<<32|uint64(byte(f))<<40|uint64(byte(g))<<48|uint64(byte(h))<<56)
		}
		e, a := p.block(scale, sum>>pairShift, largest, block, group)
		err, abs = err+e, abs+a
	}
	if from := whole * group; from < p.m.Cols {
		scale, last := scales[whole], codes[from/2:]
		sum, largest := int64(0), uint64(0)
		for i := range p.m.Cols - from {
			code := last[i/2] >> (i % 2 * 4) & 15
			largest = max(largest, uint64(code&7))
			sum += t.terms[code]
		}
		e, a := p.block(scale, sum, largest, last, p.m.Cols-from)
		err, abs = err+e, abs+a
		t.translate(dst[from/2:], last, p.m.Cols-from)
	}
	p.bias.total.addRow(err, abs)
}
