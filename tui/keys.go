package tui

import (
	"strings"

	tea "github.com/charmbracelet/bubbletea"
)

// action is one row of the root's key table: it feeds dispatch, the footer, the
// palette, help and docs/keys.md.
type action struct {
	keys  []string // as tea.KeyMsg.String() spells them
	label string   // how help shows them
	name  string   // what it does, as a command
	hint  string   // one word for the footer; "" keeps it out
	group string   // heading in help
	after bool     // the focused pane is asked first
	off   func(*Model) string
	run   func(*Model) tea.Cmd
}

// why is the reason for which an action does nothing now, "" when it works.
func (a *action) why(m *Model) string {
	if a.off == nil {
		return ""
	}
	return a.off(m)
}

// Headings of the root's keys.
const (
	groupScreens = "Screens"
	groupMove    = "Moving"
	groupLook    = "What is shown"
	groupRun     = "Run and replay"
	groupTools   = "Tools"
)

// rootActions is the root's key table, in the order of help. The footer takes
// its hints from it in the same order.
var rootActions []action

func init() { // breaks the cycle table → help → table
	rootActions = append(rootActions, screenActions()...)
	rootActions = append(rootActions, []action{
		{keys: []string{"tab"}, label: "tab", name: "next pane", hint: "pane", group: groupMove, after: true, off: (*Model).offFocus, run: func(m *Model) tea.Cmd { m.moveFocus(1); return nil }},
		{keys: []string{"shift+tab"}, label: "shift+tab", name: "previous pane", group: groupMove, after: true, off: (*Model).offFocus, run: func(m *Model) tea.Cmd { m.moveFocus(-1); return nil }},
		{keys: []string{"enter"}, label: "enter", name: "open the tensor under the cursor", hint: "open", group: groupMove, after: true, off: (*Model).offDrill, run: func(m *Model) tea.Cmd { m.drill(ScreenTensor); return nil }},
		{keys: []string{"esc", "backspace"}, label: "esc", name: "back", hint: "back", group: groupMove, after: true, off: (*Model).offEscape, run: (*Model).escape},
		{keys: []string{"g"}, label: "g", name: "next worst tensor", hint: "worst", group: groupMove, after: true, off: (*Model).offWorst, run: (*Model).nextWorst},
		{keys: []string{"G"}, label: "G", name: "previous worst tensor", group: groupMove, after: true, off: (*Model).offWorst, run: (*Model).previousWorst},

		{keys: []string{"/"}, label: "/", name: "filter tensors by name", hint: "filter", group: groupLook, after: true, run: (*Model).editFilter},
		{keys: []string{"v"}, label: "v", name: "variants: show or add", hint: "variants", group: groupLook, run: (*Model).pickVariant},
		{keys: []string{"V"}, label: "V", name: "show the next variant", group: groupLook, off: (*Model).offOneVariant, run: (*Model).cycleVariant},
		{keys: []string{"b"}, label: "b", name: "compare with the next variant", hint: "baseline", group: groupLook, off: (*Model).offOneVariant, run: (*Model).cycleBaseline},
		{keys: []string{"B"}, label: "B", name: "choose the baseline", group: groupLook, off: (*Model).offOneVariant, run: (*Model).pickBaseline},
		{keys: []string{"m"}, label: "m", name: "next metric", hint: "metric", group: groupLook, run: (*Model).cycleMetric},
		{keys: []string{"M"}, label: "M", name: "choose the metric", group: groupLook, run: (*Model).pickMetric},
		{keys: []string{"p"}, label: "p", name: "next projection", hint: "projection", group: groupLook, after: true, off: (*Model).offProjection, run: (*Model).cycleProjection},
		{keys: []string{"L"}, label: "L", name: "lock the colour scale over all variants", group: groupLook, after: true, run: (*Model).toggleLock},
		{keys: []string{"t"}, label: "t", name: "hot tier on the map, or the metric again", hint: "tier", group: groupLook, off: (*Model).offTierMap, run: (*Model).toggleTier},
		{keys: []string{"D"}, label: "D", name: "sign bias through depth, or KL again", group: groupLook, run: (*Model).toggleBias},
		{keys: []string{"T"}, label: "T", name: "next theme", group: groupLook, run: (*Model).cycleTheme},

		{keys: []string{" "}, label: "space", name: "pause or go on", hint: "pause", group: groupRun, off: (*Model).offPause, run: (*Model).togglePause},
		{keys: []string{"X"}, label: "X", name: "cancel the run", group: groupRun, off: (*Model).offCancel, run: (*Model).askCancel},
		{keys: []string{"r"}, label: "r", name: "replay this session, or return from it", hint: "replay", group: groupRun, off: (*Model).offReplay, run: (*Model).toggleReplay},
		{keys: []string{"["}, label: "[", name: "half the speed of a replay, or a hot tier slower", group: groupRun, off: (*Model).offSpeed, run: func(m *Model) tea.Cmd { return m.changePace(-1) }},
		{keys: []string{"]"}, label: "]", name: "twice the speed of a replay, or a hot tier faster", hint: "speed", group: groupRun, off: (*Model).offSpeed, run: func(m *Model) tea.Cmd { return m.changePace(1) }},
		{keys: []string{","}, label: ",", name: "one event back", group: groupRun, off: (*Model).offPlayer, run: func(m *Model) tea.Cmd { return m.step(-1) }},
		{keys: []string{"."}, label: ".", name: "one event on", hint: "step", group: groupRun, off: (*Model).offPlayer, run: func(m *Model) tea.Cmd { return m.step(1) }},
		{keys: []string{"home"}, label: "home", name: "to the beginning of the replay", group: groupRun, off: (*Model).offPlayer, run: func(m *Model) tea.Cmd { return m.seek(0) }},
		{keys: []string{"end"}, label: "end", name: "to the end of the replay", group: groupRun, off: (*Model).offPlayer, run: func(m *Model) tea.Cmd { return m.seek(m.pos.EndUS) }},

		{keys: []string{"e"}, label: "e", name: "export the records", hint: "export", group: groupTools, off: (*Model).offExport, run: (*Model).askExport},
		{keys: []string{":", "ctrl+p"}, label: ":", name: "search all commands", hint: "commands", group: groupTools, run: (*Model).openPalette},
		{keys: []string{"?"}, label: "?", name: "help", hint: "help", group: groupTools, run: (*Model).openHelp},
		{keys: []string{"ctrl+l"}, label: "ctrl+l", name: "draw the screen anew", group: groupTools, run: func(*Model) tea.Cmd { return tea.ClearScreen }},
		{keys: []string{"ctrl+z"}, label: "ctrl+z", name: "suspend to the shell", group: groupTools, run: func(*Model) tea.Cmd { return tea.Suspend }},
		{keys: []string{"q"}, label: "q", name: "quit", hint: "quit", group: groupTools, run: (*Model).askQuit},
		{keys: []string{"ctrl+c"}, label: "ctrl+c", name: "quit at once", group: groupTools, run: (*Model).interrupt},
	}...)
}

