package tui

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/analysis/yardstick"
	"quantscope/sessions"
	"quantscope/views/viewstest"
)

// fakeYard is a feed that scores what a test makes up.
type fakeYard struct {
	*fakeFeed
	asked []sessions.MeasureRequest
	run   func(context.Context, sessions.MeasureRequest) error
}

func (f *fakeYard) Measure(ctx context.Context, r sessions.MeasureRequest) error {
	f.asked = append(f.asked, r)
	if f.run == nil {
		return nil
	}
	return f.run(ctx, r)
}

func yardFeed(mode sessions.Mode, st *sessions.State) *fakeYard {
	return &fakeYard{fakeFeed: newFakeFeed(mode, st, st)}
}

// small is a measurement of the demo's variants that is quick to analyse.
func small() *sessions.Yard {
	sh := viewstest.DemoShape()
	sh.Chunks, sh.Tokens, sh.Specs = 3, 48, viewstest.Variants
	return viewstest.Yard(sh)
}

// measuredState is the demo's session with a measurement in it.
func measuredState() *sessions.State {
	st := demoState()
	st.Yards = []*sessions.Yard{small()}
	return st
}

// score gives chunks of a measurement through the feed, as its writer does.
func (f *fakeYard) score(yard int, chunks ...*yardstick.Chunk) {
	b := sessions.Batch{Progress: sessions.Progress{State: sessions.RunFinished}}
	for _, c := range chunks {
		b.YardChunks = append(b.YardChunks, sessions.YardChunk{Yard: yard, Chunk: c})
	}
	f.give(b)
}

// A measurement by keys: the empty screen says what R would do, R begins it, rows
// fill while chunks come, space holds it, X ends it, R goes on, and a finished one
// is drilled into.
func TestScenarioKL(t *testing.T) {
	feed := yardFeed(sessions.Live, demoState())
	whole := small()
	d := drive(t, feed, fixed(), 120, 40)
	d.Press("5").On(ScreenKL).Sees("KL divergence says", "R measures the session's variants nvfp4, nvfp4+mse, nvfp4+mse_ge1 on prose, code, multi, math, chat", "That takes")
	d.Press("o").Says("nothing is scored yet").Press("n").Says("there is no other measurement")

	// The command of a measurement stays out of the driver's queue while it runs.
	d.Send(keyOf("R"))
	if !d.m.scene.KL.Running {
		t.Fatal("R begins nothing")
	}
	running := d.todo
	d.todo = nil
	d.Sees("▶ KL", "beginning")
	d.Press("R").Says("a measurement is under way: X ends it")
	feed.give(sessions.Batch{Progress: sessions.Progress{State: sessions.RunFinished}, YardsBegun: []sessions.YardBegun{{Yard: 0, Setup: whole.Setup}}})
	d.m.kl.progress.Store(&yardstick.Progress{Stage: "candidates", Party: 2, Chunks: 4, Of: 15, TokensPerSec: 14100, ETASeconds: 7})
	d.m.o.handFed = false // the clock of progress is read once
	d.m.klTick()
	d.m.o.handFed, d.m.kl.ticking = true, false
	feed.score(0, whole.Chunks[:4]...)
	d.WaitIdle().Sees("▶ KL nvfp4+mse  4/15 chunks  14,100 tok/s  ETA 0:07", "4 of 15 chunks scored", "nvfp4+mse_ge1", "4/15", "worst positions")
	first := d.m.scene.KL.Report
	feed.score(0, whole.Chunks[4])
	d.WaitIdle()
	if d.m.scene.KL.Report != first || !d.m.scene.KL.Stale {
		t.Error("a second has not passed, and the report is another, or is not said to be old")
	}
	d.now = d.now.Add(2 * time.Second)
	feed.score(0, whole.Chunks[5])
	d.WaitIdle().Sees("6 of 15 chunks scored", "6/15")
	if r := d.m.scene.KL.Report; r == first || d.m.scene.KL.Stale {
		t.Error("the report is not computed anew")
	}

	d.Press(" ").Sees("‖ KL paused", "‖ paused: 6 of 15 chunks scored", "space go on")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.m.kl.hold.wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a held measurement goes on: %v", err)
	}
	d.Press(" ").Sees("▶ 6 of 15 chunks scored")
	if err := d.m.kl.hold.wait(t.Context()); err != nil {
		t.Errorf("a measurement that goes on is held: %v", err)
	}
	d.Press("q").Sees("Quit while KL is being measured?").Press("esc")

	d.Press("X").Sees("End the measurement?").Press("enter").Says("the measurement ends")
	feed.run = func(ctx context.Context, _ sessions.MeasureRequest) error {
		feed.give(sessions.Batch{Progress: sessions.Progress{State: sessions.RunFinished}, YardsEnded: []sessions.YardEnded{{Yard: 0, End: &sessions.YardEnd{State: sessions.RunCancelled}}}})
		return ctx.Err()
	}
	d.todo = append(running, d.todo...)
	d.WaitIdle().Sees("■ cancelled: 6 of 15 chunks scored", "R goes on").Misses("▶ KL")
	if len(feed.asked) != 1 || !slices.Equal(feed.asked[0].Candidates, viewstest.Variants) || len(feed.asked[0].Corpora) != 0 {
		t.Fatalf("asked for %+v", feed.asked)
	}

	feed.run = func(context.Context, sessions.MeasureRequest) error {
		feed.score(0, whole.Chunks[6:]...)
		feed.give(sessions.Batch{Progress: sessions.Progress{State: sessions.RunFinished}, YardsEnded: []sessions.YardEnded{{Yard: 0, End: &sessions.YardEnd{State: sessions.RunFinished}}}})
		return nil
	}
	d.Press("R").Misses("cancelled", "▶").Sees("nvfp4+mse_ge1", "worst positions")
	if r := feed.asked[1]; !slices.Equal(r.Candidates, viewstest.Variants) || !slices.Equal(r.Corpora, []string{"prose", "code", "math", "multi", "chat"}) || r.NoFloor {
		t.Errorf("going on asks for %+v", r)
	}
	d.Press("down", "enter").Sees("the next token is marked").Press("enter").Sees("first choice", "reference").Press("esc", "esc", "1").On(ScreenMap)
}

