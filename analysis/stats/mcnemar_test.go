package stats

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"testing"
)

// paired is testdata/mcnemar.json, made by testdata/make/mcnemar.py.
type paired struct {
	McNemar []struct {
		B, C   int
		P, Mid float64
	}
	Shares []struct {
		Cells            [4]float64
		Level, Low, High float64
	}
	Power []struct {
		N                  int
		B, C, Alpha, Power float64
	}
	Fisher []struct {
		K, N, L, M int
		P          float64
	}
}

func loadPaired(t *testing.T) *paired {
	t.Helper()
	text, err := os.ReadFile("testdata/mcnemar.json")
	if err != nil {
		t.Fatal(err)
	}
	var p paired
	if err := json.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	if len(p.McNemar) == 0 || len(p.Shares) == 0 || len(p.Power) == 0 || len(p.Fisher) == 0 {
		t.Fatal("testdata/mcnemar.json: a table is missing")
	}
	return &p
}

func TestMcNemarEqualsScipy(t *testing.T) {
	for _, c := range loadPaired(t).McNemar {
		p, mid := McNemar(c.B, c.C)
		if math.Abs(p-c.P) > 1e-10 || math.Abs(mid-c.Mid) > 1e-10 {
			t.Errorf("McNemar(%d, %d) = %v, %v, want %v, %v", c.B, c.C, p, mid, c.P, c.Mid)
		}
		q, _ := McNemar(c.C, c.B)
		if p != q {
			t.Errorf("McNemar(%d, %d) = %v, and %v the other way round", c.B, c.C, p, q)
		}
	}
}

func TestFisherEqualsScipy(t *testing.T) {
	for _, c := range loadPaired(t).Fisher {
		if p := Fisher(c.K, c.N, c.L, c.M); math.Abs(p-c.P) > 1e-9 {
			t.Errorf("Fisher(%d, %d, %d, %d) = %v, want %v", c.K, c.N, c.L, c.M, p, c.P)
		}
	}
}

// The first case is the table of airway responses in Newcombe's paper and in
// Fagerland, Lydersen and Laake 2014: difference 0.286 with −0.026 to 0.507 either
// way round.
func TestPairedSharesEqualNewcombe(t *testing.T) {
	for _, c := range loadPaired(t).Shares {
		d, low, high := PairedShares(c.Cells[0], c.Cells[1], c.Cells[2], c.Cells[3], c.Level)
		if math.Abs(low-c.Low) > 1e-12 || math.Abs(high-c.High) > 1e-12 {
			t.Errorf("PairedShares(%v, %v) = %v to %v, want %v to %v", c.Cells, c.Level, low, high, c.Low, c.High)
		}
		if !(low <= d && d <= high && low >= -1 && high <= 1) {
			t.Errorf("PairedShares(%v) = %v outside %v to %v", c.Cells, d, low, high)
		}
		// The other way round it is its mirror.
		e, l, h := PairedShares(c.Cells[0], c.Cells[2], c.Cells[1], c.Cells[3], c.Level)
		if math.Abs(e+d) > 1e-15 || math.Abs(l+high) > 1e-12 || math.Abs(h+low) > 1e-12 {
			t.Errorf("PairedShares(%v) mirrored = %v, %v to %v", c.Cells, e, l, h)
		}
	}
	if _, low, high := PairedShares(1, 1, 7, 12, 0.95); math.Abs(low-0.026) > 5e-4 || math.Abs(high-0.507) > 5e-4 {
		t.Errorf("airways: %.4f to %.4f, published 0.026 to 0.507", low, high)
	}
}

// Half the answers an item gives, half its weight: the interval is wider.
func TestPairedSharesOfFewerItems(t *testing.T) {
	_, low, high := PairedShares(30, 2, 8, 20, 0.95)
	_, lowHalf, highHalf := PairedShares(15, 1, 4, 10, 0.95)
	if !(lowHalf < low && highHalf > high) {
		t.Errorf("of half as many %v to %v, of all %v to %v", lowHalf, highHalf, low, high)
	}
}

func TestMcNemarPowerEqualsEnumeration(t *testing.T) {
	for _, c := range loadPaired(t).Power {
		if p := McNemarPower(c.N, c.B, c.C, c.Alpha); math.Abs(p-c.Power) > 1e-10 {
			t.Errorf("McNemarPower(%d, %v, %v, %v) = %v, want %v", c.N, c.B, c.C, c.Alpha, p, c.Power)
		}
	}
}

