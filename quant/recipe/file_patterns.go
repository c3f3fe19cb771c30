package census

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/layout"
	"quantscope/quant/topology"
)

// Options say how the matrices are gone through.
type Options struct {
	Fix      bool        // Prove weighs what would mend each group as well, as Fix wants it
	Set      kernels.Set // the zero value is the best of the machine
	Threads  int         // 0: all cores
	Progress func(Progress)
}

// Progress is how far the matrices are gone through, or a copy is written. It is
// reported from many goroutines, one at a time.
type Progress struct {
	Done, Total int64 // bytes
	What        string
}

// Prove holds the members of the groups that differ against the master, each as
// a server decodes it that uses the first member's scale, as it is stored, and
// as compensation leaves it. The result is the census with that in it; rep stays
// as it is. A group that cannot be held against the master is in Left.
func Prove(ctx context.Context, rep *Report, ck *checkpoint.Checkpoint, model *topology.Model, master *Master, o Options) (*Report, error) {
	r, err := begin(rep, ck, model, master, o)
	if err != nil {
		return nil, err
	}
	r.rep.Master = master.ck.Path
	err = r.each(ctx, func(x *weigher, j *job) error {
		members, left := r.members(j, true)
		if left != nil {
			r.left(left...)
			return nil
		}
		return r.prove(ctx, x, j, members)
	})
	if err != nil {
		return nil, err
	}
	for _, c := range []*checkpoint.Checkpoint{ck, master.ck} {
		if file, changed := c.Changed(); changed {
			return nil, &checkpoint.FileError{File: file, Reason: "changed while it was read"}
		}
	}
	r.sum()
	return r.rep, nil
}

// run is the work of one Prove or Fix.
type run struct {
	Options
	rep    *Report
	ck     *checkpoint.Checkpoint
	layout *layout.Layout
	master *Master
	listed int // what was in rep.Left before
	jobs   []job
	tied   map[scalePlace]int // how many modules have the second-level scale that stands there

	mu          sync.Mutex
	done, total int64
}

// job is a group that differs.
type job struct {
	group   *Group
	modules []*layout.Module
	bytes   int64
}

// scalePlace is where a second-level scale stands.
type scalePlace struct {
	tensor string
	offset int64
}

func placeOf(m *layout.Module) scalePlace {
	p := scalePlace{tensor: m.GlobalTensor().Name}
	for _, f := range m.Fields {
		if f.Tensor == m.GlobalTensor() {
			p.offset = f.Offset
		}
	}
	return p
}

// begin copies the report and finds the modules of what differs.
func begin(rep *Report, ck *checkpoint.Checkpoint, model *topology.Model, master *Master, o Options) (*run, error) {
	l, err := layout.Open(ck, model)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if o.Set.Name == "" {
		o.Set = kernels.Best()
	}
	if o.Threads < 1 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	own := *rep
	own.Left = slices.Clone(rep.Left)
	own.Layers = slices.Clone(rep.Layers)
	r := &run{Options: o, rep: &own, ck: ck, layout: l, master: master, listed: len(rep.Left), tied: map[scalePlace]int{}}
	for i := range l.Modules {
		if m := &l.Modules[i]; hasScale(m) {
			r.tied[placeOf(m)]++
		}
	}
	for i := range own.Layers {
		groups := slices.Clone(own.Layers[i].Groups)
		own.Layers[i].Groups = groups
		for k := range groups {
			if !groups[k].Differ {
				continue
			}
			j := job{group: &groups[k]}
			for _, m := range groups[k].Members {
				mod, ok := l.Lookup(m.Name)
				if !ok || !hasScale(mod) {
					return nil, fmt.Errorf("%w: %s: is no matrix of %s with a second-level scale", ErrConfig, m.Name, ck.Path)
				}
				j.modules = append(j.modules, mod)
				j.bytes += mod.Bytes()
			}
			r.total += j.bytes
			r.jobs = append(r.jobs, j)
		}
	}
	return r, nil
}

