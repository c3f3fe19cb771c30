package lockfile

import (
	"os"

	"golang.org/x/sys/windows"
)

var errHeld error = windows.ERROR_LOCK_VIOLATION

// lock takes a lock that belongs to the open file: exclusive, or shared with
// others that only look. It does not wait. The locked byte lies far behind the
// text, which others must be able to read.
func lock(f *os.File, exclusive bool) error {
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if exclusive {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	return windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{OffsetHigh: 1})
}
