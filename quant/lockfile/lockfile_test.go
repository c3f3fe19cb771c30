package lockfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.lock")
	if _, held := Holder(path); held {
		t.Error("a lock that is not there is held")
	}
	l, err := Acquire(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	owner, held := Holder(path)
	if !held || owner.PID != os.Getpid() || time.Since(owner.Started) > time.Minute {
		t.Errorf("%+v, %v", owner, held)
	}
	began := time.Now()
	_, err = Acquire(path, 100*time.Millisecond)
	var busy *Busy
	if !errors.As(err, &busy) || busy.Owner.PID != os.Getpid() || !strings.Contains(err.Error(), "process") {
		t.Errorf("a second one: %v", err)
	}
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("no patience: %v", took)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the file is left")
	}
	if _, held := Holder(path); held {
		t.Error("it is held after its release")
	}
}

// TestFileOfADeadProcess blocks nobody.
func TestFileOfADeadProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.lock")
	if err := os.WriteFile(path, []byte(`{"pid":1,"host":"elsewhere"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, held := Holder(path); held {
		t.Error("a dead process holds it")
	}
	l, err := Acquire(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	if owner, held := Holder(path); !held || owner.PID != os.Getpid() {
		t.Errorf("%+v, %v", owner, held)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
}

// TestOneAtATime: many contenders, each for a moment, while others look.
func TestOneAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.lock")
	var inside atomic.Int32
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				Holder(path)
				l, err := Acquire(path, time.Minute)
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d at once", n)
				}
				inside.Add(-1)
				if err := l.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func TestNoFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "no", "x.lock")
	if _, err := Acquire(path, time.Minute); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
