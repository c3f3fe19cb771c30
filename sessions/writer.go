package sessions

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"quantscope/quant/checkpoint"
	"quantscope/quant/lockfile"
)

// lockPatience bridges the moment in which another process looks whether the
// session is held. A writer that is really there is reported well within 2 s.
const lockPatience = time.Second

// file is a session file that this process writes. Its methods are for one
// goroutine.
type file struct {
	path string
	lock *lockfile.Lock
	db   *sql.DB
	conn *sql.Conn
	in   *inserts
	info os.FileInfo // of the file that is open; nil before
}

// BusyError says that another process writes a session.
type BusyError struct {
	Path  string
	Owner lockfile.Owner // zero where it did not say
}

func (e *BusyError) Error() string {
	return "sessions: " + e.Path + ": a second writer is refused: " + (&lockfile.Busy{Owner: e.Owner}).Error()
}

// lockSession takes the right to write a session, which need not exist.
func lockSession(path string) (*lockfile.Lock, error) {
	l, err := lockfile.Acquire(path+lockSuffix, lockPatience)
	var busy *lockfile.Busy
	switch {
	case err == nil:
		return l, nil
	case errors.As(err, &busy):
		return nil, &BusyError{path, busy.Owner}
	}
	if _, statErr := os.Stat(filepath.Dir(path)); errors.Is(statErr, fs.ErrNotExist) {
		return nil, &EnvError{Path: filepath.Dir(path), Reason: "no such folder, so " + filepath.Base(path) + " cannot be written there"}
	}
	return nil, envError(path, "cannot be written", err)
}

// The write-ahead log lets readers read while this process writes. With
// synchronous=FULL each commit is synced: there are at most a few in a second,
// so that costs little, and what was committed survives a power cut. (NORMAL
// would sync only when the log is folded in, some 4 MB later.)
const writeOptions = "&mode=rw&_pragma=synchronous(full)&_pragma=journal_mode(wal)"

// create makes a new session file that holds the events which fill puts. The file appears
// under its name when it is whole: it is made under another one, synced and
// renamed. The lock on path must be held.
func create(ctx context.Context, path string, fill func(put func(e *stored) error) error) (err error) {
	temp := path + ".new" // of the holder of the lock; one from a dead process is overwritten
	defer func() {
		if err != nil {
			removeSession(temp)
		}
	}()
	removeSession(temp)
	if err := createEmpty(temp); err != nil {
		return envError(path, "cannot be created", err)
	}
	if err := build(ctx, temp, fill); err != nil {
		err = writeError(temp, err)
		var env *EnvError
		if errors.As(err, &env) {
			env.Path = path
		}
		return err
	}
	if _, err := os.Lstat(path); err == nil {
		return &FileError{Path: path, Reason: "is there already"}
	}
	// The log of a session that was removed while it was written is not this
	// one's: SQLite would take it for it.
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return envError(path+suffix, "is left from a session that is gone and cannot be removed", err)
		}
	}
	if err := os.Rename(temp, path); err != nil {
		return envError(path, "cannot be created", err)
	}
	if err := checkpoint.SyncDir(filepath.Dir(path)); err != nil {
		return envError(path, "cannot be created", err)
	}
	return nil
}

