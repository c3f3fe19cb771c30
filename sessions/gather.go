package sessions

import (
	"encoding/binary"
	"sync"
)

// gathering copies a strided matrix into row-major order. What lies close
// together in the file is a line: a row, or a column where turned.
type gathering struct {
	dst    []byte // rows of cols elements
	size   int    // of an element: 2 or 4 bytes
	cols   int
	turned bool

	lines  int
	step   int // elements from a line to the next
	length int // elements of a line
	stride int // elements from one element of a line to the next
}

// gatherBytes is what is read of a strided matrix at once.
const gatherBytes = 1 << 20

var gatherBuffers = sync.Pool{New: func() any {
	b := make([]byte, gatherBytes)
	return &b
}}

// run reads the lines and files their elements. Lines are read together where
// that reads no more than four times what is wanted, else each by itself.
func (g *gathering) run(read func(off int64, part []byte) error) error {
	if g.lines == 0 || g.length == 0 {
		return nil
	}
	buf := gatherBuffers.Get().(*[]byte)
	defer gatherBuffers.Put(buf)
	span := ((g.length-1)*g.stride + 1) * g.size
	step := g.step * g.size
	many := 1
	if span <= gatherBytes && span >= step/4 {
		many = (gatherBytes-span)/step + 1
	}
	most := (gatherBytes/g.size-1)/g.stride + 1 // elements of a line that fit
	for line := 0; line < g.lines; line += many {
		k := min(many, g.lines-line)
		for at := 0; at < g.length; at += most {
			n := min(most, g.length-at)
			raw := (*buf)[:(k-1)*step+((n-1)*g.stride+1)*g.size]
			if err := read(int64(line)*int64(step)+int64(at)*int64(g.stride)*int64(g.size), raw); err != nil {
				return err
			}
			g.file(raw, line, k, step, at, n)
		}
	}
	return nil
}

// turnTile is how many elements of each line are filed before the next line's:
// as many as stand in a cache line.
const turnTile = 32

// file puts n elements from at on of k lines where they belong.
func (g *gathering) file(raw []byte, line, k, step, at, n int) {
	rowBytes, stride := g.cols*g.size, g.stride*g.size
	if !g.turned {
		for j := range k {
			to := g.dst[(line+j)*rowBytes+at*g.size:][:n*g.size]
			from := raw[j*step:]
			if g.stride == 1 {
				copy(to, from)
				continue
			}
			g.spread(to, g.size, from, stride, n)
		}
		return
	}
	for e := 0; e < n; e += turnTile {
		for j := range k {
			g.spread(g.dst[(at+e)*rowBytes+(line+j)*g.size:], rowBytes, raw[j*step+e*stride:], stride, min(turnTile, n-e))
		}
	}
}

// spread copies n elements that stand apart by fromStep to places that stand
// apart by toStep.
func (g *gathering) spread(to []byte, toStep int, from []byte, fromStep, n int) {
	if g.size == 2 {
		for e := range n {
			binary.LittleEndian.PutUint16(to[e*toStep:], binary.LittleEndian.Uint16(from[e*fromStep:]))
		}
		return
	}
	for e := range n {
		binary.LittleEndian.PutUint32(to[e*toStep:], binary.LittleEndian.Uint32(from[e*fromStep:]))
	}
}
