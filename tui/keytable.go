package tui

import (
	"fmt"
	"slices"
	"strings"

	"quantscope/sessions"
	"quantscope/views"
)

// KeySection is one part of the table of keys.
type KeySection struct {
	Title string
	Keys  []views.Key
}

// rootKeysOf are the keys with which a pane does what the root's action of the
// same key says; they are listed once, with the root's.
var rootKeysOf = [paneCount][]string{
	PaneMap:   {"g", "G"},
	PaneWorst: {"g", "G"},
}

// ownKeys are the rows of a pane's table that the root's does not list.
func (m *Model) ownKeys(id PaneID) []views.Key {
	var out []views.Key
	for _, k := range m.panes[id].Keys() {
		if !slices.ContainsFunc(k.Keys, func(key string) bool { return slices.Contains(rootKeysOf[id], key) }) {
			out = append(out, k)
		}
	}
	return out
}

// hotTierKeys is the heading of the map's keys while it shows a hot tier.
const hotTierKeys = "Map pane, hot tier"

// keySections is what help and docs list: the root's keys by group, then those
// of the panes, the given ones first. Where a pane comes first, what it does
// with a key stands for what the root does with it elsewhere.
func keySections(m *Model, first PaneID) []KeySection {
	var out []KeySection
	var unseen KeySection // of the map
	add := func(id PaneID) []views.Key {
		keys := m.ownKeys(id)
		name, other := paneNames[id]+" pane", hotTierKeys
		if id == PaneMap && m.scene.Tier.On {
			name, other = hotTierKeys, name
		}
		if len(keys) > 0 {
			out = append(out, KeySection{name, keys})
		}
		if more := views.OtherKeys(m.panes[id]); id == PaneMap && len(more) > 0 {
			more = slices.DeleteFunc(more, func(k views.Key) bool { return slices.Contains(rootKeysOf[id], k.Keys[0]) })
			if unseen = (KeySection{other, more}); first != id {
				out = append(out, unseen)
			}
		}
		return keys
	}
	var taken []string
	if first < paneCount {
		for _, k := range add(first) {
			taken = append(taken, k.Keys...)
		}
	}
	for _, group := range []string{groupScreens, groupMove, groupLook, groupRun, groupTools} {
		s := KeySection{Title: group}
		for i := range rootActions {
			a := &rootActions[i]
			if a.group == group && !(a.after && slices.Contains(taken, a.keys[0])) {
				s.Keys = append(s.Keys, views.Key{Keys: a.keys, Label: a.label, Help: a.name, Disabled: a.why(m)})
			}
		}
		out = append(out, s)
	}
	for id := range paneCount {
		if id != first {
			add(id)
		} else if id == PaneMap {
			out = append(out, unseen)
		}
	}
	return out
}

// keySigns are short forms of the names of keys.
var keySigns = map[string]string{
	" ": "space", "up": "↑", "down": "↓", "left": "←", "right": "→", "pgdown": "pgdn",
}

// keyLabel names all keys of a row.
func keyLabel(keys []string) string {
	names := slices.Clone(keys)
	for i, k := range names {
		if sign := keySigns[k]; sign != "" {
			names[i] = sign
		}
	}
	return strings.Join(names, " ")
}

// steadyHelp are words for keys whose help says what they would do next.
var steadyHelp = [paneCount]map[string]string{
	PaneClipping:  {"l": "counts: linear or logarithmic", "c": "compare places by another measure", "o": "other view"},
	PaneCompare:   {"o": "next view", "O": "view before", "g": "next regression", "c": "weight error against output error, where a side is calibrated, and back"},
	PaneAudit:     {"enter": "pairs of a layer, a finding or a group in full, then the tensor on the map", "s": "sort by something else", "tab": "next part: census, findings, plan, fallbacks", "n": "next checkpoint, or recipe", "N": "checkpoint or recipe before"},
	PaneKL:        {"enter": "worst positions of the candidate, then the position in full", "R": "measure, or go on with what was left", "o": "next view", "s": "sort by something else"},
	PaneBias:      {"o": "other part: the stream, attention, MLP or experts", "f": "other figure: sign bias, gain, shift"},
	PaneGates:     {"enter": "cases of the cell, then the case in full", "tab": "next part: probes, cases, honesty, arms", "R": "run gates, or go on with what was left", "s": "cases that failed first, or in the suite's order", "left": "arm to the left; in a case the pass before", "right": "arm to the right; in a case the next pass", "up": "row above; in full a line up", "down": "row below; in full a line down"},
	PaneLandscape: {"o": "next part", "s": "rows in order, or the largest effect first", "u": "budgets and prices by matrix, what is fused, expert, layer or projection", "y": "prices as errors, or against the random control"},
	PaneLog:       {"f": "kinds of events that are shown"},
	PaneTensor:    {"l": "counts: linear or logarithmic"},
}

// KeyTable lists all keys of the workbench: the root's, then those of each
// pane. It is made of the tables that dispatch uses.
func KeyTable() []KeySection {
	st := &sessions.State{}
	st.Progress.State = sessions.RunIdle
	m := New(sessions.NewStatic(st), Options{})
	defer m.cancel()
	return m.keyTable()
}

// keyTable is KeyTable, in words that hold in any state.
func (m *Model) keyTable() []KeySection {
	sections := keySections(m, paneCount)
	for i := range sections {
		pane := slices.IndexFunc(paneNames[:], func(name string) bool { return name+" pane" == sections[i].Title })
		keys := slices.Clone(sections[i].Keys)
		for j := range keys {
			keys[j].Disabled = ""
			if pane >= 0 {
				if words := steadyHelp[pane][keys[j].Keys[0]]; words != "" {
					keys[j].Help = words
				}
			}
		}
		sections[i].Keys = keys
	}
	return sections
}

// KeyDoc is docs/keys.md.
func KeyDoc() string {
	var b strings.Builder
	b.WriteString(keyDocHead)
	for _, s := range KeyTable() {
		fmt.Fprintf(&b, "\n## %s\n\n| key | what it does |\n| --- | --- |\n", s.Title)
		for _, k := range s.Keys {
			var names []string
			for _, name := range k.Keys {
				if name == " " {
					name = "space"
				}
				names = append(names, "`"+strings.ReplaceAll(name, "|", "\\|")+"`")
			}
			fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(names, " "), strings.ReplaceAll(k.Help, "|", "\\|"))
		}
	}
	return b.String()
}

const keyDocHead = `# Keys of the workbench

This page is generated from the tables that dispatch the keys; ` + "`go test ./tui -run KeyDoc -update`" + `
writes it anew. Inside the workbench ` + "`?`" + ` shows the same keys, those of the pane in focus first and
with why a key does nothing at the moment, and ` + "`:`" + ` finds by name what works on this screen.

A key that does nothing here says why in the line above the last. The mouse works as well: a click on a
screen's name, a pane, a cell, a row, a variant or a key in the last line does what it says, a double click
opens the tensor, the wheel scrolls, and a click on the bar of a replay seeks.
`
