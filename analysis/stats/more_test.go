package stats

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"
)

// more is testdata/more.json, made by testdata/make/more.py.
type more struct {
	FTail []struct {
		F, D1, D2 float64
		LogP      float64 `json:"log_p"`
	} `json:"f_tail"`
	ChiSquareTail []struct {
		X, DF float64
		LogP  float64 `json:"log_p"`
	} `json:"chi_square_tail"`
	StudentTail []struct {
		T, DF float64
		LogP  float64 `json:"log_p"`
	} `json:"student_tail"`
	NoncentralF []struct{ F, D1, D2, Lambda, P float64 } `json:"noncentral_f"`
	Omega       []struct {
		Values                     []float64
		Group                      []int
		F, Eta2, Omega2, Low, High float64
	} `json:"omega_interval"`
	Hypergeometric []struct {
		Hits, K, Marked, N int
		P                  float64
	}
	KSTail []struct {
		N    int
		D, P float64
	} `json:"ks_tail"`
	KSUniform []struct {
		P           []float64
		D, Location float64
		PExact      float64 `json:"p_exact"`
	} `json:"ks_uniform"`
	KSExact []struct {
		A, B []float64
		D, P float64
	} `json:"ks_exact"`
	Correlation []struct {
		A, B             []float64
		Kendall          float64
		KendallP         float64   `json:"kendall_p"`
		KendallInterval  []float64 `json:"kendall_interval"`
		Spearman         float64
		SpearmanP        float64   `json:"spearman_p"`
		SpearmanInterval []float64 `json:"spearman_interval"`
		Pearson          float64
		PearsonP         float64   `json:"pearson_p"`
		PearsonInterval  []float64 `json:"pearson_interval"`
	}
	Binomial []struct {
		K, N          int
		P0, P         float64
		Wilson, Exact [2]float64
	}
}

func loadMore(t *testing.T) *more {
	t.Helper()
	text, err := os.ReadFile("testdata/more.json")
	if err != nil {
		t.Fatal(err)
	}
	var m more
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	return &m
}

func TestTailsEqualMpmath(t *testing.T) {
	m := loadMore(t)
	if len(m.FTail) != 13 || len(m.ChiSquareTail) != 10 || len(m.StudentTail) != 7 {
		t.Fatalf("%d, %d and %d entries", len(m.FTail), len(m.ChiSquareTail), len(m.StudentTail))
	}
	// p within 1e-10 relative means its logarithm within 1e-10 absolute.
	tail := func(entry string, p, logP, want float64) {
		t.Helper()
		if math.Abs(logP-want) > 1e-10 && !near(logP, want, 1e-14) || !near(p, math.Exp(want), 1e-9) {
			t.Errorf("%s: p %v, log p %v, want %v (off by %.2g)", entry, p, logP, want, logP-want)
		}
	}
	for _, e := range m.FTail {
		p, logP := FTail(e.F, e.D1, e.D2)
		tail(fmt.Sprint("F ", e.F, e.D1, e.D2), p, logP, e.LogP)
	}
	for _, e := range m.ChiSquareTail {
		p, logP := ChiSquareTail(e.X, e.DF)
		tail(fmt.Sprint("chi square ", e.X, e.DF), p, logP, e.LogP)
	}
	for _, e := range m.StudentTail {
		p, logP := StudentTail(e.T, e.DF)
		tail(fmt.Sprint("t ", e.T, e.DF), p, logP, e.LogP)
		if left, _ := StudentTail(-e.T, e.DF); math.Abs(left+p-1) > 1e-15 {
			t.Errorf("t %v: both tails add up to %v", e.T, left+p)
		}
	}
}

// TestStudentQuantile compares with scipy.stats.t.ppf.
func TestStudentQuantile(t *testing.T) {
	for _, e := range [][3]float64{
		{0.975, 1, 12.706204736174694}, {0.975, 4, 2.7764451051977934}, {0.975, 239, 1.9699394059169584},
		{0.975, 37151, 1.9600278414269707}, {0.6, 7, 0.2631668613520229}, {0.999999, 2, 707.1057205157672},
	} {
		check(t, fmt.Sprint(e), figure{"t", StudentQuantile(e[0], e[1]), e[2], 1e-9}, figure{"mirrored", StudentQuantile(1-e[0], e[1]), -e[2], 1e-9})
	}
	if q := StudentQuantile(0.5, 3); q != 0 {
		t.Errorf("median %v", q)
	}
	for _, p := range []float64{0, 1, math.NaN()} {
		if q := StudentQuantile(p, 3); !math.IsNaN(q) {
			t.Errorf("at %v: %v", p, q)
		}
	}
}

