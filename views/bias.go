package views

import (
	"path/filepath"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/analysis/bias"
	"quantscope/sessions"
)

// Bias is the other side of screen 5: whether errors have a sign, and what becomes
// of it on its way through the layers. A table of candidates stands on top; below it
// their error by depth and, over the same axis, the sign bias, the gain or the shift;
// beside that the figures of one layer, and the weights. Two candidates of equal error
// can differ in it. The work is the root's; the pane asks for it through the scene.
type Bias struct {
	scene *Scene
	w, h  int

	at     int // candidate that is selected, by its index in the setup
	layer  int // whose figures are shown; −1: the embeddings
	set    bool
	part   biasPart
	figure biasFigure
	top    int // first row of the table

	version uint64
	known   biasKnown
	drawn   biasDrawing
	cached  string
}

// biasPart is what the curves are of.
type biasPart int

const (
	biasResidual biasPart = iota
	biasAttention
	biasMLP
	biasWeights // in place of the curves, where they have no room of their own
	biasParts
)

var biasPartNames = [biasParts]string{"residual stream", "attention", "MLP or experts", "weights"}

// biasPartKeys are the parts as rows have them.
var biasPartKeys = [biasParts]string{bias.Residual, bias.Attention, bias.MLP, ""}

// biasFigure is what the lower curves show.
type biasFigure int

const (
	biasSign biasFigure = iota
	biasGain
	biasShift
	biasFigures
)

var biasFigureNames = [biasFigures]string{"sign bias", "gain", "shift"}

// biasDrawing is all that a picture depends on.
type biasDrawing struct {
	version, scene uint64
	theme          *Theme
	state          *sessions.State
	run, found     int
	ended          bool
	w, h           int
}

var _ Pane = (*Bias)(nil)

// NewBias makes the pane.
func NewBias(s *Scene) *Bias { return &Bias{scene: s, at: -1} }

// Title says what is held against what.
func (p *Bias) Title() string {
	run := p.run()
	if run == nil {
		return "sign bias through depth"
	}
	s := run.Setup
	title := "sign bias against " + Clean(filepath.Base(s.Reference.Label))
	if n := len(p.scene.State.Biases); n > 1 {
		title += " · " + thousands(p.scene.Bias.At+1) + " of " + thousands(n)
	}
	return title + " · " + thousands(s.Positions) + " positions · " + Clean(s.Activations) + " activations"
}

// SetSize sets the inner size.
func (p *Bias) SetSize(w, h int) { p.w, p.h = w, h }

// Apply takes in what is new.
func (p *Bias) Apply(b sessions.Batch) {
	if b.Reset != nil || len(b.BiasesBegun) > 0 || len(b.BiasesFound) > 0 || len(b.BiasesEnded) > 0 {
		p.version++
	}
}

// Keys lists the keys of the pane.
func (p *Bias) Keys() []Key {
	p.refresh()
	off := p.scene.Bias.runOff()
	none := ""
	if p.known.report == nil {
		none = "nothing was looked at yet"
	}
	other, alone := none, none
	if len(p.scene.State.Biases) < 2 {
		other = "there is no other look: R begins one"
	}
	if alone == "" && len(p.known.report.Setup.Candidates) < 2 {
		alone = "there is one candidate"
	}
	return []Key{
		{Keys: []string{"R"}, Label: "R", Help: "look", Disabled: off},
		{Keys: []string{"c"}, Label: "c", Help: "choose candidates and corpora, and look", Disabled: off},
		{Keys: []string{"o"}, Label: "o", Help: "other part: " + biasPartNames[p.nextPart(1)], Disabled: none},
		{Keys: []string{"O"}, Label: "O", Help: "part before", Disabled: none},
		{Keys: []string{"f"}, Label: "f", Help: "other figure: " + biasFigureNames[(p.figure+1)%biasFigures], Disabled: none},
		{Keys: []string{"F"}, Label: "F", Help: "figure before", Disabled: none},
		{Keys: []string{"up", "k"}, Label: "↑ k", Help: "candidate above", Disabled: alone},
		{Keys: []string{"down", "j"}, Label: "↓ j", Help: "candidate below", Disabled: alone},
		{Keys: []string{"left", "h"}, Label: "← h", Help: "layer before", Disabled: none},
		{Keys: []string{"right", "l"}, Label: "→ l", Help: "layer after", Disabled: none},
		{Keys: []string{"home"}, Label: "home", Help: "the embeddings", Disabled: none},
		{Keys: []string{"end"}, Label: "end", Help: "the last layer", Disabled: none},
		{Keys: []string{"n"}, Label: "n", Help: "next look", Disabled: other},
		{Keys: []string{"N"}, Label: "N", Help: "look before", Disabled: other},
	}
}

