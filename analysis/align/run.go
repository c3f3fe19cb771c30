package align

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"quantscope/quant/topology"
)

// Options of Compare.
type Options struct {
	Threads  int  // 0: all cores
	AsStored bool // undo nothing
	Progress func(Progress)
}

// Progress is how far a comparison is. It is reported from many goroutines, one at a
// time.
type Progress struct {
	Done, Total int64 // elements
	Tensor      string
}

// layer is what of two checkpoints is looked at together.
type layer struct {
	config  *topology.Config
	pairs   []*pair
	pending []pending
	found   []Finding
}

func (l *layer) find(id string, p *pair, format string, args ...any) {
	l.found = append(l.found, Finding{id, p.b.Name, fmt.Sprintf(format, args...)})
}

// comparison is the work of one Compare.
type comparison struct {
	Options
	master, candidate *Side
	config            topology.Config
	report            *Report
	layers            []*layer
	ordered           bool // rows are taken to stand in the master's order

	mu          sync.Mutex
	done, total int64
}

// Compare holds a candidate against its master.
func Compare(ctx context.Context, master, candidate *Side, o Options) (*Report, error) {
	if o.Threads < 1 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	x := &comparison{Options: o, master: master, candidate: candidate, config: master.Config, report: newReport(master, candidate)}
	if x.config.Heads == 0 {
		x.config = candidate.Config
	}
	if err := x.pair(); err != nil {
		return nil, err
	}
	for _, l := range x.layers {
		if err := x.layer(ctx, l); err != nil {
			return nil, err
		}
		x.report.add(l)
		for _, p := range l.pairs {
			p.sums, p.values = nil, [2][]float64{}
		}
	}
	x.report.finish()
	return x.report, nil
}

// key is what the two sides know a tensor by: its role, or its name where many have
// one role.
type key struct {
	role topology.Role
	name string
}

func keyOf(t *Tensor) key {
	switch t.Role.Kind {
	case topology.Unknown, topology.Vision:
		return key{name: strings.TrimSuffix(t.Name, ".weight")}
	}
	k := key{role: t.Role}
	k.role.MTP = false // numbers of layers are counted on
	return k
}

// pair finds a partner for every tensor.
func (x *comparison) pair() error {
	theirs, twice := map[key]*Tensor{}, map[key]bool{}
	for i := range x.candidate.Tensors {
		t := &x.candidate.Tensors[i]
		k := keyOf(t)
		twice[k] = theirs[k] != nil
		theirs[k] = t
	}
	layers := map[int]*layer{}
	seen := map[key]bool{}
	for i := range x.master.Tensors {
		a := &x.master.Tensors[i]
		k := keyOf(a)
		b := theirs[k]
		if b == nil || seen[k] || twice[k] {
			x.report.OnlyMaster = append(x.report.OnlyMaster, a.Name)
			continue
		}
		seen[k] = true
		if a.Rows != b.Rows || a.Cols != b.Cols {
			x.report.Findings = append(x.report.Findings, Finding{ShapesDiffer, b.Name, fmt.Sprintf("is %d×%d, the master's %s %d×%d", b.Rows, b.Cols, a.Name, a.Rows, a.Cols)})
			continue
		}
		at := a.Role.Layer
		if a.Role.Kind == topology.Unknown || a.Role.Kind == topology.Vision {
			at = -1
		}
		l := layers[at]
		if l == nil {
			l = &layer{config: &x.config}
			layers[at] = l
			x.layers = append(x.layers, l)
		}
		l.pairs = append(l.pairs, &pair{a: a, b: b})
		x.total += int64(a.Rows) * int64(a.Cols)
	}
	for i := range x.candidate.Tensors {
		if t := &x.candidate.Tensors[i]; !seen[keyOf(t)] {
			x.report.OnlyCandidate = append(x.report.OnlyCandidate, t.Name)
		}
	}
	if len(x.layers) == 0 {
		return fmt.Errorf("%w: %s and %s have no tensor in common%s%s", ErrNothing, x.master.Path, x.candidate.Path, x.master.unread(), x.candidate.unread())
	}
	return nil
}

// unread says what of a side cannot be read, and why where that is known.
func (s *Side) unread() string {
	if len(s.Left) == 0 {
		return ""
	}
	first := s.Left[0]
	if s.why != "" {
		first = s.why
	}
	return fmt.Sprintf("; of %s %d are not compared, the first %s", s.Path, len(s.Left), first)
}

