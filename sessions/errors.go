package sessions

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// ErrNotSession is wrapped by errors about files that are no session of any
// version.
var ErrNotSession = errors.New("not a session")

// ErrDamaged is wrapped by errors about sessions that can be looked at as far as they
// are whole, and are not written to.
var ErrDamaged = errors.New("damaged")

// FileError says what is wrong with a session file.
type FileError struct {
	Path   string
	Reason string
	Err    error // what caused it, or nil
}

func (e *FileError) Error() string {
	s := "sessions: " + e.Path + ": " + e.Reason
	if e.Err != nil && e.Err != ErrNotSession && e.Err != ErrDamaged {
		s += ": " + oneLine(e.Err.Error())
	}
	return s
}

// Unwrap is the cause.
func (e *FileError) Unwrap() error { return e.Err }

// readError is what was met while a session was read, as a FileError. What is one
// already, or the end of ctx, stays what it is.
func readError(ctx context.Context, path string, err error) error {
	var file *FileError
	var env *EnvError
	switch {
	case err == nil, errors.As(err, &file), errors.As(err, &env):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case damaged(err):
		return &FileError{path, "is damaged", err}
	}
	return &FileError{path, "read", err}
}

// EnvError says what the machine refused: no space, no permission, a source
// that is gone. It ends a run.
type EnvError struct {
	Path   string // file or folder
	Reason string
	Err    error // what caused it, or nil
}

func (e *EnvError) Error() string {
	s := "sessions: " + e.Path + ": " + e.Reason
	if e.Err != nil {
		s += ": " + oneLine(e.Err.Error())
	}
	return s
}

// Unwrap is the cause.
func (e *EnvError) Unwrap() error { return e.Err }

// ExistsError says that a file stands where one was to be written. It is
// fs.ErrExist.
type ExistsError struct{ Path string }

func (e *ExistsError) Error() string { return "sessions: " + e.Path + ": is there already" }

// Is makes it fs.ErrExist.
func (e *ExistsError) Is(target error) bool { return target == fs.ErrExist }

// SettingsError says why a session cannot be gone on with: a setting that may
// not change differs.
type SettingsError struct {
	Path     string
	Setting  string
	Old, New string
}

func (e *SettingsError) Error() string {
	return fmt.Sprintf("sessions: %s: cannot be resumed: %s was %s and is now %s", e.Path, e.Setting, e.Old, e.New)
}

// oneLine folds what others wrote into one line.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
