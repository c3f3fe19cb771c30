package sessions

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"quantscope/kernels"
)

// TestRates feeds a tracker tensors of 1,000 weights at a steady pace.
func TestRates(t *testing.T) {
	var tensors []Tensor
	for i := range 1000 {
		tensors = append(tensors, Tensor{ID: i, DType: "BF16", Rows: 10, Cols: 100})
	}
	tr := newTracker(tensors)
	at := func(us int64, kind EventKind, tensor int) {
		tr.observe(&stored{Event: Event{Kind: kind, AtUS: us, Tensor: tensor}})
	}
	at(0, EventVariant, -1)
	at(5_000_000, EventStarted, -1)
	if p := tr.progress(5_000_000); p.State != RunRunning || p.WeightsPerSec != 0 || p.ETASeconds != 0 {
		t.Errorf("at the start: %+v", p)
	}
	for i := range 400 { // 100 tensors a second
		at(5_000_000+int64(i)*10_000, EventTap, i)
		if i == 100 {
			if p := tr.progress(6_000_000); math.Abs(p.WeightsPerSec-101_000) > 1 {
				t.Errorf("after a second: %v weights/s", p.WeightsPerSec)
			}
		}
	}
	p := tr.progress(9_000_000)
	if math.Abs(p.WeightsPerSec/100_000-1) > 0.04 || p.BytesPerSec != 2*p.WeightsPerSec {
		t.Errorf("steady: %+v", p)
	}
	if math.Abs(p.ETASeconds-6) > 0.3 || p.Done != 400 || p.Total != 1000 {
		t.Errorf("steady: %+v", p)
	}
	if p := tr.progress(11_000_000); p.WeightsPerSec > 50_000 || p.WeightsPerSec < 30_000 {
		t.Errorf("two quiet seconds later: %v weights/s", p.WeightsPerSec)
	}
	if p := tr.progress(13_000_000); p.WeightsPerSec != 0 || p.ETASeconds != 0 {
		t.Errorf("four quiet seconds later: %+v", p)
	}
	at(13_000_000, EventPaused, -1)
	if p := tr.progress(13_100_000); p.State != RunPaused || p.WeightsPerSec != 0 {
		t.Errorf("paused: %+v", p)
	}
	at(20_000_000, EventResumed, -1)
	at(20_500_000, EventTap, 400)
	if p := tr.progress(21_000_000); math.Abs(p.WeightsPerSec-1000) > 1 {
		t.Errorf("resumed: %v weights/s, the pause must not count", p.WeightsPerSec)
	}
	at(21_000_000, EventFinished, -1)
	if p := tr.progress(21_000_000); p.State != RunFinished || p.WeightsPerSec != 0 || p.ETASeconds != 0 {
		t.Errorf("finished: %+v", p)
	}
}

// TestNewestOutcomeCounts: a tensor that failed and was then measured is one
// tensor, and the other way round.
func TestNewestOutcomeCounts(t *testing.T) {
	tr := newTracker(make([]Tensor, 3))
	tr.observe(&stored{Event: Event{Kind: EventVariant}})
	for _, step := range []struct {
		kind         EventKind
		tensor       int
		done, failed int64
	}{
		{EventFailed, 0, 0, 1}, {EventTap, 0, 1, 0}, {EventTap, 0, 1, 0}, {EventFailed, 0, 0, 1}, {EventTap, 1, 1, 1}, {EventFailed, 2, 1, 2},
	} {
		tr.observe(&stored{Event: Event{Kind: step.kind, Tensor: step.tensor}})
		if p := tr.progress(0); p.Done != step.done || p.Failed != step.failed || p.Total != 3 {
			t.Fatalf("after %+v: %+v", step, p)
		}
	}
}

// TestStatusWhileNothingFinishes: the rates of a run go down while one tensor
// takes long, without any event.
func TestStatusWhileNothingFinishes(t *testing.T) {
	path := sessionPath(t)
	synctest.Test(t, func(t *testing.T) {
		job, _ := fakeJob(2)
		parse := job.Parse
		job.Parse = func(name string) (Quantizer, error) {
			q, err := parse(name)
			measure, n := q.Measure, 0
			q.Measure = func(m kernels.Matrix) (Measurement, error) {
				if n++; n == 2 {
					<-time.After(10 * time.Second) // of the bubble's time
				}
				return measure(m)
			}
			return q, err
		}
		l, err := StartJob(t.Context(), job, Options{Session: path, Variants: []string{"f1"}, Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		st := l.Snapshot()
		began := time.Now()
		var quiet time.Duration
		batches, seen := 0, false
		for st.Progress.State != RunFinished {
			b, err := l.Next(t.Context(), 33*time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			st.Apply(b)
			batches++
			seen = seen || st.Progress.WeightsPerSec > 0
			if seen && st.Progress.Done == 1 && st.Progress.WeightsPerSec == 0 && quiet == 0 {
				quiet = time.Since(began)
			}
		}
		if quiet < 2*time.Second || quiet > 5*time.Second {
			t.Errorf("the rate was 0 after %v", quiet)
		}
		if batches > 60 {
			t.Errorf("%d batches in ten seconds of nothing", batches)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
