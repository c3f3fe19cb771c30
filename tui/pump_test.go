package tui

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/sessions"
)

// One request is in flight per source: a batch arms the next one, and nothing
// else does. All of it ends with the program. (The bubble would panic if a
// goroutine stayed behind.)
func TestPump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := newFakeRun(demoState())
		o := fixed()
		o.handFed = false
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		o.ctx = ctx
		m := New(run, o)
		msgs := make(chan tea.Msg)
		flying := 0
		start := func(cmd tea.Cmd) {
			if cmd == nil {
				return
			}
			flying++
			go func() {
				msg := cmd()
				select {
				case msgs <- msg:
				case <-ctx.Done():
				}
			}()
		}
		take := func(msg tea.Msg) {
			flying--
			if batch, ok := msg.(tea.BatchMsg); ok {
				for _, c := range batch {
					start(c)
				}
				return
			}
			_, cmd := m.Update(msg)
			start(cmd)
		}
		drain := func() {
			for {
				synctest.Wait()
				select {
				case msg := <-msgs:
					take(msg)
				default:
					return
				}
			}
		}
		start(m.Init())
		drain()
		waiting := flying // the pump and the watch over View
		for range 50 {
			run.measure(14)
			take(<-msgs)
			drain()
			if flying != waiting {
				t.Fatalf("%d commands are under way, want %d", flying, waiting)
			}
		}
		if got := m.scene.State.Progress.Done; got != 700 {
			t.Errorf("%d measurements seen, want 700", got)
		}
		cancel()
		begun := time.Now()
		m.end()
		if waited := time.Since(begun); waited >= patience {
			t.Errorf("the end waited %v for commands that had the context", waited)
		}
		synctest.Wait()
	})
}

// A source that fails says so and is not asked again.
func TestFeedError(t *testing.T) {
	d := drive(t, newFakeRun(demoState()), fixed(), 120, 40)
	d.Send(feedErrMsg{src: d.m.src, err: errors.New("sessions: demo.qscope: database disk image is malformed")})
	d.WaitIdle().Says("malformed")
	if !d.m.src.closed {
		t.Error("the source counts as open")
	}
}

// Batches of a source that was left are dropped; those of the one that waits
// behind a replay bring its state up to date.
func TestBatchesOfOtherSources(t *testing.T) {
	run := newFakeRun(demoState())
	o := fixed()
	o.OpenReplay = func(string) (sessions.Player, error) { return newFakePlay(demoState()), nil }
	d := drive(t, run, o, 120, 40)
	run.measure(719)
	run.become(sessions.RunCancelled, sessions.EventCancelled, "cancelled")
	d.WaitIdle().Press("r")
	replay := d.m.src
	run.state.State = sessions.RunRunning
	run.measure(1)
	d.WaitIdle()
	if n := measuredIn(d.m.home.state); n != 720 {
		t.Errorf("the run behind the replay has %d records, want 720", n)
	}
	if n := measuredIn(d.m.scene.State); n != 0 {
		t.Errorf("the replay took in %d records of the run", n)
	}
	d.Press("esc")
	d.Send(batchMsg{src: replay, batch: sessions.Batch{Progress: sessions.Progress{State: sessions.RunStopped}}})
	d.WaitIdle().Sees("✓ finished", "720/720")
}

// After the end no command begins.
func TestTasksEnd(t *testing.T) {
	running := newTasks()
	if !running.begin() {
		t.Fatal("a task is refused")
	}
	done := running.close()
	if running.begin() {
		t.Error("a task begins after the end")
	}
	select {
	case <-done:
		t.Error("the end did not wait")
	default:
	}
	running.end()
	<-done
	<-running.close()
}
