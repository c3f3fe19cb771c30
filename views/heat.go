package views

import (
	"fmt"
	"slices"
	"strings"
)

// Heat is the drawing of a map: a value for each tensor of a grid, as colours.
// Its setters bump a version only where they change what is seen, and View
// draws once a version.
type Heat struct {
	grid  *Grid
	theme *Theme
	inks  heatInks

	w, h       int
	values     []float64   // by tensor
	states     []CellState // by tensor
	scale      Scale
	cursor     int // tensor, -1 for none
	filter     Filter
	projection string
	fresh      []int // tensors that were measured just now
	hideClips  bool
	tier       *tierPicture // experts by precision in place of values; nil for none

	version uint64 // of what is seen
	drawn   uint64 // version of the cached drawing
	cached  string
	laid    uint64 // version of the layout
	layout  heatLayout
	shape   uint64 // bumped by whatever changes the layout
	content uint64 // bumped by whatever changes the cells: all but the cursor
	added   uint64 // content of cells
	cells   []heatCell
	tiers   []tierCell    // likewise, of a tier
	labels  []columnLabel // of the header, kept for its room
	buf     []byte        // of the drawing, likewise
}

// NewHeat is a map without values.
func NewHeat(g *Grid, th *Theme) *Heat {
	n := g.Tensors()
	return &Heat{
		grid: g, theme: th, inks: newHeatInks(th), cursor: -1,
		values: make([]float64, n), states: make([]CellState, n),
		version: 1, shape: 1, content: 1,
	}
}

// touch says that the cells change.
func (h *Heat) touch() {
	h.content++
	h.version++
}

// Version grows with every change of what is seen.
func (h *Heat) Version() uint64 { return h.version }

// Grid is the geometry.
func (h *Heat) Grid() *Grid { return h.grid }

// SetSize gives the size of the drawing in cells.
func (h *Heat) SetSize(w, hgt int) {
	w, hgt = max(w, 0), max(hgt, 0)
	if w != h.w || hgt != h.h {
		h.w, h.h = w, hgt
		h.shape++
		h.touch()
	}
}

// SetTheme draws in another theme.
func (h *Heat) SetTheme(th *Theme) {
	if th != h.theme {
		h.theme, h.inks = th, newHeatInks(th)
		h.shape++
		h.touch()
	}
}

// SetValues takes the values and states by tensor; they are copied. Tensors
// beyond the end of either are not measured yet. A value counts only where its
// state has one; one that is not finite is drawn as such.
func (h *Heat) SetValues(values []float64, states []CellState) {
	changed := false
	for i := range h.values {
		v, s := 0.0, NotYet
		if i < len(values) && i < len(states) {
			v, s = values[i], states[i]
		}
		if s.HasValue() && !isNumber(v) {
			s = NotFinite
		}
		if !s.HasValue() {
			v = 0
		}
		if v != h.values[i] || s != h.states[i] {
			h.values[i], h.states[i] = v, s
			changed = true
		}
	}
	if changed {
		h.touch()
	}
}

// SetScale sets what the colours mean.
func (h *Heat) SetScale(s Scale) {
	if s != h.scale {
		h.scale = s
		h.touch()
	}
}

// SetCursor marks the cell of a tensor, -1 for none.
func (h *Heat) SetCursor(tensor int) {
	if tensor < 0 || tensor >= h.grid.Tensors() {
		tensor = -1
	}
	if tensor != h.cursor {
		h.cursor = tensor
		h.version++
	}
}

// Cursor is the marked tensor, -1 for none.
func (h *Heat) Cursor() int { return h.cursor }

// SetFilter hides tensors.
func (h *Heat) SetFilter(f Filter) {
	if f.Shown != nil && len(f.Shown) < h.grid.Tensors() {
		f = Filter{} // made for other tensors
	}
	if f.Text != h.filter.Text || (f.Shown == nil) != (h.filter.Shown == nil) {
		h.filter = f
		h.touch()
	}
}

// SetProjection shows one projection only, "" for all.
func (h *Heat) SetProjection(p string) {
	if p != h.projection {
		h.projection = p
		h.shape++
		h.touch()
	}
}

// SetFresh makes the cells of tensors that were measured just now brighter.
func (h *Heat) SetFresh(tensors []int) {
	if !slices.Equal(tensors, h.fresh) {
		h.fresh = append(h.fresh[:0], tensors...)
		h.touch()
	}
}

// SetClipMarks shows or hides the marks of deeply clipped tensors.
func (h *Heat) SetClipMarks(on bool) {
	if on == h.hideClips {
		h.hideClips = !on
		h.touch()
	}
}

// Used is the part of the size that the map really takes: cells grow in whole
// steps only.
func (h *Heat) Used() (w, hgt int) {
	h.refresh()
	l := &h.layout
	switch {
	case len(l.cols) == 0:
		return 0, 0
	case l.half:
		hgt = l.top + (l.rows+1)/2
	default:
		hgt = l.top + l.rows*(l.cellH+l.gapH) - l.gapH
	}
	return min(l.used(), h.w), min(hgt, h.h)
}

