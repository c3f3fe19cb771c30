package views

import (
	"github.com/charmbracelet/lipgloss"
	"github.com/muesli/termenv"
)

// Theme is the look: one accent, dim chrome, bright data. Its styles are made
// for one colour profile, so nothing here asks the terminal.
type Theme struct {
	Name    string
	Profile termenv.Profile
	Dark    bool

	Text, Dim, Faint, Accent, Title, Cursor, Good, Warn, Bad lipgloss.Style

	// Variants are the fixed colours of variants, by ID modulo their number.
	// VariantMarks are the marks that tell them apart without colour.
	Variants     []lipgloss.Style
	VariantMarks []string

	ramp    []cell // sequential, low to high
	diverge []cell // diverging, negative to positive, the middle is 0
}

// cell is one colour of a scale, made once: the escape sequences that set it as
// foreground and as background, and the glyph that stands for it without colour.
type cell struct{ fg, bg, glyph string }
