package kernels

import "math"

// Bin counts of the histograms that a Tap carries.
const (
	DepthBins = 20 // clip depth in [0, 1), 0.05 a bin
	ScaleBins = 32 // E4M3 block-scale codes, four codes (half an octave) a bin
	ErrorBins = 17 // |w-q| in units of the block's step, 1/16 a bin; the last bin holds everything from 1 up
	MultBins  = 16 // candidates of a scale search, in the order in which the method lists them
)

// ShallowDepth is the deepest clipping that the rounding of an E4M3 scale with
// three mantissa bits can explain: half a unit in the last place is at most
// 1/16 of the value.
const ShallowDepth = 1.0 / 16

// Tap is the tap record: what one quantization round trip did to one matrix.
//
// With w the finite source elements in f32 and q their dequantized values, all
// sums are f64. Non-finite source elements are counted in NaN and Inf and enter
// nothing else.
type Tap struct {
	Elements int64 // all elements, finite or not
	Blocks   int64
	NaN, Inf int64 // non-finite source elements

	SumW2, SumQ2, SumWQ, SumE2 float64 // Σw², Σq², Σwq, Σ(w−q)²
	MaxAbsErr                  float64 // largest |w−q|
	Amax                       float64 // largest |w|

	GlobalScale                  float64 // weight_scale_2: what multiplies a block scale; 0 where the scheme has none
	ScaleMin, ScaleMax, ScaleSum float64 // stored block scales of non-zero blocks, as ScaleSubnormal and Scales too, before the global scale; sum over the ScaleCount of them
	ScaleCount                   int64
	ScaleHigh, ScaleLow          int64 // blocks whose amax asks for a scale above the format's largest, or for one that rounds to 0, so that it was clamped
	ScaleSubnormal               int64 // block scales that are E4M3 subnormals, so that their rounding is coarser than 1/16
	ZeroBlocks                   int64 // blocks whose every finite element is 0

	Shallow, Deep      int64   // clipped blocks: 0 < depth ≤ 1/16, and beyond
	SubnormalClipped   int64   // clipped blocks with a subnormal scale: in neither of the two
	ShallowL2, DeepL2  float64 // Σw² over the clipped elements of such blocks
	SubnormalClippedL2 float64 // the same for SubnormalClipped
	Depth              [DepthBins]int64
	Codes              [16]int64       // use of each element code, by finite elements
	Multipliers        [MultBins]int64 // blocks by chosen candidate; labels come with the method
	Scales             [ScaleBins]int64
	Errors             [ErrorBins]int64

	// Of the source alone, the same under every variant. A pass does not fill
	// them in, SetMoments does; without HasMoments they mean nothing.
	HasMoments         bool
	SumW, SumW3, SumW4 float64 // Σw, Σw³, Σw⁴

	// Of formats with a codebook alone; without HasBias it means nothing.
	HasBias bool
	Bias    Bias
}

// Cos is ⟨w,q⟩/(‖w‖‖q‖); 1 where both are zero, NaN where only one is.
func (t *Tap) Cos() float64 {
	if t.SumW2 == 0 && t.SumQ2 == 0 {
		return 1
	}
	return t.SumWQ / (math.Sqrt(t.SumW2) * math.Sqrt(t.SumQ2))
}

// Rel2 is ‖w−q‖²/‖w‖²; 0 where the error is zero.
func (t *Tap) Rel2() float64 {
	if t.SumE2 == 0 {
		return 0
	}
	return t.SumE2 / t.SumW2
}

// RelL2 is ‖w−q‖/‖w‖.
func (t *Tap) RelL2() float64 { return math.Sqrt(t.Rel2()) }

// SQNR is 10·log10(‖w‖²/‖w−q‖²) in dB; +Inf where the error is zero. It
// is taken from 0, not negated, since 0 dB would be -0.
func (t *Tap) SQNR() float64 { return 0 - 10*math.Log10(t.Rel2()) }

// IdentityGap is how far the record is from rel2 = 1 + r² − 2·r·cos with
// r = ‖q‖/‖w‖, an identity that every honest record satisfies to rounding.
// It is the absolute difference; 0 for a zero matrix.
func (t *Tap) IdentityGap() float64 {
	if t.SumW2 == 0 {
		return 0
	}
	r := math.Sqrt(t.SumQ2 / t.SumW2)
	return math.Abs(t.Rel2() - (1 + r*r - 2*r*t.Cos()))
}
