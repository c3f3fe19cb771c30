package views

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muesli/termenv"
	"pgregory.net/rapid"

	"quantscope/analysis/gates"
	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/grade"
	"quantscope/sessions"
	"quantscope/views/viewstest"
)

// gatesScene looks at a made-up run of which the first share is answered.
func gatesScene(t testing.TB, profile termenv.Profile, share float64) *Scene {
	s := sceneIn(t, viewstest.Demo(), profile)
	g := viewstest.Gates(viewstest.GateArms, 6, share)
	s.State.Gates = []*sessions.GateRun{g}
	s.Gates = GatesWork{Report: viewstest.GatesReport(g), Runs: -1, Progress: gates.Progress{Arm: -1, Probe: -1}}
	return s
}

// at puts the cursor of a pane on a probe and an arm.
func gatesAt(t testing.TB, p *Gates, probe string, arm int) {
	t.Helper()
	p.refresh()
	for i := range p.rows {
		if r := &p.rows[i]; r.kind == gatesProbeRow && p.book.run.Setup.Probes[r.probe].ID == probe {
			p.at, p.arm = r.gatesRowID, arm
			p.other()
			return
		}
	}
	t.Fatalf("no probe %s", probe)
}

func TestGatesGolden(t *testing.T) {
	for _, size := range paneSizes {
		for name, c := range map[string]struct {
			share float64
			keys  []string
			work  func(*GatesWork)
		}{
			"finished": {1, []string{"right", "n"}, nil},
			"checks":   {1, []string{"shift+tab", "shift+tab", "down"}, nil},
			"arms":     {1, []string{"right", "right", "shift+tab"}, nil},
			"running": {0.37, []string{"right", "right"}, func(w *GatesWork) {
				w.Running, w.Progress = true, gates.Progress{Stage: "asking", Arm: 2, Probe: 6, Done: 202, Of: 546, PerSecond: 41.3, ETA: 102 * time.Second}
			}},
			"stopped": {0.37, nil, func(w *GatesWork) { w.Err = "http://127.0.0.1:8000: nobody answers: connection refused" }},
		} {
			t.Run(size.name+" "+name, func(t *testing.T) {
				s := gatesScene(t, termenv.Ascii, c.share)
				if c.work != nil {
					c.work(&s.Gates)
				}
				if name == "stopped" {
					s.State.Gates[0].End = &gates.End{State: "stopped", Reason: "nobody answers"}
				}
				p := NewGates(s)
				p.SetSize(size.w, size.h)
				for _, k := range c.keys {
					hit(p, k)
				}
				checkSize(t, p.View(), size.w, size.h)
				checkGolden(t, p.Title()+"\n"+p.View())
			})
		}
	}
	for name, c := range map[string]struct {
		probe string
		arm   int
		w, h  int
	}{
		"korean": {"scripts/korean", 5, 118, 30}, "tamil": {"scripts/tamil", 5, 78, 19}, "arabic": {"scripts/arabic", 1, 78, 19}, "turns": {"turns", 3, 118, 60},
		"call": {"tools/korean", 5, 118, 30}, "no answer": {"needle", 4, 78, 19}, "passes": {"facts/sampled", 4, 118, 30},
	} {
		t.Run("case "+name, func(t *testing.T) {
			p := NewGates(gatesScene(t, termenv.Ascii, 1))
			p.SetSize(c.w, c.h)
			gatesAt(t, p, c.probe, c.arm)
			p.View()
			for range 2 {
				if !hit(p, "enter") {
					t.Fatal("enter does not open the case")
				}
			}
			checkSize(t, p.View(), c.w, c.h)
			checkGolden(t, p.View())
		})
	}
	t.Run("check", func(t *testing.T) {
		p := NewGates(gatesScene(t, termenv.Ascii, 1))
		p.SetSize(78, 19)
		for _, k := range []string{"tab", "tab", "down", "down", "enter"} {
			if !hit(p, k) {
				t.Fatalf("%s does nothing", k)
			}
		}
		checkGolden(t, p.View())
	})
	t.Run("folded", func(t *testing.T) {
		p := NewGates(gatesScene(t, termenv.Ascii, 1))
		p.SetSize(100, 22)
		hit(p, "Z")
		checkGolden(t, p.View())
	})
	t.Run("colour", func(t *testing.T) {
		p := NewGates(gatesScene(t, termenv.TrueColor, 1))
		p.SetSize(118, 30)
		gatesAt(t, p, "scripts/korean", 5)
		p.View()
		hit(p, "enter")
		checkGolden(t, p.View())
	})
}

