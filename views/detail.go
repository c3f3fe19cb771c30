package views

import (
	"fmt"
	"slices"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/analysis/calibrate"
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
	ranks []rankMemo // by variant
}

// rankMemo is a rank that was counted once.
type rankMemo struct {
	data, scene uint64 // versions that it is of
	rank, of    int
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
	table, notes := d.table(variants)
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
	facts := fmt.Sprintf("%d×%d  %s", t.Rows, t.Cols, Clean(t.DType)) + d.scene.storedAs()
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
	if tr := s.Trade(s.Variant, s.Cursor); tr != nil && s.Metric.Calibrated() {
		tokens, _ := s.tradesOf(s.Variant).tokens(t, tr)
		return []string{Truncate(first+"  "+tradeShort(th, &s.State.Variants[s.Variant], tr, tokens), d.w), d.shortValues(variants)}
	}
	if r, ok := s.Record(s.Variant, s.Cursor); ok && !r.Failed {
		place := th.Dim.Render("  " + d.hidden())
		if rank, of := d.rankOf(s.Variant); s.Shown(s.Cursor) && rank == 0 {
			place = th.Dim.Render("  no rank")
		} else if s.Shown(s.Cursor) {
			place = th.Dim.Render("  rank ") + fmt.Sprintf("%d/%d", rank, of)
		}
		first += place +
			th.Dim.Render("  cos ") + number("%.5f", r.Cos) + th.Dim.Render("  deep ") + percent(share(r.Deep, r.Blocks)) + " %" +
			th.Dim.Render("  amax ") + compact(r.Amax)
	} else if ok {
		first += "  " + th.Bad.Render(s.Reason(s.Variant, s.Cursor))
	}
	facts := fmt.Sprintf("%d×%d  %s", t.Rows, t.Cols, Clean(t.DType)) + d.scene.storedAs()
	if n := Width(first) + 2 + Width(facts); n <= d.w {
		first += spaces(d.w-n+2) + th.Dim.Render(facts)
	}
	return []string{first, d.shortValues(variants)}
}

// shortValues is the metric under as many variants as there is room for.
func (d *detailPane) shortValues(variants []int) string {
	s, th := d.scene, d.scene.Theme
	for {
		line := th.Dim.Render(s.Metric.Name)
		for _, v := range variants {
			line += "  " + th.VariantTag(s.State.Variants[v].Name, v) + " " + d.value(v)
		}
		if n := len(s.State.Variants) - len(variants); n > 0 {
			line += th.Dim.Render("  " + notShown(n))
		}
		if Width(line) <= d.w || len(variants) < 2 {
			return line
		}
		variants = s.shed(variants)
	}
}

// value is the metric under a variant.
func (d *detailPane) value(v int) string {
	s := d.scene
	r, ok := s.Record(v, s.Cursor)
	switch {
	case !ok && s.keeps(v):
		return s.Theme.Faint.Render("kept")
	case !ok:
		return s.Theme.Faint.Render(stateGlyphs[NotYet])
	case r.Failed:
		return s.Theme.Bad.Render("failed")
	}
	return s.Metric.text(s.value(s.Metric, v, s.Cursor, &r))
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
		out = s.shed(out)
	}
	return out
}

// shed leaves out one variant of several for which there is no room: the last one
// that is neither chosen nor the baseline, then the baseline.
func (s *Scene) shed(variants []int) []int {
	drop := slices.Index(variants, s.Baseline)
	for i, v := range variants {
		if v != s.Variant && v != s.Baseline {
			drop = i
		}
	}
	if drop < 0 || variants[drop] == s.Variant && len(variants) > 1 {
		drop = len(variants) - 1
	}
	return slices.Delete(slices.Clone(variants), drop, drop+1)
}

// notShown says that there was no room for n variants.
func notShown(n int) string { return fmt.Sprintf("%d not shown", n) }

// Widths of the table: the names of figures, and at least so much a variant.
const (
	detailLabelW  = 12
	detailColumnW = 11
)

// figure is one row of the table.
type figure struct {
	label string
	of    func(r *sessions.Record, variant int) string
}

// detailMetrics are the rows behind the chosen metric and its rank, the most
// wanted first.
var detailMetrics = []string{"rel_l2", "cos", "sqnr", "deep", "shallow", "clamped", "max_err", "amax", "global"}

// detailScales are the rows behind those.
var detailScales = []figure{
	{"scale min", func(r *sessions.Record, _ int) string { return compact(r.ScaleMin) }},
	{"scale max", func(r *sessions.Record, _ int) string { return compact(r.ScaleMax) }},
}

// figureOfMetric is a metric's row.
func (d *detailPane) figureOfMetric(m Metric) figure {
	return figure{m.label(), func(r *sessions.Record, v int) string { return m.figure(d.scene.value(m, v, d.scene.Cursor, r)) }}
}

