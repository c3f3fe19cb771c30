package export

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/method"
	"quantscope/quant/topology"
)

// Plan is an export that is known down to the last byte but for the values of
// what is quantized. It is not changed once made and may be used from any
// goroutine.
type Plan struct {
	Layout  string
	Variant string       // its name; of several recipe:NAME, or their names
	Spec    kernels.Spec // of every matrix; Global is 0. Of several variants it is that of the first: see SpecOf
	Globals Globals      // how the caller chooses the second-level scales

	Shards   []Shard           // as the source's files
	Matrices []topology.Matrix // the selection, as given; an index into it names a matrix everywhere
	Modules  []string          // what each matrix is called in the export, without the field's name
	Texts    []Text            // config and index, in the order in which they are written
	Side     []checkpoint.SideFile

	WeightBytes int64    // of all tensors
	Bytes       int64    // of all files
	Notes       []string // what a person should know before spending time

	ck       *checkpoint.Checkpoint
	stores   []stored // what matrices are stored as, one of each variant in use
	of       []int    // of each matrix, its store
	recipe   Recipe
	places   []place
	digest   string
	patchSum string // SHA-256 over where patches stand; "" of other plans
	kept     int64  // bytes of what the folder keeps of the plan while it is unfinished
}

// Shard is one file of tensors.
type Shard struct {
	Name    string
	Header  []byte // what the file begins with
	Tensors []Tensor
	Size    int64 // bytes of the file
	matrix  []int // those that are stored here
	gaps    []gap // of a plan of patches: what is copied between them
}

// copies are the tensors that are copied, as indices in the order of the
// source.
func (sh *Shard) copies() []int {
	var list []int
	for k := range sh.Tensors {
		if sh.Tensors[k].Source >= 0 {
			list = append(list, k)
		}
	}
	slices.SortFunc(list, func(a, b int) int { return cmp.Compare(sh.Tensors[a].Source, sh.Tensors[b].Source) })
	return list
}

// Tensor is a tensor of the export and where it comes from.
type Tensor struct {
	checkpoint.Tensor       // File is an index into Plan.Shards
	Source            int   // of the checkpoint's tensors the one that is copied; -1 for a part of a quantized matrix
	Matrix            int   // index into Plan.Matrices, -1 for a copy
	Field             Field // 0 for a copy
}

// Text is a small file.
type Text struct {
	Name string
	Data []byte
}

// place is where the parts of a matrix stand.
type place struct {
	shard  int
	fields []int32 // indices into the shard's tensors, in the order of the scheme's fields or of the unit's tensors
	patch  patched // of a plan of patches, what of the one field it is
}

// fieldsOf are the tensors of a matrix.
func (p *Plan) fieldsOf(matrix int) iter.Seq[*Tensor] {
	return func(yield func(*Tensor) bool) {
		pl := &p.places[matrix]
		for _, k := range pl.fields {
			if !yield(&p.Shards[pl.shard].Tensors[k]) {
				return
			}
		}
	}
}

// stored is a variant as a layout stores it.
type stored struct {
	variant method.Variant
	spec    kernels.Spec // the variant's, with Global 0
	scheme  scheme
	format  kernels.Format
	words   kernels.Format // that the layout's config speaks of: that of scheme.as where there is one
}

// Settings says how a selection is stored.
type Settings struct {
	Layout  string
	Globals Globals
	Recipe  Recipe // that a mixed plan is made by; zero for none
}

// NewPlan plans the export of a checkpoint in which the selected matrices are
// quantized as the variant says and everything else stays. The selection is in
// storage order and has no matrix twice, as recipe.Select gives it. Refusals
// name what cannot be done and what can; they wrap ErrUnknown, ErrLayout,
// ErrMatrix or ErrSource.
func NewPlan(ck *checkpoint.Checkpoint, model *topology.Model, selection []topology.Matrix, v method.Variant, s Settings) (*Plan, error) {
	s.Recipe = Recipe{}
	return newPlan(ck, model, selection, []method.Variant{v}, make([]int, len(selection)), s)
}

