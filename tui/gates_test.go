package tui

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/analysis/gates"
	"quantscope/sessions"
	"quantscope/views/viewstest"
)

// fakeGater is a feed whose gates answer what a test makes up.
type fakeGater struct {
	*fakeFeed
	asked []sessions.GatesRequest
	run   func(context.Context, sessions.GatesRequest) error
}

func (f *fakeGater) Gates(ctx context.Context, r sessions.GatesRequest) error {
	f.asked = append(f.asked, r)
	if f.run == nil {
		return nil
	}
	return f.run(ctx, r)
}

func gaterFeed(mode sessions.Mode, st *sessions.State) *fakeGater {
	return &fakeGater{fakeFeed: newFakeFeed(mode, st, st)}
}

// gatedState is the demo's session with a run of gates in it.
func gatedState(arms []string) *sessions.State {
	st := demoState()
	st.Gates = []*sessions.GateRun{viewstest.Gates(arms, 6, 1)}
	return st
}

// answer gives answers of a run through the feed, as its writer does.
func (f *fakeGater) answer(run int, results ...*gates.Result) {
	b := sessions.Batch{Progress: sessions.Progress{State: sessions.RunFinished}}
	for _, r := range results {
		b.GatesAnswered = append(b.GatesAnswered, sessions.GatesAnswered{Run: run, Result: r})
	}
	f.give(b)
}

// Gates by keys: the empty screen says what R would do, R begins it, cells fill while
// answers come, space holds it, X ends it, R goes on, and a finished run is drilled
// into.
func TestScenarioGates(t *testing.T) {
	feed := gaterFeed(sessions.Live, demoState())
	whole := viewstest.Gates(viewstest.GateArms[:3], 6, 1)
	d := drive(t, feed, fixed(), 120, 40)
	d.Press("6").On(ScreenGates).Sees("Gates ask candidates", "R asks demo, then nvfp4, nvfp4+mse, nvfp4+mse_ge1, then demo again, the suite demo", "quantscope gates --server URL")
	d.Press("s").Says("no gates were run yet").Press(">").Says("there is no other run")

	// The command of a run stays out of the driver's queue while it goes on.
	d.Send(keyOf("R"))
	if !d.m.scene.Gates.Running {
		t.Fatal("R begins nothing")
	}
	running := d.todo
	d.todo = nil
	d.Sees("▶ gates", "beginning")
	d.Press("R").Says("gates are being run: X ends them")
	d.Press("5", "R").Says("KL cannot be measured from here").Press("6")
	feed.give(sessions.Batch{Progress: sessions.Progress{State: sessions.RunFinished}, GatesBegun: []sessions.GatesBegun{{Run: 0, Setup: whole.Setup}}})
	d.m.gate.progress.Store(&gates.Progress{Stage: "asking", Arm: 1, Probe: 5, Done: 103, Of: 390, PerSecond: 41, ETA: 42 * time.Second})
	d.m.o.handFed = false // the clock of progress is read once
	d.m.gatesTick()
	d.m.o.handFed, d.m.gate.ticking = true, false
	feed.answer(0, whole.Results[:103]...)
	d.WaitIdle().Sees("▶ gates nvfp4  103/390 answers  41 tok/s  ETA 0:42", "103 of 390 answers", "tools/korean · nvfp4", "honesty")
	first := d.m.scene.Gates.Report
	feed.answer(0, whole.Results[103])
	d.WaitIdle().Sees("104 of 390 answers")
	if d.m.scene.Gates.Report != first || !d.m.scene.Gates.Stale {
		t.Error("a second has not passed, and the report is another, or is not known to be old")
	}
	d.now = d.now.Add(2 * time.Second)
	feed.answer(0, whole.Results[104])
	d.WaitIdle().Sees("105 of 390 answers")
	if r := d.m.scene.Gates.Report; r == first || d.m.scene.Gates.Stale {
		t.Error("the report is not computed anew")
	}

	d.Press(" ").Sees("‖ gates paused", "‖ paused: 105 of 390 answers", "space go on")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.m.gate.hold.wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("held gates go on: %v", err)
	}
	d.Press(" ").Sees("▶ 105 of 390 answers")
	if err := d.m.gate.hold.wait(t.Context()); err != nil {
		t.Errorf("gates that go on are held: %v", err)
	}
	d.Press("q").Sees("Quit while gates are run?").Press("esc")
	d.Press("X").Sees("End the gates?").Press("enter").Says("the gates end")
	feed.run = func(ctx context.Context, _ sessions.GatesRequest) error {
		feed.give(sessions.Batch{Progress: sessions.Progress{State: sessions.RunFinished}, GatesEnded: []sessions.GatesEnded{{Run: 0, End: &gates.End{State: "cancelled"}}}})
		return ctx.Err()
	}
	d.todo = append(running, d.todo...)
	d.WaitIdle().Sees("■ cancelled: 105 of 390 answers", "R goes on").Misses("▶ gates")
	if len(feed.asked) != 1 || !slices.Equal(feed.asked[0].Candidates, viewstest.Variants) || feed.asked[0].Suite != "" || feed.asked[0].NoPlacebo || feed.asked[0].NoBaseline {
		t.Fatalf("asked for %+v", feed.asked)
	}

	feed.run = func(context.Context, sessions.GatesRequest) error {
		feed.answer(0, whole.Results[105:]...)
		b := sessions.Batch{Progress: sessions.Progress{State: sessions.RunFinished}, GatesEnded: []sessions.GatesEnded{{Run: 0, End: &gates.End{State: "finished"}}}}
		for _, m := range whole.Meters {
			b.GatesMetered = append(b.GatesMetered, sessions.GatesMetered{Run: 0, Meter: m})
		}
		feed.give(b)
		return nil
	}
	d.Press("R").Misses("cancelled", "▶ gates").Sees("78/78", "honesty")
	if r := feed.asked[1]; !slices.Equal(r.Candidates, viewstest.Variants) || r.NoBaseline || r.NoPlacebo || r.Suite != "demo" || len(r.Servers) != 0 {
		t.Errorf("going on asks for %+v", r)
	}
	d.Press("end", "right", "n").Sees("the answer is empty", "differs from").Press("enter").Sees("asked", "bf16").Press("n", "esc", "esc", "1").On(ScreenMap)
}

