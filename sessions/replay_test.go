package sessions

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// replaySession is a session with everything in it: two runs, a failure that was
// tried again, a pause, a finding, a variant that was added, and idle hours.
func replaySession(t *testing.T) string {
	t.Helper()
	path := sessionPath(t)
	job, src := fakeJob(40)
	clock := &fixedClock{now: time.UnixMilli(1_700_000_000_000)}
	src.read = func(i int) error {
		clock.add(time.Duration(50+i*10) * time.Millisecond)
		if i == 11 {
			return errors.New("a bad block")
		}
		return nil
	}
	run := func(variants ...string) {
		l, err := StartJob(t.Context(), job, Options{Session: path, Variants: variants, Threads: 2, Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		_, err = l.Wait(t.Context())
		if err := errors.Join(err, l.Close()); err != nil {
			t.Fatal(err)
		}
	}
	run("f1", "f2")
	clock.add(5 * time.Hour)
	src.read = func(i int) error {
		clock.add(300 * time.Millisecond)
		return nil
	}
	run("f1", "f3")
	return path
}

// played follows a player, by its own state.
type played struct {
	t  *testing.T
	p  Player
	st *State
}

func play(t *testing.T, path string, speed float64) *played {
	t.Helper()
	p, err := OpenReplay(path, speed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return &played{t, p, p.Snapshot()}
}

// next takes one batch; false when none comes within a minute.
func (p *played) next() bool {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	b, err := p.p.Next(ctx, 33*time.Millisecond)
	if errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if err != nil {
		p.t.Fatal(err)
	}
	if b.Closed {
		p.t.Fatal("a replay closes")
	}
	p.st.Apply(b)
	return true
}

func (p *played) toEnd() {
	p.t.Helper()
	for pos := p.p.Position(); pos.AtUS < pos.EndUS || pos.Playing; pos = p.p.Position() {
		p.next()
	}
	for p.next() {
	}
}

// TestReplayEndsAsAFreshOpen plays at the fastest in fake time, straight through
// and after being driven about.
func TestReplayEndsAsAFreshOpen(t *testing.T) {
	path := replaySession(t)
	want := openState(t, path)
	if want.Progress.Done != 120 || len(want.Variants) != 3 {
		t.Fatalf("the session holds %+v", want.Progress)
	}
	synctest.Test(t, func(t *testing.T) {
		p := play(t, path, 64)
		began := time.Now()
		p.toEnd()
		diffStates(t, want, p.st)
		if pos := p.p.Position(); pos.Playing || pos.AtUS != pos.EndUS {
			t.Errorf("at the end: %+v", pos)
		}
		t.Logf("%v of session time in %v", time.Duration(p.p.Position().EndUS)*time.Microsecond, time.Since(began))

		p.p.SeekTo(0)
		p.next()
		if p.st.Progress.Done != 0 || p.st.LastSeq == 0 {
			t.Errorf("at the beginning: %+v", p.st.Progress)
		}
		p.p.Play()
		p.toEnd()
		diffStates(t, want, p.st)

		rng := rand.New(rand.NewPCG(3, 9))
		end := p.p.Position().EndUS
		for range 60 {
			switch rng.IntN(5) {
			case 0:
				p.p.SeekTo(rng.Int64N(end+2000) - 1000)
			case 1:
				p.p.Step(rng.IntN(41) - 20)
			case 2:
				p.p.SetSpeed(rng.Float64() * 70)
			case 3:
				p.p.Play()
			case 4:
				p.p.Pause()
			}
			if rng.IntN(2) == 0 {
				p.next()
			}
		}
		p.p.SetSpeed(64)
		p.p.SeekTo(end - 1)
		p.p.Play()
		p.toEnd()
		diffStates(t, want, p.st)
	})
}

// TestPlayAtTheEndStartsAgain: from nothing, through all events, to the same end.
// Where it stands elsewhere Play goes on from there.
func TestPlayAtTheEndStartsAgain(t *testing.T) {
	path := replaySession(t)
	want := openState(t, path)
	synctest.Test(t, func(t *testing.T) {
		p := play(t, path, 0.25) // slow, so that a frame shows a small part however short the session came out
		p.toEnd()
		p.p.Play()
		if pos := p.p.Position(); !pos.Playing || pos.AtUS != 0 {
			t.Fatalf("after Play at the end: %+v", pos)
		}
		p.next()
		if p.st.Progress.Done == want.Progress.Done || p.st.LastSeq >= want.LastSeq {
			t.Errorf("the state is still the end's: %+v", p.st.Progress)
		}
		p.toEnd()
		diffStates(t, want, p.st)

		middle := p.p.Position().EndUS / 2
		p.p.Pause()
		p.p.SeekTo(middle)
		p.p.Play()
		if pos := p.p.Position(); !pos.Playing || pos.AtUS != middle {
			t.Errorf("after Play in the middle, at %d: %+v", middle, pos)
		}
	})
}

// TestReplayIsAsFastAsAsked: idle gaps last one second of the replay, and speed
// divides.
func TestReplayIsAsFastAsAsked(t *testing.T) {
	path := replaySession(t)
	st := openState(t, path)
	if st.LastUS < int64(5*time.Hour/time.Microsecond) {
		t.Fatal("the session has no idle hours")
	}
	synctest.Test(t, func(t *testing.T) {
		for _, speed := range []float64{0.25, 1, 8, 64} {
			p := play(t, path, speed)
			end := p.p.Position().EndUS
			if end > int64(time.Minute/time.Microsecond) {
				t.Errorf("idle time is not shortened: %d", end)
			}
			began := time.Now()
			for p.p.Position().Playing {
				p.next()
			}
			want := time.Duration(float64(end)/speed) * time.Microsecond
			if took := time.Since(began); took < want || took > want+100*time.Millisecond {
				t.Errorf("speed %g: %v, want %v", speed, took, want)
			}
		}
	})
}

// TestReplayShowsWhatWasSeenLive: at each step the counts are those of the events
// so far, and the state of the run is what it was.
func TestReplayShowsWhatWasSeenLive(t *testing.T) {
	path := replaySession(t)
	synctest.Test(t, func(t *testing.T) {
		p := play(t, path, 1)
		p.p.Pause()
		p.p.SeekTo(0)
		states := map[RunState]bool{}
		var began, before0 int64 // of the run: when, and what was measured by then
		for step := 0; ; step++ {
			p.p.Step(1)
			if !p.next() {
				break
			}
			before := p.st.Clone()
			before.count()
			if before.Progress.Done != p.st.Progress.Done || before.Progress.Failed != p.st.Progress.Failed || before.Progress.Total != p.st.Progress.Total {
				t.Fatalf("step %d: progress %+v, records say %+v", step, p.st.Progress, before.Progress)
			}
			states[p.st.Progress.State] = true
			if last := len(p.st.Log) - 1; p.st.Log[last].Seq == p.st.LastSeq && (p.st.Log[last].Kind == EventStarted || p.st.Log[last].Kind == EventResumed) {
				began, before0 = p.st.LastUS, p.st.Progress.Done
			}
			// Two readers turn the clock while others measure, so how fast it looks is
			// chance and may be none; no rate is more than all of the run within its window of 3 s, of
			// which the last step may be short.
			r := p.st.Progress.WeightsPerSec
			span := min(float64(p.st.LastUS-began)/1e6, 2.5)
			if most := float64(256*(p.st.Progress.Done-before0)) / span; span > 0 && r > most*(1+1e-9) {
				t.Errorf("step %d: %g weights/s, of at most %g", step, r, most)
			}
		}
		if !states[RunRunning] || !states[RunFinished] || states[RunInterrupted] {
			t.Errorf("states %v", states)
		}
		// A step back undoes a step.
		at := p.st.LastSeq
		for _, n := range []int{-5, 5, -7, 7} {
			p.p.Step(n)
			p.next()
		}
		if p.st.LastSeq != at {
			t.Errorf("at event %d, not %d", p.st.LastSeq, at)
		}
		p.p.Step(-100_000)
		p.next()
		if p.st.LastSeq != 0 || len(p.st.Variants) != 0 || len(p.st.Log) != 0 {
			t.Errorf("before the beginning: %+v", p.st)
		}
	})
}

// TestReplayOfAnInterruptedSession ends as interrupted, and counts a failure
// that was never tried again.
func TestReplayOfAnInterruptedSession(t *testing.T) {
	path := sessionPath(t)
	job, src := fakeJob(10)
	src.read = func(i int) error {
		if i == 4 {
			return errors.New("a bad block")
		}
		return nil
	}
	runJob(t, job, path, "f1")
	execSQL(t, path, "delete from events where kind = 'finished'", "delete from log where kind = 'finished'")
	want := openState(t, path)
	if want.Progress.State != RunInterrupted || want.Progress.Failed != 1 {
		t.Fatalf("%+v", want.Progress)
	}
	synctest.Test(t, func(t *testing.T) {
		p := play(t, path, 64)
		p.toEnd()
		diffStates(t, want, p.st)
	})
}

func TestReplayRefusesSpeeds(t *testing.T) {
	path := replaySession(t)
	for _, speed := range []float64{0, 0.2, 65, -1} {
		if _, err := OpenReplay(path, speed); err == nil {
			t.Errorf("speed %g", speed)
		}
	}
	if _, err := OpenReplay(path+"x", 1); err == nil {
		t.Error("a missing file")
	}
}

// TestReplayReadsDetails as a saved session does.
func TestReplayReadsDetails(t *testing.T) {
	path := replaySession(t)
	p, err := OpenReplay(path, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	s, err := OpenSession(path)
	if err != nil {
		t.Fatal(err)
	}
	a, err := p.Detail(t.Context(), 2, 39)
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Detail(t.Context(), 2, 39)
	if err != nil {
		t.Fatal(err)
	}
	if a != b || a.Elements != 256 {
		t.Errorf("%+v\n%+v", a, b)
	}
}
