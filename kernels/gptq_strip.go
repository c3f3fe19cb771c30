package kernels

import (
	"sync"
)

// gptqJob is one matrix whose codes are chosen.
type gptqJob struct {
	set    Set
	w      Operand
	f      *Factor
	o      GPTQOptions
	format Format
	rule   gptqRule
	book   *gptqBook // of a format with a codebook
	params Spec      // whose pass chooses parameters
	static bool
	weighs bool // the method wants importance

	rows, cols           int
	group                int // columns that share parameters
	scaleBytes, minBytes int
	global               float32
	out                  *Output
	loss                 []float64 // of each row
}

// gptqStrip is how many rows go through all blocks at a time: their errors, and
// what of the factor they are multiplied by, stay in the second-level cache.
const gptqStrip = 224

// gptqGap is between rows: whole pages from one to the next would put them all
// into the same few lines of the first-level cache.
const gptqGap = 16

// gptqSpace is what one strip works in. What stands in lanes has a group of rows
// after the other, each with its columns in order.
type gptqSpace struct {
	w, e           []float32 // rows of stride, columns in the order of the factor; e are errors
	stride         int
	block          []float32 // rows×factorBlock: what errors of earlier blocks add
	lw, lc, le, lv []float32 // a block in lanes
	codes          []byte    // the same
	row            []byte    // codes of a row, one a byte
	steps, offsets []float32 // in lanes: all of a row's groups, or the one at hand
	odd            bool      // see gptqColumns
	params         []int32
	chosen         []float32 // weights of a group, row by row
	bytes          []byte
	scales, mins   []byte
	importance     []float32
}

var gptqSpaces = sync.Pool{New: func() any { return new(gptqSpace) }}

// begin begins a pass of the method that chooses parameters.
func (j *gptqJob) begin(e Element, rows, cols int, importance []float32) (*Pass, error) {
	if importance != nil && j.weighs {
		return j.set.BeginWeighted(j.params, e, rows, cols, j.o.Amax, importance)
	}
	return j.set.Begin(j.params, e, rows, cols, j.o.Amax)
}

// strip chooses the codes of some rows.
func (j *gptqJob) strip(s *gptqSpace, first, rows int) error {
	lanes := j.set.gptq.lanes
	groups := ceilDiv(rows, lanes) // of rows
	inLanes := groups * lanes * factorBlock
	n := j.cols
	s.stride = n + gptqGap
	s.w, s.e = resize(s.w, rows*s.stride), resize(s.e, rows*s.stride)
	s.block = resize(s.block, rows*factorBlock)
	s.lw, s.lc, s.le, s.lv = resize(s.lw, inLanes), resize(s.lc, inLanes), resize(s.le, inLanes), resize(s.lv, inLanes)
	s.codes, s.row = resize(s.codes, inLanes), resize(s.row, n)
	s.params = resize(s.params, factorBlock)
	clear(s.lw) // beyond the last row
	params := groups * lanes
	if j.static {
		params *= ceilDiv(n, j.group)
	}
	s.steps, s.offsets = resize(s.steps, params), resize(s.offsets, params)
	if err := j.loadStrip(s, first, rows); err != nil {
		return err
	}
	loss := make([]float64, groups*lanes)
	for p := range j.f.panels {
		start, end := j.f.span(p)
		if err := j.carry(s, p, rows); err != nil {
			return err
		}
		j.toLanes(s.lc, s.block, factorBlock, rows, end-start)
		j.toLanes(s.lw, s.w[start:], s.stride, rows, end-start)
		for k := start; k < end; k++ {
			s.params[k-start] = 0
			if j.static {
				s.params[k-start] = int32(place(j.f.order, k) / j.group * lanes)
			}
		}
		step := end - start
		if !j.static {
			step = j.group
		}
		for from := start; from < end; from += step {
			to := min(from+step, end)
			if !j.static {
				if err := j.chooseMoved(s, first, rows, p, from, to); err != nil {
					return err
				}
			}
			for g := range groups {
				c := j.columns(s, p, g)
				c.loss = loss[g*lanes:][:lanes]
				j.set.gptq.columns(j.rule, &c, from-start, to-start)
			}
		}
		j.storeBlock(s, first, rows, start, end)
	}
	copy(j.loss[first:first+rows], loss)
	return nil
}

