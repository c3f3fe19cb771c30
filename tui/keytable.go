package tui

import (
	"fmt"
	"strings"

	"quantscope/sessions"
)

// KeyTable lists all keys of the workbench: the root's, then those of each
// pane. It is made of the tables that dispatch uses.
func KeyTable() []KeySection {
	st := &sessions.State{}
	st.Progress.State = sessions.RunIdle
	m := New(sessions.NewStatic(st), Options{})
	defer m.end()
	sections := keySections(m, paneCount)
	for i := range sections {
		for j := range sections[i].Keys {
			sections[i].Keys[j].Disabled = ""
		}
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
writes it anew. Inside the workbench ` + "`?`" + ` shows the same, with the keys that do nothing at
the moment and why, and ` + "`:`" + ` searches all commands by name.

A key that does nothing here says why in the line above the last. The mouse works as well: a click on a
screen's name, a pane, a cell, a row, a variant or a key in the last line does what it says, a double click
opens the tensor, the wheel scrolls, and a click on the bar of a replay seeks.
`
