package views

import (
	"slices"
	"strings"
)

// rect is a part of a pane, in cells.
type rect struct{ x, y, w, h int }

func (r rect) empty() bool { return r.w <= 0 || r.h <= 0 }

func (r rect) has(x, y int) bool { return x >= r.x && x < r.x+r.w && y >= r.y && y < r.y+r.h }

// comparePart is one part of the comparison.
type comparePart int

const (
	compareDiff comparePart = iota
	compareA
	compareB
	comparePaired
	compareWorst
	compareScatter
	compareSpread
	comparePlaces
	compareTradeTable
	compareTradeChart
	compareTradeSums
	compareParts

	compareCycle = compareTradeTable // the parts before it are shown one after the other
)

var comparePartNames = [compareParts]string{
	"map of B − A", "map of A", "map of B", "paired table", "regressions", "A against B", "spread of changes", "layers and projections",
	"the trade: table", "the trade: weight against output error", "the trade: sums",
}

// compareLayout says where the parts stand; those that are not shown are empty.
// Parts never overlap. small says that one part is shown at a time.
type compareLayout struct {
	small  bool
	shared bool // spread and places share a place
	head   rect // one line: who is compared, and the outcome
	cursor rect // what is under the cursor
	parts  [compareParts]rect
}

// arrangeCompare is pure: drawing and mouse read the same layout. rows is the
// number of rows of the maps, which take no more lines than they can use. only is
// what a small screen shows, places that the table of places has the place that
// it shares with the spread.
func arrangeCompare(w, h, rows int, only comparePart, places bool) compareLayout {
	var l compareLayout
	w, h = max(w, 0), max(h, 0)
	const gap = 3
	if w < 100 || h < 24 {
		l.small = true
		l.head = rect{0, 0, w, min(h, 2)}
		cursor := 0
		if h >= 8 {
			cursor = 2
			l.cursor = rect{0, h - cursor, w, cursor}
		}
		l.parts[only] = rect{0, l.head.h, w, max(h-l.head.h-cursor, 0)}
		return l
	}
	side := 34
	if w >= 160 {
		side = 46
	}
	left := w - side - gap
	top := 3 // the sentence, which may take two lines, and a blank
	if w >= 130 {
		top = 2
	}
	l.head = rect{0, 0, w, top - 1}
	maps := min((h-top)*11/20, max(4*rows+3, 8))
	each := (left - 2*gap) / 3
	for i, part := range []comparePart{compareA, compareB, compareDiff} {
		l.parts[part] = rect{i * (each + gap), top, each, maps}
	}
	below := top + maps + 1
	rest := h - below
	x := w - side
	paired := min(pairedLines, h-top)
	l.parts[comparePaired] = rect{x, top, side, paired}
	y := top + paired + 1
	l.cursor = rect{x, y, side, min(5, max(h-y, 0))}
	y += 6
	l.parts[compareWorst] = rect{x, y, side, max(h-y, 0)}
	if w >= 160 && rest >= 16 {
		third := (left - 2*gap) / 3
		l.parts[compareScatter] = rect{0, below, third, rest}
		l.parts[compareSpread] = rect{third + gap, below, third, rest}
		l.parts[comparePlaces] = rect{2 * (third + gap), below, left - 2*(third+gap), rest}
		return l
	}
	half := (left - gap) / 2
	l.shared = true
	l.parts[compareScatter] = rect{0, below, half, rest}
	beside := compareSpread
	if places {
		beside = comparePlaces
	}
	l.parts[beside] = rect{half + gap, below, left - half - gap, rest}
	return l
}

// placed is a block of text and where it stands; the block fills its rect.
type placed struct {
	at    rect
	block string
}

// compose sets blocks that do not overlap into h lines of w cells.
func compose(w, h int, blocks []placed) string {
	blocks = slices.DeleteFunc(slices.Clone(blocks), func(p placed) bool { return p.at.empty() })
	slices.SortStableFunc(blocks, func(a, b placed) int { return a.at.x - b.at.x })
	lines := make([][]string, len(blocks))
	for i, p := range blocks {
		lines[i] = strings.Split(p.block, "\n")
	}
	out := make([]string, max(h, 0))
	var b strings.Builder
	for y := range out {
		b.Reset()
		at := 0
		for i, p := range blocks {
			if row := y - p.at.y; row >= 0 && row < p.at.h && row < len(lines[i]) {
				b.WriteString(spaces(p.at.x - at))
				b.WriteString(lines[i][row])
				at = p.at.x + p.at.w
			}
		}
		out[y] = b.String()
	}
	return Block(out, w, h)
}