// What went wrong stays on the screen, and elsewhere in the line above the last.
func TestGatesFail(t *testing.T) {
	feed := gaterFeed(sessions.Saved, demoState())
	feed.run = func(context.Context, sessions.GatesRequest) error {
		return errors.New("http://127.0.0.1:8000: nobody answers: connection refused")
	}
	d := drive(t, feed, fixed(), 120, 40)
	d.Press("6", "R").Sees("✗ http://127.0.0.1:8000: nobody answers: connection refused")
	feed.run = nil
	d.Press("R").Misses("✗ http")
}

// The form offers variants, baseline and placebo, and takes candidates, servers, a
// suite, probes, a text and drafts; what is not enough or wrong it says.
func TestGatesForm(t *testing.T) {
	feed := gaterFeed(sessions.Saved, demoState())
	d := drive(t, feed, fixed(), 120, 40)
	d.Press("6", "c").Sees("Run gates", "[x] nvfp4+mse_ge1", "[x] baseline", "[x] placebo")
	d.Press("down", " ", "down", "down", "down", " ", "tab").Type("../out, fast=model.gguf").Press("tab").Sees("URLs of servers").Type("gpu:8000").Press("enter").Says("gpu:8000 is no address of a server")
	d.Press("ctrl+u").Type("http://127.0.0.1:8000, big=https://gpu:8443/v1").Press("tab").Sees("default, quick, demo, twobit or a YAML file").Type("quick")
	d.Press("tab").Type("tools/*").Press("tab").Type("prose").Press("tab").Type("9").Press("enter").Says("draft 9: from 0 to 8").Press("backspace").Type("2").Press("enter")
	r := feed.asked[0]
	if !slices.Equal(r.Candidates, []string{"nvfp4", "nvfp4+mse_ge1", "../out", "fast=model.gguf"}) || !slices.Equal(r.Servers, []string{"http://127.0.0.1:8000", "big=https://gpu:8443/v1"}) ||
		r.Suite != "quick" || r.Probes != "tools/*" || r.Texts != "prose" || r.Local.Speculate != 2 || !r.NoPlacebo || r.NoBaseline {
		t.Errorf("asked for %+v", r)
	}
	d.Press("c", " ", "down", " ", "down", " ", "down", " ", "enter").Says("somebody has to be asked").Press("esc").Misses("Run gates")
	// A session of served models has servers alone.
	st := &sessions.State{Meta: sessions.Meta{SourcePath: "http://127.0.0.1:8000", Family: sessions.Served, Summary: "models behind servers", Path: "/tmp/served.qscope"}}
	st.Progress = sessions.Progress{State: sessions.RunIdle, Variant: -1}
	feed = gaterFeed(sessions.Saved, st)
	d = drive(t, feed, fixed(), 80, 24)
	d.Press("6").Sees("c names servers").Press("R").Sees("❯ servers", "http://127.0.0.1:8000").Misses("baseline  ").Press("enter")
	if r := feed.asked[0]; !slices.Equal(r.Servers, []string{"http://127.0.0.1:8000"}) || len(r.Candidates) != 0 || r.NoPlacebo {
		t.Errorf("asked for %+v", r)
	}
	d.Press("c", "ctrl+u", "enter").Says("a server is needed").Type("http://a:1").Press("up").Type("nvfp4").Press("enter").Says("candidates need a checkpoint").Press("esc")
}

