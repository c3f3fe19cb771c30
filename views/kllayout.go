package views

// klPart is one part of the screen below the table.
type klPart int

const (
	klWorst klPart = iota
	klSpread
	klPlaces
	klPairs
	klWhere
	klCorpora
	klGates
	klAttribution
	klProbes
	klPosition // the selected one of the worst; where there is room below them
	klParts
)

var klPartNames = [klParts]string{
	"worst positions", "distribution", "KL by position", "pairs", "confidence and tokens", "corpora", "gates", "attribution", "output errors", "position",
}

// klLayout says where the parts of the KL screen stand; those that are not shown
// are empty. all says that everything there is is on the screen.
type klLayout struct {
	head, table rect
	parts       [klParts]rect
	all         bool
}

// klWants is what the parts would like to have, in lines with their titles, and
// what is chosen.
type klWants struct {
	head, rows int // sentences on top, rows of the table
	has        [klParts]bool
	lines      [klParts]int
	only       klPart // shown where there is no room for all
	full       bool   // one position fills the screen
	fits       bool   // the table has room for every corpus
}

// Sizes at which the screen gains something.
const (
	klRoomyW, klRoomyH = 100, 24 // two columns below the table
	klWideW, klWideH   = 160, 36 // three
	klGap              = 3
	klChartH           = 9 // least height of a chart with its title
)

// arrangeKL is pure: drawing and mouse read the same layout.
func arrangeKL(w, h int, want klWants) klLayout {
	var l klLayout
	w, h = max(w, 0), max(h, 0)
	roomy, wide := w >= klRoomyW && h >= klRoomyH, w >= klWideW && h >= klWideH
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
	if want.full {
		l.parts[klPosition] = rect{0, 0, w, h}
		l.head.h = 0
		return l
	}
	if roomy && y > 0 {
		y++
	}
	rest := h - y
	most := rest
	if rest >= 10 {
		most = max(rest*11/20, 4)
	}
	l.table = rect{0, y, w, min(want.rows+1, most)}
	y += l.table.h
	if h >= 16 {
		y++
	}
	rest = max(h-y, 0)
	if rest < 3 {
		return l
	}
	switch {
	case wide:
		l.wide(w, y, rest, want)
	case roomy:
		left := (w - klGap) / 2
		right := rect{left + klGap, y, w - left - klGap, rest}
		only := want.only
		if rest >= 2*klChartH+1 {
			upper := (rest - 1) / 2
			l.parts[klSpread] = rect{0, y, left, upper}
			l.parts[klPlaces] = rect{0, y + upper + 1, left, rest - upper - 1}
		} else {
			l.parts[klSpread] = rect{0, y, left, rest}
		}
		if !l.parts[only].empty() {
			only = klWorst
		}
		l.parts[only] = right
		if lines := want.lines[klPosition]; only == klWorst && rest >= 18 {
			below := min(lines, rest*2/5)
			l.parts[klWorst].h = rest - below - 1
			l.parts[klPosition] = rect{right.x, y + rest - below, right.w, below}
		}
	default:
		l.parts[want.only] = rect{0, y, w, rest}
	}
	return l
}

// wide sets three columns: charts, worst positions, and what can be said in
// tables.
func (l *klLayout) wide(w, y, h int, want klWants) {
	side := (w - 2*klGap) * 3 / 10
	middle := w - 2*side - 2*klGap
	upper := (h - 1) / 2
	l.parts[klSpread] = rect{0, y, side, upper}
	l.parts[klPlaces] = rect{0, y + upper + 1, side, h - upper - 1}
	below := min(want.lines[klPosition], h/2)
	l.parts[klWorst] = rect{side + klGap, y, middle, h - below - 1}
	l.parts[klPosition] = rect{side + klGap, y + h - below, middle, below}
	x, room := w-side, h
	listed := []klPart{klPairs, klGates, klAttribution, klWhere, klProbes}
	if !want.fits {
		listed = append(listed, klCorpora)
	}
	const least = 4
	left := 0 // parts still to be placed
	for _, part := range listed {
		if want.has[part] {
			left++
		}
	}
	l.all = true
	for _, part := range listed {
		if !want.has[part] {
			continue
		}
		left--
		n := min(want.lines[part], room-left*(least+1))
		if left == 0 {
			n = min(want.lines[part], room)
		}
		if n < min(least, want.lines[part]) {
			l.all = false
			continue
		}
		l.parts[part] = rect{x, y + h - room, side, n}
		room -= n + 1
	}
	if !l.all && l.parts[want.only].empty() { // what is chosen takes the column
		for _, part := range listed {
			l.parts[part] = rect{}
		}
		l.parts[want.only] = rect{x, y, side, h}
	}
}
