package views

// auditDoc is a text that can be moved through: lines, some of which stand for an
// item that can be opened. The head stays while the lines scroll.
type auditDoc struct {
	head  []string
	lines []auditLine
	items []int // line of each item
	// late writes the line of an item that is seen, where there may be too many to
	// write them all.
	late func(item int) string
}

// auditLine is a line, and the item that it stands for; -1 for none.
type auditLine struct {
	text string
	item int
}

// say adds lines that stand for nothing.
func (d *auditDoc) say(lines ...string) {
	for _, line := range lines {
		d.lines = append(d.lines, auditLine{line, -1})
	}
}

// gap adds a blank line where there is something above it.
func (d *auditDoc) gap() {
	if len(d.lines) > 0 {
		d.say("")
	}
}

// add adds the line of the next item.
func (d *auditDoc) add(line string) {
	d.items = append(d.items, len(d.lines))
	d.lines = append(d.lines, auditLine{line, len(d.items) - 1})
}

// room is how many lines are seen of h; the last one counts what is hidden.
func (d *auditDoc) room(h int) int {
	h -= len(d.head)
	if len(d.lines) > h && h > 1 {
		h--
	}
	return max(h, 0)
}

// auditPager is where a person is in a doc: the selected item, and the first line
// that is seen.
type auditPager struct{ selected, top int }

// clamp keeps both inside the doc.
func (p *auditPager) clamp(d *auditDoc, h int) {
	p.selected = max(min(p.selected, len(d.items)-1), 0)
	p.top = max(min(p.top, len(d.lines)-d.room(h)), 0)
}

// move goes on by so many items where the next is in sight or near it, and else
// scrolls: what stands between items is to be read as well. It says whether
// anything changed.
func (p *auditPager) move(d *auditDoc, h, by int) bool {
	before := *p
	p.clamp(d, h)
	room := d.room(h)
	for step := sign(by); by != 0; by -= step {
		next := p.selected + step
		switch {
		case next >= 0 && next < len(d.items) && d.items[next] >= p.top-1 && d.items[next] <= p.top+room:
			p.selected = next
			p.top = max(min(p.top, d.items[next]), d.items[next]-room+1)
		case step > 0 && p.top+room < len(d.lines), step < 0 && p.top > 0:
			p.top += step
		}
		p.clamp(d, h)
	}
	return *p != before
}

// page goes on by a page of h lines and takes the selection along.
func (p *auditPager) page(d *auditDoc, h, by int) bool {
	before := *p
	p.clamp(d, h)
	p.top += by * max(d.room(h)-1, 1)
	end := by > 0 && p.top >= len(d.lines)-d.room(h) || by < 0 && p.top <= 0
	p.clamp(d, h)
	p.follow(d, h)
	if n := len(d.items); end && n > 0 {
		last := 0
		if by > 0 {
			last = n - 1
		}
		if line := d.items[last]; line >= p.top && line < p.top+d.room(h) {
			p.selected = last
		}
	}
	return *p != before
}

// follow selects the item nearest to what is seen.
func (p *auditPager) follow(d *auditDoc, h int) {
	room := d.room(h)
	for p.selected+1 < len(d.items) && d.items[p.selected] < p.top {
		p.selected++
	}
	for p.selected > 0 && d.items[p.selected] >= p.top+room {
		p.selected--
	}
}

// scroll moves the lines alone, by the wheel.
func (p *auditPager) scroll(d *auditDoc, h, by int) bool {
	before := *p
	p.clamp(d, h)
	p.top += by
	p.clamp(d, h)
	p.follow(d, h)
	return *p != before
}

// home and end go to either end.
func (p *auditPager) home() bool {
	before := *p
	*p = auditPager{}
	return *p != before
}

func (p *auditPager) end(d *auditDoc, h int) bool {
	before := *p
	p.selected, p.top = len(d.items)-1, len(d.lines)
	p.clamp(d, h)
	return *p != before
}

// at is the item that stands in a line of the picture, -1 for none.
func (p auditPager) at(d *auditDoc, h, y int) int {
	p.clamp(d, h)
	y -= len(d.head)
	if i := p.top + y; y >= 0 && y < d.room(h) && i < len(d.lines) {
		return d.lines[i].item
	}
	return -1
}

// auditMark is the room for the mark of the selected item.
const auditMark = 2

// auditFocus says what a selected item is to the keys.
type auditFocus int

const (
	auditAway   auditFocus = iota // they are elsewhere
	auditBehind                   // they are in what is opened of it
	auditHere
)

// draw is the doc in h lines of w cells. The selected item is in reverse where the
// keys are here, and only marked where they are in what is opened of it.
func (p auditPager) draw(th *Theme, d *auditDoc, w, h int, focus auditFocus) string {
	p.clamp(d, h)
	lead := 0
	if len(d.items) > 0 && w > 4*auditMark {
		lead = auditMark
	}
	out := append([]string{}, d.head...)
	room := d.room(h)
	for i := p.top; i < len(d.lines) && i < p.top+room; i++ {
		line := d.lines[i]
		if line.item >= 0 && d.late != nil {
			line.text = d.late(line.item)
		}
		switch {
		case line.item < 0:
			out = append(out, line.text)
		case line.item != p.selected || lead == 0 || focus == auditAway:
			out = append(out, spaces(lead)+line.text)
		case focus == auditHere:
			out = append(out, th.Accent.Render("▸")+" "+th.reverse(Fit(line.text, w-lead)))
		default:
			out = append(out, th.Dim.Render("▸")+" "+line.text)
		}
	}
	if hidden := len(d.lines) - p.top - room; len(d.lines) > room && room > 0 && len(out) < h {
		text := "the end"
		if hidden > 0 {
			text = plural(hidden, "line") + " more"
		}
		if p.top > 0 && hidden > 0 {
			text += ", " + thousands(p.top) + " above"
		}
		out = append(out, th.Dim.Render(ellipsis+" "+text))
	}
	return Block(out, w, h)
}