// To go on with a run asks for the same: arms by their roles, the suite that it had,
// the settings that decide answers.
func TestGatesRequestOf(t *testing.T) {
	g := viewstest.Gates([]string{"nvfp4", "fused scale"}, 6, 0.5)
	g.Setup.Arms = slices.Insert(g.Setup.Arms, 3, gates.Arm{Label: "gpu", Spec: "http://gpu:8000", Role: gates.Candidate})
	g.Setup.Texts = &gates.Texts{Name: "prose", IDs: make([][]int32, 4), Top: 12}
	g.Settings = map[string]string{sessions.GateSpeculate: "3", sessions.GateModel: "m", sessions.GateActivations: "bf16", sessions.GateFault: "fused-scale", sessions.GateTargets: "linear"}
	r := gatesRequestOf(g, "demo")
	if !slices.Equal(r.Candidates, []string{"nvfp4", "fused scale=nvfp4"}) || !slices.Equal(r.Servers, []string{"gpu=http://gpu:8000"}) || r.NoBaseline || r.NoPlacebo ||
		r.Suite != "demo" || r.Texts != "prose" || r.Top != 12 || r.TextChunks != 4 || r.Model != "m" || r.Targets != "linear" || r.Timeout != g.Setup.Timeout {
		t.Errorf("%+v", r)
	}
	if r.Local.Speculate != 3 || !r.Local.BF16 || r.Local.Fault != "fused-scale" {
		t.Errorf("%+v", r.Local)
	}
	if settings := r.GateSettings(); fmt.Sprint(settings) != fmt.Sprint(g.Settings) {
		t.Errorf("settings %v, the run's are %v", settings, g.Settings)
	}
	if r := gatesRequestOf(g, "/elsewhere/other"); !r.NoBaseline || !slices.Equal(r.Candidates, []string{"bf16=demo", "nvfp4", "fused scale=nvfp4"}) {
		t.Errorf("another checkpoint: %+v", r)
	}
	g.Setup.Arms = g.Setup.Arms[:len(g.Setup.Arms)-1]
	if !gatesRequestOf(g, "demo").NoPlacebo {
		t.Error("a run without a placebo gets one")
	}
}

