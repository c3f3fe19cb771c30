package kernels

import "math"

// nvfp4Clips is what is known of a run's blocks beside their elements, and what
// kernels in assembly count by block. The generator knows where its fields are.
type nvfp4Clips struct {
	amax    [nvfp4Chunk]uint32  // f32 bits
	raw     [nvfp4Chunk]float32 // scales before they are rounded
	steps   [nvfp4Chunk]float32
	limits  [nvfp4Chunk]uint32  // f32 bits of the largest f32 that is not above 6 steps
	mass    [nvfp4Chunk]float64 // Σw² of the elements above that, of a clipped block
	scales  [nvfp4Chunk]byte
	crowded [nvfp4Chunk]byte        // which clipped blocks have more than one such element
	bits    [nvfp4Chunk / 64]uint64 // which blocks are clipped
	dense   [nvfp4Chunk / 64]uint64 // which may have more than one such element
	counts  [8]int64                // see the constants below
	largest [16]uint32              // parts of the largest amax
	lanes   [3][8]float64           // see nvfp4Tap
	depth   [DepthBins]int64        // from the third bin on
	step    [16]float32             // the largest steps of a run's blocks, by lane
	wild    uint32                  // 0 where no element of the run is 7 steps or more
	chosen  bool                    // amax and raw are of the run that is to be counted
	counted bool                    // step and wild are of the run that is to be encoded
	far     bool                    // an element of a run that was taken for tame was off by a step
}

// Places in nvfp4Clips.counts.
const (
	clipsZero = iota
	clipsHigh
	clipsLow
	clipsShallow
	clipsDeep
	clipsSubnormal
	clipsSecondBin // of depth, and beyond
	clipsThirdBin
)

// Places in nvfp4Clips.lanes.
const (
	massShallow = iota
	massDeep
	massSubnormal
)

// fold moves what kernels counted of a run to the record. padding is how many
// zero blocks filled it up.
func (c *nvfp4Clips) fold(t *nvfp4Tap, padding int) {
	n := &c.counts
	t.zeroBlocks += n[clipsZero] - int64(padding)
	t.scaleHigh += n[clipsHigh]
	t.scaleLow += n[clipsLow]
	t.shallow += n[clipsShallow]
	t.deep += n[clipsDeep]
	t.subnormal += n[clipsSubnormal]
	t.depth[0] += n[clipsShallow] + n[clipsDeep] + n[clipsSubnormal] - n[clipsSecondBin]
	t.depth[1] += n[clipsSecondBin] - n[clipsThirdBin]
	if n[clipsThirdBin] > 0 {
		for i, deeper := range c.depth {
			t.depth[i] += deeper
		}
		c.depth = [DepthBins]int64{}
	}
	for _, a := range c.largest {
		t.amax = max(t.amax, a)
	}
	*n = [8]int64{}
}

// Kinds of runs, each the one before and more.
const (
	anyRun = iota
	tame   // no element is 7 steps or more, and so none is off by more than a step and its and the code's rounding
	calm   // no element can be further off than the worst so far
)

// kind is that of the run that was counted last and not encoded yet. worst is
// the largest |w−q| so far.
func (c *nvfp4Clips) kind(worst float64) int {
	if !c.counted || c.wild != 0 || c.far {
		return anyRun
	}
	for _, step := range c.step {
		if 1.001*float64(step) > worst {
			return tame
		}
	}
	return calm
}

// massAbove is Σw² over the elements of a block above a limit. Pairs of elements
// go to lanes as in nvfp4Tap.
func massAbove(w *nvfp4Block, limit float64) float64 {
	var lanes [8]float64
	for i, v := range w {
		if x := float64(v); math.Abs(x) > limit {
			lanes[i/2] += x * x
		}
	}
	return addLanes(&lanes)
}
