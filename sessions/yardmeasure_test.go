package sessions

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/analysis/yardstick"
)

// fakeMeasure scores made-up chunks of a setup: up to stop of them, and then what
// then says. It counts what it was asked.
type fakeMeasure struct {
	setup *yardstick.Setup
	stop  int
	then  func(ctx context.Context) error

	calls, scored, prior int
}

func (f *fakeMeasure) measure(ctx context.Context, _ *candidate.Candidate, _ []*candidate.Candidate, _ []*corpus.Corpus, o yardstick.Options) (*yardstick.Report, error) {
	f.calls++
	f.prior = len(o.Prior)
	if o.Begin != nil {
		o.Begin(f.setup)
	}
	done := map[[2]int]bool{}
	for _, c := range o.Prior {
		done[[2]int{c.Corpus, c.Index}] = true
	}
	n := 0
	for k := range f.setup.Corpora[0].IDs {
		for c := range f.setup.Corpora {
			if done[[2]int{c, k}] {
				continue
			}
			if err := o.Pause(ctx); err != nil {
				return nil, err
			}
			if n == f.stop && f.then != nil {
				return nil, f.then(ctx)
			}
			o.Scored(madeUpChunk(f.setup, c, k))
			n++
			f.scored++
		}
	}
	return &yardstick.Report{Setup: f.setup, Probes: []yardstick.Probe{{Candidate: 1, Name: "layer 0 q"}}, Sane: &yardstick.Sanity{Deterministic: true}}, nil
}

// on makes a feed measure with f, and is a request that needs no files.
func (f *fakeMeasure) on(feed Feed) MeasureRequest {
	switch feed := feed.(type) {
	case *savedFeed:
		feed.desk.measure = f.measure
	case *followFeed:
		feed.desk.measure = f.measure
	case *LiveFeed:
		feed.desk.measure = f.measure
	}
	return MeasureRequest{ready: &parties{setup: f.setup}}
}

func measureOn(t *testing.T, feed Feed, f *fakeMeasure) error {
	t.Helper()
	return feed.(Measurer).Measure(t.Context(), f.on(feed))
}