// What went wrong stays on the screen, and elsewhere in the line above the last.
func TestKLFails(t *testing.T) {
	feed := yardFeed(sessions.Saved, demoState())
	feed.run = func(context.Context, sessions.MeasureRequest) error {
		return errors.New("candidate: nvfp4+mse: model.safetensors: no such file or directory")
	}
	d := drive(t, feed, fixed(), 120, 40)
	d.Press("5", "R").Sees("✗ candidate: nvfp4+mse: model.safetensors: no such file or directory")
	feed.run = nil
	d.Press("R").Misses("✗")
}

// The form offers the variants, and takes other candidates and corpora.
func TestKLForm(t *testing.T) {
	feed := yardFeed(sessions.Saved, demoState())
	d := drive(t, feed, fixed(), 120, 40)
	d.Press("5", "c").Sees("Measure KL to the reference", "[x] nvfp4+mse_ge1", "[ ] attribution", "prose, code, multi, math, chat")
	d.Press("down", " ", "tab", "tab", "tab", " ", "tab").Type("../out, model.gguf").Press("tab", "ctrl+u").Type("a text.txt")
	d.Press("tab").Sees("a pattern").Type("lm_head").Press("enter")
	want := sessions.MeasureRequest{Candidates: []string{"nvfp4", "nvfp4+mse_ge1", "../out", "model.gguf"}, Corpora: []string{"a text.txt"}, Keep: "lm_head"}
	if r := feed.asked[0]; !slices.Equal(r.Candidates, want.Candidates) || !slices.Equal(r.Corpora, want.Corpora) || r.Keep != want.Keep || !r.Probe || r.Attribute {
		t.Errorf("asked for %+v", r)
	}
	d.Press("c", " ", "down", " ", "down", " ", "enter").Says("a candidate is needed").Press("esc").Misses("Measure KL")
	// A checkpoint of one's own has no corpora, and a session of a measurement no variants.
	st := demoState()
	st.Meta.SourcePath, st.Variants, st.Records = "/data/model", nil, nil
	feed = yardFeed(sessions.Saved, st)
	d = drive(t, feed, fixed(), 80, 24)
	d.Press("5").Sees("The session has no variants: c names candidates").Press("R").Sees("Measure KL to the reference", "❯ also").Type("nvfp4").Press("enter").Says("corpora are needed")
	d.Press("tab").Type("book.txt").Press("enter")
	if r := feed.asked[0]; !slices.Equal(r.Candidates, []string{"nvfp4"}) || !slices.Equal(r.Corpora, []string{"book.txt"}) {
		t.Errorf("asked for %+v", r)
	}
}

