package stats

import "math"

// Nested is the mean of values that come in groups, such as stretches of texts, with
// an interval that holds whether groups differ among themselves or not.
type Nested struct {
	N, Groups int
	Mean      float64
	Low, High float64 // NaN where there is nothing to tell noise by: fewer than two groups
	DF        int     // of the interval's t
	Between   float64 // mean square between groups, of single values
	Within    float64 // and within them; NaN where no group has two values
}

// nestedPool is how far below the spread within groups that between them has to be
// before values are taken for independent ones. At ½ the interval covers what it says
// at any share of variance between three groups or more: where groups differ, so small a
// spread between them is rare.
const nestedPool = 0.5

// NestedMean is the mean of the values of all groups, and its interval at a level from
// the one-way analysis of variance of them: the mean square between groups M_b has the
// variance of the mean times N whatever the variance between groups is, with as many
// degrees of freedom as groups less one; M_w, within, is below it in the mean where
// groups differ, and has many. The interval is mean ± t·√(max(M_b, M_w)/N), with t of
// groups − 1 degrees of freedom, and of those within where M_b < M_w/2. Groups without
// values are left out; a value that is not finite makes all of it NaN.
func NestedMean(groups [][]float64, level float64) Nested {
	out := Nested{Low: math.NaN(), High: math.NaN(), Between: math.NaN(), Within: math.NaN()}
	sum := 0.0
	for _, g := range groups {
		if len(g) > 0 {
			out.Groups++
			out.N += len(g)
		}
		for _, v := range g {
			sum += v
		}
	}
	out.Mean = sum / float64(out.N)
	if math.IsInf(out.Mean, 0) {
		out.Mean = math.NaN()
	}
	if math.IsNaN(out.Mean) || out.Groups < 2 || !(level > 0 && level < 1) {
		return out
	}
	between, within := 0.0, 0.0
	for _, g := range groups {
		if len(g) == 0 {
			continue
		}
		m := 0.0
		for _, v := range g {
			m += v
		}
		m /= float64(len(g))
		between += float64(len(g)) * (m - out.Mean) * (m - out.Mean)
		for _, v := range g {
			within += (v - m) * (v - m)
		}
	}
	out.DF = out.Groups - 1
	out.Between = between / float64(out.DF)
	square := out.Between
	if inside := out.N - out.Groups; inside > 0 {
		out.Within = within / float64(inside)
		square = max(square, out.Within)
		if out.Between < nestedPool*out.Within {
			out.DF = max(inside, out.DF)
		}
	}
	half := StudentQuantile((1+level)/2, float64(out.DF)) * math.Sqrt(square/float64(out.N))
	out.Low, out.High = out.Mean-half, out.Mean+half
	return out
}
