package sessions

import (
	"context"
	"slices"
	"testing"
	"time"

	"quantscope/kernels"
)

// gated lets measurements through one by one.
func gated(job *Job) (let chan struct{}, entered chan struct{}) {
	let, entered = make(chan struct{}), make(chan struct{}, 1000)
	parse := job.Parse
	job.Parse = func(name string) (Quantizer, error) {
		q, err := parse(name)
		measure := q.Measure
		q.Measure = func(m kernels.Matrix) (Measurement, error) {
			entered <- struct{}{}
			<-let
			return measure(m)
		}
		return q, err
	}
	return let, entered
}

// until applies batches until the state is as wanted.
func until(t *testing.T, l Feed, st *State, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !ok() {
		b, err := l.Next(ctx, 0)
		if err != nil {
			t.Fatalf("%v; progress %+v", err, st.Progress)
		}
		st.Apply(b)
	}
}

func TestPauseResumeCancelAdd(t *testing.T) {
	path := sessionPath(t)
	job, src := fakeJob(30)
	let, entered := gated(job)
	l, err := StartJob(t.Context(), job, Options{Session: path, Variants: []string{"f1"}, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	st := l.Snapshot()
	if st.Progress.State != RunRunning {
		t.Errorf("the snapshot of a run that goes on says %q", st.Progress.State)
	}
	<-entered
	l.Pause()
	l.Pause() // once is enough
	let <- struct{}{}
	until(t, l, st, func() bool { return st.Progress.Done == 1 && st.Progress.State == RunPaused })
	select {
	case <-entered:
		t.Fatal("a paused run measures")
	default:
	}
	l.Resume()
	l.Resume()
	<-entered
	if err := l.Add("f2"); err != nil { // while the second tensor is in hand
		t.Fatal(err)
	}
	if err := l.Add("f2", "f1"); err != nil { // known ones are no error
		t.Fatal(err)
	}
	if err := l.Add("nonsense"); err == nil {
		t.Error("an unknown variant is added")
	}
	let <- struct{}{}
	<-entered
	l.Cancel()
	let <- struct{}{} // what is being measured is still had
	until(t, l, st, func() bool { return st.Progress.State == RunCancelled })
	if st.Progress.Done != 3 || st.Progress.Total != 60 {
		t.Errorf("cancelled with %+v", st.Progress)
	}
	if p, err := l.Wait(t.Context()); err != nil || p.State != RunCancelled {
		t.Errorf("wait %+v, %v", p, err)
	}
	l.Pause() // nothing runs: nothing happens
	l.Cancel()

	close(let)
	if err := l.Add("f2"); err != nil { // goes on with what was left
		t.Fatal(err)
	}
	until(t, l, st, func() bool { return st.Progress.State == RunFinished })
	if st.Progress.Done != 60 {
		t.Errorf("finished with %+v", st.Progress)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for i, n := range src.reads {
		if n > 3 { // in the pass with f1, when that was cancelled, in a pass for f2
			t.Errorf("tensor %d was read %d times", i, n)
		}
	}
	var kinds []EventKind
	for _, e := range openState(t, path).Log {
		kinds = append(kinds, e.Kind)
	}
	want := []EventKind{EventCreated, EventVariant, EventStarted, EventPaused, EventResumed, EventVariant, EventCancelled, EventStarted, EventFinished}
	if !slices.Equal(kinds, want) {
		t.Errorf("log %v\nwant %v", kinds, want)
	}
}

// impatient is a clock for which the grace after a cancel is over at once.
type impatient struct{ realClock }

func (impatient) After(d time.Duration) <-chan time.Time {
	if d == graceAfterCancel {
		d = 0
	}
	return realClock{}.After(d)
}

// TestCancelDoesNotWaitForeverForAKernel: a kernel cannot be interrupted, so it
// is left to itself after graceAfterCancel.
func TestCancelDoesNotWaitForeverForAKernel(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(4)
	let, entered := gated(job)
	ctx, cancel := context.WithCancel(t.Context())
	l, err := StartJob(ctx, job, Options{Session: path, Variants: []string{"f1"}, Threads: 2, Clock: impatient{}})
	if err != nil {
		t.Fatal(err)
	}
	<-entered
	<-entered
	cancel()
	p, err := l.Wait(t.Context())
	if err != nil || p.State != RunCancelled || p.Done != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	close(let) // the workers come back to a session that is closed
	if st := openState(t, path); st.Progress.Done != 0 || st.Progress.State != RunCancelled {
		t.Errorf("%+v", st.Progress)
	}
}
