package views

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"quantscope/sessions"
)

// Map is the home pane: the heat map of one variant's metric, its legend and
// the worst tensors in a line, and where there is room to spare the
// distribution of the values.
type Map struct {
	scene *Scene
	heat  *Heat
	w, h  int
	fresh []int // measured by the last batch, newest first
	hunt  int   // where g put the cursor last, -1 for nowhere
	clips bool  // clip marks are shown

	synced uint64 // scene version of the last sync
	data   uint64 // versions of the columns of the last sync
	first  bool
	stale  bool // something but scene and data changed
	cached string

	limits   Scale // of the values that are shown
	limitsOf shownKey
	spread   string // the histogram under the map
	spreadOf shownKey
	spreadH  int
}

// shownKey is all that decides which values are shown.
type shownKey struct {
	data               uint64 // version of the columns
	variant, w         int
	metric, projection string
	filter             string
	locked             bool
	theme              *Theme
}

func (m *Map) shownKey() shownKey {
	s := m.scene
	return shownKey{
		data: m.dataVersion(), variant: s.Variant, w: m.w, metric: s.Metric.Name, projection: s.Projection, filter: s.Filter.Text,
		locked: s.LockScale, theme: s.Theme,
	}
}

// freshCells is how many of the newest cells are brighter.
const freshCells = 12

// NewMap makes the pane.
func NewMap(s *Scene) Pane {
	m := &Map{scene: s, hunt: -1, clips: true, stale: true}
	m.heat = NewHeat(NewGrid(s.State.Tensors), s.Theme)
	s.bucket = func(tensor int) []int {
		m.sync()
		if b := m.heat.Bucket(tensor); len(b) > 1 {
			return b
		}
		return nil
	}
	return m
}

// Title names metric and variant, and what one cell stands for.
func (m *Map) Title() string {
	m.sync()
	s := m.scene
	title := s.Metric.Name
	if s.Variant >= 0 && s.Variant < len(s.State.Variants) {
		title += " · " + Clean(s.State.Variants[s.Variant].Name)
	}
	_, _, all := m.heat.Stride()
	switch {
	case s.Projection != "":
		title += " · " + Clean(s.Projection)
	case !all && len(m.heat.grid.Parts) > 1:
		title += " · " + Clean(strings.Join(m.heat.grid.Parts, ", "))
	}
	if over, _ := m.heat.Over(); over != "" {
		title += " · " + over
	}
	if s.LockScale {
		title += " · one scale"
	}
	if s.notCalibrated() != "" {
		title += " · not calibrated"
	}
	return title
}

// SetSize gives the pane its size.
func (m *Map) SetSize(w, h int) {
	w, h = max(w, 0), max(h, 0)
	if w != m.w || h != m.h {
		m.w, m.h, m.stale = w, h, true
	}
}

// Wants is the width that the map would use of w cells; the rest is better
// given to another pane.
func (m *Map) Wants(w, h int) int {
	l := newHeatLayout(m.heat.grid, w, m.heatHeight(h), m.scene.Projection != "", m.scene.Theme.solid)
	return min(l.used(), w)
}

// Apply takes in what is new: the newest cells become brighter.
func (m *Map) Apply(b sessions.Batch) {
	m.scene.note(&b)
	if b.Reset != nil && len(m.scene.State.Tensors) != m.heat.grid.Tensors() {
		m.heat = NewHeat(NewGrid(m.scene.State.Tensors), m.scene.Theme)
		m.hunt = -1
	}
	fresh := m.fresh[:0]
	if b.Progress.State == sessions.RunRunning && b.Reset == nil {
		for i := len(b.Records) - 1; i >= 0 && len(fresh) < freshCells; i-- {
			if b.Records[i].Variant == m.scene.Variant {
				fresh = append(fresh, b.Records[i].Tensor)
			}
		}
	}
	m.fresh = fresh
	m.stale = true
}

// heatHeight is how many of h lines the heat map may have: legend, worst line
// and a blank come off, at small heights one after the other; under a figure of
// calibration a line of totals too.
func (m *Map) heatHeight(h int) int {
	switch {
	case h >= 14 && m.scene.Metric.Calibrated():
		return h - 4
	case h >= 12:
		return h - 3
	case h >= 9:
		return h - 2
	case h >= 6:
		return h - 1
	}
	return h
}

