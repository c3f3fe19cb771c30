package views

import (
	"fmt"
	"slices"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/sessions"
)

// Compare sets two variants beside each other: A is the scene's baseline, B its
// variant. Both maps share one scale and one cursor; a third shows what changes
// from A to B; the table says it in figures, paired by tensor. Tensors that one
// side lacks are left out and counted.
type Compare struct {
	scene *Scene
	w, h  int
	part  comparePart // what a small screen shows

	pairs pairs
	key   compareKey // what pairs were read for
	stale bool       // pairs changed since the outcome was computed
	maps  [3]*Heat   // A, B, B − A
	both  []float64  // figures of both sides, for their scale

	version uint64
	drawn   compareDrawing
	cached  string
}

// compareKey is what the two sides depend on, records apart.
type compareKey struct {
	state              *sessions.State
	a, b               int
	metric             string
	filter, projection string
}

// compareDrawing is all that a picture depends on.
type compareDrawing struct {
	version, scene uint64
	theme          *Theme
	state          *sessions.State
	w, h           int
}

// worstKept is how many regressions are listed at most.
const worstKept = 40

// NewCompare makes the comparison screen of a scene.
func NewCompare(s *Scene) Pane { return newCompare(s) }

func newCompare(s *Scene) *Compare { return &Compare{scene: s} }

// Title says what is compared, and how many pairs there are.
func (p *Compare) Title() string {
	a, b, ok := p.sides()
	if !ok {
		return "Compare"
	}
	p.refresh()
	return fmt.Sprintf("Compare · A %s · B %s · %s · %s", Clean(a.Name), Clean(b.Name), p.scene.Metric.Name, p.pairs.outcome.coverage())
}

// sides are the two variants; ok is false where one is missing.
func (p *Compare) sides() (a, b *sessions.Variant, ok bool) {
	s := p.scene
	n := len(s.State.Variants)
	if s.Baseline < 0 || s.Baseline >= n || s.Variant < 0 || s.Variant >= n {
		return nil, nil, false
	}
	return &s.State.Variants[s.Baseline], &s.State.Variants[s.Variant], true
}

// SetSize sets the inner size.
func (p *Compare) SetSize(w, h int) { p.w, p.h = w, h }

// Apply takes in the records of the two sides.
func (p *Compare) Apply(b sessions.Batch) {
	if b.Reset != nil || len(b.Variants) > 0 {
		p.version++
	}
	if b.Reset != nil {
		p.key = compareKey{}
	}
	if p.key.state == p.scene.State && p.pairs.take(p.scene.State, b.Records) {
		p.stale = true
		p.version++
	}
}

// refresh brings both sides, the outcome and the maps up to date.
func (p *Compare) refresh() {
	s := p.scene
	key := compareKey{s.State, s.Baseline, s.Variant, s.Metric.Name, s.Filter.Text, s.Projection}
	old := p.key
	p.key = key
	filter, projection := old.filter, old.projection
	old.filter, old.projection = key.filter, key.projection
	if old != key || !p.pairs.places.of(s.State.Tensors) {
		p.pairs.rebuild(s.State, s.Baseline, s.Variant, s.Metric)
		p.stale = true
	}
	if filter != key.filter || projection != key.projection {
		p.stale = true
	}
	if p.maps[0] == nil || p.maps[0].Grid() != p.pairs.places.grid {
		for i := range p.maps {
			p.maps[i] = NewHeat(p.pairs.places.grid, s.Theme)
		}
		p.stale = true
	}
	if p.stale {
		p.pairs.compute(s.Filter, s.Projection, worstKept)
		p.fill()
		p.stale = false
	}
	for _, m := range p.maps {
		m.SetTheme(s.Theme)
		m.SetFilter(s.Filter)
		m.SetProjection(s.Projection)
		m.SetCursor(s.Cursor)
	}
	layout := p.layout()
	for i, part := range []comparePart{compareA, compareB, compareDiff} {
		r := layout.parts[part]
		m, _ := mapParts(r.h)
		p.maps[i].SetSize(r.w, m)
	}
}

