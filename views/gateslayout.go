package views

// gatesPart is a part of the screen that can have the keys.
type gatesPart int

const (
	gatesTable gatesPart = iota
	gatesCases
	gatesChecks
	gatesArms
	gatesParts
)

var gatesPartNames = [gatesParts]string{"probes", "cases", "honesty", "arms"}

// gatesLayout says where the parts stand; those that are not shown are empty. What
// fills the screen is in text.
type gatesLayout struct {
	head         rect
	table        rect
	cases, text  rect
	checks, arms rect
	side         bool // checks or arms have a column of their own
	beside       bool // cases stand beside the table
}

// gatesWants is what the parts would like to have.
type gatesWants struct {
	head, rows    int // sentences on top; rows of the table
	narrow, wide  int // widths of the table: without intervals, and with
	cases         int // rows of the list
	checks, armsH int // lines
	focus         gatesPart
	full          bool
}

// Sizes at which the screen gains something.
const (
	gatesRoomyW, gatesRoomyH = 100, 24 // table and cases
	gatesWideW, gatesWideH   = 160, 36 // and what can be believed of them
	gatesGap                 = 3
	gatesTableHead           = 2
	gatesArmsLeast           = 12 // lines of the arms below the table
	gatesCaseWell            = 60 // width of cases from which the table takes what it can use
	gatesCaseLeast           = 48 // and what cases keep, so that no arm is left out
)

// gatesSide is the width of the column at the right.
func gatesSide(w int) int { return max(w*23/100, 40) }

// part is the place of a part.
func (l gatesLayout) part(p gatesPart) rect {
	switch p {
	case gatesCases:
		return l.cases
	case gatesChecks:
		return l.checks
	case gatesArms:
		return l.arms
	}
	return l.table
}

// arrangeGates is pure: drawing and mouse read the same layout.
func arrangeGates(w, h int, want gatesWants) gatesLayout {
	var l gatesLayout
	w, h = max(w, 0), max(h, 0)
	if want.full {
		l.text = rect{0, 0, w, h}
		return l
	}
	roomy, wide := w >= gatesRoomyW && h >= gatesRoomyH, w >= gatesWideW && h >= gatesWideH
	head := 1
	switch {
	case roomy:
		head = 3
	case h >= 16:
		head = 2
	case h < 8:
		head = 0
	}
	l.head = rect{0, 0, w, min(want.head, head, h)}
	y := l.head.h
	if y > 0 && h >= 16 {
		y++
	}
	rest := max(h-y, 0)
	table := want.rows + gatesTableHead + 2 // a blank and the legend
	switch {
	case wide:
		l.side, l.beside = true, true
		right := gatesSide(w)
		left := min(want.wide, w*9/20)
		switch most := w - right - 2*gatesGap; {
		case want.wide <= most-gatesCaseWell:
			left = want.wide
		case left < want.narrow && want.narrow <= most-gatesCaseLeast:
			left = want.narrow
		}
		left = max(left, w*3/10)
		middle := w - left - right - 2*gatesGap
		l.table = rect{0, y, left, rest}
		l.detail(rect{left + gatesGap, y, middle, rest}, want)
		x := w - right
		if below := rest - table - 1; below >= want.armsH || below >= gatesArmsLeast {
			l.table.h = table
			l.arms = rect{0, y + table + 1, left, below}
			l.checks = rect{x, y, right, rest}
			return l
		}
		arms := min(want.armsH, rest*11/20)
		if want.checks+1+arms < rest {
			arms = min(want.armsH, rest-want.checks-1)
		}
		l.checks = rect{x, y, right, max(rest-arms-1, 0)}
		l.arms = rect{x, y + rest - arms, right, arms}
	case roomy:
		l.beside = true
		left := max(min(want.narrow, w*3/5), w*2/5)
		const least = 7 // of what stands below the table
		n := min(table, max(rest-least-1, rest*3/5))
		l.table = rect{0, y, left, n}
		below := rect{0, y + n + 1, left, rest - n - 1}
		if want.focus == gatesArms {
			l.arms = below
		} else {
			l.checks = below
		}
		l.detail(rect{left + gatesGap, y, w - left - gatesGap, rest}, want)
	default:
		whole := rect{0, y, w, rest}
		switch want.focus {
		case gatesCases:
			l.detail(whole, want)
		case gatesChecks:
			l.checks = whole
		case gatesArms:
			l.arms = whole
		default:
			l.table = whole
		}
	}
	return l
}

// detail sets the list of cases above the text of one.
func (l *gatesLayout) detail(r rect, want gatesWants) {
	const head = 5 // what the list is of
	list := min(want.cases+head, max(r.h*2/5, 4))
	if r.h < 8 { // too little for both
		l.cases = r
		return
	}
	l.cases = rect{r.x, r.y, r.w, list}
	l.text = rect{r.x, r.y + list + 1, r.w, r.h - list - 1}
}