// What stands on the screen before there is a run.
func TestGatesWithout(t *testing.T) {
	plan := []string{"R asks demo, then nvfp4, then demo again, the suite demo."}
	for name, w := range map[string]GatesWork{
		"empty":     {At: -1, Plan: plan},
		"off":       {At: -1, Off: "gates cannot be run in a replay: r leaves it"},
		"error":     {At: -1, Plan: plan, Err: "candidate: /data/out: no such file or directory"},
		"beginning": {At: -1, Running: true, Runs: -1, Progress: gates.Progress{Stage: "opening"}},
		"paused":    {At: -1, Running: true, Paused: true, Runs: -1},
	} {
		t.Run(name, func(t *testing.T) {
			s := sceneOf(t, viewstest.Demo())
			s.Gates = w
			p := NewGates(s)
			p.SetSize(80, 16)
			checkSize(t, p.View(), 80, 16)
			checkGolden(t, p.Title()+"\n"+p.View())
		})
	}
}

// A cell says n of m of the answers that are there, whatever the order they came in,
// and an answer that is asked again stands in place of the older.
func TestGatesBook(t *testing.T) {
	whole := viewstest.Gates(viewstest.GateArms, 6, 1)
	want := viewstest.GatesReport(whole)
	check := func(name string, b *gatesBook) {
		t.Helper()
		for i := range want.Rows {
			r := &want.Rows[i]
			c := &b.cells[r.Probe][r.Arm]
			if c.passed != r.Passed || c.of != r.Of || c.all != r.All || c.events != r.Events || c.faults[grade.Erred] != r.Erred || c.faults[grade.Empty] != r.Empty {
				t.Errorf("%s: probe %d, arm %d: %+v, want %+v", name, r.Probe, r.Arm, *c, *r)
			}
		}
		if b.all != len(whole.Results) {
			t.Errorf("%s: %d answers of %d", name, b.all, len(whole.Results))
		}
	}
	var b gatesBook
	b.update(whole)
	check("at once", &b)

	s := sceneOf(t, viewstest.Demo())
	s.State.Gates = []*sessions.GateRun{viewstest.Gates(viewstest.GateArms, 6, 0)}
	p := NewGates(s)
	p.SetSize(118, 35)
	p.View()
	give := func(rs ...*gates.Result) {
		batch := sessions.Batch{}
		for _, r := range rs {
			batch.GatesAnswered = append(batch.GatesAnswered, sessions.GatesAnswered{Run: 0, Result: r})
		}
		s.State.Apply(batch)
		p.Apply(batch)
	}
	again := *whole.Results[3]
	again.Verdict.Passed, again.Verdict.Fault = !again.Verdict.Passed, grade.Erred
	give(whole.Results[0], &again)
	give(whole.Results[1], whole.Results[2])
	for i := len(whole.Results) - 1; i > 2; i-- {
		give(whole.Results[i])
	}
	p.refresh()
	check("one by one, one of them again", &p.book)

	var hostile gatesBook
	hostile.update(whole)
	for _, k := range []gates.Key{{Arm: -1}, {Arm: 99}, {Probe: -1}, {Probe: 99}, {Case: -1}, {Case: 1 << 40}, {Pass: 3}, {Pass: -1}} {
		hostile.take(&gates.Result{Arm: k.Arm, Probe: k.Probe, Case: k.Case, Pass: k.Pass})
	}
	check("answers that have no place", &hostile)
}

