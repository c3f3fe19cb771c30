package tui

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/exp/teatest"

	"quantscope/sessions"
)

// engine starts a real run over the built-in checkpoint.
func engine(t *testing.T, variants ...string) *sessions.LiveFeed {
	t.Helper()
	live, err := sessions.Start(context.Background(), sessions.Options{
		Checkpoint: "demo", Session: filepath.Join(t.TempDir(), "demo.qscope"), Variants: variants, Threads: 1, Program: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	return live
}

// withSessions are options that reach the real sessions.
func withSessions() Options {
	o := fixed()
	o.OpenReplay = func(path string) (sessions.Player, error) { return sessions.OpenReplay(path, 1) }
	o.Reopen = sessions.OpenSession
	o.Export = func(ctx context.Context, kind, session, path string, overwrite bool) error {
		return sessions.ExportFile(ctx, session, path, strings.ToLower(kind), overwrite)
	}
	return o
}

// The same visit as with made-up feeds, over the real engine and its file: the
// map fills, a variant is added, the records are exported, the run is replayed.
func TestScenarioRealEngine(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	live := engine(t, "nvfp4", "nvfp4+mse_ge1")
	defer func() {
		if err := live.Close(); err != nil {
			t.Error(err)
		}
	}()
	finished := func(total int64) func(*sessions.State) bool {
		return func(st *sessions.State) bool {
			return st.Progress.State == sessions.RunFinished && st.Progress.Done == total
		}
	}
	d := drive(t, live, withSessions(), 120, 40)
	d.Until(ctx, finished(480)).Sees("✓ finished", "480/480", "● live", "demo.qscope")
	if d.m.scene.State.Progress.Failed != 0 || measuredIn(d.m.scene.State) != 480 {
		t.Fatalf("%d records, %d failed", measuredIn(d.m.scene.State), d.m.scene.State.Progress.Failed)
	}
	d.Press("v", "esc")
	d.m.o.Known = []Known{{Name: "nvfp4+mse", Help: "nine multipliers"}, {Name: "nvfp4+odd", Help: "is not known"}}
	d.Press("v", "end", "enter").Says("nvfp4+odd")
	d.Press("v", "end", "up", " ", "enter").Until(ctx, finished(720))
	if v := d.m.scene.State.Variants; len(v) != 3 || v[2].Name != "nvfp4+mse" {
		t.Errorf("variants %v", v)
	}

	d.Press("1", "enter").On(ScreenTensor)
	if det := d.m.scene.Detail; det.RowErr != "" || det.Errs[0] != "" || len(det.Rows) != 3 || len(det.Rows[2]) != d.m.scene.State.Tensors[det.Tensor].Rows {
		t.Errorf("detail of the tensor screen: rows %d, errors %q, %q", len(det.Rows), det.RowErr, det.Errs)
	}
	d.Press("esc", "e", "down", "enter").Says("exported CSV")
	csv, err := os.ReadFile(exportPath(live.Path(), "CSV"))
	if err != nil || strings.Count(string(csv), "\n") != 721 {
		t.Errorf("the export has %d lines, want 721; %v", strings.Count(string(csv), "\n"), err)
	}
	d.Press("e", "down", "enter").Sees("Overwrite?").Press("esc")

	d.Press("r").Sees("» replay")
	replay := d.m.src
	d.Press("home", "end").Until(ctx, func(st *sessions.State) bool { return measuredIn(st) == 720 })
	for v := range replay.state.Records {
		for i, r := range replay.state.Records[v] {
			if r.Seq != d.m.home.state.Records[v][i].Seq {
				t.Fatalf("variant %d, tensor %d: the replay ends with another record than the run", v, i)
			}
		}
	}
	d.Press("r").Sees("● live").Press("2", "4", "8", "1").On(ScreenMap)
}

// Under Bubble Tea's own loop the program starts, draws, takes a new size and
// quits.
func TestSmoke(t *testing.T) {
	live := engine(t, "nvfp4")
	o := fixed()
	o.handFed = false
	m := New(live, o)
	tm := teatest.NewTestModel(t, m, teatest.WithInitialTermSize(120, 40))
	wait := func(text string) {
		t.Helper()
		teatest.WaitFor(t, tm.Output(), func(b []byte) bool { return strings.Contains(ansi.Strip(string(b)), text) }, teatest.WithDuration(time.Minute))
	}
	wait("✓ finished")
	tm.Send(tea.WindowSizeMsg{Width: 80, Height: 24})
	tm.Send(keyOf("8"))
	wait("Log ·")
	tm.Send(keyOf("q"))
	tm.WaitFinished(t, teatest.WithFinalTimeout(time.Minute))
	m.end()
	if err := live.Close(); err != nil {
		t.Error(err)
	}
}
