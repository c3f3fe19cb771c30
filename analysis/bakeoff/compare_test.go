package bakeoff

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"quantscope/analysis/landscape"
)

// baked compares arm 1 with arm 0 of a table over a sample.
func baked(t *testing.T, tab *landscape.Table, sample, metric string) *Lever {
	t.Helper()
	m, err := MetricByName(metric)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Compare(tab, 0, []int{1}, drawn(t, tab, sample, 3), m)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := json.Marshal(r); err != nil || strings.Contains(string(text), "NaN") {
		t.Errorf("%v: %s", err, text)
	}
	return &r.Levers[0]
}

// TestCompareCounts: a lever that is a tenth better on nine of ten tensors and
// twice as bad on the tenth.
func TestCompareCounts(t *testing.T) {
	base := func(i int) float64 { return 0.009 + 0.00001*float64(i) }
	tab := table(4, 10, 2, func(a, i int) landscape.Sample {
		s := plain(base(i))
		switch {
		case a == 0:
		case i%10 == 9:
			s = plain(2 * base(i))
		case i%10 == 8:
		default:
			s = plain(0.9 * base(i))
		}
		if a == 1 {
			s.Deep, s.DeepL2 = 3, 0.25
		}
		return s
	})
	for i := range tab.Items {
		tab.Arms[1].Bytes[i] = 90
	}
	l := baked(t, tab, "random=all,layer=1=all,worst=5", "rel2")
	if len(l.Outcomes) != 4 || l.SameAsBase || l.Bytes != 120*90 || l.BaseBytes != 120*100 {
		t.Fatalf("%+v", l)
	}
	o := l.Whole()
	if o.Stratum != WholeSample || o.N != 120 || o.Wins != 96 || o.Ties != 12 || o.Losses != 12 {
		t.Errorf("%+v", o)
	}
	var a, b float64
	for i := range tab.Items {
		a += tab.Arms[0].Samples[i].Rel2
		b += tab.Arms[1].Samples[i].Rel2
	}
	if c := o.MeanChange; math.Abs(c.V-(b/a-1)) > 1e-12 || !(c.Low < c.V && c.V < c.High) || c.Low < -0.1 || c.High > 0.3 {
		t.Errorf("mean %+v, want %v", c, b/a-1)
	}
	if c := o.MedianChange; math.Abs(c.V+0.1) > 1e-12 || math.Abs(c.Low+0.1) > 1e-12 || math.Abs(c.High+0.1) > 1e-12 {
		t.Errorf("median %+v", c)
	}
	if math.Abs(o.WorstChange.V-1) > 1e-12 || !strings.HasPrefix(o.WorstTensor, "layers.") {
		t.Errorf("worst %v on %s", o.WorstChange, o.WorstTensor)
	}
	if o.Test.Zeros != 12 || o.Test.N != 108 || o.Test.Method != normalMethod || o.Test.P.V > 1e-6 || o.Test.Plus >= o.Test.Minus {
		t.Errorf("%+v", o.Test)
	}
	if c := o.Clipping; c.Deep.V != 0.3 || c.Shallow.V != 0.4 || c.DeepL2.V != 0.25 || o.BaseClipping.Deep.V != 0 {
		t.Errorf("clipping %+v", c)
	}
	for _, want := range []string{"v1 has a lower rel2 than v0 on 96 of 120 tensors (12 worse, 12 equal)", "at worst +100.00 %", "deep-clipped blocks 0.00 → 30.00 %", "bytes -10.00 %", "drawn at random, which stand for all, 96 of 120"} {
		if !strings.Contains(l.Verdict, want) {
			t.Errorf("%q lacks %q", l.Verdict, want)
		}
	}
	// The mean hardly changes, the ranks say better.
	if !strings.HasSuffix(l.Verdict, "better on most tensors, not in the mean") {
		t.Error(l.Verdict)
	}
}

