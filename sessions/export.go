package sessions

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// line is one measurement as it is exported.
type line struct {
	variant *Variant
	tensor  *Tensor
	seq     int64
	tap     kernels.Tap // zero where it failed
	rec     Record
	failure string // why there are no figures, "" where there are
}

// exportRows is how many measurements an export holds in memory at once.
const exportRows = 2048

// export hands the newest measurement of each (variant, tensor) to f, by variant
// and tensor. What f gets is valid until it returns. A damaged session is refused
// before f gets anything: an incomplete export must not look whole.
func export(ctx context.Context, path string, f func(l *line) error) error {
	whole, err := loadFile(ctx, path)
	if err != nil {
		return err
	}
	if whole.damage.any() {
		return &FileError{Path: path, Reason: "is damaged, so it is not exported: " + whole.damage.String()}
	}
	whole = nil // it may be large, and what follows needs little
	r, err := openReader(ctx, path)
	if err != nil {
		return err
	}
	defer r.Close()
	return withConn(ctx, r, func(c *sql.Conn) error {
		l := &loaded{damage: damage{missing: r.missing}}
		var last int64
		if err := c.QueryRowContext(ctx, "select coalesce(max(seq), 0) from events").Scan(&last); err != nil {
			return &FileError{path, "read", err}
		}
		chunks, err := l.loadNotes(ctx, c, path, last)
		if err != nil {
			return err
		}
		if err := l.begin(path); err != nil {
			return err
		}
		if err := l.loadTensors(path, chunks); err != nil {
			return err
		}
		for v := range l.st.Variants {
			for t := 0; t < len(l.st.Tensors); t += exportRows {
				if err := exportSome(ctx, c, l.st, v, t, last, f); err != nil {
					return err
				}
			}
		}
		if l.damage.any() {
			return &FileError{Path: path, Reason: "is damaged, the export is not complete: " + l.damage.String()}
		}
		return nil
	})
}

// exportSome exports tensors from one on under one variant.
func exportSome(ctx context.Context, c *sql.Conn, st *State, variant, from int, last int64, f func(l *line) error) error {
	const query = "select e.seq, e.at_us, e.kind, e.variant, e.tensor, e.payload, e.crc from taps p join events e on e.seq = p.seq" +
		" where p.variant = ? and p.tensor >= ? and p.tensor < ? and p.seq <= ? order by p.tensor"
	return each(ctx, c, query, func(row []driver.Value) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		e, err := scanEvent(row)
		if err == nil && (e.Variant != variant || !e.valid(len(st.Variants), len(st.Tensors))) {
			err = errors.New("it is about another tensor than the table of taps says")
		}
		l := line{variant: &st.Variants[variant], seq: e.Seq, rec: e.rec}
		if err == nil {
			l.tensor = &st.Tensors[e.Tensor]
			if e.Kind == EventFailed {
				l.failure = e.Message
			} else {
				err = decodeTap(e.payload, &l.tap)
			}
		}
		if err != nil {
			return &FileError{st.Meta.Path, fmt.Sprintf("is damaged: event %d", e.Seq), err}
		}
		return f(&l)
	}, int64(variant), int64(from), int64(from+exportRows), last)
}

// exporters are the formats of ExportFile.
var exporters = []struct {
	name string
	to   func(ctx context.Context, w io.Writer, path string) error
}{
	{"jsonl", ExportJSONL}, {"csv", ExportCSV}, {"parquet", ExportParquet},
}

// ExportFile writes the tap records of a session to a file: jsonl, csv or
// parquet. The file gets its name when it is whole. One that is there is
// replaced only with force. When ctx ends there is no file.
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
	if _, err := os.Lstat(out); err == nil && !force {
		return &ExistsError{Path: out}
	}
	if a, err := os.Stat(session); err == nil {
		if b, err := os.Stat(out); err == nil && os.SameFile(a, b) {
			return &EnvError{Path: out, Reason: "is the session itself"}
		}
	}
	temp, err := os.CreateTemp(filepath.Dir(out), "."+filepath.Base(out)+".*.tmp")
	if err != nil {
		return envError(out, "cannot be written", err)
	}
	err = to(ctx, temp, session)
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err == nil {
		if err = os.Chmod(temp.Name(), 0o644); err == nil {
			err = os.Rename(temp.Name(), out)
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
	if err := checkpoint.SyncDir(filepath.Dir(out)); err != nil {
		return envError(out, "cannot be written", err)
	}
	return nil
}