func screenActions() []action {
	var out []action
	for i, info := range screenTable {
		if info.screen == ScreenTensor {
			continue
		}
		key := string(rune('1' + i))
		out = append(out, action{
			keys: []string{key}, label: key, name: info.name + " screen", group: groupScreens,
			off: func(*Model) string {
				if info.absent != "" {
					return info.name + ": " + info.absent
				}
				return ""
			},
			run: func(m *Model) tea.Cmd { m.show(info.screen); return nil },
		})
	}
	return out
}

// actionFor finds the root's action for a key.
func actionFor(key string) *action {
	for i := range rootActions {
		for _, k := range rootActions[i].keys {
			if k == key {
				return &rootActions[i]
			}
		}
	}
	return nil
}

// handleKey acts on a key: a dialog first, then the line that is edited, then
// the root's and the focused pane's tables.
func (m *Model) handleKey(k tea.KeyMsg) tea.Cmd {
	if k.String() == "ctrl+c" {
		return m.interrupt()
	}
	if m.first != nil {
		return m.first.keep(k)
	}
	if k.Type == tea.KeyRunes && len(k.Runes) > 1 && !k.Paste && !m.typing() {
		// Keys typed faster than the terminal was read come as one message.
		var cmds []tea.Cmd
		for _, r := range k.Runes {
			cmds = append(cmds, m.handleKey(keyOf(string(r))))
		}
		return tea.Batch(cmds...)
	}
	m.note = note{}
	switch {
	case m.dialog != nil:
		return m.dialog.key(m, k)
	case m.editing != nil:
		return m.filterKey(k)
	case k.Paste:
		return nil
	}
	return m.press(k)
}

