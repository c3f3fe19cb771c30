package views

import (
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/analysis/yardstick"
	"quantscope/sessions"
)

// KLWork is what the root and the KL screen share: the root starts measurements
// and computes reports in the background, the screen shows them and asks for more.
type KLWork struct {
	At       int               // the yard that is shown, -1 where there is none
	Report   *yardstick.Report // of the yard that is shown, as far as it was computed; nil where there is none yet
	Stale    bool              // chunks have come that Report does not have
	Off      string            // why nothing can be measured here; "" where it can
	Running  bool              // a measurement of this process
	Progress yardstick.Progress
	Err      string   // why the last one failed
	Ask      KLAsk    // taken by the root
	Specs    []string // what AskMeasure measures; none: the session's variants
}

// KLAsk is what the person wants of the root.
type KLAsk uint8

// What can be asked for.
const (
	KLNothing KLAsk = iota
	KLMeasure       // begin a measurement
	KLDialog        // choose candidates and corpora first
	KLStop          // end what runs
)

// KL is screen 5: candidates against the reference.
type KL struct {
	scene *Scene
	w, h  int
}

// NewKL makes the pane.
func NewKL(s *Scene) *KL { return &KL{scene: s} }

// Title implements Pane.
func (p *KL) Title() string { return "KL to the reference" }

// SetSize implements Pane.
func (p *KL) SetSize(w, h int) { p.w, p.h = w, h }

// Apply implements Pane.
func (p *KL) Apply(b sessions.Batch) {}

// HandleKey implements Pane.
func (p *KL) HandleKey(k tea.KeyMsg) (bool, tea.Cmd) { return false, nil }

// HandleMouse implements Pane.
func (p *KL) HandleMouse(x, y int, m tea.MouseMsg) (bool, tea.Cmd) { return false, nil }

// View implements Pane.
func (p *KL) View() string {
	lines := make([]string, max(p.h, 0))
	return strings.Join(lines, "\n")
}

// Keys implements Pane.
func (p *KL) Keys() []Key { return nil }
