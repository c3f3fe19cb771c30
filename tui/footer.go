package tui

import (
	"fmt"
	"strings"

	"github.com/muesli/termenv"

	"quantscope/sessions"
	"quantscope/views"
)

// footerLine lists the variants with their colours, the shown one marked, then
// the keys that work here. Where room is scarce, variants leave out the scheme
// that they share with the first one, then keys give way by rank.
func (m *Model) footerLine(w int) (string, []span) {
	hints := m.hints()
	lasting := hintsWidth(hints[max(len(hints)-3, 0):])
	variants, spans := m.variantTags(w-1-lasting, false)
	if views.Width(variants)+2+hintsWidth(needed(hints)) > w-1 {
		variants, spans = m.variantTags(w-1-lasting, true)
	}
	for len(hints) > 3 && views.Width(variants)+2+hintsWidth(hints) > w-1 {
		hints = dropHint(hints)
	}
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

// hints are the keys that work now, by rank of use.
func (m *Model) hints() []hint {
	var out []hint
	for i := range rootActions {
		a := &rootActions[i]
		if a.hint == "" || a.why(m) != "" {
			continue
		}
		h := hint{a.keys[0], a.label, a.hint, hintRank[a.keys[0]]}
		if rank, ok := replayRank[h.key]; ok && m.src.player != nil {
			h.rank = rank
		}
		switch {
		case h.key == " " && m.src.player != nil && !m.pos.Playing:
			h.word = "play"
		case h.key == " " && m.paused():
			h.word = "go on"
		case h.key == "r" && m.home != nil, h.key == "r" && m.src.player != nil:
			h.word = "leave"
		}
		out = append(out, h)
	}
	return out
}

// hintRank orders the hints by how soon they give way; the three last ones
// stay.
var hintRank = map[string]int{
	"g": 1, "]": 2, ".": 2, "e": 3, "b": 4, "p": 5, "m": 6, "enter": 7, "r": 8, "v": 9, "/": 10, "esc": 11, " ": 12, ":": 13, "?": 14, "q": 15,
}

// replayRank is their order while a replay is open, whose keys matter most.
var replayRank = map[string]int{"]": 9, ".": 10, "r": 11, " ": 12, "esc": 8, "/": 8, "v": 8}

// needed are the hints for which variants give up part of their names.
func needed(hints []hint) []hint {
	var out []hint
	for _, h := range hints {
		if h.rank >= hintRank["v"] {
			out = append(out, h)
		}
	}
	return out
}

// dropHint leaves out the hint of least rank.
func dropHint(hints []hint) []hint {
	least := 0
	for i := range hints {
		if hints[i].rank < hints[least].rank {
			least = i
		}
	}
	return append(append([]hint{}, hints[:least]...), hints[least+1:]...)
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
			return t.Dim.Render(fmt.Sprintf("filter %s: %d of %s, esc clears it", views.Clean(f.Text), f.Count, plural(len(m.scene.State.Tensors), "tensor")))
		}
		return ""
	}
	count := t.Warn.Render("▲ "+plural(n, "problem")) + t.Dim.Render(", 8 lists them: ")
	return count + t.Text.Render(views.Truncate(views.Clean(last), w-views.Width(count)))
}