// columns is a block of one group of rows.
func (j *gptqJob) columns(s *gptqSpace, p, g int) gptqColumns {
	start, end := j.f.span(p)
	lanes := j.set.gptq.lanes
	at := g * lanes * factorBlock
	size := lanes * factorBlock
	params := lanes
	if j.static {
		params = lanes * ceilDiv(j.cols, j.group)
	}
	return gptqColumns{
		lanes: lanes, odd: s.odd, width: end - start, m: j.f.panels[p][start*factorBlock:], d: j.f.d[start:end], params: s.params,
		w: s.lw[at:][:size], c: s.lc[at:][:size], e: s.le[at:][:size], codes: s.codes[at:][:size],
		steps: s.steps[g*params:][:params], offsets: s.offsets[g*params:][:params], book: j.book,
	}
}

// loadStrip expands the weights and, where groups are static, chooses their
// parameters.
func (j *gptqJob) loadStrip(s *gptqSpace, first, rows int) error {
	n := j.cols
	// Errors have no use for their room yet.
	w := s.e[:rows*n]
	if err := j.set.ExpandRows(w, j.w, first); err != nil {
		return err
	}
	if j.static {
		p, err := j.begin(F32, rows, n, j.o.Importance)
		if err != nil {
			return err
		}
		if err := j.choose(s, p, w, j.stored(first, rows)); err != nil {
			return err
		}
		j.parameters(s, first, rows, 0, ceilDiv(n, j.group))
	}
	for r := range rows {
		row, to := w[r*n:][:n], s.w[r*s.stride:][:n]
		if j.f.order == nil {
			copy(to, row)
			continue
		}
		for k, c := range j.f.order {
			to[k] = row[c]
		}
	}
	return nil
}

// stored is where the parameters of some rows go.
func (j *gptqJob) stored(first, rows int) *Output {
	each := ceilDiv(j.cols, j.group)
	return &Output{
		Scales: j.out.Scales[first*each*j.scaleBytes:][:rows*each*j.scaleBytes],
		Mins:   j.out.Mins[first*each*j.minBytes:][:rows*each*j.minBytes],
	}
}

// choose runs a pass over weights for its parameters.
func (j *gptqJob) choose(s *gptqSpace, p *Pass, w []float32, out *Output) error {
	s.bytes = resize(s.bytes, 4*len(w))
	j.set.convert.encodeF32(s.bytes, w)
	err := p.Rows(s.bytes, out)
	_, end := p.Finish()
	if err != nil {
		return err
	}
	return end
}

// chooseMoved takes the parameters of the group of columns from … to−1 from the
// weights as earlier errors have moved them. The groups of all rows make one row
// of a pass.
func (j *gptqJob) chooseMoved(s *gptqSpace, first, rows, p, from, to int) error {
	lanes := j.set.gptq.lanes
	start, _ := j.f.span(p)
	n := to - from
	s.chosen = resize(s.chosen, rows*j.group)
	for g := range ceilDiv(rows, lanes) {
		c := j.columns(s, p, g)
		v := s.lv[g*lanes*factorBlock:][:lanes*factorBlock]
		j.set.gptq.moved(&c, from-start, to-start, v)
		some := min(lanes, rows-g*lanes)
		if some == lanes && n == j.group {
			j.set.gemm.transposeF32(s.chosen[g*lanes*n:], n, v, lanes, n, lanes)
			continue
		}
		for i := range some {
			for k := range n {
				s.chosen[(g*lanes+i)*n+k] = v[k*lanes+i]
			}
		}
	}
	// A short last group is a row of its own.
	passRows, passCols := 1, rows*n
	if n < j.group {
		passRows, passCols = rows, n
	}
	importance := j.o.Importance
	if importance != nil {
		s.importance = resize(s.importance, passCols)
		for i := 0; i < passCols; i += n {
			copy(s.importance[i:], importance[from:to])
		}
		importance = s.importance[:passCols]
	}
	pass, err := j.begin(F32, passRows, passCols, importance)
	if err != nil {
		return err
	}
	s.scales, s.mins = resize(s.scales, rows*j.scaleBytes), resize(s.mins, rows*j.minBytes)
	if err := j.choose(s, pass, s.chosen[:rows*n], &Output{Scales: s.scales, Mins: s.mins}); err != nil {
		return err
	}
	each, at := ceilDiv(j.cols, j.group), from/j.group
	for r := range rows {
		copy(j.out.Scales[((first+r)*each+at)*j.scaleBytes:][:j.scaleBytes], s.scales[r*j.scaleBytes:])
		copy(j.out.Mins[((first+r)*each+at)*j.minBytes:][:j.minBytes], s.mins[r*j.minBytes:])
	}
	j.parameters(s, first, rows, at, 1)
	return nil
}

