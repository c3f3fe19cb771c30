// Package lockfile keeps a second writer away from a file.
//
// Promises: a lock is the operating system's, on a file beside the guarded one,
// so it ends with its process however that ends, and a file that a dead process
// left behind blocks nobody. Who holds it is written in the file, for messages
// only. Looking whether somebody holds it needs no right to write.
package lockfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// Owner is who holds a lock.
type Owner struct {
	PID     int       `json:"pid"`
	Host    string    `json:"host"`
	Started time.Time `json:"started"` // when it took the lock
}

// Busy says that somebody else holds a lock.
type Busy struct {
	Path  string // of the lock file
	Owner Owner  // zero where it did not say
}

func (b *Busy) Error() string {
	if b.Owner.PID == 0 {
		return "held by another process"
	}
	return fmt.Sprintf("held by process %d on %s since %s", b.Owner.PID, b.Owner.Host, b.Owner.Started.Local().Format("2006-01-02 15:04:05"))
}

// Lock is a held lock.
type Lock struct {
	path string
	f    *os.File
}

var errNotRegular = errors.New("not a regular file")

// pause is between two attempts.
const pause = 20 * time.Millisecond

// Acquire takes the lock at path. Somebody else's is waited for as long as
// patience; after that the error is a *Busy. A little patience bridges the
// moment in which another process only looks.
func Acquire(path string, patience time.Duration) (*Lock, error) {
	deadline := time.Now().Add(patience)
	for {
		l, err := try(path)
		if err == nil || !errors.As(err, new(*Busy)) || !time.Now().Before(deadline) {
			return l, err
		}
		<-time.After(pause)
	}
}

// try takes the lock or says why not. The file may have been removed by its
// last owner between opening and locking it: a lock on a file that is not at
// path any more guards nothing, so that is tried anew.
func try(path string) (*Lock, error) {
	for {
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			return nil, &fs.PathError{Op: "lock", Path: path, Err: errNotRegular}
		}
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, err
		}
		if err := lock(f, true); err != nil {
			owner := readOwner(f)
			_ = f.Close() // nothing was written
			if errors.Is(err, errHeld) {
				return nil, &Busy{path, owner}
			}
			return nil, &fs.PathError{Op: "lock", Path: path, Err: err}
		}
		if same(path, f) {
			l := &Lock{path, f}
			if err := l.sign(); err != nil {
				return nil, errors.Join(err, l.Release())
			}
			return l, nil
		}
		_ = f.Close() // nothing was written
	}
}

func same(path string, f *os.File) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(path)
	return err == nil && os.SameFile(a, b)
}

// sign writes who holds the lock.
func (l *Lock) sign() error {
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	b, err := json.Marshal(Owner{os.Getpid(), host, time.Now().Round(time.Millisecond)})
	if err != nil {
		return err
	}
	if err := l.f.Truncate(0); err != nil {
		return err
	}
	_, err = l.f.WriteAt(append(b, '\n'), 0)
	return err
}

// Release gives the lock up and removes its file, while the lock is held, so
// that no one else's is removed. A file that cannot be removed blocks nobody.
func (l *Lock) Release() error {
	_ = os.Remove(l.path)
	return l.f.Close()
}

// Holder is who holds the lock at path, if anybody does.
func Holder(path string) (Owner, bool) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() { // opening a FIFO may wait for ever
		return Owner{}, false
	}
	f, err := os.Open(path)
	if err != nil {
		return Owner{}, false
	}
	defer f.Close()
	if err := lock(f, false); !errors.Is(err, errHeld) {
		return Owner{}, false // and what was locked goes with the descriptor
	}
	return readOwner(f), true
}

// readOwner is what the file says of its owner; zero where it says nothing yet.
func readOwner(f *os.File) Owner {
	b := make([]byte, 512)
	n, _ := f.ReadAt(b, 0) // a short file is the usual case
	var o Owner
	if json.Unmarshal(b[:n], &o) != nil {
		return Owner{}
	}
	return o
}
