package tui

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/sessions"
	"quantscope/views"
)

// A whole visit by keys: the map fills, each screen and dialog is opened and
// left, and the program ends.
func TestScenarioVisit(t *testing.T) {
	run := newFakeRun(demoState())
	d := drive(t, run, fixed(), 120, 40)
	d.Sees("quantscope", "demo", "▶", "0/720", "● live", "demo-1129-1702.qscope", "nvfp4+mse_ge1")

	run.measure(148)
	d.WaitIdle().Sees("▶ nvfp4", "148/720", "1.21 GB/s", "ETA 0:07")
	run.measure(1000)
	d.WaitIdle().Sees("✓ finished", "720/720").Misses("ETA")

	d.Press("2").On(ScreenClipping)
	d.Press("3").On(ScreenClipping).Says("Landscape: this version does not")
	d.Press("4").On(ScreenCompare)
	d.Press("5").Says("KL: this version does not measure KL divergence yet")
	d.Press("6").Says("Gates: ")
	d.Press("7").Says("Audit: ")
	d.Press("8").On(ScreenLog).Sees("all measured")
	d.Press("1").On(ScreenMap)

	d.Press("enter").On(ScreenTensor)
	d.Press("enter").On(ScreenTensor)
	d.Press("esc").On(ScreenMap)
	d.Press("esc").Says("this is the top: q quits")

	d.Press("?").Sees("Help", "esc close", "Map pane")
	d.Press("pgdown", "pgdown", "esc")
	d.Press(":").Sees("Commands", "›").Type("log scr").Press("enter").On(ScreenLog)
	d.Press("1", "v").Sees("Variants", "240/240 measured", "[ ] nvfp4+sweep").Press("esc").Misses("[ ]")
	d.Press("M").Sees("Metric", "rel_l2", "sqnr").Press("esc")
	d.Press("B").Sees("Compare with").Press("down", "down", "enter")
	if d.m.scene.Baseline != 2 {
		t.Errorf("baseline %d, want 2", d.m.scene.Baseline)
	}
	d.Press("q")
	if !d.quit {
		t.Error("q did not quit a finished run")
	}
	if err := d.m.verdict(context.Background(), nil); err != nil {
		t.Errorf("Run would return %v", err)
	}
}

// Focus goes round the panes of the screen, and on a narrow screen it says
// which one is shown.
func TestScenarioFocus(t *testing.T) {
	d := drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), fixed(), 80, 24)
	for _, want := range []PaneID{PaneDetail, PaneWorst, PaneMap} {
		d.Press("tab")
		if d.m.focus != want {
			t.Fatalf("focus on %s, want %s", paneNames[d.m.focus], paneNames[want])
		}
		if want != PaneMap && len(d.m.layout.Panes) != 1 {
			t.Errorf("%s is not alone on a narrow screen", paneNames[want])
		}
	}
	d.Press("shift+tab")
	if d.m.focus != PaneWorst {
		t.Errorf("focus on %s, want Worst", paneNames[d.m.focus])
	}
	d.Press("4", "tab").Says("this screen has one pane")
}

// The cursor's tensor brings its whole record with it; while the cursor runs,
// only the last one counts.
func TestScenarioDetail(t *testing.T) {
	feed := newFakeFeed(sessions.Saved, demoState(), demoState())
	d := drive(t, feed, fixed(), 120, 40)
	if det := d.m.scene.Detail; det == nil || det.Tensor != 0 || det.Taps[2] == nil {
		t.Fatalf("detail %+v, want tensor 0 with three taps", det)
	}
	before := feed.details
	for range 40 { // keys come faster than answers
		d.Send(keyOf("right"))
	}
	d.WaitIdle()
	at := d.m.scene.Cursor
	if det := d.m.scene.Detail; at == 0 || det == nil || det.Tensor != at {
		t.Fatalf("cursor on %d, detail %+v", at, det)
	}
	if n := feed.details - before; n > 3*3 {
		t.Errorf("%d tap records were read for 40 keys, want those of at most 3 tensors", n)
	}
	if feed.rows != 0 {
		t.Errorf("rows were read %d times without the tensor screen", feed.rows)
	}
	d.Press("enter")
	if det := d.m.scene.Detail; len(det.Rows) != 3 || len(det.Rows[2]) != 128 {
		t.Errorf("the tensor screen has no rows: %+v", det)
	}
}

