package views

import (
	"regexp"
	"strings"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/ansi"

	"quantscope/kernels"
	"quantscope/sessions"
)

// Clipping shows how much of the weights the quantizers clip, how deep, and
// where in the model. It keeps sums up to date as records arrive, so that what
// it costs does not grow with the session.
type Clipping struct {
	scene *Scene
	state *sessions.State // that sums are of
	w, h  int

	sums    clipSums
	log     bool // logarithmic counts
	measure int  // of clipMeasures
	part    clippingPart

	version uint64
	drawn   clippingKey
	cached  string
}

// clippingKey is all that a picture depends on.
type clippingKey struct {
	version, scene uint64
	theme          *Theme
	state          *sessions.State
	w, h           int
}

// clippingPart is what a small screen shows below the table.
type clippingPart int

const (
	clippingDepth clippingPart = iota
	clippingPlaces
	clippingTensor
	clippingParts
)

var clippingPartNames = [clippingParts]string{"depths", "places", "the tensor"}

// NewClipping makes the clipping screen of a scene.
func NewClipping(s *Scene) Pane { return newClipping(s) }

func newClipping(s *Scene) *Clipping { return &Clipping{scene: s, sums: clipSums{stale: true}} }

// Title says what is added up.
func (p *Clipping) Title() string {
	s := p.scene
	title := "Clipping"
	if v := s.Variant; v >= 0 && v < len(s.State.Variants) {
		title += " · " + Clean(s.State.Variants[v].Name)
	}
	if s.Projection != "" {
		title += " · " + Clean(s.Projection)
	}
	if s.Filter.Text != "" {
		title += " · filter " + Clean(s.Filter.Text)
	}
	return title
}

// SetSize sets the inner size.
func (p *Clipping) SetSize(w, h int) { p.w, p.h = w, h }

// Apply adds up what arrived.
func (p *Clipping) Apply(b sessions.Batch) {
	if len(b.Records) == 0 && len(b.Variants) == 0 && b.Reset == nil {
		return
	}
	if p.state == p.scene.State {
		p.sums.apply(p.scene.State, &b)
	}
	p.version++
}

// refresh adds everything up anew where the session or the filter is another.
func (p *Clipping) refresh() {
	if s := p.scene; p.sums.stale || p.state != s.State || p.sums.filter.Text != s.Filter.Text || !p.sums.places.of(s.State.Tensors) {
		p.sums.rebuild(s.State, s.Filter)
		p.state = s.State
	}
	p.sums.grow(p.scene.State)
}

// Keys lists the keys of the pane.
func (p *Clipping) Keys() []Key {
	axis := "logarithmic counts"
	if p.log {
		axis = "linear counts"
	}
	other := Key{Keys: []string{"o"}, Label: "o", Help: "other view: " + clippingPartNames[(p.part+1)%clippingParts]}
	if !p.small() {
		other.Disabled = "everything is on the screen"
	}
	return []Key{
		{Keys: []string{"l"}, Label: "l", Help: axis},
		{Keys: []string{"c"}, Label: "c", Help: "compare places by " + clipMeasures[(p.measure+1)%len(clipMeasures)].name},
		other,
		{Keys: []string{"up", "k"}, Label: "↑ k", Help: "layer above"},
		{Keys: []string{"down", "j"}, Label: "↓ j", Help: "layer below"},
		{Keys: []string{"left"}, Label: "←", Help: "expert before"},
		{Keys: []string{"right"}, Label: "→", Help: "expert after"},
		{Keys: []string{"n"}, Label: "n", Help: "next tensor"},
		{Keys: []string{"N"}, Label: "N", Help: "tensor before"},
	}
}