// View is the drawing: exactly as many lines and cells as SetSize said.
func (h *Heat) View() string {
	if h.drawn != h.version {
		h.refresh()
		h.cached, h.drawn = h.draw(), h.version
	}
	return h.cached
}

// refresh brings the layout and the cells up to date.
func (h *Heat) refresh() {
	if h.laid != h.shape {
		h.layout = newHeatLayout(h.grid, h.w, h.h, h.projection != "" || h.tier != nil, h.theme.solid)
		h.laid = h.shape
		h.added = 0
	}
	if h.added != h.content {
		h.addUp()
		h.addTier()
		h.added = h.content
	}
}

// At is the tensor of the cell at (x, y) of the drawing: the worst of those it
// stands for.
func (h *Heat) At(x, y int) (tensor int, ok bool) {
	h.refresh()
	row, col, ok := h.layout.cellAt(x, y)
	if !ok {
		return -1, false
	}
	c := h.cells[row*len(h.layout.cols)+col]
	return int(c.tensor), c.count > 0
}

// Move is the tensor that lies dx cells to the right and dy rows down of the
// cursor; cells without tensors of the shown projection are passed over, and
// the edges hold. Without a cursor it is the first cell, without tensors -1.
func (h *Heat) Move(dx, dy int) int {
	h.refresh()
	l := &h.layout
	if len(h.cells) == 0 {
		return h.cursor
	}
	if h.cursor < 0 {
		for _, c := range h.cells {
			if c.count > 0 {
				return int(c.tensor)
			}
		}
		return -1
	}
	row, col := h.cellOf(h.cursor)
	if dx != 0 {
		want := min(max(col+dx, 0), len(l.cols)-1)
		if c, ok := h.nearest(row, want, sign(dx), col); ok {
			return c
		}
		return h.cursor
	}
	step := sign(dy)
	for r := min(max(row+dy, 0), l.rows-1); r != row; r -= step {
		for d := range len(l.cols) {
			for _, c := range [2]int{col - d, col + d} {
				if c >= 0 && c < len(l.cols) {
					if cell := h.cells[r*len(l.cols)+c]; cell.count > 0 {
						return int(cell.tensor)
					}
				}
			}
		}
	}
	return h.cursor
}

// nearest is the first cell with tensors from column want onward in direction
// step, and if there is none, the last one before want on the way from col.
func (h *Heat) nearest(row, want, step, col int) (tensor int, ok bool) {
	n := len(h.layout.cols)
	for c := want; c >= 0 && c < n; c += step {
		if cell := h.cells[row*n+c]; cell.count > 0 {
			return int(cell.tensor), true
		}
	}
	for c := want; c != col; c -= step {
		if cell := h.cells[row*n+c]; cell.count > 0 {
			return int(cell.tensor), true
		}
	}
	return 0, false
}

func sign(n int) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}
	return 0
}

// Bucket lists the tensors that the cell of a tensor stands for, those that are
// filtered out or of another projection left out; by row, column and part.
func (h *Heat) Bucket(tensor int) []int {
	if tensor < 0 || tensor >= h.grid.Tensors() {
		return nil
	}
	h.refresh()
	l := &h.layout
	if len(h.cells) == 0 {
		return []int{tensor}
	}
	row, col := h.cellOf(tensor)
	var out []int
	for r := row * l.perRow; r < min((row+1)*l.perRow, len(h.grid.Rows)); r++ {
		for c := l.cols[col].from; c < l.cols[col].to; c++ {
			for _, t := range h.grid.At(r, c) {
				if p := h.grid.place[t]; l.cols[col].part >= 0 && int(p.part) != l.cols[col].part {
					continue
				}
				if h.shows(int(t)) {
					out = append(out, int(t))
				}
			}
		}
	}
	return out
}

// Over says which of its tensors' values a cell shows where it stands for several,
// in words and in a few cells: max over gate, up, down × 2 experts; max of 6. It
// is "" where a cell stands for one.
func (h *Heat) Over() (words, short string) {
	layers, experts, all := h.Stride()
	var over []string
	n := layers * experts
	if all {
		over = append(over, Clean(strings.Join(h.grid.Parts, ", ")))
		n *= len(h.grid.Parts)
	}
	if experts > 1 {
		over = append(over, fmt.Sprintf("%d experts", experts))
	}
	if layers > 1 {
		over = append(over, fmt.Sprintf("%d layers", layers))
	}
	if over == nil {
		return "", ""
	}
	word := "max"
	if h.scale.Flip {
		word = "min"
	}
	return word + " over " + strings.Join(over, " × "), fmt.Sprintf("%s of %d", word, n)
}

// Stride says how much one cell stands for: layers, experts, and whether it
// stands for all projections of an expert.
func (h *Heat) Stride() (layers, experts int, allParts bool) {
	h.refresh()
	l := &h.layout
	return max(l.perRow, 1), max(l.perCol, 1), !l.parts && h.projection == "" && len(h.grid.Parts) > 1
}