// sync hands the scene over to the heat map.
func (m *Map) sync() {
	s := m.scene
	data := m.dataVersion()
	if m.first && !m.stale && m.synced == s.Version && m.data == data {
		return
	}
	if m.heat.grid.Tensors() != len(s.State.Tensors) {
		m.heat = NewHeat(NewGrid(s.State.Tensors), s.Theme)
	}
	m.first, m.stale, m.synced, m.data = true, false, s.Version, data
	m.cached = ""
	m.heat.SetTheme(s.Theme)
	m.heat.SetSize(m.w, m.heatHeight(m.h))
	m.heat.SetFilter(s.Filter)
	m.heat.SetProjection(s.Projection)
	m.heat.SetValues(s.Values(s.Variant), s.States(s.Variant))
	m.heat.SetScale(m.scale())
	m.heat.SetCursor(s.Cursor)
	m.heat.SetFresh(m.fresh)
	m.heat.SetClipMarks(m.clips)
}

// dataVersion changes with every figure that the map draws.
func (m *Map) dataVersion() uint64 {
	if !m.scene.LockScale {
		return m.scene.column(m.scene.Variant).version
	}
	newest := uint64(0)
	for v := range m.scene.State.Records {
		newest = max(newest, m.scene.column(v).version)
	}
	return newest
}

// scale spans the values that are shown, of all variants where it is locked.
func (m *Map) scale() Scale {
	s := m.scene
	if key := m.shownKey(); key != m.limitsOf {
		m.limitsOf = key
	} else {
		return m.limits
	}
	values := make([]float64, 0, len(s.State.Tensors))
	add := func(v int) {
		states := s.States(v)
		for t, x := range s.Values(v) {
			if states[t].HasValue() && s.Shown(t) {
				values = append(values, x)
			}
		}
	}
	if s.LockScale {
		for v := range s.State.Records {
			add(v)
		}
	} else {
		add(s.Variant)
	}
	m.limits = s.Metric.scale(values)
	m.limits.Flip, m.limits.Log = s.Metric.Worse < 0, s.Metric.Log
	return m.limits
}

// View draws the pane.
func (m *Map) View() string {
	m.sync()
	if m.cached == "" {
		m.cached = m.draw()
	}
	return m.cached
}

func (m *Map) draw() string {
	s := m.scene
	if m.w <= 0 || m.h <= 0 {
		return Block(nil, m.w, m.h)
	}
	if m.heat.grid.Tensors() == 0 {
		return Block([]string{s.Theme.Dim.Render("no tensors to measure")}, m.w, m.h)
	}
	_, used := m.heat.Used()
	var foot []string
	if m.h-used >= 3 {
		foot = append(foot, spaces(m.w))
	}
	if m.h > used {
		foot = append(foot, m.heat.Legend(s.Metric.text, m.w))
	}
	rest := m.h - used - len(foot) - 1
	if totals := m.totalsLine(); totals != "" && rest >= 0 {
		foot = append(foot, Fit(totals, m.w))
		rest--
	}
	if rest >= 0 && m.h-used >= 2 {
		foot = append(foot, Fit(m.worstLine(), m.w))
	}
	room := m.h - used - len(foot)
	if room >= 8 && m.w >= 40 {
		foot = append(foot, spaces(m.w))
		foot = append(foot, strings.Split(m.distribution(min(room-1, 22)), "\n")...)
	}
	heat := m.heat.View()
	if len(foot) == 0 {
		return heat
	}
	lines := append(strings.Split(heat, "\n")[:min(used, m.h-len(foot))], foot...)
	for len(lines) < m.h {
		lines = append(lines, spaces(m.w))
	}
	return strings.Join(lines, "\n")
}

