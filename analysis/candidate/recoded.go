package candidate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/method"
	"quantscope/quant/recipe"
	"quantscope/quant/recode"
)

// Variants of two bits of a reference whose matrices are FP4 codes: their codes change
// on the fly, under the scales that they have, and decode as the checkpoint's own do.

// fp4Stock is what a checkpoint has of FP4 matrices, once it was asked for.
type fp4Stock struct {
	once  sync.Once
	stock *recode.Stock
}

// stock is what a candidate's files have of FP4 matrices; nil where it has no files of
// its own.
func (c *Candidate) stock() *recode.Stock {
	if c.files == nil {
		return nil
	}
	x := c.files
	x.fp4.once.Do(func() {
		if recode.MayHave(x.ck) {
			x.fp4.stock = recode.Find(x.ck, x.top, x.layout)
		}
	})
	return x.fp4.stock
}

// taking is what a variant takes of a reference.
type taking struct {
	choices   []choice
	fallbacks []Fallback
}

// choose finds what a variant takes of a reference, and what it was asked for and
// cannot take. Targets are as in specs, behind the @.
func choose(ref *Candidate, v method.Variant, targets string) (*taking, error) {
	if ref.Topology == nil || ref.Arch == nil {
		return nil, fmt.Errorf("%w %s: the reference %s has no topology to choose targets from", ErrSpec, v.Name, ref.Label)
	}
	targets = strings.TrimSpace(targets)
	stock := ref.stock()
	if recode.Recodes(v) && !stock.Empty() {
		return chooseFP4(ref, stock, v, targets)
	}
	matrices, excluded, err := selectTargets(ref.Topology, targets, nil)
	if err != nil {
		if errors.Is(err, recipe.ErrNothing) && !stock.Empty() {
			err = fmt.Errorf("%w; %s", err, recode.Possible)
		}
		return nil, fmt.Errorf("%w %s: %w", ErrSpec, v.Name, err)
	}
	out := &taking{choices: make([]choice, len(matrices)), fallbacks: fallbacks(ref.Topology, excluded, v.Name)}
	for i, m := range matrices {
		out.choices[i] = choice{m: m, v: v}
	}
	return out, nil
}

// chooseFP4 is choose of FP4 matrices.
func chooseFP4(ref *Candidate, stock *recode.Stock, v method.Variant, targets string) (*taking, error) {
	fail := func(err error) (*taking, error) { return nil, fmt.Errorf("%w %s: %w", ErrSpec, v.Name, err) }
	if err := recode.Check(v); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSpec, err)
	}
	matrices, excluded, err := selectTargets(stock.Model, targets, stock.Refuse)
	if broken := stock.Intact(excluded); broken != nil {
		return nil, broken
	}
	if err != nil {
		return fail(err)
	}
	out := &taking{fallbacks: stayed(ref, stock, excluded, v.Name)}
	for _, m := range matrices {
		x, ok := stock.Lookup(m.Name)
		if !ok {
			continue // selectTargets took what Refuse lets
		}
		on, err := x.On(v)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSpec, err)
		}
		out.choices = append(out.choices, choice{m: m, v: on, fp4: x, parts: ref.files.partsOf(x)})
	}
	return out, nil
}

// stayed are those of what was asked for that are no FP4 codes. What is kept by rule,
// as routers are, is none of them.
func stayed(ref *Candidate, stock *recode.Stock, excluded []recipe.Excluded, requested string) []Fallback {
	schemes := map[model.Place]string{}
	for _, it := range ref.inventory() {
		schemes[it.Place] = it.scheme
	}
	at := map[string]int{}
	for i := range stock.Model.Matrices {
		at[stock.Model.Matrices[i].Name] = i
	}
	var out []Fallback
	for _, e := range excluded {
		i, ok := at[e.Name]
		if !ok || e.Reason != stock.Refuse(stock.Model.MatrixTensor[i]) {
			continue
		}
		m := &stock.Model.Matrices[i]
		f := Fallback{Tensor: e.Name, Requested: requested, Effective: schemes[placeOf(m.Role)], Reason: e.Reason, Params: int64(m.Rows) * int64(m.Cols)}
		if f.Effective == "" {
			f.Effective = strings.ToLower(stock.Model.Tensors[stock.Model.MatrixTensor[i]].DType)
		}
		out = append(out, f)
	}
	return out
}