// fill gives the maps their values. A and B share one scale, whatever is
// locked elsewhere: without it they could not be compared.
func (p *Compare) fill() {
	c := &p.pairs
	p.maps[0].SetValues(c.left.metric, c.left.states)
	p.maps[1].SetValues(c.right.metric, c.right.states)
	p.maps[2].SetValues(c.changes, c.states)
	both := slices.Grow(p.both[:0], 2*len(c.changes))
	for t := range c.changes {
		if shownAt(p.scene, t) {
			both = append(both, c.left.metric[t], c.right.metric[t])
		}
	}
	p.both = both
	scale := RobustScale(both)
	scale.NonFinite = 0 // most of them are only not measured yet
	scale.Flip = c.metric.Worse < 0
	p.maps[0].SetScale(scale)
	p.maps[1].SetScale(scale)
	c.outcome.shared = scale
	c.outcome.scale.Flip = scale.Flip
	p.maps[2].SetScale(c.outcome.scale)
}

func (p *Compare) layout() compareLayout {
	return arrangeCompare(p.w, p.h, p.pairs.places.layers(), p.part)
}

// mapParts shares the lines of a map's part: a title, the map, a legend.
func mapParts(h int) (lines int, legend bool) {
	if h >= 6 {
		return h - 2, true
	}
	return max(h-1, 0), false
}

// Keys lists the keys of the pane.
func (p *Compare) Keys() []Key {
	other := Key{Keys: []string{"o"}, Label: "o", Help: "other view: " + comparePartNames[(p.part+1)%compareParts]}
	back := Key{Keys: []string{"O"}, Label: "O", Help: "view before"}
	if !p.layout().small {
		other.Disabled, back.Disabled = "everything is on the screen", "everything is on the screen"
	}
	swap := Key{Keys: []string{"x"}, Label: "x", Help: "swap A and B"}
	worst := Key{Keys: []string{"g"}, Label: "g", Help: "next regression"}
	if _, _, ok := p.sides(); !ok {
		swap.Disabled = "there are no two variants"
	}
	if len(p.pairs.outcome.worst) == 0 {
		worst.Disabled = "no regressions"
	}
	return []Key{
		swap, worst, other, back,
		{Keys: []string{"up", "k"}, Label: "↑ k", Help: "layer above"},
		{Keys: []string{"down", "j"}, Label: "↓ j", Help: "layer below"},
		{Keys: []string{"left", "h"}, Label: "← h", Help: "cell before"},
		{Keys: []string{"right", "l"}, Label: "→ l", Help: "cell after"},
		{Keys: []string{"n"}, Label: "n", Help: "next tensor"},
		{Keys: []string{"N"}, Label: "N", Help: "tensor before"},
	}
}

// HandleKey acts on the keys that Keys lists.
func (p *Compare) HandleKey(k tea.KeyMsg) (bool, tea.Cmd) {
	switch key := k.String(); key {
	case "x":
		if _, _, ok := p.sides(); !ok {
			return false, nil
		}
		a, b := p.scene.Baseline, p.scene.Variant
		p.scene.SetBaseline(b)
		p.scene.SetVariant(a)
	case "g":
		p.refresh()
		return p.nextRegression(), nil
	case "o", "O":
		if !p.layout().small {
			return false, nil
		}
		step := comparePart(1)
		if key == "O" {
			step = compareParts - 1
		}
		p.part = (p.part + step) % compareParts
		p.version++
	case "up", "k":
		p.move(0, -1)
	case "down", "j":
		p.move(0, 1)
	case "left", "h":
		p.move(-1, 0)
	case "right", "l":
		p.move(1, 0)
	case "n":
		p.scene.SetCursor(stepInOrder(p.scene, 1))
	case "N":
		p.scene.SetCursor(stepInOrder(p.scene, -1))
	default:
		return false, nil
	}
	return true, nil
}

// move steps over the map that is shown; all three have the same geometry.
func (p *Compare) move(dx, dy int) {
	p.refresh()
	shown := p.maps[2]
	if l := p.layout(); l.small && p.part == compareA || p.part == compareB {
		shown = p.maps[p.part-compareA]
	}
	p.scene.SetCursor(shown.Move(dx, dy))
}

// nextRegression moves the cursor to the regression after the one it is on, or
// to the worst.
func (p *Compare) nextRegression() bool {
	list := p.pairs.outcome.worst
	if len(list) == 0 {
		return false
	}
	at := slices.IndexFunc(list, func(r regression) bool { return r.tensor == p.scene.Cursor })
	p.scene.SetCursor(list[(at+1)%len(list)].tensor)
	return true
}

