package checkpoint

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// tempSuffix ends the names of files that are being written. No reader here
// takes such a file for part of a checkpoint.
const tempSuffix = ".tmp"

// atomicFile is a file that gets its name when it is complete: it is written
// under a temporary name in the same folder, synced, renamed, and the folder
// is synced.
type atomicFile struct {
	*os.File
	path string // the final one
}

// createAtomic makes the temporary file. Its permissions are those of any new
// file, by the umask.
func createAtomic(path string) (*atomicFile, error) {
	dir, name := filepath.Split(path)
	for {
		var random [6]byte
		if _, err := rand.Read(random[:]); err != nil {
			return nil, systemError(path, err)
		}
		temp := filepath.Join(dir, "."+name+"."+hex.EncodeToString(random[:])+tempSuffix)
		f, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, systemError(path, err)
		}
		return &atomicFile{f, path}, nil
	}
}

// commit makes the file durable under its name. On an error it is gone.
func (f *atomicFile) commit() error {
	if err := f.Sync(); err != nil {
		return f.abandon(systemError(f.path, err))
	}
	if err := f.Close(); err != nil {
		return f.abandon(systemError(f.path, err))
	}
	if err := os.Rename(f.Name(), f.path); err != nil {
		return f.abandon(systemError(f.path, err))
	}
	return SyncDir(filepath.Dir(f.path))
}

// abandon closes and removes the temporary file and returns the reason for
// that, with a note where the file could not be removed.
func (f *atomicFile) abandon(why *FileError) *FileError {
	_ = f.Close() // what it holds is thrown away
	if err := os.Remove(f.Name()); err != nil {
		why.Reason = "temporary file " + printable(f.Name()) + " is left behind; " + why.Reason
	}
	return why
}

// SyncDir makes the names in a folder durable. Systems and file systems that
// cannot sync a folder are left as they are.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return systemError(dir, err)
	}
	defer d.Close()
	err = d.Sync()
	if err == nil || errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return systemError(dir, err)
}

// AtomicWriteFile writes a whole file. At every moment the path holds the old
// content, or none where there was none, or the new content whole; when it
// returns without an error the new one is durable. Errors are *FileError.
func AtomicWriteFile(path string, data []byte) error {
	f, err := createAtomic(path)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return f.abandon(systemError(path, err))
	}
	return f.commit()
}

// AtomicFile is a file that gets its name when it is complete, for whoever
// writes what does not fit into memory.
type AtomicFile struct {
	f    *atomicFile
	done bool
}

// CreateAtomic begins one. What is at path stays until Commit.
func CreateAtomic(path string) (*AtomicFile, error) {
	f, err := createAtomic(path)
	if err != nil {
		return nil, err
	}
	return &AtomicFile{f: f}, nil
}

// WriteAt writes bytes at a place in the file.
func (a *AtomicFile) WriteAt(p []byte, off int64) (int, error) { return a.f.WriteAt(p, off) }

// Commit makes the file durable under its name; on an error it is gone.
func (a *AtomicFile) Commit() error {
	a.done = true
	return a.f.commit()
}

// Abandon removes the temporary file. It says where that could not be done;
// after Commit it does nothing.
func (a *AtomicFile) Abandon() error {
	if a.done {
		return nil
	}
	a.done = true
	if why := a.f.abandon(&FileError{File: a.f.path}); why.Reason != "" {
		why.Reason = strings.TrimSuffix(why.Reason, "; ")
		return why
	}
	return nil
}