// createAndOpen makes a session file and opens it. It releases the lock on any
// error.
func createAndOpen(ctx context.Context, path string, lock *lockfile.Lock, first []stored) (*file, error) {
	err := create(ctx, path, func(put func(e *stored) error) error {
		for i := range first {
			if err := put(&first[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	return open(ctx, path, lock)
}

func createEmpty(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// removeSession removes a file that was not finished, with what SQLite may have
// left beside it.
func removeSession(path string) {
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		_ = os.Remove(path + suffix) // usually it is not there
	}
}

// build fills an empty file.
func build(ctx context.Context, path string, fill func(put func(e *stored) error) error) error {
	name, err := dsn(path, "&mode=rw&_pragma=synchronous(full)")
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return err
	}
	defer db.Close()
	c, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	err = inTx(ctx, c, func() error {
		if _, err := c.ExecContext(ctx, fmt.Sprintf("pragma application_id = %d; pragma user_version = %d", applicationID, formatVersion)); err != nil {
			return err
		}
		if _, err := c.ExecContext(ctx, schema); err != nil {
			return err
		}
		in, err := prepare(ctx, c)
		if err != nil {
			return err
		}
		defer in.close()
		return fill(func(e *stored) error { return in.store(ctx, e) })
	})
	if err != nil {
		return err
	}
	_, err = c.ExecContext(ctx, "pragma journal_mode = wal")
	return err
}

// open opens a session for writing. The lock on path must be held; the file
// owns it from here on, and it is released on any error.
func open(ctx context.Context, path string, lock *lockfile.Lock) (f *file, err error) {
	f = &file{path: path, lock: lock}
	defer func() {
		if err != nil {
			_ = f.close() // the first error says more
		}
	}()
	name, err := dsn(path, writeOptions)
	if err != nil {
		return f, envError(path, "cannot be opened", err)
	}
	if f.db, err = sql.Open("sqlite", name); err != nil {
		return f, envError(path, "cannot be opened", err)
	}
	markOpen(path, 1)
	if f.conn, err = f.db.Conn(ctx); err != nil {
		return f, writeError(path, err)
	}
	if err := f.ready(ctx); err != nil {
		return f, writeError(path, err)
	}
	if f.info, err = os.Stat(path); err != nil {
		return f, envError(path, "cannot be opened", err)
	}
	f.in, err = prepare(ctx, f.conn)
	if err != nil {
		return f, writeError(path, err)
	}
	return f, nil
}

// ready brings the typed tables in step with the events where they are not:
// they are derived, and another program may have changed them, or an older one
// have made them.
func (f *file) ready(ctx context.Context) error {
	var version int
	if err := f.conn.QueryRowContext(ctx, "pragma user_version").Scan(&version); err != nil {
		return err
	}
	if version < formatVersion {
		return rebuild(ctx, f.conn)
	}
	const query = `select (select coalesce(max(seq), 0) from events) = max(
		(select coalesce(max(seq), 0) from log), (select coalesce(max(seq), 0) from taps), (select coalesce(max(seq), 0) from scores),
		(select coalesce(max(seq), 0) from answers), (select coalesce(max(seq), 0) from bias_weights), (select coalesce(max(seq), 0) from bias_rows), (select coalesce(max(seq), 0) from bias_kl),
		(select coalesce(max(seq), 0) from tier_windows),
		(select coalesce(max(seq), 0) from events where kind = 'tensors'))
		and (select count(*) from taps where not failed) = (select count(*) from (select distinct variant, tensor from events where kind = 'tap'))
		and (select count(*) from variants) = (select count(*) from events where kind = 'variant')
		and (select count(*) from log) = (select count(*) from events where kind not in ('tap', 'tensors', ` + unloggedKinds + `))
		and (select count(*) from yards) = (select count(*) from events where kind = 'yard')
		and (select count(distinct seq) from scores) = (select count(*) from events where kind = 'score')
		and (select count(*) from scores) = (select coalesce(sum(n), 0) from (select (select count(*) from candidates c where c.yard = s.yard) as n from (select distinct yard, seq from scores) s))
		and not exists (select 1 from yards y where not exists (select 1 from corpora c where c.yard = y.id))
		and (select count(*) from calibrations) = (select count(*) from events where kind = 'calib')
		and (select count(*) from units) = (select count(*) from events where kind = 'unit')
		and (select count(*) from calibrated) = (select coalesce(sum(matrices), 0) from units)
		and (select count(*) from recipes) = (select count(*) from events where kind = 'plan')
		and (select count(*) from recipe_groups) = (select coalesce(sum(groups), 0) from recipes)
		and (select count(*) from assigned) = (select count(*) from recipes) * (select value from session where key = 'tensors')
		and (select count(*) from gate_runs) = (select count(*) from events where kind = 'gates')
		and (select count(*) from arms) = (select coalesce(sum(arms), 0) from gate_runs)
		and (select count(*) from probes) = (select coalesce(sum(probes), 0) from gate_runs)
		and (select count(*) from cases) = (select coalesce(sum(cases), 0) from probes)
		and (select count(*) from answers) = (select count(*) from events where kind = 'answer')
		and (select count(*) from answers where not replaced) = (select count(*) from (select distinct run, arm, probe, case_id, pass from answers))
		and (select count(*) from bias_runs) = (select count(*) from events where kind = 'bias')
		and (select count(*) from bias_weights) + (select count(*) from bias_rows) + (select count(*) from bias_kl) = (select count(*) from events where kind = 'biasrow')
		and not exists (select 1 from bias_runs r where not exists (select 1 from bias_candidates c where c.run = r.id))
		and (select count(*) from tier_runs) = (select count(*) from events where kind = 'tier')
		and not exists (select 1 from tier_runs r where not exists (select 1 from tier_budgets b where b.run = r.id))
		and (select count(*) from tier_windows) = (select count(*) from events where kind in ('window', 'moves'))
		and (select count(*) from (select distinct run, budget, window from tier_moves)) = (select count(*) from events where kind = 'moves')
		and (select count(*) from findings) = (select count(*) from events where kind = 'finding')
		and (select count(*) from tensors) = (select value from session where key = 'tensors')`
	var same sql.NullBool
	if err := f.conn.QueryRowContext(ctx, query).Scan(&same); err == nil && same.Bool {
		return nil
	}
	return rebuild(ctx, f.conn)
}

// append writes events in one transaction.
func (f *file) append(ctx context.Context, events []stored) error {
	err := inTx(ctx, f.conn, func() error {
		for i := range events {
			if err := f.in.store(ctx, &events[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return writeError(f.path, err)
	}
	return nil
}

// close folds the log into the file, so that the file alone is the session,
// closes it and gives the lock up.
func (f *file) close() error {
	var errs []error
	if f.in != nil {
		f.in.close()
	}
	if f.conn != nil {
		errs = append(errs, f.foldLog(), f.conn.Close())
	}
	if f.db != nil {
		errs = append(errs, f.db.Close())
		markOpen(f.path, -1)
	}
	if f.lock != nil {
		errs = append(errs, f.lock.Release())
	}
	return errors.Join(errs...)
}

// foldLog brings the log into the file. A reader in the middle of a look may
// keep that from being done to the end; the next writer then does it.
func (f *file) foldLog() error {
	var busy, frames, folded int
	err := f.conn.QueryRowContext(context.Background(), "pragma wal_checkpoint(truncate)").Scan(&busy, &frames, &folded)
	if err == nil || primaryCode(err) == sqlite3.SQLITE_BUSY || primaryCode(err) == sqlite3.SQLITE_LOCKED {
		return nil
	}
	err = writeError(f.path, err)
	var env *EnvError
	if errors.As(err, &env) {
		env.Reason += " (what was recorded is there, in part in " + filepath.Base(f.path) + "-wal: keep the two together)"
	}
	return err
}

// envError is an EnvError with the path said once.
func envError(path, reason string, err error) error {
	var pe *fs.PathError
	var le *os.LinkError
	switch {
	case errors.As(err, &pe):
		return &EnvError{path, reason, pe.Err}
	case errors.As(err, &le):
		return &EnvError{path, reason, le.Err}
	}
	return &EnvError{path, reason, err}
}

// smallWrite is more than one batch of events adds to the log.
const smallWrite = 4 << 20

// writeError is what SQLite said of a write, in words of the machine.
func writeError(path string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	switch primaryCode(err) {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR:
		size := walSize(path)
		if info, statErr := os.Stat(path); statErr == nil {
			size = max(size, info.Size())
		}
		if reason := noSpace(filepath.Dir(path), size, smallWrite); reason != "" {
			return &EnvError{path, reason, err}
		}
		if primaryCode(err) == sqlite3.SQLITE_FULL {
			return &EnvError{path, "no space", err}
		}
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		return &EnvError{path, "cannot be written", err}
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return &EnvError{path, "another program holds the database", err}
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return &FileError{path, "is damaged", err}
	}
	return &EnvError{path, "write", err}
}
