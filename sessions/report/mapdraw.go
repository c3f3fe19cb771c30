package report

import (
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"quantscope/analysis/landscape"
)

// Pictures are 400 units wide: about as many pixels on a phone and in a column
// of three on a screen, so that their text has one size everywhere.
const (
	pictureWidth = 400.0
	mapLeft      = 34.0
	mapTop       = 20.0
)

// frame is where the cells of a panel stand in its picture.
type frame struct {
	x, y, cw, ch float64
	rows, cols   int
}

func (f frame) w() float64 { return f.cw * float64(f.cols) }
func (f frame) h() float64 { return f.ch * float64(f.rows) }

func frameOf(p *panel) frame {
	f := frame{x: mapLeft, y: mapTop, rows: len(p.rows), cols: len(p.cols)}
	f.cw = (pictureWidth - mapLeft - 6) / float64(max(f.cols, 1))
	f.ch = max(3.5, min(f.cw, 20))
	if f.rows > 40 {
		f.ch = min(f.ch, 6)
	}
	if f.rows < 4 {
		f.ch = max(f.ch, 14)
	}
	return f
}

// drawPanel is the map of a panel. who names the arm.
func drawPanel(n *ids, g *grid, p int, d *mapData, who string, items []landscape.Item) template.HTML {
	pan := &g.panels[p]
	f := frameOf(pan)
	var s svg
	bottom := 20.0
	across := "projection"
	if pan.experts {
		across = "expert"
	}
	s.start(n, pictureWidth, f.y+f.h()+bottom,
		fmt.Sprintf("%s of %s: %s, layers down, %ss across", d.metric.name, who, pan.title, across),
		fmt.Sprintf("%d layers and %d columns; colours span %s to %s, all values %s to %s.",
			f.rows, f.cols, d.metric.write(d.scale.lo), d.metric.write(d.scale.hi), d.metric.write(d.all.lo), d.metric.write(d.all.hi)),
		"data-q", d.packed(p), "data-lo", strconv.FormatFloat(d.all.lo, 'g', 6, 64), "data-hi", strconv.FormatFloat(d.all.hi, 'g', 6, 64),
		"data-box", strings.Join([]string{num(f.x), num(f.y), num(f.w()), num(f.h())}, " "),
		"data-rows", strings.Join(pan.rows, "|"), "data-cols", strings.Join(pan.cols, "|"),
		"data-what", pan.title, "data-metric", d.metric.name, "data-experts", map[bool]string{true: "1", false: ""}[pan.experts])
	s.text("title", f.x, 13, pan.title)
	s.rect("bed", f.x, f.y, f.w(), f.h())
	s.raw(fmt.Sprintf(`<g class="cells" transform="translate(%s %s) scale(%.4f %.4f)">`, num(f.x), num(f.y), f.cw, f.ch))
	for k, path := range runs(d, p, f) {
		s.path("c"+strconv.Itoa(k), path)
	}
	s.raw("</g>")
	s.path("pending", f.blocks(d.cells[p], func(c cell) bool { return c.state == pending }))
	s.path("clip", f.blocks(d.cells[p], func(c cell) bool { return d.marks && c.clipped && c.state == measured }))
	bad := func(c cell) bool { return c.state == notFinite || c.state == failed }
	s.path("badbed", f.blocks(d.cells[p], bad))
	s.path("bad", f.crosses(d.cells[p], bad))
	f.labels(&s, pan)
	f.rings(&s, d, p, items)
	return s.end()
}