// A cell is marked by the worst that can be said of it, and not before it is whole.
func TestGatesStates(t *testing.T) {
	s := gatesScene(t, termenv.Ascii, 1)
	p := NewGates(s)
	p.SetSize(198, 55)
	p.refresh()
	state := func(id string, arm int) gatesState {
		i := slices.IndexFunc(p.rows, func(r gatesRow) bool { return r.kind == gatesProbeRow && p.book.run.Setup.Probes[r.probe].ID == id })
		c := p.book.sum(p.rows[i].probes, arm)
		return p.stateOf(&p.rows[i], arm, &c)
	}
	for _, c := range []struct {
		probe string
		arm   int
		want  gatesState
	}{
		{"arithmetic", 0, gatesOK}, {"needle", 1, gatesShort}, {"needle", 4, gatesErr}, {"scripts/korean", 5, gatesDown}, {"tools/korean", 5, gatesShort},
	} {
		if got := state(c.probe, c.arm); got != c.want {
			t.Errorf("%s of arm %d: %s, want %s", c.probe, c.arm, gatesStates[got].glyph, gatesStates[c.want].glyph)
		}
	}
	pair := s.Gates.Report.Pairs
	for i := range pair {
		if pair[i].Probe == 0 && pair[i].Arm == 1 {
			pair[i].Better = true
		}
	}
	if got := state("arithmetic", 1); got != gatesUp {
		t.Errorf("better than the baseline: %s", gatesStates[got].glyph)
	}
	for arm := range p.book.run.Setup.Arms { // a group is as its worst probe
		i := slices.IndexFunc(p.rows, func(r gatesRow) bool { return r.kind == gatesGroupRow && r.group == "scripts" })
		c := p.book.sum(p.rows[i].probes, arm)
		if got, want := p.stateOf(&p.rows[i], arm, &c), map[bool]gatesState{true: gatesDown, false: gatesOK}[arm == 5]; got != want {
			t.Errorf("scripts of arm %d: %s, want %s", arm, gatesStates[got].glyph, gatesStates[want].glyph)
		}
	}
	part := gatesScene(t, termenv.Ascii, 0.02) // 10 of 546: arithmetic is whole, facts/greedy not
	part.Mode = sessions.Saved
	q := NewGates(part)
	q.SetSize(198, 55)
	q.refresh()
	p = q
	if a, b, c := state("arithmetic", 0), state("facts/greedy", 0), state("needle", 0); a != gatesOK || b != gatesSome || c != gatesNone {
		t.Errorf("of a run that has begun: %s %s %s", gatesStates[a].glyph, gatesStates[b].glyph, gatesStates[c].glyph)
	}
	part.Mode = sessions.Live
	if got := state("facts/greedy", 0); got != gatesAsked {
		t.Errorf("where the last answer came from: %s", gatesStates[got].glyph)
	}
}

// Acceptance is told with length and speed, or not at all.
func TestGatesAcceptance(t *testing.T) {
	whole := &gates.Meter{Seconds: 2, Tokens: 100, Counted: &chat.Counters{Drafts: 40, Drafted: 80, Accepted: 60}}
	if rate, length := acceptanceOf(whole); rate != "75 %" || length != "2.50" {
		t.Errorf("accepted %s, length %s", rate, length)
	}
	for name, m := range map[string]*gates.Meter{
		"none": nil, "not counted": {Seconds: 2, Tokens: 100}, "no speed": {Counted: whole.Counted}, "no time": {Tokens: 100, Counted: whole.Counted},
		"nothing drafted": {Seconds: 2, Tokens: 100, Counted: &chat.Counters{}}, "not told": {Seconds: 2, Tokens: 100, Counted: &chat.Counters{Drafts: -1, Drafted: -1, Accepted: -1}},
	} {
		if rate, length := acceptanceOf(m); rate != "" || length != "" {
			t.Errorf("%s: %q %q", name, rate, length)
		}
	}
}

