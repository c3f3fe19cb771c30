package views

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"quantscope/kernels"
	"quantscope/sessions"
)

// The axis reaches the deepest block of any variant, in steps of a tenth, and
// never less than 0.3, so that it stays while a run goes on.
func TestUsedDepths(t *testing.T) {
	parts := func(deepest int) []float64 {
		v := make([]float64, len(depthParts{}))
		if deepest >= 0 {
			v[deepest] = 1
		}
		return v
	}
	for _, c := range []struct {
		a, b int // deepest parts
		n    int
		last string
	}{{-1, -1, 7, "0.30"}, {0, 4, 7, "0.30"}, {6, -1, 7, "0.30"}, {7, 2, 9, "0.40"}, {2, 10, 11, "0.50"}, {20, 0, 21, "1.00"}} {
		series, edges := usedDepths([]Series{{"a", 0, parts(c.a)}, {"b", 1, parts(c.b)}})
		if len(series[0].Values) != c.n || len(series[1].Values) != c.n || len(edges) != c.n+1 || edges[c.n] != c.last {
			t.Errorf("deepest %d and %d: %d parts with borders %q, want %d up to %s", c.a, c.b, len(series[0].Values), edges, c.n, c.last)
		}
		if !slices.Equal(edges[:4], []string{"0", "0.05", "1/16", "0.10"}) {
			t.Errorf("borders %q", edges)
		}
	}
	if lo, hi := float64(straddling)/kernels.DepthBins, float64(straddling+1)/kernels.DepthBins; !(lo < kernels.ShallowDepth && kernels.ShallowDepth < hi) {
		t.Errorf("the limit %v is not in bin %d, from %v to %v", kernels.ShallowDepth, straddling, lo, hi)
	}
}

// What is drawn before the limit is what a record counts as shallow, and what is
// drawn beyond it what it counts as deep, whatever else its bins hold.
func TestSplitDepths(t *testing.T) {
	for _, c := range []struct {
		name          string
		bins          []int64
		shallow, deep int64
		want          []int64
	}{
		{"nothing", nil, 0, 0, nil},
		{"shallow only", []int64{40, 9}, 49, 0, []int64{40, 9}},
		{"deep only in the straddling bin", []int64{0, 9}, 0, 9, []int64{0, 0, 9}},
		{"both in the straddling bin", []int64{40, 9, 5, 1}, 43, 12, []int64{40, 3, 6, 5, 1}},
		{"subnormal scales left out", []int64{40, 9, 5, 1}, 45, 0, []int64{40, 5}},
		{"subnormal scales beside deep ones", []int64{40, 4, 8, 4}, 40, 8, []int64{40, 0, 2, 4, 2}},
	} {
		var bins [kernels.DepthBins]int64
		copy(bins[:], c.bins)
		var want depthParts
		copy(want[:], c.want)
		if got := splitDepths(&bins, c.shallow, c.deep); got != want {
			t.Errorf("%s: %v, want %v", c.name, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		var bins [kernels.DepthBins]int64
		var all, shallow, deep int64
		for i := range bins { // blocks of one bin by kind
			n := rapid.SliceOfN(rapid.Int64Range(0, 1000), 3, 3).Draw(t, "blocks")
			if i <= straddling {
				shallow += n[0]
				bins[i] += n[0]
			}
			if i >= straddling {
				deep += n[1]
				bins[i] += n[1]
			}
			bins[i] += n[2]
			all += bins[i]
		}
		parts := splitDepths(&bins, shallow, deep)
		var before, beyond int64
		for i, n := range parts {
			if n < 0 {
				t.Fatalf("part %d is %d", i, n)
			}
			if i < deepFrom {
				before += n
			} else {
				beyond += n
			}
		}
		if before != shallow || beyond != deep {
			t.Fatalf("%v: %d before the limit and %d beyond, want %d and %d of %d", parts, before, beyond, shallow, deep, all)
		}
	})
}

// A variant without deep clips has no bar beyond the limit, and one without
// shallow clips none before it, in whatever order variants stand.
func TestDepthChartSides(t *testing.T) {
	s := sceneOf(t, varied())
	th := s.Theme
	chart := func(n, w, h int, sum clipSum) string {
		var series []Series
		for v := range n {
			series = append(series, Series{fmt.Sprint("v", v), v, percents(sum.depth[:], sum.blocks)})
		}
		return depthChart(th, series, n-1, false, w, h)
	}
	sides := func(picture string) (before, beyond int) {
		bars := func(s string) (n int) {
			for _, r := range strings.TrimLeft(strings.ReplaceAll(s, "1/16: beyond is deep", ""), " .0123456789") {
				if r != ' ' && r != '│' {
					n++
				}
			}
			return n
		}
		for _, line := range strings.Split(picture, "\n") {
			if l, r, ok := strings.Cut(line, "┊"); ok {
				before, beyond = before+bars(l), beyond+bars(r)
			}
		}
		return before, beyond
	}
	var shallow, deep clipSum
	shallow.add(&sessions.Record{Blocks: 100, Shallow: 30, SubnormalClipped: 3, Depth: [kernels.DepthBins]uint32{20, 10, 2, 1}})
	deep.add(&sessions.Record{Blocks: 100, Deep: 30, Depth: [kernels.DepthBins]uint32{0, 20, 8, 2}})
	for n := 1; n <= 5; n++ {
		for w := 40; w <= 120; w += 7 {
			if before, beyond := sides(chart(n, w, 14, shallow)); before == 0 || beyond > 0 {
				t.Errorf("%d variants at %d cells, shallow only: %d glyphs before the limit, %d beyond\n%s", n, w, before, beyond, chart(n, w, 14, shallow))
			}
			if before, beyond := sides(chart(n, w, 14, deep)); before > 0 || beyond == 0 {
				t.Errorf("%d variants at %d cells, deep only: %d glyphs before the limit, %d beyond\n%s", n, w, before, beyond, chart(n, w, 14, deep))
			}
		}
	}
	// The same on the tensor's own chart.
	s.Detail = detailOf(s)
	tap := *s.Detail.Taps[0]
	tap.Depth = [kernels.DepthBins]int64{30, 12}
	tap.Shallow, tap.Deep, tap.SubnormalClipped = 42, 0, 0
	c := clipChart([]tapOf{{&tap, &s.State.Variants[0]}})
	if before, beyond := sides(c.render(th, 0, false, 56, 12)); before == 0 || beyond > 0 {
		t.Errorf("the tensor's chart: %d glyphs before the limit, %d beyond", before, beyond)
	}
}
