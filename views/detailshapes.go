package views

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"quantscope/kernels"
	"quantscope/sessions"
)

// shape is one histogram of a tap record.
type shape struct {
	label string
	trim  bool // empty bins at both ends are left out
	bins  func(t *kernels.Tap, v *sessions.Variant) []float64
	// axis tells variants apart whose bins mean different things; nil where all
	// mean the same.
	axis func(v *sessions.Variant) string
	// names are those of the bins, where variants of one axis have different ones.
	names func(v *sessions.Variant) []string
}

var shapes = []shape{
	{"block scale", true, func(t *kernels.Tap, _ *sessions.Variant) []float64 { return floats(t.Scales[:]) }, scaleAxis, nil},
	{"|error|", false, func(t *kernels.Tap, _ *sessions.Variant) []float64 { return floats(t.Errors[:]) }, nil, nil},
	{"codes", false, codeBins, codeAxis, nil},
	{"multipliers", false, multiplierBins, searchAxis, func(v *sessions.Variant) []string { return v.Multipliers }},
	{"clip depth", true, func(t *kernels.Tap, _ *sessions.Variant) []float64 { return floats(t.Depth[:]) }, nil, nil},
}

func floats(counts []int64) []float64 {
	out := make([]float64, len(counts))
	for i, n := range counts {
		out[i] = float64(n)
	}
	return out
}

// used is the bins from the first to the last that any series fills, with one
// more on each side.
func used(series [][]float64) (lo, hi int) {
	n := 0
	for _, bins := range series {
		n = max(n, len(bins))
	}
	lo, hi = n, 0
	for _, bins := range series {
		for i, v := range bins {
			if v > 0 {
				lo, hi = min(lo, i), max(hi, i+1)
			}
		}
	}
	return max(lo-1, 0), min(hi+1, n)
}

// multiplierBins is the use of the candidates of a scale search; where there
// is only one, there was no search.
func multiplierBins(t *kernels.Tap, v *sessions.Variant) []float64 {
	if len(v.Multipliers) < 2 {
		return nil
	}
	return floats(t.Multipliers[:min(len(v.Multipliers), len(t.Multipliers))])
}

// codeBins orders the use of codes by value. In floats an empty bin parts the
// negative values from the others.
func codeBins(t *kernels.Tap, v *sessions.Variant) []float64 {
	out := make([]float64, 0, 17)
	for i, code := range codeOrder(v) {
		if code == 0 && i > 0 {
			out = append(out, 0)
		}
		out = append(out, float64(t.Codes[code]))
	}
	return out
}

// shapes draws histograms as sparklines in at most room lines: of all variants
// where there is room, else of the chosen one. Those of one kind share their
// axis.
func (d *detailPane) shapes(variants []int, room int) []string {
	s := d.scene
	th := s.Theme
	if room < 1 || d.w < 24 {
		return nil
	}
	if s.Detail == nil || s.Detail.Tensor != s.Cursor {
		if _, ok := s.Record(s.Variant, s.Cursor); ok {
			return []string{th.Faint.Render("histograms …")}
		}
		return nil
	}
	if room < len(shapes)*len(variants) {
		variants = []int{s.Variant}
	}
	out := d.missing(variants)
	for _, sh := range shapes {
		out = append(out, d.shape(sh, variants)...)
	}
	return d.cut(out, room)
}

// missing says why histograms are not there.
func (d *detailPane) missing(variants []int) []string {
	th := d.scene.Theme
	names := shortVariants(d.scene.State.Variants)
	var out []string
	for _, v := range variants {
		if v >= 0 && v < len(d.scene.Detail.Errs) && d.scene.Detail.Errs[v] != "" {
			text := names[v] + ": " + Clean(d.scene.Detail.Errs[v])
			out = append(out, th.Dim.Render(Fit("histograms", detailLabelW))+th.Warn.Render(Truncate(text, d.w-detailLabelW)))
		}
	}
	return out
}

