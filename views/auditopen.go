package views

import (
	"slices"

	tea "github.com/charmbracelet/bubbletea"
)

// auditDocKey is all that a list depends on, its place in it apart.
type auditDocKey struct {
	part    auditPart
	w       int
	scene   uint64
	seq     int64
	theme   *Theme
	order   int
	filter  string
	planAt  int
	subject int
	item    int // of what is opened; -1 for a list
}

// auditDocMemo is a list that was made once.
type auditDocMemo struct {
	key   auditDocKey
	doc   auditDoc
	items []auditItem
	made  bool
}

func (p *Audit) docKey(part auditPart, w, item int) auditDocKey {
	s := p.scene
	return auditDocKey{part, w, s.Version, s.State.LastSeq, s.Theme, p.order, p.filter, p.planAt, s.Audits.At, item}
}

// list is a part as a doc of w cells, with its items.
func (p *Audit) list(part auditPart, w int) (*auditDoc, []auditItem) {
	m := &p.docs[part]
	key := p.docKey(part, w, -1)
	if m.made && m.key == key {
		return &m.doc, m.items
	}
	m.key, m.made = key, true
	switch part {
	case auditFindings:
		m.items = slices.Clone(p.filtered(p.lintItems()))
		sortFindings(m.items, p.order)
		m.doc = p.findingsDoc(w, m.items)
	case auditPlan:
		m.items = p.planItems()
		m.doc = p.planDoc(w, m.items)
	case auditFallbacks:
		m.items = p.fallbackItems()
		m.doc = p.fallbackDoc(w, m.items)
	default:
		m.items, m.doc = nil, auditDoc{}
	}
	return &m.doc, m.items
}

// shown is the list of the part that has the keys, with how high it is; where it
// is hidden behind what is opened, as high as that.
func (p *Audit) shown() (d *auditDoc, items []auditItem, h int) {
	l := p.partsLayout()
	r := l.body(p.part)
	if r.w <= 0 {
		r = l.detail
	}
	d, items = p.list(p.part, r.w)
	return d, items, r.h
}

// item is the selected one, nil where there is none.
func (p *Audit) item() *auditItem {
	_, items, _ := p.shown()
	if i := p.pages[p.part].selected; i >= 0 && i < len(items) {
		return &items[i]
	}
	return nil
}

// detailDoc is the selected item in full, and how high it is.
func (p *Audit) detailDoc() (d *auditDoc, h int) {
	l := p.partsLayout()
	m, r := &p.docs[auditParts], l.detail
	key := p.docKey(p.part, r.w, p.pages[p.part].selected)
	if m.made && m.key == key {
		return &m.doc, r.h
	}
	m.key, m.made, m.doc = key, true, auditDoc{}
	th, item := p.scene.Theme, p.item()
	if item == nil {
		m.doc.say(th.Dim.Render(Truncate("nothing is selected", r.w)))
		return &m.doc, r.h
	}
	m.doc.head = []string{Truncate(th.Title.Render(item.title), r.w)}
	m.doc.say(item.body(th, r.w)...)
	m.doc.gap()
	switch n := len(item.all()); {
	case n == 0:
		m.doc.say(wrapped(th.Dim, "not on the map: "+item.off, r.w)...)
	case n == 1:
		m.doc.say(th.Dim.Render(Truncate("on the map, where enter goes", r.w)))
	default:
		m.doc.say(th.Dim.Render(Truncate(plural(n, "tensor")+" on the map, where enter goes", r.w)))
	}
	p.tensorRows(&m.doc, item, r.w-auditMark)
	return &m.doc, r.h
}

// tensorRows lists the tensors of an item with the chosen metric.
func (p *Audit) tensorRows(d *auditDoc, item *auditItem, w int) {
	s := p.scene
	v := item.variant
	if v < 0 || v >= len(s.State.Variants) {
		v = s.Variant
	}
	place := 0
	for _, t := range item.tensors[:min(len(item.tensors), 2000)] {
		if t >= 0 && t < len(s.State.Tensors) {
			place = max(place, Width(ShortName(&s.State.Tensors[t])))
		}
	}
	place = max(min(place, 22, w), 0)
	d.late = func(i int) string { return p.tensorRow(item.tensors[i], v, place, w) }
	d.lines, d.items = slices.Grow(d.lines, len(item.tensors)), slices.Grow(d.items, len(item.tensors))
	for range item.tensors {
		d.add("")
	}
}

// tensorRow is one of them: where it is, and what is known of it.
func (p *Audit) tensorRow(t, v, place, w int) string {
	s, th := p.scene, p.scene.Theme
	if t < 0 || t >= len(s.State.Tensors) {
		return ""
	}
	x := &s.State.Tensors[t]
	line := th.Accent.Render(Fit(TruncateMiddle(ShortName(x), place), place))
	known := v >= 0 && v < len(s.State.Variants)
	value := "not measured"
	r, ok := s.Record(v, t)
	switch {
	case ok && r.Failed:
		value = "failed"
	case ok && known:
		value = s.Metric.Name + " " + s.Metric.text(s.value(s.Metric, v, t, &r))
	case known:
		if _, quantized := s.State.How(v, t); !quantized {
			value = "kept"
		}
	}
	line += "  " + th.Text.Render(Fit(value, 14))
	if room := w - Width(line) - 2; room >= 12 {
		line += "  " + th.Dim.Render(TruncateMiddle(Clean(x.Name), room))
	}
	return Truncate(line, w)
}

