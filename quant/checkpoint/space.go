package checkpoint

import (
	"fmt"
	"syscall"
)

// CheckSpace wants room for need more bytes below a folder that exists. The
// error wraps syscall.ENOSPC. Where the system does not tell it is nil.
func CheckSpace(dir string, need int64) error {
	free, ok := FreeBytes(dir)
	if !ok || need <= free {
		return nil
	}
	return &FileError{File: dir, Reason: fmt.Sprintf("needs %d bytes, %d are free", need, free), Err: syscall.ENOSPC}
}
