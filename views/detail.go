package views

import (
	"fmt"
	"slices"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/kernels"
	"quantscope/sessions"
)

// Detail pane: everything known of the tensor under the cursor, one column a
// variant, and the shapes of its histograms. In three lines or fewer it is two
// lines of text.
type detailPane struct {
	scene *Scene
	w, h  int
	drawn detailKey
	text  string
}

// detailKey is all that the drawing depends on.
type detailKey struct {
	w, h    int
	version uint64 // of the scene
	seq     int64  // of the state
	detail  *Detail
	theme   *Theme
	valid   bool
}

// NewDetail makes the pane.
func NewDetail(s *Scene) Pane { return &detailPane{scene: s} }

// Title says what the pane shows.
func (d *detailPane) Title() string {
	if t := d.tensor(); t != nil {
		return ShortName(t)
	}
	return "tensor"
}

// SetSize gives the pane its size.
func (d *detailPane) SetSize(w, h int) { d.w, d.h = max(w, 0), max(h, 0) }

// Apply takes in what is new.
func (d *detailPane) Apply(b sessions.Batch) { d.scene.note(&b) }

// HandleKey does nothing: the pane follows the cursor.
func (d *detailPane) HandleKey(tea.KeyMsg) (bool, tea.Cmd) { return false, nil }

// HandleMouse does nothing.
func (d *detailPane) HandleMouse(int, int, tea.MouseMsg) (bool, tea.Cmd) { return false, nil }

// Keys is empty: the pane follows the cursor.
func (d *detailPane) Keys() []Key { return nil }

// tensor is the one under the cursor, nil without one.
func (d *detailPane) tensor() *sessions.Tensor {
	s := d.scene
	if s.Cursor < 0 || s.Cursor >= len(s.State.Tensors) {
		return nil
	}
	return &s.State.Tensors[s.Cursor]
}

// View draws the pane, once for every change of what it shows.
func (d *detailPane) View() string {
	s := d.scene
	key := detailKey{d.w, d.h, s.Version, s.State.LastSeq, s.Detail, s.Theme, true}
	if d.drawn != key {
		d.text = Block(d.lines(), d.w, d.h)
		d.drawn = key
	}
	return d.text
}

func (d *detailPane) lines() []string {
	t := d.tensor()
	if t == nil {
		return []string{d.scene.Theme.Dim.Render("no tensor under the cursor")}
	}
	variants := d.variants()
	if d.h <= 3 {
		return d.short(t, variants)
	}
	lines := d.head(t)
	table, notes := d.table(t, variants)
	room := d.h - len(lines)
	shapes := d.shapes(variants, max(room-len(table)-len(notes)-2, 0))
	bucket := d.bucket(max(room-len(table)-len(notes)-len(shapes)-3, 0))
	add := func(part []string) {
		if len(part) == 0 {
			return
		}
		if d.h >= 14 {
			lines = append(lines, "")
		}
		lines = append(lines, part...)
	}
	add(table)
	add(notes)
	add(shapes)
	add(bucket)
	return lines
}

// head is the name, and shape and type beside it or below.
func (d *detailPane) head(t *sessions.Tensor) []string {
	th := d.scene.Theme
	name := Clean(t.Name)
	facts := fmt.Sprintf("%d×%d  %s", t.Rows, t.Cols, Clean(t.DType))
	if n := Width(name) + 2 + Width(facts); n <= d.w {
		return []string{th.Title.Render(name) + spaces(d.w-n+2) + th.Dim.Render(facts)}
	}
	return []string{th.Title.Render(TruncateMiddle(name, d.w)), th.Dim.Render(facts)}
}

// short is the pane in two lines: the tensor and the chosen variant's figures,
// then the metric under every variant.
func (d *detailPane) short(t *sessions.Tensor, variants []int) []string {
	s := d.scene
	th := s.Theme
	first := th.Title.Render(ShortName(t))
	if r, ok := s.Record(s.Variant, s.Cursor); ok && !r.Failed {
		rank, of := ranks(s, s.Variant, []int{s.Cursor})
		first += th.Dim.Render("  rank ") + fmt.Sprintf("%d/%d", rank[0], of) +
			th.Dim.Render("  cos ") + fmt.Sprintf("%.5f", r.Cos) + th.Dim.Render("  deep ") + percent(share(r.Deep, r.Blocks)) + " %" +
			th.Dim.Render("  amax ") + compact(r.Amax)
	} else if ok {
		first += "  " + th.Bad.Render(s.Reason(s.Variant, s.Cursor))
	}
	facts := fmt.Sprintf("%d×%d  %s", t.Rows, t.Cols, Clean(t.DType))
	if n := Width(first) + 2 + Width(facts); n <= d.w {
		first += spaces(d.w-n+2) + th.Dim.Render(facts)
	}
	second := th.Dim.Render(s.Metric.Name)
	for _, v := range variants {
		second += "  " + th.VariantTag(s.State.Variants[v].Name, v) + " " + d.value(v)
	}
	return []string{first, second}
}