// openItem goes from the list to what is selected, and from there to the map.
func (p *Audit) openItem() bool {
	item := p.item()
	if item == nil {
		return false
	}
	if !p.opened {
		p.opened, p.inside = true, auditPager{}
		p.version++
		return true
	}
	if len(item.all()) == 0 {
		return false
	}
	at := max(min(p.inside.selected, len(item.tensors)-1), 0)
	if item.variant >= 0 {
		p.scene.SetVariant(item.variant)
	}
	p.scene.SetCursor(item.tensors[at])
	p.scene.ask(AskMap)
	return true
}

// step moves by rows, pages or to the ends in what has the keys.
func (p *Audit) step(key string) bool {
	pager, d, h := &p.pages[p.part], (*auditDoc)(nil), 0
	if p.opened {
		pager = &p.inside
		d, h = p.detailDoc()
	} else {
		d, _, h = p.shown()
	}
	before := p.pages[p.part].selected
	moved := false
	switch key {
	case "up", "k":
		moved = pager.move(d, h, -1)
	case "down", "j":
		moved = pager.move(d, h, 1)
	case "pgup", "ctrl+b":
		moved = pager.page(d, h, -1)
	case "pgdown", "ctrl+f":
		moved = pager.page(d, h, 1)
	case "home":
		moved = pager.home()
	case "end":
		moved = pager.end(d, h)
	default:
		return false
	}
	p.moved(moved, before)
	return true
}

// moved says that the picture changed; what is selected now begins at its top.
func (p *Audit) moved(moved bool, before int) {
	if !moved {
		return
	}
	if p.pages[p.part].selected != before {
		p.inside = auditPager{}
	}
	p.version++
}

// partsMouse acts on the mouse outside the census.
func (p *Audit) partsMouse(x, y int, m tea.MouseMsg) bool {
	l := p.partsLayout()
	wheel := 0
	switch {
	case m.Button == tea.MouseButtonWheelUp:
		wheel = -3
	case m.Button == tea.MouseButtonWheelDown:
		wheel = 3
	case m.Action != tea.MouseActionPress || m.Button != tea.MouseButtonLeft:
		return false
	}
	if l.detail.has(x, y) {
		d, h := p.detailDoc()
		if wheel != 0 {
			p.moved(p.inside.scroll(d, h, wheel), p.pages[p.part].selected)
			return true
		}
		if !p.opened && p.item() != nil {
			p.opened = true
			p.version++
		}
		if i := p.inside.at(d, h, y-l.detail.y); i >= 0 && i != p.inside.selected {
			p.inside.selected = i
			p.version++
		}
		return true
	}
	for part := range auditParts {
		r := l.body(part)
		if !l.lists[part].has(x, y) || r.w <= 0 {
			continue
		}
		d, _ := p.list(part, r.w)
		before := p.pages[p.part].selected
		if wheel != 0 {
			p.moved(p.pages[part].scroll(d, r.h, wheel), before)
			return true
		}
		i := p.pages[part].at(d, r.h, y-r.y)
		if part != p.part || p.opened {
			p.part, p.opened, p.inside = part, false, auditPager{}
			p.version++
		}
		if i >= 0 && i != p.pages[part].selected {
			p.pages[part].selected, p.inside = i, auditPager{}
			p.version++
		}
		return true
	}
	return false
}

// drawParts draws findings, plan, fallbacks and what is selected.
func (p *Audit) drawParts() []placed {
	th, l := p.scene.Theme, p.partsLayout()
	var out []placed
	for part := range auditParts {
		r := l.lists[part]
		if r.empty() {
			continue
		}
		body := l.body(part)
		d, _ := p.list(part, body.w)
		if l.titled() {
			style := th.Dim
			if part == p.part {
				style = th.Title
			}
			title := style.Render(auditPartNames[part])
			if count, _ := p.partCount(part); count != "" {
				title += th.Dim.Render("  " + count)
			}
			out = append(out, placed{rect{r.x, r.y, r.w, 1}, Block([]string{title}, r.w, 1)})
		}
		out = append(out, placed{body, p.pages[part].draw(th, d, body.w, body.h, p.focus(part, false))})
	}
	if !l.detail.empty() {
		d, h := p.detailDoc()
		out = append(out, placed{l.detail, p.inside.draw(th, d, l.detail.w, h, p.focus(p.part, true))})
	}
	return out
}

// focus says where the keys are, seen from a list or from what is opened of it.
func (p *Audit) focus(part auditPart, inside bool) auditFocus {
	switch {
	case part != p.part, inside && !p.opened:
		return auditAway
	case p.opened && !inside:
		return auditBehind
	}
	return auditHere
}

// settleParts keeps what is selected inside what there is.
func (p *Audit) settleParts() {
	if p.part == auditCensus {
		p.opened = false
		return
	}
	d, items, h := p.shown()
	p.pages[p.part].clamp(d, h)
	if p.opened && len(items) == 0 {
		p.opened = false
	}
	if p.opened {
		d, h := p.detailDoc()
		p.inside.clamp(d, h)
	}
}
