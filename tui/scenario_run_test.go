package tui

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/sessions"
	"quantscope/views"
)

// Pause, resume and cancel reach the engine in order, and what the engine says
// is what shows.
func TestScenarioPauseCancel(t *testing.T) {
	run := newFakeRun(demoState())
	d := drive(t, run, fixed(), 120, 40)
	run.measure(10)
	d.WaitIdle()
	d.Press(" ").Sees("‖ paused", "space go on")
	d.Press(" ").Sees("▶ nvfp4")
	d.Press("X").Sees("Cancel the run?").Press("esc").Sees("▶ nvfp4")
	d.Press("X", "enter").Sees("■ cancelled")
	d.Press("X").Says("the run is over")
	d.Press(" ").Says("the run is over: r replays it")
	if got, want := strings.Join(run.calls, " "), "pause resume cancel"; got != want {
		t.Errorf("calls %q, want %q", got, want)
	}
}

// Keys pressed faster than the engine answers are not lost or reordered.
func TestOrdersKeepTheirOrder(t *testing.T) {
	run := newFakeRun(demoState())
	d := drive(t, run, fixed(), 120, 40)
	for range 3 {
		d.Send(keyOf(" "))
		// News from before the key must not make the next one mean the same again.
		d.Send(batchMsg{src: d.m.src, batch: sessions.Batch{Progress: sessions.Progress{State: sessions.RunRunning}}})
	}
	slices.Reverse(d.todo) // commands run at the same time: any of them may come first
	d.WaitIdle()
	if got, want := strings.Join(run.calls, " "), "pause resume pause"; got != want {
		t.Errorf("calls %q, want %q", got, want)
	}
}

// A finished run is replayed from within and left again; the replay obeys its
// keys and the mouse.
func TestScenarioReplay(t *testing.T) {
	whole := demoState()
	run := newFakeRun(whole)
	o := fixed()
	var play *fakePlay
	o.OpenReplay = func(path string) (sessions.Player, error) {
		if path != whole.Meta.Path {
			return nil, fmt.Errorf("%s is not there", path)
		}
		play = newFakePlay(whole)
		return play, nil
	}
	d := drive(t, run, o, 120, 40)
	d.Press("r").Says("the run is still going")
	d.Press("]").Says("this key works in a replay")
	run.measure(1000)
	d.WaitIdle().Press("r").Sees("» replay", "¼×  00:00.00/00:01.44")
	if d.m.src.player == nil || d.m.home == nil {
		t.Fatal("no replay is open")
	}
	if n := measuredIn(d.m.scene.State); n != 0 {
		t.Errorf("the replay begins with %d records", n)
	}
	d.Press("end")
	if n := measuredIn(d.m.scene.State); n != 720 {
		t.Errorf("%d records at the end, want 720", n)
	}
	d.Press("home")
	if n := measuredIn(d.m.scene.State); n != 0 {
		t.Errorf("%d records at the beginning, want 0", n)
	}
	d.Press(".", ".", ".", ",")
	if n := measuredIn(d.m.scene.State); n != 2 || play.pos.Playing {
		t.Errorf("%d records after three steps on and one back, playing %v", n, play.pos.Playing)
	}
	d.Press(" ")
	if !play.pos.Playing {
		t.Error("space does not play")
	}
	was := play.pos.Speed
	d.Press("]", "]", "[")
	if play.pos.Speed != was*2 {
		t.Errorf("speed %v, want %v", play.pos.Speed, was*2)
	}
	for range 20 {
		d.Press("]")
	}
	if play.pos.Speed != 64 {
		t.Errorf("speed %v, want 64 at most", play.pos.Speed)
	}
	_, bar := d.m.headerLine(120)
	d.Click(bar.X+bar.W/2, 0)
	if n := measuredIn(d.m.scene.State); n < 300 || n > 420 {
		t.Errorf("%d records after a click on the middle of the bar", n)
	}
	seeks := play.seeks
	for x := range bar.W { // the bar is dragged
		d.Send(tea.MouseMsg{X: bar.X + x, Action: tea.MouseActionMotion, Button: tea.MouseButtonLeft})
	}
	d.WaitIdle()
	if n := play.seeks - seeks; n > 2 || play.pos.AtUS != play.pos.EndUS {
		t.Errorf("%d seeks for one drag, which ended at %d of %d", n, play.pos.AtUS, play.pos.EndUS)
	}
	d.Press("v", "end", "enter").Says("this is a replay").Press("esc")
	d.Press("esc").Sees("● live", "✓ finished")
	if n := measuredIn(d.m.scene.State); n != 720 {
		t.Errorf("%d records after the return, want 720", n)
	}
	if !play.closed {
		t.Error("the replay was not closed")
	}
	d.Press("r", "r").Sees("● live")
}

