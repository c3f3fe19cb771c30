package sessions

import (
	"errors"
	"math"
	"testing"
)

// TestThreadsOfUse: as many workers start as there are tensors, however many are
// asked for, and the log says how many.
func TestThreadsOfUse(t *testing.T) {
	for _, c := range []struct{ asked, tensors, want int }{{math.MaxInt, 3, 3}, {99999999999999, 2000, 1024}, {2, 3, 2}, {5, 0, 1}} {
		job, _ := fakeJob(c.tensors)
		if o := (Options{Threads: c.asked}).withDefaults(job); o.Threads != c.want {
			t.Errorf("%d for %d tensors: %d", c.asked, c.tensors, o.Threads)
		}
	}
	path := sessionPath(t)
	job, _ := fakeJob(3)
	l, err := StartJob(t.Context(), job, Options{Session: path, Variants: []string{"f1"}, Threads: 99999999999999})
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Wait(t.Context())
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	whole, err := loadFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole.notes {
		if n := &whole.notes[i]; n.Kind == EventStarted && n.note.Threads != 3 {
			t.Errorf("the log says %d threads", n.note.Threads)
		}
	}
}
