package sessions

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"quantscope/kernels"
)

// ErrNotMeasured is wrapped by errors about a tensor that a session holds no
// record of under a variant.
var ErrNotMeasured = errors.New("not measured")

func checkPair(path string, variant, variants, tensor, tensors int) error {
	if variant < 0 || variant >= variants || tensor < 0 || tensor >= tensors {
		return fmt.Errorf("sessions: %s: there is no tensor %d under variant %d (%d tensors, %d variants)", path, tensor, variant, tensors, variants)
	}
	return nil
}

// readDetail reads one whole tap record from a session file.
func readDetail(ctx context.Context, path string, variant, tensor int) (kernels.Tap, error) {
	var tap kernels.Tap
	e, err := readTapEvent(ctx, path, variant, tensor)
	if err != nil {
		return tap, err
	}
	if err := decodeTap(e.payload, &tap); err != nil {
		return tap, &FileError{path, fmt.Sprintf("is damaged: event %d", e.Seq), err}
	}
	return tap, nil
}

// readTapEvent reads the event of the newest tap record of a tensor under a
// variant. Of a tensor that failed the error says why, and wraps ErrNotMeasured.
func readTapEvent(ctx context.Context, path string, variant, tensor int) (stored, error) {
	r, err := openReader(ctx, path)
	if err != nil {
		return stored{}, err
	}
	defer r.Close()
	c, err := r.db.Conn(ctx)
	if err != nil {
		return stored{}, &FileError{path, "open", err}
	}
	defer c.Close()
	var seq int64
	var failed bool
	err = c.QueryRowContext(ctx, "select seq, failed from taps where variant = ? and tensor = ?", variant, tensor).Scan(&seq, &failed)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return stored{}, fmt.Errorf("sessions: %s: tensor %d under variant %d: %w", path, tensor, variant, ErrNotMeasured)
	case err != nil:
		return stored{}, &FileError{path, "read", err}
	}
	e, err := readEvent(ctx, c, path, seq)
	switch {
	case err != nil:
		return e, err
	case e.Variant != variant || e.Tensor != tensor:
		return e, &FileError{Path: path, Reason: fmt.Sprintf("is damaged: event %d is about another tensor than the table of taps says", seq)}
	case failed || e.Kind == EventFailed:
		return e, fmt.Errorf("sessions: %s: %s: %w", path, oneLine(e.Message), ErrNotMeasured)
	}
	return e, nil
}

// readEvent reads one event.
func readEvent(ctx context.Context, c *sql.Conn, path string, seq int64) (stored, error) {
	var e stored
	var damage error
	found := false
	err := each(ctx, c, selectEvents+" where seq = ?", func(row []driver.Value) error {
		found = true
		e, damage = scanEvent(row)
		return nil
	}, seq)
	switch {
	case err != nil:
		return e, &FileError{path, "read", err}
	case !found:
		return e, &FileError{Path: path, Reason: fmt.Sprintf("is damaged: event %d is missing", seq)}
	case damage != nil:
		return e, &FileError{path, fmt.Sprintf("is damaged: event %d", seq), damage}
	}
	return e, nil
}
