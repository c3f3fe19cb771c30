package views

import (
	"math"
	"strings"
	"testing"

	"github.com/muesli/termenv"

	"quantscope/analysis/yardstick"
)

// The text is cut to its room around the marked token, which is always whole.
func TestKLMarked(t *testing.T) {
	th, err := NewTheme("", termenv.Ascii, true)
	if err != nil {
		t.Fatal(err)
	}
	k := klPlace{before: "it was the best of", token: " times", after: ", it was the worst"}
	for w, want := range map[int]string{
		60: "                   it was the best of« times», it was the worst"[3:],
		24: "…he best of« times», it…",
		8:  "« times»",
		5:  "« t…»",
	} {
		got := k.marked(th, w)
		if n := Width(got); n > w {
			t.Errorf("%d cells in %d: %q", n, w, got)
		}
		if strings.TrimSpace(got) != strings.TrimSpace(want) {
			t.Errorf("%d: %q, want %q", w, got, want)
		}
	}
}

// A sentence says what is better and by how much, from either side.
func TestKLSentence(t *testing.T) {
	s := &yardstick.Setup{Candidates: []yardstick.Party{{Label: "nvfp4"}, {Label: "nvfp4+mse"}}}
	for _, c := range []struct {
		pair yardstick.Pair
		want string
	}{
		{yardstick.Pair{B: 1, DKL: -0.0041, Low: -0.0046, High: -0.0036, Chunks: 72, Wins: 70}, "nvfp4+mse is better than nvfp4 by 0.0041 [0.0036, 0.0046] nats a token, lower in 70 of 72 chunks."},
		{yardstick.Pair{B: 1, DKL: 0.0041, Low: 0.0036, High: 0.0046, Chunks: 72}, "nvfp4+mse is worse than nvfp4 by 0.0041 [0.0036, 0.0046] nats a token, lower in 0 of 72 chunks."},
		{yardstick.Pair{B: 1, DKL: -0.0001, Low: -0.0004, High: 0.0002, Chunks: 72, Wins: 40}, "nvfp4+mse and nvfp4 are not told apart: −0.0001 [−0.0004, +0.0002] nats a token, over 72 chunks."},
		{yardstick.Pair{B: 1, Equal: true, Chunks: 72}, "nvfp4 and nvfp4+mse are equal in every position, bit for bit, over 72 chunks."},
		{yardstick.Pair{B: 1, DKL: -0.004, Low: math.NaN(), High: math.NaN(), Chunks: 1}, "nvfp4+mse against nvfp4: −0.0040 nats a token; over 1 chunk there is no interval."},
		{yardstick.Pair{A: 5, B: 1}, ""},
	} {
		if got := klSentence(s, &c.pair); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestKLFigures(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{klMean(0.01862, 0.00031), "0.0186 ±0.0003"}, {klMean(0.01862, 0.00003), "0.01862 ±0.00003"}, {klMean(3.1e-7, 1e-8), "3.1e−07"},
		{klMean(0.02, math.NaN()), "0.0200"}, {klMean(math.NaN(), 1), "NaN"}, {klMean(12.345, 0.2), "12.35 ±0.20"}, {klMean(math.Inf(1), math.NaN()), "∞"},
		{klShort(1.914), "1.91"}, {klShort(0.1419), "0.142"}, {klShort(0.0047), "0.0047"}, {klShort(3e-7), "3e−07"}, {klShort(0), "0"}, {klShort(math.Inf(1)), "∞"},
		{klPercent(0.92), "92 %"}, {klPercent(0.9995), "99.9 %"}, {klPercent(1), "100 %"}, {klPercent(0.0004), "<0.1 %"}, {klPercent(0.031), "3.1 %"}, {klPercent(0), "0 %"},
		{klPPL(8.714), "8.71"}, {klPPL(math.NaN()), "–"}, {klPPL(math.Inf(1)), "∞"}, {klPPL(123456), "123k"},
		{klOrdinal(1), "1st"}, {klOrdinal(12), "12th"}, {klOrdinal(23), "23rd"}, {klOrdinal(111), "111th"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
