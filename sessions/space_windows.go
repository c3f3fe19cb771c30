package sessions

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// noSpace says why a write to a file failed, if that is for want of space:
// SQLite tells only that it did. need is how much was about to be written,
// roughly.
func noSpace(path string, _, need int64) (reason string) {
	var free uint64
	p, err := windows.UTF16PtrFromString(path)
	if err == nil && windows.GetDiskFreeSpaceEx(p, &free, nil, nil) == nil && free < uint64(need) {
		return "no space left on the device"
	}
	return ""
}

// gone says whether a read failed because its source is not there any more.
func gone(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, windows.ERROR_DEV_NOT_EXIST) || errors.Is(err, windows.ERROR_BAD_NETPATH)
}
