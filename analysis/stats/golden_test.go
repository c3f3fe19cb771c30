package stats

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"
)

// golden is testdata/stats.json, see the README beside it.
type golden struct {
	Wilcoxon []struct {
		X, Y        string
		N, Zeros    int
		ZeroMethod  string `json:"zero_method"`
		Correction  bool
		Alternative string
		Statistic   float64
		Z, P        float64
	}
	Anova []struct {
		Values, Group string
		Groups, N     int
		F, P          float64
		Log10P        float64 `json:"log10_p"`
		KruskalH      float64 `json:"kruskal_H"`
		KruskalP      float64 `json:"kruskal_p"`
	}
	Spearman []struct {
		A, B        string
		N           int
		Rho, P      float64
		Pearson     float64
		PearsonP    float64  `json:"pearson_p"`
		KendallTauB *float64 `json:"kendall_tau_b"`
	}
	Bootstrap []struct {
		X, Y, Indices  string
		Level          float64
		MeanDifference float64 `json:"mean_difference"`
		Low, High      float64
		StandardError  float64 `json:"standard_error"`
		AboveZero      float64 `json:"fraction_above_zero"`
	}
	Percentiles []struct {
		A         string
		N         int
		Q, Linear []float64
		Mean      float64
		Std0      *float64 `json:"std_ddof0"`
		Std1      *float64 `json:"std_ddof1"`
		Skew      *float64
		Kurtosis  *float64 `json:"excess_kurtosis"`
	}
	KS []struct {
		A, B        string
		D, Location float64
		PAsymptotic float64  `json:"p_asymptotic"`
		PExact      *float64 `json:"p_exact"`
		Wasserstein float64
	}
	Binomial []struct {
		K, N           int
		P              float64    `json:"p_two_sided_vs_0_9"`
		Wilson         [2]float64 `json:"wilson95"`
		ClopperPearson [2]float64 `json:"clopper_pearson95"`
	}
	FDR []struct {
		P      string
		BH, BY []float64
	}

	arrays map[string][]float64
}

