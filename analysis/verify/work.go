package verify

import (
	"context"
	"encoding/binary"
	"sync"

	"github.com/zeebo/xxh3"

	"quantscope/kernels"
	"quantscope/quant/layout"
)

// sums is what the workers gather.
type sums struct {
	mu        sync.Mutex
	done      int64
	untouched []untouched // by job
	measured  []measured  // by job
	recoded   []recoded
	moved     int // modules with codes that are not the nearest
	ownGlobal int // records under another global scale than the output's
}

// untouched is what became of an untouched tensor.
type untouched struct {
	checked, same bool
	src, out      uint64 // xxh3 of the bytes
}

// work runs the jobs in the order of the output's files.
func (r *run) work(ctx context.Context) error {
	r.sums.untouched = make([]untouched, len(r.jobs))
	r.sums.measured = make([]measured, len(r.jobs))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var wg sync.WaitGroup
	for range r.Threads {
		wg.Go(func() {
			w := worker{run: r}
			for i := range next {
				if err := w.do(ctx, i); err != nil {
					cancel(err)
				}
				r.progress(&r.jobs[i])
			}
		})
	}
	for i := range r.jobs {
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

// progress counts a job.
func (r *run) progress(j *job) {
	r.sums.mu.Lock()
	defer r.sums.mu.Unlock()
	r.sums.done += j.bytes
	r.rep.Bytes = r.sums.done
	if r.Progress != nil {
		r.Progress(Progress{Done: r.sums.done, Total: r.bytes, Tensor: j.out.Name})
	}
}

// worker has the memory of one goroutine.
type worker struct {
	*run
	a, b   []byte
	source matrixReader
	stored layout.Stored
	made   kernels.Output
	floats []float32
	four   []byte // codes of two bits in four
	w      []float32
}

// do runs one job. An error ends the run: the source cannot be read, or the
// context ended. An output that cannot be read is a problem.
func (w *worker) do(ctx context.Context, i int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j := &w.jobs[i]
	switch {
	case j.src != nil:
		return w.compare(ctx, i, j)
	case j.module == nil:
		why, err := w.recode(ctx, i, j)
		if why != "" {
			w.problem(CodesDiffer, w.fileOf(j.out), j.out.Name, "are no recoding of the source's codes: %s", why)
		}
		return err
	}
	return w.check(ctx, i, j)
}

// stepBytes is how much of an untouched tensor is compared at once, of each of
// the two.
const stepBytes = 1 << 20

// compare wants a tensor's bytes to be the source's.
func (w *worker) compare(ctx context.Context, i int, j *job) error {
	w.a, w.b = grow(w.a, stepBytes), grow(w.b, stepBytes)
	src := xxh3.New()
	out := src
	differ, first := int64(0), int64(-1)
	for off := int64(0); off < j.src.Size; off += stepBytes {
		n := min(stepBytes, j.src.Size-off)
		a, b := w.a[:n], w.b[:n]
		if err := w.src.ReadAt(ctx, j.src, off, a); err != nil {
			return err
		}
		if err := w.out.ReadAt(ctx, j.out, off, b); err != nil {
			if ctx.Err() != nil {
				return err
			}
			w.problem(Unreadable, w.fileOf(j.out), j.out.Name, "%s", oneLine(err))
			return nil
		}
		if string(a) != string(b) {
			if first < 0 {
				first = off + int64(firstDiff(a, b))
				parted := *src
				out = &parted
			}
			for k := range a {
				if a[k] != b[k] {
					differ++
				}
			}
		}
		_, _ = src.Write(a) // a hash takes everything
		if out != src {
			_, _ = out.Write(b)
		}
	}
	u := untouched{checked: true, same: first < 0, src: src.Sum64(), out: out.Sum64()}
	noRecoding := ""
	if !u.same && len(j.recodings) > 0 {
		why, err := w.recode(ctx, i, j)
		if why == "" {
			return err
		}
		noRecoding = "; they are no recoding: " + why
	}
	w.sums.untouched[i] = u // each job has one worker
	if _, divided := w.smoothed[j.out.Name]; !u.same && !divided {
		w.problem(TensorChanged, w.fileOf(j.out), j.out.Name, "%d of %d bytes differ from the source's, the first at byte %d%s", differ, j.src.Size, first, noRecoding)
	}
	return nil
}

// untouchedTotals sums up the untouched tensors and names those whose bytes are
// another tensor's.
func (r *run) untouchedTotals() {
	bySum := map[uint64]string{}
	bySource := map[string]uint64{}
	for i, u := range r.sums.untouched {
		if !u.checked {
			continue
		}
		t := r.jobs[i].src
		r.rep.UntouchedTensors++
		r.rep.UntouchedBytes += t.Size
		bySum[u.src] = t.Name
		bySource[t.Name] = u.src
		if u.same {
			r.rep.UntouchedIdentical++
		}
	}
	if r.rep.UntouchedIdentical < r.rep.UntouchedTensors {
		r.nameOwners(bySum)
	}
	total := xxh3.New()
	for i := range r.src.Tensors {
		if sum, ok := bySource[r.src.Tensors[i].Name]; ok {
			_, _ = total.Write(binary.BigEndian.AppendUint64(nil, sum))
		}
	}
	r.rep.UntouchedXXH3 = hex16(total.Sum64())
}

// nameOwners says of changed tensors that have another one's bytes whose those
// are.
func (r *run) nameOwners(bySum map[uint64]string) {
	sums := map[string]uint64{}
	for i, u := range r.sums.untouched {
		if u.checked && !u.same {
			sums[r.jobs[i].out.Name] = u.out
		}
	}
	for k := range r.rep.Problems {
		p := &r.rep.Problems[k]
		if sum, ok := sums[p.Tensor]; ok && p.ID == TensorChanged {
			if owner, ok := bySum[sum]; ok && owner != p.Tensor {
				p.Message += "; they are those of " + owner
			}
		}
	}
}
