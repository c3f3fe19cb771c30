package demo

import (
	"encoding/binary"
	"math"

	"quantscope/kernels"
)

// A planted effect is a factor on rel2 of a matrix under nvfp4 round to nearest.
// rel2 knows no scale, so what is planted is a shape: a fraction of the blocks
// of 16 is drawn from another law, of the same energy in the mean, whose rel2
// is a known multiple of a Gaussian block's. The blocks stand at even distances,
// from a place that depends on seed and tensor, and so does which of the two
// whole numbers next to a fraction of blocks it is; the mean over tensors is the
// fraction.
//
// Two laws are in use. In a block of the hard one an element at random has the
// magnitude A and the others are uniform in [0.78, 0.88]·A, where the codes 4
// and 6 lie far apart. In a block of the easy one all have the magnitude A, which
// a code meets exactly, so that only the rounding of the block scale is left.
// Signs are random. A is uniform in [1, 2) times a constant: block scales then
// have any mantissa, and their rounding does not depend on the rest of the
// tensor.
const (
	// hardRatio and easyRatio are rel2 of a law over that of Gaussian blocks,
	// under nvfp4 round to nearest, measured where a part of the blocks is planted.
	// The global scale, and with it the rounding of block scales, follows the
	// largest Gaussian, so that what a factor adds to 1 is up to 4 % off in other
	// sizes and fractions; TestPlantRatios measures it again.
	hardRatio = 2.785
	easyRatio = 0.08

	hardLow, hardHigh = 0.78, 0.88

	blockSize = kernels.BlockNVFP4
)

// planted says which blocks of a tensor are drawn from which law.
type planted struct {
	stream        // its own, beside the one of the Gaussian elements
	easy   bool   // the law
	step   uint64 // the fraction of blocks, in units of 2⁻⁶⁴
	start  uint64
	all    bool // the fraction is 1
	cols   uint64
}

// newPlanted plants a factor of rel2, nil for 1. The factor is within reach.
func newPlanted(seed uint64, tensor string, cols int, factor float64) *planted {
	if factor == 1 {
		return nil
	}
	p := &planted{stream: newStream(seed, "planted "+tensor), easy: factor < 1, cols: uint64(cols)}
	ratio := hardRatio
	if p.easy {
		ratio = easyRatio
	}
	fraction := (factor - 1) / (ratio - 1)
	if p.all = fraction >= 1; !p.all {
		p.step = uint64(fraction * (1 << 64))
	}
	p.start = p.bits(math.MaxUint32)
	return p
}

// has says whether a block is drawn from the law: where the running sum of the
// fraction passes a whole number.
func (p *planted) has(block uint64) bool {
	at := p.start + block*p.step
	return p.all || at+p.step < at
}

// bf16 overwrites the planted blocks of dst, which holds elements of the tensor
// from first on as bfloat16.
func (p *planted) bf16(dst []byte, first uint64, std float64) {
	perRow := (p.cols + blockSize - 1) / blockSize
	end := first + uint64(len(dst)/2)
	for i := first; i < end; {
		row, col := i/p.cols, i%p.cols
		block := col / blockSize
		from := row*p.cols + block*blockSize
		width := min(blockSize, p.cols-block*blockSize)
		stop := min(from+width, end)
		if b := row*perRow + block; p.has(b) {
			for ; i < stop; i++ {
				v := kernels.F32ToBF16(float32(p.element(b, i-from, width) * std))
				binary.LittleEndian.PutUint16(dst[2*(i-first):], v)
			}
		}
		i = stop
	}
}

// element is element j of a block of the given width, whose elements have the
// mean square 1 over all blocks. Products are converted so that no compiler
// fuses them with a sum.
func (p *planted) element(block, j, width uint64) float64 {
	of := p.bits(block<<5 | 31) // of the block; 31 is no element
	r := p.bits(block<<5 | j)
	amax, square := 1+unit(of), 7.0/3 // ∫a² over [1, 2)
	v := 1.0
	if !p.easy {
		const mean = (hardHigh*hardHigh + hardHigh*hardLow + hardLow*hardLow) / 3
		square *= (1 + float64(float64(width-1)*mean)) / float64(width)
		if of%width != j {
			v = hardLow + float64((hardHigh-hardLow)*unit(r))
		}
	}
	v *= amax / math.Sqrt(square)
	if r&1 == 1 {
		return -v
	}
	return v
}

// unit is a number in [0, 1) from the upper 53 of 64 random bits.
func unit(r uint64) float64 { return float64(r>>11) / (1 << 53) }
