package export

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"unicode/utf8"

	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// Source is the layout of a copy that is stored just as its source is.
const Source = "source"

// Patch is some bytes of a tensor that a copy has otherwise.
type Patch struct {
	Name         string // of what they are, for errors
	Tensor       string
	Offset, Size int64 // bytes of the tensor
}

// patched is where a patch stands, in place of whole tensors.
type patched struct{ offset, size int64 }

// NewPatched plans a copy that differs from its checkpoint in patches alone: headers,
// index, config and every file beside the weights have the source's bytes, and so has
// what no patch covers. how says what decides the patches' bytes: a continuation must
// have the same. It is written as an export is; patches come by Writer.PutPatch, named by
// their index. Errors wrap ErrMatrix or ErrSource.
func NewPatched(ctx context.Context, ck *checkpoint.Checkpoint, how string, patches []Patch) (*Plan, error) {
	if err := finished(ck); err != nil {
		return nil, err
	}
	if len(patches) == 0 {
		return nil, fmt.Errorf("nothing to quantize: %w", ErrMatrix)
	}
	p := &Plan{
		Layout: Source, Variant: how, Matrices: make([]topology.Matrix, len(patches)), Modules: make([]string, len(patches)),
		places: make([]place, len(patches)), Shards: make([]Shard, len(ck.Files)), ck: ck,
	}
	b := &planner{Plan: p}
	at, err := b.patches(patches)
	if err != nil {
		return nil, err
	}
	next := 0
	for i := range ck.Files {
		from := next
		for next < len(ck.Tensors) && ck.Tensors[next].File == i {
			next++
		}
		if err := b.sameShard(ctx, i, from, next, at); err != nil {
			return nil, err
		}
	}
	if err := b.sameTexts(); err != nil {
		return nil, err
	}
	return p, b.sum()
}

// patches checks the patches and lists those of each tensor, as they stand in it.
func (b *planner) patches(patches []Patch) (at map[int][]int, err error) {
	index := make(map[string]int, len(b.ck.Tensors))
	for i := range b.ck.Tensors {
		index[b.ck.Tensors[i].Name] = i
	}
	at = map[int][]int{}
	h := sha256.New()
	for i, x := range patches {
		t, ok := index[x.Tensor]
		switch {
		case !ok:
			return nil, fmt.Errorf("matrix %q: tensor %q is not in %s: %w", x.Name, x.Tensor, b.ck.Path, ErrMatrix)
		case x.Size <= 0 || x.Offset < 0 || x.Offset > b.ck.Tensors[t].Size || x.Size > b.ck.Tensors[t].Size-x.Offset:
			return nil, fmt.Errorf("matrix %q: %d bytes from %d on leave the %d of tensor %q: %w", x.Name, x.Size, x.Offset, b.ck.Tensors[t].Size, x.Tensor, ErrMatrix)
		}
		b.Matrices[i] = topology.Matrix{Name: x.Name, Tensor: x.Tensor, Rows: 1}
		b.Modules[i] = x.Name
		b.places[i].patch = patched{x.Offset, x.Size}
		at[t] = append(at[t], i)
		fmt.Fprintf(h, "%q %d %d\n", x.Tensor, x.Offset, x.Size)
	}
	for t, list := range at {
		slices.SortFunc(list, func(x, y int) int { return int(min(max(patches[x].Offset-patches[y].Offset, -1), 1)) })
		for k := 1; k < len(list); k++ {
			if x, y := patches[list[k-1]], patches[list[k]]; x.Offset+x.Size > y.Offset {
				return nil, fmt.Errorf("matrix %q: shares bytes of tensor %q with %q: %w", y.Name, b.ck.Tensors[t].Name, x.Name, ErrMatrix)
			}
		}
	}
	b.patchSum = hex.EncodeToString(h.Sum(nil))
	return at, nil
}

// gap is bytes of a shard's tensor between patches, which are copied.
type gap struct {
	tensor   int // of the shard's
	from, to int64
}