// Several measurements are gone through by n and N; a new one is shown unless the
// person chose another, and a replay that goes backwards forgets them.
func TestKLShowsTheNewest(t *testing.T) {
	st := measuredState()
	second := small()
	second.Setup.Reference.Label = "second"
	st.Yards = append(st.Yards, second)
	feed := yardFeed(sessions.Saved, st)
	d := drive(t, feed, fixed(), 120, 40)
	d.Press("5").Sees("KL to second", "measurement 2 of 2").Press("n").Sees("KL to demo", "measurement 1 of 2").Press("N").Sees("KL to second")
	third := small()
	third.Setup.Reference.Label = "third"
	feed.give(sessions.Batch{YardsBegun: []sessions.YardBegun{{Yard: 2, Setup: third.Setup}}})
	d.WaitIdle().Sees("measurement 2 of 3").Press("n").Sees("KL to third", "No chunk was scored yet")
	before := demoState()
	feed.give(sessions.Batch{Reset: before, Progress: before.Progress})
	d.WaitIdle().Sees("KL divergence says").Misses("KL to third")
}

// A session that has nothing but a measurement begins at it, opened at once or
// while the frame is there already.
func TestKLIsWhereItBegins(t *testing.T) {
	st := measuredState()
	st.Variants, st.Records, st.Progress = nil, nil, sessions.Progress{State: sessions.RunIdle, Variant: -1}
	d := drive(t, yardFeed(sessions.Saved, st), fixed(), 120, 40)
	d.On(ScreenKL).Sees("✓ KL finished  15/15 chunks", "nvfp4+mse_ge1")
	o := fixed()
	o.Screen = "map"
	drive(t, yardFeed(sessions.Saved, st), o, 120, 40).On(ScreenMap)
	d = &driver{t: t, now: time.Unix(1_764_435_720, 0)}
	o = fixed()
	o.Now = func() time.Time { return d.now }
	d.m = newOpening("a file", func() (sessions.Feed, error) { return yardFeed(sessions.Saved, st), nil }, o)
	d.do(d.m.Init())
	d.Resize(120, 40).On(ScreenKL).Sees("✓ KL finished", "worst positions")
	if err := d.m.end(); err != nil {
		t.Error(err)
	}
	drive(t, yardFeed(sessions.Saved, measuredState()), fixed(), 120, 40).On(ScreenMap)
}

// A replay shows measurements and makes none.
func TestKLInReplay(t *testing.T) {
	whole := measuredState()
	play := newFakePlay(whole)
	play.start = whole
	d := drive(t, play, fixed(), 120, 40)
	d.Press("5").Sees("nvfp4+mse_ge1", "worst positions").Press("R").Says("KL cannot be measured in a replay: r leaves it")
}

// Compare holds the two sides beside each other by the newest measurement that
// has both.
func TestCompareSaysKL(t *testing.T) {
	d := drive(t, yardFeed(sessions.Saved, measuredState()), fixed(), 120, 40)
	d.Press("4").Sees("KL, 95 %")
	c := d.m.scene.KL.Compared
	if c == nil || c.A != "nvfp4" || !(c.KLB < c.KLA) || c.Pair.DKL != c.Pair.DKL || c.Pair.Low > c.Pair.High {
		t.Fatalf("%+v", c)
	}
	if diff := c.KLB - c.KLA - c.Pair.DKL; diff > 1e-9 || diff < -1e-9 {
		t.Errorf("B − A is %v, the means differ by %v", c.Pair.DKL, c.KLB-c.KLA)
	}
	d.Press("x")
	if now := d.m.scene.KL.Compared; now == nil || now.A != c.B || now.Pair.DKL != -c.Pair.DKL {
		t.Errorf("swapped: %+v of %+v", now, c)
	}
	d = drive(t, yardFeed(sessions.Saved, demoState()), fixed(), 120, 40)
	d.Press("4").Misses("KL, 95 %")
}

