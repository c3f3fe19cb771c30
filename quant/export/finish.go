package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/zeebo/xxh3"

	"quantscope/quant/checkpoint"
)

// copyBytes is how much of a tensor or a file is in memory when it is copied.
const copyBytes = 1 << 20

// Result is how an export ended.
type Result struct {
	Whole   bool  // the folder is a complete checkpoint
	Missing []int // parts that are not finished, where it is not
	Files   int   // of the whole checkpoint
	Bytes   int64 // of the whole checkpoint
}

// finishShards finishes shards, one after another, until the queue is closed.
func (w *Writer) finishShards() {
	for i := range w.queue {
		if w.failed() != nil {
			continue
		}
		if err := w.finishShard(w.ctx, i); err != nil {
			_ = w.fail(err) // kept for whoever asks
		}
	}
}

func (w *Writer) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// finishShard copies what is not quantized and gives the file its name.
func (w *Writer) finishShard(ctx context.Context, i int) error {
	sh := &w.plan.Shards[i]
	w.mu.Lock()
	f, err := w.openShard(i)
	w.mu.Unlock()
	if err != nil {
		return err
	}
	if err := w.copyTensors(ctx, sh, f); err != nil {
		return err
	}
	sum, err := hashFile(ctx, f, sh.Size)
	if err != nil {
		return inFile(w.path(sh.Name), err)
	}
	w.mu.Lock()
	delete(w.open, i)
	w.mu.Unlock()
	if err := w.commit(sh.Name, f.file); err != nil {
		w.drop(sh.Name, f.file)
		return err
	}
	w.part.Shards = append(w.part.Shards, partShard{sh.Name, sh.Size, sumText(sum)})
	if err := w.savePart(); err != nil {
		return err
	}
	w.mu.Lock()
	w.done[i] = true
	w.mu.Unlock()
	return nil
}

// copyTensors copies the tensors that stay as they are, in the order of the
// source.
func (w *Writer) copyTensors(ctx context.Context, sh *Shard, f file) error {
	buf := make([]byte, copyBytes)
	for _, k := range sh.copies() {
		t := &sh.Tensors[k]
		src := &w.plan.ck.Tensors[t.Source]
		for off := int64(0); off < t.Size; off += copyBytes {
			part := buf[:min(copyBytes, t.Size-off)]
			if err := w.plan.ck.ReadAt(ctx, src, off, part); err != nil {
				return err
			}
			if _, err := f.WriteAt(part, t.Offset+off); err != nil {
				return systemError(w.path(sh.Name), err)
			}
			w.wrote(len(part))
		}
	}
	return w.copyGaps(ctx, sh, f)
}

// hashFile is the XXH3 of a file that should have this size.
func hashFile(ctx context.Context, r io.ReaderAt, size int64) (uint64, error) {
	h := xxh3.New()
	buf := make([]byte, copyBytes)
	for off := int64(0); off < size; off += copyBytes {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		part := buf[:min(copyBytes, size-off)]
		if n, err := r.ReadAt(part, off); n < len(part) {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
		_, _ = h.Write(part) // never fails
	}
	return h.Sum64(), nil
}

// inFile names the file of an error, unless it is the context's.
func inFile(path string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return systemError(path, err)
}

// checkShard compares a file with what was written; why is "" where it is the
// same.
func (d folder) checkShard(ctx context.Context, s partShard) (why string, err error) {
	path := d.path(s.Name)
	f, err := os.Open(path)
	if isMissing(err) {
		return "is gone", nil
	}
	if err != nil {
		return "", systemError(path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", systemError(path, err)
	}
	if info.Size() != s.Bytes {
		return fmt.Sprintf("has %d bytes instead of %d", info.Size(), s.Bytes), nil
	}
	sum, err := hashFile(ctx, f, s.Bytes)
	if err != nil {
		return "", inFile(path, err)
	}
	if sumText(sum) != s.Sum {
		return "is not what was written", nil
	}
	return "", nil
}

// Finish waits for the shards that are under way, writes those without targets
// and the side files, and, when every part is finished, index and config, and
// makes the folder whole. Matrices that did not come are an error.
//
// Every Store must have returned.
func (w *Writer) Finish(ctx context.Context) (Result, error) {
	if !w.end() {
		return Result{}, ErrOver
	}
	w.worker.Wait()
	w.cancel()
	defer w.unlock()
	defer w.abandon()
	if w.joined {
		res, err := w.join(ctx, false)
		res.Files, res.Bytes = len(w.plan.Shards)+len(w.plan.Texts)+len(w.plan.Side), w.plan.Bytes
		return res, err
	}
	if err := w.failed(); err != nil {
		return Result{}, err
	}
	for i := range w.plan.Shards {
		if !w.mine[i] || w.done[i] {
			continue
		}
		if err := w.complete(i); err != nil {
			return Result{}, err
		}
		if err := w.finishShard(ctx, i); err != nil {
			return Result{}, w.fail(err)
		}
	}
	if err := w.copySide(ctx); err != nil {
		return Result{}, w.fail(err)
	}
	w.part.Done = true
	if err := w.savePart(); err != nil {
		return Result{}, w.fail(err)
	}
	res, err := w.join(ctx, false)
	if err == nil && res.Whole {
		err = w.removeOwn(nil)
	}
	if err != nil {
		return Result{}, w.fail(err)
	}
	res.Files, res.Bytes = len(w.plan.Shards)+len(w.plan.Texts)+len(w.plan.Side), w.plan.Bytes
	return res, nil
}

// complete wants every matrix of a shard to be there.
func (w *Writer) complete(i int) error {
	sh := &w.plan.Shards[i]
	missing, first := 0, ""
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range sh.matrix {
		if w.stored[m].written < w.plan.Matrices[m].Rows {
			if missing++; first == "" {
				first = w.plan.Matrices[m].Name
			}
		}
	}
	if missing > 0 {
		return fmt.Errorf("export: %s: %d matrices did not come; the first is %s: %w", w.path(sh.Name), missing, first, ErrMissing)
	}
	return nil
}

// copySide copies the files beside the weights.
func (w *Writer) copySide(ctx context.Context) error {
	for _, s := range w.plan.Side {
		if err := w.copyOne(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (w *Writer) copyOne(ctx context.Context, s checkpoint.SideFile) error {
	r, err := s.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	n, err := w.write(s.Name, readerContext{ctx, r})
	if err != nil {
		return err
	}
	if n != s.Size {
		return fmt.Errorf("%w %s: %s had %d bytes when the export was planned, %d now", ErrSource, w.plan.ck.Path, s.Name, s.Size, n)
	}
	return nil
}

// readerContext ends with its context.
type readerContext struct {
	ctx context.Context
	r   io.Reader
}

func (r readerContext) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// Close ends an export that is not to be finished now. Shards that are whole
// stay, and so do the marks; what is half written is removed. After Finish it
// does nothing, so it may be deferred.
func (w *Writer) Close() error {
	if w.end() {
		w.cancel()
		w.worker.Wait()
		w.abandon()
		w.unlock()
	}
	return nil
}

// end lets nothing more in; it is false the second time.
func (w *Writer) end() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return false
	}
	w.over = true
	close(w.queue)
	return true
}

// abandon removes what is half written.
func (w *Writer) abandon() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, f := range w.open {
		w.drop(w.plan.Shards[i].Name, f.file)
		delete(w.open, i)
	}
}
