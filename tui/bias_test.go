package tui

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"quantscope/sessions"
	"quantscope/views/viewstest"
)

// fakeBiaser is a feed whose looks at biases a test makes up.
type fakeBiaser struct {
	*fakeTierer
	asked []sessions.BiasRequest
	run   func(context.Context, sessions.BiasRequest) error
}

func (f *fakeBiaser) Bias(ctx context.Context, r sessions.BiasRequest) error {
	f.asked = append(f.asked, r)
	return f.run(ctx, r)
}

// A look at biases by keys: D shows the pane, the form asks, the pane fills while rows
// come, space holds it, nothing else begins, X ends it, a second one fails.
func TestScenarioBias(t *testing.T) {
	feed := &fakeBiaser{fakeTierer: tiererFeed(sessions.Live, demoState())}
	whole := viewstest.BiasRun(5)
	give := func(b sessions.Batch) {
		b.Progress = sessions.Progress{State: sessions.RunFinished}
		feed.give(b)
	}
	feed.run = func(context.Context, sessions.BiasRequest) error {
		b := sessions.Batch{BiasesBegun: []sessions.BiasBegun{{Run: 0, AtUS: 1, Setup: whole.Setup}}}
		for _, w := range whole.Weights {
			b.BiasesFound = append(b.BiasesFound, sessions.BiasFound{Run: 0, Weights: w})
		}
		give(b)
		return nil
	}
	d := drive(t, feed, fixed(), 120, 40)
	d.Press("5", "D").Sees("Rounding errors can lean to one side", "R looks; c chooses candidates and corpora first")
	d.Press("c").Sees("Sign bias through depth", "also", "corpora")
	boxes := len(d.m.variantSpecs())
	for range boxes { // none of them
		d.Press(" ", "tab")
	}
	d.Press("ctrl+u").Press("enter").Says("a candidate is needed: mark one, or name one")
	d.Type("code2, code2+sym").Press("tab", "ctrl+u").Type("prose")
	d.Send(keyOf("enter")) // begun, and not run yet
	running := d.todo
	d.todo = nil
	d.WaitIdle().On(ScreenKL).Sees("▶ biases  beginning")
	d.Press(" ").Sees("‖ biases paused", "space go on")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.m.bias.hold.wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a held look goes on: %v", err)
	}
	d.Press(" ").Sees("▶ biases").Press("6", "R").Says("biases are being looked at: X on screen 5 ends it")
	d.Press(":").Type("tier: run").Press("enter").Says("biases are being looked at").Press("esc")
	d.Press("q").Sees("Quit while biases are looked at?").Press("esc").Press("5", "D")
	d.todo = append(d.todo, running...)
	d.WaitIdle().Sees("code2+asym", "code2+mirror", "ruler's floor")
	if r := feed.asked[0]; !slices.Equal(r.Candidates, []string{"code2", "code2+sym"}) || !slices.Equal(r.Corpora, []string{"prose"}) || r.Pause == nil || r.Progress == nil {
		t.Errorf("asked for %+v", r)
	}
	before := d.Screen()
	b := sessions.Batch{BiasesEnded: []sessions.BiasEnded{{Run: 0, End: whole.End}}}
	for _, row := range whole.Rows {
		b.BiasesFound = append(b.BiasesFound, sessions.BiasFound{Run: 0, Row: row})
	}
	give(b)
	if d.WaitIdle().Screen() == before {
		t.Error("rows change nothing on the pane")
	}

	feed.run = func(ctx context.Context, _ sessions.BiasRequest) error { <-ctx.Done(); return ctx.Err() }
	d.Press("c")
	d.Send(keyOf("enter"))
	running, d.todo = d.todo, nil
	d.WaitIdle().Press("X").Sees("End the look at biases?").Press("enter").Says("the look at biases ends")
	d.todo = append(d.todo, running...)
	if d.WaitIdle(); d.m.scene.Bias.Running || d.m.scene.Bias.Err != "" {
		t.Errorf("it ended, and is %+v", d.m.scene.Bias)
	}
	feed.run = func(context.Context, sessions.BiasRequest) error { return errors.New("bias: no text") }
	d.Press("c", "enter")
	if w := d.m.scene.Bias; w.Running || w.Err != "bias: no text" {
		t.Errorf("it failed, and is %+v", w)
	}
}

// A hot tier and a look at biases by keys over the real engine: both are in the file,
// and a replay of it ends with what the run had.
func TestScenarioRealLooks(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	live, err := sessions.Start(ctx, sessions.Options{
		Checkpoint: "demo", Session: filepath.Join(t.TempDir(), "demo.qscope"), Variants: []string{"nvfp4"}, Targets: "re:.*layers.2.mlp.experts.0.*_proj.*", Threads: 1, Program: "test",
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
	d.Press(":").Type("tier: run").Press("enter", "ctrl+u").Type("25%").Press("tab", "ctrl+u").Type("zipf:1.1:tokens=1024")
	d.Press("tab", "tab", "tab", "ctrl+u").Type("128").Press("tab", "tab", "tab", "ctrl+u").Type("0").Press("enter")
	d.Until(ctx, func(st *sessions.State) bool { return len(st.Tiers) == 1 && st.Tiers[0].End != nil })
	d.Sees("budget 25% · window 8/8", "coverage", "16/64 (25 %)")
	if d.m.scene.Tier.Running || len(d.m.scene.State.Tiers[0].Windows) != 8 {
		t.Errorf("%d windows", len(d.m.scene.State.Tiers[0].Windows))
	}

	d.Press("5", "D", "c")
	for range len(d.m.variantSpecs()) {
		d.Press(" ", "tab")
	}
	d.Press("ctrl+u").Type("code2+sym").Press("tab", "ctrl+u").Type("prose").Press("enter")
	d.Until(ctx, func(st *sessions.State) bool { return len(st.Biases) == 1 && st.Biases[0].End != nil })
	d.Sees("sign bias against demo", "code2+sym", "ruler's floor").Misses("✗")
	if b := d.m.scene.State.Biases[0]; b.End.State != string(sessions.RunFinished) || len(b.Rows) == 0 || len(b.Divergences) == 0 {
		t.Errorf("%d rows, %+v", len(b.Rows), b.End)
	}

	d.Press("1", "r").Sees("» replay").Press("home", "end").Until(ctx, func(st *sessions.State) bool {
		return len(st.Biases) == 1 && st.Biases[0].End != nil && len(st.Tiers) == 1 && st.Tiers[0].End != nil
	})
	if got, want := d.m.src.state.Tiers[0].Windows, d.m.home.state.Tiers[0].Windows; !reflect.DeepEqual(got, want) {
		t.Error("the replay ends with other windows than the run")
	}
	got, want := d.m.src.state.Biases[0].Rows, d.m.home.state.Biases[0].Rows
	for i := range max(len(got), len(want)) { // as text: some figures are NaN
		if i >= len(got) || i >= len(want) || fmt.Sprint(*got[i]) != fmt.Sprint(*want[i]) {
			t.Fatalf("the replay ends with %d rows, the run with %d, and row %d is another", len(got), len(want), i)
		}
	}
	if !d.m.scene.Tier.On {
		d.Press("t")
	}
	d.Sees("budget 25% · window 8/8", "16/64 (25 %)")
}
