package tui

import (
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/views"
)

// item is a row of a picker.
type item struct {
	name  string
	note  string // quiet, behind the name
	key   string // quiet, at the right: the key that does the same
	tag   int    // a variant's ID, for its mark; -1 where there is none
	box   bool   // has a box that can be marked
	on    bool   // is marked, or is what holds now
	off   string // why it cannot be chosen
	what  func(*Model) tea.Cmd
	score int
}

// picker is a list to choose from. With a search line its rows are those that
// match what is typed.
type picker struct {
	heading string
	footer  string
	items   []item
	shown   []int // of items
	at, top int   // of shown
	page    int   // rows drawn last

	search *lineEdit // nil without a search line
	// accept is what enter does where it is not the item's own doing.
	accept func(m *Model, p *picker, at *item) tea.Cmd
}

// newPicker makes a list; the item that holds now is under the cursor.
func newPicker(title, hint string, items []item) *picker {
	p := &picker{heading: title, footer: hint, items: items, page: 1}
	p.find()
	for i := range p.shown {
		if items[p.shown[i]].on && !items[p.shown[i]].box {
			p.at = i
		}
	}
	return p
}

func (p *picker) title() string { return p.heading }
func (p *picker) hint() string  { return p.footer }
func (p *picker) typing() bool  { return p.search != nil }

// find lists what matches the search line, best first.
func (p *picker) find() {
	p.shown, p.at, p.top = p.shown[:0], 0, 0
	text := ""
	if p.search != nil {
		text = p.search.text
	}
	for i := range p.items {
		score, ok := fuzzy(text, p.items[i].name)
		if !ok {
			continue
		}
		p.items[i].score = score
		at := len(p.shown)
		for at > 0 && p.items[p.shown[at-1]].score < score {
			at--
		}
		p.shown = append(p.shown, 0)
		copy(p.shown[at+1:], p.shown[at:])
		p.shown[at] = i
	}
}

func (p *picker) size(m *Model, w, h int) (int, int) {
	width := 24
	for i := range p.items {
		it := &p.items[i]
		n := views.Width(it.name) + 8 // pointer and mark before it, blanks behind
		if it.note != "" {
			n += views.Width(it.note) + 2
		}
		if it.key != "" {
			n += views.Width(it.key) + 3
		}
		width = max(width, n)
	}
	lines := len(p.items)
	if p.search != nil {
		// The height does not follow the matches, so that nothing jumps.
		width, lines = max(width, 56), min(len(p.items), 18)+2
	}
	return min(width, 96), lines
}

func (p *picker) lines(m *Model, w, h int) []string {
	t := m.scene.Theme
	var out []string
	if p.search != nil {
		out = append(out, t.Accent.Render("› ")+p.search.view(t, w-2), "")
	}
	p.page = max(h-len(out), 1)
	p.top = min(p.top, p.at)
	p.top = max(p.top, p.at-p.page+1)
	if len(p.shown) == 0 {
		return append(out, t.Dim.Render("nothing is called that"))
	}
	nameWidth := 0
	for _, i := range p.shown {
		nameWidth = max(nameWidth, views.Width(p.items[i].name))
	}
	nameWidth = min(nameWidth, max(w/2, 16))
	for y := p.top; y < min(p.top+p.page, len(p.shown)); y++ {
		out = append(out, p.row(m, &p.items[p.shown[y]], y == p.at, nameWidth, w))
	}
	return out
}

// row draws one item: cursor, box or mark, name, note, key.
func (p *picker) row(m *Model, it *item, here bool, nameWidth, w int) string {
	t := m.scene.Theme
	pointer := "  "
	if here {
		pointer = t.Accent.Render("❯ ")
	}
	mark := ""
	switch {
	case it.box && it.on:
		mark = t.Accent.Render("[x] ")
	case it.box:
		mark = t.Dim.Render("[ ] ")
	case it.tag >= 0:
		mark = t.VariantStyle(it.tag).Render(t.VariantMark(it.tag)) + "   "
	case it.on:
		mark = t.Accent.Render("• ")
	}
	name := t.Text
	switch {
	case it.off != "":
		name = t.Faint
	case here:
		name = t.Title
	}
	right := ""
	if it.key != "" {
		right = t.Dim.Render(it.key)
	}
	line := pointer + mark + name.Render(views.Fit(views.Clean(it.name), nameWidth))
	if note := it.note; note != "" {
		line += "  " + t.Dim.Render(views.Clean(note))
	}
	return views.Fit(line, w-views.Width(right)-1) + " " + right
}

