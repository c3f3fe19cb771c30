package kernels

import "math"

// record makes the record of a recoding from counts: sums are whole numbers of steps
// squared for each scale, times the square, added by the byte of the scale. No scale was
// chosen, so that none was clamped, and every block is in bin 0 of Multipliers.
func (p *RecodePass) record() Tap {
	p.counts.fold()
	var t Tap
	nvfp4 := p.f.Scale == "e4m3"
	if nvfp4 {
		t.GlobalScale = float64(p.m.Global)
		if p.m.Convention == CT || p.m.Convention == CT32 {
			t.GlobalScale = 1 / t.GlobalScale
		}
	}
	for scale := range p.steps {
		p.recordElements(&t, scale)
		p.recordBlocks(&t, scale, nvfp4)
	}
	p.bias.record(&t)
	return t
}

// recordElements adds what is counted and summed by element, of blocks with a scale.
func (p *RecodePass) recordElements(t *Tap, scale int) {
	step := p.steps[scale]
	square := float64(step) * float64(step)
	var w2, q2, wq, e2 float64 // in quarters of steps squared: whole numbers
	for code, n := range &p.counts.codes[scale] {
		if n == 0 {
			continue
		}
		t.Elements += n
		v, q := float64(e2m1Values[code]), p.tables.values[code]
		switch {
		case step-step != 0:
			t.NaN += n
			continue
		case beyondF32(v, step):
			t.Inf += n
			continue
		}
		t.Codes[p.tables.codes[code]] += n
		if step == 0 {
			t.Errors[0] += n
			continue
		}
		d, many := v-q, float64(4*n)
		w2 += many * v * v
		q2 += many * q * q
		wq += many * v * q
		e2 += many * d * d
		t.Errors[min(int(math.Abs(d)*(ErrorBins-1)), ErrorBins-1)] += n
		t.Amax = max(t.Amax, math.Abs(v*float64(step)))
		t.MaxAbsErr = max(t.MaxAbsErr, math.Abs(d*float64(step)))
		if mass := float64(n) * v * v * square; math.Abs(v) > p.tables.reach {
			if p.subnormal(scale) {
				t.SubnormalClippedL2 += mass
			} else {
				t.DeepL2 += mass // two values of E2M1 are never within 1/16 of each other
			}
		}
	}
	if step-step != 0 {
		return
	}
	square /= 4
	t.SumW2 += float64(w2 * square)
	t.SumQ2 += float64(q2 * square)
	t.SumWQ += float64(wq * square)
	t.SumE2 += float64(e2 * square)
}

// recordBlocks adds what is counted by block.
func (p *RecodePass) recordBlocks(t *Tap, scale int, nvfp4 bool) {
	step := p.steps[scale]
	stored := float64(E8M0ToF32(byte(scale)))
	bin := scaleBin(float32(stored))
	if nvfp4 {
		stored, bin = math.Abs(float64(e4m3Values[scale])), (scale&127)*ScaleBins/128
	}
	for largest, n := range &p.counts.blocks[scale] {
		if n == 0 {
			continue
		}
		t.Blocks += n
		t.Multipliers[0] += n
		if largest == 0 || step == 0 || step-step != 0 {
			t.ZeroBlocks += n
			continue
		}
		if t.ScaleCount == 0 {
			t.ScaleMin = stored
		}
		t.ScaleMin, t.ScaleMax = min(t.ScaleMin, stored), max(t.ScaleMax, stored)
		t.ScaleSum += float64(stored * float64(n))
		t.ScaleCount += n
		t.Scales[bin] += n
		if p.subnormal(scale) {
			t.ScaleSubnormal += n
		}
		a := float64(e2m1Values[largest])
		if a <= p.tables.reach {
			continue
		}
		t.Depth[min(int((1-p.tables.reach/a)*DepthBins), DepthBins-1)] += n
		if p.subnormal(scale) {
			t.SubnormalClipped += n
		} else {
			t.Deep += n
		}
	}
}

// subnormal says whether a scale is a subnormal E4M3.
func (p *RecodePass) subnormal(scale int) bool {
	return p.f.Scale == "e4m3" && scale&127 < smallestNormalE4M3
}
