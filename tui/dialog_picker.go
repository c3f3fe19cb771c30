package tui

import (
	"fmt"
	"slices"
	"strings"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"quantscope/views"
)

// item is a row of a picker.
type item struct {
	name  string
	group string // under whose heading it stands while nothing is searched
	note  string // quiet, behind the name
	help  string // in full below the list, of the item under the cursor
	key   string // quiet, at the right: the key that does the same
	tag   int    // a variant's ID, for its mark; -1 where there is none
	box   bool   // has a box that can be marked
	on    bool   // is marked, or is what holds now
	typed bool   // is no row of the list, but what the search line says in full
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
	at      int   // of shown
	top     int   // of the rows, headings counted
	page    int   // rows drawn last
	notes   bool  // the help of the item under the cursor stands below where notes are cut

	search *lineEdit // nil without a search line
	// typed is the item that a text names in full although no row does; nil
	// where rows are all there is.
	typed func(text string) (item, bool)
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

func (p *picker) title() string {
	if n := len(p.marked()); n > 0 {
		return fmt.Sprintf("%s · %d marked", p.heading, n)
	}
	return p.heading
}
func (p *picker) hint() string { return p.footer }
func (p *picker) typing() bool { return p.search != nil }

// find lists what matches the search line, best first.
func (p *picker) find() {
	p.shown, p.at, p.top = p.shown[:0], 0, 0
	text := ""
	if p.search != nil {
		text = p.search.text
	}
	p.items = slices.DeleteFunc(p.items, func(it item) bool { return it.typed && !it.on })
	for i := range p.items {
		score, ok := fuzzy(text, p.items[i].name)
		if !ok {
			continue
		}
		if text != "" && p.boxes() && !p.items[i].box {
			score += 1 << 20 // what can be shown comes before what would have to be measured
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
	if p.typed == nil || text == "" {
		return
	}
	if it, ok := p.typed(text); ok && !slices.ContainsFunc(p.items, func(x item) bool { return x.name == it.name }) {
		it.typed = true
		p.items = append(p.items, it)
		p.shown = slices.Insert(p.shown, 0, len(p.items)-1)
	}
}

// pickerRow is a line of the list: an item of shown, or a heading, whose at is −1.
type pickerRow struct {
	at      int
	heading string
}

// rows are the items that are shown, under the headings of their groups while
// nothing is searched.
func (p *picker) rows() []pickerRow {
	var out []pickerRow
	last := ""
	for at, i := range p.shown {
		if group := p.items[i].group; group != last && (p.search == nil || p.search.text == "") {
			out = append(out, pickerRow{-1, group})
			last = group
		}
		out = append(out, pickerRow{at: at})
	}
	return out
}

// noteLines is the height of the note below the list, a rule included.
const noteLines = 3

func (p *picker) size(m *Model, w, h int) (int, int) {
	const widest = 96
	width := max(p.width(), 24)
	lines := p.listed()
	switch {
	case p.notes:
		groups := map[string]bool{}
		for i := range p.items {
			groups[p.items[i].group] = true
		}
		width, lines = max(width, 56), lines+len(groups)+2
		if width > min(widest, w-6) {
			lines += noteLines
		}
	case p.search != nil:
		// The height does not follow the matches, so that nothing jumps.
		width, lines = max(width, 56), min(p.listed(), 18)+2
	}
	return min(width, widest), lines
}

// listed is how many rows the list has, whatever is typed.
func (p *picker) listed() int {
	n := 0
	for i := range p.items {
		if !p.items[i].typed {
			n++
		}
	}
	return n
}

// width is what the widest row of the list asks for. Where notes matter they stand under each
// other behind the longest name; else a long name may take the room of a note.
func (p *picker) width() int {
	names, widest := 0, 0
	if p.notes {
		for i := range p.items {
			if !p.items[i].typed {
				names = max(names, views.Width(p.items[i].name))
			}
		}
	}
	for i := range p.items {
		it := &p.items[i]
		if it.typed {
			continue
		}
		n := max(names, views.Width(it.name)) + 8 // pointer and mark before it, blanks behind
		if it.note != "" {
			n += views.Width(it.note) + 2
		}
		if it.key != "" {
			n += views.Width(it.key) + 3
		}
		widest = max(widest, n)
	}
	return widest
}

func (p *picker) lines(m *Model, w, h int) []string {
	t := m.scene.Theme
	var out []string
	if p.search != nil {
		out = append(out, t.Accent.Render("› ")+p.search.view(t, w-2), "")
	}
	foot := 0
	if p.notes && p.width() > w && h-len(out) >= 2*noteLines {
		foot = noteLines
	}
	p.page = max(h-len(out)-foot, 1)
	rows := p.rows()
	here := slices.IndexFunc(rows, func(r pickerRow) bool { return r.at == p.at })
	first := here
	if first == 1 || first > 0 && p.page > 1 && rows[first-1].at < 0 { // its heading is seen too
		first--
	}
	p.top = max(min(p.top, first), here-p.page+1, 0)
	if len(p.shown) == 0 {
		return append(out, t.Dim.Render("nothing is called that"))
	}
	nameWidth := 0
	for _, i := range p.shown {
		nameWidth = max(nameWidth, views.Width(p.items[i].name))
	}
	nameWidth = min(nameWidth, max(w/2, 16))
	for _, r := range rows[p.top:min(p.top+p.page, len(rows))] {
		if r.at < 0 {
			out = append(out, t.Dim.Render(views.Truncate(r.heading, w)))
			continue
		}
		out = append(out, p.row(m, &p.items[p.shown[r.at]], r.at == p.at, nameWidth, w))
	}
	if foot > 0 {
		for len(out) < h-foot {
			out = append(out, "")
		}
		out = append(out, p.note(m, w)...)
	}
	return out
}

// note is the help of the item under the cursor, under a rule.
func (p *picker) note(m *Model, w int) []string {
	t := m.scene.Theme
	out := []string{t.Faint.Render(strings.Repeat("─", w))}
	for _, line := range strings.Split(ansi.Wrap(views.Clean(p.item().help), w, ""), "\n") {
		if len(out) < noteLines {
			out = append(out, t.Text.Render(views.Truncate(strings.TrimSpace(line), w)))
		}
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
	for y, r := range p.rows() {
		switch {
		case r.at < 0:
		case y < p.top:
			before++
		case y >= p.top+p.page:
			behind++
		}
	}
	return before, behind
}

func (p *picker) scroll(by int) {
	p.at = max(min(p.at+by, len(p.shown)-1), 0)
}

func (p *picker) click(m *Model, y int) tea.Cmd {
	if p.search != nil {
		y -= 2
	}
	rows := p.rows()
	if y < 0 || y >= p.page || y+p.top >= len(rows) || rows[y+p.top].at < 0 {
		return nil
	}
	if at := rows[y+p.top].at; at != p.at {
		p.at = at
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
	case key == " " && p.boxes():
		p.mark(m)
	case key == "home" && p.boxes():
		p.at = 0
	case key == "end" && p.boxes():
		p.scroll(len(p.shown))
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

// boxes says that some items can be marked; a blank then marks, typed or not.
func (p *picker) boxes() bool {
	return slices.ContainsFunc(p.items, func(it item) bool { return it.box })
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
