package tui

import (
	"context"
	"errors"
	"slices"
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
	d.Press("3").On(ScreenLandscape)
	d.Press("4").On(ScreenCompare)
	d.Press("5").On(ScreenKL).Sees("KL divergence says", "KL cannot be measured from here")
	d.Press("6").On(ScreenGates).Sees("Gates ask candidates", "gates cannot be run from here")
	d.Press("7").On(ScreenAudit)
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

// The answer for a tensor that the cursor has left is never shown.
func TestDetailAnswersByGeneration(t *testing.T) {
	d := drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), fixed(), 120, 40)
	d.Send(keyOf("right"))
	slow := d.todo
	d.todo = nil
	d.Send(keyOf("right"))
	for _, cmd := range slow {
		d.receive(cmd())
		if det := d.m.scene.Detail; det != nil && det.Tensor != d.m.scene.Cursor {
			t.Errorf("the detail is of tensor %d, the cursor on %d", det.Tensor, d.m.scene.Cursor)
		}
	}
	if len(slow) == 0 {
		t.Fatal("nothing was asked for")
	}
	d.WaitIdle()
	if det := d.m.scene.Detail; det == nil || det.Tensor != d.m.scene.Cursor {
		t.Errorf("detail %+v, cursor on %d", det, d.m.scene.Cursor)
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
	if name := d.m.scene.State.Tensors[d.m.scene.Cursor].Name; !strings.Contains(name, "layers.3.") {
		t.Errorf("the cursor stays on %s, which is hidden", name)
	}
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
	d.m.o.Known = append(d.m.o.Known, Known{Name: "nvfp4+foo"})
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
	d.Press("T")
	if d.m.scene.Theme.Name == first || d.m.scene.Theme.Name != views.ThemeNames()[1] {
		t.Errorf("theme %q after %q", d.m.scene.Theme.Name, first)
	}
}

// g walks over the worst tensors, from the worst downwards.
func TestScenarioWorst(t *testing.T) {
	st := demoState()
	byError := make([]float64, 0, len(st.Tensors))
	for i := range st.Records[0] {
		byError = append(byError, st.Records[0][i].RelL2)
	}
	slices.Sort(byError)
	slices.Reverse(byError)
	d := drive(t, newFakeFeed(sessions.Saved, st, st), fixed(), 120, 40)
	for _, screen := range []string{"1", "2"} {
		d.m.scene.SetCursor(0)
		d.Press(screen)
		for i := range 5 {
			d.Press("g")
			if got := st.Records[0][d.m.scene.Cursor].RelL2; got != byError[i] {
				t.Errorf("screen %s, step %d: %v, want %v", screen, i, got, byError[i])
			}
		}
		d.Press("G")
		if got := st.Records[0][d.m.scene.Cursor].RelL2; got != byError[3] {
			t.Errorf("screen %s, one back: %v, want %v", screen, got, byError[3])
		}
	}
}

// enter on an event opens its tensor, and esc leads back to the log.
func TestScenarioLogOpens(t *testing.T) {
	st := demoState()
	st.Log = append(st.Log, sessions.Event{Seq: st.LastSeq + 1, Kind: sessions.EventFinding, Variant: 1, Tensor: 77, Message: "layers.2 has a row of zeros"})
	d := drive(t, newFakeFeed(sessions.Saved, st, st), fixed(), 120, 40)
	d.Press("8", "enter").On(ScreenTensor)
	if d.m.scene.Cursor != 77 || d.m.scene.Variant != 1 || d.m.scene.Detail.Tensor != 77 {
		t.Errorf("cursor on %d, variant %d", d.m.scene.Cursor, d.m.scene.Variant)
	}
	d.Press("esc").On(ScreenLog).Press("up", "enter").On(ScreenLog).Says("the event is about no tensor")
}
