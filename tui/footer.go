package tui

import (
	"fmt"
	"slices"
	"strings"

	"github.com/muesli/termenv"

	"quantscope/sessions"
	"quantscope/views"
)

// footerLine lists the variants with their colours, the shown one marked, then
// the keys that work here. Where room is scarce, variants leave out the scheme
// that they share with the first one, then keys give way by rank, and variants
// that still do not fit are counted.
func (m *Model) footerLine(w int) (string, []span) {
	hints := m.hints()
	room := w - 3 - hintsWidth(atLeast(hints, rankOwn))
	for rank := rankOwn + 1; rank <= rankStays && room < m.leastTags(); rank++ {
		room = w - 3 - hintsWidth(atLeast(hints, rank))
	}
	variants, spans := m.variantTags(room, false)
	if views.Width(variants)+2+hintsWidth(atLeast(hints, rankOften)) > w-1 {
		variants, spans = m.variantTags(room, true)
	}
	hints = fitting(hints, w-3-views.Width(variants))
	t := m.scene.Theme
	var b strings.Builder
	x := w - 1 - hintsWidth(hints)
	for i, h := range hints {
		if i > 0 {
			b.WriteString("  ")
			x += 2
		}
		n := views.Width(h.label) + 1 + views.Width(h.word)
		b.WriteString(t.Accent.Render(h.label) + " " + t.Dim.Render(h.word))
		spans = append(spans, span{from: x, to: x + n, key: h.key, variant: -1})
		x += n
	}
	return views.Fit(variants, max(w-1-hintsWidth(hints), 0)) + b.String() + " ", spans
}

type hint struct {
	key, label, word string
	rank             int // the smaller, the sooner it gives way
}

// Ranks from which hints are used often, are the focused pane's own, and stay
// always.
const (
	rankOften = 20
	rankOwn   = 40
	rankStays = 60
)

// hintRank orders the root's hints.
var hintRank = map[string]int{
	"g": 1, "t": 4, "]": 2, ".": 2, "e": 3, "b": 4, "p": 5, "m": 6, "r": 7, "tab": 8,
	"v": rankOften, "/": rankOften + 1, "enter": rankOften + 2, " ": rankOften + 3, "esc": rankOwn,
	":": rankStays, "?": rankStays + 1, "q": rankStays + 2,
}

// replayRank is their order while a replay is open, whose keys matter most.
var replayRank = map[string]int{"v": 8, "/": 8, "esc": 8, "]": rankOften, ".": rankOften + 1, "r": rankOften + 2, " ": rankOwn}

// ownHints are the keys that a pane cannot do without: what else it holds, or
// where to go from it. Those that the root's table has move to the front.
var ownHints = [paneCount][]hint{
	PaneMap:      {{key: "enter"}, {key: ">", label: "< >", word: "budget"}, {key: "R", label: "R", word: "run"}},
	PaneDetail:   {{key: "tab"}},
	PaneWorst:    {{key: "tab"}, {key: "enter"}},
	PaneClipping: {{key: "o", label: "o", word: "view"}},
	// The budget is what the person came for; the other parts are one key away.
	PaneLandscape: {{key: "o", label: "o", word: "part"}, {key: "<", label: "< >", word: "budget"}, {key: "w", label: "w", word: "recipe"}},
	PaneCompare:   {{key: "o", label: "o", word: "view"}, {key: "c", label: "c", word: "trade"}},
	PaneKL:        {{key: "R", label: "R", word: "measure"}, {key: "o", label: "o", word: "view"}, {key: "c", label: "c", word: "choose"}, {key: "s", label: "s", word: "sort"}, {key: "D", label: "D", word: "bias"}},
	PaneBias:      {{key: "R", label: "R", word: "look"}, {key: "D", label: "D", word: "KL"}, {key: "c", label: "c", word: "choose"}},
	PaneGates:     {{key: "R", label: "R", word: "run"}, {key: "tab", label: "tab"}, {key: "enter", label: "enter", word: "cases"}, {key: "n", label: "n p", word: "failing"}, {key: "c", label: "c", word: "choose"}, {key: "esc", label: "esc"}},
	PaneAudit:     {{key: "enter", label: "enter", word: "open"}, {key: "esc", label: "esc"}, {key: "tab", label: "tab", word: "part"}, {key: "p", label: "p", word: "proof"}, {key: "s", label: "s", word: "sort"}, {key: "o", label: "o", word: "name"}},
	PaneLog:       {{key: "f", label: "f", word: "kinds"}},
	PaneTensor:    {{key: "right", label: "←→", word: "pages"}},
}