// totalsLine is what the calibration of the variant comes to where the map shows
// a figure of it, or that there is none; "" for other figures.
func (m *Map) totalsLine() string {
	s := m.scene
	if !s.Metric.Calibrated() {
		return ""
	}
	if why := s.notCalibrated(); why != "" {
		return s.Theme.Warn.Render(Truncate(why, m.w))
	}
	c, ok := s.totals(s.Variant)
	if !ok {
		return s.Theme.Dim.Render(Truncate("not calibrated yet", m.w))
	}
	text := ""
	if c.end == nil || c.units < c.of {
		text = fmt.Sprintf("%d of %d layers: ", c.units, c.of)
	}
	if s.Metric.Name == metricTokens {
		text += c.tokenWords(m.w - Width(text))
	} else {
		text += c.runWords(m.w - Width(text))
	}
	style := s.Theme.Text
	if c.end != nil && c.end.Gate != "" {
		style = s.Theme.Bad
	}
	return style.Render(Truncate(text, m.w))
}

// worstLine names the worst tensors that are shown, as many as fit.
func (m *Map) worstLine() string {
	s := m.scene
	const most = 16
	line := s.Theme.Dim.Render("worst  ")
	switch {
	case s.Metric.Worse == 0:
		line = s.Theme.Dim.Render("largest  ")
	case s.Metric.Name == metricTokens:
		line = s.Theme.Dim.Render("fewest  ")
	case s.Metric.Diverging:
		line = s.Theme.Dim.Render("farthest  ")
	}
	used := Width(line)
	worst := worstOf(s, s.Variant, most)
	if s.Metric.Name == metricTokens {
		worst = s.oneOfEach(worst)
	}
	for i, t := range worst {
		text := ShortName(&s.State.Tensors[t]) + " "
		if r := &s.State.Tensors[t].Role; s.Metric.Name == metricTokens && r.Expert >= 0 {
			text = strings.TrimSuffix(text, Clean(r.Projection)+" ")
		}
		value := s.Metric.text(s.Values(s.Variant)[t])
		sep := ""
		if i > 0 {
			sep = " · "
		}
		n := Width(sep) + Width(text) + Width(value)
		if used+n > m.w {
			break
		}
		used += n
		line += s.Theme.Faint.Render(sep) + s.Theme.Dim.Render(text) + s.Theme.Text.Render(value)
	}
	return line
}

// oneOfEach leaves one tensor of each expert in a list: its tokens are the same
// under all of its projections.
func (s *Scene) oneOfEach(list []int) []int {
	seen := map[[2]int]bool{}
	return slices.DeleteFunc(list, func(t int) bool {
		r := &s.State.Tensors[t].Role
		twice := r.Expert >= 0 && seen[[2]int{r.Layer, r.Expert}]
		seen[[2]int{r.Layer, r.Expert}] = true
		return twice
	})
}

// distribution is a histogram of the shown values, one series a variant. Its
// ends hold what lies beyond the limits of the colours.
func (m *Map) distribution(h int) string {
	s := m.scene
	if key := m.shownKey(); key != m.spreadOf || h != m.spreadH {
		m.spreadOf, m.spreadH = key, h
	} else {
		return m.spread
	}
	hist := Histogram{Counts: true, YLabel: "tensors", XLabel: s.Metric.Name}
	lo, hi := m.heat.scale.Lo, m.heat.scale.Hi
	log := m.heat.scale.log()
	if log {
		lo, hi, hist.LogX = math.Log10(lo), math.Log10(hi), true
	}
	variants := []int{s.Variant}
	if s.LockScale {
		variants = variants[:0]
		for v := range s.State.Variants {
			variants = append(variants, v)
		}
	}
	if !(hi > lo) {
		m.spread = Block(nil, m.w, h)
		return m.spread
	}
	bins := min(max((m.w-10)/(len(variants)+1), 8), 48)
	for _, v := range variants {
		counts := make([]float64, bins)
		states := s.States(v)
		for t, x := range s.Values(v) {
			if log {
				x = math.Log10(x)
			}
			if states[t].HasValue() && s.Shown(t) {
				counts[max(min(int((x-lo)/(hi-lo)*float64(bins)), bins-1), 0)]++
			}
		}
		hist.Bins = append(hist.Bins, Series{s.State.Variants[v].Name, v, counts})
	}
	hist.Lo, hist.Hi = lo, hi
	m.spread = hist.Render(s.Theme, m.w, h)
	return m.spread
}