// Several runs are gone through by < and >; a new one is shown unless the person chose
// another, and a replay that goes backwards forgets them.
func TestGatesShowTheNewest(t *testing.T) {
	st := gatedState(viewstest.GateArms[:1])
	second := viewstest.Gates(viewstest.GateArms[:2], 2, 1)
	second.Setup.Suite = "second"
	st.Gates = append(st.Gates, second)
	feed := gaterFeed(sessions.Saved, st)
	d := drive(t, feed, fixed(), 120, 40)
	d.Press("6").Sees("suite second", "run 2 of 2", "honesty").Press(">").Sees("suite demo", "run 1 of 2", "honesty").Press("<").Sees("suite second")
	third := viewstest.Gates(viewstest.GateArms[:1], 2, 1)
	third.Setup.Suite = "third"
	feed.give(sessions.Batch{GatesBegun: []sessions.GatesBegun{{Run: 2, Setup: third.Setup}}})
	d.WaitIdle().Sees("run 2 of 3").Press(">").Sees("suite third", "0 of")
	before := demoState()
	feed.give(sessions.Batch{Reset: before, Progress: before.Progress})
	d.WaitIdle().Sees("Gates ask candidates").Misses("suite third")
}

// A session that has nothing but gates begins at them, and a replay runs none.
func TestGatesWhereItBegins(t *testing.T) {
	st := gatedState(viewstest.GateArms[:2])
	st.Variants, st.Records, st.Progress = nil, nil, sessions.Progress{State: sessions.RunIdle, Variant: -1}
	d := drive(t, gaterFeed(sessions.Saved, st), fixed(), 120, 40)
	d.On(ScreenGates).Sees("✓ gates finished  312/312 answers", "honesty")
	st.Tensors, st.Meta.Family, st.Meta.SourceIdentity = nil, sessions.Served, ""
	for _, size := range [][2]int{{80, 24}, {120, 40}, {200, 60}} {
		d = drive(t, gaterFeed(sessions.Saved, st), fixed(), size[0], size[1])
		for _, key := range strings.Fields("1 2 3 4 5 7 8 6 enter esc tab /") {
			d.Press(key)
			fits(t, d.m.View(), size[0], size[1])
		}
	}
	whole := gatedState(viewstest.GateArms[:2])
	play := newFakePlay(whole)
	play.start = whole
	d = drive(t, play, fixed(), 120, 40)
	d.Press("6").Sees("nvfp4+mse", "honesty").Press("R").Says("gates cannot be run in a replay: r leaves it")
}

// / filters probes on this screen, shown at once, counted, and taken back by esc.
func TestGatesFiltered(t *testing.T) {
	d := drive(t, gaterFeed(sessions.Saved, gatedState(viewstest.GateArms)), fixed(), 120, 40)
	d.Press("6", "/").Type("korean").Sees("2 of 11 probes", "/korean").Misses("needle").Press("enter").Misses("needle").Press("esc").Sees("needle")
	d.Press("/").Type("tools").Press("esc").Sees("needle")
	d.Press("/").Type("(").Sees("missing closing )").Press("esc")
	d.Press(":").Type("fold or unfold all").Press("enter").Misses("korean").Sees("▸ tools")
}

// A double click on a cell opens its cases.
func TestGatesDoubleClick(t *testing.T) {
	d := drive(t, gaterFeed(sessions.Saved, gatedState(viewstest.GateArms)), fixed(), 120, 40)
	d.Press("6")
	y := slices.IndexFunc(strings.Split(d.Screen(), "\n"), func(line string) bool { return strings.HasPrefix(line, "   needle") })
	d.Click(15, y)
	d.Click(15, y).Sees("▸ needle", "needs 90 %").Press("enter").Sees("asked")
	if !strings.Contains(d.Screen(), "needle, case") {
		t.Errorf("the double click opens something else:\n%s", d.Screen())
	}
}

