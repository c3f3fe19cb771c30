package views

import (
	"cmp"
	"math"
	"slices"

	"quantscope/analysis/stats"
	"quantscope/sessions"
)

// change says how the step from A to B is measured for one metric.
type change struct {
	unit     string
	format   string // of the step in that unit
	relative bool   // (b−a)/|a|; else b−a
	factor   float64
}

// changeOf chooses it: shares and logarithmic figures are compared by their
// difference, since the first is often exactly 0 and the second already is a
// ratio; the rest by their relative change.
func changeOf(m Metric) change {
	switch m.Name {
	case "cos":
		return change{"", "%+.5f", false, 1}
	case "sqnr":
		return change{"dB", "%+.2f", false, 1}
	case "sign_bias", "row_bias":
		return change{"", "%+.4f", false, 1}
	case "deep", "shallow", "deep_l2", "clamped", "changed", "damping":
		return change{"points", "%+.2f", false, 100}
	}
	return change{"%", "%+.1f", true, 100}
}

// of is the step from a to b; NaN where it is not defined.
func (c change) of(a, b float64) float64 {
	if c.relative {
		return c.factor * stats.RelativeChange(a, b)
	}
	return c.factor * (b - a)
}

// column is what one side of a comparison needs of its records, by tensor, so
// that a pass over all pairs reads a few arrays and not every record.
type column struct {
	states       []CellState
	metric, rel2 []float64 // NaN where there is none
	deep, blocks []int64
}

func newColumn(n int) column {
	c := column{make([]CellState, n), make([]float64, n), make([]float64, n), make([]int64, n), make([]int64, n)}
	for t := range n {
		c.metric[t], c.rel2[t] = math.NaN(), math.NaN()
	}
	return c
}

func (c *column) set(tensor int, r *sessions.Record, value float64, state CellState) {
	c.metric[tensor], c.states[tensor] = value, state
	c.rel2[tensor], c.deep[tensor], c.blocks[tensor] = math.NaN(), 0, 0
	if r.Seq != 0 && !r.Failed {
		c.rel2[tensor], c.deep[tensor], c.blocks[tensor] = r.Rel2, r.Deep, r.Blocks
	}
}

// regression is one tensor on which B is worse than A.
type regression struct {
	tensor int
	a, b   float64
	change float64
}

// comparison is the outcome over all pairs that are shown.
type comparison struct {
	total   int          // tensors shown
	missing int          // of which one side or both are not measured yet
	by      stats.Paired // by the metric
	rel2    stats.Paired
	test    stats.SignedRank // of the differences b − a of the metric

	rel2Reach float64 // of the change of mean rel2: half of its interval, a share; NaN where there is none

	bytesA, bytesB                 int64 // of what is shown, measured or not; -1 where they are not known
	deepA, deepB, blocksA, blocksB int64
	low, median, high              float64 // of the changes
	undefined                      int     // pairs whose change is not defined
	scale                          Scale   // symmetric, of the changes
	worst                          []regression
	layers, projections            []stats.Paired // of the metric, by place
	layerRel2, projectionRel2      []stats.Paired
}

// pairs holds the two sides of a comparison and what follows from them.
//
// What Apply does costs a few stores a record. The outcome is computed from
// scratch when it is asked for and something changed: one pass over the arrays
// and one linear-time sort, some 4 ms for 37,152 pairs, so there is nothing
// to spread over frames and no figure is ever older than the map beside it.
type pairs struct {
	metric  Metric
	figure  func(variant, tensor int, r *sessions.Record) (float64, CellState) // of metrics that are not of a record alone; nil
	change  change
	a, b    int
	left    column    // A
	right   column    // B
	changes []float64 // by tensor; NaN where there is none
	states  []CellState
	places  places

	sizesA, sizesB []int64 // bytes by tensor; nil where they are not known

	keys, sorting      []uint64
	finite             []float64 // changes that are defined
	scatterA, scatterB []float64
	outcome            comparison
}

// rebuild reads both sides anew.
func (p *pairs) rebuild(state *sessions.State, a, b int, m Metric) {
	n := len(state.Tensors)
	p.metric, p.change, p.a, p.b = m, changeOf(m), a, b
	if !p.places.of(state.Tensors) {
		p.places = newPlaces(state.Tensors)
	}
	p.left, p.right = newColumn(n), newColumn(n)
	p.sizesA, p.sizesB = sizes(state, a), sizes(state, b)
	p.changes, p.states = make([]float64, n), make([]CellState, n)
	p.keys, p.sorting = make([]uint64, 0, n), make([]uint64, n)
	p.finite = make([]float64, 0, n)
	for t := range n {
		if a >= 0 && a < len(state.Records) {
			p.set(&p.left, a, t, &state.Records[a][t])
		}
		if b >= 0 && b < len(state.Records) {
			p.set(&p.right, b, t, &state.Records[b][t])
		}
	}
}

// set takes in what one side knows of a tensor.
func (p *pairs) set(side *column, variant, tensor int, r *sessions.Record) {
	value, state := math.NaN(), Absent
	switch {
	case p.figure != nil:
		value, state = p.figure(variant, tensor, r)
	case p.metric.Of != nil:
		value, state = figureOf(p.metric, r)
	}
	side.set(tensor, r, value, state)
}