// HandleKey acts on the keys that Keys lists.
func (p *Clipping) HandleKey(k tea.KeyMsg) (bool, tea.Cmd) {
	switch k.String() {
	case "l":
		p.log = !p.log
	case "c":
		p.measure = (p.measure + 1) % len(clipMeasures)
	case "o":
		if !p.small() {
			return false, nil
		}
		p.part = (p.part + 1) % clippingParts
	default:
		p.refresh()
		return moveByKey(p.scene, &p.sums.places, k.String()), nil
	}
	p.version++
	return true, nil
}

// HandleMouse moves the cursor by wheel.
func (p *Clipping) HandleMouse(_, _ int, m tea.MouseMsg) (bool, tea.Cmd) {
	p.refresh()
	switch m.Button {
	case tea.MouseButtonWheelUp:
		return moveByKey(p.scene, &p.sums.places, "up"), nil
	case tea.MouseButtonWheelDown:
		return moveByKey(p.scene, &p.sums.places, "down"), nil
	}
	return false, nil
}

// small says that one part is shown at a time.
func (p *Clipping) small() bool { return p.w < 100 || p.h < 24 }

// View draws the screen.
func (p *Clipping) View() string {
	key := clippingKey{p.version, p.scene.Version, p.scene.Theme, p.scene.State, p.w, p.h}
	if p.drawn != key || p.cached == "" {
		p.refresh()
		p.cached, p.drawn = Block(strings.Split(p.draw(), "\n"), p.w, p.h), key
	}
	return p.cached
}

// rows are the sums of all variants over what is shown.
func (p *Clipping) rows() []clipRow {
	state := p.scene.State
	only := p.sums.places.projectionIndex(p.scene.Projection)
	names := shortVariants(state.Variants)
	rows := make([]clipRow, 0, len(state.Variants))
	for v := range state.Variants {
		sum, total := p.sums.over(v, -1, only)
		rows = append(rows, clipRow{v, Clean(state.Variants[v].Name), shortenVariant(names[v], 16), sum, total})
	}
	return rows
}

func (p *Clipping) formatOf(variant int) kernels.Format {
	return formatOf(&p.scene.State.Variants[variant])
}

func (p *Clipping) draw() string {
	th, shown := p.scene.Theme, p.scene.Variant
	rows := p.rows()
	if p.w <= 0 || p.h <= 0 {
		return ""
	}
	if len(rows) == 0 || shown < 0 || shown >= len(rows) {
		return th.Dim.Render(Truncate("no variant is measured yet", p.w))
	}
	var others []clipFigure
	for _, r := range rows {
		if r.id != shown {
			others = append(others, clipFigure{r.name, p.formatOf(r.id), r.sum})
		}
	}
	figure := clipFigure{rows[shown].name, p.formatOf(shown), rows[shown].sum}
	top := wrapped(th.Text, clipSentence(figure, others, rows[shown].total), p.w)
	if p.h >= 12 {
		note := clipNote(&figure.sum, rows[shown].total)
		reason := scaleReason(&p.scene.State.Variants[shown])
		if reason == "" && mixedScales(others) {
			reason = e4m3Reason
		}
		if reason != "" {
			note += "; " + reason
		}
		top = append(top, wrapped(th.Dim, note, p.w)...)
	}
	if p.h < 8 {
		return strings.Join(append(top[:min(len(top), max(p.h-3, 1))], clipTable(th, rows, shown, p.w, min(p.h, len(rows)+1))), "\n")
	}
	if p.h >= 20 {
		top = append(top, "")
	}
	least := 12 // lines below
	if p.small() {
		least = 8
	}
	tableH := min(len(rows)+1, max(p.h-len(top)-1-least, 5))
	top = append(top, clipTable(th, rows, shown, p.w, tableH), "")
	above := strings.Join(top, "\n")
	w, h := p.w, p.h-strings.Count(above, "\n")-1
	if h <= 0 {
		return above
	}
	return above + "\n" + p.below(rows, w, h)
}