// The screen over the real engine: gates of the demo on few probes are begun from the
// form, cancelled in their middle, gone on with to their end, and replayed.
func TestScenarioGatesOfDemo(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	live, err := sessions.Start(ctx, sessions.Options{
		Checkpoint: "demo", Session: filepath.Join(t.TempDir(), "demo.qscope"), Variants: []string{"nvfp4"}, Threads: 1, Program: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := live.Close(); err != nil {
			t.Error(err)
		}
	}()
	d := drive(t, live, withSessions(), 120, 40)
	d.Until(ctx, func(st *sessions.State) bool { return st.Progress.State == sessions.RunFinished })
	d.Press("6").Sees("R asks demo, then nvfp4, then demo again").Press("c", "up", "up", "up").Type("arithmetic")
	d.Send(keyOf("enter"))
	answers := make(chan tea.Msg, 64)
	var start func(tea.Cmd)
	start = func(cmd tea.Cmd) {
		go func() {
			msg := cmd()
			if batch, ok := msg.(tea.BatchMsg); ok {
				for _, c := range batch {
					start(c)
				}
				return
			}
			answers <- msg
		}()
	}
	beside := func() {
		for _, cmd := range d.todo {
			start(cmd)
		}
		d.todo = nil
	}
	finish := func() {
		for d.m.scene.Gates.Running {
			d.receive(<-answers)
		}
		d.WaitIdle()
	}
	ended := func(state string) func(*sessions.State) bool {
		return func(st *sessions.State) bool {
			return len(st.Gates) == 1 && st.Gates[0].End != nil && (state == "" || st.Gates[0].End.State == state)
		}
	}
	beside()
	d.Until(ctx, func(st *sessions.State) bool { return len(st.Gates) == 1 && len(st.Gates[0].Results) > 0 }).Sees("▶", "arithmetic")
	d.Send(keyOf("X"))
	d.Press("enter")
	finish()
	d.Until(ctx, ended(""))
	if g := d.m.scene.State.Gates[0]; g.End.State != "finished" { // else it was quicker than the key
		d.Sees("■ cancelled")
		d.Send(keyOf("R"))
		beside()
		finish()
		d.Until(ctx, ended("finished"))
	}
	if n := len(d.m.scene.State.Gates); n != 1 {
		t.Fatalf("%d runs: going on began another", n)
	}
	g := d.m.scene.State.Gates[0]
	if done, of := g.Answers(); done != of || of == 0 || len(g.Setup.Arms) != 3 || g.Setup.Placebo() != 2 {
		t.Fatalf("%d of %d answers of %d arms", done, of, len(g.Setup.Arms))
	}
	d.WaitIdle()
	if r := d.m.scene.Gates.Report; r == nil || r.Setup != g.Setup || len(r.Checks) == 0 || d.m.scene.Gates.Err != "" {
		t.Fatalf("report %+v, %q", r, d.m.scene.Gates.Err)
	}
	d.Press("enter", "enter").Sees("asked", "seed").Press("esc", "esc", "tab", "tab").Sees("▸ honesty")
	d.Press("r").Sees("» replay").Press("home").WaitIdle()
	if n := len(d.m.scene.State.Gates); n != 0 {
		t.Fatalf("%d runs at the beginning of the replay", n)
	}
	d.Press("end").Until(ctx, ended("finished")).Press("6").Sees("honesty").Press("R").Says("gates cannot be run in a replay")
}

// The screens of gates at the sizes that the design names.
func TestGatesScreens(t *testing.T) {
	for _, size := range []struct{ w, h int }{{80, 24}, {120, 36}, {200, 60}} {
		st := gatedState(viewstest.GateArms)
		d := drive(t, gaterFeed(sessions.Saved, st), fixed(), size.w, size.h)
		d.Press("6")
		d.m.scene.Gates.Report = viewstest.GatesReport(d.m.gateRun()) // whose words are the fixture's own
		d.m.scene.Touch()
		for _, c := range []struct{ name, keys string }{{"gates", "end right right right right right"}, {"gates-case", "n enter"}, {"gates-form", "esc c"}} {
			d.Press(strings.Fields(c.keys)...)
			fits(t, d.m.View(), size.w, size.h)
			golden(t, fmt.Sprintf("%s-%dx%d", c.name, size.w, size.h), d.m.View())
		}
		d = drive(t, gaterFeed(sessions.Live, demoState()), fixed(), size.w, size.h)
		d.Press("6")
		fits(t, d.m.View(), size.w, size.h)
		golden(t, fmt.Sprintf("gates-empty-%dx%d", size.w, size.h), d.m.View())
	}
}