// take updates the tensors that a batch has changed and says whether it
// concerned either side.
func (p *pairs) take(state *sessions.State, records []sessions.Record) (changed bool) {
	for i := range records {
		v, t := records[i].Variant, records[i].Tensor
		if t < 0 || t >= len(p.changes) || v < 0 || v >= len(state.Records) {
			continue
		}
		if v == p.a {
			p.set(&p.left, v, t, &state.Records[v][t])
			changed = true
		}
		if v == p.b {
			p.set(&p.right, v, t, &state.Records[v][t])
			changed = true
		}
	}
	return changed
}

// compute works out the outcome over the tensors that f and projection show,
// with at most worst regressions.
func (p *pairs) compute(f Filter, projection string, worst int) {
	only := p.places.projectionIndex(projection)
	o := &p.outcome
	*o = comparison{
		worst:  o.worst[:0],
		layers: make([]stats.Paired, p.places.layers()), layerRel2: make([]stats.Paired, p.places.layers()),
		projections: make([]stats.Paired, len(p.places.projections)), projectionRel2: make([]stats.Paired, len(p.places.projections)),
	}
	p.keys, p.finite = p.keys[:0], p.finite[:0]
	for t := range p.changes {
		p.changes[t], p.states[t] = math.NaN(), max(p.left.states[t], p.right.states[t])
		if p.left.states[t] == NotYet || p.right.states[t] == NotYet {
			p.states[t] = NotYet
		} else if p.states[t] != Failed {
			absent := p.left.states[t].lacks() || p.right.states[t].lacks()
			if p.states[t] = NotFinite; absent { // until its change is known
				p.states[t] = Absent
			}
		}
		if !f.Shows(t) || only >= 0 && int(p.places.projection[t]) != only {
			continue
		}
		o.total++
		o.addSizes(sizeOf(p.sizesA, t), sizeOf(p.sizesB, t))
		if p.states[t] == NotYet {
			o.missing++
			continue
		}
		p.pair(o, t, worst)
	}
	stats.SortKeys(p.keys, p.sorting)
	o.test = stats.WilcoxonKeys(p.keys, stats.Options{})
	o.scale = SymmetricScale(p.finite)
	o.rel2Reach = p.rel2Reach(func(t int) bool { return f.Shows(t) && (only < 0 || int(p.places.projection[t]) == only) })
	o.low, o.median, o.high = math.NaN(), math.NaN(), math.NaN()
	if n := len(p.finite); n > 0 {
		o.low, o.high = slices.Min(p.finite), slices.Max(p.finite)
		o.median = nth(p.finite, (n-1)/2)
		if n%2 == 0 {
			o.median = o.median/2 + nth(p.finite, n/2)/2
		}
	}
}

// pair takes in one tensor that both sides know.
func (p *pairs) pair(o *comparison, t, worst int) {
	a, b, worse := p.left.metric[t], p.right.metric[t], p.metric.Worse
	x, y := a, b // as they are better or worse
	if p.metric.Diverging {
		x, y = math.Abs(a), math.Abs(b)
	}
	layer, projection := p.places.layer(t), p.places.projection[t]
	o.by.Add(x, y, worse)
	o.layers[layer].Add(x, y, worse)
	o.projections[projection].Add(x, y, worse)
	o.rel2.Add(p.left.rel2[t], p.right.rel2[t], 1)
	o.layerRel2[layer].Add(p.left.rel2[t], p.right.rel2[t], 1)
	o.projectionRel2[projection].Add(p.left.rel2[t], p.right.rel2[t], 1)
	o.deepA += p.left.deep[t]
	o.blocksA += p.left.blocks[t]
	o.deepB += p.right.deep[t]
	o.blocksB += p.right.blocks[t]
	key, ok := stats.SignedKey(y - x)
	if !ok {
		return
	}
	p.keys = append(p.keys, key)
	c := p.change.of(x, y)
	if !isNumber(c) {
		o.undefined++
		c = math.NaN()
	} else {
		p.changes[t], p.states[t] = c, Measured
		p.finite = append(p.finite, c)
	}
	if worse != 0 && (y-x)*float64(worse) > 0 && worst > 0 {
		o.regress(regression{t, a, b, c}, worse, worst)
	}
}

// regress keeps the worst few regressions, the worst first. One whose relative
// change is not defined, because A was 0, is worse than any that is.
func (o *comparison) regress(r regression, worse, keep int) {
	order := func(x, y regression) int {
		return cmp.Compare(badness(y.change, worse), badness(x.change, worse))
	}
	if len(o.worst) == keep && order(r, o.worst[keep-1]) >= 0 {
		return
	}
	at, _ := slices.BinarySearchFunc(o.worst, r, func(x, y regression) int {
		if c := order(x, y); c != 0 {
			return c
		}
		return -1 // after its equals, so that the lower tensor stays first
	})
	o.worst = slices.Insert(o.worst, at, r)
	if len(o.worst) > keep {
		o.worst = o.worst[:keep]
	}
}

func badness(change float64, worse int) float64 {
	if math.IsNaN(change) {
		return math.Inf(1)
	}
	return change * float64(worse)
}
