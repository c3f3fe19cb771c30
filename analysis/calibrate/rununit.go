package calibrate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/codes"
)

// wants are the inputs that a unit wants measured, in the order in which the text
// goes through them.
func (j *Job) wants(u *unit, head Input) []Want {
	tensor := map[model.Place]string{}
	for _, k := range u.targets {
		if t := &j.targets[k]; t.calibrated() && tensor[t.input] == "" {
			tensor[t.input] = t.name
		}
	}
	var out []Want
	add := func(in Input, name string) {
		out = append(out, Want{Input: in, Hessian: j.s.Variant.NeedsHessian(), Tensor: name})
	}
	if u.layer == nil {
		for _, name := range tensor {
			add(head, name)
		}
		return out
	}
	for _, in := range Inputs(j.s.Reference.Arch, u.layer, true) {
		if name := tensor[in.At]; name != "" {
			add(in, name)
		}
	}
	return out
}

// unitMaking is a unit on its way.
type unitMaking struct {
	*running
	u    *unit
	amax map[int]float32 // of targets, where the format needs it
	list map[int]codes.Matrix
	note note
	at   int64 // weights that are done
	of   int64
}

// make measures the inputs of a unit, quantizes its matrices, hands them over and
// keeps them.
func (r *running) make(ctx context.Context, u *unit) ([]codes.Matrix, error) {
	k := &unitMaking{running: r, u: u, list: map[int]codes.Matrix{}}
	for _, t := range u.targets {
		k.of += r.targets[t].params
	}
	if err := k.largest(ctx); err != nil {
		return nil, err
	}
	// What wants no inputs comes first.
	var plain []job
	for _, t := range u.targets {
		if !r.targets[t].calibrated() {
			plain = append(plain, job{target: t})
		}
	}
	if err := k.quantize(ctx, plain); err != nil {
		return nil, err
	}
	if err := k.measure(ctx); err != nil {
		return nil, err
	}
	list := make([]codes.Matrix, 0, len(u.targets))
	for _, t := range u.targets {
		c, ok := k.list[t]
		if !ok {
			return nil, fmt.Errorf("calibrate: %s: nothing was measured of %s", r.targets[t].name, r.targets[t].input)
		}
		list = append(list, c)
	}
	if r.store == nil {
		return list, nil
	}
	text, err := json.Marshal(k.note)
	if err != nil {
		return nil, fmt.Errorf("calibrate: %s: %w", u.name, err)
	}
	return list, r.store.Put(u.name, list, text)
}

// largest finds the magnitudes that global scales are taken from: of each matrix,
// or of all that share one.
func (k *unitMaking) largest(ctx context.Context) error {
	if !k.base.Spec.NeedsAmax() {
		return nil
	}
	k.amax = map[int]float32{}
	for _, i := range k.u.targets {
		t, m := &k.targets[i], &k.s.Matrices[i]
		if t.kept {
			continue
		}
		w, err := k.raw.Weight(ctx, t.at)
		if err != nil {
			return k.about(ctx, err)
		}
		q, err := newMaking(k.s.Set, k.s.Variant, k.base, t, m.Rows, m.Cols, w)
		if err != nil {
			return err
		}
		if k.amax[i], err = k.s.Set.AbsMax(q.w); err != nil {
			return fmt.Errorf("calibrate: %s: %w", t.name, err)
		}
		k.raw.Release()
	}
	for _, group := range k.shared {
		most := float32(0)
		for _, i := range group {
			most = max(most, k.amax[i])
		}
		for _, i := range group {
			if _, ok := k.amax[i]; ok {
				k.amax[i] = most
			}
		}
	}
	return nil
}

