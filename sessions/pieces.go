package sessions

import (
	"context"
	"sync"
)

// readFailure is that one tensor could not be read, which the run survives.
type readFailure struct{ err error }

func (r *readFailure) Error() string { return r.err.Error() }
func (r *readFailure) Unwrap() error { return r.err }

// readError sorts what reading said: the end of ctx, a source that is gone, or
// trouble with this tensor alone.
func (e *engine) readError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case gone(err):
		return &EnvError{Path: e.job.Meta.SourcePath, Reason: "the source is gone", Err: err}
	}
	return &readFailure{err}
}

// eachPiece hands the rows of a tensor to f, so many at once: those in memory, or
// read from the source, the next piece while f has one.
func (w *worker) eachPiece(ctx context.Context, it item, rows int, f func(from int, data []byte) error) error {
	rowBytes := it.m.Cols * it.m.Element.Size()
	if it.m.Data != nil || it.m.Rows*rowBytes == 0 {
		for from := 0; from < it.m.Rows; from += rows {
			n := min(rows, it.m.Rows-from)
			if rowBytes == 0 {
				n = it.m.Rows
			}
			if err := ctx.Err(); err != nil && from > 0 {
				return err
			}
			if err := f(from, it.m.Data[from*rowBytes:][:n*rowBytes]); err != nil {
				return err
			}
			if rowBytes == 0 {
				return nil
			}
		}
		return nil
	}
	return w.readPieces(ctx, it, min(rows, it.m.Rows), rowBytes, f)
}

// piece is some rows of a tensor that were read.
type piece struct {
	from int
	data []byte
	err  error
}

// readPieces is eachPiece for a tensor that is not in memory.
func (w *worker) readPieces(ctx context.Context, it item, rows, rowBytes int, f func(from int, data []byte) error) (err error) {
	e := w.e
	src := e.job.Source.(rowSource) // only of such are there pieces
	both, err := e.pool.Get(ctx, e.plan.room(2*rows*rowBytes))
	if err != nil {
		return err
	}
	defer e.pool.Put(both)
	reading, cancel := context.WithCancel(ctx)
	free, ready := make(chan []byte, 2), make(chan piece, 1)
	half := rows * rowBytes
	free <- both[:half:half]
	free <- both[half : 2*half : 2*half]
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		defer close(ready)
		for from := 0; from < it.m.Rows; from += rows {
			var buf []byte
			select {
			case buf = <-free:
			case <-reading.Done():
				return
			}
			p := piece{from: from, data: buf[:min(rows, it.m.Rows-from)*rowBytes]}
			start := e.meter.reads()
			p.err = src.ReadRows(reading, it.tensor, from, p.data)
			e.meter.read(start, int64(len(p.data)))
			select {
			case ready <- p:
			case <-reading.Done():
				return
			}
			if p.err != nil {
				return
			}
		}
	})
	for p := range ready {
		if p.err != nil {
			return e.readError(ctx, p.err)
		}
		if err := f(p.from, p.data); err != nil {
			return err
		}
		free <- p.data[:cap(p.data)]
	}
	return ctx.Err()
}

// readWhole reads a tensor into buf and looks at it while what was read is still
// in the cache.
func (w *worker) readWhole(ctx context.Context, it *item, buf []byte, amax bool) error {
	e := w.e
	w.hash.begin(e.digest(it.tensor).sha != 0)
	src, ok := e.job.Source.(rowSource)
	if !ok {
		start := e.meter.reads()
		m, err := e.job.Source.Read(ctx, it.tensor, buf)
		e.meter.read(start, int64(len(m.Data)))
		if err != nil {
			return e.readError(ctx, err)
		}
		it.m = m
		if err := w.examined(m, false, &it.look); err != nil {
			return err
		}
		it.look.digest = w.hash.digest()
		return nil
	}
	rowBytes := it.m.Cols * it.m.Element.Size()
	rows := w.rowsAtOnce(it.m, 1)
	if _, _, _, plain := src.Run(it.tensor); !plain { // it is gathered faster as a whole
		rows = it.m.Rows
	}
	for from := 0; from < it.m.Rows && rowBytes > 0; from += rows {
		part := buf[from*rowBytes : min(from+rows, it.m.Rows)*rowBytes]
		start := e.meter.reads()
		err := src.ReadRows(ctx, it.tensor, from, part)
		e.meter.read(start, int64(len(part)))
		if err != nil {
			return e.readError(ctx, err)
		}
		if err := w.examined(rowsIn(it.m, part), amax, &it.look); err != nil {
			return err
		}
	}
	it.m.Data = buf[:it.m.Rows*rowBytes]
	it.look.digest = w.hash.digest()
	return nil
}