// hints are the keys that work now: the focused pane's own, then the root's in
// the order of its table.
func (m *Model) hints() []hint {
	var own, rest []hint
	at := map[string]int{} // of own, by key
	for i, h := range ownHints[m.focus] {
		h.rank = rankOwn + len(ownHints[m.focus]) - i
		if m.focus == PaneKL && h.key == "R" && unfinished(m.yard()) {
			h.word = "go on"
		}
		if m.focus == PaneGates {
			h.word = m.gatesWord(h.key, h.word)
		}
		if a, ok := m.panes[m.focus].(*views.Audit); ok && a.Opened() {
			switch h.key {
			case "enter":
				h.word = "map"
			case "esc":
				h.word = "back"
			}
		}
		at[h.key] = len(own)
		own = append(own, h)
	}
	for i := range rootActions {
		a := &rootActions[i]
		if a.hint == "" || a.why(m) != "" {
			continue
		}
		h := hint{a.keys[0], a.label, a.hint, hintRank[a.keys[0]]}
		if rank, ok := replayRank[h.key]; ok && m.src.player != nil {
			h.rank = rank
		}
		if h.key == "tab" && m.w < twoColumns { // one pane is shown at a time
			h.rank = rankOften + 4
		}
		switch {
		case h.key == " " && m.src.player != nil && !m.pos.Playing:
			h.word = "play"
		case h.key == " " && m.ownedPause():
			if m.heldBackground() {
				h.word = "go on"
			}
		case h.key == " " && m.paused():
			h.word = "go on"
		case h.key == "r" && m.home != nil, h.key == "r" && m.src.player != nil:
			h.word = "leave"
		}
		if j, ok := at[h.key]; ok {
			if own[j].word == "" {
				own[j].label, own[j].word = h.label, h.word
			}
			continue
		}
		rest = append(rest, h)
	}
	own = slices.DeleteFunc(own, func(h hint) bool { return h.word == "" || !m.works(h.key) })
	return append(own, rest...)
}

// works says whether a key does something now, in the focused pane or else in
// the root.
func (m *Model) works(key string) bool {
	for _, k := range m.panes[m.focus].Keys() {
		if slices.Contains(k.Keys, key) {
			return k.Disabled == ""
		}
	}
	a := actionFor(key)
	return a != nil && a.why(m) == ""
}

// atLeast are the hints from a rank on.
func atLeast(hints []hint, rank int) []hint {
	var out []hint
	for _, h := range hints {
		if h.rank >= rank {
			out = append(out, h)
		}
	}
	return out
}

// fitting are the hints that w cells hold, those of higher rank before others;
// what stays always is among them.
func fitting(hints []hint, w int) []hint {
	byRank := slices.Clone(hints)
	slices.SortStableFunc(byRank, func(a, b hint) int { return b.rank - a.rank })
	kept := map[string]bool{}
	with := func(key string) (out []hint) {
		for _, h := range hints {
			if kept[h.key] || h.key == key {
				out = append(out, h)
			}
		}
		return out
	}
	for _, h := range byRank {
		kept[h.key] = h.rank >= rankStays || hintsWidth(with(h.key)) <= w
	}
	return with("")
}

func hintsWidth(hints []hint) int {
	n := 0
	for i, h := range hints {
		if i > 0 {
			n += 2
		}
		n += views.Width(h.label) + 1 + views.Width(h.word)
	}
	return n
}

