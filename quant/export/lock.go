package export

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"quantscope/quant/checkpoint"
	"quantscope/quant/lockfile"
)

// ErrBusy is wrapped by the error about a part that another process writes.
var ErrBusy = errors.New("busy")

// lockName is the file whose lock a part's writer holds.
func lockName(part, of int) string {
	return "." + checkpoint.UnfinishedPrefix + "-" + partTag(part, of) + ".lock"
}

// lock keeps other processes away from this part, whose temporary files and mark
// have one name for all. A file system that knows no locks keeps nobody away.
func (w *Writer) lock() error {
	path := w.path(lockName(w.part.Part, w.part.Of))
	held, err := lockfile.Acquire(path, 0)
	var busy *lockfile.Busy
	switch {
	case err == nil:
		w.held = held
	case errors.As(err, &busy):
		return fmt.Errorf("%w %s: %w: part %d of %d is %w", ErrOutput, w.dir, ErrBusy, w.part.Part, w.part.Of, busy)
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, syscall.ENOLCK):
		_ = os.Remove(path) // guards nothing
	default:
		return systemError(path, err)
	}
	return nil
}

// unlock lets others in; its file goes with the lock.
func (w *Writer) unlock() {
	if w.held != nil {
		_ = w.held.Release() // of a file that says nothing
		w.held = nil
	}
}

// dropLocks removes the files of locks that nobody holds, which parts leave that
// were killed in their last moment.
func (d folder) dropLocks() {
	paths, _ := filepath.Glob(filepath.Join(escapeGlob(d.dir), lockFiles)) // the pattern is good
	for _, path := range paths {
		if l, err := lockfile.Acquire(path, 0); err == nil {
			_ = l.Release()
		}
	}
}

const lockFiles = "." + checkpoint.UnfinishedPrefix + "-part-*.lock"
