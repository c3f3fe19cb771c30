package stats

import (
	"math"
	"slices"
)

// KS is a Kolmogorov-Smirnov test.
type KS struct {
	D         float64 // largest distance between the two distribution functions
	Location  float64 // the smallest value at which it is reached
	P         float64 // two-sided; of two samples by the one-sample law at the size n·m/(n+m), rounded
	PExact    float64 // of two samples, exact without ties; NaN for one sample and beyond ExactKS
	N, M      int     // finite values of each sample; M is 0 for one sample
	NotFinite int     // values left out
	Why       string  // why there is no test; figures are NaN then
}

// ExactKS is the largest n·m for which KS2 also gives the exact p value.
const ExactKS = 4_000_000

// KS2 tests whether two samples come from one distribution. D and its p value
// suppose no ties; with ties p is too large.
func KS2(a, b []float64) KS {
	nan := math.NaN()
	k := KS{D: nan, Location: nan, P: nan, PExact: nan}
	x, y := sortedFinite(a), sortedFinite(b)
	k.N, k.M = len(x), len(y)
	k.NotFinite = len(a) + len(b) - k.N - k.M
	if k.N == 0 || k.M == 0 {
		k.Why = "a sample has no finite values"
		return k
	}
	// |i/n − j/m| is kept as the integer |i·m − j·n|, so that ties of it are exact.
	n, m := int64(k.N), int64(k.M)
	var far int64
	k.Location = min(x[0], y[0])
	for i, j := 0, 0; i < len(x) && j < len(y); {
		v := min(x[i], y[j])
		for i < len(x) && x[i] == v {
			i++
		}
		for j < len(y) && y[j] == v {
			j++
		}
		if d := int64(i)*m - int64(j)*n; max(d, -d) > far {
			far, k.Location = max(d, -d), v
		}
	}
	k.D = float64(far) / float64(n) / float64(m)
	k.P = kolmogorovTail(int(math.RoundToEven(float64(n)*float64(m)/float64(n+m))), k.D)
	if n <= ExactKS/m {
		k.PExact = outside(k.N, k.M, far)
	}
	return k
}

// outside is the share of the paths from (0, 0) to (n, m) that reach
// |i·m − j·n| ≥ far: the exact p value (Hodges 1957). The recursion only adds,
// so small values keep their digits.
func outside(n, m int, far int64) float64 {
	row := make([]float64, m+1)
	for i := 0; i <= n; i++ {
		for j := 0; j <= m; j++ {
			d := int64(i)*int64(m) - int64(j)*int64(n)
			switch {
			case max(d, -d) >= far:
				row[j] = 1
			case i == 0 && j == 0:
				row[j] = 0
			case i == 0:
				row[j] = row[j-1]
			case j == 0: // row[0] is as it was at i−1
			default:
				row[j] = (float64(i)*row[j] + float64(j)*row[j-1]) / float64(i+j)
			}
		}
	}
	return row[m]
}

// KSUniform tests whether p values come from the uniform distribution on [0, 1].
// P is exact up to the precision of kolmogorovTail. A value outside [0, 1] is
// no p value: there is no test then.
func KSUniform(p []float64) KS {
	nan := math.NaN()
	k := KS{D: nan, Location: nan, P: nan, PExact: nan}
	x := sortedFinite(p)
	k.N, k.NotFinite = len(x), len(p)-len(x)
	switch {
	case k.N == 0:
		k.Why = "no finite values"
		return k
	case x[0] < 0 || x[k.N-1] > 1:
		k.Why = "a value lies outside 0 to 1"
		return k
	}
	n := float64(k.N)
	k.D, k.Location = 0, x[0]
	for i, v := range x {
		if d := max(float64(i+1)/n-v, v-float64(i)/n); d > k.D {
			k.D, k.Location = d, v
		}
	}
	k.P = kolmogorovTail(k.N, k.D)
	return k
}

func sortedFinite(v []float64) []float64 {
	out := make([]float64, 0, len(v))
	for _, x := range v {
		if isFinite(x) {
			out = append(out, x)
		}
	}
	slices.Sort(out)
	return out
}

// Wasserstein1 is the area between two distribution functions: how far mass
// has to move, on average, to turn one sample into the other. It is NaN where
// a sample has no finite value.
func Wasserstein1(a, b []float64) float64 {
	x, y := sortedFinite(a), sortedFinite(b)
	if len(x) == 0 || len(y) == 0 {
		return math.NaN()
	}
	var area, at float64
	for i, j := 0, 0; i < len(x) || j < len(y); {
		v := math.Inf(1)
		if i < len(x) {
			v = x[i]
		}
		if j < len(y) {
			v = min(v, y[j])
		}
		if i+j > 0 {
			height := math.Abs(float64(i)/float64(len(x)) - float64(j)/float64(len(y)))
			area += height * (v - at)
		}
		for i < len(x) && x[i] == v {
			i++
		}
		for j < len(y) && y[j] == v {
			j++
		}
		at = v
	}
	return area
}
