// Package layouttest writes checkpoints in the layouts of GPTQ and AWQ for tests:
// the demo's linear maps rounded to nearest, beside a twin that holds in f32 what
// they decode to.
//
// Promises: packing is done bit by bit from the description in docs/formats.md and
// shares no code with the reader. Everything else is the demo's, byte for byte.
package layouttest

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"quantscope/kernels"
)

// Form is how a matrix is packed.
type Form struct {
	AWQ   bool // GPTQ otherwise
	Bits  int
	Group int  // inputs of one; −1 for all
	Sym   bool // zero points are the middle of the codes
	V2    bool // zero points are stored as they are, not minus 1
	Order bool // groups are shuffled over the inputs, as in the order of activations
	Head  bool // the head is packed too
}

// Packed are the fields of a matrix of rows outputs and cols inputs. Words are
// little-endian.
type Packed struct {
	Rows, Cols, Groups             int
	Qweight, Qzeros, Scales, Index []byte
	QweightShape, QzerosShape      []int64
	Decoded                        []float32 // [outputs, inputs]: scale·(code − zero point), in f32
}

// Pack rounds a matrix, [outputs, inputs], to nearest and packs it. seed shuffles.
func Pack(w []float32, rows, cols int, f Form, seed uint64) Packed {
	size := f.Group
	if size < 0 {
		size = cols
	}
	p := Packed{Rows: rows, Cols: cols, Groups: (cols + size - 1) / size, Decoded: make([]float32, len(w))}
	index := make([]int, cols)
	for i := range index {
		index[i] = i / size
	}
	if f.Order {
		rng := rand.New(rand.NewPCG(seed, 7))
		rng.Shuffle(cols, func(a, b int) { index[a], index[b] = index[b], index[a] })
	}
	members := make([][]int, p.Groups) // inputs of each group
	for i, g := range index {
		members[g] = append(members[g], i)
	}
	most := 1<<f.Bits - 1
	codes, zeros := make([]int, len(w)), make([]int, rows*p.Groups)
	scales := make([]uint16, rows*p.Groups)
	for r := range rows {
		for g := range p.Groups {
			lo, hi := 0.0, 0.0
			for _, i := range members[g] {
				lo, hi = min(lo, float64(w[r*cols+i])), max(hi, float64(w[r*cols+i]))
			}
			step, zero := (hi-lo)/float64(most), 0
			if f.Sym {
				step, zero = 2*max(hi, -lo)/float64(most), 1<<(f.Bits-1)
			} else if step > 0 {
				zero = min(max(int(math.Round(-lo/step)), 0), most)
			}
			h := kernels.F32ToF16(float32(step))
			scales[r*p.Groups+g], zeros[r*p.Groups+g] = h, zero
			s := kernels.F16ToF32(h)
			for _, i := range members[g] {
				k, q := r*cols+i, zero
				if s > 0 {
					q = min(max(int(math.Round(float64(w[k])/float64(s)))+zero, 0), most)
				}
				codes[k], p.Decoded[k] = q, s*float32(q-zero)
			}
		}
	}
	p.words(f, codes, zeros)
	for g := range p.Groups {
		for r := range rows {
			p.Scales = binary.LittleEndian.AppendUint16(p.Scales, scales[r*p.Groups+g])
		}
	}
	for _, g := range index {
		p.Index = binary.LittleEndian.AppendUint32(p.Index, uint32(g))
	}
	return p
}

// words packs codes and zero points.
func (p *Packed) words(f Form, codes, zeros []int) {
	rows, cols := p.Rows, p.Cols
	if f.AWQ {
		p.QweightShape, p.QzerosShape = []int64{int64(cols), int64(rows / 8)}, []int64{int64(p.Groups), int64(rows / 8)}
		p.Qweight = awq(cols, rows, func(i, r int) int { return codes[r*cols+i] })
		p.Qzeros = awq(p.Groups, rows, func(g, r int) int { return zeros[r*p.Groups+g] })
		return
	}
	lines, across := (cols*f.Bits+31)/32, (rows*f.Bits+31)/32
	p.QweightShape, p.QzerosShape = []int64{int64(lines), int64(rows)}, []int64{int64(p.Groups), int64(across)}
	p.Qweight, p.Qzeros = make([]byte, 4*lines*rows), make([]byte, 4*p.Groups*across)
	for i := range cols {
		for r := range rows {
			for b := range f.Bits {
				bit := i*f.Bits + b
				setBit(p.Qweight[4*(bit/32*rows+r):], bit%32, codes[r*cols+i]>>b)
			}
		}
	}
	for g := range p.Groups {
		line := p.Qzeros[4*g*across:][:4*across]
		for r := range rows {
			for b := range f.Bits {
				bit := r*f.Bits + b
				setBit(line[bit/32*4:], bit%32, zeros[r*p.Groups+g]>>b)
			}
		}
		if !f.V2 {
			minus1(line, f.Bits, rows)
		}
	}
}

// minus1 takes 1 off each field of a line: of 3 bits from each by itself, else
// from the words, with borrows.
func minus1(line []byte, bits, fields int) {
	if bits != 3 {
		for at := 0; at < len(line); at += 4 {
			v := binary.LittleEndian.Uint32(line[at:])
			for bit := 0; bit < 32; bit += bits {
				v -= 1 << bit
			}
			binary.LittleEndian.PutUint32(line[at:], v)
		}
		return
	}
	for k := range fields {
		v := 0
		for b := range 3 {
			v |= int(line[(3*k+b)/8]>>((3*k+b)%8)&1) << b
		}
		for b := range 3 {
			setBit(line[(3*k+b)/32*4:], (3*k+b)%32, (v+7)>>b)
		}
	}
}

// setBit writes the lowest bit of v to a bit of a word.
func setBit(word []byte, bit, v int) {
	u := binary.LittleEndian.Uint32(word) &^ (1 << bit)
	binary.LittleEndian.PutUint32(word, u|uint32(v&1)<<bit)
}

// awq packs lines of eight values a word, in the order 0 2 4 6 1 3 5 7.
func awq(lines, across int, at func(line, k int) int) (out []byte) {
	for line := range lines {
		for k := 0; k < across; k += 8 {
			var word uint32
			for nibble, j := range []int{0, 2, 4, 6, 1, 3, 5, 7} {
				word |= uint32(at(line, k+j)) << (4 * nibble)
			}
			out = binary.LittleEndian.AppendUint32(out, word)
		}
	}
	return out
}