// item is what is under the cursor, nil in an empty list.
func (p *picker) item() *item {
	if p.at >= len(p.shown) {
		return nil
	}
	return &p.items[p.shown[p.at]]
}

func (p *picker) hidden() (before, behind int) {
	return p.top, max(len(p.shown)-p.top-p.page, 0)
}

func (p *picker) scroll(by int) {
	p.at = max(min(p.at+by, len(p.shown)-1), 0)
}

func (p *picker) click(m *Model, y int) tea.Cmd {
	if p.search != nil {
		y -= 2
	}
	if y += p.top; y < p.top || y >= len(p.shown) {
		return nil
	}
	if y != p.at {
		p.at = y
		return nil
	}
	return p.enter(m)
}

func (p *picker) enter(m *Model) tea.Cmd {
	it := p.item()
	switch {
	case it == nil:
		return nil
	case it.off != "":
		m.say("%s", it.off)
		return nil
	case p.accept != nil:
		return p.accept(m, p, it)
	}
	m.closeDialog()
	return it.what(m)
}

func (p *picker) key(m *Model, k tea.KeyMsg) tea.Cmd {
	switch key := k.String(); {
	case key == "esc":
		m.closeDialog()
	case key == "enter":
		return p.enter(m)
	case key == "up" || key == "ctrl+p":
		p.scroll(-1)
	case key == "down" || key == "ctrl+n":
		p.scroll(1)
	case key == "pgup":
		p.scroll(-p.page)
	case key == "pgdown":
		p.scroll(p.page)
	case p.search != nil:
		if _, changed := m.typed(p.search, k); changed {
			p.find()
		}
	case key == "k":
		p.scroll(-1)
	case key == "j":
		p.scroll(1)
	case key == "home":
		p.at = 0
	case key == "end":
		p.scroll(len(p.shown))
	case key == " ":
		p.mark(m)
	case key == "q":
		m.closeDialog()
	}
	return nil
}

// mark sets or clears the box under the cursor.
func (p *picker) mark(m *Model) {
	it := p.item()
	switch {
	case it == nil:
	case !it.box && p.accept != nil:
		m.say("%s", "enter shows it: it is measured already or under way")
	case !it.box:
	case it.off != "":
		m.say("%s", it.off)
	default:
		it.on = !it.on
	}
}

// marked are the names of the marked boxes.
func (p *picker) marked() []string {
	var out []string
	for i := range p.items {
		if p.items[i].box && p.items[i].on {
			out = append(out, p.items[i].name)
		}
	}
	return out
}

// fuzzy says whether the letters of text stand in s in this order, ignoring
// case, and how well: matches at the start of words and in a row count more,
// and so do short texts.
func fuzzy(text, s string) (score int, ok bool) {
	text, s = strings.ToLower(strings.TrimSpace(text)), strings.ToLower(s)
	if text == "" {
		return 0, true
	}
	if at := strings.Index(s, text); at >= 0 { // as it stands, best of all at a word's start
		score = 1000 - len(s)
		if at == 0 || s[at-1] == ' ' || s[at-1] == '+' || s[at-1] == '_' {
			score += 1000
		}
		return score, true
	}
	rest := []rune(text)
	row, start := 0, true
	for _, r := range s {
		if len(rest) == 0 {
			break
		}
		if r == rest[0] {
			rest = rest[1:]
			row++
			score += row
			if start {
				score += 8
			}
		} else {
			row = 0
		}
		start = r == ' ' || r == '+' || r == '_' || r == '-'
	}
	if len(rest) > 0 {
		return 0, false
	}
	return score - len(s)/8, true
}
