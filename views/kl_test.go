package views

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muesli/termenv"
	"pgregory.net/rapid"

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

// A reference that is a path is called by the end of it: what is behind the path
// in the title would be cut off.
func TestKLTitle(t *testing.T) {
	s := klScene(t, termenv.Ascii, 40, false)
	s.State.Yards[0].Setup.Reference.Label = "/srv/models/of a long name/SmolLM2-135M.Q4_1.gguf"
	if got := NewKL(s).Title(); !strings.HasPrefix(got, "KL to SmolLM2-135M.Q4_1.gguf in nats · ") {
		t.Error(got)
	}
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
		{"beginning", KLWork{At: -1, Running: true, Runs: -1, Progress: yardstick.Progress{Stage: "reference", Layer: 3, Layers: 9, Done: 30, Total: 120}}, false},
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

// The order follows the figure that it is named for, and the floor stays on top.
func TestKLSorts(t *testing.T) {
	p := NewKL(klScene(t, termenv.Ascii, 40, true))
	p.SetSize(118, 35)
	r := p.scene.KL.Report
	value := []func(c int) float64{
		func(c int) float64 { return float64(c) },
		func(c int) float64 { return r.Results[c].All.KL },
		func(c int) float64 { return r.Results[c].All.P99 },
		func(c int) float64 { return r.Results[c].All.Max },
		func(c int) float64 { return -r.Results[c].All.Top1 },
		func(c int) float64 { return r.Results[c].All.PPL },
		func(c int) float64 { return r.Setup.Candidates[c].BitsPerWeight },
	}
	for i := range value {
		p.View()
		if !r.Setup.Candidates[p.rows.order[0]].Floor {
			t.Errorf("by %s the floor is not on top", klOrders[i].name)
		}
		for row := 2; row < len(p.rows.order); row++ {
			if value[i](p.rows.order[row]) < value[i](p.rows.order[row-1]) {
				t.Errorf("by %s row %d is less than the one before", klOrders[i].name, row)
			}
		}
		hit(p, "s")
	}
	for range len(klOrders) - len(value) { // families, of which TestKLFamilies is
		hit(p, "s")
	}
	if p.order != 0 {
		t.Error("s does not come back to the order given")
	}
	// What has no figure comes last, whatever is sorted by.
	r.Results[1].All.KL = math.NaN()
	hit(p, "s")
	p.scene.Touch()
	p.rows.order = nil
	if p.View(); p.rows.order[len(p.rows.order)-1] != 1 {
		t.Errorf("%v: NaN is not last", p.rows.order)
	}
}

// All bars are of one scale: the longest is that of the largest KL of a corpus.
func TestKLBarsShareOneScale(t *testing.T) {
	p := NewKL(klScene(t, termenv.Ascii, 40, false))
	p.SetSize(198, 55)
	p.View()
	r := p.scene.KL.Report
	const bar = 20
	for c := range r.Results {
		for _, k := range r.Results[c].Corpora {
			cell := p.corpusCell(&k, bar, c)
			n := 8 * strings.Count(cell, "█")
			for i, part := range eighths[1:] {
				n += (i + 1) * strings.Count(cell, part)
			}
			if want := int(k.KL/p.rows.limit*bar*8 + 0.5); n != want {
				t.Errorf("KL %v of %v has %d eighths of a cell, want %d", k.KL, p.rows.limit, n, want)
			}
		}
	}
	if p.rows.limit != r.Results[5].Corpora[4].KL {
		t.Errorf("the scale ends at %v, the largest is %v", p.rows.limit, r.Results[5].Corpora[4].KL)
	}
}

// What a key or a message changes is drawn anew, and nothing else.
func TestKLDrawsAnew(t *testing.T) {
	s := klScene(t, termenv.Ascii, 40, true)
	p := NewKL(s)
	p.SetSize(118, 35)
	th, err := NewTheme("cividis", termenv.TrueColor, true)
	if err != nil {
		t.Fatal(err)
	}
	rep := s.KL.Report
	for _, c := range []struct {
		name   string
		do     func()
		redraw bool
	}{
		{"nothing", func() {}, false},
		{"down", func() { hit(p, "down") }, true},
		{"s", func() { hit(p, "s") }, true},
		{"o", func() { hit(p, "o") }, true},
		{"O", func() { hit(p, "O") }, true},
		{"enter", func() { hit(p, "enter") }, true},
		{"down in the list", func() { hit(p, "down") }, true},
		{"G", func() { hit(p, "G") }, true},
		{"enter again", func() { hit(p, "enter") }, true},
		{"enter in full", func() { hit(p, "enter") }, false},
		{"o in full", func() { hit(p, "o") }, false},
		{"g in full", func() { hit(p, "g") }, true},
		{"esc", func() { hit(p, "esc") }, true},
		{"esc again", func() { hit(p, "esc") }, true},
		{"esc at the top", func() { hit(p, "esc") }, false},
		{"another report", func() { s.KL.Report = viewstest.YardReport(s.State.Yards[0]) }, true},
		{"going on", func() { s.State.Yards[0].End.State = sessions.RunCancelled; s.KL.Running = true; s.Touch() }, true},
		{"paused", func() { s.KL.Paused = true; s.Touch() }, true},
		{"over", func() { s.KL.Running, s.KL.Paused = false, false; s.Touch() }, true},
		{"no report", func() { s.KL.Report = nil }, true},
		{"a report", func() { s.KL.Report = rep }, true},
		{"what runs", func() { s.KL.Err = "broken"; s.Touch() }, true},
		{"a batch of something else", func() { p.Apply(sessions.Batch{}) }, false},
		{"theme", func() { s.Theme = th }, true},
		{"size", func() { p.SetSize(90, 20) }, true},
		{"reset", func() {
			b := sessions.Batch{Reset: viewstest.Demo()}
			s.State.Apply(b)
			p.Apply(b)
		}, true},
	} {
		before := p.View()
		c.do()
		if redrawn := p.View() != before; redrawn != c.redraw {
			t.Errorf("%s: redrawn %v", c.name, redrawn)
		}
	}
}

func TestArrangeKL(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, h := rapid.IntRange(-1, 300).Draw(t, "w"), rapid.IntRange(-1, 120).Draw(t, "h")
		want := klWants{
			head: rapid.IntRange(0, 4).Draw(t, "head"), rows: rapid.IntRange(0, 40).Draw(t, "rows"),
			only: klPart(rapid.IntRange(0, int(klParts)-2).Draw(t, "only")), full: rapid.IntRange(0, 5).Draw(t, "full") == 0, fits: rapid.Bool().Draw(t, "fits"),
		}
		for i := range klParts {
			want.has[i], want.lines[i] = rapid.Bool().Draw(t, "has"), rapid.IntRange(1, 70).Draw(t, "lines")
		}
		l := arrangeKL(w, h, want)
		rects := append([]rect{l.head, l.table}, l.parts[:]...)
		for i, a := range rects {
			if a.w < 0 || a.h < 0 {
				t.Fatalf("%d×%d: part %d has size %d×%d", w, h, i, a.w, a.h)
			}
			if a.empty() {
				continue
			}
			if a.x < 0 || a.y < 0 || a.x+a.w > w || a.y+a.h > h {
				t.Fatalf("%d×%d: part %d sticks out: %+v", w, h, i, a)
			}
			for j, b := range rects[:i] {
				if !b.empty() && a.x < b.x+b.w && b.x < a.x+a.w && a.y < b.y+b.h && b.y < a.y+a.h {
					t.Fatalf("%d×%d: parts %d and %d overlap: %+v %+v", w, h, j, i, b, a)
				}
			}
		}
	})
}

