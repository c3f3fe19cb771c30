package sessions

import (
	"math"

	"quantscope/kernels"
)

// NewRecord reduces a tap record to the figures that panes use. Seq, AtUS and
// the digests of the weights are left 0.
func NewRecord(variant, tensor int, t *kernels.Tap) Record {
	var r Record
	r.set(variant, tensor, t)
	return r
}

// set makes r the record of a tap, without Seq, AtUS and the digests.
func (r *Record) set(variant, tensor int, t *kernels.Tap) {
	*r = Record{
		Variant: variant, Tensor: tensor,
		Cos: t.Cos(), Rel2: t.Rel2(), RelL2: t.RelL2(), SQNR: t.SQNR(),
		MaxAbsErr: t.MaxAbsErr, Amax: t.Amax, GlobalScale: t.GlobalScale,
		ScaleMin: t.ScaleMin, ScaleMean: math.NaN(), ScaleMax: t.ScaleMax,
		W2: t.SumW2, E2: t.SumE2, Std: t.Std(), Kurtosis: t.Kurtosis(),
		Elements: t.Elements, Blocks: t.Blocks, ZeroBlocks: t.ZeroBlocks, NonFinite: t.NaN + t.Inf,
		ScaleHigh: t.ScaleHigh, ScaleLow: t.ScaleLow, ScaleSubnormal: t.ScaleSubnormal,
		Shallow: t.Shallow, Deep: t.Deep, SubnormalClipped: t.SubnormalClipped,
		ShallowL2: share(t.ShallowL2, t.SumW2), DeepL2: share(t.DeepL2, t.SumW2),
	}
	if t.ScaleCount > 0 {
		r.ScaleMean = t.ScaleSum / float64(t.ScaleCount)
	} else {
		r.ScaleMin, r.ScaleMax = math.NaN(), math.NaN()
	}
	nan := math.NaN()
	r.Bias, r.RowBias, r.RowBiasMax, r.L2, r.Sym = nan, nan, nan, nan, nan
	if b := &t.Bias; t.HasBias {
		r.Bias, r.RowBias, r.RowBiasMax, r.L2, r.Sym, r.Codebook = b.Value(), b.RowRMS(), b.RowMax, b.L2, b.Sym, b.Codebook
	}
	for i, n := range t.Depth {
		r.Depth[i] = uint32(min(max(n, 0), math.MaxUint32))
	}
}

// digest is what the record says of the weights.
func (r *Record) digest() digest { return digest{r.Weights, r.WeightsSHA} }

// setDigest notes which weights the record is of.
func (r *Record) setDigest(d digest) { r.Weights, r.WeightsSHA = d.xxh, d.sha }

// sameFigures says whether two records say the same of a tensor, bit for bit,
// whenever they were made. What an older one does not know is not compared.
func (r *Record) sameFigures(o *Record) bool {
	a, b := *r, *o
	for _, x := range []*Record{&a, &b} {
		x.Seq, x.AtUS, x.Weights, x.WeightsSHA = 0, 0, 0, 0
	}
	if math.IsNaN(a.Std) || math.IsNaN(b.Std) {
		a.Std, a.Kurtosis, b.Std, b.Kurtosis = 0, 0, 0, 0
	}
	if a.Codebook == 0 || b.Codebook == 0 { // records of before there were biases
		for _, x := range []*Record{&a, &b} {
			x.Bias, x.RowBias, x.RowBiasMax, x.L2, x.Sym, x.Codebook = 0, 0, 0, 0, 0, 0
		}
	}
	fa, fb := a.floats(), b.floats()
	for i := range fa {
		if math.Float64bits(*fa[i]) != math.Float64bits(*fb[i]) {
			return false
		}
		*fa[i], *fb[i] = 0, 0 // a NaN is not equal to itself
	}
	return a == b
}

func (r *Record) floats() [21]*float64 {
	return [...]*float64{
		&r.Cos, &r.Rel2, &r.RelL2, &r.SQNR, &r.MaxAbsErr, &r.Amax, &r.GlobalScale,
		&r.ScaleMin, &r.ScaleMean, &r.ScaleMax, &r.W2, &r.E2, &r.Std, &r.Kurtosis, &r.ShallowL2, &r.DeepL2,
		&r.Bias, &r.RowBias, &r.RowBiasMax, &r.L2, &r.Sym,
	}
}

// share is part of whole; 0 where there is no part, of nothing too.
func share(part, whole float64) float64 {
	if part == 0 {
		return 0
	}
	return part / whole
}

// failedRecord is the record of a tensor that could not be measured. nonFinite
// is the number of its weights that are not finite, where that is why.
func failedRecord(variant, tensor int, nonFinite int64) Record {
	nan := math.NaN()
	return Record{
		Variant: variant, Tensor: tensor, Failed: true, NonFinite: nonFinite,
		Cos: nan, Rel2: nan, RelL2: nan, SQNR: nan, MaxAbsErr: nan, Amax: nan, GlobalScale: nan,
		ScaleMin: nan, ScaleMean: nan, ScaleMax: nan, W2: nan, E2: nan, Std: nan, Kurtosis: nan, ShallowL2: nan, DeepL2: nan,
		Bias: nan, RowBias: nan, RowBiasMax: nan, L2: nan, Sym: nan,
	}
}

// unit is the rounding unit of f64, 2⁻⁵³.
const unit = 1.0 / (1 << 53)

// identityBound is the largest IdentityGap that rounding can explain.
//
// Squares and products of f32 values are exact in f64, so each of the four sums
// of n terms is off by at most γₙ·Σ|term| with γₙ ≈ n·u, u = 2⁻⁵³, in whatever
// order it is summed (Higham, Accuracy and Stability of Numerical Algorithms,
// section 4.2); w−q is rounded once, which adds 2u to each of its squares.
// Divided by Σw², with Σ|wq| ≤ ‖w‖‖q‖ = r‖w‖², the sums are off by
// (n+2)·u·(rel2 + 1 + r² + 2r), and the dozen operations that turn them into the gap
// add no more than 16·u of the same quantity.
func identityBound(t *kernels.Tap) float64 {
	if t.SumW2 == 0 {
		return 0
	}
	r := math.Sqrt(t.SumQ2 / t.SumW2)
	return (float64(t.Elements) + 18) * unit * (t.Rel2() + (1+r)*(1+r))
}

// identityBroken says whether the gap is beyond its bound; a gap or bound that
// is not a number is.
func identityBroken(t *kernels.Tap) bool { return !(t.IdentityGap() <= identityBound(t)) }
