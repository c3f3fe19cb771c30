package kernels

import "math"

// row quantizes one row; at is its number within the chunk.
func (p *blockPass) row(src []byte, out *Output, at int) {
	size := p.element.Size()
	var codes []byte
	if out.Codes != nil {
		n := ceilDiv(p.cols*p.rule.bits(), 8)
		codes = out.Codes[at*n : (at+1)*n]
	}
	firstBlock := at * ceilDiv(p.cols, p.group)
	for col := 0; col < p.cols; col += p.span() {
		n := min(p.span(), p.cols-col)
		w := p.w[:n]
		ranges := p.load(src[col*size:(col+n)*size], w)
		params := p.params[:len(ranges)]
		switch p.scope {
		case ScopeTile:
			first := col / p.group
			params = p.params[first : first+len(ranges)]
			for i, r := range ranges {
				c := &p.choices[first+i]
				p.mass[first+i] += p.clipped(p.part(w, i), c, r)
			}
		case ScopeTensor:
			params[0] = p.tensor.blockParams
			p.tensorRange.add(ranges[0])
			p.tensorMass += p.clipped(w, &p.tensor, ranges[0])
		default:
			for i, r := range ranges {
				part, c := p.part(w, i), &p.choices[i]
				if p.weighted != nil {
					p.weighted.chooseWeighted(part, p.factors[col+i*p.group:][:len(part)], r, c)
				} else {
					p.chooser.choose(part, r, c)
				}
				params[i] = c.blockParams
				p.store(out, firstBlock+col/p.group+i, c)
				p.tap.block(r.amax, c, r.farthest(c.mid), p.clipped(part, c, r))
			}
		}
		dst := p.codes[:ceilDiv(n*p.rule.bits(), 8)]
		if codes != nil {
			dst, codes = codes[:len(dst)], codes[len(dst):]
		}
		if p.decoded != nil {
			p.measure(w, p.decoded[at*p.cols+col:][:n], params, dst)
			continue
		}
		if p.book != nil {
			p.encodeBook(w, params, dst)
			continue
		}
		p.encode(w, params, dst)
	}
}

// chooseTiles decides on the scales of a band of tiles; first is the number of
// its first tile within the chunk.
func (p *blockPass) chooseTiles(band []byte, rows int, out *Output, first int) {
	size := p.element.Size()
	rowBytes := p.cols * size
	clear(p.tiles) // spans with 0 in them, which is the middle of what FP8 reaches
	clear(p.mass)
	for r := range rows {
		row := band[r*rowBytes : (r+1)*rowBytes]
		for col := 0; col < p.cols; col += blockSpan {
			n := min(blockSpan, p.cols-col)
			for i, part := range p.load(row[col*size:(col+n)*size], p.w[:n]) {
				p.tiles[col/p.group+i].add(part)
			}
		}
	}
	for i, r := range p.tiles {
		c := &p.choices[i]
		p.chooser.choose(nil, r, c)
		p.params[i] = c.blockParams
		p.store(out, first+i, c)
	}
}

// part is the i-th block of a run of blocks.
func (p *blockPass) part(w []float32, i int) []float32 {
	return w[i*p.group : min((i+1)*p.group, len(w))]
}

// load decodes elements into w and finds what each block of them spans.
func (p *blockPass) load(src []byte, w []float32) []blockRange {
	ranges := p.ranges[:ceilDiv(len(w), p.group)]
	size := p.element.Size()
	whole := 0
	if p.group%16 == 0 {
		whole = len(w) / p.group
		n := whole * p.group
		p.set.blocks.load(p.element, src[:n*size], w[:n], p.group, ranges[:whole])
	}
	for i := range ranges {
		r := &ranges[i]
		part := p.part(w, i)
		if i >= whole { // short
			at := i * p.group
			from, n := src[at*size:], len(part)&^15
			*r = blockRange{}
			if n > 0 {
				p.set.blocks.load(p.element, from[:n*size], part[:n], n, ranges[i:i+1])
			}
			if n < len(part) {
				var tail [1]blockRange
				blockLoadRef(p.element, from[n*size:len(part)*size], part[n:], len(part)-n, tail[:])
				if n == 0 {
					*r = tail[0]
				} else {
					r.add(tail[0])
				}
			}
		}
		if r.amax >= infF32 {
			*r = finiteRange(part)
		}
	}
	return ranges
}

// blockLoadRef decodes len(ranges) blocks of group elements and finds what each
// spans.
func blockLoadRef(e Element, src []byte, w []float32, group int, ranges []blockRange) {
	size := e.Size()
	for i := range w {
		w[i] = loadElement(e, src[i*size:])
	}
	for i := range ranges {
		r := blockRange{lo: float32(math.Inf(1)), hi: float32(math.Inf(-1))}
		for _, x := range w[i*group : (i+1)*group] {
			r.lo, r.hi = min(r.lo, x), max(r.hi, x)
			r.amax = max(r.amax, math.Float32bits(x)&^signF32)
		}
		r.lo, r.hi = r.lo+0, r.hi+0
		ranges[i] = r
	}
}