// Whatever a report says, in any size no line is wider than the screen.
func TestKLFitsAnySize(t *testing.T) {
	made := map[bool]*Scene{false: klScene(t, termenv.Ascii, 5, false), true: klScene(t, termenv.Ascii, 40, true)}
	rapid.Check(t, func(rt *rapid.T) {
		s := randomScene(rt, t)
		from := made[rapid.Bool().Draw(rt, "odd")]
		s.State.Yards = append(s.State.Yards, from.State.Yards[0])
		rep := *from.KL.Report
		rep.Results = slices.Clone(rep.Results)
		set := *rep.Setup
		rep.Setup = &set
		set.Candidates = slices.Clone(set.Candidates)
		if rapid.Bool().Draw(rt, "hostile") {
			set.Candidates[2].Label = "a very long name\x1b[31m " + strings.Repeat("模型", 40)
			rep.Gates = append(slices.Clone(rep.Gates), yardstick.Gate{Name: "finite\n", Of: 99, Message: strings.Repeat("why ", 90)})
			rep.Pairs = append(slices.Clone(rep.Pairs), yardstick.Pair{A: -1, B: 99}, yardstick.Pair{A: 1, B: 2, DKL: math.NaN(), Low: math.NaN(), High: math.NaN()})
			res := &rep.Results[1]
			res.Worst = append(slices.Clone(res.Worst), yardstick.Place{Corpus: 77, Chunk: -1, At: 1 << 30, KL: math.Inf(1), Target: -5})
			res.All.KL, res.All.PPL, res.All.RefPPL, res.Corpora = math.NaN(), math.Inf(1), math.NaN(), res.Corpora[:1]
			res.ByPlace, res.Histogram = nil, yardstick.Histogram{}
			rep.Probes = append(slices.Clone(rep.Probes), yardstick.Probe{Candidate: 1, Name: "\x1b[2J"})
			rep.Attributed = append(slices.Clone(rep.Attributed), yardstick.Attribution{Of: 50, Rows: []int{-1, 90}, Whole: math.NaN()})
		}
		s.KL = KLWork{Report: &rep, Running: rapid.Bool().Draw(rt, "running"), Paused: rapid.Bool().Draw(rt, "paused"), Stale: rapid.Bool().Draw(rt, "stale")}
		if rapid.Bool().Draw(rt, "broken") {
			s.KL.Err = strings.Repeat("broken ", 50)
		}
		p := NewKL(s)
		p.level, p.part = klLevel(rapid.IntRange(0, 2).Draw(rt, "level")), klPart(rapid.IntRange(0, int(klParts)-2).Draw(rt, "part"))
		p.at = rapid.IntRange(-1, len(rep.Results)).Draw(rt, "at")
		exercise(rt, s, p)
	})
}

