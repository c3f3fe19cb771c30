package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"quantscope/quant/checkpoint"
)

// chunkBytes is how much of a tensor one worker fills at a time.
const chunkBytes = 1 << 20

// Write makes the checkpoint in the folder dir, which must be empty or not
// exist: config and tokenizer first, then the shards, each under its name
// only when it is complete, the index last. A process that dies on the way
// leaves numbered shards of which some are missing, which checkpoint.Open
// refuses. On an error, or when ctx ends, everything is removed again.
//
// progress may be nil; it is called from one goroutine with the bytes of
// weights written and to be written. Errors are those of ctx, *FileError of
// package checkpoint for files, and plain ones for settings out of bounds.
func (s Synth) Write(ctx context.Context, dir string, progress func(done, total int64)) (err error) {
	if s, err = s.withDefaults(); err != nil {
		return err
	}
	all, err := s.tensors()
	if err != nil {
		return err
	}
	out, err := newOutput(dir, totalBytes(all)+overheadBytes(len(all)))
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			out.undo()
		}
	}()
	if err := s.writeSide(out); err != nil {
		return err
	}
	total, done := totalBytes(all), int64(0)
	weightMap := make(map[string]string, len(all))
	gen := startGenerator(ctx, s.Seed, s.shards(all))
	defer gen.stop()
	for i, shard := range gen.shards {
		name := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(gen.shards))
		err := out.weights(name, shard, func(w *checkpoint.Writer) error {
			return gen.copyShard(w, func(n int) {
				done += int64(n)
				if progress != nil {
					progress(done, total)
				}
			})
		})
		if err != nil {
			return err
		}
		for _, t := range shard {
			weightMap[t.Name] = name
		}
	}
	index, err := json.MarshalIndent(map[string]any{
		"metadata":   map[string]int64{"total_size": total},
		"weight_map": weightMap, // json sorts the keys
	}, "", " ")
	if err != nil {
		return err
	}
	return out.file("model.safetensors.index.json", index)
}

// writeSide writes config and tokenizer files.
func (s Synth) writeSide(out *output) error {
	config, err := s.config()
	if err != nil {
		return err
	}
	if err := out.file("config.json", config); err != nil {
		return err
	}
	for _, name := range []string{"generation_config.json", "tokenizer.json", "tokenizer_config.json"} {
		text, err := data.ReadFile("data/model/" + name)
		if err != nil {
			return err
		}
		if err := out.file(name, text); err != nil {
			return err
		}
	}
	return nil
}

// output is the folder that is written and what was made for it.
type output struct {
	dir   string
	made  []string // folders, outermost first
	files []string
}

// overheadBytes is at least what headers, index, config and tokenizer take
// beside the weights: an entry in header and index has about 250 bytes.
func overheadBytes(tensors int) int64 { return 300*int64(tensors) + 1<<20 }

// newOutput makes the folder and wants it empty and with room for need bytes.
func newOutput(dir string, need int64) (*output, error) {
	o := &output{dir: dir}
	entries, err := os.ReadDir(dir)
	switch {
	case err == nil && len(entries) > 0:
		return nil, &checkpoint.FileError{File: dir, Reason: "folder is not empty", Err: fs.ErrExist}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, pathError(dir, err)
	}
	for d := filepath.Clean(dir); err != nil; d = filepath.Dir(d) {
		if _, statErr := os.Stat(d); !errors.Is(statErr, fs.ErrNotExist) || d == filepath.Dir(d) {
			break
		}
		o.made = append([]string{d}, o.made...)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		o.undo()
		return nil, pathError(dir, err)
	}
	if err := checkpoint.CheckSpace(dir, need); err != nil {
		o.undo()
		return nil, err
	}
	return o, nil
}

func pathError(dir string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return &checkpoint.FileError{File: dir, Reason: pe.Op, Err: pe.Err}
	}
	return &checkpoint.FileError{File: dir, Reason: "write", Err: err}
}

// file writes a small file.
func (o *output) file(name string, text []byte) error {
	path := filepath.Join(o.dir, name)
	o.files = append(o.files, path)
	return checkpoint.AtomicWriteFile(path, text)
}