// A checkpoint that is gone leaves a reason instead of rows, and is not asked
// again.
func TestScenarioRowsGone(t *testing.T) {
	feed := newFakeFeed(sessions.Saved, demoState(), demoState())
	feed.rowErr = errors.New("checkpoint: /data/glm is not there any more")
	d := drive(t, feed, fixed(), 120, 40)
	d.Press("enter")
	if det := d.m.scene.Detail; det.RowErr != feed.rowErr.Error() {
		t.Errorf("reason %q", det.RowErr)
	}
	if feed.rows != 1 {
		t.Errorf("asked %d times", feed.rows)
	}
}

// A record that arrives under the cursor refreshes the detail.
func TestScenarioDetailFollowsRun(t *testing.T) {
	run := newFakeRun(demoState())
	d := drive(t, run, fixed(), 120, 40)
	if det := d.m.scene.Detail; det == nil || det.Taps[0] != nil {
		t.Fatalf("detail %+v, want one without taps", det)
	}
	run.measure(1)
	d.WaitIdle()
	if d.m.scene.Detail.Taps[0] == nil || d.m.scene.Detail.Taps[1] != nil {
		t.Errorf("taps %v after the first measurement", d.m.scene.Detail.Taps)
	}
	run.measure(240)
	d.WaitIdle()
	if d.m.scene.Detail.Taps[1] == nil {
		t.Error("the second variant's tap did not follow")
	}
}

// The filter shows what matches while it is typed, names what is wrong with a
// pattern, and esc brings back what was there.
func TestScenarioFilter(t *testing.T) {
	d := drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), fixed(), 120, 40)
	d.Press("/").Says("240 of 240 tensors").Type("layers.3.*up").Says("16 of 240 tensors")
	d.Press("enter").Says("16 tensors match layers.3.*up")
	d.Press("2").Says("filter layers.3.*up: 16 of 240")
	d.Press("1", "/").Type("(").Says("missing closing )")
	d.Press("enter").Says("missing closing )") // it stays until it is mended
	d.Press("esc")
	if f := d.m.scene.Filter; f.Text != "layers.3.*up" || f.Count != 16 {
		t.Errorf("filter %q of %d after esc", f.Text, f.Count)
	}
	d.Press("esc").Says("the filter is cleared")
	if f := d.m.scene.Filter; f.Text != "" || f.Count != 240 {
		t.Errorf("filter %q of %d after it was cleared", f.Text, f.Count)
	}
	d.Press("/").Send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("q\nq"), Paste: true}).WaitIdle().Says("0 of 240")
	if d.quit || d.m.editing.line.text != "qq" {
		t.Errorf("a pasted text became %q, quit %v", d.m.editing.line.text, d.quit)
	}
}

// An answer to an older text must not replace that of a newer one.
func TestFilterAnswersByGeneration(t *testing.T) {
	d := drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), fixed(), 120, 40)
	d.Press("/")
	d.Send(keyOf("7"))
	slow := d.todo
	d.todo = nil
	d.Press("backspace", "9")
	d.todo = slow
	d.WaitIdle()
	if got := d.m.scene.Filter.Text; got != "9" {
		t.Errorf("filter %q, want 9", got)
	}
}

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
	}
	d.WaitIdle()
	if got, want := strings.Join(run.calls, " "), "pause resume pause"; got != want {
		t.Errorf("calls %q, want %q", got, want)
	}
}

