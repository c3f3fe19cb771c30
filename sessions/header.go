package sessions

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"modernc.org/sqlite"
)

const (
	// applicationID is "QSCP" as SQLite's application_id.
	applicationID = 0x51534350
	// formatVersion is the user_version that this program writes, and the newest
	// that it reads. Format 1 has no columns std and kurtosis in taps, format 2 no
	// tables yards, candidates, corpora and scores, format 3 none of calibrations, format
	// 4 none of recipes, format 5 none of gates, format 6 none of
	// biases, of matrices neither, and of hot tiers.
	formatVersion = 7

	sqliteMagic = "SQLite format 3\x00"
)

// A POSIX record lock goes when its process closes any descriptor of the file,
// so looking at the header of a session that this process writes would strip
// SQLite of its locks. Where the system has locks that belong to the
// descriptor, SQLite is told to use them. It must be said before the first file
// is opened; where it cannot be had, readHeader's caller takes care.
var descriptorLocks = func() bool {
	_, err := sqlite.OFDLocking(true)
	return err == nil
}()

// header is what the first hundred bytes of a session file say.
type header struct {
	version  int   // user_version
	pageSize int64 // bytes
	pages    int64 // in the whole file, 0 where it does not say
	size     int64 // of the file
}

// readHeader looks at a file without opening it as a database. Errors are
// *FileError; for a file that is no session they wrap ErrNotSession.
func readHeader(path string) (header, error) {
	info, err := os.Stat(path)
	if err != nil {
		return header{}, pathError(path, err)
	}
	if !info.Mode().IsRegular() { // opening a FIFO may wait for ever
		return header{}, &FileError{path, "is not a regular file", ErrNotSession}
	}
	for _, suffix := range []string{"-wal", "-shm", "-journal"} { // SQLite opens them too
		if info, err := os.Stat(path + suffix); err == nil && !info.Mode().IsRegular() {
			return header{}, &FileError{path, "has " + filepath.Base(path) + suffix + " beside it, which is not a regular file", ErrNotSession}
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return header{}, pathError(path, err)
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return header{}, pathError(path, err)
	}
	b := make([]byte, 100)
	n, err := io.ReadFull(f, b)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return header{}, pathError(path, err)
	}
	return parseHeader(path, b[:n], info.Size())
}

// parseHeader reads the fields that the SQLite file format puts at fixed
// places (https://www.sqlite.org/fileformat.html, section 1.3).
func parseHeader(path string, b []byte, size int64) (header, error) {
	switch {
	case size == 0:
		return header{}, &FileError{path, "is empty, not a session", ErrNotSession}
	case len(b) < len(sqliteMagic) || string(b[:len(sqliteMagic)]) != sqliteMagic:
		return header{}, &FileError{path, "is not a session: not an SQLite file", ErrNotSession}
	case len(b) < 100:
		return header{}, &FileError{path, fmt.Sprintf("is not a session: cut short after %d bytes", size), ErrNotSession}
	}
	if id := binary.BigEndian.Uint32(b[68:]); id != applicationID {
		return header{}, &FileError{path, fmt.Sprintf("is not a session: an SQLite file of another program (application_id %#x, a session has %#x)", id, applicationID), ErrNotSession}
	}
	h := header{version: int(int32(binary.BigEndian.Uint32(b[60:]))), pageSize: int64(binary.BigEndian.Uint16(b[16:])), size: size}
	if h.pageSize == 1 {
		h.pageSize = 65536
	}
	// The page count holds only where the two change counters agree.
	if binary.BigEndian.Uint32(b[24:]) == binary.BigEndian.Uint32(b[92:]) {
		h.pages = int64(binary.BigEndian.Uint32(b[28:]))
	}
	if h.version > formatVersion {
		return h, &FileError{Path: path, Reason: fmt.Sprintf("has format %d, this program reads up to format %d", h.version, formatVersion)}
	}
	if h.version < 1 {
		return h, &FileError{Path: path, Reason: fmt.Sprintf("has format %d, which never was", h.version)}
	}
	return h, nil
}

// missing says what of the file is not there; "" for a whole one. A file whose
// log was not folded in yet may be shorter, so it is not asked then.
func (h header) missing() string {
	if want := h.pages * h.pageSize; h.size < want {
		return fmt.Sprintf("cut short: %d bytes of %d are there", h.size, want)
	}
	if h.pageSize > 0 && h.size%h.pageSize != 0 {
		return fmt.Sprintf("%d bytes long, not a multiple of its pages of %d", h.size, h.pageSize)
	}
	return ""
}

// pathError is what the system said of a path, once.
func pathError(path string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return &FileError{path, pe.Op, pe.Err}
	}
	return &FileError{path, "read", err}
}

// IsSession says whether the file is a session of any format, newer ones
// included; a folder is none. An error says that it could not be looked at, or
// wraps ErrNotSession where nothing else is meant by it: it is neither a file
// nor a folder, or it is called *.qscope and holds something else.
func IsSession(path string) (bool, error) {
	if !descriptorLocks && isOpen(path) {
		return true, nil
	}
	h, err := readHeader(path)
	switch {
	case err == nil, h.version != 0:
		return true, nil
	case !errors.Is(err, ErrNotSession):
		return false, err
	}
	info, statErr := os.Stat(path)
	switch {
	case statErr != nil:
		return false, pathError(path, statErr)
	case info.IsDir():
		return false, nil
	case !info.Mode().IsRegular(), filepath.Ext(path) == Extension:
		return false, err
	}
	return false, nil
}

// walSize is the size of the write-ahead log beside a session, 0 where there is
// none.
func walSize(path string) int64 {
	info, err := os.Stat(path + "-wal")
	if err != nil {
		return 0
	}
	return info.Size()
}

// DefaultDir is where sessions go when no file is named: $XDG_STATE_HOME/quantscope/sessions,
// ~/.local/state where that is not set. It need not exist.
func DefaultDir() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // the specification: relative paths are ignored
		home, err := os.UserHomeDir()
		if err != nil {
			return "", &EnvError{Path: "~", Reason: "no folder for sessions (name one with --session)", Err: err}
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "quantscope", "sessions"), nil
}