// HandleMouse moves the cursor to the cell of a map, or to a regression.
func (p *Compare) HandleMouse(x, y int, m tea.MouseMsg) (bool, tea.Cmd) {
	if m.Action != tea.MouseActionPress || m.Button != tea.MouseButtonLeft {
		return false, nil
	}
	p.refresh()
	layout := p.layout()
	for i, part := range []comparePart{compareA, compareB, compareDiff} {
		if r := layout.parts[part]; r.has(x, y) {
			tensor, ok := p.maps[i].At(x-r.x, y-r.y-1)
			if ok {
				p.scene.SetCursor(tensor)
			}
			return ok, nil
		}
	}
	if r := layout.parts[compareWorst]; r.has(x, y) {
		if i := y - r.y - 2; i >= 0 && i < len(p.pairs.outcome.worst) {
			p.scene.SetCursor(p.pairs.outcome.worst[i].tensor)
			return true, nil
		}
	}
	return false, nil
}

// View draws the screen.
func (p *Compare) View() string {
	now := compareDrawing{p.version, p.scene.Version, p.scene.Theme, p.scene.State, p.w, p.h}
	if p.drawn != now || p.cached == "" {
		p.cached, p.drawn = p.draw(), now
	}
	return p.cached
}

func (p *Compare) draw() string {
	th := p.scene.Theme
	a, b, ok := p.sides()
	switch {
	case !ok:
		return Block([]string{th.Dim.Render(Truncate("no two variants to compare yet", p.w))}, p.w, p.h)
	case p.scene.Baseline == p.scene.Variant:
		text := "A and B are both " + Clean(a.Name) + ": choose another baseline with b, or another variant with v"
		return Block(wrapped(th.Text, text, p.w), p.w, p.h)
	}
	p.refresh()
	layout := p.layout()
	blocks := []placed{{layout.head, p.head(a, b, layout.head)}, {layout.cursor, p.underCursor(layout.cursor)}}
	for part, r := range layout.parts {
		if !r.empty() {
			blocks = append(blocks, placed{r, p.drawPart(comparePart(part), r, a, b)})
		}
	}
	return compose(p.w, p.h, blocks)
}

func (p *Compare) drawPart(part comparePart, r rect, a, b *sessions.Variant) string {
	th, s := p.scene.Theme, p.scene
	switch part {
	case compareA:
		return p.drawMap(0, "A  "+th.VariantTag(a.Name, a.ID), r)
	case compareB:
		return p.drawMap(1, "B  "+th.VariantTag(b.Name, b.ID), r)
	case compareDiff:
		unit := "  " + p.pairs.metric.Name
		if p.pairs.change.unit != "" {
			unit += ", " + p.pairs.change.unit
		}
		return p.drawMap(2, th.Title.Render("B − A")+th.Dim.Render(unit), r)
	case comparePaired:
		return Block(pairedTable(th, &p.pairs, a, b, r.w), r.w, r.h)
	case compareWorst:
		return worstTable(th, &p.pairs, s.State.Tensors, s.Cursor, r.w, r.h)
	case compareScatter:
		return Block(strings.Split(scatterChart(th, &p.pairs, s.Cursor, b.ID, r.w, r.h), "\n"), r.w, r.h)
	case compareSpread:
		return Block(strings.Split(spreadChart(th, &p.pairs, b.ID, r.w, r.h), "\n"), r.w, r.h)
	case comparePlaces:
		layer := -1
		if s.Cursor >= 0 && s.Cursor < len(s.State.Tensors) {
			layer = p.pairs.places.layer(s.Cursor)
		}
		return comparePlacesTable(th, &p.pairs, p.pairs.places.projectionIndex(s.Projection), layer, r.w, r.h)
	}
	return ""
}

// drawMap draws one of the maps under its title.
func (p *Compare) drawMap(i int, title string, r rect) string {
	lines := []string{title}
	n, legend := mapParts(r.h)
	if n > 0 {
		lines = append(lines, strings.Split(p.maps[i].View(), "\n")...)
	}
	if legend {
		format, scale := p.pairs.metric.Format, p.pairs.outcome.shared
		if i == 2 {
			format, scale = p.pairs.change.format, p.pairs.outcome.scale
		}
		lines = append(lines, p.scene.Theme.ScaleLegend(scale, format, r.w))
	}
	return Block(lines, r.w, r.h)
}