// value is the metric under a variant.
func (d *detailPane) value(v int) string {
	s := d.scene
	r, ok := s.Record(v, s.Cursor)
	switch {
	case !ok:
		return s.Theme.Faint.Render(stateGlyphs[NotYet])
	case r.Failed:
		return s.Theme.Bad.Render("failed")
	}
	return fmt.Sprintf(s.Metric.Format, s.Metric.Of(&r))
}

// variants lists the variants in the order of their columns: as many as fit,
// the chosen one and its baseline always among them.
func (d *detailPane) variants() []int {
	s := d.scene
	n := len(s.State.Variants)
	fit := max((d.w-detailLabelW)/detailColumnW, 1)
	out := make([]int, 0, n)
	for v := range n {
		out = append(out, v)
	}
	for len(out) > fit {
		drop := -1
		for i := len(out) - 1; i >= 0 && drop < 0; i-- {
			if v := out[i]; v != s.Variant && (v != s.Baseline || fit == 1) {
				drop = i
			}
		}
		if drop < 0 {
			break
		}
		out = slices.Delete(out, drop, drop+1)
	}
	return out
}

// Widths of the table: the names of figures, and at least so much a variant.
const (
	detailLabelW  = 12
	detailColumnW = 10
)

// figure is one row of the table.
type figure struct {
	label string
	of    func(r *sessions.Record) string
}

// detailFigures are the rows behind metric and rank, the most wanted first.
var detailFigures = []figure{
	{"rel_l2", func(r *sessions.Record) string { return fmt.Sprintf("%.4f", r.RelL2) }},
	{"cos", func(r *sessions.Record) string { return fmt.Sprintf("%.5f", r.Cos) }},
	{"SQNR dB", func(r *sessions.Record) string { return fmt.Sprintf("%.2f", r.SQNR) }},
	{"deep %", func(r *sessions.Record) string { return percent(share(r.Deep, r.Blocks)) }},
	{"shallow %", func(r *sessions.Record) string { return percent(share(r.Shallow, r.Blocks)) }},
	{"clamped %", func(r *sessions.Record) string { return percent(share(r.ScaleHigh+r.ScaleLow, r.Blocks)) }},
	{"max error", func(r *sessions.Record) string { return compact(r.MaxAbsErr) }},
	{"amax", func(r *sessions.Record) string { return compact(r.Amax) }},
	{"ws2", func(r *sessions.Record) string { return fmt.Sprintf("%.2e", r.GlobalScale) }},
	{"scale min", func(r *sessions.Record) string { return compact(r.ScaleMin) }},
	{"scale max", func(r *sessions.Record) string { return compact(r.ScaleMax) }},
	{"not finite", func(r *sessions.Record) string { return fmt.Sprint(r.NonFinite) }},
}

// table is the figures, a column a variant, and notes on what failed.
func (d *detailPane) table(t *sessions.Tensor, variants []int) (lines, notes []string) {
	s := d.scene
	th := s.Theme
	if len(variants) == 0 {
		return []string{th.Dim.Render("no variants yet")}, nil
	}
	names := shortVariants(s.State.Variants)
	columns := make([][]string, len(variants))
	labels := []string{"", "rank"}
	figures := detailFigures
	if s.Metric.Name != "rel_l2" {
		metric := s.Metric
		figures = append([]figure{{metric.Name, func(r *sessions.Record) string { return fmt.Sprintf(metric.Format, metric.Of(r)) }}}, figures...)
	}
	for _, f := range figures {
		labels = append(labels, f.label)
	}
	for i, v := range variants {
		r, ok := s.Record(v, s.Cursor)
		columns[i] = []string{th.VariantStyle(v).Render(names[v] + " " + th.VariantMark(v))}
		if !ok || r.Failed {
			columns[i] = append(columns[i], d.value(v))
			for range figures {
				columns[i] = append(columns[i], "")
			}
			if r.Failed {
				notes = append(notes, th.Bad.Render("! ")+Truncate(names[v]+": "+s.Reason(v, s.Cursor), max(d.w-2, 0)))
			}
			continue
		}
		rank, of := ranks(s, v, []int{s.Cursor})
		columns[i] = append(columns[i], fmt.Sprintf("%d/%d", rank[0], of))
		if rank[0] == 0 {
			columns[i][1] = "–"
		}
		for _, f := range figures {
			columns[i] = append(columns[i], f.of(&r))
		}
	}
	each := min(max((d.w-detailLabelW)/len(variants), 1), 16)
	for y, label := range labels {
		line := th.Dim.Render(Fit(label, min(detailLabelW, max(d.w-each, 0))))
		for i := range variants {
			line += FitRight(columns[i][y], each)
		}
		lines = append(lines, line)
	}
	// The metric comes before its rank.
	lines[1], lines[2] = lines[2], lines[1]
	return lines[:min(len(lines), max(d.h-2, 1))], notes
}

