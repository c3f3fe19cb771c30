package views

// CellState is what a map knows of a tensor besides its value.
type CellState uint8

// States of a cell, in the order in which they win over each other where one
// cell stands for several tensors.
const (
	NotYet    CellState = iota // nothing measured yet
	Filtered                   // hidden by the filter
	Absent                     // measured, but what was made has no such figure
	Measured                   // has a value
	Clipped                    // has a value, and deeply clipped blocks
	NotFinite                  // the value, or something it was made from, is NaN or infinite
	Failed                     // could not be measured
)

// HasValue says whether the state goes with a value.
func (s CellState) HasValue() bool { return s == Measured || s == Clipped }

var stateGlyphs = [...]string{NotYet: "·", Filtered: "-", Absent: "∅", Measured: " ", Clipped: "╱", NotFinite: "×", Failed: "!"}

// stateInk are the parameters of a state's glyph.
func (t *Theme) stateInk(s CellState) string {
	switch s {
	case NotFinite:
		return t.ink.warn
	case Failed:
		return t.ink.bad
	}
	return t.ink.faint
}

// stateGlyph is the glyph of a state in its colour.
func (t *Theme) stateGlyph(s CellState) string { return t.paint(stateGlyphs[s], t.stateInk(s)) }
