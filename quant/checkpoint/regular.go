package checkpoint

import (
	"fmt"
	"io/fs"
	"os"
)

// OpenRegular opens a file for reading, and only a regular one: opening a named pipe
// would wait for whoever writes to it, and a device has no end. Links are followed.
// Errors name the file.
func OpenRegular(path string) (*os.File, fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, absent(path, path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, nil, &FileError{File: path, Reason: fmt.Sprintf("is not a regular file (%s)", info.Mode().Type())}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, SystemError(path, err)
	}
	if info, err = f.Stat(); err == nil {
		return f, info, nil
	}
	_ = f.Close()
	return nil, nil, SystemError(path, err)
}