// BenchmarkKLFrame is a frame of the screen over six candidates of 335,000
// positions while the selection moves, and one after each new report.
func BenchmarkKLFrame(b *testing.B) {
	sh := viewstest.DemoShape()
	sh.Chunks, sh.Tokens = 131, 512
	y := viewstest.Yard(sh)
	var reports []*yardstick.Report
	for range 2 {
		r, err := yardstick.Analyze(b.Context(), y.Setup, y.Chunks, 1)
		if err != nil {
			b.Fatal(err)
		}
		reports = append(reports, r)
	}
	for _, key := range []string{"down", "enter", "report"} {
		b.Run("335k×6/"+key, func(b *testing.B) {
			s := sceneIn(b, viewstest.Demo(), termenv.TrueColor)
			s.State.Yards = []*sessions.Yard{y}
			s.KL = KLWork{Report: reports[0]}
			p := NewKL(s)
			p.SetSize(198, 55)
			p.View()
			if key == "enter" {
				hit(p, "enter")
			}
			var frames []time.Duration
			for b.Loop() {
				t0 := time.Now()
				switch {
				case key == "report":
					s.KL.Report = reports[len(frames)%2]
					s.Touch()
				case len(frames)%7 == 6:
					hit(p, "home")
				default:
					hit(p, "down")
				}
				p.View()
				frames = append(frames, time.Since(t0))
			}
			slices.Sort(frames)
			b.ReportMetric(float64(frames[len(frames)*99/100].Microseconds()), "p99-µs")
		})
	}
}
