package sessions

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"quantscope/kernels"
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
