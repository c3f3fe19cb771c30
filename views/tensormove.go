package views

// moveByKey moves the cursor in the model: up and down by layers at the same
// column, left and right along the layer, n and N in the order of the
// checkpoint. Tensors that are not shown are passed over. It says whether the
// key was one of these.
func moveByKey(s *Scene, p *places, key string) bool {
	switch key {
	case "up", "k":
		s.SetCursor(stepInModel(s, p, -1, 0))
	case "down", "j":
		s.SetCursor(stepInModel(s, p, 1, 0))
	case "left":
		s.SetCursor(stepInModel(s, p, 0, -1))
	case "right":
		s.SetCursor(stepInModel(s, p, 0, 1))
	case "n":
		s.SetCursor(stepInOrder(s, 1))
	case "N":
		s.SetCursor(stepInOrder(s, -1))
	default:
		return false
	}
	return true
}

// stepInOrder is the next shown tensor after the cursor, or before it; the
// cursor itself where there is none.
func stepInOrder(s *Scene, by int) int {
	for t := s.Cursor + by; t >= 0 && t < len(s.State.Tensors); t += by {
		if s.Shown(t) {
			return t
		}
	}
	return s.Cursor
}

// stepInModel is the nearest shown tensor some rows or columns of the map away:
// of those in the next row or column that has any, the one in the same part.
func stepInModel(s *Scene, p *places, rows, cols int) int {
	if s.Cursor < 0 || s.Cursor >= len(s.State.Tensors) || p.grid == nil {
		return stepInOrder(s, 1)
	}
	row, col, part := p.grid.Place(s.Cursor)
	for {
		row, col = row+rows, col+cols
		if row < 0 || row >= len(p.grid.Rows) || col < 0 || col >= len(p.grid.Cols) {
			return s.Cursor
		}
		best := -1
		for _, t := range p.grid.At(row, col) {
			if !s.Shown(int(t)) {
				continue
			}
			if _, _, at := p.grid.Place(int(t)); best < 0 || at == part {
				best = int(t)
			}
		}
		if best >= 0 {
			return best
		}
	}
}
