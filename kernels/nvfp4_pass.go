package kernels

// nvfp4Pass is one NVFP4 quantization of rows of cols elements.
type nvfp4Pass struct {
	set  Set
	job  *nvfp4Job
	cols int
}

// beginNVFP4 takes a job from the pool; finish gives it back. amax is the
// largest finite magnitude of the whole matrix, stored the global scale to use,
// 0 for the one that follows from amax.
func (s Set) beginNVFP4(e Element, cols int, conv Convention, search nvfp4Search, amax, stored float32) *nvfp4Pass {
	p := &nvfp4Pass{set: s, job: nvfp4Jobs.Get().(*nvfp4Job), cols: cols}
	p.job.start(e, conv, search, amax, stored)
	return p
}

func (p *nvfp4Pass) global() float32 { return p.job.global }

func (p *nvfp4Pass) rows(data []byte, rows int, out *Output) {
	if p.cols == 0 { // however many there are, there is nothing in them
		clear(out.RowE2)
		clear(out.RowW2)
		return
	}
	j := p.job
	rowBytes := p.cols * j.element.Size()
	rowCodes, rowScales := ceilDiv(p.cols, 2), ceilDiv(p.cols, BlockNVFP4)
	for r := range rows {
		var codes, scales []byte
		if out.Codes != nil {
			codes = out.Codes[r*rowCodes : (r+1)*rowCodes]
		}
		if out.Scales != nil {
			scales = out.Scales[r*rowScales : (r+1)*rowScales]
		}
		p.set.nvfp4Row(j, data[r*rowBytes:(r+1)*rowBytes], codes, scales)
		w2, e2 := j.endRow()
		if out.RowW2 != nil {
			out.RowW2[r] = w2
		}
		if out.RowE2 != nil {
			out.RowE2[r] = e2
		}
	}
}

func (p *nvfp4Pass) finish() Tap {
	t := p.job.tap.record(p.job.scale2())
	p.job.bias.record(&t)
	nvfp4Jobs.Put(p.job)
	p.job = nil
	return t
}

// endRow ends a row of the record.
func (j *nvfp4Job) endRow() (w2, e2 float64) {
	if j.bias != nil {
		j.bias.endRow()
	}
	return j.tap.endRow()
}