// openFeed opens a session until the test ends.
func openFeed(t *testing.T, path string) Feed {
	t.Helper()
	f, err := OpenSession(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// yardSession is a session of a few tensors with a measurement.
func yardSession(t *testing.T) string {
	t.Helper()
	path := sessionPath(t)
	job, _ := fakeJob(4)
	runJob(t, job, path, "f1")
	if err := measureOn(t, openFeed(t, path), &fakeMeasure{setup: madeUpSetup("nvfp4")}); err != nil {
		t.Fatal(err)
	}
	return path
}

// diffYards fails the test where two lists of measurements differ in a bit.
func diffYards(t *testing.T, want, got []*Yard) {
	t.Helper()
	if diff := cmp.Diff(want, got, sameBits, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("measurements differ (-want +got):\n%.3000s", diff)
	}
}

// What a measurement brings to the screen that began it, is what a fresh open finds,
// bit for bit, and what a replay shows, forward and back.
func TestMeasurementIsKept(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(4)
	runJob(t, job, path, "f1")
	setup := madeUpSetup("nvfp4")
	feed := openFeed(t, path)
	st := feed.Snapshot()
	fake := &fakeMeasure{setup: setup}
	r := fake.on(feed)
	said := 0
	r.Report = func(*yardstick.Report) { said++ }
	ended := make(chan error, 1)
	go func() { ended <- feed.(Measurer).Measure(t.Context(), r) }()
	until(t, feed, st, func() bool { return len(st.Yards) == 1 && st.Yards[0].End != nil })
	if err := <-ended; err != nil || said != 1 {
		t.Fatalf("reported %d times: %v", said, err)
	}
	if done, of := st.Yards[0].Positions(); done != 48 || of != 48 || st.Yards[0].End.State != RunFinished {
		t.Errorf("%d of %d positions, %+v", done, of, st.Yards[0].End)
	}
	if diff := cmp.Diff(setup, st.Yards[0].Setup); diff != "" {
		t.Error(diff)
	}

	fresh := openState(t, path)
	for i := range fresh.Yards { // a screen has the moment by its own clock
		fresh.Yards[i].AtUS = st.Yards[i].AtUS
	}
	diffYards(t, st.Yards, fresh.Yards)
	for _, e := range fresh.Log {
		if e.Kind == EventScore {
			t.Error("a score is a line of the log")
		}
	}
	if n := len(fresh.Log); fresh.Log[n-1].Message != "KL finished: 48 of 48 positions scored" {
		t.Errorf("the log ends with %+v", fresh.Log[n-1])
	}

	p := play(t, path, MaxSpeed)
	p.p.Step(1 << 20)
	if !p.next() {
		t.Fatal("nothing is played")
	}
	diffStates(t, openState(t, path), p.st)
	p.p.Step(-3)
	if !p.next() || len(p.st.Yards) != 1 || len(p.st.Yards[0].Chunks) != 4 || p.st.Yards[0].End != nil {
		t.Errorf("three steps back: %+v", p.st.Yards)
	}
	p.p.Step(1 << 20)
	if !p.next() {
		t.Fatal("nothing is played")
	}
	diffStates(t, openState(t, path), p.st)

	// A run goes on with the session, and a joined state has the first one's.
	if end := runJob(t, job, path, "f1", "f2"); end.State != RunFinished || end.Done != 8 {
		t.Errorf("gone on with to %+v", end)
	}
	other := openState(t, path)
	j, err := Join(other, openState(t, path), "b")
	if err != nil || len(j.Yards) != 1 || len(j.Yards[0].Chunks) != 6 {
		t.Errorf("joined: %v", err)
	}
}

// A measurement that was broken off goes on where it was; one that is finished is
// only reported; another setup is one of its own.
func TestMeasurementGoesOn(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(4)
	runJob(t, job, path, "f1")
	ctx, cancel := context.WithCancel(t.Context())
	broken := &fakeMeasure{setup: madeUpSetup("nvfp4"), stop: 2, then: func(ctx context.Context) error { cancel(); return ctx.Err() }}
	feed := openFeed(t, path)
	if err := feed.(Measurer).Measure(ctx, broken.on(feed)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	y := openState(t, path).Yards
	if len(y) != 1 || len(y[0].Chunks) != 2 || y[0].End == nil || y[0].End.State != RunCancelled {
		t.Fatalf("%+v", y)
	}

	failing := &fakeMeasure{setup: madeUpSetup("nvfp4"), stop: 1, then: func(context.Context) error { return errors.New("layer 3: NaN") }}
	if err := measureOn(t, openFeed(t, path), failing); err == nil || failing.prior != 2 {
		t.Fatalf("with %d chunks there: %v", failing.prior, err)
	}
	if y := openState(t, path).Yards; len(y) != 1 || len(y[0].Chunks) != 3 || y[0].End.State != RunStopped || y[0].End.Reason != "layer 3: NaN" {
		t.Errorf("%+v", y[0].End)
	}

	// Where files lie and what is drawn from the figures does not matter.
	moved := madeUpSetup("nvfp4")
	moved.Reference.Path, moved.Seed, moved.Texts = "/elsewhere", 99, nil
	rest := &fakeMeasure{setup: moved}
	if err := measureOn(t, openFeed(t, path), rest); err != nil || rest.prior != 3 || rest.scored != 3 {
		t.Fatalf("%d chunks there, %d scored: %v", rest.prior, rest.scored, err)
	}
	if y := openState(t, path).Yards; len(y) != 1 || len(y[0].Chunks) != 6 || y[0].End.State != RunFinished {
		t.Errorf("%+v", y)
	}
	again := &fakeMeasure{setup: madeUpSetup("nvfp4")}
	if err := measureOn(t, openFeed(t, path), again); err != nil || again.calls != 0 {
		t.Errorf("measured %d times more: %v", again.calls, err)
	}

	for what, change := range map[string]func(s *yardstick.Setup){
		"activations": func(s *yardstick.Setup) { s.Activations = "bf16" },
		"candidate":   func(s *yardstick.Setup) { s.Candidates[1].Effective = "int4" },
		"identity":    func(s *yardstick.Setup) { s.Reference.Identity = "fedcba" },
		"corpus":      func(s *yardstick.Setup) { s.Corpora[0].SHA256 = strings.Repeat("cd", 32) },
		"chunks":      func(s *yardstick.Setup) { s.Corpora[1].IDs = s.Corpora[1].IDs[:2] },
		"kernels":     func(s *yardstick.Setup) { s.KernelSet = "avx2" },
		"program":     func(s *yardstick.Setup) { s.Program = "other" },
		"half":        func(s *yardstick.Setup) { s.Positions = "half" },
	} {
		s := madeUpSetup("nvfp4")
		change(s)
		if yardKey(s) == yardKey(madeUpSetup("nvfp4")) {
			t.Errorf("another %s is taken for the same measurement", what)
		}
	}
	other := &fakeMeasure{setup: madeUpSetup("int4")}
	if err := measureOn(t, openFeed(t, path), other); err != nil || other.prior != 0 {
		t.Error(err)
	}
	if y := openState(t, path).Yards; len(y) != 2 || y[1].Setup.Candidates[0].Label != "int4" || len(y[1].Chunks) != 6 {
		t.Errorf("%d measurements", len(y))
	}
}

// What a file cannot take is said before the work begins, and two measurements do
// not run at once.
func TestMeasurementIsRefused(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(4)
	l, err := StartJob(t.Context(), job, Options{Session: path, Variants: []string{"f1"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	fake := &fakeMeasure{setup: madeUpSetup("nvfp4")}
	var busy *BusyError
	if err := measureOn(t, openFeed(t, path), fake); !errors.As(err, &busy) || fake.calls != 0 {
		t.Errorf("while another feed writes: %v, %d calls", err, fake.calls)
	}
	inside := &fakeMeasure{setup: madeUpSetup("nvfp4"), then: func(context.Context) error {
		return l.Measure(t.Context(), MeasureRequest{})
	}}
	if err := measureOn(t, l, inside); !errors.Is(err, ErrMeasuring) {
		t.Errorf("two at once: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	player, err := OpenReplay(path, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := player.(Measurer).Measure(t.Context(), MeasureRequest{}); err == nil || !strings.Contains(err.Error(), "a replay takes no measurement") {
		t.Errorf("a replay: %v", err)
	}
	if err := player.Close(); err != nil {
		t.Fatal(err)
	}
	huge := &fakeMeasure{setup: madeUpSetup("nvfp4")}
	for range maxYardTokens/(1<<20) + 1 {
		huge.setup.Corpora[0].IDs = append(huge.setup.Corpora[0].IDs, make([]int32, 1<<20))
	}
	if err := measureOn(t, openFeed(t, path), huge); err == nil || !strings.Contains(err.Error(), "tokens: a session holds") || huge.calls != 0 {
		t.Errorf("too many tokens: %v", err)
	}
	if n := len(openState(t, path).Log); n != len(openFeed(t, path).Snapshot().Log) {
		t.Error("a refusal leaves events")
	}
	gone := openFeed(t, path)
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	if err := measureOn(t, gone, fake); err == nil || fake.calls != 0 {
		t.Errorf("of a session that is gone: %v", err)
	}
}

// A session that another process measured in meanwhile is shown with what that
// left, and numbers go on after it.
func TestMeasurementBesideAnother(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(3)
	runJob(t, job, path, "f1")
	a, b := openFeed(t, path), openFeed(t, path)
	st := b.Snapshot()
	if err := measureOn(t, a, &fakeMeasure{setup: madeUpSetup("nvfp4")}); err != nil {
		t.Fatal(err)
	}
	if err := measureOn(t, b, &fakeMeasure{setup: madeUpSetup("fp8")}); err != nil {
		t.Fatal(err)
	}
	until(t, b, st, func() bool { return len(st.Yards) == 2 && st.Yards[1].End != nil })
	fresh := openState(t, path)
	for i := range fresh.Yards { // a screen has the moment by its own clock
		fresh.Yards[i].AtUS = st.Yards[i].AtUS
	}
	diffYards(t, fresh.Yards, st.Yards)
}
