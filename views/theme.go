package views

import (
	"fmt"
	"io"
	"strings"

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

	// solid says that a scale is told by colour, drawn as full blocks; else each
	// cell shows its glyph, coloured where there are colours at all.
	solid bool
	ink   inks
	// variantInks are the parameters of Variants, for drawing by hand.
	variantInks []string
}

// cell is one colour of a scale, made once: the parameters of the sequences
// that set it as foreground and as background (38;2;… and 48;2;…, "" where
// there are no colours), the glyph that stands for it without colour, and the
// glyph that stands for it where the cell is clipped.
type cell struct {
	fg, bg, glyph, clipped string
	fresh                  string // foreground of a cell that was measured just now
	contrast               string // foreground that is legible on bg
	hatch                  string // foreground that can just be told from bg
}

// inks are the parameters of a few styles, for drawing by hand.
type inks struct{ dim, faint, accent, bad, warn, cursor string }

// reset ends any style.
const reset = "\x1b[0m"

// ThemeNames lists the themes, the default first.
func ThemeNames() []string {
	names := make([]string, len(palettes))
	for i, p := range palettes {
		names[i] = p.name
	}
	return names
}

// NewTheme makes a theme for one colour profile and a dark or light background;
// "" is the default one. cividis can be told apart with any colour vision.
func NewTheme(name string, profile termenv.Profile, dark bool) (*Theme, error) {
	if name == "" {
		name = palettes[0].name
	}
	for _, p := range palettes {
		if p.name == name {
			return p.theme(profile, dark), nil
		}
	}
	return nil, fmt.Errorf("unknown theme %q (known: %s)", name, strings.Join(ThemeNames(), ", "))
}

// theme makes the styles of a palette.
func (p palette) theme(profile termenv.Profile, dark bool) *Theme {
	t := &Theme{Name: p.name, Profile: profile, Dark: dark, solid: profile <= termenv.ANSI256}
	r := lipgloss.NewRenderer(io.Discard)
	r.SetColorProfile(profile)
	r.SetHasDarkBackground(dark)
	c := chromeLight
	if dark {
		c = chromeDark
	}
	fg := func(hex string) lipgloss.Style { return r.NewStyle().Foreground(lipgloss.Color(hex)) }
	t.Text = fg(c.text)
	t.Dim = fg(c.dim)
	t.Faint = fg(c.faint)
	t.Accent = fg(c.accent)
	t.Title = fg(c.text).Bold(true)
	t.Cursor = r.NewStyle().Reverse(true)
	t.Good = fg(c.good)
	t.Warn = fg(c.warn)
	t.Bad = fg(c.bad).Bold(true)
	t.ink = inks{
		dim: t.params(c.dim, false), faint: t.params(c.faint, false),
		accent: t.params(c.accent, false), bad: t.params(c.bad, false), warn: t.params(c.warn, false),
	}
	if profile != termenv.Ascii {
		t.ink.cursor = "7"
	}

	hues := variantsLight
	if dark {
		hues = variantsDark
	}
	if p.plainVariants {
		hues = []string{c.text}
	}
	for i := range variantMarks {
		hex := hues[i%len(hues)]
		t.Variants = append(t.Variants, fg(hex))
		t.variantInks = append(t.variantInks, t.params(hex, false))
	}
	t.VariantMarks = variantMarks
	t.makeRamps(p)
	return t
}

// params are the parameters of a colour in this profile, "" without colours.
func (t *Theme) params(hex string, background bool) string {
	if t.Profile == termenv.Ascii {
		return ""
	}
	return t.Profile.Color(hex).Sequence(background)
}

// VariantStyle is the fixed colour of a variant.
func (t *Theme) VariantStyle(id int) lipgloss.Style {
	if len(t.Variants) == 0 || id < 0 {
		return t.Text
	}
	return t.Variants[id%len(t.Variants)]
}

// VariantMark is the mark of a variant: one cell, told from the others by its
// shape.
func (t *Theme) VariantMark(id int) string {
	if len(t.VariantMarks) == 0 || id < 0 {
		return " "
	}
	return t.VariantMarks[id%len(t.VariantMarks)]
}

// VariantTag is a variant's name with its mark, in its colour.
func (t *Theme) VariantTag(name string, id int) string {
	return t.VariantStyle(id).Render(Clean(name) + " " + t.VariantMark(id))
}

// variantInk is the parameters of a variant's colour.
func (t *Theme) variantInk(id int) string {
	if len(t.variantInks) == 0 || id < 0 {
		return ""
	}
	return t.variantInks[id%len(t.variantInks)]
}

// open is the sequence that sets exactly these parameters and nothing that was
// set before; "" without colours.
func (t *Theme) open(params ...string) string {
	if t.Profile == termenv.Ascii {
		return ""
	}
	b := []byte("\x1b[0")
	for _, p := range params {
		if p != "" {
			b = append(b, ';')
			b = append(b, p...)
		}
	}
	return string(append(b, 'm'))
}

// paint sets text in these parameters.
func (t *Theme) paint(text string, params ...string) string {
	if t.Profile == termenv.Ascii {
		return text
	}
	return t.open(params...) + text + reset
}
