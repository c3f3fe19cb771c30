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
	counts  [8]int64                // see the constants below
	largest [16]uint32              // parts of the largest amax
	lanes   [3][8]float64           // see nvfp4Tap
	depth   [DepthBins]int64        // from the third bin on
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

// massAbove is Σw² over the elements of a block above a limit, in their order.
func massAbove(w *nvfp4Block, limit float64) (mass float64) {
	for _, v := range w {
		if x := float64(v); math.Abs(x) > limit {
			mass += x * x
		}
	}
	return mass
}
