package views

import (
	"math"

	"github.com/lucasb-eyer/go-colorful"
	"github.com/muesli/termenv"
)

// A palette is where a theme's colours come from.
type palette struct {
	name          string
	stops         []string // even steps from low to high, on a dark background
	diverge       [3]string
	basic         []int // colours 0–15 for terminals that have no others, low to high
	plainVariants bool
}

// The stops are samples of the maps of the same names by Smith, van der Walt
// and Firing (viridis, magma) and by Nuñez, Anderton and Renslow (cividis), at
// even steps; all three are even in lightness. The darkest part of magma is
// left out: it cannot be told from a black background.
var palettes = []palette{
	{
		name:    "viridis",
		stops:   []string{"#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"},
		diverge: [3]string{"#4fa3ff", "#3a3a3e", "#ff9a3c"},
		basic:   []int{4, 4, 6, 6, 2, 2, 3, 3},
	},
	{
		name:    "cividis",
		stops:   []string{"#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838"},
		diverge: [3]string{"#5aa0ff", "#3a3a3e", "#ffd23c"},
		basic:   []int{4, 4, 4, 7, 7, 7, 3, 3},
	},
	{
		name:    "magma",
		stops:   []string{"#2a1158", "#440f76", "#721f81", "#9e2f7f", "#cd4071", "#f1605d", "#fd9668", "#feca8d", "#fcfdbf"},
		diverge: [3]string{"#58a8ff", "#3a3a3e", "#ff6a8a"},
		basic:   []int{4, 4, 5, 5, 1, 1, 3, 3},
	},
	{
		name:          "gray",
		stops:         []string{"#303030", "#f4f4f4"},
		diverge:       [3]string{"#1c1c1c", "#767676", "#f4f4f4"},
		basic:         []int{8, 8, 8, 7, 7, 7, 15, 15},
		plainVariants: true,
	},
}

// chrome is everything that is not data.
type chrome struct{ text, dim, faint, accent, good, warn, bad string }

var (
	chromeDark  = chrome{text: "#dcdcdc", dim: "#8a8a8a", faint: "#585858", accent: "#5fafff", good: "#87c38a", warn: "#e5c07b", bad: "#ff6b6b"}
	chromeLight = chrome{text: "#262626", dim: "#6c6c6c", faint: "#b2b2b2", accent: "#005faf", good: "#2e7d32", warn: "#8a5a00", bad: "#c62828"}
)

// The colours of variants are those of Okabe and Ito, which differ in any
// colour vision, darkened for light backgrounds.
var (
	variantsDark  = []string{"#56b4e9", "#e69f00", "#2fc99a", "#e08abf", "#f0e442", "#ff7f50", "#a0a0ff", "#c0c0c0"}
	variantsLight = []string{"#0072b2", "#b06f00", "#00795a", "#a8437f", "#857a00", "#b84300", "#4b4bc8", "#444444"}
	variantMarks  = []string{"■", "▲", "●", "◆", "▼", "□", "△", "○"}
)

// rampSteps is the number of colours of a scale: enough that a step is near the
// smallest difference an eye tells apart, few enough that runs of equal cells
// are common.
const rampSteps = 24

// The glyphs that carry a value where colour does not: rising bars, and bars
// growing from the left for clipped cells, so that both value and clipping show
// in one cell. Diverging scales go from shades (below 0) over an equals sign to
// bars (above 0).
var (
	bars    = []string{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}
	sideway = []string{"▏", "▎", "▎", "▍", "▌", "▋", "▊", "▉"}
	signs   = []string{"▓", "▒", "░", "=", "▂", "▅", "█"}
)

// makeRamps fills in the two scales.
func (t *Theme) makeRamps(p palette) {
	if !t.solid {
		t.makeGlyphRamps(p)
		return
	}
	stops := p.stops
	middle := p.diverge[1]
	if !t.Dark {
		middle = "#e4e4e4"
	}
	for i := range rampSteps {
		x := float64(i) / (rampSteps - 1)
		if !t.Dark { // loud is dark where the background is light
			x = 1 - x
		}
		t.ramp = append(t.ramp, t.solidCell(mix(stops, x), i, rampSteps))
	}
	diverging := []string{p.diverge[0], middle, p.diverge[2]}
	const n = rampSteps + 1 // odd, so that 0 has a colour of its own
	for i := range n {
		t.diverge = append(t.diverge, t.solidCell(mix(diverging, float64(i)/(n-1)), i, n))
	}
}

// makeGlyphRamps makes scales whose values are told by glyphs.
func (t *Theme) makeGlyphRamps(p palette) {
	for i, g := range bars {
		c := cell{glyph: g, clipped: sideway[i]}
		if t.Profile == termenv.ANSI {
			c.fg = termenv.ANSIColor(p.basic[i]).Sequence(false)
			c.fresh = "1"
		}
		t.ramp = append(t.ramp, c)
	}
	for i, g := range signs {
		c := cell{glyph: g, clipped: g}
		if t.Profile == termenv.ANSI {
			c.fg = termenv.ANSIColor([]int{6, 6, 6, 8, 3, 3, 3}[i]).Sequence(false)
			c.fresh = "1"
		}
		t.diverge = append(t.diverge, c)
	}
}

// solidCell is a colour of a scale that is drawn as a block; its glyph is used
// where a legend must do without colour.
func (t *Theme) solidCell(c colorful.Color, i, n int) cell {
	l, _, _ := c.Lab()
	ink, toward := "#ffffff", colorful.Color{R: 1, G: 1, B: 1}
	if l > 0.55 {
		ink, toward = "#000000", colorful.Color{}
	}
	bright := colorful.Color{R: 1, G: 1, B: 1}
	if !t.Dark {
		bright = colorful.Color{}
	}
	return cell{
		fg: t.params(c.Hex(), false), bg: t.params(c.Hex(), true),
		glyph: bars[i*len(bars)/n], clipped: sideway[i*len(sideway)/n],
		fresh:    t.params(c.BlendRgb(bright, 0.55).Clamped().Hex(), false),
		contrast: t.params(ink, false),
		hatch:    t.params(c.BlendRgb(toward, 0.30).Clamped().Hex(), false),
	}
}

// mix is the colour at x in [0, 1] of stops at even steps, mixed in CIE Lab so
// that even steps look even.
func mix(stops []string, x float64) colorful.Color {
	pos := x * float64(len(stops)-1)
	i := min(int(math.Floor(pos)), len(stops)-2)
	a, errA := colorful.Hex(stops[i])
	b, errB := colorful.Hex(stops[i+1])
	if errA != nil || errB != nil { // not one of ours
		return colorful.Color{}
	}
	return a.BlendLab(b, pos-float64(i)).Clamped()
}

// cells are the colours of a scale.
func (t *Theme) cells(s Scale) []cell {
	if s.Diverging {
		return t.diverge
	}
	return t.ramp
}
