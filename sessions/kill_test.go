package sessions

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"quantscope/quant/lockfile"
)

// payloads are the payloads of all tap events of a session. A pair that was
// measured twice fails the test.
func payloads(t *testing.T, path string) map[pair][]byte {
	t.Helper()
	r, err := openReader(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c, err := r.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	events, _, err := readEvents(t.Context(), c, 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	out := map[pair][]byte{}
	for i, e := range events {
		if e.Seq != int64(i+1) {
			t.Fatalf("event %d has seq %d", i+1, e.Seq)
		}
		if e.Kind != EventTap {
			continue
		}
		if out[pair{e.Variant, e.Tensor}] != nil {
			t.Fatalf("tensor %d under variant %d was measured twice", e.Tensor, e.Variant)
		}
		out[pair{e.Variant, e.Tensor}] = e.payload
	}
	return out
}

// TestKilledAndResumed kills the writing process ten times, each time at another
// moment, and lets an eleventh finish: every payload is that of a run that was
// not disturbed, and none is there twice.
func TestKilledAndResumed(t *testing.T) {
	undisturbed := sessionPath(t)
	runJob(t, childJob(), undisturbed, strings.Split(childVariants, ",")...)
	want := payloads(t, undisturbed)

	path := sessionPath(t)
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	const kills = 10
	before := 0
	for i := range kills {
		// Each child is allowed somewhat more than the last, so that none gets to
		// the end, however late the kill comes.
		most := childTensors * (i + 1) / (kills + 1)
		p := startChild(t, hold(most, path))
		at := before + 1 + rng.IntN(3*most-before)
		if !p.until(at) {
			t.Fatalf("kill %d: the child ended before measurement %d", i, at)
		}
		if err := p.kill(); err == nil {
			t.Fatalf("kill %d: the child was not killed", i)
		}
		got := payloads(t, path)
		for k, p := range got {
			if !bytes.Equal(p, want[k]) {
				t.Fatalf("kill %d: another payload for %v", i, k)
			}
		}
		if len(got) < before {
			t.Fatalf("kill %d: of %d records %d are left", i, before, len(got))
		}
		before = len(got)
		st := openState(t, path)
		if st.Progress.State != RunInterrupted || st.Progress.Done != int64(len(got)) {
			t.Fatalf("kill %d: %+v with %d records", i, st.Progress, len(got))
		}
		t.Logf("kill %d at %d shown: %d recorded", i, at, len(got))
	}

	out, err := startChild(t, "run "+path).output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got := payloads(t, path)
	if !maps.EqualFunc(got, want, bytes.Equal) {
		t.Fatalf("%d records, an undisturbed run has %d, or others", len(got), len(want))
	}
	st := openState(t, path)
	if st.Progress.State != RunFinished || st.Progress.Done != int64(len(want)) || st.Progress.Failed != 0 {
		t.Errorf("%+v", st.Progress)
	}
	resumed := 0
	for _, e := range st.Log {
		if e.Kind == EventResumed {
			resumed++
			if !strings.Contains(e.Message, "interrupted") {
				t.Errorf("resumed: %q", e.Message)
			}
		}
	}
	if resumed != kills {
		t.Errorf("resumed %d times", resumed)
	}
	for _, suffix := range []string{"-wal", "-shm", ".lock", ".new"} {
		if _, err := os.Stat(path + suffix); err == nil {
			t.Errorf("%s is left beside a finished session", suffix)
		}
	}
}

// TestSecondWriterIsRefused within two seconds, by name; readers are welcome;
// a killed writer blocks nobody.
func TestSecondWriterIsRefused(t *testing.T) {
	path := sessionPath(t)
	p := startChild(t, hold(childTensors/2, path))
	if !p.until(1) {
		t.Fatal("the child measures nothing")
	}
	began := time.Now()
	_, err := StartJob(t.Context(), childJob(), Options{Session: path, Variants: []string{"f1"}})
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("refused after %v", took)
	}
	var busy *BusyError
	if !errors.As(err, &busy) || busy.Owner.PID != p.cmd.Process.Pid || !strings.Contains(err.Error(), path) {
		t.Fatalf("error %v, want one that names %s and process %d", err, path, p.cmd.Process.Pid)
	}
	if info, err := Inspect(path); err != nil || info.Writer != p.cmd.Process.Pid {
		t.Errorf("writer %d, %v; want %d", info.Writer, err, p.cmd.Process.Pid)
	}
	f, err := OpenSession(path)
	if err != nil {
		t.Fatal(err)
	}
	if f.Mode() != Follow {
		t.Errorf("mode %v", f.Mode())
	}
	st := f.Snapshot()
	until(t, f, st, func() bool { return st.Progress.Done == childTensors/2*3 }) // it reads along
	if err := p.kill(); err == nil {
		t.Fatal("the child was not killed")
	}
	until(t, f, st, func() bool { return st.Progress.State == RunInterrupted })
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, alive := lockfile.Holder(path + lockSuffix); alive {
		t.Error("the lock outlives its owner")
	}
	if p := runJob(t, childJob(), path, strings.Split(childVariants, ",")...); p.State != RunFinished {
		t.Errorf("taken over: %+v", p)
	}
}

// TestFollowEndsAsTheFile: what a reader alongside has gathered at the end is
// what a later reader opens.
func TestFollowEndsAsTheFile(t *testing.T) {
	path := sessionPath(t)
	p := startChild(t, "run "+path)
	if !p.until(1) {
		t.Fatal("the child measures nothing")
	}
	f, err := OpenSession(path)
	if err != nil {
		t.Fatal(err)
	}
	st := f.Snapshot()
	var modes []RunState
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for closed := false; !closed; {
		b, err := f.Next(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		st.Apply(b)
		modes = append(modes, st.Progress.State)
		closed = b.Closed
	}
	if out, err := p.output(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !slices.Contains(modes, RunRunning) || st.Progress.State != RunFinished {
		t.Errorf("states %v", modes)
	}
	diffStates(t, openState(t, path), st)
	if _, err := f.Detail(t.Context(), 0, 0); err != nil {
		t.Error(err)
	}
}
