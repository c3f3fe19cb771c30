package tui

import (
	"context"
	"strings"
	"testing"

	"quantscope/analysis/yardstick"
	"quantscope/sessions"
)

// R on a measurement that was left goes on with that one, also where it is not the
// newest; the frame says how far that one is, whichever is shown, and below its
// least size too.
func TestKLGoesOnWithTheOneShown(t *testing.T) {
	st := measuredState()
	left := st.Yards[0]
	whole := left.Chunks
	left.Chunks, left.End = whole[:4], &sessions.YardEnd{State: sessions.RunCancelled}
	st.Yards = append(st.Yards, small())
	feed := yardFeed(sessions.Saved, st)
	d := drive(t, feed, fixed(), 120, 40)
	d.Press("5").Sees("measurement 2 of 2").Press("n").Sees("measurement 1 of 2", "R go on", "R goes on")
	d.Send(keyOf("R"))
	running := d.todo
	d.todo = nil
	d.Sees("measurement 1 of 2", "▶ 4 of 15 chunks scored")
	d.Resize(120, 41).Sees("measurement 1 of 2", "▶ 4 of 15 chunks scored") // before anything of it comes
	d.m.kl.progress.Store(&yardstick.Progress{Stage: "candidates", Party: 2, Chunks: 1, Of: 11, TokensPerSec: 14100, ETASeconds: 7})
	d.m.o.handFed = false // the clock of progress is read once
	d.m.klTick()
	d.m.o.handFed, d.m.kl.ticking = true, false
	feed.score(0, whole[4:6]...)
	d.WaitIdle().Sees("▶ 6 of 15 chunks scored", "▶ KL nvfp4+mse  6/15 chunks  14,100 tok/s  ETA 0:07")
	d.Press("N").Sees("measurement 2 of 2", "6/15 chunks  14,100 tok/s").Misses("▶ 6 of 15", "▶ 15 of 15")
	d.Resize(40, 10).Sees("quantscope needs 60×16", "KL nvfp4+mse", "6/15 chunks")
	d.Resize(120, 40)
	feed.score(0, whole[6:]...)
	feed.give(sessions.Batch{Progress: st.Progress, YardsEnded: []sessions.YardEnded{{Yard: 0, End: &sessions.YardEnd{State: sessions.RunFinished}}}})
	d.todo = append(running, d.todo...)
	d.WaitIdle().Misses("▶").Press("n").Sees("measurement 1 of 2").Misses("■ cancelled", "▶")
	if len(feed.asked) != 1 {
		t.Errorf("asked %d times", len(feed.asked))
	}
}

// Asking for what is measured already is answered.
func TestKLIsMeasuredAlready(t *testing.T) {
	feed := yardFeed(sessions.Saved, measuredState())
	feed.run = func(_ context.Context, r sessions.MeasureRequest) error {
		r.Progress(yardstick.Progress{Stage: "opening", Party: -1})
		return nil
	}
	d := drive(t, feed, fixed(), 120, 40)
	d.Press("5", "R").Says("all of that is measured already")
	feed.run = func(_ context.Context, r sessions.MeasureRequest) error {
		r.Progress(yardstick.Progress{Stage: "opening", Party: -1})
		r.Progress(yardstick.Progress{Stage: "candidates"})
		return nil
	}
	d.Press("R")
	if m := d.Message(); strings.Contains(m, "already") {
		t.Errorf("what was measured is answered by %q", m)
	}
}

// Names of panes that are capitals stay so in the list of commands.
func TestKLInTheListOfCommands(t *testing.T) {
	drive(t, yardFeed(sessions.Saved, measuredState()), fixed(), 120, 40).Press("5", ":").Type("measure").Sees("KL: measure").Misses("kL")
}

// The form begins at what has to be named: the candidates of a session without
// variants, the corpora of a checkpoint of one's own.
func TestKLFormBeginsAtWhatIsMissing(t *testing.T) {
	st := demoState()
	st.Meta.SourcePath = "/data/model"
	feed := yardFeed(sessions.Saved, st)
	drive(t, feed, fixed(), 120, 40).Press("5", "R").Sees("❯ corpora").Type("book.txt").Press("enter")
	if len(feed.asked) != 1 || len(feed.asked[0].Corpora) != 1 || feed.asked[0].Corpora[0] != "book.txt" {
		t.Errorf("asked for %+v", feed.asked)
	}
}
