package tui

import (
	"fmt"
	"strconv"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/analysis/gates"
	"quantscope/analysis/gates/suite"
	"quantscope/sessions"
	"quantscope/views"
)

// gatesForm asks what a run of gates asks of whom: the session's variants, of which
// all are marked at first, the checkpoint as the baseline, the placebo; other
// candidates and servers, the suite, probes, a text for log probabilities, and how
// many tokens arms in process draft.
type gatesForm struct {
	boxes  []klBox
	fields [gatesFields]lineEdit
	at     int // boxes, then fields
	top    int
	served bool // there is no checkpoint
}

// The fields of the form.
const (
	gatesAlso = iota
	gatesServers
	gatesSuite
	gatesProbes
	gatesTexts
	gatesDrafts
	gatesFields
)

var gatesLabels = [gatesFields]string{"also       ", "servers    ", "suite      ", "probes     ", "log probs  ", "draft      "}

// gatesHints say what stands in a field.
var gatesHints = [gatesFields]string{
	"candidates: nvfp4+sweep, ../out, model.gguf; with commas between them",
	"URLs of servers of the OpenAI kind: http://127.0.0.1:8000, fast=http://gpu:8000",
	"", // the names of the suites
	"patterns of probes' IDs: tools/*, re:korean|tamil; nothing is all",
	"a corpus or a file: perplexity, and a lower bound of KL; nothing is none",
	"tokens a step by the MTP layer, 0 to 8, of arms in process",
}

const (
	boxBaseline = "baseline"
	boxPlacebo  = "placebo"
)

func newGatesForm(m *Model) *gatesForm {
	f := &gatesForm{served: m.served()}
	if !f.served {
		for _, name := range m.variantSpecs() {
			f.boxes = append(f.boxes, klBox{name: name, spec: true, on: true})
		}
		f.boxes = append(f.boxes, klBox{name: boxBaseline, note: "the checkpoint, which others are held against; else the first of them is", on: true})
	}
	f.boxes = append(f.boxes, klBox{name: boxPlacebo, note: "the baseline once more at the end: how much it differs from itself", on: true})
	if g := m.gateRun(); g != nil { // most of it is often wanted again
		f.recall(g, m.source())
	} else if f.served {
		f.fields[gatesServers] = newLineEdit(m.source())
	}
	switch r, _ := f.request(); { // what has to be named comes first
	case f.served:
		f.at = len(f.boxes) + gatesServers
	case len(r.Candidates)+len(r.Servers) == 0:
		f.at = len(f.boxes) + gatesAlso
	}
	return f
}

// recall puts in what a run was of.
func (f *gatesForm) recall(g *sessions.GateRun, source string) {
	var also, servers []string
	s := g.Setup
	baseline := false
	for i := range s.Arms {
		a := &s.Arms[i]
		spec := a.Spec
		if a.Label != a.Spec {
			spec = a.Label + "=" + a.Spec
		}
		known := false
		for j := range f.boxes {
			known = known || f.boxes[j].spec && f.boxes[j].name == spec
		}
		switch {
		case a.Role == gates.Placebo || known:
		case isURL(a.Spec):
			if strings.Contains(a.Spec, a.Label) { // which it has without being told
				spec = a.Spec
			}
			servers = append(servers, spec)
		case i == s.Baseline() && samePlace(a.Spec, source):
			baseline = true
		default:
			also = append(also, spec)
		}
	}
	for j := range f.boxes {
		switch f.boxes[j].name {
		case boxBaseline:
			f.boxes[j].on = baseline
		case boxPlacebo:
			f.boxes[j].on = s.Placebo() >= 0
		}
	}
	f.fields[gatesAlso], f.fields[gatesServers] = newLineEdit(strings.Join(also, ", ")), newLineEdit(strings.Join(servers, ", "))
	f.fields[gatesSuite] = newLineEdit(s.Path)
	if s.Texts != nil {
		f.fields[gatesTexts] = newLineEdit(s.Texts.Name)
	}
	f.fields[gatesDrafts] = newLineEdit(g.Settings[sessions.GateSpeculate])
}

func (f *gatesForm) title() string { return "Run gates" }
func (f *gatesForm) hint() string  { return "enter run · space mark · tab next · esc close" }

// typing holds in fields; on a box a blank marks it.
func (f *gatesForm) typing() bool { return f.at >= len(f.boxes) }

func (f *gatesForm) size(_ *Model, _, _ int) (int, int) {
	return 84, len(f.boxes) + len(f.fields) + 3
}

