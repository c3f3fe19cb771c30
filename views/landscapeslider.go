package views

import (
	"math"
	"strings"
)

// landSlider is a budget between the smallest and the largest size that an
// answer can have. It moves in round steps of bits per weight.
type landSlider struct {
	least, most, elements int64
	budget                int64
	step                  float64 // bits per weight
	moved                 bool    // by the person
}

// ready says whether there is anything to choose.
func (s *landSlider) ready() bool { return s.elements > 0 && s.most > 0 }

// bits is a size in bits per weight.
func (s *landSlider) bits(bytes int64) float64 {
	return 8 * float64(bytes) / float64(max(s.elements, 1))
}

// startShare is where the slider stands at first: a tenth of the way up.
const startShare = 0.1

// setRange takes new ends; the budget stays where the person put it, as far as
// the ends let it.
func (s *landSlider) setRange(least, most, elements int64) {
	s.least, s.most, s.elements = least, max(most, least), elements
	s.step = roundStep((s.bits(s.most) - s.bits(s.least)) / 200)
	if !s.moved {
		s.budget = least + int64(startShare*float64(s.most-least))
		s.budget = s.snapped(s.bits(s.budget))
	}
	s.budget = min(max(s.budget, s.least), s.most)
}

// roundStep is the round number of the series 1, 2, 5 that is not below x.
func roundStep(x float64) float64 {
	if !(x > 0) || !isNumber(x) {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(x)))
	for _, k := range []float64{1, 2, 5} {
		if k*unit >= x*(1-1e-9) {
			return k * unit
		}
	}
	return 10 * unit
}

// snapped is the size at the round number of bits per weight next to bits,
// within the ends.
func (s *landSlider) snapped(bits float64) int64 {
	if s.step > 0 {
		bits = math.Round(bits/s.step) * s.step
	}
	bytes := math.Floor(bits*float64(s.elements)/8 + 1e-6)
	return int64(min(max(bytes, float64(s.least)), float64(s.most)))
}

// move goes some steps up or down and says whether that changed anything.
func (s *landSlider) move(steps int, version *uint64) bool {
	if !s.ready() {
		return false
	}
	to := s.snapped(s.bits(s.budget) + float64(steps)*s.step)
	if to == s.budget { // a step that is smaller than a byte, or an end that is no round number
		step := max(int64(s.step*float64(s.elements)/8), 1)
		to = min(max(s.budget+int64(steps)*step, s.least), s.most)
	}
	return s.set(to, version)
}

// moveTo goes to cell x of a bar of w cells.
func (s *landSlider) moveTo(x, w int, version *uint64) bool {
	if !s.ready() || w < 2 {
		return false
	}
	to := s.bits(s.least) + (s.bits(s.most)-s.bits(s.least))*float64(min(max(x, 0), w-1))/float64(w-1)
	switch {
	case x <= 0:
		return s.set(s.least, version)
	case x >= w-1:
		return s.set(s.most, version)
	}
	return s.set(s.snapped(to), version)
}

func (s *landSlider) set(budget int64, version *uint64) bool {
	s.moved = true
	if budget == s.budget {
		return false
	}
	s.budget = budget
	*version++
	return true
}

// place is the cell of a size on a bar of w cells.
func (s *landSlider) place(bytes int64, w int) int {
	if s.most <= s.least || w < 1 {
		return 0
	}
	f := float64(min(max(bytes, s.least), s.most)-s.least) / float64(s.most-s.least)
	return int(math.Round(f * float64(w-1)))
}

// line draws the bar in w cells: filled up to the budget, with a mark where the
// answer is.
func (s *landSlider) line(t *Theme, answer int64, w int) string {
	if w < 3 {
		return spaces(w)
	}
	at := s.place(s.budget, w)
	cells := make([]string, w)
	for x := range cells {
		switch {
		case x == at:
			cells[x] = t.Accent.Render("●")
		case x < at:
			cells[x] = "━"
		default:
			cells[x] = "─"
		}
	}
	var b strings.Builder
	b.WriteString(t.Accent.Render(strings.Join(cells[:at], "")))
	b.WriteString(cells[at])
	rest := cells[at+1:]
	if k := s.place(answer, w) - at - 1; answer > s.budget && k >= 0 && k < len(rest) {
		rest[k] = "◆"
	}
	b.WriteString(t.Dim.Render(strings.Join(rest, "")))
	return b.String()
}
