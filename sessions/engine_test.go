package sessions

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"quantscope/kernels"
)

func TestRunMeasuresEverythingOnce(t *testing.T) {
	path := sessionPath(t)
	job, src := fakeJob(100)
	p := runJob(t, job, path, "f1", "f2", "f1")
	if want := (Progress{State: RunFinished, Variant: p.Variant, Done: 200, Total: 200}); p != want {
		t.Fatalf("progress %+v, want %+v", p, want)
	}
	for i, n := range src.reads {
		if n != 1 {
			t.Errorf("tensor %d was read %d times", i, n)
		}
	}
	st := openState(t, path)
	if diff := cmp.Diff(job.Tensors, st.Tensors); diff != "" {
		t.Error(diff)
	}
	for v, name := range []string{"f1", "f2"} {
		q, err := job.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range job.Tensors {
			m, err := src.Read(t.Context(), i, make([]byte, src.Need(i)))
			if err != nil {
				t.Fatal(err)
			}
			got, err := q.Measure(m)
			if err != nil {
				t.Fatal(err)
			}
			want := NewRecord(v, i, &got.Tap)
			want.Seq, want.AtUS, want.Weights = st.Records[v][i].Seq, st.Records[v][i].AtUS, digestOf(m.Data, false).xxh
			if diff := cmp.Diff(want, st.Records[v][i], sameFigures); diff != "" {
				t.Fatal(diff)
			}
		}
	}
	var kinds []EventKind
	for _, e := range st.Log {
		kinds = append(kinds, e.Kind)
	}
	if want := []EventKind{EventCreated, EventVariant, EventVariant, EventStarted, EventFinished}; !slices.Equal(kinds, want) {
		t.Errorf("log %v, want %v", kinds, want)
	}
}