func TestFellBack(t *testing.T) {
	tab := table(3, 4, 2, func(_, i int) landscape.Sample { return plain(0.01 + float64(i)/1000) })
	l := baked(t, tab, "random=20", "rel2")
	if !l.SameAsBase || !strings.HasPrefix(l.Verdict, "FELL BACK? v1 equals v0 exactly on all 20 tensors") || l.Whole().Ties != 20 || l.Whole().Test.P.Defined() {
		t.Errorf("%+v", l)
	}
	// Equal errors by other scales are no fallback, nor is a tie on all but one.
	tab.Arms[1].Samples[5].ScaleHigh++
	if l := baked(t, tab, "random=all", "rel2"); l.SameAsBase {
		t.Error(l.Verdict)
	}
	if l := baked(t, tab, "layer=2=all", "rel2"); !l.SameAsBase {
		t.Error(l.Verdict)
	}
}

func TestConclusions(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for name, c := range map[string]struct {
		lever func(base float64) float64
		ends  string
	}{
		"better":  {func(b float64) float64 { return b * (0.9 + 0.01*r.Float64()) }, "; better"},
		"worse":   {func(b float64) float64 { return b * (1.1 + 0.01*r.Float64()) }, "; worse"},
		"neither": {func(b float64) float64 { return b * (1 + 0.01*r.NormFloat64()) }, "; no difference that could not be chance"},
		"mixed": {func(b float64) float64 {
			if r.IntN(12) == 0 {
				return 4 * b
			}
			return 0.95 * b
		}, "; worse in the mean, better on most tensors"},
	} {
		tab := table(10, 10, 2, func(a, i int) landscape.Sample {
			if b := 0.01 + 0.00001*float64(i); a == 0 {
				return plain(b)
			} else {
				return plain(c.lever(b))
			}
		})
		if l := baked(t, tab, "random=all", "rel2"); !strings.HasSuffix(l.Verdict, c.ends) {
			t.Errorf("%s: %s", name, l.Verdict)
		}
		if l := baked(t, tab, "random=all", "cos"); !strings.HasSuffix(l.Verdict, c.ends) {
			t.Errorf("%s by cosine: %s", name, l.Verdict)
		}
	}
}

// TestDegenerate: what cannot be compared is counted, and figures that do not
// exist say why.
func TestDegenerate(t *testing.T) {
	tab := table(2, 4, 2, func(a, i int) landscape.Sample {
		switch {
		case a == 1 && i == 3:
			return landscape.Sample{State: landscape.Failed}
		case a == 1 && i == 4:
			return landscape.Sample{}
		case a == 1 && i == 5:
			return plain(math.NaN())
		}
		return plain(0.01 + 0.001*float64(a))
	})
	o := baked(t, tab, "random=all", "rel2").Whole()
	if o.Tensors != 24 || o.N != 21 || o.Failed != 1 || o.Pending != 1 || o.LeftOut != 1 || o.Losses != 21 {
		t.Errorf("%+v", o)
	}
	tab.Arms[1].Samples = make([]landscape.Sample, len(tab.Items))
	l := baked(t, tab, "random=all", "rel2")
	o = l.Whole()
	if o.N != 0 || o.Pending != 24 || l.SameAsBase || l.Verdict != "v1: none of 24 tensors can be compared" {
		t.Errorf("%+v", l)
	}
	for _, v := range []landscape.Value{o.Mean, o.BaseMean, o.MeanChange, o.MedianChange, o.WorstChange, o.Test.P, o.Test.Log10P, o.Clipping.Deep, o.Clipping.DeepL2} {
		if v.Defined() || v.Why == "" || !math.IsNaN(v.V) {
			t.Errorf("%+v", v)
		}
	}
	// Two pairs: a change, no interval.
	tab = table(1, 1, 2, func(a, i int) landscape.Sample { return plain(0.01 - 0.001*float64(a)) })
	o = baked(t, tab, "random=2", "rel2").Whole()
	if o.N != 2 || o.MeanChange.HasInterval() || o.MedianChange.HasInterval() || math.Abs(o.MeanChange.V+0.1) > 1e-12 {
		t.Errorf("%+v", o)
	}
	if !strings.HasSuffix(baked(t, tab, "random=2", "rel2").Verdict, "; too few tensors to say more") || o.Test.P.Defined() || o.Test.P.Why != "only 2 of the differences not 0" || o.Test.Method != exactMethod {
		t.Errorf("%+v", o.Test)
	}
	// No variance: differences that are all 0, and changes that are all the same.
	tab = table(2, 2, 2, func(a, i int) landscape.Sample { return plain(0.01) })
	tab.Arms[1].Samples[0].ScaleLow = 1
	if l := baked(t, tab, "random=all", "rel2"); l.Whole().MeanChange.HasInterval() || l.Whole().MeanChange.V != 0 || l.Whole().Test.P.Defined() || !strings.HasSuffix(l.Verdict, "; no difference at all") {
		t.Errorf("%+v", l)
	}
	tab = table(2, 2, 2, func(a, i int) landscape.Sample { return plain(0.01 * float64(1+a)) })
	if l := baked(t, tab, "random=all", "rel2"); l.Whole().MeanChange.HasInterval() || !strings.HasSuffix(l.Verdict, "; worse") {
		t.Errorf("%+v", l)
	}
	// A base that loses nothing: relative changes do not exist.
	tab = table(2, 2, 2, func(a, i int) landscape.Sample { return plain(0.01 * float64(a)) })
	if l := baked(t, tab, "random=all", "rel2"); !strings.HasSuffix(l.Verdict, "no change can be given: the base's mean is 0") {
		t.Error(l.Verdict)
	}
	o = baked(t, tab, "random=all", "rel2").Whole()
	if o.Losses != 12 || o.MeanChange.Defined() || o.MedianChange.Defined() || o.WorstChange.Defined() || o.WorstTensor == "" || !strings.Contains(o.WorstChange.Why, "for 12 of 12") {
		t.Errorf("%+v", o)
	}
	// Blocks there are none of.
	for i := range tab.Items {
		tab.Arms[0].Samples[i].Blocks, tab.Arms[0].Samples[i].W2 = 0, 0
	}
	if c := baked(t, tab, "random=all", "deep").Whole(); c.N != 0 || c.LeftOut != 12 || c.BaseClipping.Deep.Defined() {
		t.Errorf("%+v", c)
	}
}

