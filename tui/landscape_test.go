package tui

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/muesli/termenv"

	"quantscope/quant/recipe"
	"quantscope/quant/topology"
	"quantscope/sessions"
	"quantscope/views"
	"quantscope/views/viewstest"
)

// storedState is demoState with the dtype as checkpoints spell it, by which the
// source has a size.
func storedState() *sessions.State {
	st := demoState()
	for i := range st.Tensors {
		st.Tensors[i].DType = "BF16"
	}
	return st
}

// The landscape of a session: its verdict, a budget that is solved as the slider
// moves, and the answer as a recipe that says exactly what was shown.
func TestScenarioLandscape(t *testing.T) {
	st := storedState()
	st.Meta.Path = filepath.Join(t.TempDir(), "demo.qscope")
	st.Meta.SourceIdentity = "abc123"
	d := drive(t, newFakeFeed(sessions.Saved, st, st), fixed(), 120, 40)
	d.Press("3").On(ScreenLandscape).Sees("Landscape · nvfp4 · routed experts · 240 of 240 measured", "the worst 2 of 240 tensors", "better", "bits/weight")
	d.Misses("computing", "solving")

	pane := d.m.landPane()
	before, _ := pane.Budget()
	d.Press(">", "right", "l")
	after, _ := pane.Budget()
	if after <= before || !pane.Answered() {
		t.Fatalf("budget %d after three steps from %d, answered %v", after, before, pane.Answered())
	}
	d.Press("H").Sees("4.50 ")
	if b, _ := pane.Budget(); b >= after || d.m.scene.LockScale {
		t.Errorf("budget %d after a coarse step down from %d; scale locked: %v", b, after, d.m.scene.LockScale)
	}
	d.Press("L", "L", "L")
	if d.m.scene.LockScale {
		t.Error("L locks the scale of the map from here")
	}
	a := pane.Answer().Assignment
	if a.Bytes > a.Budget || len(a.Arm) != 240 {
		t.Errorf("%d bytes within %d, %d matrices", a.Bytes, a.Budget, len(a.Arm))
	}

	path := filepath.Join(filepath.Dir(st.Meta.Path), "mine.yaml")
	write := func() { d.Press("w").Sees("Write the answer as a recipe").Press("ctrl+u").Type(path).Press("enter") }
	write()
	d.Says("wrote the recipe " + path)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := recipe.ParseFile(data, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	var matrices []topology.Matrix
	for i := range st.Tensors {
		matrices = append(matrices, topology.Matrix{Name: st.Tensors[i].Name, Tensor: st.Tensors[i].Source, Role: st.Tensors[i].Role})
	}
	r, err := f.Resolve(matrices)
	if err != nil {
		t.Fatal(err)
	}
	for i, k := range r.Group {
		want := pane.Answer().Arms[a.Arm[i]]
		got := sessions.SourceArm
		if k >= 0 {
			got = f.Groups[k].Variant()
		}
		if got != want {
			t.Fatalf("%s: the recipe says %s, the answer %s", st.Tensors[i].Name, got, want)
		}
	}
	if f.Source != "abc123" {
		t.Errorf("the recipe is for %q", f.Source)
	}

	write()
	d.Sees("Overwrite?", "is there already").Press("esc")
	if again, _ := os.ReadFile(path); !slices.Equal(again, data) {
		t.Error("the file was written over")
	}
	d.Press("w", "ctrl+u").Type(filepath.Join(path, "no", "folder.yaml")).Press("enter").Sees("Write the answer as a recipe", "✗").Press("esc")
}

// Rows of the lists are tensors: arrows move the cursor that all screens share,
// and enter opens it.
func TestScenarioLandscapeRows(t *testing.T) {
	d := drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), fixed(), 80, 24)
	d.Press("3").Says("").Sees("lowest cosine", "more").Misses("in the tail")
	d.Press("down", "down").Says("").Sees("in the tail").Misses("lowest cosine").Press("up", "up").Sees("lowest cosine")
	d.Press("o").Sees("layers").Press("down", "down")
	at := d.m.scene.Cursor
	if l := d.m.scene.State.Tensors[at].Role.Layer; l != 3 {
		t.Errorf("the cursor is in layer %d, want 3", l)
	}
	d.Press("enter").On(ScreenTensor).Press("esc").On(ScreenLandscape)
	d.Press("c").Says("one kind of matrices")
	d.Press("1").On(ScreenMap)
	if d.m.scene.Cursor != at {
		t.Error("the map has another cursor")
	}
}

