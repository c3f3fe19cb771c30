package sessions

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"quantscope/quant/lockfile"
)

// lockSuffix is what the name of a session's lock file ends in.
const lockSuffix = ".lock"

// busyTimeout is how long SQLite waits for another connection's lock, in
// milliseconds. Readers hold theirs for one query and the writer commits in
// milliseconds, so only a stalled disk comes near it.
const busyTimeout = 1500

// dsn names a database for the driver. Every character that SQLite's URI
// syntax gives a meaning to is escaped. A session may come from anywhere, so
// its schema is not trusted and pages are checked when they are read.
func dsn(path, options string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(abs)}
	if filepath.VolumeName(abs) != "" {
		u.Path = "/" + u.Path
	}
	u.RawPath = ""
	return fmt.Sprintf("%s?_pragma=busy_timeout(%d)&_pragma=trusted_schema(0)&_pragma=cell_size_check(1)%s", u.String(), busyTimeout, options), nil
}

// primaryCode is SQLite's result code without its extension; 0 for other errors.
func primaryCode(err error) int {
	var se *sqlite.Error
	if errors.As(err, &se) {
		return se.Code() & 0xff
	}
	return 0
}

// damaged says whether the error means that a part of the file is broken.
func damaged(err error) bool {
	switch primaryCode(err) {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return true
	}
	return false
}

// openPaths counts what this process has open as databases, by absolute path;
// see descriptorLocks.
var openPaths struct {
	sync.Mutex
	n map[string]int
}

func markOpen(path string, by int) {
	abs, err := filepath.Abs(path)
	if err != nil {
		abs = path
	}
	openPaths.Lock()
	defer openPaths.Unlock()
	if openPaths.n == nil {
		openPaths.n = map[string]int{}
	}
	if openPaths.n[abs] += by; openPaths.n[abs] == 0 {
		delete(openPaths.n, abs)
	}
}

func isOpen(path string) bool {
	abs, err := filepath.Abs(path)
	if err != nil {
		abs = path
	}
	openPaths.Lock()
	defer openPaths.Unlock()
	return openPaths.n[abs] > 0
}

// reader reads a session file. It writes nothing to it and is meant to be open
// for one look only: a writer may come at any time.
type reader struct {
	path    string
	db      *sql.DB
	missing string // what of the file is not there; "" for a whole one
	temp    string // folder of a copy, "" where there is none
}

// openReader opens a session for reading. See openFile.
func openReader(ctx context.Context, path string) (*reader, error) {
	return openFile(ctx, path, false)
}

// openFile opens a session for reading. locked says that the caller holds its
// lock, so that nobody writes it.
//
// A file with a log beside it, or a writer, is read through the log, for which
// SQLite needs a shared-memory file beside it. Any other file is opened as
// immutable: that leaves nothing behind and works in a folder that cannot be
// written. A log in such a folder is read from a copy.
func openFile(ctx context.Context, path string, locked bool) (*reader, error) {
	var h header
	var err error
	if descriptorLocks || !isOpen(path) {
		if h, err = readHeader(path); err != nil {
			return nil, err
		}
	}
	const attempts = 3 // a writer may close, and take its log away, in between
	for i := 0; ; i++ {
		r, err := openOnce(ctx, path, h, locked)
		if err == nil {
			return r, nil
		}
		_ = r.Close() // the first error says more
		if i == attempts-1 || damaged(err) || ctx.Err() != nil {
			return nil, err
		}
	}
}

func openOnce(ctx context.Context, path string, h header, locked bool) (*reader, error) {
	written := false
	if !locked {
		_, written = lockfile.Holder(path + lockSuffix)
	}
	if walSize(path) == 0 && !written {
		r := &reader{path: path, missing: h.missing()}
		options := "&mode=ro&immutable=1"
		if r.missing != "" {
			options += "&_pragma=writable_schema(1)" // else SQLite refuses a short file whole
		}
		return r, r.open(ctx, path, options)
	}
	r := &reader{path: path}
	err := r.open(ctx, path, "&mode=ro")
	if err == nil || walSize(path) == 0 {
		return r, err
	}
	switch primaryCode(err) {
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
	default:
		return r, err
	}
	copied, err := r.copy()
	if err != nil {
		return r, err
	}
	return r, r.open(ctx, copied, "&mode=ro")
}

// open connects and proves it by reading the schema.
func (r *reader) open(ctx context.Context, path, options string) error {
	name, err := dsn(path, options)
	if err != nil {
		return &FileError{r.path, "open", err}
	}
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return &FileError{r.path, "open", err}
	}
	var n int
	if err := db.QueryRowContext(ctx, "select count(*) from sqlite_schema where name = 'events'").Scan(&n); err != nil {
		_ = db.Close() // nothing was written
		if damaged(err) {
			reason := "is damaged"
			if r.missing != "" {
				reason += ": " + r.missing
			}
			return &FileError{r.path, reason, err}
		}
		return &FileError{r.path, "open", err}
	}
	if n == 0 {
		_ = db.Close() // nothing was written
		return &FileError{Path: r.path, Reason: "is damaged: it has no events"}
	}
	r.db = db
	markOpen(r.path, 1)
	return nil
}

// copy copies the file and its log to a folder that can be written.
func (r *reader) copy() (string, error) {
	dir, err := os.MkdirTemp("", "quantscope-")
	if err != nil {
		return "", &EnvError{Path: os.TempDir(), Reason: "no place for a copy of " + r.path + ", whose folder cannot be written", Err: err}
	}
	r.temp = dir
	to := filepath.Join(dir, "session.qscope")
	for _, suffix := range []string{"", "-wal"} {
		if err := copyFile(to+suffix, r.path+suffix); err != nil {
			_ = os.RemoveAll(dir) // the copy's error says more
			return "", &EnvError{Path: dir, Reason: "copy of " + r.path + ", whose folder cannot be written", Err: err}
		}
	}
	return to, nil
}

func copyFile(to, from string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(dst, src); err != nil {
		_ = dst.Close() // the copy's error says more
		return err
	}
	return dst.Close()
}

// Close closes the file.
func (r *reader) Close() error {
	var errs []error
	if r.db != nil {
		errs = append(errs, r.db.Close())
		markOpen(r.path, -1)
		r.db = nil
	}
	if r.temp != "" {
		errs = append(errs, os.RemoveAll(r.temp))
	}
	return errors.Join(errs...)
}

// each runs a query below database/sql, whose conversions take as long as
// SQLite itself, and hands every row to f. The row is valid until f returns;
// blobs and texts in it may be kept.
func each(ctx context.Context, c *sql.Conn, query string, f func(row []driver.Value) error, args ...driver.Value) error {
	return c.Raw(func(dc any) error {
		q, ok := dc.(driver.QueryerContext)
		if !ok {
			return errors.New("the SQLite driver takes no queries")
		}
		named := make([]driver.NamedValue, len(args))
		for i, a := range args {
			named[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
		}
		rows, err := q.QueryContext(ctx, query, named)
		if err != nil {
			return err
		}
		defer rows.Close()
		row := make([]driver.Value, len(rows.Columns()))
		for {
			switch err := rows.Next(row); {
			case err == io.EOF:
				return nil
			case err != nil:
				return err
			}
			if err := f(row); err != nil {
				return err
			}
		}
	})
}
