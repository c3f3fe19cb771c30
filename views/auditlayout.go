package views

// auditLayout says where the parts of the Audit screen stand; those that are not
// shown are empty. Drawing and mouse read the same one.
type auditLayout struct {
	head, list, beside, detail, spread, findings rect
}

// auditWants is what the parts would like to have, in lines, and what is shown.
type auditWants struct {
	head, layers, pairs, found int
	foundFull                  int // lines of the findings in full, 0 where that is too much
	level                      auditLevel
	spread                     bool // there is something to draw
}

// Sizes at which the screen gains something.
const (
	auditRoomyW, auditRoomyH = 100, 22 // findings and the spread of ratios below the list
	auditWideW               = 170     // pairs beside the layers
	auditGap                 = 3
	auditSpreadH             = 24 // with its title
	auditFindingsFull        = 40 // findings at most that are shown in full below the census
)

// auditHead is how many lines the sentences on top may take.
func auditHead(w, h int) int {
	if w >= auditRoomyW && h >= auditRoomyH {
		return max(h-4, 1)
	}
	return max(min(h-4, h/3), 1)
}

// arrangeAudit is pure.
func arrangeAudit(w, h int, want auditWants) auditLayout {
	var l auditLayout
	w, h = max(w, 0), max(h, 0)
	roomy := w >= auditRoomyW && h >= auditRoomyH
	l.head = rect{0, 0, w, min(want.head, auditHead(w, h), h)}
	y := l.head.h
	if h >= 12 {
		y++
	}
	rest := max(h-y, 0)
	wide := w >= auditWideW
	rows := want.layers + 1 // with the header
	if want.level == auditPairs && !wide {
		rows = want.pairs + 2
	}
	if roomy && want.found > 0 {
		n := min(want.found+1, max(rest*2/5, 2))
		if want.foundFull > 0 && want.foundFull+1 <= rest*2/5 {
			n = want.foundFull + 1
		}
		l.findings = rect{0, h - n, w, n}
		rest = max(rest-n-1, 0)
	}
	switch {
	case wide:
		const detail = 4
		left := (w - auditGap) / 2
		l.list = rect{0, y, left, rest}
		l.beside = rect{left + auditGap, y, w - left - auditGap, max(min(want.pairs+2, rest-detail-1), 0)}
		l.detail = rect{left + auditGap, y + l.beside.h + 1, l.beside.w, min(detail, max(rest-l.beside.h-1, 0))}
	case want.level == auditPairs && rest >= 11:
		const detail = 3
		l.detail = rect{0, y + rest - detail, w, detail}
		l.list = rect{0, y, w, rest - detail - 1}
	default:
		l.list = rect{0, y, w, rest}
	}
	if spare := l.list.h - rows - 1; roomy && want.spread && spare >= 8 && (wide || want.level == auditLayers) {
		l.spread = rect{0, y + rows + 1, l.list.w, min(spare, auditSpreadH)}
		l.list.h = rows
	}
	return l
}