func load(t testing.TB) *golden {
	t.Helper()
	var g golden
	text, err := os.ReadFile("testdata/stats.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &g); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile("testdata/stats_arrays.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	head := 8 + binary.LittleEndian.Uint64(raw)
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(raw[8:head], &entries); err != nil {
		t.Fatal(err)
	}
	g.arrays = map[string][]float64{}
	for name, text := range entries {
		var e struct {
			DType   string
			Offsets [2]int `json:"data_offsets"`
		}
		if name == "__metadata__" {
			continue
		}
		if err := json.Unmarshal(text, &e); err != nil {
			t.Fatal(err)
		}
		v, err := numbers(e.DType, raw[head:][e.Offsets[0]:e.Offsets[1]])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		g.arrays[name] = v
	}
	return &g
}

func numbers(dtype string, raw []byte) ([]float64, error) {
	var out []float64
	switch dtype {
	case "F64":
		for ; len(raw) > 0; raw = raw[8:] {
			out = append(out, math.Float64frombits(binary.LittleEndian.Uint64(raw)))
		}
	case "I32":
		for ; len(raw) > 0; raw = raw[4:] {
			out = append(out, float64(int32(binary.LittleEndian.Uint32(raw))))
		}
	case "I16":
		for ; len(raw) > 0; raw = raw[2:] {
			out = append(out, float64(int16(binary.LittleEndian.Uint16(raw))))
		}
	default:
		return nil, fmt.Errorf("dtype %s", dtype)
	}
	return out, nil
}

func (g *golden) array(t testing.TB, name string) []float64 {
	v, ok := g.arrays[name]
	if !ok {
		t.Fatalf("no array %q", name)
	}
	return v
}

func (g *golden) ints(t testing.TB, name string) []int {
	var out []int
	for _, v := range g.array(t, name) {
		out = append(out, int(v))
	}
	return out
}

func near(got, want, relative float64) bool {
	return got == want || math.Abs(got-want) <= relative*math.Abs(want)
}

// figure is a value of a result, what it should be, and how near.
type figure struct {
	name      string
	got, want float64
	relative  float64
}

// Tolerances of the golden README.
const (
	ofStatistics = 1e-12
	ofP          = 1e-8
	ofLog10P     = 1e-6
)

func check(t *testing.T, entry string, figures ...figure) {
	t.Helper()
	for _, f := range figures {
		if !near(f.got, f.want, f.relative) {
			t.Errorf("%s: %s is %v, want %v (off by %.2g)", entry, f.name, f.got, f.want, math.Abs(f.got/f.want-1))
		}
	}
}

func TestVarianceEqualsScipy(t *testing.T) {
	g := load(t)
	if len(g.Anova) != 3 {
		t.Fatalf("%d entries, want 3", len(g.Anova))
	}
	for _, e := range g.Anova {
		values, group := g.array(t, e.Values), g.ints(t, e.Group)
		a := OneWay(values, group)
		if a.Why != "" || a.Groups != e.Groups || a.N != e.N || a.DFBetween != e.Groups-1 || a.DFWithin != e.N-e.Groups {
			t.Errorf("%s: %+v", e.Values, a)
		}
		k := KruskalWallis(values, group)
		// scipy takes the squares within groups as a difference of two sums, which
		// costs it one unit in the last place of the larger one.
		lost := 0x1p-52 * (a.SSBetween + a.SSWithin) / a.SSWithin
		check(t, e.Values,
			figure{"F", a.F, e.F, max(ofStatistics, lost)}, figure{"p", a.P, e.P, ofP}, figure{"log10 p", a.LogP / math.Ln10, e.Log10P, ofLog10P},
			figure{"H", k.Statistic, e.KruskalH, ofStatistics}, figure{"p of H", k.P, e.KruskalP, ofP}, figure{"log p of H", k.LogP, math.Log(e.KruskalP), ofP})
	}
}

// TestVarianceKeepsDigits compares the entry on which scipy loses digits with the
// value of 60 digits of mpmath.
func TestVarianceKeepsDigits(t *testing.T) {
	g := load(t)
	a := OneWay(g.array(t, "anova_huge_values"), g.ints(t, "anova_huge_group"))
	check(t, "anova_huge", figure{"F", a.F, 3234126.5479043585583454932, 1e-13})
}

func TestCorrelationEqualsScipy(t *testing.T) {
	g := load(t)
	if len(g.Spearman) != 3 {
		t.Fatalf("%d entries, want 3", len(g.Spearman))
	}
	for _, e := range g.Spearman {
		a, b := g.array(t, e.A), g.array(t, e.B)
		s, p := Spearman(a, b), Pearson(a, b)
		if s.N != e.N || p.N != e.N {
			t.Errorf("%s: %+v %+v", e.A, s, p)
		}
		check(t, e.A,
			figure{"rho", s.R, e.Rho, ofStatistics}, figure{"p", s.P, e.P, ofP}, figure{"log p", s.LogP, math.Log(e.P), ofP},
			figure{"r", p.R, e.Pearson, ofStatistics}, figure{"p of r", p.P, e.PearsonP, ofP}, figure{"log p of r", p.LogP, math.Log(e.PearsonP), ofP})
		if e.KendallTauB != nil {
			check(t, e.A, figure{"tau", KendallTauB(a, b).R, *e.KendallTauB, ofStatistics})
		}
	}
}

func TestBootstrapEqualsNumpy(t *testing.T) {
	g := load(t)
	if len(g.Bootstrap) != 3 {
		t.Fatalf("%d entries, want 3", len(g.Bootstrap))
	}
	for _, e := range g.Bootstrap {
		x, y, all := g.array(t, e.X), g.array(t, e.Y), g.ints(t, e.Indices)
		var rows [][]int
		for ; len(all) > 0; all = all[len(x):] {
			rows = append(rows, all[:len(x)])
		}
		b := BootstrapPaired(x, y, rows, e.Level)
		if b.Resamples != 1000 {
			t.Errorf("%d resamples, want 1000", b.Resamples)
		}
		check(t, e.X, figure{"mean", b.Estimate, e.MeanDifference, ofStatistics}, figure{"low", b.Low, e.Low, ofStatistics},
			figure{"high", b.High, e.High, ofStatistics}, figure{"standard error", b.StandardError, e.StandardError, ofStatistics},
			figure{"share above 0", b.AboveZero, e.AboveZero, ofStatistics})
	}
}

func TestMomentsEqualScipy(t *testing.T) {
	g := load(t)
	if len(g.Percentiles) != 5 {
		t.Fatalf("%d entries, want 5", len(g.Percentiles))
	}
	for _, e := range g.Percentiles {
		mean, variance, skewness, kurtosis := Moments(g.array(t, e.A))
		check(t, e.A, figure{"mean", mean, e.Mean, ofStatistics})
		for _, f := range []struct {
			name string
			got  float64
			want *float64
		}{{"deviation", math.Sqrt(variance), e.Std1}, {"skewness", skewness, e.Skew}, {"kurtosis", kurtosis, e.Kurtosis}} {
			if f.want != nil {
				check(t, e.A, figure{f.name, f.got, *f.want, ofStatistics})
			}
		}
		if e.N > 1 {
			check(t, e.A, figure{"deviation of the population", math.Sqrt(variance * float64(e.N-1) / float64(e.N)), *e.Std0, ofStatistics})
		}
	}
}

func TestDistancesEqualScipy(t *testing.T) {
	g := load(t)
	if len(g.KS) != 3 {
		t.Fatalf("%d entries, want 3", len(g.KS))
	}
	for _, e := range g.KS {
		a, b := g.array(t, e.A), g.array(t, e.B)
		k := KS2(a, b)
		check(t, e.A, figure{"D", k.D, e.D, ofStatistics}, figure{"location", k.Location, e.Location, ofStatistics},
			figure{"p", k.P, e.PAsymptotic, ofP}, figure{"distance", Wasserstein1(a, b), e.Wasserstein, ofStatistics})
		if e.PExact != nil {
			check(t, e.A, figure{"exact p", k.PExact, *e.PExact, ofP})
		}
	}
}

func TestBinomialEqualsScipy(t *testing.T) {
	g := load(t)
	if len(g.Binomial) != 5 {
		t.Fatalf("%d entries, want 5", len(g.Binomial))
	}
	for _, e := range g.Binomial {
		wl, wh := Wilson(e.K, e.N, 0.95)
		cl, ch := ClopperPearson(e.K, e.N, 0.95)
		check(t, fmt.Sprint(e.K, " of ", e.N), figure{"p", BinomTest(e.K, e.N, 0.9), e.P, ofP},
			figure{"Wilson low", wl, e.Wilson[0], ofStatistics}, figure{"Wilson high", wh, e.Wilson[1], ofStatistics},
			figure{"exact low", cl, e.ClopperPearson[0], ofStatistics}, figure{"exact high", ch, e.ClopperPearson[1], ofStatistics})
	}
}

func TestAdjustedEqualsScipy(t *testing.T) {
	g := load(t)
	if len(g.FDR) != 1 {
		t.Fatalf("%d entries, want 1", len(g.FDR))
	}
	e := g.FDR[0]
	p := g.array(t, e.P)
	bh, by := BH(p), BY(p)
	for i := range p {
		check(t, fmt.Sprint("p ", i), figure{"BH", bh[i], e.BH[i], ofP}, figure{"BY", by[i], e.BY[i], ofP})
	}
}