// below is what stands under the table: one part, or all of them.
func (p *Clipping) below(rows []clipRow, w, h int) string {
	if p.small() {
		switch p.part {
		case clippingPlaces:
			return p.places(rows, p.measure, w, h)
		case clippingTensor:
			return p.tensor(w, h)
		}
		return p.depths(rows, w, h)
	}
	const gap = 3
	if w >= 160 {
		const tensor = 46
		left := max((w-tensor-2*gap)/2, min(depthWidth(len(rows)), w-tensor-2*gap-60))
		middle := w - tensor - 2*gap - left
		return Beside(gap, p.depths(rows, left, h), p.placesByMeasure(rows, middle, h), p.tensor(tensor, h))
	}
	left := max((w-gap)/2, min(depthWidth(len(rows)), w-gap-50))
	right := w - gap - left
	beside := min(len(clipMeasures)+3, h/2)
	return Beside(gap, p.depths(rows, left, h), p.places(rows, p.measure, right, h-beside-1)+"\n"+spaces(right)+"\n"+p.tensor(right, beside))
}

// depths is the histogram of clip depths of all variants.
func (p *Clipping) depths(rows []clipRow, w, h int) string {
	series := make([]Series, len(rows))
	for i, r := range rows {
		series[i] = Series{r.short, r.id, percents(r.sum.depth[:], r.sum.blocks)}
	}
	return depthChart(p.scene.Theme, series, p.scene.Variant, p.log, w, h)
}

// placesByMeasure stacks tables of places by as many measures as there is room
// for, the chosen one first.
func (p *Clipping) placesByMeasure(rows []clipRow, w, h int) string {
	each := 3 + len(p.sums.places.projections) + p.sums.places.layers()
	tables := min(max((h+1)/(each+1), 1), len(clipMeasures))
	if tables == 1 {
		return p.places(rows, p.measure, w, h)
	}
	var out []string
	for i := range tables {
		out = append(out, p.places(rows, (p.measure+i)%len(clipMeasures), w, each))
	}
	return strings.Join(out, "\n"+spaces(w)+"\n")
}

// places is the table of where the clips live.
func (p *Clipping) places(rows []clipRow, measure, w, h int) string {
	th, s, m := p.scene.Theme, &p.sums, clipMeasures[measure]
	only := s.places.projectionIndex(p.scene.Projection)
	place := func(label string, layer, projection int, here bool) clipPlace {
		out := clipPlace{label: label, here: here}
		for v := range rows {
			sum, total := s.over(v, layer, projection)
			out.sums, out.total = append(out.sums, sum), total
		}
		return out
	}
	list := []clipPlace{place("all", -1, only, false)}
	for i := range s.places.projections {
		list = append(list, place(s.places.projectionLabel(i), -1, i, i == only))
	}
	at := -1
	if c := p.scene.Cursor; c >= 0 && c < len(p.scene.State.Tensors) {
		at = s.places.layer(c)
	}
	keep := 0
	for l := range s.places.layers() {
		if l == at {
			keep = len(list)
		}
		list = append(list, place(s.places.grid.Rows[l].Label, l, only, l == at))
	}
	table, hidden := placesTable(th, m, list, rows, p.scene.Variant, keep, w, h-1)
	title := m.help
	if hidden > 0 {
		title = fitting(w-len("where  "), title+"; "+notShown(hidden), m.name+", %; "+notShown(hidden))
	}
	return Fit(th.Title.Render("where")+th.Dim.Render("  "+title), w) + "\n" + table
}