// HandleKey acts on the keys that Keys lists.
func (p *Bias) HandleKey(k tea.KeyMsg) (bool, tea.Cmd) {
	name := k.String()
	for _, key := range p.Keys() {
		for _, n := range key.Keys {
			if n == name {
				if key.Disabled != "" {
					return false, nil
				}
				p.act(name)
				return true, nil
			}
		}
	}
	return false, nil
}

// act does what a key that is not disabled is for.
func (p *Bias) act(name string) {
	switch name {
	case "R":
		p.scene.askBias(BiasRun)
	case "c":
		p.scene.askBias(BiasDialog)
	case "o":
		p.part = p.nextPart(1)
	case "O":
		p.part = p.nextPart(-1)
	case "f":
		p.figure = (p.figure + 1) % biasFigures
	case "F":
		p.figure = (p.figure + biasFigures - 1) % biasFigures
	case "up", "k":
		p.choose(p.at - 1)
	case "down", "j":
		p.choose(p.at + 1)
	case "left", "h":
		p.goTo(p.layer - 1)
	case "right", "l":
		p.goTo(p.layer + 1)
	case "home":
		p.goTo(-1)
	case "end":
		p.goTo(p.known.report.Setup.Layers - 1)
	case "n", "N":
		n, step := len(p.scene.State.Biases), 1
		if name == "N" {
			step = n - 1
		}
		p.scene.showBias((max(p.scene.Bias.At, 0) + step) % n)
	}
	p.version++
}

// choose selects a candidate.
func (p *Bias) choose(c int) { p.at = max(min(c, len(p.known.report.Setup.Candidates)-1), 0) }

// goTo shows the figures of a layer.
func (p *Bias) goTo(layer int) {
	p.layer, p.set = max(min(layer, p.known.report.Setup.Layers-1), -1), true
}

// nextPart is the part after the one that is shown: the weights only where they have
// no place of their own.
func (p *Bias) nextPart(by int) biasPart {
	n := biasParts
	if p.layout().weights.h > 0 && p.part != biasWeights {
		n = biasWeights
	}
	return (p.part + biasPart(by) + n) % n
}

// HandleMouse selects a candidate or a layer by click, and scrolls candidates.
func (p *Bias) HandleMouse(x, y int, m tea.MouseMsg) (bool, tea.Cmd) {
	p.refresh()
	if p.known.report == nil {
		return false, nil
	}
	l := p.layout()
	switch {
	case m.Button == tea.MouseButtonWheelUp && l.table.has(x, y):
		p.choose(p.at - 1)
	case m.Button == tea.MouseButtonWheelDown && l.table.has(x, y):
		p.choose(p.at + 1)
	case m.Action != tea.MouseActionPress || m.Button != tea.MouseButtonLeft:
		return false, nil
	case l.table.has(x, y):
		row := y - l.table.y - 1 + p.top
		if row < 0 || row >= len(p.known.report.Setup.Candidates) {
			return false, nil
		}
		p.choose(row)
	default:
		for _, r := range []rect{l.upper, l.lower} {
			if r.has(x, y) && p.part != biasWeights {
				p.goTo(p.layerAt(x-r.x, r.w))
				p.version++
				return true, nil
			}
		}
		return false, nil
	}
	p.version++
	return true, nil
}
