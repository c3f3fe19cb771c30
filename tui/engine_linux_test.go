package tui

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"quantscope/quant/demo"
	"quantscope/sessions"
	"quantscope/tui/ptytest"
)

// ctrl+c in the middle of a real run ends the program at once; what was
// measured is in the file, and no goroutine stays behind.
func TestSmokeInterrupt(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	// The built-in checkpoint can be measured before a key arrives.
	dir := filepath.Join(t.TempDir(), "large")
	if err := (demo.Synth{Layers: 8, Experts: 64, Hidden: 64, Intermediate: 64, Seed: 1}).Write(t.Context(), dir, nil); err != nil {
		t.Fatal(err)
	}
	live, err := sessions.Start(context.Background(), sessions.Options{
		Checkpoint: dir, Session: filepath.Join(t.TempDir(), "large.qscope"), Threads: 1, Program: "test",
		Variants: []string{"nvfp4", "nvfp4+mse", "nvfp4+mse_ge1", "nvfp4+4over6", "nvfp4+sweep"},
	})
	if err != nil {
		t.Fatal(err)
	}
	p := ptytest.Open(t, 120, 40)
	ended := runOn(context.Background(), p, live, Options{})
	p.Until(0, "▶ nvfp4")
	p.Press("\x03")
	if err := <-ended; !errors.Is(err, ErrInterrupted) {
		t.Errorf("Run: %v", err)
	}
	p.Restored()
	begun := time.Now()
	if err := live.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("the workers took %v to stop", took)
	}
	feed, err := sessions.OpenSession(live.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	st := feed.Snapshot()
	if n := measuredIn(st); n == 0 || int64(n) != st.Progress.Done || st.Progress.Done == st.Progress.Total {
		t.Errorf("%d records in the file, progress %+v", n, st.Progress)
	}
}
