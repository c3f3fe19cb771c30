package compare

import (
	"cmp"
	"math"
	"slices"

	"quantscope/analysis/landscape"
	"quantscope/analysis/stats"
	"quantscope/quant/topology"
)

// MaxWorst bounds how many regressions a report lists.
const MaxWorst = 100_000

// pair is an item of which both sides have a finite figure: those, or of a metric
// that diverges their magnitudes.
type pair struct {
	item int
	a, b float64
}

// Run compares B with A and lists the worst regressions. Its errors wrap
// ErrInput.
func Run(in *Input, worst int) (*Report, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	r := &Report{
		Metric: in.Metric, Tensors: len(in.Items),
		A: Named{in.A.Session, in.A.Variant, in.A.Alone}, B: Named{in.B.Session, in.B.Variant, in.B.Alone},
	}
	pairs := r.pairs(in)
	r.Pairs = len(pairs)
	r.Outcome = outcome(in.Metric, pairs)
	r.Wilcoxon = wilcoxon(pairs)
	changes := r.changes(in.Metric, pairs)
	r.Median = median(changes)
	r.Distribution = distribution(changes)
	r.Worst = regressions(in, pairs, min(worst, MaxWorst))
	r.Layers = places(in, pairs, topology.Role.LayerName, layerOrder)
	r.Projections = places(in, pairs, projectionName, projectionOrder)
	r.Size = sizes(in)
	return r, nil
}

// pairs are those that can be compared; the others are counted by what they lack.
func (r *Report) pairs(in *Input) []pair {
	pairs := make([]pair, 0, len(in.Items))
	for i := range in.Items {
		a, b := in.A.States[i], in.B.States[i]
		switch {
		case a == landscape.Failed || b == landscape.Failed:
			r.Failed++
		case a != landscape.Measured || b != landscape.Measured:
			r.Pending++
		case !isFinite(in.A.Values[i]) || !isFinite(in.B.Values[i]) || !isFinite(in.B.Values[i]-in.A.Values[i]):
			r.NotFinite++
		default:
			x, y := in.A.Values[i], in.B.Values[i]
			if in.Metric.Diverging {
				x, y = math.Abs(x), math.Abs(y)
			}
			pairs = append(pairs, pair{i, x, y})
		}
	}
	return pairs
}

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// step is the change from a to b; NaN where it is not defined.
func (m Metric) step(a, b float64) float64 {
	if m.Relative {
		return stats.RelativeChange(a, b)
	}
	return b - a
}

// changes are the steps of all pairs that have one, in ascending order.
func (r *Report) changes(m Metric, pairs []pair) []float64 {
	out := make([]float64, 0, len(pairs))
	for _, p := range pairs {
		if c := m.step(p.a, p.b); isFinite(c) {
			out = append(out, c)
		} else {
			r.Undefined++
		}
	}
	slices.Sort(out)
	return out
}

func wilcoxon(pairs []pair) Wilcoxon {
	differences := make([]float64, len(pairs))
	for i, p := range pairs {
		differences[i] = p.b - p.a
	}
	t := stats.Wilcoxon(differences, stats.Options{})
	w := Wilcoxon{Method: WilcoxonMethod, N: t.N, Zeros: t.Zeros, Plus: t.Plus, Minus: t.Minus}
	if math.IsNaN(t.P) {
		why := "no pair differs"
		if len(pairs) == 0 {
			why = noPairs
		}
		w.Z, w.P, w.Log10P = landscape.Undefined(why), landscape.Undefined(why), landscape.Undefined(why)
		return w
	}
	w.Z, w.P, w.Log10P = landscape.Exact(t.Z), landscape.Exact(t.P), landscape.Exact(t.Log10P)
	return w
}

// Why there is no statistic.
const (
	noPairs    = "no tensor has a finite figure on both sides"
	outOfRange = "it is out of the range of figures"
)

func median(changes []float64) landscape.Value {
	if len(changes) == 0 {
		return landscape.Undefined("no pair has a change that is defined")
	}
	low, high := stats.MedianInterval(changes, landscape.Confidence)
	return landscape.Value{V: stats.Quantile(changes, 0.5), Low: low, High: high}
}

// regressions are the losses, the worst first. One whose relative change is not
// defined, because A was 0, is worse than any that is.
func regressions(in *Input, pairs []pair, most int) []Regression {
	type loss struct {
		pair
		step, badness float64
	}
	var losses []loss
	for _, p := range pairs {
		if (p.b-p.a)*float64(in.Metric.Worse) > 0 {
			l := loss{pair: p, step: in.Metric.step(p.a, p.b)}
			if l.badness = l.step * float64(in.Metric.Worse); !isFinite(l.step) {
				l.badness = math.Inf(1)
			}
			losses = append(losses, l)
		}
	}
	slices.SortStableFunc(losses, func(x, y loss) int { return cmp.Compare(y.badness, x.badness) })
	out := []Regression{}
	for _, l := range losses[:max(0, min(len(losses), most))] {
		it := &in.Items[l.item]
		change := landscape.Exact(l.step)
		switch {
		case math.IsNaN(l.step):
			change = landscape.Undefined("A is 0")
		case math.IsInf(l.step, 0):
			change = landscape.Undefined(outOfRange)
		}
		out = append(out, Regression{l.item, it.Name, it.Role.LayerName(), projectionName(it.Role), in.A.Values[l.item], in.B.Values[l.item], change})
	}
	return out
}

// places are the outcomes by name, in order. A place without a pair is listed too.
func places(in *Input, pairs []pair, name func(topology.Role) string, order func(a, b topology.Role) int) []Place {
	type group struct {
		name  string
		role  topology.Role
		pairs []pair
	}
	var groups []*group
	at := map[string]*group{}
	find := func(item int) *group {
		r := in.Items[item].Role
		n := name(r)
		if at[n] == nil {
			at[n] = &group{name: n, role: r}
			groups = append(groups, at[n])
		}
		return at[n]
	}
	for i := range in.Items {
		find(i)
	}
	for _, p := range pairs {
		g := find(p.item)
		g.pairs = append(g.pairs, p)
	}
	slices.SortStableFunc(groups, func(a, b *group) int { return order(a.role, b.role) })
	out := []Place{}
	for _, g := range groups {
		out = append(out, Place{g.name, len(g.pairs), outcome(in.Metric, g.pairs)})
	}
	return out
}

func sizes(in *Input) Size {
	s := Size{}
	var elements int64
	unknown := func(side *Side, item int) Size {
		why := "how " + side.Variant + " stores " + in.Items[item].Name + " is not known"
		return Size{Why: why, Change: landscape.Undefined(why), BitsA: landscape.Undefined(why), BitsB: landscape.Undefined(why)}
	}
	for i := range in.Items {
		switch {
		case in.A.Bytes[i] < 0:
			return unknown(&in.A, i)
		case in.B.Bytes[i] < 0:
			return unknown(&in.B, i)
		}
		s.A += in.A.Bytes[i]
		s.B += in.B.Bytes[i]
		elements += in.Items[i].Elements
	}
	s.Bytes = s.B - s.A
	s.Change, s.BitsA, s.BitsB = landscape.Undefined("nothing is stored"), landscape.Undefined("there are no weights"), landscape.Undefined("there are no weights")
	if s.A > 0 {
		s.Change = landscape.Exact(float64(s.Bytes) / float64(s.A))
	}
	if elements > 0 {
		s.BitsA = landscape.Exact(8 * float64(s.A) / float64(elements))
		s.BitsB = landscape.Exact(8 * float64(s.B) / float64(elements))
	}
	return s
}