// TestLiveStateEqualsTheFile: what a live reader has gathered at the end is what
// a later reader opens.
func TestLiveStateEqualsTheFile(t *testing.T) {
	path := sessionPath(t)
	job, src := fakeJob(80)
	src.read = func(i int) error {
		if i == 5 {
			return errors.New("a bad block")
		}
		return nil
	}
	l, err := StartJob(t.Context(), job, Options{Session: path, Variants: []string{"f1", "f2"}, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	st := l.Snapshot()
	for st.Progress.State != RunFinished {
		b, err := l.Next(t.Context(), time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		st.Apply(b)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for closed := false; !closed; {
		b, err := l.Next(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		st.Apply(b)
		closed = b.Closed
	}
	if diff := cmp.Diff(openState(t, path), st, sameFigures); diff != "" {
		t.Error(diff)
	}
	if st.Progress.Failed != 2 || st.Progress.Done != 158 {
		t.Errorf("progress %+v", st.Progress)
	}
}

// TestTroubleOfOneTensor: nothing that is wrong with one tensor ends the run.
func TestTroubleOfOneTensor(t *testing.T) {
	path := sessionPath(t)
	job, src := fakeJob(20)
	src.read = func(i int) error {
		if i == 2 {
			return errors.New(`checkpoint: dir/model.safetensors: tensor "x": short read`)
		}
		return nil
	}
	put := func(w []byte, row, col int, f float32) {
		b := math.Float32bits(f) >> 16
		w[2*(row*32+col)], w[2*(row*32+col)+1] = byte(b), byte(b>>8)
	}
	src.spoil[3] = func(w []byte) {
		put(w, 0, 5, float32(math.Inf(1)))
		put(w, 3, 17, float32(math.NaN()))
	}
	src.spoil[4] = func(w []byte) {
		put(w, 7, 31, float32(math.NaN()))
		put(w, 6, 30, float32(math.NaN()))
	}
	parse := job.Parse
	n := 0
	job.Parse = func(name string) (Quantizer, error) {
		q, err := parse(name)
		measure := q.Measure
		q.Measure = func(m kernels.Matrix) (Measurement, error) {
			got, err := measure(m)
			switch n++; n {
			case 1:
				panic("index out of range\nwith a second line")
			case 2:
				return got, errors.New("columns are not a multiple\nof 16")
			case 5: // after the two whose weights are not finite
				got.Tap.SumQ2, got.Tap.SumWQ, got.Tap.SumE2 = 0, 0, got.Tap.SumW2
			}
			return got, err
		}
		return q, err
	}
	l, err := StartJob(t.Context(), job, Options{Session: path, Variants: []string{"f1"}, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	p, err := l.Wait(t.Context())
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	if p.State != RunFinished || p.Failed != 5 || p.Done != 15 {
		t.Errorf("progress %+v", p)
	}
	st := openState(t, path)
	got := map[int]string{}
	for _, e := range st.Log {
		if e.Tensor >= 0 {
			got[e.Tensor] += string(e.Kind) + " " + e.Message
		}
		if strings.ContainsAny(e.Message, "\n\r") {
			t.Errorf("more than a line: %q", e.Message)
		}
	}
	where := func(i int) string {
		return fmt.Sprintf("model-00000.safetensors: tensor %q: ", job.Tensors[i].Name)
	}
	want := map[int]string{
		0: "failed " + where(0) + "internal error in f1: index out of range with a second line",
		1: "failed " + where(1) + "columns are not a multiple of 16",
		2: `failed checkpoint: dir/model.safetensors: tensor "x": short read`,
		3: "failed " + where(3) + "weights are not finite: NaN at [3,17]; Inf at [0,5]",
		4: "failed " + where(4) + "weights are not finite: 2 NaN, the first at [6,30]",
		5: "finding " + where(5) + "every weight became zero",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if r := st.Records[0][3]; !r.Failed || r.NonFinite != 2 || !math.IsNaN(r.Cos) || r.Seq == 0 {
		t.Errorf("the record of a failed tensor: %+v", r)
	}
	if r := st.Records[0][6]; r.Failed || r.Seq == 0 {
		t.Errorf("the tensor after the troubled ones: %+v", r)
	}
}

func TestFallbackAndContradictionAreEvents(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(6)
	parse := job.Parse
	n := 0
	job.Parse = func(name string) (Quantizer, error) {
		q, err := parse(name)
		measure := q.Measure
		q.Measure = func(m kernels.Matrix) (Measurement, error) {
			got, err := measure(m)
			switch n++; n {
			case 1, 3:
				got.Effective, got.Why = "f0", "no multiplier fits"
			case 2:
				got.Tap.SumE2 *= 1.001
			}
			return got, err
		}
		return q, err
	}
	l, err := StartJob(t.Context(), job, Options{Session: path, Variants: []string{"f2"}, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	p, err := l.Wait(t.Context())
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	if p.Done != 6 {
		t.Errorf("progress %+v", p)
	}
	st := openState(t, path)
	if s := Summarize(st, 0); s.Variant != "f2" || s.Effective != "f2 (f0 for 2 tensors)" {
		t.Errorf("effective %q", s.Effective)
	}
	var findings []string
	for _, e := range st.Log {
		if e.Kind == EventFinding {
			findings = append(findings, e.Message)
		}
	}
	if len(findings) != 1 || !strings.Contains(findings[0], job.Tensors[1].Name) || !strings.Contains(findings[0], "contradict") {
		t.Errorf("findings %q", findings)
	}
}

// TestVanishedSource: a source that is gone stops the run; what was recorded can
// be read.
func TestVanishedSource(t *testing.T) {
	path := sessionPath(t)
	job, src := fakeJob(100)
	src.read = func(i int) error {
		if i >= 40 {
			return &fs.PathError{Op: "open", Path: "fake/model.safetensors", Err: fs.ErrNotExist}
		}
		return nil
	}
	l, err := StartJob(t.Context(), job, Options{Session: path, Variants: []string{"f1"}, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	p, err := l.Wait(t.Context())
	var env *EnvError
	if !errors.As(err, &env) || !strings.Contains(err.Error(), "fake: the source is gone") {
		t.Errorf("error %v", err)
	}
	if p.State != RunStopped {
		t.Errorf("progress %+v", p)
	}
	// The feed has ended by itself; its last batch says so.
	st := l.Snapshot()
	for closed := false; !closed; {
		b, err := l.Next(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		st.Apply(b)
		closed = b.Closed
	}
	if err := l.Add("f2"); err == nil {
		t.Error("a stopped run takes another variant")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	saved := openState(t, path)
	if diff := cmp.Diff(saved, st, sameFigures); diff != "" {
		t.Error(diff)
	}
	if saved.Progress.State != RunStopped || saved.Progress.Done != 40 {
		t.Errorf("saved %+v", saved.Progress)
	}
	if last := saved.Log[len(saved.Log)-1]; last.Kind != EventStopped || !strings.Contains(last.Message, "the source is gone") {
		t.Errorf("last event %+v", last)
	}
	// It comes back, and the run goes on.
	src.read = nil
	if p := runJob(t, job, path, "f1"); p.Done != 100 || p.State != RunFinished {
		t.Errorf("resumed: %+v", p)
	}
}

func TestDetailAndRowErrorsOfALiveRun(t *testing.T) {
	path := sessionPath(t)
	job, src := fakeJob(3)
	l, err := StartJob(t.Context(), job, Options{Session: path, Variants: []string{"f1", "f2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	st := l.Snapshot()
	until(t, l, st, func() bool { return st.Records[1][2].Seq > 0 }) // not committed yet, perhaps
	got, err := l.Detail(t.Context(), 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	m, err := src.Read(t.Context(), 2, make([]byte, src.Need(2)))
	if err != nil {
		t.Fatal(err)
	}
	if want := fakeTap(m, 2); got != want {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	if rows, err := l.RowErrors(t.Context(), 1, 2); err != nil || len(rows) != 8 {
		t.Errorf("rows %v, %v", rows, err)
	}
	for _, bad := range []pair{{-1, 0}, {2, 0}, {0, -1}, {0, 3}} {
		if _, err := l.Detail(t.Context(), bad.variant, bad.tensor); err == nil {
			t.Errorf("detail of %v", bad)
		}
		if _, err := l.RowErrors(t.Context(), bad.variant, bad.tensor); err == nil {
			t.Errorf("rows of %v", bad)
		}
	}
}

// TestClockSetBack: the time of events never falls.
func TestClockSetBack(t *testing.T) {
	clock := &fixedClock{now: time.UnixMilli(1_700_000_000_000)}
	st := &State{Tensors: make([]Tensor, 3)}
	box := NewMailbox(clock)
	r := newRecorder(nil, clock, 1_700_000_000_000, st, box, nil)
	for _, step := range []time.Duration{time.Second, time.Second, -time.Hour, time.Second, 2 * time.Hour} {
		clock.add(step)
		r.take(post{events: []stored{newNote(EventFinding, -1, -1, note{})}})
	}
	b, err := box.Next(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	var at []int64
	for i, e := range b.Events {
		if e.Seq != int64(i+1) {
			t.Errorf("event %d has seq %d", i, e.Seq)
		}
		at = append(at, e.AtUS)
	}
	if want := []int64{1e6, 2e6, 2e6, 2e6, 3603e6}; !slices.Equal(at, want) {
		t.Errorf("times %v, want %v", at, want)
	}
}

// What lies in the weights is said once a tensor, not once a variant, and not
// again when a variant is added later.
func TestFindingsOfTheWeightsAreSaidOnce(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(2)
	parse := job.Parse
	job.Parse = func(name string) (Quantizer, error) {
		q, err := parse(name)
		measure := q.Measure
		q.Measure = func(m kernels.Matrix) (Measurement, error) {
			got, err := measure(m)
			got.Tap.SumW2, got.Tap.SumQ2, got.Tap.SumWQ, got.Tap.SumE2 = 0, 0, 0, 0
			got.Tap.Blocks, got.Tap.ScaleLow = 16, 14
			return got, err
		}
		return q, err
	}
	for _, variants := range [][]string{{"f0", "f1"}, {"f0", "f1", "f2"}} {
		l, err := StartJob(t.Context(), job, Options{Session: path, Variants: variants, Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	got := map[int][]string{}
	for _, e := range openState(t, path).Log {
		if e.Kind == EventFinding {
			_, what, _ := strings.Cut(e.Message, `": `)
			got[e.Tensor] = append(got[e.Tensor], what)
		}
	}
	want := []string{"every weight is zero", "14 of 16 block scales underflow and are raised to the least that can be stored, which no cosine shows"}
	if diff := cmp.Diff(map[int][]string{0: want, 1: want}, got); diff != "" {
		t.Error(diff)
	}
}
