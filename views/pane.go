package views

import (
	tea "github.com/charmbracelet/bubbletea"

	"quantscope/sessions"
)

// Pane is one region of the screen. A pane is not a tea.Model: the root calls
// it directly, and only the root sees raw messages.
type Pane interface {
	// Title is what stands above the pane; it may name the metric and variant.
	Title() string
	// SetSize gives the pane its inner size in cells. Both may be 0.
	SetSize(w, h int)
	// Apply tells the pane what the scene's state has just taken in.
	Apply(b sessions.Batch)
	// HandleKey acts on a key and says whether it did.
	HandleKey(k tea.KeyMsg) (handled bool, cmd tea.Cmd)
	// HandleMouse acts on a mouse event at cell (x, y) of the pane.
	HandleMouse(x, y int, m tea.MouseMsg) (handled bool, cmd tea.Cmd)
	// View is exactly h lines of at most w cells. It changes nothing but the
	// pane's own cache.
	View() string
	// Keys lists the keys that work in the pane, for dispatch, help and docs.
	Keys() []Key
}

// Key is one row of a key table.
type Key struct {
	Keys     []string // as tea.KeyMsg.String() spells them
	Label    string   // how help shows it: "↑ k"
	Help     string   // what it does, in a few words
	Disabled string   // why it does nothing now; "" when it works
}