// parameters decodes count groups of each row, the first one at, into lanes.
func (j *gptqJob) parameters(s *gptqSpace, first, rows, at, count int) {
	lanes := j.set.gptq.lanes
	each := ceilDiv(j.cols, j.group)
	conv := j.o.Spec.Convention
	for i := range s.steps {
		s.steps[i], s.offsets[i] = 1, 0 // beyond the last row
	}
	s.odd = false
	d := blockDecoder{conv: conv, scaleBytes: j.scaleBytes, scales: j.out.Scales, mins: j.out.Mins, rule: int4Rule(conv, j.format.MinBits == 0)}
	for r := range rows {
		steps := s.steps[r/lanes*lanes*count+r%lanes:]
		offsets := s.offsets[r/lanes*lanes*count+r%lanes:]
		for g := range count {
			block := (first+r)*each + at + g
			if j.format.Scale == "e4m3" {
				steps[g*lanes] = nvfp4Step(j.out.Scales[block], j.global, conv)
			} else {
				steps[g*lanes], offsets[g*lanes] = d.scale(block), d.offset(block)
			}
			if x := steps[g*lanes]; x == 0 || x > largestSafe {
				s.odd = true
			}
		}
	}
}

// carry makes what the errors of earlier blocks add to a block's targets.
func (j *gptqJob) carry(s *gptqSpace, p, rows int) error {
	start, _ := j.f.span(p)
	c := Dense{Rows: rows, Cols: factorBlock, Stride: factorBlock, Data: s.block}
	if start == 0 {
		clear(s.block)
		return nil
	}
	e := Dense{Rows: rows, Cols: start, Stride: s.stride, Data: s.e}
	m := Dense{Rows: start, Cols: factorBlock, Stride: factorBlock, Data: j.f.panels[p]}
	return j.set.GEMM(c, DenseOperand(e), DenseOperand(m), GEMMOptions{Threads: 1})
}

// toLanes lays rows of a block out in lanes.
func (j *gptqJob) toLanes(dst, src []float32, stride, rows, cols int) {
	lanes := j.set.gptq.lanes
	for r := 0; r < rows; r += lanes {
		j.set.gemm.transposeF32(dst[r*factorBlock:], lanes, src[r*stride:], stride, min(lanes, rows-r), cols)
	}
}

// storeBlock takes errors and codes of a block out of the lanes.
func (j *gptqJob) storeBlock(s *gptqSpace, first, rows, start, end int) {
	lanes, n := j.set.gptq.lanes, end-start
	for r := 0; r < rows; r += lanes {
		some := min(lanes, rows-r)
		if some == lanes {
			j.set.gemm.transposeF32(s.e[r*s.stride+start:], s.stride, s.le[r*factorBlock:], lanes, n, lanes)
		} else {
			for i := range some {
				for k := range n {
					s.e[(r+i)*s.stride+start+k] = s.le[r*factorBlock+k*lanes+i]
				}
			}
		}
	}
	width := j.format.Bits
	rowBytes, each := ceilDiv(j.cols*width, 8), 8/width
	for r := range rows {
		codes := s.codes[r/lanes*lanes*factorBlock+r%lanes:]
		dst := j.out.Codes[(first+r)*rowBytes:][:rowBytes]
		if j.f.order == nil { // blocks begin with a whole byte
			for k := 0; k < n; k += each {
				var b byte
				for i := range min(each, n-k) {
					b |= codes[(k+i)*lanes] << (i * width)
				}
				dst[(start+k)/each] = b
			}
			continue
		}
		mask := byte(1)<<width - 1
		for k := range n {
			c := j.f.order[start+k]
			shift := c % each * width
			dst[c/each] = dst[c/each]&^(mask<<shift) | codes[k*lanes]<<shift
		}
	}
}
