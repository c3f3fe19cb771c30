package views

import (
	"math"
	"strings"
)

// Sparkline draws bins as rising bars in w cells: the largest bin is a full
// bar, an empty one a blank. With more bins than cells neighbours are added up;
// with fewer, each bin takes as many whole cells as fit. Values that are not
// finite or negative count as 0.
func Sparkline(bins []float64, w int) string {
	if w <= 0 {
		return ""
	}
	bins = rebin(bins, w)
	top := 0.0
	for _, v := range bins {
		top = max(top, v)
	}
	var b strings.Builder
	wide := 1
	if len(bins) > 0 {
		wide = max(w/len(bins), 1)
	}
	used := 0
	for _, v := range bins {
		g := " "
		if v > 0 {
			g = bars[min(int(v/top*float64(len(bars))), len(bars)-1)]
		}
		b.WriteString(strings.Repeat(g, wide))
		used += wide
	}
	b.WriteString(spaces(w - used))
	return b.String()
}

// rebin adds neighbouring bins up so that at most n are left, and takes what is
// not finite or negative as 0.
func rebin(bins []float64, n int) []float64 {
	size := 1
	if len(bins) > n {
		size = (len(bins) + n - 1) / n
	}
	out := make([]float64, 0, min(len(bins), n))
	for i := 0; i < len(bins); i += size {
		sum := 0.0
		for _, v := range bins[i:min(i+size, len(bins))] {
			if isNumber(v) && v > 0 {
				sum += v
			}
		}
		out = append(out, min(sum, math.MaxFloat64))
	}
	return out
}

// progressBar is how far work is, on a track of w cells.
func progressBar(th *Theme, share float64, w int) string {
	if w <= 0 {
		return ""
	}
	if !(share > 0) {
		share = 0
	}
	n := int(min(share, 1)*float64(w) + 0.5)
	return th.Accent.Render(strings.Repeat("━", n)) + th.Faint.Render(strings.Repeat("─", w-n))
}

// isNumber holds for everything but NaN and ±Inf.
func isNumber(v float64) bool { return v-v == 0 }

var eighths = []string{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"}

// Bar is a progress bar of exactly w cells, in eighths of a cell. What is not a
// number counts as 0.
func Bar(frac float64, w int) string {
	if w <= 0 {
		return ""
	}
	if !(frac > 0) {
		frac = 0
	}
	n := int(min(frac, 1)*float64(w)*8 + 0.5)
	full := strings.Repeat("█", n/8)
	return full + eighths[n%8] + spaces(w-(n+7)/8)
}
