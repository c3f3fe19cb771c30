package sessions

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"quantscope/analysis/yardstick"
)

// While a run quantizes, and while it is paused, a measurement waits; its chunks
// arrive through the same feed, and closing the feed ends it.
func TestLiveMeasurementWaits(t *testing.T) {
	path := sessionPath(t)
	job, src := fakeJob(6)
	held := make(chan struct{})
	src.read = func(i int) error {
		if i > 2 {
			<-held
		}
		return nil
	}
	l, err := StartJob(t.Context(), job, Options{Session: path, Variants: []string{"f1"}, Threads: 1, Program: "test"})
	if err != nil {
		t.Fatal(err)
	}
	st := l.Snapshot()
	fake := &fakeMeasure{setup: madeUpSetup("nvfp4")}
	r := fake.on(l)
	waits := make(chan struct{}, 64)
	r.Progress = func(p yardstick.Progress) {
		if p.Stage == StageWaiting {
			waits <- struct{}{}
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- l.Measure(t.Context(), r) }()
	<-waits
	if fake.calls != 0 {
		t.Error("it begins while a run goes on")
	}
	close(held)
	until(t, l, st, func() bool { return len(st.Yards) == 1 && st.Yards[0].End != nil })
	if err := <-ended; err != nil || st.Progress.State != RunFinished || len(st.Yards[0].Chunks) != 6 {
		t.Errorf("%v, %+v", err, st.Progress)
	}

	begun := make(chan struct{})
	endless := &fakeMeasure{setup: madeUpSetup("int4"), stop: 1, then: func(ctx context.Context) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}}
	go func() { ended <- l.Measure(t.Context(), endless.on(l)) }()
	<-begun
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if y := openState(t, path).Yards; len(y) != 2 || y[1].End == nil || y[1].End.State != RunCancelled || len(y[1].Chunks) != 1 {
		t.Errorf("%+v", y)
	}
}

// A reader in another feed follows a measurement; the state at its end is that of
// a fresh open.
func TestFollowedMeasurement(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(3)
	runJob(t, job, path, "f1")
	begun, reader := make(chan struct{}), make(chan struct{})
	fake := &fakeMeasure{setup: madeUpSetup("nvfp4"), stop: 2, then: func(context.Context) error {
		close(begun)
		<-reader
		return errors.New("the end")
	}}
	writer := openFeed(t, path)
	ended := make(chan error, 1)
	go func() { ended <- writer.(Measurer).Measure(t.Context(), fake.on(writer)) }()
	<-begun
	f := openFeed(t, path)
	st := f.Snapshot()
	if f.Mode() != Follow {
		t.Fatal(f.Mode())
	}
	until(t, f, st, func() bool { return len(st.Yards) == 1 && len(st.Yards[0].Chunks) == 2 })
	close(reader)
	if err := <-ended; err == nil {
		t.Error("no error")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for closed := false; !closed; {
		b, err := f.Next(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		st.Apply(b)
		closed = b.Closed
	}
	diffStates(t, openState(t, path), st)
	diffYards(t, openState(t, path).Yards, st.Yards)

	// Whoever followed can go on with it, and sees that.
	rest := &fakeMeasure{setup: madeUpSetup("nvfp4")}
	if err := measureOn(t, f, rest); err != nil || rest.prior != 2 {
		t.Errorf("%d chunks there: %v", rest.prior, err)
	}
	until(t, f, st, func() bool { return st.Yards[0].End != nil && st.Yards[0].End.State == RunFinished })
	diffYards(t, openState(t, path).Yards, st.Yards)
}

// A session of a part takes no measurement, and merging leaves out what sessions of
// parts cannot have.
func TestPartsAreNotMeasured(t *testing.T) {
	path := sessionPath(t)
	runPart(t, "demo", path, Part{1, 2}, "nvfp4")
	fake := &fakeMeasure{setup: madeUpSetup("nvfp4")}
	if err := measureOn(t, openFeed(t, path), fake); err == nil || !strings.Contains(err.Error(), "it is of a part of a checkpoint") || fake.calls != 0 {
		t.Errorf("%v", err)
	}
}
