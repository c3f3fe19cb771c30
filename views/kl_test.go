package views

import (
	"strings"
	"testing"

	"github.com/muesli/termenv"

	"quantscope/analysis/yardstick"
	"quantscope/sessions"
	"quantscope/views/viewstest"
)

func TestKLGolden(t *testing.T) {
	for _, size := range paneSizes {
		t.Run(size.name, func(t *testing.T) {
			s := klScene(t, termenv.Ascii, 40, false)
			p := NewKL(s)
			p.SetSize(size.w, size.h)
			for range 3 {
				hit(p, "down")
			}
			checkSize(t, p.View(), size.w, size.h)
			checkGolden(t, p.Title()+"\n"+p.View())
		})
		t.Run(size.name+" running", func(t *testing.T) {
			s := klScene(t, termenv.Ascii, 13, false)
			s.KL.Running, s.KL.Progress = true, yardstick.Progress{Stage: "candidates", Party: 3, TokensPerSec: 14100, ETASeconds: 7, Chunks: 13, Of: 40}
			p := NewKL(s)
			p.SetSize(size.w, size.h)
			for range 4 {
				hit(p, "down")
			}
			checkSize(t, p.View(), size.w, size.h)
			checkGolden(t, p.Title()+"\n"+p.View())
		})
		t.Run(size.name+" odd", func(t *testing.T) {
			s := klScene(t, termenv.Ascii, 40, true)
			p := NewKL(s)
			p.SetSize(size.w, size.h)
			for range 4 {
				hit(p, "down")
			}
			checkSize(t, p.View(), size.w, size.h)
			checkGolden(t, p.Title()+"\n"+p.View())
		})
	}
	t.Run("parts", func(t *testing.T) {
		p := NewKL(klScene(t, termenv.Ascii, 40, true))
		p.SetSize(80, 19)
		for range 4 {
			hit(p, "down")
		}
		var b strings.Builder
		for range klParts {
			b.WriteString(klPartNames[p.part] + "\n" + p.View() + "\n")
			hit(p, "o")
		}
		checkGolden(t, b.String())
	})
	t.Run("position", func(t *testing.T) {
		p := NewKL(klScene(t, termenv.Ascii, 40, false))
		p.SetSize(80, 19)
		for _, key := range []string{"down", "enter", "down", "down", "enter"} {
			if !hit(p, key) {
				t.Fatalf("%s does nothing", key)
			}
		}
		checkSize(t, p.View(), 80, 19)
		checkGolden(t, p.View())
	})
	t.Run("colour", func(t *testing.T) {
		p := NewKL(klScene(t, termenv.TrueColor, 40, true))
		p.SetSize(100, 26)
		checkGolden(t, p.View())
	})
}

// What stands on the screen before there are figures.
func TestKLWithout(t *testing.T) {
	plan := []string{"R would measure nvfp4, nvfp4+mse, nvfp4+mse_ge1 on prose, code, math, multi, chat: 5,080 positions, about 12 seconds."}
	for _, c := range []struct {
		name string
		work KLWork
		yard bool
	}{
		{"empty", KLWork{At: -1, Plan: plan}, false},
		{"off", KLWork{At: -1, Off: "KL cannot be measured in a replay: r leaves it"}, false},
		{"error", KLWork{At: -1, Plan: plan, Err: "measure: /data/model: no such file or directory"}, false},
		{"beginning", KLWork{At: -1, Running: true, Progress: yardstick.Progress{Stage: "reference", Layer: 3, Layers: 9, Done: 30, Total: 120}}, false},
		{"begun", KLWork{Running: true, Progress: yardstick.Progress{Stage: "candidates", Done: 60, Total: 120}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sceneOf(t, viewstest.Demo())
			s.KL = c.work
			if c.yard {
				y := viewstest.Yard(viewstest.DemoShape())
				y.Chunks, y.End = nil, nil
				s.State.Yards = []*sessions.Yard{y}
			}
			p := NewKL(s)
			p.SetSize(80, 16)
			checkSize(t, p.View(), 80, 16)
			checkGolden(t, p.Title()+"\n"+p.View())
		})
	}
}
