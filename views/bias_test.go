package views

import (
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/muesli/termenv"

	"quantscope/analysis/bias"
	"quantscope/sessions"
	"quantscope/views/viewstest"
)

// biasScene looks at a made-up run through so many layers, as far as it came.
func biasScene(t testing.TB, profile termenv.Profile, layers int) *Scene {
	s := sceneIn(t, viewstest.Demo(), profile)
	s.State.Biases = []*sessions.BiasRun{viewstest.BiasRun(layers)}
	return s
}

// biasAt is the pane at a size.
func biasAt(s *Scene, w, h int) *Bias {
	p := NewBias(s)
	p.SetSize(w, h)
	return p
}

func TestBiasGolden(t *testing.T) {
	for _, c := range []struct {
		name    string
		profile termenv.Profile
		w, h    int
		layers  int
		keys    []string
	}{
		{"80x24", termenv.Ascii, 78, 19, 5, []string{"down"}},
		{"120x36", termenv.Ascii, 118, 31, 5, []string{"down"}},
		{"200x60", termenv.Ascii, 198, 55, 40, []string{"down", "down"}},
		{"gain", termenv.Ascii, 118, 31, 5, []string{"f", "o", "left", "left"}},
		{"shift", termenv.Ascii, 118, 31, 5, []string{"F", "O", "down", "down"}},
		{"weights", termenv.Ascii, 78, 19, 5, []string{"O"}},
		{"floor", termenv.Ascii, 78, 19, 5, []string{"down", "down", "down", "down"}},
		{"small", termenv.Ascii, 40, 10, 5, nil},
		{"colour", termenv.TrueColor, 100, 26, 5, []string{"down"}},
		{"colours of 16", termenv.ANSI, 78, 19, 5, []string{"down"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := biasAt(biasScene(t, c.profile, c.layers), c.w, c.h)
			for _, key := range c.keys {
				if !hit(p, key) {
					t.Fatalf("%s does nothing", key)
				}
			}
			checkSize(t, p.View(), c.w, c.h)
			checkGolden(t, p.Title()+"\n"+p.View())
		})
	}
}

// What stands there before there are figures, while they come, and after a run that
// did not end well.
func TestBiasWithout(t *testing.T) {
	part := func(weights, rows int) *sessions.BiasRun {
		r := viewstest.BiasRun(5)
		r.Weights, r.Rows, r.Divergences, r.End = r.Weights[:weights], r.Rows[:rows], nil, nil
		return r
	}
	stopped := part(23, 30)
	stopped.End = &bias.End{State: "stopped", Reason: "/data/bias.qscope: no space left on device"}
	for _, c := range []struct {
		name string
		work BiasWork
		run  *sessions.BiasRun
	}{
		{"empty", BiasWork{At: -1, Plan: []string{"R would look at code2 and code2+sym on prose and code: 3,072 positions."}}, nil},
		{"off", BiasWork{At: -1, Off: "biases cannot be looked at in a replay: r leaves it"}, nil},
		{"error", BiasWork{At: -1, Err: "bias: /data/model: no such file or directory"}, nil},
		{"beginning", BiasWork{At: -1, Running: true, Runs: -1}, nil},
		{"begun", BiasWork{Running: true, Progress: bias.Progress{Stage: "weights", Candidate: -1, Layer: 2, Done: 90, Of: 204}}, part(0, 0)},
		{"growing", BiasWork{Running: true, Progress: bias.Progress{Stage: "passing", Layer: 2, Done: 20, Of: 30}}, part(23, 35)},
		{"paused", BiasWork{Running: true, Paused: true, Progress: bias.Progress{Stage: "passing", Layer: 2, Done: 20, Of: 30}}, part(23, 35)},
		{"stopped", BiasWork{}, stopped},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sceneOf(t, viewstest.Demo())
			s.Bias = c.work
			if c.run != nil {
				s.State.Biases = []*sessions.BiasRun{c.run}
			}
			p := biasAt(s, 80, 18)
			checkSize(t, p.View(), 80, 18)
			checkGolden(t, p.Title()+"\n"+p.View())
		})
	}
}

