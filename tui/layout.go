package tui

// Rect is a part of the screen, in cells from the top left. A rectangle without
// width or height holds nothing.
type Rect struct{ X, Y, W, H int }

// Contains says whether the cell (x, y) lies in r.
func (r Rect) Contains(x, y int) bool {
	return r.X <= x && x < r.X+r.W && r.Y <= y && y < r.Y+r.H
}

// Placed is a pane and where it stands. Rect is all that belongs to it, Body is
// what it draws; a pane with a title has it in the row above its body.
type Placed struct {
	ID PaneID
	Rect
	Title Rect // no height where the pane has no title
	Body  Rect
}

// Layout says where everything stands. Header, Tabs, Message, Footer, Rules and
// the panes' rectangles tile the screen.
type Layout struct {
	W, H                          int
	Small                         bool // too small for panes: nothing below is set
	Header, Tabs, Message, Footer Rect
	Panes                         []Placed
	Rules                         []Rect // columns between panes
}

// The smallest screen that holds panes.
const (
	MinWidth  = 60
	MinHeight = 16
)

// Sizes at which a screen gains something. Below twoColumns one pane is shown
// at a time; a screen as tall as airyHeight has a blank row under its tabs.
const (
	twoColumns   = 110
	threeColumns = 168
	airyHeight   = 30

	detailWidth = 48 // inner: a name and three variants beside each other; at 120 columns 16 experts of three projections have room beside it
	worstWidth  = 46 // inner: place, value and a sparkline per variant
	stripHeight = 2  // the detail under a narrow map
)

// Arrange is pure: the same arguments give the same rectangles, and the mouse
// and the renderer read the same value. On a narrow screen focus says which
// pane of the screen is shown. Negative sizes are taken as 0.
func Arrange(w, h int, screen Screen, focus PaneID) Layout {
	l := Layout{W: max(w, 0), H: max(h, 0)}
	if l.W < MinWidth || l.H < MinHeight {
		l.Small = true
		return l
	}
	tabs := 1
	if l.H >= airyHeight {
		tabs = 2
	}
	l.Header = Rect{0, 0, l.W, 1}
	l.Tabs = Rect{0, 1, l.W, tabs}
	l.Message = Rect{0, l.H - 2, l.W, 1}
	l.Footer = Rect{0, l.H - 1, l.W, 1}
	body := Rect{0, 1 + tabs, l.W, l.H - 3 - tabs}

	columns := columnsOf(l.W, screen, focus)
	if len(columns) == 1 && columns[0].id == PaneMap && screen == ScreenMap {
		strip := Rect{0, body.Y + body.H - stripHeight, l.W, stripHeight}
		body.H -= stripHeight
		l.place(PaneMap, body)
		l.Panes = append(l.Panes, Placed{ID: PaneDetail, Rect: strip, Body: inset(strip)})
		return l
	}
	x := 0
	for i, c := range columns {
		if i > 0 {
			l.Rules = append(l.Rules, Rect{x, body.Y, 1, body.H})
			x++
		}
		l.place(c.id, Rect{x, body.Y, c.width, body.H})
		x += c.width
	}
	return l
}

// place adds a pane with a title.
func (l *Layout) place(id PaneID, r Rect) {
	inner := inset(r)
	l.Panes = append(l.Panes, Placed{
		ID: id, Rect: r,
		Title: Rect{inner.X, inner.Y, inner.W, 1},
		Body:  Rect{inner.X, inner.Y + 1, inner.W, inner.H - 1},
	})
}

// inset leaves one blank column at either side.
func inset(r Rect) Rect { return Rect{r.X + 1, r.Y, r.W - 2, r.H} }

type column struct {
	id    PaneID
	width int // outer: with the blank columns
}

// columnsOf is what stands beside each other; the widths and the rules between
// them add up to w.
func columnsOf(w int, screen Screen, focus PaneID) []column {
	const detail, worst = detailWidth + 2, worstWidth + 2
	switch panes := screen.Panes(); {
	case screen == ScreenMap && w >= threeColumns:
		return []column{{PaneMap, w - detail - worst - 2}, {PaneDetail, detail}, {PaneWorst, worst}}
	case screen == ScreenMap && w >= twoColumns && focus == PaneWorst:
		return []column{{PaneMap, w - detail - 1}, {PaneWorst, detail}}
	case screen == ScreenMap && w >= twoColumns:
		return []column{{PaneMap, w - detail - 1}, {PaneDetail, detail}}
	default:
		for _, id := range panes {
			if id == focus {
				return []column{{id, w}}
			}
		}
		return []column{{panes[0], w}}
	}
}

// Hit is the pane at a cell.
func (l *Layout) Hit(x, y int) (Placed, bool) {
	for _, p := range l.Panes {
		if p.Contains(x, y) {
			return p, true
		}
	}
	return Placed{}, false
}
