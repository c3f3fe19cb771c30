package report

import (
	"fmt"
	"html"
	"html/template"
	"strconv"
	"strings"
)

// svg is a picture in the making. Whatever text it is given is escaped.
type svg struct {
	b strings.Builder
}

// ids counts the pictures of a page, so that each has names of its own.
type ids int

func (n *ids) next() string {
	*n++
	return "g" + strconv.Itoa(int(*n))
}

// start opens a picture of a width and height in its own units, with a title and a
// description for those who do not see it. attrs are further attributes, as
// name and value in turn.
func (s *svg) start(n *ids, w, h float64, title, desc string, attrs ...string) {
	id := n.next()
	s.raw(`<svg class="plot" role="img" viewBox="0 0 `, num(w), " ", num(h), `" aria-labelledby="`, id, "t ", id, `d"`)
	for i := 0; i+1 < len(attrs); i += 2 {
		s.raw(" ", attrs[i], `="`, html.EscapeString(attrs[i+1]), `"`)
	}
	s.raw(`><title id="`, id, `t">`, html.EscapeString(title), `</title><desc id="`, id, `d">`, html.EscapeString(desc), `</desc>`)
}

// end closes the picture.
func (s *svg) end() template.HTML {
	s.raw("</svg>")
	return template.HTML(s.b.String())
}

// raw writes markup of this package's own.
func (s *svg) raw(parts ...string) {
	for _, p := range parts {
		s.b.WriteString(p)
	}
}

func (s *svg) line(class string, x1, y1, x2, y2 float64) {
	s.raw(`<path class="`, class, `" d="M`, num(x1), " ", num(y1), "L", num(x2), " ", num(y2), `"/>`)
}

func (s *svg) path(class, d string) {
	if d != "" {
		s.raw(`<path class="`, class, `" d="`, d, `"/>`)
	}
}

func (s *svg) rect(class string, x, y, w, h float64) {
	s.raw(`<rect class="`, class, `" x="`, num(x), `" y="`, num(y), `" width="`, num(w), `" height="`, num(h), `"/>`)
}

func (s *svg) circle(class string, x, y, r float64) {
	s.raw(`<circle class="`, class, `" cx="`, num(x), `" cy="`, num(y), `" r="`, num(r), `"/>`)
}

func (s *svg) text(class string, x, y float64, text string) {
	s.raw(`<text class="`, class, `" x="`, num(x), `" y="`, num(y), `">`, html.EscapeString(text), `</text>`)
}

// num writes a coordinate to a tenth.
func num(x float64) string {
	t := strconv.FormatFloat(x, 'f', 1, 64)
	t = strings.TrimSuffix(t, ".0")
	if t == "-0" {
		return "0"
	}
	return t
}

// polyline is the path through points, pairs of coordinates.
func polyline(points [][2]float64) string {
	var b strings.Builder
	for i, p := range points {
		op := "L"
		if i == 0 {
			op = "M"
		}
		fmt.Fprintf(&b, "%s%s %s", op, num(p[0]), num(p[1]))
	}
	return b.String()
}

// mark is the outline of the sign that stands for a variant in charts, about
// a point: the same shapes as on screen, in their order.
func mark(variant int, x, y, r float64) string {
	switch variant % 4 {
	case 0: // square
		return fmt.Sprintf("M%s %sh%sv%sh%sz", num(x-r), num(y-r), num(2*r), num(2*r), num(-2*r))
	case 1: // triangle
		return fmt.Sprintf("M%s %sl%s %sh%sz", num(x), num(y-1.2*r), num(1.2*r), num(2.1*r), num(-2.4*r))
	case 2: // circle
		return fmt.Sprintf("M%s %sa%s %s 0 1 0 %s 0a%s %s 0 1 0 %s 0z", num(x-r), num(y), num(r), num(r), num(2*r), num(r), num(r), num(-2*r))
	}
	return fmt.Sprintf("M%s %sl%s %sl%s %sl%s %sz", num(x), num(y-1.4*r), num(1.4*r), num(1.4*r), num(-1.4*r), num(1.4*r), num(-1.4*r), num(-1.4*r))
}
