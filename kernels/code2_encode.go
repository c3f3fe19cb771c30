package kernels

import "math"

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
			j.bias.add(i, w0, q0)
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

// bookScales chooses the scales of MXFP4, clipped where the codebook ends.
type bookScales struct {
	blockChooser
	reach float64
}

func (b bookScales) choose(w []float32, r blockRange, c *blockChoice) {
	b.blockChooser.choose(w, r, c)
	c.reach = b.reach * float64(c.step)
}

// encodeBook is encode with a codebook, of elements of a row from a multiple of
// blockSpan on.
func (p *blockPass) encodeBook(w []float32, params []blockParams, codes []byte) {
	clear(codes)
	for i := range params {
		b := &params[i]
		for at := i * p.group; at < min((i+1)*p.group, len(w)); at++ {
			x := w[at]
			finite := math.Float32bits(x)&^signF32 < infF32
			if !finite {
				x = 0
			}
			cell := bookCell(float32(x * b.inverse))
			code, q := p.book.codes[cell], float32(p.book.values[cell]*b.step)
			codes[at/2] |= code << (at % 2 * 4)
			p.bins[at] = 0
			if finite {
				p.bins[at] = errorBinOf(x, q, b)
				p.tap.sums.add(at&7, float64(x), float64(q))
				p.bias.add(at&7, float64(x), float64(q))
			}
		}
	}
	p.count(w, codes)
}
