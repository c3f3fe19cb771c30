package export

import (
	"fmt"
	"slices"

	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// Unit is a module of a checkpoint whose tensors a copy stores otherwise.
type Unit struct {
	Name    string
	File    int               // of the checkpoint's files the one whose copy has them
	Tensors []checkpoint.Spec // what it becomes
}

// Repack is how a copy differs from its checkpoint.
type Repack struct {
	Layout string          // of the copy
	How    string          // what else decides its bytes: a continuation must have the same
	Units  []Unit          // a unit's index names it everywhere
	Gone   map[string]bool // tensors that the copy does not have
	Config []byte          // config.json
	Texts  []Text          // files that are written anew, but for index and config
	Leave  []string        // files beside the weights that do not come along
}

// NewRepack plans a copy of a checkpoint in which some modules are stored in
// another way and everything else stays as it is. It is written as an export is;
// units come by Writer.Put. Errors wrap ErrMatrix or ErrSource.
func NewRepack(ck *checkpoint.Checkpoint, r Repack) (*Plan, error) {
	if err := finished(ck); err != nil {
		return nil, err
	}
	p := &Plan{Layout: r.Layout, Variant: r.How, Matrices: make([]topology.Matrix, len(r.Units)), Modules: make([]string, len(r.Units)), ck: ck}
	b := &planner{Plan: p}
	files := make([][]int, len(ck.Files))
	for i := range r.Units {
		u := &r.Units[i]
		if u.File < 0 || u.File >= len(files) || len(u.Tensors) == 0 {
			return nil, fmt.Errorf("module %q: has %d tensors in file %d of %d: %w", u.Name, len(u.Tensors), u.File, len(files), ErrMatrix)
		}
		p.Matrices[i] = topology.Matrix{Name: u.Name, Rows: 1}
		p.Modules[i] = u.Name
		files[u.File] = append(files[u.File], i)
	}
	b.places = make([]place, len(r.Units))
	b.byName = make(map[string]bool, len(ck.Tensors))
	b.Shards = make([]Shard, len(ck.Files))
	next := 0
	for i := range ck.Files {
		var entries []entry
		for ; next < len(ck.Tensors) && ck.Tensors[next].File == i; next++ {
			if t := &ck.Tensors[next]; !r.Gone[t.Name] {
				entries = append(entries, entry{spec: checkpoint.Spec{Name: t.Name, DType: t.DType, Shape: t.Shape}, source: next, matrix: -1})
			}
		}
		for _, u := range files[i] {
			for k, spec := range r.Units[u].Tensors {
				entries = append(entries, entry{spec: spec, source: -1, matrix: u, part: k})
			}
		}
		if err := b.layOut(i, entries); err != nil {
			return nil, err
		}
	}
	p.Texts = slices.Clone(r.Texts)
	if err := b.finishTexts(r.Config); err != nil {
		return nil, err
	}
	p.Side = slices.DeleteFunc(p.Side, func(f checkpoint.SideFile) bool { return slices.Contains(r.Leave, f.Name) })
	return p, b.sum()
}

// Put stores a unit: write is called once, with what takes bytes of its tensors,
// which are named by their index in it. It is safe for concurrent use, each unit
// once. Nothing that put is given is kept.
func (w *Writer) Put(unit int, write func(put func(tensor int, off int64, data []byte) error) error) error {
	if unit < 0 || unit >= len(w.plan.places) || len(w.plan.stores) > 0 {
		return fmt.Errorf("unit %d of %d: %w", unit, len(w.plan.places), ErrMatrix)
	}
	f, err := w.take(unit, 0, 1)
	if err != nil {
		return err
	}
	pl := &w.plan.places[unit]
	sh := &w.plan.Shards[pl.shard]
	err = write(func(tensor int, off int64, data []byte) error {
		if tensor < 0 || tensor >= len(pl.fields) {
			return fmt.Errorf("export: %s: tensor %d of %d: %w", w.plan.Modules[unit], tensor, len(pl.fields), ErrMatrix)
		}
		t := &sh.Tensors[pl.fields[tensor]]
		if off < 0 || off > t.Size || int64(len(data)) > t.Size-off {
			return fmt.Errorf("export: %s: %d bytes from %d on leave its %d: %w", t.Name, len(data), off, t.Size, ErrMatrix)
		}
		if _, err := f.WriteAt(data, t.Offset+off); err != nil {
			return systemError(w.path(sh.Name), err)
		}
		w.wrote(len(data))
		return nil
	})
	if err != nil {
		return w.fail(err)
	}
	w.add(unit, 1)
	return nil
}