// hold holds exactly while it is set, whoever waits.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h hold
		h.set(true)
		h.set(true)
		done := make(chan error, 3)
		for range 3 {
			go func() { done <- h.wait(t.Context()) }()
		}
		synctest.Wait()
		if len(done) != 0 {
			t.Fatal("what is held goes on")
		}
		h.set(false)
		synctest.Wait()
		if len(done) != 3 {
			t.Fatalf("%d of 3 go on", len(done))
		}
	})
}

// The screen over the real engine: a measurement of the demo on one corpus is
// begun, cancelled in its middle, gone on with to its end, and replayed.
func TestScenarioKLOfDemo(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	live, err := sessions.Start(ctx, sessions.Options{
		Checkpoint: "demo", Session: filepath.Join(t.TempDir(), "demo.qscope"), Variants: []string{"nvfp4", "nvfp4+mse"}, Threads: 1, Program: "test",
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
	d.Press("5").Sees("R measures the session's variants nvfp4, nvfp4+mse on prose").Press("c")
	d.Press("up", "up", "ctrl+u").Type("code") // of the fields the second
	d.Send(keyOf("enter"))
	chunks := func(n int) func(*sessions.State) bool {
		return func(st *sessions.State) bool { return len(st.Yards) == 1 && len(st.Yards[0].Chunks) >= n }
	}
	ended := func(st *sessions.State) bool { return len(st.Yards) == 1 && st.Yards[0].End != nil }
	// The measurement runs beside the driver, as it does beside the loop.
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
		for d.m.scene.KL.Running {
			d.receive(<-answers)
		}
		d.WaitIdle()
	}
	beside()
	d.Until(ctx, chunks(1)).Sees("▶", "nvfp4+mse")
	d.Send(keyOf("X"))
	d.Press("enter")
	finish()
	d.Until(ctx, ended)
	y := d.m.scene.State.Yards[0]
	if y.End.State == sessions.RunFinished { // it was quicker than the key
		t.Logf("the measurement had ended")
	} else {
		d.Sees("■ cancelled")
		d.Send(keyOf("R"))
		beside()
		finish()
		d.Until(ctx, func(st *sessions.State) bool { return ended(st) && st.Yards[0].End.State == sessions.RunFinished })
	}
	if len(d.m.scene.State.Yards) != 1 {
		t.Fatalf("%d measurements", len(d.m.scene.State.Yards))
	}
	r := d.m.scene.KL.Report
	if r == nil || r.Positions != r.Of || len(r.Results) != 3 {
		t.Fatalf("report %+v of %q", r, d.m.scene.KL.Err)
	}
	for c := range r.Results {
		party, s := &r.Setup.Candidates[c], &r.Results[c].All
		if party.Floor != (s.KL < 0.01) || s.NaN != 0 {
			t.Errorf("%s: KL %v", party.Label, s.KL)
		}
	}
	d.Press("enter", "enter").Sees("first choice", "reference").Press("esc", "esc", "4").Sees("KL, 95 %")
	d.Press("r").Sees("» replay").Press("home").WaitIdle()
	if n := len(d.m.scene.State.Yards); n != 0 {
		t.Fatalf("%d measurements at the beginning of the replay", n)
	}
	d.Press("end").Until(ctx, ended).Press("5").Sees("worst positions").Press("R").Says("KL cannot be measured in a replay")
}

// The screens of a measurement at the sizes that the design names.
func TestKLScreens(t *testing.T) {
	for _, size := range []struct{ w, h int }{{80, 24}, {120, 40}, {200, 60}} {
		st := demoState()
		st.Yards = []*sessions.Yard{viewstest.Yard(viewstest.DemoShape())}
		d := drive(t, yardFeed(sessions.Saved, st), fixed(), size.w, size.h)
		for _, c := range []struct{ name, keys string }{{"kl", "5 down down"}, {"kl-position", "enter down enter"}, {"kl-form", "c"}} {
			d.Press(strings.Fields(c.keys)...)
			fits(t, d.m.View(), size.w, size.h)
			golden(t, fmt.Sprintf("%s-%dx%d", c.name, size.w, size.h), d.m.View())
		}
		d = drive(t, yardFeed(sessions.Live, demoState()), fixed(), size.w, size.h)
		d.Press("5")
		fits(t, d.m.View(), size.w, size.h)
		golden(t, fmt.Sprintf("kl-empty-%dx%d", size.w, size.h), d.m.View())
	}
}
