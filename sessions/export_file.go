package sessions

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"quantscope/quant/checkpoint"
)

// exporters are the formats of ExportFile.
var exporters = []struct {
	name string
	to   func(ctx context.Context, w io.Writer, path string) error
}{
	{"jsonl", ExportJSONL}, {"csv", ExportCSV}, {"parquet", ExportParquet}, {"canonical", ExportCanonical},
}

// ExportFile writes the tap records of a session to a file: jsonl, csv,
// parquet or canonical. The file gets its name when it is whole. One that is there is
// replaced only with force, and behind a link it is the file that the link
// leads to; a folder or a device is never replaced. When ctx ends there is no
// file.
func ExportFile(ctx context.Context, session, out, format string, force bool) error {
	var to func(context.Context, io.Writer, string) error
	var known []string
	for _, e := range exporters {
		known = append(known, e.name)
		if e.name == format {
			to = e.to
		}
	}
	if to == nil {
		return fmt.Errorf("sessions: export format %q is not known (known: %s)", format, strings.Join(known, ", "))
	}
	return WriteFile(ctx, session, out, force, func(w io.Writer) error { return to(ctx, w, session) })
}

// ExportGatesFile writes the answers of a session's gates to a file, as ExportGates
// does and under the rules of ExportFile.
func ExportGatesFile(ctx context.Context, session, out, format string, force bool) error {
	if !slices.Contains(GateFormats(), format) {
		return ExportGates(ctx, io.Discard, session, format)
	}
	return WriteFile(ctx, session, out, force, func(w io.Writer) error { return ExportGates(ctx, w, session, format) })
}

// WriteFile makes a file of what write writes, under the rules of ExportFile:
// whole or not at all, over another file only with force, and never over a
// session. Errors of write that are no *FileError are told as
// errors of the file.
func WriteFile(ctx context.Context, session, out string, force bool, write func(w io.Writer) error) error {
	target, err := exportTarget(session, out, force)
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(target), "."+filepath.Base(target)+".*.tmp")
	if err != nil {
		return envError(out, "cannot be written", err)
	}
	if err = write(temp); err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err == nil {
		if err = os.Chmod(temp.Name(), 0o644); err == nil {
			err = os.Rename(temp.Name(), target)
		}
	}
	if err != nil {
		_ = os.Remove(temp.Name()) // the first error says more
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var known *FileError
		if errors.As(err, &known) {
			return err
		}
		return envError(out, "cannot be written", err)
	}
	if err := checkpoint.SyncDir(filepath.Dir(target)); err != nil {
		return envError(out, "cannot be written", err)
	}
	return nil
}

// exportTarget is the file that an export to out makes or replaces: out itself,
// or where its links lead.
func exportTarget(session, out string, force bool) (string, error) {
	info, err := os.Stat(out)
	if errors.Is(err, fs.ErrNotExist) {
		if to, err := os.Readlink(out); err == nil {
			return "", &EnvError{Path: out, Reason: "is a link to " + to + ", which is not there"}
		}
		return out, nil
	}
	switch {
	case err != nil:
		return "", envError(out, "cannot be written", err)
	case info.IsDir():
		return "", &EnvError{Path: out, Reason: "is a folder"}
	case !info.Mode().IsRegular():
		return "", &EnvError{Path: out, Reason: "is not a regular file"}
	}
	if of, err := os.Stat(session); err == nil && os.SameFile(of, info) {
		return "", &EnvError{Path: out, Reason: "is the session itself"}
	}
	if is, err := IsSession(out); err == nil && is {
		return "", &EnvError{Path: out, Reason: "is a session, which nothing is written over"}
	}
	if !force {
		return "", &ExistsError{Path: out}
	}
	target, err := filepath.EvalSymlinks(out)
	if err != nil {
		return "", envError(out, "cannot be written", err)
	}
	return target, nil
}

// Digest is the SHA-256 of a session's canonical export, in hex: sessions of the
// same measurements share it.
func Digest(ctx context.Context, path string) (string, error) {
	h := sha256.New()
	if err := ExportCanonical(ctx, h, path); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