// measure looks at the unit's layer and quantizes what waits for its inputs.
func (k *unitMaking) measure(ctx context.Context) error {
	if k.s.Saved != nil {
		return k.saved(ctx)
	}
	wants := k.wants(k.u, HeadInput(k.s.Reference.Arch, k.src))
	if len(wants) == 0 {
		return nil
	}
	if err := k.advance(ctx, k.u.layer); err != nil {
		return err
	}
	rows := int64(k.walk.Rows())
	if k.u.layer == nil {
		rows = k.s.Corpus.Tokens()
	}
	k.through(k.u.name, "looking", rows)
	var inner error // of what is done with the moments, which names itself
	each := func(w Wave) error {
		k.tokens += rows
		k.tell(Progress{Unit: k.u.name, Step: "looking", Of: rows, At: rows})
		if w.Counts != nil && k.note.Counts == nil {
			c := *w.Counts
			c.Expert = slices.Clone(c.Expert)
			k.note.Counts = &c
			k.count(&c)
		}
		inner = k.wave(ctx, w.Moments)
		return inner
	}
	var err error
	if k.u.layer == nil {
		err = k.get.Head(ctx, k.walk, k.src, wants[0], each)
	} else {
		err = k.get.Layer(ctx, k.walk, k.src, wants, each)
	}
	if inner != nil {
		return inner
	}
	if err != nil {
		return k.about(ctx, err)
	}
	return nil
}

// saved reads the moments of inputs, as many at a time as are made beside each
// other.
func (k *unitMaking) saved(ctx context.Context) error {
	var places []model.Place
	for _, i := range k.u.targets {
		if t := &k.targets[i]; t.calibrated() && !slices.Contains(places, t.input) {
			places = append(places, t.input)
		}
	}
	for i := range k.s.Saved.Header.Counts {
		c := &k.s.Saved.Header.Counts[i]
		if k.u.layer != nil && c.Layer == k.u.layer.Index {
			k.note.Counts = c
			k.count(c)
		}
	}
	for some := range slices.Chunk(places, k.beside) {
		var list []*Moments
		for _, p := range some {
			m, err := k.s.Saved.Moments(ctx, p)
			if err != nil {
				return k.about(ctx, err)
			}
			list = append(list, m)
		}
		if err := k.wave(ctx, list); err != nil {
			return err
		}
	}
	return nil
}

// job is a matrix with the moments that it waits for.
type job struct {
	target int
	m      *Moments // nil where it wants none
}

// wave quantizes what reads some inputs.
func (k *unitMaking) wave(ctx context.Context, list []*Moments) error {
	var jobs []job
	for _, m := range list {
		if k.sink.Moments != nil {
			if err := k.sink.Moments(m); err != nil {
				return err
			}
		}
		for _, i := range k.u.targets {
			t := &k.targets[i]
			if !t.calibrated() || t.input != m.At {
				continue
			}
			if m.N != k.s.Matrices[i].Cols {
				return fmt.Errorf("calibrate: %s has %d columns, and %d were measured of %s: %w", t.name, k.s.Matrices[i].Cols, m.N, m.At, kernels.ErrShape)
			}
			jobs = append(jobs, job{i, m})
		}
	}
	return k.quantize(ctx, jobs)
}

// batchWeights are how many weights are quantized between two deliveries, unless
// one matrix has more.
const batchWeights = 2 << 20

// quantize makes jobs, in batches of as many inputs as are made ready beside each
// other.
func (k *unitMaking) quantize(ctx context.Context, jobs []job) error {
	ins := map[*Moments]*inputs{}
	for len(jobs) > 0 {
		n, weights := 0, int64(0)
		fresh := []*Moments{}
		for n < len(jobs) {
			m, params := jobs[n].m, k.targets[jobs[n].target].params
			isNew := m != nil && ins[m] == nil && !slices.Contains(fresh, m)
			if n > 0 && (weights+params > batchWeights || isNew && len(fresh) == k.beside) {
				break
			}
			if isNew {
				fresh = append(fresh, m)
			}
			weights += params
			n++
		}
		if err := k.batch(ctx, jobs[:n], fresh, ins); err != nil {
			return err
		}
		jobs = jobs[n:]
		// What no later job reads is given back.
		for m := range ins {
			if !slices.ContainsFunc(jobs, func(q job) bool { return q.m == m }) {
				delete(ins, m)
			}
		}
	}
	return nil
}

