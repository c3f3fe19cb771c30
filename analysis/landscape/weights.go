package landscape

import (
	"math"
	"slices"

	"quantscope/analysis/stats"
)

const (
	leastInClass = 60    // tensors of a projection, to have a variance of its own
	classAlpha   = 0.001 // how likely equal variances are taken for different ones
	madNormal    = 1.482602218505602
)

// weigh gives tensors their precision. Noise falls with the number of blocks,
// but tensors also differ among themselves; so projections have a variance of
// their own where theirs clearly differ, and else the residuals choose between
// equal variances and ones that fall with the number of weights.
func (r *robust) weigh(g *group, f *fit) {
	z := r.standardized(f)
	if deviations := r.deviations(f, z); deviations != nil {
		least := slices.Min(deviations)
		for i, l := range r.projection.level {
			r.weight[i] = least * least / (deviations[l] * deviations[l])
		}
		return
	}
	sizes := make([]float64, len(r.x))
	for i, k := range r.items {
		sizes[i] = float64(g.table.Items[g.items[k]].Elements())
	}
	top := slices.Max(sizes)
	if slices.Min(sizes) == top || !(slices.Min(sizes) > 0) {
		return
	}
	// The logarithms of residuals' magnitudes fall by half of those of the sizes, or
	// not at all. No tail bends that line far, and unequal variances do not hide in
	// it as they do in a median of all magnitudes.
	var x, y []float64
	for i := range sizes {
		sizes[i] /= top
		if z[i] != 0 {
			x, y = append(x, math.Log(sizes[i])), append(y, math.Log(math.Abs(z[i])))
		}
	}
	if slope(x, y) < -0.25 {
		copy(r.weight, sizes)
	}
}

// slope is that of the least-squares line of y over x; NaN where x does not vary.
func slope(x, y []float64) float64 {
	var meanX, meanY, xx, xy float64
	n := float64(len(x))
	for i := range x {
		meanX += x[i] / n
		meanY += y[i] / n
	}
	for i := range x {
		xx += (x[i] - meanX) * (x[i] - meanX)
		xy += (x[i] - meanX) * (y[i] - meanY)
	}
	return xy / xx
}

// deviations are the projections' deviations, nil where they may be equal or
// are judged by too few tensors. Under normal residuals the logarithm of a
// median deviation of n has the variance 1.36/n.
func (r *robust) deviations(f *fit, z []float64) []float64 {
	k := r.projection.levels()
	if k < 2 || slices.Min(r.projection.count) < leastInClass {
		return nil
	}
	classes := make([][]float64, k)
	for i, l := range r.projection.level {
		classes[l] = append(classes[l], z[i])
	}
	deviations := make([]float64, k)
	var sum, n float64
	for l, c := range classes {
		deviations[l] = mad(c, f.df(), len(r.x))
		if !(deviations[l] > 0) {
			return nil
		}
		sum += float64(len(c)) * math.Log(deviations[l])
		n += float64(len(c))
	}
	chi := 0.0
	for l, c := range classes {
		d := math.Log(deviations[l]) - sum/n
		chi += float64(len(c)) * d * d / 1.36
	}
	if p, _ := stats.ChiSquareTail(chi, float64(k-1)); p >= classAlpha {
		return nil
	}
	return deviations
}

// mad is the median magnitude of values as a normal deviation, for residuals of
// n values with df degrees of freedom.
func mad(values []float64, df, n int) float64 {
	v := make([]float64, len(values))
	for i := range v {
		v[i] = math.Abs(values[i])
	}
	slices.Sort(v)
	return madNormal * stats.Quantile(v, 0.5) * math.Sqrt(float64(n)/float64(max(df, 1)))
}