// What a key or a message changes is drawn anew, and nothing else.
func TestGatesDrawsAnew(t *testing.T) {
	s := gatesScene(t, termenv.Ascii, 1)
	p := NewGates(s)
	p.SetSize(118, 35)
	th, err := NewTheme("cividis", termenv.TrueColor, true)
	if err != nil {
		t.Fatal(err)
	}
	rep := s.Gates.Report
	for _, c := range []struct {
		name   string
		do     func()
		redraw bool
	}{
		{"nothing", func() {}, false},
		{"down", func() { hit(p, "down") }, true},
		{"right", func() { hit(p, "right") }, true},
		{"z", func() { hit(p, "z") }, true},
		{"z again", func() { hit(p, "z") }, true},
		{"Z", func() { hit(p, "Z") }, true},
		{"Z again", func() { hit(p, "Z") }, true},
		{"filter", func() { _ = p.SetFilterText("needle") }, true},
		{"the same filter", func() { _ = p.SetFilterText("needle") }, false},
		{"esc shows all", func() { hit(p, "esc") }, true},
		{"esc at the top", func() { hit(p, "esc") }, false},
		{"tab", func() { hit(p, "tab") }, true},
		{"s", func() { hit(p, "s") }, true},
		{"down in cases", func() { hit(p, "down") }, true},
		{"enter", func() { hit(p, "enter") }, true},
		{"enter in full", func() { hit(p, "enter") }, false},
		{"tab in full", func() { hit(p, "tab") }, false},
		{"esc", func() { hit(p, "esc") }, true},
		{"tab to honesty", func() { hit(p, "tab") }, true},
		{"down in honesty", func() { hit(p, "down") }, true},
		{"enter on a check", func() { hit(p, "enter") }, true},
		{"esc from it", func() { hit(p, "esc") }, true},
		{"another report", func() { s.Gates.Report = viewstest.GatesReport(s.State.Gates[0]); s.Gates.Report.Checks = nil }, true},
		{"what runs", func() { s.Gates.Running = true; s.Touch() }, true},
		{"paused", func() { s.Gates.Paused = true; s.Touch() }, true},
		{"over", func() { s.Gates.Running, s.Gates.Paused = false, false; s.Touch() }, true},
		{"no report", func() { s.Gates.Report = nil }, true},
		{"a report", func() { s.Gates.Report = rep }, true},
		{"an error", func() { s.Gates.Err = "broken"; s.Touch() }, true},
		{"a batch of something else", func() { p.Apply(sessions.Batch{}) }, false},
		{"an answer again", func() {
			r := *s.State.Gates[0].Results[0]
			r.Verdict = grade.Verdict{Fault: grade.Empty, Reason: "the answer is empty"}
			b := sessions.Batch{GatesAnswered: []sessions.GatesAnswered{{Result: &r}}}
			s.State.Apply(b)
			p.Apply(b)
		}, true},
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

func TestArrangeGates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, h := rapid.IntRange(-1, 300).Draw(t, "w"), rapid.IntRange(-1, 120).Draw(t, "h")
		n := rapid.IntRange(0, 200)
		l := arrangeGates(w, h, gatesWants{
			head: rapid.IntRange(0, 4).Draw(t, "head"), rows: n.Draw(t, "rows"), narrow: n.Draw(t, "narrow"), wide: n.Draw(t, "wide"), cases: n.Draw(t, "cases"),
			checks: n.Draw(t, "checks"), armsH: n.Draw(t, "arms"), focus: gatesPart(rapid.IntRange(0, int(gatesParts)-1).Draw(t, "focus")), full: rapid.IntRange(0, 5).Draw(t, "full") == 0,
		})
		rects := []rect{l.head, l.table, l.cases, l.text, l.checks, l.arms}
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

// Whatever was answered and is said of it, in any size no line is wider than the
// screen, and no key or size upsets it.
func TestGatesFitAnySize(t *testing.T) {
	made := map[float64]*Scene{}
	for _, share := range []float64{0, 0.3, 1} {
		made[share] = gatesScene(t, termenv.Ascii, share)
	}
	rapid.Check(t, func(rt *rapid.T) {
		s := randomScene(rt, t)
		from := made[rapid.SampledFrom([]float64{0, 0.3, 1}).Draw(rt, "share")]
		run := *from.State.Gates[0]
		rep := *from.Gates.Report
		if rapid.Bool().Draw(rt, "hostile") {
			set := *run.Setup
			set.Arms, set.Probes = slices.Clone(set.Arms), slices.Clone(set.Probes)
			set.Arms[2].Label = "a very long name\x1b[31m " + strings.Repeat("模型", 40)
			set.Probes[1].ID, set.Probes[1].Group, set.Probes[1].About = "ab\x00\u202e/"+strings.Repeat("가중치", 30), "\u200d\xff", strings.Repeat("why ", 90)
			run.Setup, rep.Setup = &set, &set
			run.Results = slices.Clone(run.Results)
			for i := range run.Results {
				if i%3 == 0 {
					run.Results[i] = hostileResult(rt, run.Results[i])
				}
			}
			rep.Pairs = append(slices.Clone(rep.Pairs), gates.Pair{Probe: 77, Arm: -3, P: math.NaN()}, gates.Pair{Probe: -1, Arm: 1, P: math.Inf(1), Verdict: "\x1b[2J" + strings.Repeat("x", 300)})
			rep.Checks = append(slices.Clone(rep.Checks), gates.Check{ID: "odd\n", Arm: 99, State: gates.CheckFailed, Message: strings.Repeat("왜", 200), Figures: map[string]float64{"\x00": math.NaN(), "n": math.Inf(-1)}})
			rep.Fails = append(slices.Clone(rep.Fails), gates.Fail{Kind: "other", Probe: 99, Arm: 99, Message: "\xff\xfe"})
			run.Meters = append(slices.Clone(run.Meters), &gates.Meter{Arm: 99, Seconds: math.NaN()}, &gates.Meter{Arm: 3, Seconds: math.Inf(1), Tokens: 1 << 50, Identity: chat.Identity{Model: "\x1b[1m", Engine: strings.Repeat("e", 200)}})
		}
		s.State.Gates = append(s.State.Gates, &run)
		s.Gates = GatesWork{Report: &rep, Running: rapid.Bool().Draw(rt, "running"), Paused: rapid.Bool().Draw(rt, "paused"),
			Progress: gates.Progress{Arm: rapid.IntRange(-1, 9).Draw(rt, "asked"), Probe: rapid.IntRange(-1, 20).Draw(rt, "of"), PerSecond: 12, ETA: time.Hour * 30}}
		if rapid.Bool().Draw(rt, "broken") {
			s.Gates.Err = strings.Repeat("broken ", 50)
		}
		p := NewGates(s)
		p.arm = rapid.IntRange(-1, 9).Draw(rt, "arm")
		p.focus = gatesPart(rapid.IntRange(0, int(gatesParts)-1).Draw(rt, "focus"))
		p.full = rapid.Bool().Draw(rt, "full")
		for range rapid.IntRange(0, 12).Draw(rt, "down") {
			hit(p, "down")
		}
		exercise(rt, s, p)
	})
}

// hostileResult is an answer of any bytes, with marks anywhere.
func hostileResult(rt *rapid.T, r *gates.Result) *gates.Result {
	out := *r
	text := rapid.SampledFrom([]string{
		"\x00\x01\x1b[2J\x1b]0;title\x07\r\n\t\x7f\x80\xff\xfe\ufffd\u202e\u200b\u2028\U000e0041", strings.Repeat("\xff", 500), strings.Repeat("👩‍👩‍👧🇰🇷", 90), strings.Repeat("क्षि", 90),
		strings.Repeat("\u0301", 400), "a\u0301\u0302" + strings.Repeat("مرحبا بالعالم ", 30), strings.Repeat("\n", 200), "க்ஷ" + strings.Repeat("நி", 80), "",
	}).Draw(rt, "text") + string(rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(rt, "bytes"))
	out.Answer.Replies = []chat.Reply{{Text: text, Reasoning: text, Finish: text, ToolCalls: []chat.ToolCall{{Name: text, Arguments: text}}, Total: -time.Second, CompletionTokens: -1}}
	out.Answer.Error = text
	out.Verdict = grade.Verdict{Passed: out.Verdict.Passed, Reason: text, Fault: grade.Fault(text), Figures: map[string]float64{"replacement": math.NaN(), "control": -3}}
	for range rapid.IntRange(0, 4).Draw(rt, "marks") {
		out.Verdict.Marks = append(out.Verdict.Marks, grade.Mark{Turn: rapid.IntRange(-1, 2).Draw(rt, "turn"), At: [2]int{rapid.IntRange(-5, 900).Draw(rt, "from"), rapid.IntRange(-5, 900).Draw(rt, "to")}})
	}
	return &out
}

// BenchmarkGatesFrame is a frame of the screen over 5,000 answers of each of six arms
// while the selection moves, while cases are walked through, and while answers come.
func BenchmarkGatesFrame(b *testing.B) {
	whole := viewstest.Gates(viewstest.GateArms[:4], 385, 1)
	rep := viewstest.GatesReport(whole)
	if n := len(whole.Results) / 6; n < 5000 {
		b.Fatalf("%d answers an arm", n)
	}
	for _, key := range []string{"down", "right", "sum n", "answers"} {
		b.Run("5005×6/"+key, func(b *testing.B) {
			s := sceneIn(b, viewstest.Demo(), termenv.TrueColor)
			run := *whole
			s.State.Gates = []*sessions.GateRun{&run}
			s.Gates = GatesWork{Report: rep, Progress: gates.Progress{Arm: -1, Probe: -1}}
			p := NewGates(s)
			p.SetSize(198, 55)
			p.View()
			if key == "sum n" {
				hit(p, "end")
				hit(p, "right")
			}
			if key == "answers" {
				run.Results = run.Results[:0]
				s.Mode = sessions.Live
			}
			var frames []time.Duration
			for b.Loop() {
				i := len(frames)
				t0 := time.Now()
				switch {
				case key == "answers":
					at := (i * 40) % (len(whole.Results) - 40)
					batch := sessions.Batch{}
					for _, r := range whole.Results[at : at+40] {
						batch.GatesAnswered = append(batch.GatesAnswered, sessions.GatesAnswered{Result: r})
					}
					if at == 0 {
						run = sessions.GateRun{Setup: whole.Setup}
					}
					s.State.Apply(batch)
					p.Apply(batch)
				case key == "sum n":
					hit(p, "n")
				case i%13 == 12:
					hit(p, "home")
				case i%7 == 6 && key == "right":
					for range 6 {
						hit(p, "left")
					}
				default:
					hit(p, key)
				}
				p.View()
				frames = append(frames, time.Since(t0))
			}
			slices.Sort(frames)
			b.ReportMetric(float64(frames[len(frames)*99/100].Microseconds()), "p99-µs")
		})
	}
}