// Variants: enter shows, space marks, enter adds the marked ones to a live run;
// elsewhere the picker says why it cannot.
func TestScenarioVariants(t *testing.T) {
	run := newFakeRun(demoState())
	d := drive(t, run, fixed(), 120, 40)
	d.Press("v", "down", "enter")
	if d.m.scene.Variant != 1 {
		t.Errorf("variant %d, want 1", d.m.scene.Variant)
	}
	d.Press("v", "end", " ", "up", " ").Sees("[x] nvfp4+sweep", "[x] nvfp4+4over6").Press("enter")
	if got := strings.Join(run.added, " "); got != "nvfp4+sweep nvfp4+4over6" {
		t.Errorf("added %q", got)
	}
	if n := len(d.m.scene.State.Variants); n != 5 {
		t.Errorf("%d variants, want 5", n)
	}
	d.Press("V", "V", "V")
	if d.m.scene.Variant != 4 {
		t.Errorf("variant %d after three more, want 4", d.m.scene.Variant)
	}
	run.err = errors.New("method nvfp4+foo is not known")
	d.m.o.Known = append(d.m.o.Known, Known{"nvfp4+foo", ""})
	d.Press("v", "end", "enter").Says("add: method nvfp4+foo is not known")

	saved := drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), fixed(), 120, 40)
	saved.Press("v", "end", "enter").Says("this session is saved")
	saved.Press(" ").Says("this session is saved").Press("esc").Misses("[ ]")
}

// What the scene shows changes by key, and says so.
func TestScenarioLook(t *testing.T) {
	d := drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), fixed(), 120, 40)
	d.Press("m").Says("rel2: ")
	d.Press("M", "home", "enter").Says("rel_l2: ")
	d.Press("p").Says("projection gate").Press("p", "p").Says("projection down").Press("p").Says("all projections")
	d.Press("L").Says("one colour scale over all variants").Press("L").Says("follows what is shown")
	d.Press("b").Says("showing nvfp4, compared with nvfp4+mse").Press("b").Says("nvfp4+mse_ge1").Press("b").Says("compared with nvfp4+mse")
	first := d.m.scene.Theme.Name
	d.Press("t")
	if d.m.scene.Theme.Name == first || d.m.scene.Theme.Name != views.ThemeNames()[1] {
		t.Errorf("theme %q after %q", d.m.scene.Theme.Name, first)
	}
}

// g walks over the worst tensors, from the worst downwards, on every screen.
func TestScenarioWorst(t *testing.T) {
	st := demoState()
	d := drive(t, newFakeFeed(sessions.Saved, st, st), fixed(), 120, 40)
	for _, screen := range []string{"1", "2", "4"} {
		d.m.scene.SetCursor(0)
		d.Press(screen)
		last := 2.0
		for i := range 5 {
			d.Press("g")
			got := st.Records[0][d.m.scene.Cursor].RelL2
			if got > last {
				t.Errorf("screen %s, step %d: %v after %v", screen, i, got, last)
			}
			last = got
		}
		if last == 2 || last < 0.0955 {
			t.Errorf("screen %s: the fifth worst has %v", screen, last)
		}
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
	d.WaitIdle().Press("r").Sees("» replay", "00:00/00:01")
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
	d.Press("enter").Sees("Overwrite?").Press("esc")
	if len(calls) != 1 || calls[0] != (call{"CSV", "/tmp/demo-1129-1702.qscope", "/tmp/demo-1129-1702.csv", false}) {
		t.Errorf("calls %v", calls)
	}
	d.Press("e", "down", "enter", "enter").Says("exported CSV to /tmp/demo-1129-1702.csv")
	if !calls[len(calls)-1].overwrite {
		t.Errorf("last call %v, want one that overwrites", calls[len(calls)-1])
	}
	d.Press("e", "ctrl+u").Type("/full/x.jsonl").Press("down", "enter").Says("export: /full/x.jsonl: no space left")
	d.Press("e", "ctrl+u", "enter").Says("a file name is needed")
}

// Quitting a run asks; leaving by ctrl+c does not, and tells the caller.
func TestScenarioQuit(t *testing.T) {
	d := drive(t, newFakeRun(demoState()), fixed(), 120, 40)
	d.Press("q").Sees("Quit while the run is going?", "--session /tmp/demo-1129-1702.qscope").Press("esc")
	if d.quit {
		t.Fatal("esc quits")
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
