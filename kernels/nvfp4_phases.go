package kernels

import "math"

// A run of whole finite blocks goes through four phases while it is in the
// first-level cache: the largest magnitude of each block, the choice of its
// scale, what is counted by block, and the codes with what is summed by
// element. These are the definitions; another implementation of a phase leaves
// the same bytes and the same job.tap.

// blockAmaxRef puts the largest magnitude of each block of 16 elements into
// amax, as f32 bits, until a block has an element that is not finite, and
// returns how many it did. src holds len(amax) whole blocks.
func blockAmaxRef(e Element, src []byte, amax []uint32) int {
	stride := BlockNVFP4 * e.Size()
	for i := range amax {
		a := absMaxRef(e, src[i*stride:(i+1)*stride])
		if a >= infF32 {
			return i
		}
		amax[i] = a
	}
	return len(amax)
}

// nvfp4ChooseRef puts the E4M3 scale of each block into scales and the bin of
// Tap.Multipliers that stands for the choice into choices. The blocks are whole
// and finite, amax holds their largest magnitudes. Under imatrix the first one is
// that of j.weights.at.
func nvfp4ChooseRef(j *nvfp4Job, src []byte, amax []uint32, scales, choices []byte) {
	var w nvfp4Block
	stride := BlockNVFP4 * j.element.Size()
	if j.weights != nil {
		defer func(at int) { j.weights.at = at }(j.weights.at)
	}
	for i, a := range amax {
		if j.searches() {
			w.load(j.element, src[i*stride:(i+1)*stride])
		}
		scale, choice := j.choose(&w, math.Float32frombits(a))
		scales[i], choices[i] = scale, byte(choice)
		if j.weights != nil {
			j.weights.at++
		}
	}
}

// nvfp4CountRef adds to the record what is counted by block: scales, choices,
// zero blocks, clipping. The mass of a clipped block goes to lane i mod 8, where
// i is its place in the run.
func nvfp4CountRef(j *nvfp4Job, src []byte, amax []uint32, scales, choices []byte) {
	var w nvfp4Block
	stride := BlockNVFP4 * j.element.Size()
	for i, a := range amax {
		if limit := j.reach * float64(j.steps[scales[i]&127]); float64(math.Float32frombits(a)) > limit {
			w.load(j.element, src[i*stride:(i+1)*stride])
		}
		j.count(&w, a, scales[i], choices[i], i&7)
	}
}

// nvfp4EncodeRef writes the codes of whole finite blocks and adds to the record
// what is summed and counted by element.
func nvfp4EncodeRef(j *nvfp4Job, src, scales, codes []byte) {
	var w nvfp4Block
	stride := BlockNVFP4 * j.element.Size()
	for i, scale := range scales {
		w.load(j.element, src[i*stride:(i+1)*stride])
		j.encode(&w, j.steps[scale&127], codes[i*8:i*8+8])
	}
}

// block does all phases of one block with finite elements and returns its
// scale. src is what was read, for a codebook.
func (j *nvfp4Job) block(w *nvfp4Block, amaxBits uint32, src, codes []byte) byte {
	scale, choice := j.choose(w, math.Float32frombits(amaxBits))
	j.count(w, amaxBits, scale, byte(choice), 0)
	if j.book != nil {
		j.encodeBook(w, j.steps[scale&127], codes, len(src)/j.element.Size(), oddBits(j.element, src))
	} else {
		j.encode(w, j.steps[scale&127], codes)
	}
	return scale
}

// count is nvfp4CountRef for one block. The elements are looked at only where
// the block is clipped.
func (j *nvfp4Job) count(w *nvfp4Block, amaxBits uint32, scale, choice byte, lane int) {
	t := &j.tap
	amax := math.Float32frombits(amaxBits)
	t.blocks++
	t.amax = max(t.amax, amaxBits)
	t.choices[choice&(MultBins-1)]++
	if amaxBits == 0 {
		t.zeroBlocks++
		return
	}
	t.scale(scale, j.rawScale(amax))
	if limit := j.reach * float64(j.steps[scale&127]); float64(amax) > limit {
		t.clip(w, scale, float64(amax), limit, lane)
	}
}
