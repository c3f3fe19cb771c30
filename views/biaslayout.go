package views

// biasLayout says where the parts of the pane stand; those that are not shown are
// empty.
type biasLayout struct {
	head, table  rect
	upper, lower rect // error and figure by depth
	foot         rect // the layer's figures of the selected candidate in a line
	figures      rect // the layer's figures of all
	weights      rect
}

// biasSideW is from what width on figures and weights stand beside the curves.
const biasSideW = 100

// arrangeBias is pure: drawing and mouse read the same layout. rows are candidates,
// whole says that the weights have the room of the curves.
func arrangeBias(w, h, rows int, whole bool) biasLayout {
	var l biasLayout
	w, h = max(w, 0), max(h, 0)
	head := 1
	switch {
	case h >= 24 || w >= biasSideW && h >= 16:
		head = 2
	case h >= 16:
		head = 3 // of narrow lines
	case h < 8:
		head = 0
	}
	l.head = rect{0, 0, w, head}
	y := head
	if h >= 24 {
		y++
	}
	rest := max(h-y, 0)
	most := rest
	if rest >= 10 {
		most = max(rest*2/5, 4)
	}
	l.table = rect{0, y, w, min(rows+1, most)}
	y += l.table.h
	if h >= 20 {
		y++
	}
	if rest = max(h-y, 0); rest < 4 {
		return l
	}
	left := rect{0, y, w, rest}
	if w >= biasSideW && rest >= 10 && !whole {
		side := (w - klGap) * 2 / 5
		if w >= klWideW {
			side = (w - klGap) * 9 / 20
		}
		left.w = w - klGap - side
		x := left.w + klGap
		n := min(rows+2, rest/2)
		l.figures = rect{x, y, side, n}
		l.weights = rect{x, y + n + 1, side, rest - n - 1}
	} else if rest >= 8 && !whole {
		l.foot = rect{0, y + rest - 1, w, 1}
		left.h--
	}
	switch {
	case whole:
		l.weights = left
	case left.h >= 14 || left.w < 60 && left.h >= 10:
		upper := left.h / 2
		l.upper = rect{left.x, left.y, left.w, upper}
		l.lower = rect{left.x, left.y + upper, left.w, left.h - upper}
	case left.w >= 60:
		half := (left.w - 2) / 2
		l.upper = rect{left.x, left.y, half, left.h}
		l.lower = rect{left.x + half + 2, left.y, left.w - half - 2, left.h}
	default:
		l.lower = left
	}
	return l
}

func (p *Bias) layout() biasLayout {
	rows := 0
	if p.known.report != nil {
		rows = len(p.known.report.Setup.Candidates)
	}
	return arrangeBias(p.w, p.h, rows, p.part == biasWeights)
}