// layer compares what is in one layer.
func (x *comparison) layer(ctx context.Context, l *layer) error {
	err := x.each(ctx, l.pairs, func(w *worker, p *pair) error {
		p.sums = nil
		var into *sums
		if p.a.Matrix && !x.AsStored {
			into = &sums{newLines(p.a.Cols), newLines(p.a.Rows)}
		}
		s, err := w.pass(ctx, p, &undo{}, into)
		if err != nil {
			return err
		}
		p.stored, p.final = s, s
		if p.a.Matrix && s.relL2() > worthExplained {
			p.sums = into
		}
		if (p.a.Role.Kind == topology.Norm || p.a.Role.Param == "bias") && p.a.Rows == 1 && !x.AsStored {
			if p.values[0], err = read(ctx, &w.a, p.a); err == nil {
				p.values[1], err = read(ctx, &w.b, p.b)
			}
		}
		return err
	})
	if err != nil || x.AsStored {
		return err
	}
	l.byNorms()
	if err := x.orders(ctx, l); err != nil {
		return err
	}
	w := &worker{}
	if err := l.byMaps(ctx, w); err != nil {
		return err
	}
	return x.each(ctx, l.pairs, func(w *worker, p *pair) error { return l.last(ctx, w, p) })
}

// orders looks for other orders of rows: in what a norm's scale did not explain, with
// and without it, and in what is far off.
func (x *comparison) orders(ctx context.Context, l *layer) error {
	hopes := map[*pair]*pending{}
	for i := range l.pending {
		hopes[l.pending[i].p] = &l.pending[i]
	}
	var far []*pair
	for _, p := range l.pairs {
		if !x.ordered && p.a.Matrix && p.sums != nil && p.stored.relL2() > farOff {
			far = append(far, p)
		}
	}
	err := x.each(ctx, far, func(w *worker, p *pair) error {
		hope := hopes[p]
		if hope != nil {
			p.undo.cols = hope.scales
		}
		if err := l.byRows(ctx, w, p); err != nil || hope == nil {
			return err
		}
		if p.undo.order == nil {
			p.undo.cols = nil
			return l.byRows(ctx, w, p)
		}
		p.undo.words = append([]string{hope.words}, p.undo.words...)
		return nil
	})
	if err != nil {
		return err
	}
	for _, h := range l.pending {
		if h.p.undo.cols == nil && h.p.sums != nil {
			e := weigh(&h.p.sums.col, h.p.a.Rows, h.scales)
			l.find(SmoothingDisagrees, h.p, "%s was divided by s in %s, which explains %.0f %% of the columns here: not undone, though other matrices behind it were multiplied by that", h.norm.b.Name, span(h.scales), 100*max(0, e.explained()))
		}
	}
	for _, p := range l.pairs { // a bias stands in the order of its rows
		if p.undo.order == nil {
			continue
		}
		r := p.a.Role
		r.Param = "bias"
		if at := slices.IndexFunc(l.pairs, func(q *pair) bool { return q.a.Role == r }); at >= 0 {
			l.pairs[at].turn(p.undo.order)
		}
	}
	return nil
}

// turn puts the values of a bias into the master's order, where that brings them
// nearer.
func (p *pair) turn(order []int32) {
	if len(p.values[0]) != len(order) || len(p.values[1]) != len(order) {
		return
	}
	var s stats
	row, q := make([]float32, len(order)), make([]float64, len(order))
	for i, from := range order {
		row[i], q[i] = float32(p.values[0][i]), p.values[1][from]
	}
	var w worker
	s = w.row(row, q, nil, 0)
	if s.e2 < p.stored.e2 {
		p.final = s
		p.undo.words = append(p.undo.words, "put back with its rows")
	}
}

// last measures a pair once more where something is undone, and keeps that only
// where it brings the two nearer.
func (l *layer) last(ctx context.Context, w *worker, p *pair) error {
	if !p.undo.any() {
		return nil
	}
	s, err := w.pass(ctx, p, &p.undo, nil)
	if err != nil {
		return err
	}
	if !(s.e2 < p.stored.e2) {
		p.undo = undo{}
		return nil
	}
	p.final = s
	return nil
}

// each runs f for pairs on as many goroutines as there are threads.
func (x *comparison) each(ctx context.Context, pairs []*pair, f func(w *worker, p *pair) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan *pair)
	var wg sync.WaitGroup
	for range min(x.Threads, max(len(pairs), 1)) {
		wg.Go(func() {
			w := &worker{}
			for p := range next {
				if err := f(w, p); err != nil {
					cancel(err)
				}
				x.progress(p)
			}
		})
	}
	for _, p := range pairs {
		select {
		case next <- p:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}

// progress counts a pair once.
func (x *comparison) progress(p *pair) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !p.counted {
		p.counted = true
		x.done += int64(p.a.Rows) * int64(p.a.Cols)
	}
	if x.Progress != nil {
		x.Progress(Progress{x.done, x.total, p.a.Name})
	}
}
