package views

// landPart is one part of the landscape.
type landPart int

const (
	landFigures landPart = iota
	landLayers
	landExperts
	landProjections
	landTail
	landPrices
	landBudget
	landSpread
	landClamps
	landNeighbours
	landSelectors
	landParts
)

var landPartNames = [landParts]string{
	"figures", "layers", "experts", "projections", "tail", "prices", "budget", "spread", "clamped scales", "neighbours", "selectors",
}

// list says that the part is a list whose rows put the cursor on a tensor.
func (p landPart) list() bool { return p >= landLayers && p <= landTail }

// landLayout says where the parts stand; those that are not shown are empty.
// Parts never overlap.
type landLayout struct {
	head  rect
	parts [landParts]rect
}

// landSizes is how many lines parts can use.
type landSizes struct {
	head                                                int
	figures, projections, neighbours, selectors, clamps int
	layers, experts, tail, budget                       int
}

// The sizes at which the screen gains columns.
const (
	landTwoColumns   = 100
	landThreeColumns = 160
	landTall         = 24
	landSpreadH      = 10 // lines that the spread is worth
)

// arrangeLandscape is pure: drawing and mouse read the same layout. only is the
// part that is active: on a small screen it is all that is shown, on a middling
// one it stands below the figures unless it has a place of its own.
func arrangeLandscape(w, h int, n landSizes, only landPart) landLayout {
	var l landLayout
	w, h = max(w, 0), max(h, 0)
	head := min(n.head, h)
	l.head = rect{0, 0, w, head}
	top := head
	if h >= 12 {
		top++
	}
	rest := max(h-top, 0)
	const gap = 3
	switch {
	case w < landTwoColumns || h < landTall:
		l.parts[only] = rect{0, top, w, rest}
	case w < landThreeColumns || h < 36:
		left := (w - gap) / 2
		right := w - gap - left
		budget := min(n.budget, max(rest/2, rest-16)) // a chart is legible in six rows
		l.parts[landPrices] = rect{left + gap, top, right, max(rest-budget-1, 0)}
		l.parts[landBudget] = rect{left + gap, h - budget, right, budget}
		below := only
		if below == landPrices || below == landBudget || below == landFigures {
			below = landLayers
		}
		figures := min(n.figures, max(rest-6, 0))
		l.parts[landFigures] = rect{0, top, left, figures}
		y := top + figures + 1
		l.parts[below] = rect{0, y, left, max(h-y, 0)}
	default:
		left := max((w-2*gap)*3/8, 60)
		middle := (w - 2*gap - left) * 11 / 20
		right := w - 2*gap - left - middle
		stack := func(x, w int, parts []landPart, want []int) int {
			y := top
			for i, part := range parts {
				if room := min(want[i], h-y); room >= 3 {
					l.parts[part] = rect{x, y, w, room}
					y += room + 1
				}
			}
			return y
		}
		y := stack(0, left, []landPart{landFigures, landNeighbours, landSelectors, landClamps}, []int{n.figures, min(n.neighbours, 12), n.selectors, n.clamps})
		tail := min(n.tail, 8)
		lists := rest - min(n.projections, 8) - tail - 3
		y2 := stack(left+gap, middle, []landPart{landLayers, landProjections, landTail, landExperts},
			[]int{min(n.layers, max(lists*3/5, lists-n.experts)), min(n.projections, 8), tail, n.experts})
		stack(left+middle+2*gap, right, []landPart{landPrices, landBudget}, []int{max(rest-n.budget-1, rest/3), n.budget})
		// What is left over below shows how the errors are spread: under both
		// columns where both have room.
		switch {
		case h-max(y, y2) >= landSpreadH:
			y = max(y, y2)
			l.parts[landSpread] = rect{0, y, left + gap + middle, h - y}
		case h-y >= landSpreadH:
			l.parts[landSpread] = rect{0, y, left, h - y}
		case h-y2 >= landSpreadH:
			l.parts[landSpread] = rect{left + gap, y2, middle, h - y2}
		}
	}
	return l
}
