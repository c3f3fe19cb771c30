package views

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/muesli/termenv"
)

// Align says how a column is set.
type Align uint8

// Alignments.
const (
	Left Align = iota
	Right
	Middle // cut in the middle when too long: names of tensors
)

// Column is one column of a table.
type Column struct {
	Title string
	Align Align
	Width int // in cells; 0 is as wide as its widest cell
	Min   int // narrower than this, it is left out
	Flex  int // share of the room that is left over; 0 takes none
	Drop  int // columns with a larger Drop are left out first where room is short; 0 stays
}

// Table is rows of text under a header. A row may hold styles.
type Table struct {
	Columns  []Column
	Rows     [][]string
	Cursor   int  // row that is marked, -1 for none
	Offset   int  // first row shown
	Marked   bool // there is a column for the mark of the cursor row even where that is out of sight
	NoHeader bool
	More     bool // where rows do not fit, the last line says how many are not shown
	Left     int  // rows that are not shown and not in Rows, for that line
	Dense    bool // one cell between columns instead of two
}

// columnGap is what stands between two columns, in cells.
const columnGap = 2

func (tb Table) gap() int {
	if tb.Dense {
		return 1
	}
	return columnGap
}

// Render draws the table as exactly h lines of exactly w cells. The cursor row
// is marked by "▸" and, with colours, set in reverse.
func (tb Table) Render(t *Theme, w, h int) string {
	if w <= 0 || h <= 0 {
		return Block(nil, w, h)
	}
	lead := tb.lead(w)
	widths := tb.widths(w - lead)
	lines := make([]string, 0, h)
	if !tb.NoHeader {
		titles := make([]string, len(tb.Columns))
		for i, c := range tb.Columns {
			titles[i] = c.Title
		}
		lines = append(lines, t.Dim.Render(spaces(lead)+tb.line(titles, widths)))
	}
	room := tb.room(h)
	for i := max(tb.Offset, 0); i < len(tb.Rows) && i < tb.Offset+room; i++ {
		line := tb.line(tb.Rows[i], widths)
		switch {
		case lead == 0:
		case i == tb.Cursor:
			line = t.Accent.Render("▸") + " " + t.reverse(Fit(line, w-lead))
		default:
			line = spaces(lead) + line
		}
		lines = append(lines, line)
	}
	shown := max(min(len(tb.Rows)-max(tb.Offset, 0), room), 0)
	if hidden := len(tb.Rows) + tb.Left - shown; tb.More && hidden > 0 && len(lines) < h {
		lines = append(lines, t.Dim.Render(spaces(lead)+moreText(hidden)))
	}
	return Block(lines, w, h)
}

// room is the number of rows that a table of h lines shows at most.
func (tb Table) room(h int) int {
	if !tb.NoHeader {
		h--
	}
	if tb.More && len(tb.Rows)+tb.Left > h {
		h--
	}
	return max(h, 0)
}

// moreText says that n more of what stands above it are not shown.
func moreText(n int) string { return ellipsis + " " + thousands(n) + " more" }

// lead is the room for the mark of the cursor row.
func (tb Table) lead(w int) int {
	if (tb.Marked || tb.Cursor >= 0) && w > 2 {
		return 2
	}
	return 0
}

// columnWidth is the width that a column has in a table of w cells, -1 where it
// is left out.
func (tb Table) columnWidth(i, w int) int { return tb.widths(w - tb.lead(w))[i] }

// reverse sets a line in reverse, without the styles within it.
func (t *Theme) reverse(line string) string {
	if t.Profile == termenv.Ascii {
		return line
	}
	return "\x1b[7m" + ansi.Strip(line) + reset
}

// line sets the cells of one row.
func (tb Table) line(row []string, widths []int) string {
	var b strings.Builder
	first := true
	for i, w := range widths {
		if w < 0 {
			continue
		}
		if !first {
			b.WriteString(spaces(tb.gap()))
		}
		first = false
		text := ""
		if i < len(row) {
			text = row[i]
		}
		switch tb.Columns[i].Align {
		case Right:
			b.WriteString(FitRight(text, w))
		case Middle:
			b.WriteString(Fit(TruncateMiddle(text, w), w))
		default:
			b.WriteString(Fit(text, w))
		}
	}
	return b.String()
}

// widths shares w out over the columns: -1 for a column that is left out.
func (tb Table) widths(w int) []int {
	out := make([]int, len(tb.Columns))
	for i, c := range tb.Columns {
		out[i] = c.Width
		if c.Width == 0 && c.Flex == 0 {
			out[i] = Width(c.Title)
			for y := max(tb.Offset, 0); y < len(tb.Rows) && y < tb.Offset+500; y++ {
				if i < len(tb.Rows[y]) {
					out[i] = max(out[i], Width(tb.Rows[y][i]))
				}
			}
		}
		if c.Flex > 0 {
			out[i] = max(c.Width, c.Min, 1)
		}
	}
	for {
		total, flex, shown := 0, 0, 0
		for i, n := range out {
			if n >= 0 {
				total += n
				flex += tb.Columns[i].Flex
				shown++
			}
		}
		total += tb.gap() * max(shown-1, 0)
		if total <= w {
			grow(out, tb.Columns, w-total, flex)
			return out
		}
		if shown <= 1 {
			for i, n := range out {
				if n >= 0 {
					out[i] = w
				}
			}
			return out
		}
		out[tb.leastNeeded(out)] = -1
	}
}

// grow gives what is left over to the columns that want it.
func grow(out []int, columns []Column, room, flex int) {
	for i, n := range out {
		if n >= 0 && columns[i].Flex > 0 && flex > 0 {
			add := room * columns[i].Flex / flex
			out[i] += add
			room -= add
			flex -= columns[i].Flex
		}
	}
}

// leastNeeded is the column to leave out next: the largest Drop; of those, one
// that is not flexible, and the last.
func (tb Table) leastNeeded(out []int) int {
	best := -1
	for i, n := range out {
		if n < 0 {
			continue
		}
		if best >= 0 {
			a, b := tb.Columns[i], tb.Columns[best]
			if a.Drop < b.Drop || a.Drop == b.Drop && a.Flex > 0 && b.Flex == 0 {
				continue
			}
		}
		best = i
	}
	return best
}

// AlignDecimal pads numbers on both sides so that their decimal points stand
// under each other: all results are equally wide. What has no point is aligned
// as if it stood after the last digit.
func AlignDecimal(numbers []string) []string {
	before, after := 0, 0
	cut := func(s string) (int, int) {
		w := Width(s)
		if i := strings.IndexByte(s, '.'); i >= 0 {
			b := Width(s[:i])
			return b, w - b
		}
		i := strings.IndexAny(s, "e ")
		if i < 0 {
			return w, 0
		}
		b := Width(s[:i])
		return b, w - b
	}
	for _, s := range numbers {
		b, a := cut(s)
		before, after = max(before, b), max(after, a)
	}
	out := make([]string, len(numbers))
	for i, s := range numbers {
		b, a := cut(s)
		out[i] = spaces(before-b) + s + spaces(after-a)
	}
	return out
}
