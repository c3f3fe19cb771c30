//go:build linux || darwin

package checkpoint

import (
	"math"

	"golang.org/x/sys/unix"
)

// FreeBytes is how many bytes can still be written below a folder that
// exists; ok is false where the system does not tell.
func FreeBytes(dir string) (n int64, ok bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, false
	}
	size, blocks := uint64(st.Bsize), uint64(st.Bavail)
	if size != 0 && blocks > math.MaxInt64/size {
		return math.MaxInt64, true
	}
	return int64(blocks * size), true
}
