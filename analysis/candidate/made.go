package candidate

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/codes"
	"quantscope/quant/export"
	"quantscope/quant/method"
	"quantscope/quant/recode"
	"quantscope/quant/topology"
)

// made is what a variant or a recipe makes of a reference: which matrices, how,
// and what is kept of them between passes. Its sources share it.
type made struct {
	set     kernels.Set
	threads int
	jobs    map[model.Place]*job
	layers  map[int]bool // that have a job; -1 is what stands before them: the embedding, and what goes with it
	budget  *budget

	mu sync.Mutex // of what jobs keep

	firsts map[model.Place]model.Place // of a fault: whose second-level scale is taken; nil elsewhere
	scales *firsts
}

// budget is what codes of all variants of one reference may take in memory.
type budget struct {
	mu          sync.Mutex
	limit, held int64 // bytes
}

// allow makes the budget at least n.
func (b *budget) allow(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limit = max(b.limit, n)
}

// take takes memory for codes that stay, if there is so much; a negative n gives
// some back.
func (b *budget) take(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > 0 && n > b.limit-b.held {
		return false
	}
	b.held += n
	return true
}

// defaultMem holds the codes of a model of half a billion parameters.
const defaultMem = 256 << 20

// job is one matrix that is made.
type job struct {
	name       string
	at         model.Place
	rows, cols int
	v          method.Variant
	from       *codes.Store // that has its codes; nil: they are made
	fused      *fused       // nil for one without partners
	fp4        *recoded     // of which it is a part; nil of what is made of weights
	part       placed       // which one

	kept *coded // nil where it is made anew; made.mu
}

// fused are matrices with one global scale, that of their largest magnitude.
type fused struct {
	mu      sync.Mutex
	members []*job
	known   bool
	amax    float32
}

// choice is a matrix with the variant that it is made by, or was.
type choice struct {
	m      topology.Matrix
	v      method.Variant
	from   *codes.Store   // that has its codes; nil: they are made
	digest string         // of those
	fp4    *recode.Matrix // whose codes change; nil of what is made of weights
	parts  []placed       // where it is in the model; of FP4 codes
}

// newMade plans what is made. Matrices that servers fuse and that are stored in one
// scheme share their second-level scale where globals says so, whatever the method,
// as exports have it by default.
func newMade(choices []choice, globals export.Globals, b *budget, o Options) *made {
	mem := o.Mem
	if mem == 0 {
		mem = defaultMem
	}
	b.allow(mem)
	m := &made{set: o.set(), threads: o.Threads, jobs: map[model.Place]*job{}, layers: map[int]bool{}, budget: b}
	byKind := map[string][]topology.Matrix{}
	var order []string
	for _, c := range choices {
		if c.fp4 != nil {
			m.addRecoded(c)
			continue
		}
		at := placeOf(c.m.Role)
		m.jobs[at] = &job{name: c.m.Name, at: at, rows: c.m.Rows, cols: c.m.Cols, v: c.v, from: c.from}
		if at.Layer >= 0 || model.Embeds(at) {
			m.layers[at.Layer] = true
		}
		if c.from != nil || globals == export.PerTensor || !export.SharesGlobal(c.v.Scheme) {
			continue
		}
		kind := fmt.Sprint(c.v.Scheme, " ", c.v.Spec.Convention)
		if len(byKind[kind]) == 0 {
			order = append(order, kind)
		}
		byKind[kind] = append(byKind[kind], c.m)
	}
	for _, kind := range order {
		list := byKind[kind]
		for _, group := range export.SharedGroups(list) {
			f := &fused{}
			for _, i := range group {
				j := m.jobs[placeOf(list[i].Role)]
				j.fused = f
				f.members = append(f.members, j)
			}
		}
	}
	return m
}