// tensor sets the tensor under the cursor beside the whole.
func (p *Clipping) tensor(w, h int) string {
	th, state, at := p.scene.Theme, p.scene.State, p.scene.Cursor
	if at < 0 || at >= len(state.Tensors) {
		return Block([]string{th.Dim.Render(Truncate("no tensor under the cursor", w))}, w, h)
	}
	name := th.Title.Render(TruncateMiddle(Clean(state.Tensors[at].Name), w))
	r, ok := p.scene.Record(p.scene.Variant, at)
	switch {
	case !ok:
		return Block([]string{name, th.Dim.Render(Truncate("not measured yet", w))}, w, h)
	case r.Failed:
		return Block([]string{name, th.Bad.Render(Truncate("could not be measured; the log says why", w))}, w, h)
	}
	var one clipSum
	one.add(&r)
	whole, _ := p.sums.over(p.scene.Variant, -1, p.sums.places.projectionIndex(p.scene.Projection))
	lines := []string{name, besideTable(th, &one, &whole, w, min(len(clipMeasures)+1, h-1))}
	if h >= len(clipMeasures)+6 {
		style := th.VariantStyle(p.scene.Variant)
		bins := 20
		if w >= 14+40 {
			bins = 40
		}
		lines = append(lines, "",
			th.Dim.Render(Fit("depth, here", 14))+style.Render(Sparkline(percents(one.depth.bins(), one.blocks), bins)),
			th.Dim.Render(Fit("depth, all", 14))+style.Render(Sparkline(percents(whole.depth.bins(), whole.blocks), bins)),
			th.Dim.Render(spaces(14)+Fit("0", bins-1)+"1"))
	}
	if h >= len(clipMeasures)+9+len(state.Variants) {
		lines = append(lines, "", p.tensorByVariant(at, w))
	}
	return Block(strings.Split(strings.Join(lines, "\n"), "\n"), w, h)
}

// tensorByVariant is what each variant does to one tensor.
func (p *Clipping) tensorByVariant(tensor, w int) string {
	th, state := p.scene.Theme, p.scene.State
	rows := make([][]string, len(state.Variants))
	for v := range state.Variants {
		var one clipSum
		if r, ok := p.scene.Record(v, tensor); ok {
			one.add(&r)
		}
		rows[v] = []string{th.VariantTag(state.Variants[v].Name, v)}
		for _, m := range clipMeasures[:3] {
			rows[v] = append(rows[v], percent(m.of(&one)))
		}
	}
	columns := []Column{{Title: "this tensor, %"}}
	for i, m := range clipMeasures[:3] {
		alignColumn(rows, i+1)
		columns = append(columns, Column{Title: m.name, Align: Right, Drop: i})
	}
	return Table{Columns: columns, Rows: rows, Cursor: -1}.Render(th, w, len(rows)+1)
}

// wrapped is a text in lines of at most w cells, in one style.
func wrapped(style lipgloss.Style, text string, w int) []string {
	if w <= 0 {
		return nil
	}
	text = intervals.ReplaceAllString(flags.Replace(text), "[$1"+hardSpace+"$2]")
	lines := strings.Split(ansi.Wrap(text, w, ""), "\n")
	for i, line := range lines {
		lines[i] = style.Render(breaks.Replace(line))
	}
	return lines
}

// unbroken stands for the hyphens of a flag while lines are broken, which may
// happen after a hyphen.
const unbroken = "\u2011"

var flags = strings.NewReplacer(" --", " "+unbroken+unbroken)

// hardSpace stands for the blank of an interval while lines are broken.
const hardSpace = "\u00a0"

var (
	intervals = regexp.MustCompile(`\[([^][ ]+,) ([^][ ]+)\]`)
	breaks    = strings.NewReplacer(unbroken, "-", hardSpace, " ")
)

// wrappedTo sets a text in at most so many lines of w cells. Where it is longer
// the last line ends with a mark, after a whole word.
func wrappedTo(style lipgloss.Style, text string, w, most int) []string {
	lines := wrapped(noStyle, text, w)
	if len(lines) > max(most, 0) {
		lines = lines[:max(most, 0)]
		if n := len(lines); n > 0 {
			last := strings.TrimRight(lines[n-1], " ")
			for Width(last)+2 > w && strings.Contains(last, " ") {
				last = strings.TrimRight(last[:strings.LastIndexByte(last, ' ')], " ")
			}
			lines[n-1] = Truncate(last+" "+ellipsis, w)
		}
	}
	for i, line := range lines {
		lines[i] = style.Render(line)
	}
	return lines
}
