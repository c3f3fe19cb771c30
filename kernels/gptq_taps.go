package kernels

import (
	"fmt"
	"math"
)

// givenBlocks records formats of blockTap.
func (s Set) givenBlocks(spec Spec, f Format, cols, scaleBytes, minBytes int, out *Output) (givenTap, error) {
	k := &givenChooser{f: f, spec: spec, decoder: blockDecoder{conv: spec.Convention, scaleBytes: scaleBytes, scales: out.Scales, mins: out.Mins}}
	rule := blockRule(0)
	switch f.Element {
	case "int4":
		int4 := &int4Chooser{conv: spec.Convention, symmetric: f.MinBits == 0}
		int4.rule = int4Rule(int4.conv, int4.symmetric)
		rule, k.plain, k.decoder.rule = int4.rule, int4, int4.rule
		k.with = int4.settle
	case "e4m3":
		conv := fp8Chooser(spec.Convention)
		rule, k.plain = conv.rule(), conv
		k.with = func(scale, _ float32, c *blockChoice) {
			high, low := c.high, c.low
			*c = conv.with(scale)
			c.high, c.low = high, low
		}
	default:
		if f.Scale != "e8m0" {
			return nil, fmt.Errorf("codes of %s: %w", f.Name, ErrUnsupported)
		}
		conv := mxfp4Chooser(spec.Convention)
		rule, k.plain = ruleE2M1, conv
		reach := float64(MaxE2M1)
		if spec.Codebook != 0 {
			reach = newCodebook(spec.Codebook).reach
		}
		k.with = func(scale, _ float32, c *blockChoice) {
			c.take(min(F32ToE8M0(scale), 2*biasE8M0))
			c.reach = reach * float64(c.step)
		}
	}
	p := s.beginBlocks(f, BF16, cols, rule, k, scaleBytes, minBytes)
	t := &givenBlockTap{blockPass: p, chooser: k}
	if spec.Codebook != 0 {
		p.bias, t.tables = newBiasSums(spec), tablesOfBook(spec.Codebook)
	}
	if f.Scope == ScopeTensor {
		k.with(k.decoder.scale(0), 0, &p.tensor)
	}
	return t, nil
}

// givenBlockTap is a pass over codes that are given.
type givenBlockTap struct {
	*blockPass
	chooser *givenChooser
	tables  *bookTables // of a format with a codebook, whose codes are packed
	nibbles []byte      // of a chunk
}

func (t *givenBlockTap) rows(e Element, data []byte, q []float32, rows int, out *Output) {
	t.element, t.decoded = e, q
	codes := out.Codes
	if t.tables != nil && t.cols > 0 {
		narrow, wide := ceilDiv(t.cols, 4), ceilDiv(t.cols, 2)
		t.nibbles = resize(t.nibbles, rows*wide)
		for r := range rows {
			t.tables.unpackRow(t.nibbles[r*wide:][:wide], codes[r*narrow:][:narrow], t.cols)
		}
		codes = t.nibbles
	}
	t.blockPass.rows(data, rows, &Output{Codes: codes, RowE2: out.RowE2, RowW2: out.RowW2})
}

func (t *givenBlockTap) finish() Tap {
	if t.scope == ScopeTensor && t.chooser.spec.Global == 0 {
		var c blockChoice
		t.chooser.plain.choose(nil, t.tensorRange, &c)
		t.tensor.high, t.tensor.low = c.high, c.low
	}
	t.decoded = nil
	return t.blockPass.finish()
}

// givenChooser gives each block the parameters that are stored for it.
type givenChooser struct {
	f       Format
	spec    Spec
	plain   blockChooser // round to nearest, which says whether a scale was clamped
	decoder blockDecoder
	with    func(scale, offset float32, c *blockChoice)
	next    int
}

func (k *givenChooser) choose(w []float32, r blockRange, c *blockChoice) {
	k.plain.choose(w, r, c)
	k.with(k.decoder.scale(k.next), k.decoder.offset(k.next), c)
	k.next++
}

// measure is encode of codes that are given: q is what they decode to.
func (p *blockPass) measure(w, q []float32, params []blockParams, codes []byte) {
	for i := range params {
		from, to := i*p.group, min((i+1)*p.group, len(w))
		body := from
		if !p.ranges[i].odd {
			body += (to - from) &^ 15
		}
		if body > from {
			p.set.blocks.measure(w[from:body], q[from:body], params[i].bins, p.bins[from:body], &p.tap.sums)
		}
		blockMeasureRef(w[body:to], q[body:to], params[i].bins, p.bins[body:to], &p.tap.sums)
	}
	if p.bias != nil {
		p.bias.addRun(w, q)
	}
	p.count(w, codes)
}

// blockMeasureRef is the part of blockEncodeRef that records: it puts the bin of
// each error into dst and adds to the sums. Elements that are not finite have
// bin 0 and enter no sum.
func blockMeasureRef(w, q []float32, bins float32, dst []byte, sums *blockSums) {
	p := blockParams{bins: bins}
	for i, x := range w {
		dst[i] = 0
		if math.Float32bits(x)&^signF32 < infF32 {
			dst[i] = errorBinOf(x, q[i], &p)
			sums.add(i&7, float64(x), float64(q[i]))
		}
	}
}