// runs are the cells of each colour as a path of horizontal strokes in units of
// cells: a run of equal cells is one stroke.
func runs(d *mapData, p int, f frame) [classes]string {
	var paths [classes]strings.Builder
	var penX, penY [classes]int
	for i := range penY {
		penY[i] = -1
	}
	for y := range f.rows {
		for x := 0; x < f.cols; {
			c := d.cells[p][y*f.cols+x]
			if c.state != measured {
				x++
				continue
			}
			k, from := d.class(c.value), x
			for x < f.cols && d.cells[p][y*f.cols+x].state == measured && d.class(d.cells[p][y*f.cols+x].value) == k {
				x++
			}
			b := &paths[k]
			switch dx := from - penX[k]; {
			case penY[k] < 0:
				fmt.Fprintf(b, "M%d %d.5", from, y)
			default:
				fmt.Fprintf(b, "m%d %d", dx, y-penY[k])
			}
			fmt.Fprintf(b, "h%d", x-from)
			penX[k], penY[k] = x, y
		}
	}
	var out [classes]string
	for k := range paths {
		out[k] = paths[k].String()
	}
	return out
}

// blocks are the runs of cells that are meant, as rectangles in units of the
// picture.
func (f frame) blocks(cells []cell, meant func(cell) bool) string {
	var b strings.Builder
	for y := range f.rows {
		for x := 0; x < f.cols; {
			from := x
			for x < f.cols && meant(cells[y*f.cols+x]) {
				x++
			}
			if x == from {
				x++
				continue
			}
			w := float64(x-from) * f.cw
			fmt.Fprintf(&b, "M%s %sh%sv%sh%sz", num(f.x+float64(from)*f.cw), num(f.y+float64(y)*f.ch), num(w), num(f.ch), num(-w))
		}
	}
	return b.String()
}

// crosses are a cross over each cell that is meant, never smaller than can be
// seen.
func (f frame) crosses(cells []cell, meant func(cell) bool) string {
	var b strings.Builder
	for i, c := range cells {
		if !meant(c) {
			continue
		}
		x, y := f.x+(float64(i%f.cols)+0.5)*f.cw, f.y+(float64(i/f.cols)+0.5)*f.ch
		r := max(2, min(f.cw, f.ch)*0.28)
		fmt.Fprintf(&b, "M%s %sl%s %sm0 %sl%s %s", num(x-r), num(y-r), num(2*r), num(2*r), num(-2*r), num(-2*r), num(2*r))
	}
	return b.String()
}

// labels name rows and columns, as many as have room.
func (f frame) labels(s *svg, p *panel) {
	step := 1
	for float64(step)*f.ch < 13 {
		step++
	}
	step = round(step)
	for y := 0; y < f.rows; y += step {
		s.text("end", f.x-5, f.y+(float64(y)+0.5)*f.ch+4, p.rows[y])
	}
	longest := 0
	for _, c := range p.cols {
		longest = max(longest, len([]rune(c)))
	}
	step = 1
	for float64(step)*f.cw < 7*float64(longest)+8 {
		step++
	}
	step = round(step)
	for x := 0; x < f.cols; x += step {
		s.text("mid", f.x+(float64(x)+0.5)*f.cw, f.y+f.h()+14, p.cols[x])
	}
}

// round is a step of labels that people count in.
func round(step int) int {
	for _, n := range []int{1, 2, 4, 5, 8, 10, 16, 20, 25, 32, 50, 64, 100, 128} {
		if n >= step {
			return n
		}
	}
	return (step + 99) / 100 * 100
}

// rings mark the worst tensors with their ranks.
func (f frame) rings(s *svg, d *mapData, p int, items []landscape.Item) {
	for i := len(d.worst) - 1; i >= 0; i-- { // the worst on top
		c := slices.IndexFunc(d.cells[p], func(c cell) bool { return c.state == measured && c.item == d.worst[i] })
		if c < 0 {
			continue
		}
		x, y := f.x+(float64(c%f.cols)+0.5)*f.cw, f.y+(float64(c/f.cols)+0.5)*f.ch
		r := max(7, min(f.cw, f.ch)*0.42)
		s.circle("halo", x, y, r)
		s.circle("ring", x, y, r)
		s.text("rank mid", x, y+3.6, strconv.Itoa(i+1))
	}
}
