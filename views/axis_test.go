package views

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/muesli/termenv"
	"pgregory.net/rapid"
)

func TestAxisLabels(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		n      int
		whole  bool
		want   string
	}{
		{0.08225, 0.0829, 3, false, "0.0824 0.0826 0.0828"},
		{0.0825, 0.0845, 4, false, "0.0825 0.0830 0.0835 0.0840 0.0845"},
		{0, 1, 2, true, "0 1"},
		{0, 1, 4, true, "0 1"},
		{0, 7, 4, true, "0 2 4 6"},
		{-14, -11, 3, false, "−14 −13 −12 −11"},
		{-13.9, -12.8, 4, false, "−13.5 −13.0"},
		{0, 37152, 4, true, "0 10k 20k 30k"},
		{0, 2500, 3, true, "0 1000 2000"},
		{2e-7, 9e-7, 4, false, "2e−07 4e−07 6e−07 8e−07"},
		{0, 0.3, 3, false, "0 0.1 0.2 0.3"},
		{5, 5, 3, false, ""},
	} {
		values, step := roundValues(c.lo, c.hi, c.n, c.whole)
		if got := strings.Join(axisLabels(values, step), " "); got != c.want {
			t.Errorf("from %v to %v: %q, want %q", c.lo, c.hi, got, c.want)
		}
	}
}

// Labels say exactly where they stand: they are a round step apart, have the same
// digits, and no other minus than the wide one.
func TestAxisLabelsAreRound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		span := math.Pow(10, rapid.Float64Range(-9, 9).Draw(t, "decades"))
		lo := rapid.Float64Range(-20, 20).Draw(t, "lo") * span
		whole := rapid.Bool().Draw(t, "whole")
		values, step := roundValues(lo, lo+span, rapid.IntRange(1, 12).Draw(t, "n"), whole)
		labels := axisLabels(values, step)
		if !whole && len(values) < 2 {
			t.Fatalf("%d values from %v on over %v", len(values), lo, span)
		}
		mantissa := step / math.Pow(10, math.Floor(math.Log10(step)+1e-9))
		if r := math.Round(mantissa); len(values) > 0 && (math.Abs(mantissa-r) > 1e-6 || r != 1 && r != 2 && r != 5) {
			t.Fatalf("step %v", step)
		}
		digits := -1
		for i, l := range labels {
			if strings.Contains(l, "-") {
				t.Fatalf("label %q", l)
			}
			if l == "0" {
				continue
			}
			text := strings.ReplaceAll(l, "−", "-")
			unit := 1.0
			if k := strings.IndexAny(text, "kMGT"); k >= 0 {
				unit = map[byte]float64{'k': 1e3, 'M': 1e6, 'G': 1e9, 'T': 1e12}[text[k]]
				text = text[:k]
			}
			v, err := strconv.ParseFloat(text, 64)
			if err != nil || math.Abs(v*unit-values[i]) > step*1e-6 {
				t.Fatalf("%q for %v with step %v", l, values[i], step)
			}
			n := 0
			if m, rest, ok := strings.Cut(text, "."); ok && m != "" {
				n = len(regexp.MustCompile(`^\d*`).FindString(rest))
			}
			if digits >= 0 && n != digits {
				t.Fatalf("labels %q", labels)
			}
			digits = n
		}
	})
}

// A count axis has integers only, whatever its height.
func TestCountAxis(t *testing.T) {
	th := themeIn(t, "", termenv.Ascii)
	for h := 5; h < 30; h++ {
		for _, top := range []float64{1, 2, 3, 7} {
			hist := Histogram{Bins: []Series{{Values: []float64{0, top, 1}}}, Lo: 0, Hi: 3, Counts: true}
			for _, line := range strings.Split(hist.Render(th, 40, h), "\n") {
				if label, _, ok := strings.Cut(line, "│"); ok && strings.Contains(label, ".") {
					t.Errorf("%v in %d lines: label %q", top, h, label)
				}
			}
		}
	}
}

// The labels of a few rows stand where their values are, at equal distances, and
// the axis is not much longer than what it spans.
func TestEvenTicks(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		rows   int
		want   string
	}{
		{0.0012, 0.041, 8, "0=0 3=0.02 6=0.04"},
		{0, 1000, 13, "0=0 3=250 6=500 9=750 12=1000"},
		{0, 14.2, 9, "0=0 3=5 6=10 9=15"},
		{-3, 3, 8, "1=−2.5 4=0 7=2.5"},
	} {
		_, _, ticks := evenTicks(c.lo, c.hi, c.rows)
		var got []string
		for _, k := range ticks {
			got = append(got, fmt.Sprintf("%d=%s", k.at, k.label))
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%g … %g in %d rows: %s, want %s", c.lo, c.hi, c.rows, text, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		lo := rapid.Float64Range(-1e6, 1e6).Draw(t, "lo")
		length := math.Pow(10, rapid.Float64Range(-4, 7).Draw(t, "length"))
		rows := rapid.IntRange(4, 60).Draw(t, "rows")
		hi := lo + length
		from, to, ticks := evenTicks(lo, hi, rows)
		slack := 1e-6 * length
		if from > lo+slack || to < hi-slack || to-from > 1.6*length+slack {
			t.Fatalf("%g … %g in %d rows is spanned by %g … %g", lo, hi, rows, from, to)
		}
		for i := 2; i < len(ticks); i++ {
			if ticks[i].at-ticks[i-1].at != ticks[1].at-ticks[0].at {
				t.Fatalf("%g … %g in %d rows: rows of labels are %v", lo, hi, rows, ticks)
			}
		}
		if len(ticks) == 0 || ticks[len(ticks)-1].at > rows || ticks[0].at < 0 {
			t.Fatalf("%g … %g in %d rows: rows of labels are %v", lo, hi, rows, ticks)
		}
	})
}