// Keys that do nothing say why, the others do something.
func TestBiasKeys(t *testing.T) {
	s := biasScene(t, termenv.Ascii, 5)
	p := biasAt(s, 198, 55)
	for i, state := range []func(){
		func() {}, func() { p.SetSize(78, 19) }, func() { s.Bias.Running = true }, func() { s.State.Biases = append(s.State.Biases, viewstest.BiasRun(2)) },
		func() { s.State.Biases[0].Setup.Candidates = s.State.Biases[0].Setup.Candidates[:1] },
		func() { s.State.Biases = nil }, func() { s.Bias = BiasWork{At: -1, Off: "not here"} },
	} {
		state()
		for _, k := range p.Keys() {
			for _, key := range k.Keys {
				kept := *p
				if handled := hit(p, key); handled != (k.Disabled == "") {
					t.Errorf("state %d: %q handled %v, disabled %q", i, key, handled, k.Disabled)
				}
				_ = p.View()
				s.Bias.Ask, s.Bias.At = BiasNothing, min(s.Bias.At, 0)
				*p = kept
			}
		}
	}
	if hit(p, "x") {
		t.Error("a key that is not listed is handled")
	}
}

// The arrows choose candidate and layer, and a person's choice stays while more comes.
func TestBiasMoves(t *testing.T) {
	s := biasScene(t, termenv.Ascii, 5)
	run := s.State.Biases[0]
	all := run.Rows
	run.Rows = all[:len(all)*2/5]
	p := biasAt(s, 118, 31)
	_ = p.View()
	if p.layer != 0 && p.layer != 1 {
		t.Fatalf("the newest layer is %d", p.layer)
	}
	run.Rows = all
	p.Apply(sessions.Batch{BiasesFound: []sessions.BiasFound{{Row: all[len(all)-1]}}})
	if p.View(); p.layer != 4 {
		t.Errorf("with all of it the layer is %d, want the last", p.layer)
	}
	for _, c := range []struct {
		key       string
		at, layer int
	}{{"left", 0, 3}, {"home", 0, -1}, {"left", 0, -1}, {"right", 0, 0}, {"down", 1, 0}, {"j", 2, 0}, {"up", 1, 0}, {"end", 1, 4}, {"l", 1, 4}, {"h", 1, 3}} {
		hit(p, c.key)
		if p.at != c.at || p.layer != c.layer {
			t.Errorf("%s leads to candidate %d, layer %d; want %d, %d", c.key, p.at, p.layer, c.at, c.layer)
		}
	}
	click := tea.MouseMsg{Action: tea.MouseActionPress, Button: tea.MouseButtonLeft}
	l := p.layout()
	if ok, _ := p.HandleMouse(3, l.table.y+3, click); !ok || p.at != 2 {
		t.Errorf("a click on the third row selects %d", p.at)
	}
	if ok, _ := p.HandleMouse(l.lower.x+l.lower.w-1, l.lower.y+2, click); !ok || p.layer != 4 {
		t.Errorf("a click at the end of a chart shows layer %d", p.layer)
	}
	if ok, _ := p.HandleMouse(3, l.table.y+1, tea.MouseMsg{Button: tea.MouseButtonWheelUp}); !ok || p.at != 1 {
		t.Errorf("the wheel selects %d", p.at)
	}
	s.State.Biases = append(s.State.Biases, viewstest.BiasRun(2))
	hit(p, "n")
	if s.Bias.At != 1 || !strings.Contains(p.Title(), "2 of 2") {
		t.Errorf("n shows look %d: %s", s.Bias.At, p.Title())
	}
}

// What a person must see: of candidates of equal error the sentence names the one
// whose bias grows, and 0 is on the axis of signs.
func TestBiasSaysWhatLeans(t *testing.T) {
	s := biasScene(t, termenv.Ascii, 5)
	p := biasAt(s, 198, 55)
	hit(p, "down")
	view := p.View()
	for _, want := range []string{
		"code2+asym and code2+sym have about equal weight error (0.332, 0.336)", "their streams have +0.066 and 0, larger under code2+asym in 4 of 4;",
		"┈", "sign bias", "codebooks", "−4 −1 1.5 6 ×121", "[4]",
	} {
		if !strings.Contains(view, want) {
			t.Errorf("%q is not on the screen:\n%s", want, view)
		}
	}
}

// Any size and any figures are drawn.
func TestBiasAnySize(t *testing.T) {
	for _, layers := range []int{0, 1, 5, 61} {
		s := biasScene(t, termenv.Ascii, max(layers, 1))
		s.State.Biases[0].Setup.Layers = layers
		for i, row := range s.State.Biases[0].Rows {
			switch i % 7 {
			case 1:
				row.Flow = bias.Flow{}
			case 3:
				row.Bias, row.Rel = row.Bias*1e30, row.Rel*1e-30
			}
		}
		p := NewBias(s)
		for w := -1; w < 220; w += 13 {
			for h := -1; h < 70; h += 3 {
				p.SetSize(w, h)
				for part := range biasParts {
					p.part, p.figure = part, biasFigure(int(part)%int(biasFigures))
					p.version++
					checkSize(t, p.View(), w, h)
				}
			}
		}
	}
}