// leastTags is the room for one whole variant and how many there are besides.
func (m *Model) leastTags() int {
	variants := m.scene.State.Variants
	if len(variants) == 0 {
		return 0
	}
	n := views.Width(views.ShortVariants(variants)[0]) + 4
	if len(variants) > 1 {
		n += 4
	}
	return min(n, m.w/3)
}

// variantTags are the variants' names with their marks, in at most w cells. The
// shown one is underlined, or in brackets where there are no styles; where there
// is no room for all, those that do not fit are counted.
func (m *Model) variantTags(w int, short bool) (string, []span) {
	t, sc := m.scene.Theme, m.scene
	names := make([]string, len(sc.State.Variants))
	for i, v := range sc.State.Variants {
		names[i] = views.Clean(v.Name)
	}
	if short {
		names = views.ShortVariants(sc.State.Variants)
	}
	var b strings.Builder
	var spans []span
	x := 0
	for i, v := range sc.State.Variants {
		n := views.Width(names[i]) + 4
		if rest := len(names) - len(spans); x+n > w-4 && (rest > 1 || x+n > w) {
			if len(spans) > 0 {
				b.WriteString(t.Dim.Render(fmt.Sprintf(" +%d", rest)))
				break
			}
			shown := sc.State.Variants[sc.Variant]
			b.WriteString(m.variantTag(shown, views.TruncateMiddle(views.Clean(shown.Name), max(w-8, 4))))
			if rest > 1 {
				b.WriteString(t.Dim.Render(fmt.Sprintf("+%d", rest-1)))
			}
			break
		}
		b.WriteString(m.variantTag(v, names[i]))
		spans = append(spans, span{from: x, to: x + n, variant: v.ID})
		x += n
	}
	return b.String(), spans
}

// variantTag is one variant with a blank or a bracket at either side.
func (m *Model) variantTag(v sessions.Variant, name string) string {
	t := m.scene.Theme
	style := t.VariantStyle(v.ID)
	mark := style.Render(" " + t.VariantMark(v.ID))
	switch {
	case v.ID != m.scene.Variant:
		return " " + style.Render(name) + mark + " "
	case t.Profile == termenv.Ascii:
		return "[" + name + mark + "]"
	}
	return " " + style.Bold(true).Underline(true).Render(name) + mark + " "
}

// messageLine is the line above the last: the filter while it is typed, else
// the answer to the last key, else the newest problem with the count of all.
func (m *Model) messageLine(w int) string {
	t := m.scene.Theme
	in := w - 2
	text := ""
	switch {
	case m.editing != nil:
		text = m.filterView(in)
	// A file's name and the reason of an error stand at the end.
	case m.note.text != "" && m.note.bad:
		text = t.Bad.Render(views.TruncateMiddle("✗ "+views.Clean(m.note.text), in))
	case m.note.text != "":
		text = t.Text.Render(views.TruncateMiddle(views.Clean(m.note.text), in))
	default:
		text = m.problemLine(in)
	}
	return " " + views.Truncate(text, in)
}

// problemLine is the newest finding or failure, and how many there are.
func (m *Model) problemLine(w int) string {
	n, last := 0, ""
	log := m.scene.State.Log
	for i := range log {
		switch log[i].Kind {
		case sessions.EventFailed, sessions.EventFallback, sessions.EventFinding, sessions.EventStopped:
			n++
			last = log[i].Message
		}
	}
	t := m.scene.Theme
	if n == 0 {
		if f := m.scene.Filter; f.Text != "" {
			const before = "esc clears the filter "
			after := fmt.Sprintf(": %d of %s", f.Count, plural(len(m.scene.State.Tensors), "tensor"))
			room := w - views.Width(before) - views.Width(after)
			return t.Dim.Render(before + views.TruncateMiddle(views.Clean(f.Text), room) + after)
		}
		return ""
	}
	count := t.Warn.Render("▲ "+plural(n, "problem")) + t.Dim.Render(", 8 lists them: ")
	return count + t.Text.Render(views.Truncate(views.Clean(last), w-views.Width(count)))
}
