package sessions

// batch is what a worker takes in hand at once: one tensor, or several that stand
// close together in a file and are read in one go.
type batch struct {
	items    []item
	off      int64 // of the first byte, where there are several
	bytes    int   // of the buffer that they want
	inPieces bool  // one tensor that is too large to be in memory at once
}

// Tensors are read together up to batchBytes, with what stands between them up
// to batchGap: a read of a few megabytes costs a disk no more than its way there.
const (
	batchBytes = 4 << 20
	batchGap   = 64 << 10
)

// claim takes the next tensors in hand, in file order, with the variants that
// each lacks. Variants that were added meanwhile are had in the next round. room
// is a list to use again.
func (e *engine) claim(room []item) batch {
	e.mu.Lock()
	defer e.mu.Unlock()
	b := batch{items: room[:0]}
	for range 2 { // the rest of this round, and then from the start
		for ; e.next < len(e.job.Tensors); e.next++ {
			if len(b.items) > 0 && !e.joins(&b, e.next) {
				return b
			}
			if it, ok := e.claim1(e.next); ok {
				if b.items = append(b.items, it); len(b.items) == 1 {
					e.start(&b, it.tensor)
				} else {
					_, off, size, _ := e.rowSource.Run(it.tensor)
					b.bytes = int(off + size - b.off)
				}
			}
		}
		if len(b.items) > 0 {
			return b
		}
		e.next = 0
	}
	return b
}

// claim1 takes one tensor in hand.
func (e *engine) claim1(t int) (item, bool) {
	it := item{tensor: t}
	for v := range e.work {
		if e.work[v][t] == todo && !e.variants[v].Calibrated {
			e.work[v][t] = inHand
			it.variants = append(it.variants, v)
		}
	}
	return it, it.variants != nil
}

// start makes a batch of a first tensor.
func (e *engine) start(b *batch, t int) {
	b.bytes = e.job.Source.Need(t)
	if e.rowSource == nil {
		return
	}
	_, b.off, _, _ = e.rowSource.Run(t)
	if int64(b.bytes) > e.share && e.allStream(b.items[0].variants) {
		b.inPieces, b.bytes = true, 0
	}
}

// joins says whether a tensor may be read together with a batch. One that needs
// nothing and is passed over counts as a gap.
func (e *engine) joins(b *batch, t int) bool {
	if e.rowSource == nil || b.inPieces {
		return false
	}
	file, off, size, ok := e.rowSource.Run(t)
	first, _, _, plain := e.rowSource.Run(b.items[0].tensor)
	end := b.off + int64(b.bytes)
	return ok && plain && file == first && off >= end && off-end <= batchGap && off+size-b.off <= e.plan.batch
}

// allStream says whether the kernels do all of some variants.
func (e *engine) allStream(variants []int) bool {
	for _, v := range variants {
		for _, q := range e.variants[v].ways() {
			if q.Spec == nil {
				return false
			}
		}
	}
	return true
}

// release gives back what was claimed and not measured.
func (e *engine) release(tensor int, variants []int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, v := range variants {
		if e.work[v][tensor] == inHand {
			e.work[v][tensor] = todo
		}
	}
}

// settle marks a measurement as had, whether or not it could be made.
func (e *engine) settle(variant, tensor int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.work[variant][tensor] == settledWork {
		return // a calibrated unit that was read back
	}
	e.work[variant][tensor] = settledWork
	e.count(e.variants[variant], -1)
}
