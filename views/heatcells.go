package views

// heatCell is what one cell of the screen stands for.
type heatCell struct {
	value  float64 // the worst
	tensor int32   // that has it; the first one where nothing is measured
	count  int32   // tensors, those left out by filter or projection too
	state  CellState
	seen   bool // state was set
	fresh  bool
}

// stateRank orders states: the highest one of a cell's tensors is shown.
var stateRank = [cellStates]uint8{Filtered: 0, NotYet: 1, Absent: 2, Measured: 3, Clipped: 4, BelowRank: 5, Inactive: 6, FellBack: 7, NotFinite: 8, Failed: 9}

// shows says whether filter and projection leave a tensor in.
func (h *Heat) shows(t int) bool {
	if !h.filter.Shows(t) {
		return false
	}
	if h.projection == "" {
		return true
	}
	p := h.grid.place[t]
	if int(p.col) < h.grid.Dense {
		return h.grid.Cols[p.col].Projection == h.projection
	}
	return h.grid.Parts[p.part] == h.projection
}

// cellOf is where a tensor stands in the layout.
func (h *Heat) cellOf(t int) (row, col int) {
	p := h.grid.place[t]
	col = int(h.layout.first[p.col])
	if h.layout.parts && int(p.col) >= h.grid.Dense {
		col += int(p.part)
	}
	return int(p.row) / h.layout.perRow, col
}

// addUp makes the cells: each shows the worst of its tensors.
func (h *Heat) addUp() {
	l := &h.layout
	n := l.rows * len(l.cols)
	if cap(h.cells) < n {
		h.cells = make([]heatCell, n)
	}
	h.cells = h.cells[:n]
	clear(h.cells)
	if n == 0 {
		return
	}
	wanted := make([]bool, len(h.grid.Parts))
	for i, p := range h.grid.Parts {
		wanted[i] = h.projection == "" || p == h.projection
	}
	for t, p := range h.grid.place {
		col := int(l.first[p.col])
		s := h.states[t]
		if int(p.col) >= h.grid.Dense {
			if l.parts {
				col += int(p.part)
			}
			if !wanted[p.part] {
				continue // the cell shows another projection
			}
		} else if h.projection != "" && h.grid.Cols[p.col].Projection != h.projection {
			s = Filtered
		}
		if !h.filter.Shows(t) {
			s = Filtered
		}
		if s == Clipped && h.hideClips {
			s = Measured
		}
		h.cells[int(p.row)/l.perRow*len(l.cols)+col].take(int32(t), s, h.values[t], &h.scale)
	}
	for _, t := range h.fresh {
		if t >= 0 && t < len(h.states) {
			row, col := h.cellOf(t)
			h.cells[row*len(l.cols)+col].fresh = true
		}
	}
}

// take adds one tensor to a cell; the scale says which values are worse.
func (c *heatCell) take(t int32, s CellState, v float64, k *Scale) {
	if c.count == 0 {
		c.tensor = t
	}
	c.count++
	switch {
	case !c.seen || stateRank[s] > stateRank[c.state]:
		// Measured and clipped tensors compete by value, whatever the mark.
		if c.seen && c.state.HasValue() && s.HasValue() && !k.worse(v, c.value) {
			c.state = s
			return
		}
		c.state, c.seen = s, true
		c.tensor, c.value = t, v
	case s.HasValue() && c.state.HasValue() && k.worse(v, c.value):
		c.tensor, c.value = t, v
	}
}
