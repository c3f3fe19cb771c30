package kernels

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Softplus and sigmoid against formulas that do not cancel, over all of f32's
// exponents, and at what is not finite.
func TestSoftplusAndSigmoid(t *testing.T) {
	for b := uint32(0); b < 0x7f800000; b += 99991 {
		for _, sign := range []uint32{0, 1 << 31} {
			x := math.Float32frombits(b | sign)
			e := math.Exp(-math.Abs(float64(x)))
			soft, sig := max(float64(x), 0)+math.Log1p(e), 1/(1+e)
			if x < 0 {
				sig = e / (1 + e)
			}
			if soft > 1e-37 && inUlps(Softplus(x), soft) > 0.51 || sig > 1e-37 && inUlps(Sigmoid(x), sig) > 0.51 {
				t.Fatalf("%v: softplus %v, want %v; sigmoid %v, want %v", x, Softplus(x), soft, Sigmoid(x), sig)
			}
		}
	}
	inf := float32(math.Inf(1))
	if Softplus(inf) != inf || Softplus(-inf) != 0 || Sigmoid(inf) != 1 || Sigmoid(-inf) != 0 || Softplus(0) != math.Ln2 || Sigmoid(0) != 0.5 {
		t.Error("softplus or sigmoid of an infinity or 0")
	}
	if nan := float32(math.NaN()); Softplus(nan) == Softplus(nan) || Sigmoid(nan) == Sigmoid(nan) {
		t.Error("softplus or sigmoid of NaN")
	}
}

func TestDeltaGates(t *testing.T) {
	a, b := []float32{1, -2, 30, 0.5}, []float32{0, 2, -2, 100}
	DeltaGates(a, b, []float32{0, 1}, []float32{0.5, -1})
	for i, want := range []float64{-1.7014132779827524, -0.13207411487585402, -30.5, -1.2886748513874502} { // −e^A·ln(1+e^(a+bias))
		if math.Abs(float64(a[i])-want) > 1e-6*math.Abs(want)+1e-7 {
			t.Errorf("decay %d is %v, want %v", i, a[i], want)
		}
	}
	if want := []float32{0.5, 0.88079708, 0.11920292, 1}; !slices.Equal(b, want) {
		t.Errorf("β is %v, want %v", b, want)
	}
	DeltaGates(a, b, nil, nil) // no head, nothing to do
}

// Norms of rows against f64; every set gives the same bits, and what is no whole
// row stays.
func TestDeltaNorms(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 3))
	for _, dim := range []int{1, 5, 16, 33, 128} {
		rows := randomRows(rng, 7*dim+dim/2, 2, 0)
		w := randomRows(rng, dim, 1, 0)[0]
		var first [2][]float32
		for _, s := range Available() {
			unit := slices.Clone(rows[0])
			s.L2Norm(unit, dim, 1e-6, 0.25)
			x, gate := slices.Clone(rows[0]), slices.Clone(rows[1])
			s.GatedNorm(gate, x, w, 1e-6)
			if first[0] == nil {
				first = [2][]float32{unit, gate}
			}
			sameAs(t, s.Name, unit, first[0])
			sameAs(t, s.Name, gate, first[1])
		}
		for i := range rows[0] {
			at := i / dim * dim
			if at+dim > len(rows[0]) {
				if first[0][i] != rows[0][i] || first[1][i] != rows[1][i] {
					t.Fatalf("value %d, behind the last row, has changed", i)
				}
				continue
			}
			sum := 0.0
			for _, v := range rows[0][at : at+dim] {
				sum += float64(v) * float64(v)
			}
			x, z := float64(rows[0][i]), float64(rows[1][i])
			unit := x * 0.25 / math.Sqrt(sum+1e-6)
			gated := x / math.Sqrt(sum/float64(dim)+1e-6) * float64(w[i-at]) * z / (1 + math.Exp(-z))
			if math.Abs(float64(first[0][i])-unit) > 2e-7*math.Abs(unit) || math.Abs(float64(first[1][i])-gated) > 8e-7*math.Abs(gated) {
				t.Fatalf("dim %d value %d: %v and %v, want %v and %v", dim, i, first[0][i], first[1][i], unit, gated)
			}
		}
	}
}
