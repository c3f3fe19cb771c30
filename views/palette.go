package views

import (
	"math"
	"slices"

	"github.com/lucasb-eyer/go-colorful"
	"github.com/muesli/termenv"
)

// A palette is where a theme's colours come from.
type palette struct {
	name          string
	stops         []string // even steps from low to high, on a dark background
	diverge       [3]string
	xterm         []int // colours of 256, low to high
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
		xterm:   []int{53, 54, 24, 30, 36, 71, 78, 113, 148, 184, 220, 226},
		basic:   []int{4, 4, 6, 6, 2, 2, 3, 3},
	},
	{
		name:    "cividis",
		stops:   []string{"#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838"},
		diverge: [3]string{"#5aa0ff", "#3a3a3e", "#ffd23c"},
		xterm:   []int{17, 18, 60, 243, 102, 144, 179, 185, 221, 227},
		basic:   []int{4, 4, 4, 7, 7, 7, 3, 3},
	},
	{
		name:    "magma",
		stops:   []string{"#2a1158", "#440f76", "#721f81", "#9e2f7f", "#cd4071", "#f1605d", "#fd9668", "#feca8d", "#fcfdbf"},
		diverge: [3]string{"#58a8ff", "#3a3a3e", "#ff6a8a"},
		xterm:   []int{17, 54, 90, 126, 161, 167, 203, 209, 216, 222, 229},
		basic:   []int{4, 4, 5, 5, 1, 1, 3, 3},
	},
	{
		name:          "gray",
		stops:         []string{"#303030", "#f4f4f4"},
		diverge:       [3]string{"#1c1c1c", "#767676", "#f4f4f4"},
		xterm:         []int{236, 238, 240, 242, 244, 246, 248, 250, 252, 254, 255},
		basic:         []int{8, 8, 8, 7, 7, 7, 15, 15},
		plainVariants: true,
	},
}

// The diverging scales of 256 colours, for dark and light backgrounds. The
// nearest colours of the 6×6×6 cube to a smooth scale jump back and forth in
// lightness, so these and palette.xterm were picked by hand.
var (
	xtermDivergeDark  = []int{75, 68, 60, 237, 94, 137, 208}
	xtermDivergeLight = []int{33, 75, 153, 254, 223, 215, 208}
	xtermDivergeGray  = []int{234, 238, 241, 244, 248, 252, 255}
)

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
	variantMarks  = []string{"■", "▲", "●", "◆", "▼", "□", "△", "○", "◇", "▽", "★", "☆", "◢", "◣", "◤", "◥", "◧", "◨", "◩", "◪", "◐", "◑", "◒", "◓"}
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
	ramp, diverge := p.smooth(t.Dark)
	if t.Profile == termenv.ANSI256 {
		ramp, diverge = p.coarse(t.Dark)
	}
	if !t.Dark { // loud is dark where the background is light
		slices.Reverse(ramp)
	}
	for i, c := range ramp {
		t.ramp = append(t.ramp, t.solidCell(c, i, len(ramp)))
	}
	for i, c := range diverge {
		t.diverge = append(t.diverge, t.solidCell(c, i, len(diverge)))
	}
}

// smooth is the scales in true colours.
func (p palette) smooth(dark bool) (ramp, diverge []colorful.Color) {
	for i := range rampSteps {
		ramp = append(ramp, mix(p.stops, float64(i)/(rampSteps-1)))
	}
	ends := p.diverge
	if !dark {
		ends[1] = "#e4e4e4"
	}
	const n = rampSteps + 1 // odd, so that 0 has a colour of its own
	for i := range n {
		diverge = append(diverge, mix(ends[:], float64(i)/(n-1)))
	}
	return ramp, diverge
}

// coarse is the scales in colours of 256.
func (p palette) coarse(dark bool) (ramp, diverge []colorful.Color) {
	for _, i := range p.xterm {
		ramp = append(ramp, xterm(i))
	}
	arms := xtermDivergeLight
	switch {
	case p.plainVariants:
		arms = xtermDivergeGray
	case dark:
		arms = xtermDivergeDark
	}
	for _, i := range arms {
		diverge = append(diverge, xterm(i))
	}
	return ramp, diverge
}

// xterm is a colour of 256: 16 to 231 are a cube of six steps a side, 232 to
// 255 greys.
func xterm(i int) colorful.Color {
	if i >= 232 {
		v := float64(8+10*(i-232)) / 255
		return colorful.Color{R: v, G: v, B: v}
	}
	steps := [6]float64{0, 95, 135, 175, 215, 255}
	i -= 16
	return colorful.Color{R: steps[i/36%6] / 255, G: steps[i/6%6] / 255, B: steps[i%6] / 255}
}

// nearestXterm is the colour of 256 that looks most like c.
func nearestXterm(c colorful.Color) int {
	best, distance := 16, math.Inf(1)
	for i := 16; i < 256; i++ {
		if d := c.DistanceLab(xterm(i)); d < distance {
			best, distance = i, d
		}
	}
	return best
}

// colour is the parameters of a colour in this profile.
func (t *Theme) colour(c colorful.Color, background bool) string {
	if t.Profile == termenv.ANSI256 {
		return termenv.ANSI256Color(nearestXterm(c)).Sequence(background)
	}
	return t.params(c.Hex(), background)
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
		fg: t.colour(c, false), bg: t.colour(c, true),
		glyph: bars[i*len(bars)/n], clipped: sideway[i*len(sideway)/n],
		fresh:    t.colour(c.BlendRgb(bright, 0.55).Clamped(), false),
		contrast: t.params(ink, false),
		hatch:    t.colour(c.BlendRgb(toward, 0.30).Clamped(), false),
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