// shape draws one histogram of each variant that has it.
func (d *detailPane) shape(sh shape, variants []int) []string {
	s := d.scene
	th := s.Theme
	var series [][]float64
	var of []int
	label, marked := sh.label, len(variants) > 1
	if sh.axis != nil {
		known := slices.DeleteFunc(slices.Clone(variants), func(v int) bool { return v < 0 || v >= len(s.State.Variants) })
		variants, _ = alike(known, s.how, s.Variant, sh.axis)
	}
	if sh.names != nil && len(variants) > 0 {
		label = searchTitles[searchAxis(s.how(variants[0]))].short
	}
	for _, v := range variants {
		if v < 0 || v >= len(s.Detail.Taps) || v >= len(s.State.Variants) || s.Detail.Taps[v] == nil {
			continue
		}
		if bins := sh.bins(s.Detail.Taps[v], s.how(v)); !empty(bins) {
			series, of = append(series, bins), append(of, v)
		}
	}
	if len(series) == 0 {
		return nil
	}
	lead := detailLabelW
	if marked {
		lead += 2
	}
	ends := ""
	if sh.names != nil {
		var names []string
		for i, v := range of {
			names = unite(names, sh.names(s.how(v))[:len(series[i])])
		}
		for i, v := range of {
			series[i] = spreadOver(names, sh.names(s.how(v)), series[i])
		}
		ends = Clean(names[0]) + " … " + Clean(names[len(names)-1])
	}
	lo, hi := 0, len(series[0])
	if sh.trim {
		lo, hi = used(series)
	}
	n := hi - lo
	w := min(d.w-lead, n*max(min(d.w-lead, maxSparkW)/n, 1)) // whole cells a bin
	out := make([]string, len(series))
	for i, bins := range series {
		style := th.VariantStyle(of[i])
		line := th.Dim.Render(Fit(label, detailLabelW))
		if marked {
			line += style.Render(th.VariantMark(of[i])) + " "
		}
		// Full bars would touch the line above.
		spark := strings.ReplaceAll(Sparkline(bins[lo:hi], w), "█", "▇")
		out[i] = line + style.Render(spark)
		if i == 0 && ends != "" && lead+w+2+Width(ends) <= d.w {
			out[i] += th.Faint.Render("  " + ends)
		}
		label = ""
	}
	return out
}

// unite adds names that are not there yet, and sorts them by value where all
// are numbers.
func unite(names, more []string) []string {
	for _, name := range more {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	values := make(map[string]float64, len(names))
	for _, name := range names {
		v, err := strconv.ParseFloat(name, 64)
		if err != nil {
			return names
		}
		values[name] = v
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(values[a], values[b]) })
	return names
}

// spreadOver puts bins with names of their own on an axis of names.
func spreadOver(axis, names []string, bins []float64) []float64 {
	out := make([]float64, len(axis))
	for i, v := range bins {
		if at := slices.Index(axis, names[i]); at >= 0 {
			out[at] += v
		}
	}
	return out
}

// maxSparkW is how far a sparkline grows beyond one cell a bin.
const maxSparkW = 40

func empty(bins []float64) bool {
	return !slices.ContainsFunc(bins, func(v float64) bool { return v > 0 })
}

// bucket lists what else the map's cell stands for, the worst first.
func (d *detailPane) bucket(room int) []string {
	s := d.scene
	members := s.Bucket(s.Cursor)
	if len(members) < 2 || room < 2 || s.Variant < 0 || s.Variant >= len(s.State.Records) {
		return nil
	}
	values, states, metric := s.Values(s.Variant), s.States(s.Variant), &s.Metric
	slices.SortStableFunc(members, func(a, b int) int {
		x, y := rankKey(values[a], states[a], metric), rankKey(values[b], states[b], metric)
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	out := []string{s.Theme.Dim.Render(fmt.Sprintf("the cell stands for %d tensors", len(members)))}
	for i, t := range members {
		if len(out) == room && i < len(members)-1 {
			out[len(out)-1] = s.Theme.Dim.Render(fmt.Sprintf("… and %d more", len(members)-i+1))
			break
		}
		text := "not yet"
		switch {
		case states[t].HasValue():
			text = s.Metric.text(values[t])
		case states[t] == Failed:
			text = s.Theme.Bad.Render(stateWords[Failed])
		case states[t].listed():
			text = s.Theme.Warn.Render(stateWords[states[t]])
		case states[t] == Absent:
			text = "has none"
		}
		mark := "  "
		if t == s.Cursor {
			mark = s.Theme.Accent.Render("▸ ")
		}
		out = append(out, mark+Fit(ShortName(&s.State.Tensors[t]), min(24, max(d.w-14, 8)))+" "+text)
	}
	return out
}