// The mouse drags the slider and clicks rows; only a row is opened by a double
// click.
func TestScenarioLandscapeMouse(t *testing.T) {
	st := storedState()
	d := drive(t, newFakeFeed(sessions.Saved, st, st), fixed(), 120, 40)
	d.Press("3")
	pane := d.m.landPane()
	before, _ := pane.Budget()
	d.ClickOn("●───")
	at, _ := pane.Budget()
	d.ClickOn("●───").On(ScreenLandscape)
	x, y := 0, 0
	for i, line := range strings.Split(d.Screen(), "\n") {
		if j := strings.Index(line, "●───"); j >= 0 && strings.Contains(line, "━") {
			x, y = views.Width(line[:j]), i
		}
	}
	d.Send(tea.MouseMsg{X: x + 20, Y: y, Action: tea.MouseActionMotion, Button: tea.MouseButtonLeft}).WaitIdle()
	if b, _ := pane.Budget(); b <= at || !pane.Answered() {
		t.Errorf("budget %d, then %d, and %d after dragging to the right", before, at, b)
	}
	d.ClickOn("L4 ")
	if l := d.m.scene.State.Tensors[d.m.scene.Cursor].Role.Layer; l != 4 {
		t.Errorf("the cursor is in layer %d, want 4", l)
	}
	d.ClickOn("L4 ").On(ScreenTensor)
}

// A run is analysed as it goes, not more often than once a second, and once more
// when it is over.
func TestScenarioLandscapeOfRun(t *testing.T) {
	run := newFakeRun(demoState())
	d := drive(t, run, fixed(), 120, 40)
	d.Press("3").Sees("0 of 240 measured")
	run.measure(100)
	d.WaitIdle().Sees("0 of 240 measured")
	d.now = d.now.Add(landscapeEvery)
	run.measure(1)
	d.WaitIdle().Sees("101 of 240 measured")
	run.measure(30)
	d.WaitIdle().Sees("101 of 240 measured")
	run.measure(1000)
	d.WaitIdle().Sees("240 of 240 measured", "+mse").Misses("computing")
}

// While the slider runs only the budget where it stands when an answer comes is
// solved next, and the old answer stays until then.
func TestSliderAsksForTheLatest(t *testing.T) {
	st := storedState()
	d := drive(t, newFakeFeed(sessions.Saved, st, st), fixed(), 120, 40)
	d.Press("3")
	pane := d.m.landPane()
	old := pane.Answer()
	for range 30 {
		d.Send(keyOf(">"))
	}
	if pane.Answer() != old || pane.Answered() {
		t.Fatal("the answer changed before anything was solved")
	}
	d.Sees("solving")
	answers := 0
	for len(d.todo) > 0 {
		cmd := d.todo[0]
		d.todo = d.todo[1:]
		switch msg := cmd().(type) {
		case tea.BatchMsg:
			d.todo = append(d.todo, msg...)
		case nil:
		default:
			if _, ok := msg.(landSolvedMsg); ok {
				answers++
			}
			d.receive(msg)
		}
	}
	if answers != 2 || !pane.Answered() {
		t.Errorf("%d budgets were solved for 30 steps, answered %v; want 2, the first and the last", answers, pane.Answered())
	}
}

