package tui

import (
	"fmt"
	"strings"
	"testing"

	"quantscope/sessions"
	"quantscope/views/viewstest"
)

// calibratedState is a finished session with a calibrated variant, in a file.
func calibratedState() *sessions.State {
	st := viewstest.Calibrated()
	st.Meta.Path = "/tmp/demo-1129-1702.qscope"
	return st
}

// The figures of calibration on the map, at the sizes that the design names.
func TestScreensOfCalibration(t *testing.T) {
	for _, size := range []struct{ w, h int }{{80, 24}, {120, 40}, {200, 60}} {
		for _, metric := range []string{"tokens", "out_ratio"} {
			name := fmt.Sprintf("calib-%s-%dx%d", metric, size.w, size.h)
			t.Run(name, func(t *testing.T) {
				st := calibratedState()
				d := drive(t, newFakeFeed(sessions.Saved, st, st), fixed(), size.w, size.h)
				d.Press("V", ":").Type("metric " + metric).Press("enter")
				d.m.scene.SetCursor(17) // a down projection of few tokens
				d.Press("left", "right")
				fits(t, d.m.View(), size.w, size.h)
				golden(t, name, d.m.View())
			})
		}
	}
}

// The status line of a calibration: where it is, at what rate, what was read back.
func TestStatusOfCalibration(t *testing.T) {
	st := calibratedState()
	setup, units := viewstest.Calibration(st, 1)
	st.Calibrations = []*sessions.Calibration{{Setup: setup}}
	start := st.Clone()
	clear(start.Records[1])
	start.Progress = sessions.Progress{State: sessions.RunRunning, Variant: 1, Done: 240, Total: 720, ETASeconds: 14,
		Calibrating: sessions.Calibrating{Variant: 1, Unit: "layer 3", Step: "quantizing", Done: 2, Units: 5, At: 31, Of: 48, TokensPerSec: 12_345}}
	run := &fakeRun{fakeFeed: newFakeFeed(sessions.Live, st, start), state: start.Progress}
	d := drive(t, run, fixed(), 120, 40)
	first := func() string { line, _, _ := strings.Cut(d.m.View(), "\n"); return strings.TrimSpace(line) }
	for _, c := range []struct {
		name  string
		batch sessions.Batch
		ends  string
	}{
		{"running", sessions.Batch{Progress: start.Progress}, "▶ int4-g128+gptq  layer 3 (3/5) · quantizing 31/48  12.3 k tok/s  ETA 0:14"},
		{"resumed", sessions.Batch{
			CalibsDone: []sessions.CalibDone{{Unit: again(units[0])}, {Unit: again(units[1])}},
			Progress:   sessions.Progress{State: sessions.RunRunning, Variant: 1, Calibrating: sessions.Calibrating{Variant: 1, Unit: "layer 3", Step: "looking", Done: 2, Units: 5, At: 1024, Of: 98_304}},
		}, "▶ int4-g128+gptq  layer 3 (3/5) · looking  1,024/98,304  2 read back"},
		{"paused", sessions.Batch{
			Progress: sessions.Progress{State: sessions.RunPaused, Variant: 1, Done: 3, Total: 720, Calibrating: sessions.Calibrating{Variant: 1, Unit: "layer 4", Done: 3, Units: 5}},
		}, "‖ paused  layer 4 (4/5)  2 read back  3/720"},
		{"cancelled", sessions.Batch{
			CalibsEnded: []sessions.CalibEnded{{End: &sessions.CalibrateEnd{State: sessions.RunCancelled}}},
			Progress:    sessions.Progress{State: sessions.RunCancelled, Done: 336, Total: 720},
		}, "■ cancelled  336/720"},
	} {
		run.give(c.batch)
		d.WaitIdle()
		if line := first(); !strings.HasSuffix(line, c.ends) {
			t.Errorf("%s: %q does not end with %q", c.name, line, c.ends)
		}
	}
	run.give(sessions.Batch{Progress: start.Progress})
	d.WaitIdle()
	for _, c := range []struct {
		w    int
		ends string
	}{
		{100, "▶ int4-g128+gptq  layer 3 (3/5) · quantizing 31/48  ETA 0:14"},
		{80, "▶ int4-g128+gptq  layer 3 (3/5) · quantizing 31/48  ETA 0:14"},
		{79, "▶ int4-g128+gptq  layer 3 (3/5) · quantizing 64 %  ETA 0:14"},
		{60, "▶ int4-g128+gptq  layer 3 (3/5)"}, // nothing is cut within a word
	} {
		d.Resize(c.w, 24)
		if line := first(); !strings.HasSuffix(line, c.ends) {
			t.Errorf("in %d columns %q does not end with %q", c.w, line, c.ends)
		}
	}
	d.Resize(50, 10)
	if text := strings.Join(strings.Fields(d.m.View()), " "); !strings.HasSuffix(text, "running 240/720, int4-g128+gptq layer 3 (3/5) · quantizing 31/48") {
		t.Errorf("a small screen says %q", text)
	}
}

// Who quits or cancels is told what is lost: a layer that is being quantized, none
// while the text goes through one that was.
func TestQuestionsOfCalibration(t *testing.T) {
	for step, want := range map[string]string{
		"quantizing": "What is done of layer 3 is dropped", "passing": "layers that were quantized are kept",
	} {
		st := calibratedState()
		st.Calibrations[0].End = nil
		st.Progress = sessions.Progress{State: sessions.RunRunning, Variant: 1, Done: 240, Total: 720,
			Calibrating: sessions.Calibrating{Variant: 1, Unit: "layer 3", Step: step, Done: 2, Units: 5, At: 31, Of: 48}}
		run := &fakeRun{fakeFeed: newFakeFeed(sessions.Live, st, st), state: st.Progress}
		for _, key := range []string{"q", "X"} {
			d := drive(t, run, fixed(), 120, 40)
			if text := d.Press(key).m.View(); !strings.Contains(text, want) {
				t.Errorf("%s while %s: no %q in\n%s", key, step, want, text)
			}
		}
	}
}

// again is a unit that was read back.
func again(u sessions.CalibUnit) sessions.CalibUnit {
	u.Again = true
	return u
}

// m passes over figures of calibration where no variant is calibrated, and the
// picker says why.
func TestMetricsWithoutCalibration(t *testing.T) {
	for _, c := range []struct {
		name  string
		state *sessions.State
		all   bool
	}{{"plain", demoState(), false}, {"calibrated", calibratedState(), true}} {
		d := drive(t, newFakeFeed(sessions.Saved, c.state, c.state), fixed(), 120, 40)
		seen := map[string]bool{}
		for range 20 {
			d.Press("m")
			seen[d.m.scene.Metric.Name] = true
		}
		if seen["tokens"] != c.all || seen["damping"] != c.all || !seen["rel_l2"] {
			t.Errorf("%s: m shows %v", c.name, seen)
		}
		d.Press("M").Press("end", "enter")
		if said := strings.Contains(d.m.View(), "no variant of the session is calibrated"); said == c.all {
			t.Errorf("%s: the picker says that none is: %v", c.name, said)
		}
	}
}

// A variant that is not calibrated says so instead of an empty map.
func TestMapOfAVariantThatIsNotCalibrated(t *testing.T) {
	st := calibratedState()
	d := drive(t, newFakeFeed(sessions.Saved, st, st), fixed(), 120, 40)
	d.Press(":").Type("metric damping").Press("enter")
	if text := d.m.View(); !strings.Contains(text, "int4-g128 is not calibrated: it has no damping") {
		t.Error(text)
	}
}