// table is the figures, a column a variant, and notes on what failed.
func (d *detailPane) table(variants []int) (lines, notes []string) {
	s := d.scene
	th := s.Theme
	if len(variants) == 0 {
		return []string{th.Dim.Render("no variants yet")}, nil
	}
	names := shortVariants(s.State.Variants)
	each := min(max((d.w-detailLabelW)/len(variants), 1), 16)
	rows := d.rows(variants)
	labels := make([]string, len(rows))
	cells := make([][]string, len(rows))
	header := ""
	for y, f := range rows {
		labels[y] = f.label
	}
	for _, v := range variants {
		header += FitRight(th.VariantStyle(v).Render(shortenVariant(names[v], max(each-3, 1))+" "+th.VariantMark(v)), each)
		r, ok := s.Record(v, s.Cursor)
		for y, f := range rows {
			text := ""
			switch {
			case ok && !r.Failed:
				text = f.of(&r, v)
			case y == 0:
				text = d.value(v)
			}
			cells[y] = append(cells[y], FitRight(text, each))
		}
		if text := instead(&s.State.Variants[v], s.Trade(v, s.Cursor)); text != "" {
			for i, line := range wrappedTo(th.Text, names[v]+" "+text, max(d.w-2, 0), 3) {
				lead := "  "
				if i == 0 {
					lead = th.stateGlyph(FellBack) + " "
				}
				notes = append(notes, lead+line)
			}
		}
		if m := s.Metric; m.codebook && ok && !r.Failed && r.Codebook == 0 {
			notes = append(notes, th.stateGlyph(Absent)+" "+th.Dim.Render(Truncate(names[v]+": the sign of errors is kept of codebooks alone", max(d.w-2, 0))))
		}
		if ok && r.Failed {
			notes = append(notes, th.Bad.Render("! ")+Truncate(names[v]+": "+s.Reason(v, s.Cursor), max(d.w-2, 0)))
		}
	}
	labelW := min(detailLabelW, max(d.w-each*len(variants), 0))
	hidden := ""
	if n := len(s.State.Variants) - len(variants); n > 0 {
		hidden = notShown(n)
	}
	lines = append(lines, th.Dim.Render(Fit(hidden, labelW))+header)
	for y := range rows {
		lines = append(lines, th.Dim.Render(Fit(labels[y], labelW))+strings.Join(cells[y], ""))
	}
	return d.cut(lines, max(d.h-2, 1)), notes
}

// cut leaves out lines for which there is no room, and counts them.
func (d *detailPane) cut(lines []string, room int) []string {
	if len(lines) <= room {
		return lines
	}
	if room < 2 {
		return lines[:max(room, 0)]
	}
	return append(slices.Clone(lines[:room-1]), d.scene.Theme.Dim.Render(moreText(len(lines)-room+1)))
}

// rows are the figures in order: the metric, its rank, and the rest. Non-finite
// weights are counted where there are any.
func (d *detailPane) rows(variants []int) []figure {
	s := d.scene
	rows := []figure{
		d.figureOfMetric(s.Metric),
		{"rank", func(_ *sessions.Record, v int) string { return d.rank(v) }},
	}
	if s.Metric.Calibrated() {
		rows = append(rows, d.tradeRows(variants)...)
	}
	for _, name := range detailMetrics {
		if m, ok := MetricByName(name); ok && name != s.Metric.Name {
			rows = append(rows, d.figureOfMetric(m))
		}
	}
	rows = append(rows, detailScales...)
	rows = append(rows, d.biasRows(variants)...)
	if !s.Metric.Calibrated() {
		rows = append(rows, d.tradeRows(variants)...)
	}
	for _, v := range variants {
		if r, ok := s.Record(v, s.Cursor); ok && r.NonFinite > 0 {
			return append(rows, figure{"not finite", func(r *sessions.Record, _ int) string { return fmt.Sprint(r.NonFinite) }})
		}
	}
	return rows
}

// tradeRows are what calibration did to the tensor, where it did something under
// one of the variants.
func (d *detailPane) tradeRows(variants []int) []figure {
	s := d.scene
	dead, any := false, false
	for _, v := range variants {
		if tr := s.Trade(v, s.Cursor); tr != nil {
			any, dead = true, dead || tr.Dead > 0
		}
	}
	if !any {
		return nil
	}
	row := func(label string, of func(tr *calibrate.Trade, v int) string) figure {
		return figure{label, func(_ *sessions.Record, v int) string {
			if tr := s.Trade(v, s.Cursor); tr != nil {
				return of(tr, v)
			}
			return ""
		}}
	}
	rows := []figure{row("ran as", func(tr *calibrate.Trade, v int) string { return effective(&s.State.Variants[v], tr, detailColumnW-1) })}
	for _, f := range tradeFigures {
		if f.metric != "" && f.metric == s.Metric.Name {
			continue
		}
		rows = append(rows, row(f.label, func(tr *calibrate.Trade, v int) string {
			tokens, _ := s.tradesOf(v).tokens(&s.State.Tensors[s.Cursor], tr)
			return f.of(tr, tokens)
		}))
	}
	if dead {
		rows = append(rows, row("dead columns", func(tr *calibrate.Trade, _ int) string { return thousands(tr.Dead) }))
	}
	return rows
}

// rank is the cursor's place among the shown tensors, and how many they are
// where that fits.
func (d *detailPane) rank(v int) string {
	if !d.scene.Shown(d.scene.Cursor) {
		word, _, _ := strings.Cut(d.hidden(), " ") // as much as a column holds
		return word
	}
	rank, of := d.rankOf(v)
	if rank == 0 {
		return "–"
	}
	if text := fmt.Sprintf("%d/%d", rank, of); Width(text) < detailColumnW {
		return text
	}
	return fmt.Sprint(rank)
}

// hidden says what hides the tensor under the cursor.
func (d *detailPane) hidden() string {
	if !d.scene.Filter.Shows(d.scene.Cursor) {
		return "filtered out"
	}
	return "hidden by p"
}

// rankOf is ranks for the cursor, counted once a change.
func (d *detailPane) rankOf(v int) (rank, of int) {
	for len(d.ranks) <= v {
		d.ranks = append(d.ranks, rankMemo{})
	}
	m := &d.ranks[v]
	if data := d.scene.column(v).version; m.data != data || m.scene != d.scene.Version+1 {
		all, of := ranks(d.scene, v, []int{d.scene.Cursor})
		*m = rankMemo{data, d.scene.Version + 1, all[0], of}
	}
	return m.rank, m.of
}
