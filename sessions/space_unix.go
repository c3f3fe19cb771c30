//go:build unix

package sessions

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// noSpace says why a write to a file of this size failed, if that is for want
// of space: SQLite tells only that it did. need is how much was about to be
// written, roughly.
func noSpace(path string, size, need int64) (reason string) {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_FSIZE, &limit) == nil && uint64(limit.Cur) < uint64(size+need) {
		return fmt.Sprintf("no space: this process may not write files beyond %d bytes", limit.Cur)
	}
	var st unix.Statfs_t
	if unix.Statfs(path, &st) == nil && uint64(st.Bavail)*uint64(st.Bsize) < uint64(need) {
		return "no space left on the device"
	}
	return ""
}

// gone says whether a read failed because its source is not there any more. An
// I/O error is not among the reasons: a bad block concerns one tensor.
func gone(err error) bool {
	for _, e := range []error{os.ErrNotExist, unix.ESTALE, unix.ENODEV, unix.ENXIO, unix.ENOTCONN} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