// What was computed for a source that is not open any more is dropped, and a
// replay that goes back is analysed anew.
func TestLandscapeAnswersBySource(t *testing.T) {
	play := newFakePlay(demoState())
	d := drive(t, play, fixed(), 120, 40)
	play.SeekTo(play.pos.EndUS)
	d.WaitIdle()
	d.now = d.now.Add(time.Hour)
	d.Press("3").Sees("240 of 240 measured")
	before := d.m.landPane().Stamp()
	play.SeekTo(play.pos.EndUS / 6)
	d.WaitIdle()
	if d.m.landPane().Stamp() == before {
		t.Error("going back does not change what is to be analysed")
	}
	d.now = d.now.Add(time.Hour)
	d.Press("o").Sees("120 of 240 measured")

	late := landReportMsg{landAnswer: landAnswer{src: &source{}, gen: d.m.land.gen}, variant: 0}
	frame := d.Screen()
	d.Send(late)
	if d.Screen() != frame {
		t.Error("an answer of another source was taken")
	}
}

// A session of nothing has no budget and says why.
func TestLandscapeWithoutBudget(t *testing.T) {
	st := viewstest.Empty(viewstest.Experts(0, 2, 0, 2), "nvfp4")
	d := drive(t, newFakeFeed(sessions.Saved, st, st), fixed(), 120, 40)
	d.Press("3").Sees("none of 12 tensors measured", "there is one size only")
	d.Press("w").Says("there is one size only").Press(">").Says("there is one size only")
	empty := drive(t, sessions.NewStatic(&sessions.State{}), fixed(), 80, 24)
	empty.Press("3").Sees("there is no landscape").Press("o", "o", "s", "down", "w", "c")
}

// BenchmarkLandscapeLive is a frame of the Landscape screen while a run over
// 37,152 tensors × 4 variants goes on: figures are copied once a second; what is
// analysed outside the loop is not counted.
func BenchmarkLandscapeLive(b *testing.B) {
	whole := viewstest.Big(43, 288, "nvfp4", "nvfp4+mse", "nvfp4+mse_ge1", "nvfp4+sweep")
	start := whole.Clone()
	start.Progress.State = sessions.RunRunning
	var records []sessions.Record
	for v := range start.Records {
		for t := 20_000; t < len(start.Records[v]); t++ {
			records = append(records, start.Records[v][t])
			start.Records[v][t] = sessions.Record{}
		}
	}
	o := fixed()
	profile := termenv.TrueColor
	o.Profile = &profile
	now := time.Unix(1_764_435_720, 0)
	o.Now = func() time.Time { return now }
	m := New(newFakeFeed(sessions.Live, whole, start), o)
	defer m.end()
	var took []time.Duration
	step := func(msg tea.Msg) []tea.Cmd {
		begun := time.Now()
		_, cmd := m.Update(msg)
		frameBytes = len(m.View())
		took = append(took, time.Since(begun))
		return []tea.Cmd{cmd}
	}
	update := func(msg tea.Msg) {
		for todo := step(msg); len(todo) > 0; {
			cmd := todo[0]
			todo = todo[1:]
			if cmd == nil {
				continue
			}
			switch msg := cmd().(type) {
			case nil:
			case tea.BatchMsg:
				todo = append(todo, msg...)
			default:
				todo = append(todo, step(msg)...)
			}
		}
	}
	update(tea.WindowSizeMsg{Width: 200, Height: 60})
	update(keyOf("3"))
	took = nil
	at := 0
	for b.Loop() {
		now = now.Add(frame)
		next := make([]sessions.Record, 0, 1000)
		for range 1000 {
			r := records[at%len(records)]
			r.Seq += int64(at) + 1_000_000
			next = append(next, r)
			at++
		}
		update(batchMsg{src: m.src, batch: sessions.Batch{Records: next, Progress: start.Progress, LastSeq: next[len(next)-1].Seq}})
	}
	report(b, took)
}
