package tui

import (
	"fmt"
	"strconv"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/analysis/tier"
	"quantscope/quant/method"
	"quantscope/sessions"
	"quantscope/views"
)

// The fields of the form of a hot tier.
const (
	tierBudgets = iota
	tierWorkload
	tierHot
	tierCold
	tierWindow
	tierHysteresis
	tierDecay
	tierPace
	tierFields
)

// Boxes of the form.
const (
	boxMoves    = "moves"
	boxPerLayer = "by layer"
)

// tierRate is how many windows a second a person can follow.
const tierRate = 20

// newTierForm asks for budgets, workload, precisions and policy.
func newTierForm(m *Model) *askForm {
	p := tier.DefaultPolicy()
	f := &askForm{name: "Run a hot tier", keys: "enter run · space mark · tab next · esc close", wide: 84, accept: acceptTier,
		boxes: []klBox{
			{name: boxMoves, note: "each move is kept (trace 2): the map shows single experts", on: true},
			{name: boxPerLayer, note: "every layer has its share of the budget, else they compete", on: p.PerLayer},
		},
		fields: make([]askField, tierFields)}
	set := func(at int, label, hint, text string) { f.fields[at] = askField{label, hint, newLineEdit(text)} }
	set(tierBudgets, "budgets", "of all experts' hot bytes: 25%, or in bytes: 1.5GiB; commas between them", "0%, 10%, 25%, 50%, 100%")
	set(tierWorkload, "workload", "texts, a .routes file, or zipf:1.1:drift=2048; nothing: calibration texts", "")
	set(tierHot, "hot", "a variant, or source: as the checkpoint has it", "nvfp4")
	set(tierCold, "cold", "a variant", "code2+sym")
	set(tierWindow, "window", "tokens after which experts may move", strconv.Itoa(p.Window))
	set(tierHysteresis, "hysteresis", "a newcomer must be hotter by this share than what it replaces", strconv.FormatFloat(p.Hysteresis, 'g', -1, 64))
	set(tierDecay, "decay", "of the scores from window to window, from 0 to below 1", strconv.FormatFloat(p.Decay, 'g', -1, 64))
	set(tierPace, "pace", "windows a second, [ and ] change it; 0 is as fast as it goes", strconv.Itoa(tierRate))
	if r := m.scene.TierRun(); r != nil { // most of it is often wanted again
		var budgets []string
		for _, b := range r.Setup.Budgets {
			budgets = append(budgets, b.Label)
		}
		f.fields[tierBudgets].edit = newLineEdit(strings.Join(budgets, ", "))
		f.fields[tierHot].edit, f.fields[tierCold].edit = newLineEdit(r.Setup.Hot), newLineEdit(r.Setup.Cold)
		f.fields[tierWorkload].edit = newLineEdit(r.Setup.Workload.Name)
		f.fields[tierWindow].edit = newLineEdit(strconv.Itoa(r.Setup.Policy.Window))
		f.fields[tierHysteresis].edit = newLineEdit(strconv.FormatFloat(r.Setup.Policy.Hysteresis, 'g', -1, 64))
		f.fields[tierDecay].edit = newLineEdit(strconv.FormatFloat(r.Setup.Policy.Decay, 'g', -1, 64))
		f.boxes[1].on = r.Setup.Policy.PerLayer
	}
	f.at = len(f.boxes) + tierBudgets
	return f
}

// acceptTier begins the run.
func acceptTier(m *Model, f *askForm) (tea.Cmd, string) {
	text := func(at int) string { return strings.TrimSpace(f.fields[at].edit.text) }
	r := sessions.TierRequest{Workload: commas(text(tierWorkload))}
	o := &r.Options
	o.Budgets, o.Hot, o.Cold, o.Policy, o.Trace = commas(text(tierBudgets)), text(tierHot), text(tierCold), tier.DefaultPolicy(), tier.TraceWindows
	for _, b := range f.boxes {
		switch {
		case b.name == boxMoves && b.on:
			o.Trace = tier.TraceMoves
		case b.name == boxPerLayer:
			o.Policy.PerLayer = b.on
		}
	}
	if len(o.Budgets) == 0 {
		return nil, "a budget is needed: 25%, or bytes"
	}
	for _, v := range []struct {
		what, name string
		source     bool
	}{{"hot", o.Hot, true}, {"cold", o.Cold, false}} {
		if v.source && v.name == tier.Source {
			continue
		}
		if _, err := method.Parse(v.name); err != nil {
			return nil, fmt.Sprintf("%s: %s is no variant", v.what, views.Clean(v.name))
		}
	}
	var why string
	number := func(at int, into *float64, least float64) {
		v, err := strconv.ParseFloat(text(at), 64)
		if (err != nil || !(v >= least) || v > 1e9) && why == "" {
			why = fmt.Sprintf("%s: %s is no number from %g", f.fields[at].label, views.Clean(text(at)), least)
		}
		*into = v
	}
	var window, rate float64
	number(tierWindow, &window, 1)
	number(tierHysteresis, &o.Policy.Hysteresis, 0)
	number(tierDecay, &o.Policy.Decay, 0)
	number(tierPace, &rate, 0)
	if why != "" {
		return nil, why
	}
	o.Policy.Window = int(window)
	if err := o.Policy.Check(); err != nil {
		return nil, err.Error()
	}
	return m.startTier(r, rate), ""
}
