package sessions

import (
	"context"
	"sync"
)

// crew are the workers of one pass over what is to do.
type crew struct {
	e   *engine
	ctx context.Context
	wg  sync.WaitGroup

	mu      sync.Mutex
	workers int
	err     error // of the environment: no more tensors are taken in hand
}

// measureAll measures what is to do now. It returns when that is done, or soon
// after ctx ended. The error is one of the environment.
func (e *engine) measureAll(ctx context.Context) error {
	select {
	case <-e.left: // what a cancelled run left behind is given back before a new one claims
	case <-ctx.Done():
		return nil
	}
	e.plan.begin(e)
	c := &crew{e: e, ctx: ctx}
	c.hire(e.plan.wanted())
	ended := make(chan struct{})
	go func() {
		c.wg.Wait()
		close(ended)
	}()
	e.left = ended
	select {
	case <-ended:
		return c.failure()
	case <-ctx.Done():
	}
	select {
	case <-ended:
		return c.failure()
	case <-e.clock.After(graceAfterCancel):
		return nil
	}
}

// hire brings the crew up to n workers.
func (c *crew) hire(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && c.workers < n {
		c.workers++
		c.wg.Go(c.work)
	}
}

// spare says whether a worker may go, since there are more than n.
func (c *crew) spare(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.workers <= n {
		return false
	}
	c.workers--
	return true
}

func (c *crew) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// fail ends the crew's work after the tensors that are in hand.
func (c *crew) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
}

// work is one worker: it takes tensors in hand in file order, reads them and
// measures them, until there are none. While it reads, others measure.
func (c *crew) work() {
	w := &worker{e: c.e}
	for c.failure() == nil && c.ctx.Err() == nil {
		b := c.e.claim(w.claimed)
		if len(b.items) == 0 {
			return
		}
		if err := w.batch(c.ctx, b); err != nil {
			if c.ctx.Err() == nil {
				c.fail(err)
			}
			return
		}
		w.claimed = b.items
		n, changed := c.e.plan.review(c.e)
		if changed {
			c.hire(n)
		}
		if c.spare(n) {
			return
		}
	}
}

// batch reads what a worker took in hand and measures it. Tensors that nothing
// came of are given back.
func (w *worker) batch(ctx context.Context, b batch) (err error) {
	e := w.e
	next := 0
	defer func() {
		for _, it := range b.items[next:] {
			e.release(it.tensor, it.variants)
		}
	}()
	if err := e.gate.pass(ctx); err != nil {
		return err
	}
	var buf []byte
	if b.bytes > 0 {
		if buf, err = e.pool.Get(ctx, e.plan.room(b.bytes)); err != nil {
			return err
		}
		defer e.pool.Put(buf)
		buf = buf[:b.bytes]
	}
	together := len(b.items) > 1 && w.readRun(ctx, b, buf)
	for ; next < len(b.items); next++ {
		it := b.items[next]
		if next > 0 {
			if err := e.gate.pass(ctx); err != nil {
				return err
			}
		}
		if err := w.take(ctx, b, it, buf, together); err != nil {
			next++ // measure and take give back what they had
			return err
		}
	}
	return nil
}

// readRun reads all tensors of a batch at once. Where that cannot be done, they
// are read one by one, so that it is known which is to blame.
func (w *worker) readRun(ctx context.Context, b batch, buf []byte) bool {
	src := w.e.job.Source.(rowSource) // only such tensors come in batches
	start := w.e.meter.reads()
	err := src.ReadRun(ctx, b.items[0].tensor, b.off, buf)
	w.e.meter.read(start, int64(len(buf)))
	return err == nil
}

// take measures one tensor of a batch.
func (w *worker) take(ctx context.Context, b batch, it item, buf []byte, together bool) (err error) {
	e := w.e
	src, inRows := e.job.Source.(rowSource)
	codes, isFP4 := e.job.Source.(*fp4Source)
	if inRows {
		it.m, err = src.Shape(it.tensor)
	}
	w.aim(it)
	switch {
	case err != nil:
		err = e.readError(ctx, err)
	case isFP4:
		err = w.readFP4(ctx, codes, &it, buf)
	case together:
		_, off, size, _ := src.Run(it.tensor)
		it.m.Data = buf[off-b.off:][:size]
		w.hash.begin(e.digest(it.tensor).sha != 0)
		err = w.examined(it.m, w.needsAmax(), &it.look)
		it.look.digest = w.hash.digest()
	case !b.inPieces:
		err = w.readWhole(ctx, &it, buf[:e.job.Source.Need(it.tensor)], w.needsAmax())
	}
	if err != nil {
		return w.lost(it, err)
	}
	select {
	case e.hands <- struct{}{}: // no more kernels at a time than threads
	case <-ctx.Done():
		return w.lost(it, ctx.Err())
	}
	defer func() { <-e.hands }()
	return w.measure(ctx, it)
}