func TestNotes(t *testing.T) {
	tab := noisy()
	for sample, want := range map[string][]string{
		"random=5":             {},
		"worst=5,random=5":     {"regression to the mean", "only random stands for all"},
		"worst=all,random=all": {"only random stands for all"},
		"layer=1=3":            {"nothing was drawn at random"},
	} {
		got := notes(drawn(t, tab, sample, 1))
		for i, w := range want {
			if len(got) != len(want) || !strings.Contains(got[i], w) {
				t.Errorf("%s: %q", sample, got)
				break
			}
		}
	}
}

func TestCompareRefuses(t *testing.T) {
	tab := noisy()
	m, _ := MetricByName("rel2")
	for _, arms := range [][2]int{{0, 1}, {0, -1}, {5, 0}} {
		if _, err := Compare(tab, arms[0], []int{arms[1]}, drawn(t, tab, "random=3", 1), m); err == nil {
			t.Errorf("arms %v", arms)
		}
	}
	if _, err := MetricByName("kl"); err == nil || !strings.Contains(err.Error(), `"kl" is not known (known: rel2, rel_l2, cos, deep, deep_l2)`) {
		t.Error(err)
	}
}

func TestChange(t *testing.T) {
	rel, _ := MetricByName("rel2")
	cos, _ := MetricByName("cos")
	for _, c := range []struct {
		m    Metric
		v    landscape.Value
		want string
	}{
		{rel, landscape.Value{V: -0.2425, Low: -0.25, High: -0.24}, "-24.25 % [-25.00, -24.00]"},
		{rel, landscape.Exact(0.1), "+10.00 %"},
		{cos, landscape.Exact(0.00012), "+0.000120"},
		{cos, landscape.Undefined("no pair"), "–"},
	} {
		if got := Change(c.m, c.v); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// A step up from exactly 0 is worse than any that has a size.
func TestWorstIsFromZero(t *testing.T) {
	tab := table(1, 2, 2, func(a, i int) landscape.Sample {
		switch {
		case i == 4 && a == 0:
			return plain(0)
		case a == 0:
			return plain(0.01)
		}
		return plain(0.05)
	})
	o := baked(t, tab, "random=all", "rel2").Whole()
	if o.WorstTensor != tab.Items[4].Name || o.WorstChange.Why != "the base's value is 0 and the lever's is not, for 1 of 6" {
		t.Errorf("%s: %+v", o.WorstTensor, o.WorstChange)
	}
}
