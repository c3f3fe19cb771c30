package convert

import (
	"context"
	"sync"

	"quantscope/quant/export"
)

// promise is what is known of a module's values before they are compared.
type promise struct {
	prove      bool // they are the same; compared before anything is written
	rounds     bool // one of the layouts computes in a narrower type: they are the same but for that
	reciprocal bool // the second-level scale is the reciprocal of the other's
}

// WriteOptions say how a copy is written.
type WriteOptions struct {
	Resume   bool              // go on with a conversion that was left unfinished in the folder
	Threads  int               // modules at a time; 0 is 1
	Progress func(bytes int64) // of files of weights; may be nil
}

// Write writes the copy to a folder that does not exist or is empty, by the protocol
// of package export: a folder that is not finished says so, and Resume goes on with
// it. Errors are those of export.Create, and of reading.
func (p *Plan) Write(ctx context.Context, dir string, o WriteOptions) (export.Result, []string, error) {
	w, err := export.Create(ctx, p.export, dir, export.Options{Resume: o.Resume, Progress: o.Progress})
	if err != nil {
		return export.Result{}, nil, err
	}
	defer w.Close() // after Finish it does nothing
	err = each(ctx, max(o.Threads, 1), len(p.pieces), func(ctx context.Context, i int) error {
		if !w.Wanted(i) {
			return nil
		}
		return w.Put(i, func(put func(int, int64, []byte) error) error {
			return p.pieces[i].write(ctx, func(tensor int, off int64, data []byte) error {
				if err := ctx.Err(); err != nil {
					return err
				}
				return put(tensor, off, data)
			})
		})
	})
	if err != nil {
		return export.Result{}, w.Notes(), err
	}
	res, err := w.Finish(ctx)
	return res, w.Notes(), err
}

// ShardBytes is how many bytes of files of weights Write's progress counts up to.
func (p *Plan) ShardBytes() (n int64) {
	for i := range p.export.Shards {
		n += p.export.Shards[i].Size
	}
	return n
}

// each does n things, some at a time, until one fails.
func each(ctx context.Context, threads, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(threads, n) {
		wg.Go(func() {
			for i := range next {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := range n {
		select {
		case next <- i:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}