// TestMedianInterval compares with the tables of Conover (1999): of 10 values the
// second and the ninth, of 5 none, of 100 the 40th and the 61st.
func TestMedianInterval(t *testing.T) {
	for n, want := range map[int][2]float64{10: {2, 9}, 6: {1, 6}, 25: {8, 18}, 100: {40, 61}} {
		sorted := make([]float64, n)
		for i := range sorted {
			sorted[i] = float64(i + 1)
		}
		if low, high := MedianInterval(sorted, 0.95); low != want[0] || high != want[1] {
			t.Errorf("%d values: %v to %v, want %v", n, low, high, want)
		}
	}
	for _, sorted := range [][]float64{nil, {1, 2, 3, 4, 5}} {
		if low, high := MedianInterval(sorted, 0.95); !math.IsNaN(low) || !math.IsNaN(high) {
			t.Errorf("%v: %v to %v", sorted, low, high)
		}
	}
}

func TestNoncentralFEqualsMpmath(t *testing.T) {
	for _, e := range loadMore(t).NoncentralF {
		check(t, fmt.Sprint(e.F, e.D1, e.D2, e.Lambda), figure{"p", NoncentralFCDF(e.F, e.D1, e.D2, e.Lambda), e.P, 1e-11})
	}
}

func TestEffectSizeOfVariance(t *testing.T) {
	m := loadMore(t)
	if len(m.Omega) != 5 {
		t.Fatalf("%d entries, want 5", len(m.Omega))
	}
	for i, e := range m.Omega {
		a := OneWay(e.Values, e.Group)
		check(t, fmt.Sprint("entry ", i), figure{"F", a.F, e.F, 1e-11}, figure{"eta²", a.Eta2, e.Eta2, 1e-11},
			figure{"omega²", a.Omega2, e.Omega2, 1e-10}, figure{"low", a.OmegaLow, e.Low, 1e-7}, figure{"high", a.OmegaHigh, e.High, 1e-7})
	}
}

func TestHypergeometricEqualsScipy(t *testing.T) {
	for _, e := range loadMore(t).Hypergeometric {
		check(t, fmt.Sprint(e), figure{"p", HypergeomTail(e.Hits, e.K, e.Marked, e.N), e.P, 1e-9})
	}
}

func TestKolmogorovEqualsScipy(t *testing.T) {
	m := loadMore(t)
	if len(m.KSTail) != 24 || len(m.KSUniform) != 4 || len(m.KSExact) != 5 {
		t.Fatalf("%d, %d and %d entries", len(m.KSTail), len(m.KSUniform), len(m.KSExact))
	}
	for _, e := range m.KSTail {
		check(t, fmt.Sprint(e.N, " at ", e.D), figure{"p", kolmogorovTail(e.N, e.D), e.P, ofP})
	}
	for i, e := range m.KSUniform {
		k := KSUniform(e.P)
		check(t, fmt.Sprint("uniform ", i), figure{"D", k.D, e.D, ofStatistics}, figure{"p", k.P, e.PExact, ofP}, figure{"location", k.Location, e.Location, 0})
	}
	for i, e := range m.KSExact {
		k := KS2(e.A, e.B)
		check(t, fmt.Sprint("two samples ", i), figure{"D", k.D, e.D, ofStatistics}, figure{"p", k.PExact, e.P, ofP})
	}
}

func TestIntervalsOfCorrelation(t *testing.T) {
	m := loadMore(t)
	if len(m.Correlation) != 4 {
		t.Fatalf("%d entries, want 4", len(m.Correlation))
	}
	for i, e := range m.Correlation {
		for _, c := range []struct {
			name     string
			got      Correlation
			r, p     float64
			interval []float64
		}{
			{"Kendall", KendallTauB(e.A, e.B), e.Kendall, e.KendallP, e.KendallInterval},
			{"Spearman", Spearman(e.A, e.B), e.Spearman, e.SpearmanP, e.SpearmanInterval},
			{"Pearson", Pearson(e.A, e.B), e.Pearson, e.PearsonP, e.PearsonInterval},
		} {
			entry := fmt.Sprint(i, " ", c.name)
			check(t, entry, figure{"r", c.got.R, c.r, ofStatistics}, figure{"p", c.got.P, c.p, ofP})
			if c.interval == nil {
				if !math.IsNaN(c.got.Low) || !math.IsNaN(c.got.High) {
					t.Errorf("%s: interval %v to %v of %d pairs", entry, c.got.Low, c.got.High, c.got.N)
				}
				continue
			}
			check(t, entry, figure{"low", c.got.Low, c.interval[0], 1e-10}, figure{"high", c.got.High, c.interval[1], 1e-10})
		}
	}
}

func TestMoreBinomialEqualsScipy(t *testing.T) {
	for _, e := range loadMore(t).Binomial {
		wl, wh := Wilson(e.K, e.N, 0.9)
		cl, ch := ClopperPearson(e.K, e.N, 0.9)
		check(t, fmt.Sprint(e.K, " of ", e.N), figure{"p", BinomTest(e.K, e.N, e.P0), e.P, ofP},
			figure{"Wilson low", wl, e.Wilson[0], 1e-11}, figure{"Wilson high", wh, e.Wilson[1], 1e-11},
			figure{"exact low", cl, e.Exact[0], 1e-11}, figure{"exact high", ch, e.Exact[1], 1e-11})
	}
}