// batch makes some jobs beside each other and hands them over in order.
func (k *unitMaking) batch(ctx context.Context, jobs []job, fresh []*Moments, ins map[*Moments]*inputs) error {
	k.tell(Progress{Unit: k.u.name, Step: "factoring", Of: k.of, At: k.at})
	ready, err := k.ready(ctx, jobs, fresh)
	if err != nil {
		return err
	}
	for i, m := range fresh {
		ins[m] = ready[i]
	}
	k.tell(Progress{Unit: k.u.name, Step: "quantizing", Of: k.of, At: k.at})
	list := make([]*making, len(jobs))
	inner := max(1, k.s.Threads/len(jobs))
	defer k.raw.Release()
	for i, q := range jobs {
		t, m := &k.targets[q.target], &k.s.Matrices[q.target]
		if t.kept {
			continue
		}
		w, err := k.raw.Weight(ctx, t.at)
		if err != nil {
			return k.about(ctx, err)
		}
		if list[i], err = newMaking(k.s.Set, k.s.Variant, k.base, t, m.Rows, m.Cols, w); err != nil {
			return err
		}
		list[i].amax, list[i].threads = k.amax[q.target], inner
		if q.m != nil {
			list[i].in = ins[q.m]
		}
	}
	made := make([]*made, len(jobs))
	if err := beside(ctx, k.beside, len(jobs), func(i int) (err error) {
		if list[i] == nil {
			m := &k.s.Matrices[jobs[i].target]
			made[i], err = asStored(&k.targets[jobs[i].target], m.Rows, m.Cols)
			return err
		}
		made[i], err = list[i].run()
		return err
	}); err != nil {
		return err
	}
	for i, q := range jobs {
		if err := k.deliver(q.target, list[i], made[i]); err != nil {
			return err
		}
	}
	return nil
}

// ready makes moments ready beside each other.
func (k *unitMaking) ready(ctx context.Context, jobs []job, fresh []*Moments) ([]*inputs, error) {
	expert := map[*Moments]bool{}
	for _, q := range jobs {
		if q.m != nil {
			expert[q.m] = k.targets[q.target].expert
		}
	}
	out := make([]*inputs, len(fresh))
	inner := max(1, k.s.Threads/max(1, len(fresh)))
	err := beside(ctx, k.beside, len(fresh), func(i int) (err error) {
		out[i], err = ready(k.s.Set, k.s.Variant, k.s.Damp, fresh[i], expert[fresh[i]], inner)
		return err
	})
	return out, err
}

// deliver hands a matrix over.
func (k *unitMaking) deliver(target int, q *making, m *made) error {
	k.list[target] = m.codes
	k.at += k.targets[target].params
	k.seen = append(k.seen, outcomeOf{target, m.trade, m.raised})
	if k.sink.Matrix == nil {
		return nil
	}
	res := Result{Matrix: target, Source: kernels.Matrix{Rows: m.codes.Rows, Cols: m.codes.Cols}, Tap: m.tap, Trade: m.trade, Codes: m.codes}
	if q != nil && q.lent {
		res.Source = q.w
	}
	return k.sink.Matrix(res)
}

// beside calls f for 0 … n−1 from some goroutines, and gives the error of the first
// index that has one.
func beside(ctx context.Context, most, n int, f func(i int) error) error {
	errs := make([]error, n)
	var next atomic.Int64
	var failed atomic.Bool
	work := func() {
		for {
			i := int(next.Add(1)) - 1
			if i >= n || failed.Load() {
				return
			}
			if errs[i] = ctx.Err(); errs[i] == nil {
				errs[i] = f(i)
			}
			if errs[i] != nil {
				failed.Store(true)
			}
		}
	}
	var wg sync.WaitGroup
	for range min(most, n) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