// shape is one histogram of a tap record.
type shape struct {
	label string
	bins  func(t *kernels.Tap, v *sessions.Variant) []float64
}

var shapes = []shape{
	{"block scale", func(t *kernels.Tap, _ *sessions.Variant) []float64 { return used(floats(t.Scales[:])) }},
	{"|error|", func(t *kernels.Tap, _ *sessions.Variant) []float64 { return floats(t.Errors[:]) }},
	{"codes", func(t *kernels.Tap, v *sessions.Variant) []float64 { return codeBins(t, v.Scheme) }},
	{"multipliers", func(t *kernels.Tap, v *sessions.Variant) []float64 {
		return floats(t.Multipliers[:min(len(v.Multipliers), len(t.Multipliers))])
	}},
	{"clip depth", func(t *kernels.Tap, _ *sessions.Variant) []float64 { return floats(t.Depth[:]) }},
}

func floats(counts []int64) []float64 {
	out := make([]float64, len(counts))
	for i, n := range counts {
		out[i] = float64(n)
	}
	return out
}

// used is the bins from the first to the last that is not empty, with one empty
// one on each side.
func used(bins []float64) []float64 {
	lo, hi := len(bins), 0
	for i, v := range bins {
		if v > 0 {
			lo, hi = min(lo, i), i+1
		}
	}
	if lo >= hi {
		return bins
	}
	return bins[max(lo-1, 0):min(hi+1, len(bins))]
}

// codeBins orders the use of codes by value. FP4 codes 8 to 15 are the negative
// values, 15 the least; an empty bin parts them from the others.
func codeBins(t *kernels.Tap, scheme string) []float64 {
	codes := floats(t.Codes[:])
	if !strings.Contains(scheme, "fp4") {
		return codes
	}
	out := make([]float64, 0, 17)
	for i := 15; i >= 8; i-- {
		out = append(out, codes[i])
	}
	out = append(out, 0)
	return append(out, codes[:8]...)
}

// shapes draws histograms as sparklines in at most room lines: of all variants
// where there is room, else of the chosen one.
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
	var out []string
	for _, sh := range shapes {
		for i, v := range variants {
			if v >= len(s.Detail.Taps) || s.Detail.Taps[v] == nil {
				if v < len(s.Detail.Errs) && s.Detail.Errs[v] != "" && sh.label == shapes[0].label {
					out = append(out, th.Dim.Render(Fit(sh.label, detailLabelW))+th.Warn.Render(Truncate(Clean(s.Detail.Errs[v]), d.w-detailLabelW)))
				}
				continue
			}
			bins := sh.bins(s.Detail.Taps[v], &s.State.Variants[v])
			if empty(bins) {
				continue
			}
			label := sh.label
			if len(variants) > 1 && i > 0 && len(out) > 0 {
				label = ""
			}
			style := th.VariantStyle(v)
			line := th.Dim.Render(Fit(label, detailLabelW))
			if len(variants) > 1 {
				line += style.Render(th.VariantMark(v) + " ")
			}
			n := min(d.w-Width(line), len(bins)*max((d.w-detailLabelW-2)/max(len(bins), 1), 1))
			out = append(out, line+style.Render(Sparkline(bins, min(n, 40))))
		}
	}
	return out[:min(len(out), room)]
}

func empty(bins []float64) bool {
	return !slices.ContainsFunc(bins, func(v float64) bool { return v > 0 })
}

// bucket lists what else the map's cell stands for, the worst first.
func (d *detailPane) bucket(room int) []string {
	s := d.scene
	members := s.Bucket(s.Cursor)
	if len(members) < 2 || room < 2 {
		return nil
	}
	values, states, sign := s.Values(s.Variant), s.States(s.Variant), s.worseBy()
	slices.SortStableFunc(members, func(a, b int) int {
		x, y := rankKey(values[a], states[a], sign), rankKey(values[b], states[b], sign)
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
			text = fmt.Sprintf(s.Metric.Format, values[t])
		case states[t] == Failed:
			text = s.Theme.Bad.Render("failed")
		case states[t] == NotFinite:
			text = s.Theme.Warn.Render("not finite")
		}
		mark := "  "
		if t == s.Cursor {
			mark = s.Theme.Accent.Render("▸ ")
		}
		out = append(out, mark+Fit(ShortName(&s.State.Tensors[t]), min(24, max(d.w-14, 8)))+" "+text)
	}
	return out
}
