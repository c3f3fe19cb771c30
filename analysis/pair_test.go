package analysis

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func figure(t *testing.T, s string) Figure {
	t.Helper()
	f, err := ParseFigure(s)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// The published pairs are an honest NVFP4 record (error uncorrelated with the
// source), and the same with its error printed in the usual wrong ways.
func TestCheckPair(t *testing.T) {
	for _, c := range []struct {
		rel, cos string
		want     PairVerdict
		hint     bool
	}{
		{"0.0951", "0.99549", PairConsistent, false},
		{"0.09513", "0.995465", PairConsistent, false},
		{"0.1", "0.995", PairConsistent, false},
		{"0.00905", "0.99549", PairImpossible, true},   // rel2 printed as rel_l2
		{"9.51", "0.99549", PairNormChange, true},      // percent
		{"0.905", "0.99549", PairNormChange, true},     // rel2 in percent
		{"0.05", "0.99549", PairImpossible, false},     // below sin: no q exists
		{"0.3", "0.99549", PairNormChange, false},      // a scale is off by a third
		{"0", "1", PairConsistent, false},              // lossless
		{"0.01", "1.0", PairConsistent, false},         // "1.0" leaves 0.95 open
		{"0.01", "1.000000000", PairNormChange, false}, // ten digits do not
		{"1e-3", "0.9999995", PairConsistent, false},   // exponents count digits too
		{"1.414", "0.0000001", PairConsistent, false},  // uncorrelated output
		{"0.0000", "0.99999", PairImpossible, true},    // as rel2, 0.00002 prints so
	} {
		p, err := CheckPair(figure(t, c.rel), figure(t, c.cos))
		if err != nil {
			t.Fatalf("%s %s: %v", c.rel, c.cos, err)
		}
		if p.Verdict != c.want || (p.Hint != "") != c.hint {
			t.Errorf("rel %s cos %s: %s (hint %q), want %s (hint %v)", c.rel, c.cos, p.Verdict, p.Hint, c.want, c.hint)
		}
	}
}

func TestCheckPairRefuses(t *testing.T) {
	for _, c := range [][2]string{{"-0.1", "0.9"}, {"0.1", "1.5"}, {"0.1", "0"}, {"0.1", "-0.9"}} {
		if _, err := CheckPair(figure(t, c[0]), figure(t, c[1])); err == nil {
			t.Errorf("rel %s cos %s is accepted", c[0], c[1])
		}
	}
	for _, s := range []string{"", "x", "NaN", "inf", "1e999"} {
		if _, err := ParseFigure(s); err == nil {
			t.Errorf("%q is accepted", s)
		}
	}
}

// Any two vectors give a pair that is never called impossible, and the norm
// ratio that the pair implies is the true one or its mirror image around cos.
func TestPairOfVectors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 16).Draw(t, "n")
		w := rapid.SliceOfN(rapid.Float64Range(-1, 1), n, n).Draw(t, "w")
		e := rapid.SliceOfN(rapid.Float64Range(-0.1, 0.1), n, n).Draw(t, "e")
		var ww, qq, wq, ee float64
		for i := range w {
			q := w[i] + e[i]
			ww, qq, wq, ee = ww+w[i]*w[i], qq+q*q, wq+w[i]*q, ee+e[i]*e[i]
		}
		cos := wq / math.Sqrt(ww*qq)
		if ww < 1e-3 || qq < 1e-6 || cos <= 0.01 {
			return
		}
		rel := math.Sqrt(ee / ww)
		exact := func(v float64) Figure { return Figure{v, v - 1e-9, v + 1e-9} }
		p, err := CheckPair(exact(rel), exact(min(cos, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if p.Verdict == PairImpossible {
			t.Fatalf("rel %v cos %v of real vectors is called impossible", rel, cos)
		}
		if p.NormRatio != nil {
			r, mirror := math.Sqrt(qq/ww), 2*cos-math.Sqrt(qq/ww)
			if math.Abs(*p.NormRatio-r) > 1e-3 && math.Abs(*p.NormRatio-mirror) > 1e-3 {
				t.Fatalf("norm ratio %v, true %v", *p.NormRatio, r)
			}
		}
	})
}