// placed is where rows first, first+step, … of a matrix are in the model.
type placed struct {
	at                model.Place
	rows, first, step int
}

// partsOf are the places that the forward pass knows an FP4 matrix by: gate and up of
// one that holds both.
func (x *opened) partsOf(m *recode.Matrix) []placed {
	at := placeOf(m.Role)
	places := []model.Place{at}
	if m.Role.Projection == "gate_up" {
		gate, up := at, at
		gate.Projection, up.Projection = "gate", "up"
		places = []model.Place{gate, up}
	}
	var out []placed
	for _, p := range places {
		if part, ok := x.modules[p]; ok && part.m == m.Module {
			out = append(out, placed{p, part.rows, part.first, part.step})
		}
	}
	return out
}

// recoded is an FP4 matrix under a variant of two bits. Jobs of its parts share it.
type recoded struct {
	matrix *recode.Matrix
	v      method.Variant

	mu    sync.Mutex
	known bool // recoding was chosen
	book  kernels.Recoding
	kept  *coded
}

// addRecoded adds the jobs of an FP4 matrix.
func (m *made) addRecoded(c choice) {
	r := &recoded{matrix: c.fp4, v: c.v}
	for _, p := range c.parts {
		m.jobs[p.at] = &job{name: c.m.Name, at: p.at, rows: p.rows, cols: c.m.Cols, v: c.v, fp4: r, part: p}
		if p.at.Layer >= 0 || model.Embeds(p.at) {
			m.layers[p.at.Layer] = true
		}
	}
}

// recode gives the part of a matrix that a job is of: what is kept of it, or made anew
// in memory that room gives.
func (m *made) recode(ctx context.Context, j *job, room func(n int) []byte) (*coded, error) {
	r := j.fp4
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.kept
	if c == nil {
		var err error
		if c, err = r.make(ctx, m, room); err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, fmt.Errorf("candidate: %s: %w", j.name, err)
		}
	}
	return c.part(j.rows, j.part.first, j.part.step)
}

// make reads the matrix and changes its codes in place; r.mu is held.
func (r *recoded) make(ctx context.Context, m *made, room func(n int) []byte) (*coded, error) {
	n := r.matrix.Bytes()
	keep := m.budget.take(int64(n))
	if keep {
		room = func(n int) []byte { return make([]byte, n) }
	}
	c, err := r.read(ctx, m.set, room(n))
	switch {
	case err != nil && keep:
		m.budget.take(-int64(n))
	case err == nil && keep:
		r.kept = c
	}
	return c, err
}

func (r *recoded) read(ctx context.Context, set kernels.Set, buf []byte) (*coded, error) {
	x, err := r.matrix.Read(ctx, buf)
	if err != nil {
		return nil, err
	}
	if !r.known {
		if r.book, err = recode.Choose(set, x, r.v); err != nil {
			return nil, err
		}
		r.known = true
	}
	if _, err := set.Recode(x.Codes, x, r.book); err != nil {
		return nil, err
	}
	c, err := newCoded(set, r.matrix.Module.Spec, x.Rows, x.Cols, 0, 0, x.Codes, x.Scales, nil, x.Global)
	if err != nil {
		return nil, err
	}
	c.book = r.book.Codebook
	return c, nil
}

// names lists the variants of choices.
func (c *taking) names() string {
	var out []string
	for i := range c.choices {
		if name := c.choices[i].v.Name; !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