// head says who is compared and, in one line, the outcome.
func (p *Compare) head(a, b *sessions.Variant, r rect) string {
	th, o := p.scene.Theme, &p.pairs.outcome
	who := th.Dim.Render("A ") + th.VariantTag(a.Name, a.ID) + th.Dim.Render("   B ") + th.VariantTag(b.Name, b.ID)
	if p.layout().small {
		who += th.Dim.Render("   " + comparePartNames[p.part])
	}
	outcome := o.coverage()
	if p.pairs.metric.Worse != 0 {
		outcome += fmt.Sprintf("  B wins %s, loses %s", thousands(o.by.Wins), thousands(o.by.Losses))
		if o.by.Ties > 0 {
			outcome += fmt.Sprintf(", ties %s", thousands(o.by.Ties))
		}
	}
	outcome += fmt.Sprintf("  mean rel2 %s  p %s", relative(o.rel2.Change()), pValue(o.test.Log10P))
	if !p.layout().small {
		return Block(wrapped(th.Text, compareSentence(a, b, o, p.pairs.metric.Name), r.w), r.w, r.h)
	}
	return Block([]string{who, th.Text.Render(outcome)}, r.w, r.h)
}

// compareSentence says what the table means.
func compareSentence(a, b *sessions.Variant, o *comparison, metric string) string {
	if o.by.N == 0 {
		return fmt.Sprintf("%s against %s: no tensor is measured under both yet.", Clean(b.Name), Clean(a.Name))
	}
	change := o.rel2.Change()
	verb := "changes"
	switch {
	case change < 0:
		verb = "lowers"
	case change > 0:
		verb = "raises"
	}
	text := fmt.Sprintf("%s %s mean rel2 by %s against %s", Clean(b.Name), verb, strings.TrimLeft(relative(change), "+−"), Clean(a.Name))
	if n := o.by.Wins + o.by.Ties + o.by.Losses; n > 0 {
		text += fmt.Sprintf("; by %s it is better on %s of %s", metric, thousands(o.by.Wins), plural(n, "tensor"))
		if o.by.Losses > 0 {
			text += fmt.Sprintf(" and worse on %s", thousands(o.by.Losses))
		}
	}
	if o.missing > 0 {
		text += fmt.Sprintf("; %s not measured yet", thousands(o.missing))
	}
	return text + "."
}

// underCursor is the tensor under the cursor on both sides.
func (p *Compare) underCursor(r rect) string {
	s, th := p.scene, p.scene.Theme
	if r.empty() {
		return ""
	}
	t := s.Cursor
	if t < 0 || t >= len(s.State.Tensors) {
		return Block([]string{th.Dim.Render("no tensor under the cursor")}, r.w, r.h)
	}
	name := th.Title.Render(TruncateMiddle(Clean(s.State.Tensors[t].Name), r.w))
	c := &p.pairs
	figure := func(col *column) string {
		switch {
		case col.states[t] == NotYet:
			return "not yet"
		case col.states[t] == Failed:
			return "failed"
		case !isNumber(col.metric[t]):
			return "not finite"
		}
		return fmt.Sprintf(c.metric.Format, col.metric[t])
	}
	step := signed(c.change.format, c.change.of(c.left.metric[t], c.right.metric[t]))
	if c.change.unit != "" && step != "–" {
		step += " " + c.change.unit
	}
	if r.h < 5 {
		line := fmt.Sprintf("%s  A %s  B %s  B − A %s", c.metric.Name, figure(&c.left), figure(&c.right), step)
		return Block([]string{name, th.Text.Render(Truncate(line, r.w))}, r.w, r.h)
	}
	lines := []string{name}
	for _, row := range [][2]string{{c.metric.Name + ", A", figure(&c.left)}, {c.metric.Name + ", B", figure(&c.right)}, {"B − A", step}} {
		lines = append(lines, th.Dim.Render(Fit(row[0], max(r.w-Width(row[1]), 0)))+th.Text.Render(row[1]))
	}
	return Block(lines, r.w, r.h)
}