// A replay that was opened from outside leads to the saved session.
func TestScenarioReplayReopens(t *testing.T) {
	whole := demoState()
	play := newFakePlay(whole)
	o := fixed()
	saved := newFakeFeed(sessions.Saved, whole, whole)
	o.Reopen = func(string) (sessions.Feed, error) { return saved, nil }
	d := drive(t, play, o, 120, 40)
	d.Sees("» replay").Press("r").Sees("○ saved", "✓ finished")
	if play.closed {
		t.Error("a feed that is the caller's was closed")
	}
	d.m.end()
	if !saved.closed {
		t.Error("the feed that was opened from within stays open")
	}
}

// What cannot be opened says why and changes nothing.
func TestScenarioReplayFails(t *testing.T) {
	o := fixed()
	o.OpenReplay = func(path string) (sessions.Player, error) {
		return nil, errors.New("sessions: " + path + ": disk gone")
	}
	d := drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), o, 120, 40)
	d.Press("r").Says("disk gone").Sees("○ saved")
	o.OpenReplay = nil
	d = drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), o, 120, 40)
	d.Press("r").Says("sessions cannot be opened from here")
}

// Export proposes a file beside the session, follows the kind until the name is
// edited, asks before it overwrites, and reports.
func TestScenarioExport(t *testing.T) {
	type call struct {
		kind, session, path string
		overwrite           bool
	}
	var calls []call
	o := fixed()
	there := map[string]bool{"/tmp/demo-1129-1702.csv": true}
	o.Export = func(_ context.Context, kind, session, path string, overwrite bool) error {
		calls = append(calls, call{kind, session, path, overwrite})
		if there[path] && !overwrite {
			return fmt.Errorf("%s: %w", path, fs.ErrExist)
		}
		if strings.HasPrefix(path, "/full") {
			return errors.New(path + ": no space left on device")
		}
		return nil
	}
	d := drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), o, 120, 40)
	d.Press("e").Sees("Export the records", "/tmp/demo-1129-1702.jsonl")
	d.Press("down", "down").Sees("/tmp/demo-1129-1702.parquet").Press("up").Sees("/tmp/demo-1129-1702.csv")
	d.Press("enter").Sees("Overwrite?").Misses("exporting").Press("esc")
	if len(calls) != 1 || calls[0] != (call{"CSV", "/tmp/demo-1129-1702.qscope", "/tmp/demo-1129-1702.csv", false}) {
		t.Errorf("calls %v", calls)
	}
	d.Press("e", "down", "enter", "enter").Says("exported CSV to /tmp/demo-1129-1702.csv")
	if !calls[len(calls)-1].overwrite {
		t.Errorf("last call %v, want one that overwrites", calls[len(calls)-1])
	}
	d.Press("e", "ctrl+u").Type("/full/x.jsonl").Press("down", "enter").Sees("✗ /full/x.jsonl: no space left")
	if d.m.exporting != 0 || d.m.note.text != "" {
		t.Errorf("%d exports under way, message %q", d.m.exporting, d.m.note.text)
	}
	d.Press("backspace").Misses("no space left").Press("ctrl+u", "enter").Says("a file name is needed")
}

// Quitting a run asks; leaving by ctrl+c does not, and tells the caller.
func TestScenarioQuit(t *testing.T) {
	d := drive(t, newFakeRun(demoState()), fixed(), 120, 40)
	d.Press("q").Sees("Quit while the run is going?", "--session /tmp/demo-1129-1702.qscope").Press("esc")
	if d.quit {
		t.Fatal("esc quits")
	}
	again := drive(t, newFakeRun(demoState()), fixed(), 120, 40)
	if again.Press("q", "q"); !again.quit {
		t.Error("a second q does not quit")
	}
	d.Press("q", "enter")
	if !d.quit {
		t.Error("enter does not quit")
	}
	if err := d.m.verdict(context.Background(), nil); err != nil {
		t.Errorf("Run would return %v", err)
	}
	d = drive(t, newFakeRun(demoState()), fixed(), 120, 40)
	d.Press(":", "ctrl+c")
	if err := d.m.verdict(context.Background(), nil); !d.quit || !errors.Is(err, ErrInterrupted) {
		t.Errorf("quit %v, Run would return %v", d.quit, err)
	}
	d = drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), fixed(), 120, 40)
	d.Press("ctrl+c")
	if err := d.m.verdict(context.Background(), nil); err != nil {
		t.Errorf("Run would return %v though nothing ran", err)
	}
}