// sameShard lays a file out as the source's: tensors from … to are its.
func (b *planner) sameShard(ctx context.Context, i, from, to int, at map[int][]int) error {
	file := &b.ck.Files[i]
	var size [8]byte
	if err := b.ck.ReadRaw(ctx, i, 0, size[:]); err != nil {
		return err
	}
	n := binary.LittleEndian.Uint64(size[:])
	if n > uint64(file.Size)-8 { // it was read before
		return fmt.Errorf("%w %s: %s has changed", ErrSource, b.ck.Path, file.Name)
	}
	sh := &b.Shards[i]
	*sh = Shard{Name: file.Name, Size: file.Size, Header: make([]byte, 8+n), Tensors: make([]Tensor, to-from)}
	if err := b.ck.ReadRaw(ctx, i, 0, sh.Header); err != nil {
		return err
	}
	for t := from; t < to; t++ {
		k := t - from
		x := Tensor{Tensor: b.ck.Tensors[t], Source: t, Matrix: -1}
		if list := at[t]; len(list) > 0 {
			x.Source, x.Matrix, x.Field = -1, list[0], Codes
			end := int64(0)
			for _, p := range list {
				pl := &b.places[p]
				pl.shard, pl.fields = i, []int32{int32(k)}
				sh.matrix = append(sh.matrix, p)
				if pl.patch.offset > end {
					sh.gaps = append(sh.gaps, gap{k, end, pl.patch.offset})
				}
				end = pl.patch.offset + pl.patch.size
			}
			if end < x.Size {
				sh.gaps = append(sh.gaps, gap{k, end, x.Size})
			}
		}
		sh.Tensors[k] = x
		b.WeightBytes += x.Size // cannot overflow: files hold them
	}
	return nil
}

// sameTexts takes the index and the config over as they are, last of all files, and
// lists the others.
func (b *planner) sameTexts() error {
	index, ok, err := b.ck.Index()
	if err != nil {
		return err
	}
	if ok {
		text, err := index.Read()
		if err != nil {
			return err
		}
		b.Texts = append(b.Texts, Text{index.Name, text})
	}
	if b.ck.Config != nil {
		b.Texts = append(b.Texts, Text{configName, b.ck.Config})
	}
	for _, t := range b.Texts {
		if !utf8.Valid(t.Data) { // what the folder keeps of the plan would have it otherwise
			return fmt.Errorf("%w %s: %s is no UTF-8", ErrSource, b.ck.Path, t.Name)
		}
	}
	side, err := b.ck.AllSide()
	if err != nil {
		return err
	}
	for _, f := range side {
		if !slices.ContainsFunc(b.Texts, func(t Text) bool { return t.Name == f.Name }) {
			b.Side = append(b.Side, f)
		}
	}
	return nil
}

// PutPatch stores a patch of NewPatched, all of its bytes. It is safe for concurrent
// use, each patch once. Nothing of data is kept.
func (w *Writer) PutPatch(patch int, data []byte) error {
	if patch < 0 || patch >= len(w.plan.places) || w.plan.places[patch].patch.size == 0 {
		return fmt.Errorf("patch %d of %d: %w", patch, len(w.plan.places), ErrMatrix)
	}
	pl := &w.plan.places[patch]
	if int64(len(data)) != pl.patch.size {
		return fmt.Errorf("export: %s: %d bytes, want %d: %w", w.plan.Matrices[patch].Name, len(data), pl.patch.size, ErrMatrix)
	}
	f, err := w.take(patch, 0, 1)
	if err != nil {
		return err
	}
	sh := &w.plan.Shards[pl.shard]
	if _, err := f.WriteAt(data, sh.Tensors[pl.fields[0]].Offset+pl.patch.offset); err != nil {
		return w.fail(systemError(w.path(sh.Name), err))
	}
	w.wrote(len(data))
	w.add(patch, 1)
	return nil
}

// copyGaps copies what stands between patches.
func (w *Writer) copyGaps(ctx context.Context, sh *Shard, f file) error {
	buf := make([]byte, min(copyBytes, largestGap(sh.gaps)))
	for _, g := range sh.gaps {
		t := &sh.Tensors[g.tensor]
		src, ok := w.plan.ck.Lookup(t.Name)
		if !ok {
			return fmt.Errorf("%w %s: tensor %q is gone", ErrSource, w.plan.ck.Path, t.Name)
		}
		for off := g.from; off < g.to; off += copyBytes {
			part := buf[:min(copyBytes, g.to-off)]
			if err := w.plan.ck.ReadAt(ctx, src, off, part); err != nil {
				return err
			}
			if _, err := f.WriteAt(part, t.Offset+off); err != nil {
				return systemError(w.path(sh.Name), err)
			}
			w.wrote(len(part))
		}
	}
	return nil
}

func largestGap(gaps []gap) (n int64) {
	for _, g := range gaps {
		n = max(n, g.to-g.from)
	}
	return n
}