// code gives the codes of a job: those that are kept, or new ones in memory that
// room gives. raw is a source of the reference that nobody else uses.
func (m *made) code(ctx context.Context, raw model.Source, j *job, room func(n int) []byte) (*coded, error) {
	m.mu.Lock()
	kept := j.kept
	m.mu.Unlock()
	switch {
	case kept != nil:
		return kept, nil
	case j.fp4 != nil:
		return m.recode(ctx, j, room)
	case j.from != nil:
		return m.stored(ctx, j)
	}
	defer raw.Release()
	amax, err := m.amax(ctx, raw, j)
	if err != nil {
		return nil, err
	}
	w, err := raw.Weight(ctx, j.at)
	if err != nil {
		return nil, err
	}
	if w.Rows != j.rows || w.Cols != j.cols {
		return nil, fmt.Errorf("candidate: %s is %d×%d where %d×%d was planned: %w", j.name, w.Rows, w.Cols, j.rows, j.cols, kernels.ErrShape)
	}
	if j.fused == nil && j.v.Spec.NeedsAmax() {
		if amax, err = m.largest(w); err != nil {
			return nil, fmt.Errorf("candidate: %s: %w", j.name, err)
		}
	}
	spec, err := j.v.Prepared(m.set, w.Operand, amax, nil)
	if err != nil {
		return nil, fmt.Errorf("candidate: %s: %w", j.name, err)
	}
	q := quantizing{set: m.set, spec: spec, w: w, amax: amax, threads: m.threads}
	size, err := q.size()
	if err != nil {
		return nil, fmt.Errorf("candidate: %s: %w", j.name, err)
	}
	keep := m.budget.take(size)
	if keep {
		room = func(n int) []byte { return make([]byte, n) }
	}
	c, err := q.run(ctx, room)
	if err != nil {
		if keep {
			m.budget.take(-size)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("candidate: %s: %w", j.name, err)
	}
	if keep {
		m.keep(j, c)
	}
	return c, nil
}

// keep lets codes stay, for which memory was taken.
func (m *made) keep(j *job, c *coded) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if j.kept != nil { // another pass was there first
		m.budget.take(-c.size())
		return
	}
	j.kept = c
}

// amax is the magnitude that a fused matrix's global scale is taken from; 0 for
// one without partners.
func (m *made) amax(ctx context.Context, raw model.Source, j *job) (float32, error) {
	f := j.fused
	if f == nil {
		return 0, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known {
		return f.amax, nil
	}
	largest := float32(0)
	for _, p := range f.members {
		w, err := raw.Weight(ctx, p.at)
		if err != nil {
			return 0, err
		}
		a, err := m.largest(w)
		if err != nil {
			return 0, fmt.Errorf("candidate: %s: %w", p.name, err)
		}
		largest = max(largest, a)
		raw.Release()
	}
	f.amax, f.known = largest, true
	return largest, nil
}

// largest is the largest finite magnitude of a weight.
func (m *made) largest(w model.Weight) (float32, error) {
	if s, ok := w.Operand.Stored(); ok {
		return m.set.AbsMax(s)
	}
	largest := float32(0)
	var data []byte
	err := eachRows(m.set, w, 1, func(_ int, rows []float32) error {
		if len(data) < 4*len(rows) {
			data = make([]byte, 4*len(rows))
		}
		data := data[:4*len(rows)]
		if err := m.set.EncodeFloats(data, kernels.F32, rows); err != nil {
			return err
		}
		a, err := m.set.AbsMax(kernels.Matrix{Element: kernels.F32, Rows: 1, Cols: len(rows), Data: data})
		largest = max(largest, a)
		return err
	})
	return largest, err
}

// pieceBytes is how much of a matrix is expanded at once.
const pieceBytes = 1 << 20

// eachRows expands a weight some rows at a time, in multiples of multiple.
func eachRows(set kernels.Set, w model.Weight, multiple int, f func(first int, rows []float32) error) error {
	if w.Rows == 0 || w.Cols == 0 {
		return nil
	}
	n := max(pieceBytes/(4*w.Cols)/multiple, 1) * multiple
	buf := make([]float32, min(n, w.Rows)*w.Cols)
	for first := 0; first < w.Rows; first += n {
		rows := buf[:min(n, w.Rows-first)*w.Cols]
		if err := set.ExpandRows(rows, w.Operand, first); err != nil {
			return err
		}
		if err := f(first, rows); err != nil {
			return err
		}
	}
	return nil
}

// names lists the variants that are at work.
func (m *made) names() []string {
	var out []string
	for _, j := range m.jobs {
		if !slices.Contains(out, j.v.Name) {
			out = append(out, j.v.Name)
		}
	}
	slices.Sort(out)
	return out
}