// The number of pairs is the first that reaches the power, and no further from
// Connor's formula than the caution of the exact test explains.
func TestMcNemarPairs(t *testing.T) {
	for _, c := range []struct{ difference, differ, alpha, power float64 }{
		{0.2, 0.3, 0.05, 0.8}, {0.1, 0.2, 0.05, 0.8}, {-0.1, 0.2, 0.05, 0.8}, {0.3, 0.3, 0.05, 0.9}, {0.05, 0.1, 0.05, 0.8}, {1, 1, 0.05, 0.8}, {0.15, 0.4, 0.01, 0.8},
	} {
		n := McNemarPairs(c.difference, c.differ, c.alpha, c.power)
		d := math.Abs(c.difference)
		if p := McNemarPower(n, (c.differ+d)/2, (c.differ-d)/2, c.alpha); p < c.power {
			t.Errorf("%+v: %d pairs have power %v", c, n, p)
		}
		if p := McNemarPower(n-1, (c.differ+d)/2, (c.differ-d)/2, c.alpha); p >= c.power {
			t.Errorf("%+v: %d pairs have power %v already", c, n-1, p)
		}
		sum := quantile(1-c.alpha/2)*math.Sqrt(c.differ) + quantile(c.power)*math.Sqrt(c.differ-d*d)
		connor := sum * sum / (d * d)
		// The exact test gives away at most what a continuity correction does, 1/δ + 2 pairs or so.
		if f := float64(n); f < 0.8*connor || f > connor+2/d+4 {
			t.Errorf("%+v: %d pairs, Connor's formula %.1f", c, n, connor)
		}
	}
	for _, c := range [][4]float64{{0, 0.3, 0.05, 0.8}, {0.4, 0.3, 0.05, 0.8}, {0.1, 1.1, 0.05, 0.8}, {0.1, 0.2, 0, 0.8}, {0.1, 0.2, 0.05, 1}, {math.NaN(), 0.2, 0.05, 0.8}} {
		if n := McNemarPairs(c[0], c[1], c[2], c[3]); n != -1 {
			t.Errorf("McNemarPairs(%v) = %d, want -1", c, n)
		}
	}
	if n := McNemarPairs(1e-3, 0.2, 0.05, 0.8); math.Abs(float64(n)-1.57e6) > 0.01e6 {
		t.Errorf("a thousandth takes %d pairs, by the formula 1.57 million", n)
	}
}

// What n pairs tell, they tell: at the difference the power is there, and a little
// below it is not; a simulation agrees with both.
func TestMcNemarDetectable(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		n      int
		differ float64
	}{{6, 0}, {20, 0}, {40, 0.1}, {100, 0.2}, {250, 0.02}} {
		d := McNemarDetectable(c.n, c.differ, 0.05, 0.8)
		all := max(c.differ, d)
		if p := McNemarPower(c.n, (all+d)/2, (all-d)/2, 0.05); p < 0.8 {
			t.Errorf("%+v: at %v the power is %v", c, d, p)
		}
		e := d - 0.01
		all = max(c.differ, e)
		if p := McNemarPower(c.n, (all+e)/2, (all-e)/2, 0.05); p >= 0.8 {
			t.Errorf("%+v: at %v the power is %v already", c, e, p)
		}
		all = max(c.differ, d)
		found := 0
		const runs = 4000
		for range runs {
			var b, k int
			for range c.n {
				switch u := rng.Float64(); {
				case u < (all+d)/2:
					b++
				case u < all:
					k++
				}
			}
			if p, _ := McNemar(b, k); p <= 0.05 {
				found++
			}
		}
		// Four standard errors of 4,000 runs at 0.8 are 0.025.
		if share := float64(found) / runs; math.Abs(share-McNemarPower(c.n, (all+d)/2, (all-d)/2, 0.05)) > 0.025 {
			t.Errorf("%+v: of simulated runs %v find %v", c, share, d)
		}
	}
	if d := McNemarDetectable(5, 0, 0.05, 0.8); !math.IsNaN(d) {
		t.Errorf("five pairs tell %v, and cannot tell anything at 0.05", d)
	}
}

// Power by the approximation joins that by the sum where one takes over.
func TestMcNemarPowerJoins(t *testing.T) {
	for _, c := range [][2]float64{{0.06, 0.05}, {0.11, 0.09}, {0.02, 0.013}} {
		exact := McNemarPower(maxExactPairs, c[0], c[1], 0.05)
		about := connorPower(maxExactPairs, c[0]+c[1], c[0]-c[1], 0.05)
		if math.Abs(exact-about) > 0.03 || exact > about {
			t.Errorf("%v: %v by the sum, %v by the formula", c, exact, about)
		}
	}
	if p := McNemarPower(maxExactPairs+1, 0.5, 0.5, 0.05); p > 0.05 {
		t.Errorf("without a difference %v finds one", p)
	}
}

func TestPairedEdges(t *testing.T) {
	nan := func(name string, values ...float64) {
		t.Helper()
		for _, v := range values {
			if !math.IsNaN(v) {
				t.Errorf("%s = %v, want NaN", name, v)
			}
		}
	}
	p, mid := McNemar(0, 0)
	nan("McNemar(0, 0)", p, mid)
	p, mid = McNemar(-1, 3)
	nan("McNemar(-1, 3)", p, mid)
	for _, c := range [][5]float64{{0, 0, 0, 0, 0.95}, {-1, 2, 3, 4, 0.95}, {1, 1, 1, 1, 0}, {1, 1, 1, 1, 1}, {math.Inf(1), 1, 1, 1, 0.95}, {math.NaN(), 1, 1, 1, 0.95}} {
		d, low, high := PairedShares(c[0], c[1], c[2], c[3], c[4])
		nan("PairedShares", d, low, high)
	}
	nan("Fisher", Fisher(3, 2, 0, 1), Fisher(-1, 2, 0, 1), Fisher(0, 2, 3, 1))
	nan("McNemarPower", McNemarPower(-1, 0.1, 0.1, 0.05), McNemarPower(10, 0.6, 0.6, 0.05), McNemarPower(10, 0.1, 0.1, 1))
	nan("McNemarDetectable", McNemarDetectable(0, 0.1, 0.05, 0.8), McNemarDetectable(10, 2, 0.05, 0.8))
	if p := McNemarPower(0, 0.1, 0.1, 0.05); p != 0 {
		t.Errorf("no pairs have power %v", p)
	}
}
