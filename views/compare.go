package views

import (
	"fmt"
	"slices"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/sessions"
)

// Compare sets two variants beside each other: A is the scene's baseline, B its
// variant. Both maps share one scale and one cursor; a third shows what changes
// from A to B; the table says it in figures, paired by tensor. Tensors that one
// side lacks are left out and counted.
type Compare struct {
	scene  *Scene
	w, h   int
	part   comparePart // what a small screen shows
	places bool        // a middling one shows the table of places instead of the spread
	trade  bool        // weight error against output error is shown, where a side is calibrated
	at     int         // of tradeParts, on a small screen
	trades tradeList
	filled bool // the maps show output errors

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
	trades             uint64 // version of what calibration did, where the metric is of that
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
	metric, coverage := p.scene.Metric.Name, p.pairs.outcome.coverage()
	if p.showsTrade() {
		metric, coverage = tradeMetric, "n = "+thousands(p.trades.n)
	}
	title := fmt.Sprintf("Compare · A %s · B %s · %s · %s", Clean(a.Name), Clean(b.Name), metric, coverage)
	if l := p.layout(); !l.small { // else the one map that may be shown has room to say it
		if words, _ := p.maps[2].Over(); words != "" {
			title += " · cells: " + words
		}
	}
	return title
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
	if b.Reset != nil || len(b.Variants)+len(b.CalibsBegun)+len(b.CalibsDone)+len(b.CalibsEnded) > 0 {
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
	key := compareKey{s.State, s.Baseline, s.Variant, s.Metric.Name, 0, s.Filter.Text, s.Projection}
	trade := p.showsTrade()
	switch {
	case s.Metric.Calibrated() && trade: // the metric is not seen beside the trade
		key.trades = p.key.trades
	case s.Metric.Calibrated():
		key.trades = s.tradesVersion()
	}
	old := p.key
	p.key = key
	filter, projection := old.filter, old.projection
	old.filter, old.projection = key.filter, key.projection
	if old != key || !p.pairs.places.of(s.State.Tensors) {
		p.pairs.figure = nil
		if s.Metric.Calibrated() {
			p.pairs.figure = func(variant, tensor int, r *sessions.Record) (float64, CellState) {
				return s.figure(s.Metric, variant, tensor, r)
			}
		}
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
	if p.stale && !trade {
		p.pairs.compute(s.Filter, s.Projection, worstKept)
		p.fill()
		p.stale, p.filled = false, false
	}
	if trade {
		if p.trades.update(s, s.Baseline, s.Variant) || !p.filled {
			p.fillTrade()
		}
		p.filled = true
	} else if p.filled { // the maps show the metric again
		p.fill()
		p.filled = false
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
		if p.scene.Shown(t) {
			both = append(both, c.left.metric[t], c.right.metric[t])
		}
	}
	p.both = both
	scale := c.metric.scale(both)
	scale.NonFinite = 0 // most of them are only not measured yet
	scale.Flip = c.metric.Worse < 0
	p.maps[0].SetScale(scale)
	p.maps[1].SetScale(scale)
	c.outcome.scale.Flip = scale.Flip
	p.maps[2].SetScale(c.outcome.scale)
}

func (p *Compare) layout() compareLayout {
	if p.showsTrade() {
		return arrangeTrade(p.w, p.h, p.pairs.places.layers(), tradeParts[p.at])
	}
	return arrangeCompare(p.w, p.h, p.pairs.places.layers(), p.part, p.places)
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
	other := Key{Keys: []string{"o"}, Label: "o", Help: "other view: " + comparePartNames[(p.part+1)%compareCycle]}
	back := Key{Keys: []string{"O"}, Label: "O", Help: "view before"}
	trade := Key{Keys: []string{"c"}, Label: "c", Help: "weight error against output error", Disabled: p.tradeOff()}
	if p.showsTrade() {
		trade.Help = "back to the comparison"
		other.Help = "other view: " + comparePartNames[tradeParts[(p.at+1)%len(tradeParts)]]
	}
	switch l := p.layout(); {
	case l.shared && p.places:
		other.Help = "other view: " + comparePartNames[compareSpread]
	case l.shared:
		other.Help = "other view: " + comparePartNames[comparePlaces]
	case !l.small:
		other.Disabled, back.Disabled = "everything is on the screen", "everything is on the screen"
	}
	swap := Key{Keys: []string{"x"}, Label: "x", Help: "swap A and B"}
	worst := Key{Keys: []string{"g"}, Label: "g", Help: "next regression"}
	if _, _, ok := p.sides(); !ok {
		swap.Disabled = "there are no two variants"
	}
	switch {
	case p.showsTrade():
		worst.Help = "next matrix with more output error"
		if p.trades.losses() == 0 {
			worst.Disabled = "no matrix has more output error"
		}
	case len(p.pairs.outcome.worst) == 0:
		worst.Disabled = "no regressions"
	}
	return []Key{
		swap, worst, trade, other, back,
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
		if p.showsTrade() {
			return p.nextLoss(), nil
		}
		return p.nextRegression(), nil
	case "c":
		if p.tradeOff() != "" {
			return false, nil
		}
		p.trade = !p.trade
		p.version++
	case "o", "O":
		switch l := p.layout(); {
		case l.shared:
			p.places = !p.places
			p.version++
			return true, nil
		case !l.small:
			return false, nil
		}
		if p.showsTrade() {
			step := 1
			if key == "O" {
				step = len(tradeParts) - 1
			}
			p.at = (p.at + step) % len(tradeParts)
			p.version++
			return true, nil
		}
		step := comparePart(1)
		if key == "O" {
			step = compareCycle - 1
		}
		p.part = (p.part + step) % compareCycle
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
	if r := layout.parts[compareTradeTable]; r.has(x, y) {
		from, to, _ := p.trades.tradeWindow(p.scene.Cursor, r.h)
		if i := from + y - r.y - 1; i >= from && i < to {
			p.scene.SetCursor(p.trades.rows[i].tensor)
			return true, nil
		}
	}
	if r := layout.parts[compareWorst]; r.has(x, y) {
		list := Table{Rows: make([][]string, p.pairs.outcome.by.Losses), More: true}
		if i := y - r.y - 2; i >= 0 && i < min(list.room(r.h-1), len(p.pairs.outcome.worst)) {
			p.scene.SetCursor(p.pairs.outcome.worst[i].tensor)
			return true, nil
		}
	}
	return false, nil
}