// typing says whether keys are text now.
func (m *Model) typing() bool {
	return m.editing != nil || m.dialog != nil && m.dialog.typing()
}

// press dispatches a key by the tables. The root goes first, except where its
// action leaves the pane the first word or cannot work now.
func (m *Model) press(k tea.KeyMsg) tea.Cmd {
	key := k.String()
	a := actionFor(key)
	if a != nil && !a.after && a.why(m) == "" {
		return a.run(m)
	}
	disabled := ""
	if !m.layout.Small {
		pane := m.panes[m.focus]
		for _, row := range pane.Keys() {
			for _, name := range row.Keys {
				if name == key && row.Disabled != "" {
					disabled = row.Disabled
				}
			}
		}
		if disabled == "" {
			if handled, cmd := pane.HandleKey(k); handled {
				if m.focus == PaneLog && key == "enter" { // it put the cursor on the event's tensor
					m.drill(ScreenTensor)
				}
				if m.focus == PaneLandscape && key == "w" {
					m.askRecipe()
				}
				return m.guard(cmd)
			}
		}
	}
	switch {
	case disabled != "":
		m.say("%s", disabled)
	case a != nil && a.why(m) == "":
		return a.run(m)
	case a != nil:
		m.say("%s", a.why(m))
	}
	return nil
}

// keyOf is the message of a key by the name that tea.KeyMsg.String() gives it.
func keyOf(name string) tea.KeyMsg {
	if t, ok := keyTypes[name]; ok {
		return tea.KeyMsg{Type: t}
	}
	if name == " " {
		return tea.KeyMsg{Type: tea.KeySpace, Runes: []rune{' '}}
	}
	if rest, ok := strings.CutPrefix(name, "alt+"); ok {
		k := keyOf(rest)
		k.Alt = true
		return k
	}
	return tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(name)}
}

// keyTypes holds the named keys that tables use.
var keyTypes = func() map[string]tea.KeyType {
	types := map[string]tea.KeyType{}
	for _, t := range []tea.KeyType{
		tea.KeyUp, tea.KeyDown, tea.KeyLeft, tea.KeyRight, tea.KeyShiftUp, tea.KeyShiftDown, tea.KeyShiftLeft, tea.KeyShiftRight,
		tea.KeyCtrlUp, tea.KeyCtrlDown, tea.KeyCtrlLeft, tea.KeyCtrlRight,
		tea.KeyHome, tea.KeyEnd, tea.KeyPgUp, tea.KeyPgDown, tea.KeyTab, tea.KeyShiftTab, tea.KeyEnter, tea.KeyEsc,
		tea.KeyBackspace, tea.KeyDelete, tea.KeyInsert,
		tea.KeyCtrlA, tea.KeyCtrlB, tea.KeyCtrlC, tea.KeyCtrlD, tea.KeyCtrlE, tea.KeyCtrlF, tea.KeyCtrlK, tea.KeyCtrlL,
		tea.KeyCtrlN, tea.KeyCtrlP, tea.KeyCtrlU, tea.KeyCtrlW, tea.KeyCtrlZ,
	} {
		types[t.String()] = t
	}
	return types
}()