// weights writes a safetensors file, whose data fill writes.
func (o *output) weights(name string, shard []synthTensor, fill func(*checkpoint.Writer) error) error {
	specs := make([]checkpoint.Spec, len(shard))
	for i, t := range shard {
		specs[i] = t.Spec
	}
	path := filepath.Join(o.dir, name)
	w, err := checkpoint.NewWriter(path, specs, map[string]string{"format": "pt"})
	if err != nil {
		return err
	}
	defer w.Abort()
	if err := fill(w); err != nil {
		return err
	}
	o.files = append(o.files, path)
	return w.Commit()
}

// undo removes what was made. What cannot be removed stays, which the error
// that led here outweighs.
func (o *output) undo() {
	for _, path := range o.files {
		_ = os.Remove(path)
	}
	for i := len(o.made) - 1; i >= 0; i-- {
		_ = os.Remove(o.made[i])
	}
}

// generator fills the tensors' chunks with several workers and hands them out
// in order.
type generator struct {
	shards [][]synthTensor
	seed   uint64
	pool   *checkpoint.Pool
	todo   chan *chunk // to the workers
	order  chan *chunk // to the reader
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// chunk is a part of a tensor.
type chunk struct {
	tensor *synthTensor
	offset int64 // bytes into the tensor
	data   []byte
	filled chan struct{} // closed when data are there
}

// startGenerator starts the workers. stop must follow.
func startGenerator(ctx context.Context, seed uint64, shards [][]synthTensor) *generator {
	workers := runtime.GOMAXPROCS(0)
	ahead := 4 * workers // chunks; memory stays within that many of chunkBytes
	g := &generator{
		shards: shards, seed: seed,
		pool:  checkpoint.NewPool(int64(ahead) * chunkBytes),
		todo:  make(chan *chunk, ahead),
		order: make(chan *chunk, ahead),
	}
	g.ctx, g.cancel = context.WithCancel(ctx)
	g.wg.Go(g.deal)
	for range workers {
		g.wg.Go(g.work)
	}
	return g
}

// stop ends the workers.
func (g *generator) stop() {
	g.cancel()
	g.wg.Wait()
}

// deal cuts the tensors into chunks.
func (g *generator) deal() {
	defer close(g.todo)
	defer close(g.order)
	for _, shard := range g.shards {
		for i := range shard {
			for offset := int64(0); offset < shard[i].size; offset += chunkBytes {
				b, err := g.pool.Get(g.ctx, int(min(chunkBytes, shard[i].size-offset)))
				if err != nil {
					return
				}
				c := &chunk{&shard[i], offset, b, make(chan struct{})}
				for _, to := range []chan *chunk{g.todo, g.order} {
					select {
					case to <- c:
					case <-g.ctx.Done():
						return
					}
				}
			}
		}
	}
}

func (g *generator) work() {
	for c := range g.todo {
		c.fill(g.seed)
		close(c.filled)
	}
}

// fill makes the chunk's bytes, which depend on seed, tensor and offset alone.
func (c *chunk) fill(seed uint64) {
	if c.tensor.fill == ones {
		for i := 0; i < len(c.data); i += 2 {
			c.data[i], c.data[i+1] = 0x80, 0x3F // 1 as bfloat16
		}
		return
	}
	s := newStream(seed, c.tensor.Name)
	if c.tensor.DType == checkpoint.F32 {
		s.f32(c.data, uint64(c.offset)/4, synthStd)
		return
	}
	s.bf16(c.data, uint64(c.offset)/2, synthStd)
	if p := c.tensor.planted; p != nil {
		p.bf16(c.data, uint64(c.offset)/2, synthStd)
	}
}

// copyShard writes the chunks of one shard, told of each.
func (g *generator) copyShard(w *checkpoint.Writer, wrote func(n int)) error {
	for t, _ := w.Next(); t != nil; t, _ = w.Next() {
		var c *chunk
		select {
		case c = <-g.order:
		case <-g.ctx.Done():
		}
		if c == nil { // the context ended: deal closes order
			return g.ctx.Err()
		}
		select {
		case <-c.filled:
		case <-g.ctx.Done():
			return g.ctx.Err()
		}
		if _, err := w.Write(c.data); err != nil {
			return err
		}
		n := len(c.data)
		if err := g.pool.Put(c.data); err != nil {
			return err
		}
		wrote(n)
	}
	return nil
}