// finiteRange is what the finite elements span, with an amax that they give; a
// block without any spans 0 to 0.
func finiteRange(w []float32) blockRange {
	r := blockRange{lo: float32(math.Inf(1)), hi: float32(math.Inf(-1)), odd: true}
	some := false
	for _, x := range w {
		if mag := math.Float32bits(x) &^ signF32; mag < infF32 {
			some = true
			r.lo, r.hi, r.amax = min(r.lo, x), max(r.hi, x), max(r.amax, mag)
		}
	}
	if !some {
		return blockRange{odd: true}
	}
	r.lo, r.hi = r.lo+0, r.hi+0
	return r
}

// clipped is the L2 mass of the elements of a block, or of a part of one, that
// are beyond what its codes reach; 0 where none is. The sum has the lanes of
// blockSums.
func (p *blockPass) clipped(w []float32, c *blockChoice, r blockRange) float64 {
	limit := c.limit()
	if !(r.farthest(c.mid) > limit) {
		return 0
	}
	lanes := &p.lanes
	*lanes = [8]float64{}
	body := len(w) &^ 15
	if r.odd {
		body = 0
	}
	if body > 0 {
		p.set.blocks.mass(w[:body], c.mid, limit, lanes)
	}
	blockMassRef(w[body:], c.mid, limit, lanes)
	return addLanes(lanes)
}

// blockMassRef adds the squares of the finite elements that are farther than
// limit from mid to the lanes.
func blockMassRef(w []float32, mid, limit float64, lanes *[8]float64) {
	for i, x := range w {
		if v := float64(x); math.Abs(v-mid) > limit && v-v == 0 {
			lanes[i&7] += v * v
		}
	}
}

// encode writes the codes of a run of blocks, as load has left them, and adds
// to the record what is summed and counted by element. A run of whole finite
// blocks goes to the set's kernel at once.
func (p *blockPass) encode(w []float32, params []blockParams, codes []byte) {
	for i := 0; i < len(params); {
		k := i
		for k < len(params) && p.whole(k, len(w)) {
			k++
		}
		if k > i {
			p.encodeRun(w, i*p.group, k*p.group, p.group, params[i:k], codes)
			i = k
			continue
		}
		from, to := i*p.group, min((i+1)*p.group, len(w))
		body := from
		if !p.ranges[i].odd {
			body += (to - from) &^ 15
			p.encodeRun(w, from, body, body-from, params[i:i+1], codes)
		}
		at, end := p.codeOffset(body), p.codeOffset(to+1)
		if p.rule.bits() == 8 {
			end = to
		}
		blockEncodeRef(p.rule, w[body:to], to-body, params[i:i+1], codes[at:end], p.bins[body:to], &p.tap.sums)
		i++
	}
	p.count(w, codes)
}

// whole says whether block i of a run of n elements can go to the kernel.
func (p *blockPass) whole(i, n int) bool {
	return p.group%16 == 0 && (i+1)*p.group <= n && !p.ranges[i].odd
}

// codeOffset is where the code of an element with an even number stands.
func (p *blockPass) codeOffset(i int) int { return i * p.rule.bits() / 8 }

// encodeRun encodes the elements from…to, whole groups of them.
func (p *blockPass) encodeRun(w []float32, from, to, group int, params []blockParams, codes []byte) {
	if from < to {
		p.set.blocks.encode(p.rule, w[from:to], group, params, codes[p.codeOffset(from):p.codeOffset(to)], p.bins[from:to], &p.tap.sums)
	}
}

// count adds what was encoded to the histograms and counts the elements.
func (p *blockPass) count(w []float32, codes []byte) {
	t := &p.tap
	t.elements += int64(len(w))
	kind := countPairs
	if p.rule.bits() == 8 {
		kind = countHigh
	}
	p.set.blocks.count(kind, codes, &t.codes)
	p.set.blocks.count(countErrors, p.bins[:len(w)], &t.errors)
	if kind == countPairs && len(w)%2 != 0 {
		t.codes[0]-- // the half of the last byte that stands for nothing
	}
	for i := range p.ranges[:ceilDiv(len(w), p.group)] {
		if p.ranges[i].odd {
			p.uncount(w, i, codes)
		}
	}
}

// uncount takes the elements of a block that are not finite out of the
// histograms and counts them as what they are.
func (p *blockPass) uncount(w []float32, block int, codes []byte) {
	t := &p.tap
	for i := block * p.group; i < min((block+1)*p.group, len(w)); i++ {
		mag := math.Float32bits(w[i]) &^ signF32
		switch {
		case mag < infF32:
			continue
		case mag > infF32:
			t.nan++
		default:
			t.inf++
		}
		code := codes[p.codeOffset(i)] >> 4
		if p.rule.bits() == 4 {
			code = codes[i/2] >> (i % 2 * 4) & 15
		}
		t.codes[code]--
		t.errors[0]--
	}
}