// newPlan plans what is stored as one variant or several.
func newPlan(ck *checkpoint.Checkpoint, model *topology.Model, selection []topology.Matrix, variants []method.Variant, of []int, s Settings) (*Plan, error) {
	stores, of, err := storesOf(s.Layout, variants, of)
	if err != nil {
		return nil, err
	}
	if q := model.Config.QuantMethod; q != "" {
		return nil, fmt.Errorf("%w %s: is quantized already (%s), and a config can name one tool", ErrSource, ck.Path, q)
	}
	if err := finished(ck); err != nil {
		return nil, err
	}
	if len(selection) == 0 {
		return nil, fmt.Errorf("nothing to quantize: %w", ErrMatrix)
	}
	p := &Plan{
		Layout: s.Layout, Variant: nameOf(stores, s.Recipe), Spec: stores[0].spec, Globals: s.Globals,
		Matrices: slices.Clone(selection), ck: ck, stores: stores, of: of, recipe: s.Recipe,
	}
	b := &planner{Plan: p, model: model}
	for _, step := range []func() error{b.targets, b.fused, b.together, b.shards, b.texts, b.advise, b.sum} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// planner is the work of one NewPlan.
type planner struct {
	*Plan
	model    *topology.Model
	taken    map[string][]int // matrices of each tensor
	byName   map[string]bool  // names of tensors in the export
	stacks   map[string]bool  // modules of experts that stay in one tensor
	universe []string         // of all names that a pattern could match; nil before it is asked for
}

// targets finds the tensor and the module of every matrix.
func (b *planner) targets() error {
	known := make(map[string]int, len(b.model.Matrices))
	for i := range b.model.Matrices {
		known[b.model.Matrices[i].Name] = i
	}
	b.taken = make(map[string][]int, len(b.Matrices))
	b.Modules = make([]string, len(b.Matrices))
	seen := make(map[string]bool, len(b.Matrices))
	for i := range b.Matrices {
		m := &b.Matrices[i]
		k, ok := known[m.Name]
		if !ok || b.model.Matrices[k] != *m {
			return fmt.Errorf("matrix %q: is not one of this checkpoint: %w", m.Name, ErrMatrix)
		}
		if seen[m.Name] {
			return fmt.Errorf("matrix %q: selected twice: %w", m.Name, ErrMatrix)
		}
		seen[m.Name] = true
		t, ok := b.ck.Lookup(m.Tensor)
		if !ok {
			return fmt.Errorf("matrix %q: tensor %q is not in %s: %w", m.Name, m.Tensor, b.ck.Path, ErrMatrix)
		}
		switch t.DType {
		case checkpoint.BF16, checkpoint.F16, checkpoint.F32:
		default:
			return fmt.Errorf("tensor %q: cannot be quantized from %s: %w", m.Tensor, t.DType, ErrMatrix)
		}
		if err := b.storeOf(i).scheme.checkShape(m.Rows, m.Cols); err != nil {
			return fmt.Errorf("tensor %q: shape %v: %w: %w", m.Tensor, t.Shape, err, ErrMatrix)
		}
		var err error
		if b.Modules[i], err = moduleOf(m); err != nil {
			return err
		}
		b.taken[m.Tensor] = append(b.taken[m.Tensor], i)
	}
	return nil
}

// shards lays every file out.
func (b *planner) shards() error {
	b.places = make([]place, len(b.Matrices))
	b.byName = make(map[string]bool, len(b.ck.Tensors))
	b.Shards = make([]Shard, len(b.ck.Files))
	next := 0
	for i := range b.ck.Files {
		from := next
		for next < len(b.ck.Tensors) && b.ck.Tensors[next].File == i {
			next++
		}
		if err := b.shard(i, from, next); err != nil {
			return err
		}
	}
	return nil
}

// entry is a tensor that is to be laid out.
type entry struct {
	spec           checkpoint.Spec
	source, matrix int
	field          Field
	part           int // of the matrix's tensors
}

// shard lists the tensors of one file and lays it out.
func (b *planner) shard(i, from, to int) error {
	var entries []entry
	for t := from; t < to; t++ {
		src := &b.ck.Tensors[t]
		matrices := b.taken[src.Name]
		if len(matrices) == 0 {
			entries = append(entries, entry{spec: checkpoint.Spec{Name: src.Name, DType: src.DType, Shape: src.Shape}, source: t, matrix: -1})
			continue
		}
		for _, m := range matrices {
			s := b.storeOf(m)
			for k, f := range s.scheme.fields(s.format, s.spec.Convention, int64(b.Matrices[m].Rows), int64(b.Matrices[m].Cols)) {
				entries = append(entries, entry{spec: checkpoint.Spec{Name: b.Modules[m] + "." + f.suffix, DType: f.dtype, Shape: f.shape}, source: -1, matrix: m, field: f.kind, part: k})
			}
		}
	}
	return b.layOut(i, entries)
}

// layOut lays one file out: wide elements first, then by name, as other writers
// of the format do, which keeps every tensor aligned.
func (b *planner) layOut(i int, entries []entry) error {
	slices.SortFunc(entries, func(x, y entry) int {
		return cmp.Or(cmp.Compare(y.spec.DType.Bits(), x.spec.DType.Bits()), strings.Compare(x.spec.Name, y.spec.Name))
	})
	specs := make([]checkpoint.Spec, len(entries))
	for k := range entries {
		name := entries[k].spec.Name
		if b.byName[name] {
			return fmt.Errorf("tensor %q: two tensors would have this name: %w", name, ErrMatrix)
		}
		b.byName[name] = true
		specs[k] = entries[k].spec
	}
	file := b.ck.Files[i]
	l, err := checkpoint.LayOut(file.Name, specs, file.Metadata)
	if err != nil {
		return err
	}
	sh := Shard{Name: file.Name, Header: l.Header, Size: l.Size, Tensors: make([]Tensor, len(entries))}
	for k, e := range entries {
		t := Tensor{Tensor: l.Tensors[k], Source: e.source, Matrix: e.matrix, Field: e.field}
		t.File = i
		sh.Tensors[k] = t
		if e.matrix < 0 {
			continue
		}
		pl := &b.places[e.matrix]
		if len(pl.fields) == 0 {
			sh.matrix = append(sh.matrix, e.matrix)
		}
		pl.shard = i
		for len(pl.fields) <= e.part {
			pl.fields = append(pl.fields, -1)
		}
		pl.fields[e.part] = int32(k)
	}
	b.Shards[i] = sh
	return nil
}

// sum adds the sizes up and fixes the digest.
func (b *planner) sum() error {
	total := int64(0)
	add := func(n int64) bool {
		ok := n <= math.MaxInt64-total
		total += n
		return ok
	}
	ok := true
	for i := range b.Shards {
		ok = ok && add(b.Shards[i].Size)
	}
	for _, t := range b.Texts {
		ok = ok && add(int64(len(t.Data)))
	}
	for _, s := range b.Side {
		ok = ok && add(s.Size)
	}
	if !ok {
		return fmt.Errorf("%w %s: the export has more bytes than can be counted", ErrSource, b.ck.Path)
	}
	b.Bytes = total
	text, err := b.encode()
	if err != nil {
		return err
	}
	b.digest, b.kept = digestOf(text), int64(len(text))
	return nil
}

// Digest identifies the plan: exports of one digest have the same bytes where
// the weights are the same.
func (p *Plan) Digest() string { return p.digest }

// SpecOf is how a matrix is quantized; Global is 0.
func (p *Plan) SpecOf(matrix int) kernels.Spec { return p.storeOf(matrix).spec }

// VariantOf is what a matrix is stored as.
func (p *Plan) VariantOf(matrix int) method.Variant { return p.storeOf(matrix).variant }

func (p *Plan) storeOf(matrix int) *stored { return &p.stores[p.of[matrix]] }

// Groups lists the matrices that must have one global scale, as SharedGroups
// does; none where each has its own. Those of a group are in one scheme.
func (p *Plan) Groups() [][]int {
	if p.Globals != Shared {
		return nil
	}
	var groups [][]int
	for _, g := range SharedGroups(p.Matrices) {
		if SharesGlobal(p.SpecOf(g[0]).Format) {
			groups = append(groups, g)
		}
	}
	return groups
}

// RowMultiple is how many rows a chunk for Writer.Store must be a multiple of,
// unless it is the last of its matrix, and what its first row must be a
// multiple of; of several schemes what is enough for all.
func (p *Plan) RowMultiple() int {
	n := 1
	for i := range p.stores {
		n = max(n, p.stores[i].scheme.rowMultiple) // powers of two
	}
	return n
}

// ShardOf is the index in Shards of the file that a matrix is stored in.
func (p *Plan) ShardOf(matrix int) int { return p.places[matrix].shard }