// A run that stopped on the environment shows it, counts problems, and Run
// returns the reason.
func TestScenarioStopped(t *testing.T) {
	run := newFakeRun(demoState())
	d := drive(t, run, fixed(), 120, 40)
	run.give(sessions.Batch{Progress: run.state, Events: []sessions.Event{{Seq: 900, Kind: sessions.EventFinding, Variant: -1, Tensor: 3, Message: "layers.1 has a row of zeros"}}})
	run.become(sessions.RunStopped, sessions.EventStopped, "layers.3.mlp.experts.7.up_proj: disk full")
	d.WaitIdle().Sees("✗ stopped").Says("2 problems").Says("disk full")
	var stop *StoppedError
	if err := d.m.verdict(context.Background(), nil); !errors.As(err, &stop) || !strings.Contains(stop.Message, "disk full") {
		t.Errorf("Run would return %v", err)
	}
}

// A panic in a command ends the program with an error, not with a stack.
func TestPanicsEndTheProgram(t *testing.T) {
	o := fixed()
	o.OpenReplay = func(string) (sessions.Player, error) { panic("no such page") }
	d := drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), o, 120, 40)
	d.Send(keyOf("r"))
	for len(d.todo) > 0 {
		cmd := d.todo[0]
		d.todo = d.todo[1:]
		d.receive(cmd())
	}
	if err := d.m.verdict(context.Background(), nil); err == nil || err.Error() != "replay: internal error: no such page" {
		t.Errorf("Run would return %v", err)
	}
	if !d.quit {
		t.Error("the program goes on")
	}
	for _, where := range []string{"Update", "View"} {
		d := drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), fixed(), 120, 40)
		d.m.panes[PaneMap] = brokenPane{d.m.panes[PaneMap], where}
		d.Send(keyOf("j"))
		if where == "View" {
			select {
			case err := <-d.m.crash:
				d.m.err = err
			default:
			}
		}
		if err := d.m.err; err == nil || !strings.Contains(err.Error(), "internal error: broken") {
			t.Errorf("panic in %s: error %v", where, err)
		}
	}
}

// brokenPane panics where it is told to.
type brokenPane struct {
	views.Pane
	where string
}

func (p brokenPane) HandleKey(tea.KeyMsg) (bool, tea.Cmd) {
	if p.where == "Update" {
		panic("broken")
	}
	return true, nil
}

func (p brokenPane) View() string {
	if p.where == "View" {
		panic("broken")
	}
	return ""
}

// measuredIn counts the records of a state.
func measuredIn(st *sessions.State) int {
	n := 0
	for v := range st.Records {
		for i := range st.Records[v] {
			if st.Records[v][i].Seq != 0 {
				n++
			}
		}
	}
	return n
}

// What is shown of a run may be ahead of its file, so what reads the file waits
// for it once the run is over, and does not while it goes on.
func TestFileIsWaitedFor(t *testing.T) {
	run := &waitedRun{fakeRun: newFakeRun(demoState())}
	o := fixed()
	var seen []int
	o.Export = func(context.Context, string, string, string, bool) error { seen = append(seen, run.waited); return nil }
	o.OpenReplay = func(string) (sessions.Player, error) {
		seen = append(seen, run.waited)
		return newFakePlay(demoState()), nil
	}
	d := drive(t, run, o, 120, 40)
	d.Press("e", "enter")
	run.measure(1000)
	d.WaitIdle().Press("e", "enter", "r")
	if want := []int{0, 1, 2}; !slices.Equal(seen, want) {
		t.Errorf("the file was waited for %v times before each use, want %v", seen, want)
	}
}

// waitedRun counts how often its file was waited for.
type waitedRun struct {
	*fakeRun
	waited int
}

func (r *waitedRun) Wait(context.Context) (sessions.Progress, error) {
	r.waited++
	return r.state, nil
}