// each works through the jobs.
func (r *run) each(ctx context.Context, do func(*weigher, *job) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan *job)
	var wg sync.WaitGroup
	for range r.Threads {
		wg.Go(func() {
			x := weigher{set: r.Set}
			for j := range next {
				if err := do(&x, j); err != nil {
					cancel(err)
				}
				r.progress(j.bytes, j.group.Members[0].Name)
			}
		})
	}
	for i := range r.jobs {
		select {
		case next <- &r.jobs[i]:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}

func (r *run) progress(n int64, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done += n
	if r.Progress != nil {
		r.Progress(Progress{r.done, r.total, what})
	}
}

// left lists what cannot be compared, once.
func (r *run) left(list ...LeftOut) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range list {
		if !slices.Contains(r.rep.Left, l) {
			r.rep.Left = append(r.rep.Left, l)
		}
	}
}

// sortLeft gives what was listed by many workers an order.
func (r *run) sortLeft() {
	slices.SortStableFunc(r.rep.Left[r.listed:], func(a, b LeftOut) int { return strings.Compare(a.Name, b.Name) })
}

// members puts a group on the scales. left says which of them cannot be held
// against the master.
func (r *run) members(j *job, against bool) (members []member, left []LeftOut) {
	members = make([]member, len(j.modules))
	for k, mod := range j.modules {
		members[k] = member{mod: mod}
		if !against {
			continue
		}
		source, why := r.master.of(mod)
		if why != "" {
			left = append(left, LeftOut{mod.Name, why})
		}
		members[k].source = source
	}
	return members, left
}

// prove weighs one group against the master.
func (r *run) prove(ctx context.Context, x *weigher, j *job, members []member) error {
	bases := 1
	if r.Fix {
		bases = len(members)
	}
	again, err := r.weighed(ctx, x, members, bases, r.Fix)
	if err != nil {
		return err
	}
	var proofs []Proof
	for k := range members {
		m := &members[k]
		if k == 0 || j.group.Members[k].Ratio == 1 {
			continue
		}
		switch {
		case m.broken > 0:
			r.left(LeftOut{m.mod.Name, fmt.Sprintf("%d of its weights decode to no finite number", m.broken)})
		case m.w2 == 0:
			r.left(LeftOut{m.mod.Name, "the master's is 0 throughout, so that no error is relative to it"})
		default:
			proofs = append(proofs, m.proof())
		}
	}
	j.group.Proof = proofs
	if r.Fix {
		j.group.Fix = r.choose(members, again)
	}
	return nil
}

// weighed reads the second-level scales and weighs.
func (r *run) weighed(ctx context.Context, x *weigher, members []member, bases int, requantize bool) (remade, error) {
	for k := range members {
		var err error
		if members[k].global, err = members[k].mod.Global(ctx); err != nil {
			return remade{}, err
		}
	}
	if requantize {
		x.spec, _ = r.specOf(members[0].mod)
	}
	global, amax, err := x.weigh(ctx, members, bases, requantize)
	return remade{global, amax}, err
}

// remade is the second-level scale that requantization gives a group, as stored,
// and the largest magnitude that it comes from.
type remade struct{ global, amax float32 }

// proof is the figures of a member.
func (m *member) proof() Proof {
	rel := func(e2 float64) float64 { return math.Sqrt(e2 / m.w2) }
	p := Proof{
		Member: m.mod.Name, Served: rel(m.served), Stored: rel(m.stored), Compensated: rel(m.comp[0].e2),
		Clamped: m.comp[0].clamped, Underflowed: m.comp[0].underflowed, Scales: m.scales, NonFinite: m.nonFinite,
	}
	p.RoundingCost = p.Compensated - p.Stored
	return p
}

// sum brings the proofs of each layer, and of all, together.
func (r *run) sum() {
	r.sortLeft()
	all := new(ProofSum)
	for i := range r.rep.Layers {
		of := new(ProofSum)
		for k := range r.rep.Layers[i].Groups {
			for p := range r.rep.Layers[i].Groups[k].Proof {
				proof := &r.rep.Layers[i].Groups[k].Proof[p]
				of.add(proof)
				all.add(proof)
			}
		}
		r.rep.Layers[i].Proof = of.close()
	}
	r.rep.Proof = all.close()
}
