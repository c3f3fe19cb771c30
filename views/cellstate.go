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
	BelowRank                  // has a value, of fewer tokens than the matrix has columns
	Inactive                   // an expert that no token was given to
	FellBack                   // not calibrated, though that was asked for
	NotFinite                  // the value, or something it was made from, is NaN or infinite
	Failed                     // could not be measured
	cellStates
)

// HasValue says whether the state goes with a value.
func (s CellState) HasValue() bool { return s == Measured || s.marked() }

// marked says whether the state is a mark over a value.
func (s CellState) marked() bool { return s == Clipped || s == BelowRank }

// listed says whether a tensor of that state leads the list of the worst, without
// a value.
func (s CellState) listed() bool {
	return s == Failed || s == NotFinite || s == Inactive || s == FellBack
}

// lacks says whether there is no figure for a reason that is nobody's failure.
func (s CellState) lacks() bool { return s == Absent || s == Inactive || s == FellBack }

var stateGlyphs = [cellStates]string{
	NotYet: "·", Filtered: "-", Absent: "∅", Measured: " ", Clipped: "╱", BelowRank: "╲", Inactive: "0", FellBack: "↓", NotFinite: "×", Failed: "!",
}

// stateWords are what a list says instead of a value.
var stateWords = [cellStates]string{Inactive: "0", FellBack: "fell back", NotFinite: "not finite", Failed: "failed"}

// stateInk are the parameters of a state's glyph.
func (t *Theme) stateInk(s CellState) string {
	switch s {
	case NotFinite, Inactive, FellBack:
		return t.ink.warn
	case Failed:
		return t.ink.bad
	}
	return t.ink.faint
}

// stateGlyph is the glyph of a state in its colour.
func (t *Theme) stateGlyph(s CellState) string { return t.paint(stateGlyphs[s], t.stateInk(s)) }