func (f *gatesForm) lines(m *Model, w, h int) []string {
	t := m.scene.Theme
	var out []string
	pointer := func(at int) string {
		if at == f.at {
			return t.Accent.Render("❯ ")
		}
		return "  "
	}
	for i, b := range f.boxes {
		mark := t.Dim.Render("[ ] ")
		if b.on {
			mark = t.Accent.Render("[x] ")
		}
		line := pointer(i) + mark + t.Text.Render(views.Clean(b.name))
		if b.note != "" {
			line += t.Dim.Render("  " + b.note)
		}
		out = append(out, views.Truncate(line, w))
	}
	out = append(out, "")
	for i := range f.fields {
		at := len(f.boxes) + i
		label, room := t.Dim.Render(gatesLabels[i]), w-len(gatesLabels[i])-2
		text := t.Text.Render(views.TruncateMiddle(views.Clean(f.fields[i].text), room))
		if at == f.at {
			text = f.fields[i].view(t, room)
		}
		out = append(out, pointer(at)+label+text)
	}
	hint := ""
	if f.typing() {
		if hint = gatesHints[f.at-len(f.boxes)]; f.at-len(f.boxes) == gatesSuite {
			hint = strings.Join(suite.Names(), ", ") + " or a YAML file; nothing is what goes with the tokenizer"
		}
	}
	out = append(out, "", t.Dim.Render(views.Truncate(hint, w)))
	// Where there is less room, what is at the cursor stays in sight.
	row := f.row()
	f.top = max(min(f.top, row, len(out)-h), row-h+1, 0)
	return out[f.top:min(f.top+h, len(out))]
}

// row is the line of what has the cursor: a blank one stands before the fields.
func (f *gatesForm) row() int {
	if f.typing() {
		return f.at + 1
	}
	return f.at
}

func (f *gatesForm) hidden() (before, behind int) { return f.top, 0 }

func (f *gatesForm) scroll(by int) {
	n := len(f.boxes) + len(f.fields)
	f.at = (f.at + n + by%n) % n
}

func (f *gatesForm) click(_ *Model, y int) tea.Cmd {
	y += f.top
	switch {
	case y < len(f.boxes):
		f.at = y
		f.boxes[y].on = !f.boxes[y].on
	case y > len(f.boxes) && y <= len(f.boxes)+len(f.fields):
		f.at = y - 1
	}
	return nil
}

func (f *gatesForm) key(m *Model, k tea.KeyMsg) tea.Cmd {
	switch key := k.String(); {
	case key == "esc":
		m.closeDialog()
	case key == "enter":
		r, why := f.request()
		if why != "" {
			m.say("%s", why)
			return nil
		}
		m.closeDialog()
		if m.busyWith() != "" { // begun meanwhile
			return nil
		}
		return m.startGates(func() sessions.GatesRequest { return r })
	case key == "up", key == "shift+tab":
		f.scroll(-1)
	case key == "down", key == "tab":
		f.scroll(1)
	case f.typing():
		m.typed(&f.fields[f.at-len(f.boxes)], k)
	case key == " ", key == "x":
		f.boxes[f.at].on = !f.boxes[f.at].on
	case key == "k":
		f.scroll(-1)
	case key == "j":
		f.scroll(1)
	}
	return nil
}

// request is what is asked for, or why that is not enough.
func (f *gatesForm) request() (r sessions.GatesRequest, why string) {
	r.NoBaseline, r.NoPlacebo = true, true
	for _, b := range f.boxes {
		switch {
		case !b.on:
		case b.spec:
			r.Candidates = append(r.Candidates, b.name)
		case b.name == boxBaseline:
			r.NoBaseline = false
		default:
			r.NoPlacebo = false
		}
	}
	text := func(i int) string { return strings.TrimSpace(f.fields[i].text) }
	r.Candidates = append(r.Candidates, commas(text(gatesAlso))...)
	r.Servers = commas(text(gatesServers))
	r.Suite, r.Probes, r.Texts = text(gatesSuite), text(gatesProbes), text(gatesTexts)
	if f.served {
		r.NoBaseline = false
	}
	if d := text(gatesDrafts); d != "" {
		n, err := strconv.Atoi(d)
		if err != nil || n < 0 || n > mostDrafts {
			return r, fmt.Sprintf("draft %s: from 0 to %d tokens a step", views.Clean(d), mostDrafts)
		}
		r.Local.Speculate = n
	}
	switch {
	case f.served && len(r.Servers) == 0:
		return r, "a server is needed: the session has no checkpoint"
	case f.served && len(r.Candidates) > 0:
		return r, "candidates need a checkpoint, which a session of served models lacks"
	case len(r.Candidates)+len(r.Servers) == 0 && r.NoBaseline:
		return r, "somebody has to be asked: mark one, or name a candidate or a server"
	}
	for _, s := range r.Servers {
		_, at, labelled := strings.Cut(s, "=")
		if !isURL(s) && !(labelled && isURL(at)) {
			return r, fmt.Sprintf("%s is no address of a server: http://HOST:PORT", views.Clean(s))
		}
	}
	return r, ""
}

// mostDrafts is how many tokens a step can be drafted.
const mostDrafts = 8