// givenNVFP4 records NVFP4. The rules for clamped scales want to know the
// largest magnitude, which is 0 where only the global scale is.
func (s Set) givenNVFP4(spec Spec, cols int, amax, global float32) (givenTap, error) {
	if global == 0 {
		return nil, fmt.Errorf("no global scale: %w", ErrRange)
	}
	if err := checkGlobal(global, spec.Convention); err != nil {
		return nil, err
	}
	search := nvfp4Search{top: MaxE4M3}
	if spec.Method == NVFP4FourOverSix.String() {
		search.top = 256
		if spec.Convention == ModelOpt {
			spec.Convention = ModelOptStatic
		}
	}
	stored := global
	if spec.Global == 0 && amax > 0 {
		stored = 0
	}
	p := s.beginNVFP4(BF16, cols, spec.Convention, search, amax, stored)
	if p.job.global != global { // it is shared with a matrix of larger weights
		p.job.start(BF16, spec.Convention, search, 0, global)
	}
	t := &givenNVFP4Tap{nvfp4Pass: p}
	if spec.Codebook != 0 {
		p.set.nvfp4Count = nvfp4CountRef
		p.job.reach, p.job.bias = newCodebook(spec.Codebook).reach, newBiasSums(spec)
		t.tables, t.nibbles = tablesOfBook(spec.Codebook), make([]byte, ceilDiv(cols, 2))
	}
	return t, nil
}

type givenNVFP4Tap struct {
	*nvfp4Pass
	tables  *bookTables // of code2, whose codes are packed
	nibbles []byte      // of a row
}

func (t *givenNVFP4Tap) rows(e Element, data []byte, q []float32, rows int, out *Output) {
	if t.cols == 0 {
		clear(out.RowE2)
		clear(out.RowW2)
		return
	}
	j := t.job
	j.element = e
	rowBytes := t.cols * e.Size()
	rowCodes, rowScales := ceilDiv(t.cols, 2), ceilDiv(t.cols, BlockNVFP4)
	if t.tables != nil {
		rowCodes = ceilDiv(t.cols, 4)
	}
	for r := range rows {
		codes := out.Codes[r*rowCodes:][:rowCodes]
		if t.tables != nil {
			t.tables.unpackRow(t.nibbles, codes, t.cols)
			codes = t.nibbles
		}
		t.set.nvfp4GivenRow(j, data[r*rowBytes:(r+1)*rowBytes], q[r*t.cols:(r+1)*t.cols], codes, out.Scales[r*rowScales:])
		w2, e2 := j.endRow()
		if out.RowW2 != nil {
			out.RowW2[r] = w2
		}
		if out.RowE2 != nil {
			out.RowE2[r] = e2
		}
	}
}

// nvfp4GivenRow is nvfp4Row of codes that are given, in the same runs.
func (s Set) nvfp4GivenRow(j *nvfp4Job, src []byte, q []float32, codes, scales []byte) {
	size := j.element.Size()
	stride := BlockNVFP4 * size
	var w nvfp4Block
	for len(src) > 0 {
		n := min(len(src)/stride, nvfp4Chunk)
		found := &j.tap.clips.amax
		done := s.blockAmax(j.element, src[:n*stride], found[:n])
		choices := j.choices[:done]
		clear(choices)
		s.nvfp4Count(j, src[:done*stride], found[:done], scales[:done], choices)
		for i := range done {
			w.load(j.element, src[i*stride:(i+1)*stride])
			j.measure(&w, (*nvfp4Block)(q[i*BlockNVFP4:]), j.steps[scales[i]&127], codes[i*8:i*8+8])
		}
		j.tap.elements += int64(done * BlockNVFP4)
		src, q, codes, scales = src[done*stride:], q[done*BlockNVFP4:], codes[done*8:], scales[done:]
		if done == n && len(src) >= stride || len(src) == 0 {
			continue
		}
		part := src[:min(len(src), stride)]
		j.givenPart(part, q, codes, scales[0])
		elements := len(part) / size
		src, q, codes, scales = src[len(part):], q[elements:], codes[ceilDiv(elements, 2):], scales[1:]
	}
}

// givenPart is part of codes that are given.
func (j *nvfp4Job) givenPart(src []byte, q []float32, codes []byte, scale byte) {
	t := &j.tap
	var w, decoded nvfp4Block
	var own [BlockNVFP4 / 2]byte
	amax, nan, inf := w.loadPart(j.element, src)
	size := j.element.Size()
	elements := len(src) / size
	for i := range elements {
		if math.Float32bits(loadElement(j.element, src[i*size:]))&^signF32 < infF32 {
			decoded[i] = q[i]
			own[i/2] |= codes[i/2] & (15 << (i % 2 * 4))
		}
	}
	t.elements += int64(elements)
	t.nan += nan
	t.inf += inf
	t.padding += BlockNVFP4 - int64(elements) + nan + inf
	j.count(&w, amax, scale, 0, 0)
	j.measure(&w, &decoded, j.steps[scale&127], own[:])
}

// measure is encode of codes that are given: q is what they decode to.
func (j *nvfp4Job) measure(w, q *nvfp4Block, step float32, codes []byte) {
	t := &j.tap
	divisor := step
	if step == 0 {
		divisor = float32(math.Inf(1))
	}
	for i := 0; i < BlockNVFP4; i += 2 {
		pair := codes[i/2]
		t.pairs[pair]++
		t.errors[errorBin(w[i]/divisor-e2m1Values[pair&15])&63]++
		t.errors[errorBin(w[i+1]/divisor-e2m1Values[pair>>4])&63]++
	}
	t.lanes.add(w, q)
	if j.bias != nil {
		for i := range w {
			j.bias.add(i/2, float64(w[i]), float64(q[i]))
		}
	}
}
