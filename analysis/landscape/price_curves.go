package landscape

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
)

// PriceOptions are the settings of a pricing.
type PriceOptions struct {
	Base    int         // arm of what is not exempted
	Protect int         // arm of what is
	By      Granularity // what lists by rel2 and amax and the controls exempt together
	Repeats int         // of the random control; 0: UsualRepeats
	Seed    uint64      // of the random control
}

// curvePoints is how many steps a curve has at most; they are closer where
// lists are short, since that is where they are used.
const curvePoints = 100

// Price follows exemption lists and their controls from no exemption to all.
// Only items with finite figures and sizes under both arms are priced. The
// error wraps ErrNoFigures where there is none, or is that of ctx.
func Price(ctx context.Context, t *Table, o PriceOptions) (*Pricing, error) {
	for _, a := range []int{o.Base, o.Protect} {
		if a < 0 || a >= len(t.Arms) {
			return nil, fmt.Errorf("arm %d is none of the %d of the table", a, len(t.Arms))
		}
	}
	if o.Base == o.Protect {
		return nil, fmt.Errorf("%s as base and for what is exempted: an exemption would change nothing", t.Arms[o.Base].Name)
	}
	if int(o.By) >= len(granularities) {
		return nil, fmt.Errorf("%v is not known", o.By)
	}
	if o.Repeats <= 0 {
		o.Repeats = UsualRepeats
	}
	p := newPricer(t, o)
	if p.n == 0 {
		return nil, fmt.Errorf("%s and %s: no tensor has finite figures and sizes under both: %w", t.Arms[o.Base].Name, t.Arms[o.Protect].Name, ErrNoFigures)
	}
	out := &Pricing{
		Base: t.Arms[o.Base].Name, Protect: t.Arms[o.Protect].Name, By: o.By.String(),
		Tensors: p.n, LeftOut: len(t.Items) - p.n, Repeats: o.Repeats, Seed: o.Seed,
	}
	for i := range t.Items {
		if p.priced[i] && math.IsNaN(t.Items[i].Amax) {
			out.NoAmax++
		}
	}
	own := p.groups(o.By)
	lists := []struct {
		name  string
		order []exemption
	}{
		{"rel2", sorted(own, func(e *exemption) float64 { return -e.mean() })},
		{"amax", sorted(own, func(e *exemption) float64 { return -e.amax })},
		{"layer", sorted(p.groups(ByLayer), func(e *exemption) float64 { return -e.mean() })},
		{"projection", sorted(p.groups(ByProjection), func(e *exemption) float64 { return -e.mean() })},
	}
	paths := make([]path, len(lists))
	for i, l := range lists {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		paths[i] = p.follow(l.order)
		out.Curves = append(out.Curves, Curve{Name: l.name, Points: p.points(l.order, &paths[i])})
	}
	random, err := p.random(ctx, own)
	if err != nil {
		return nil, err
	}
	evenly := make([]exemption, 0, len(own))
	for _, k := range spread(len(own)) {
		evenly = append(evenly, own[k])
	}
	backwards := sorted(own, func(e *exemption) float64 { return e.mean() })
	uniform, reversed := p.follow(evenly), p.follow(backwards)
	out.Curves = append(out.Curves,
		Curve{Name: "random", Control: true, Points: random},
		Curve{Name: "uniform", Control: true, Points: p.points(evenly, &uniform)},
		Curve{Name: "reversed", Control: true, Points: p.points(backwards, &reversed)})
	for i, l := range lists {
		c := p.compare(l.name, &paths[i], random, &uniform, &reversed)
		out.Against = append(out.Against, c)
		out.Verdicts = append(out.Verdicts, c.Sentence)
	}
	return out, nil
}

// pricer knows what each item costs and loses under both arms.
type pricer struct {
	t        *Table
	o        PriceOptions
	priced   []bool
	n        int
	elements int64
	base     int64   // bytes without exemptions
	axis     axis    // what lists are compared over
	none     float64 // mean error without exemptions
}

// axis is what "equal bytes" means: bytes where every exemption adds some, or
// every one saves some; else the number of weights, for instance between
// variants of one scheme.
type axis uint8

const (
	byBytes axis = iota
	bySaved
	byWeights
)

func newPricer(t *Table, o PriceOptions) *pricer {
	p := &pricer{t: t, o: o, priced: make([]bool, len(t.Items))}
	more, less := false, false
	var none sum
	for i := range t.Items {
		ok := true
		for _, a := range []int{o.Base, o.Protect} {
			v := t.Arms[a].Samples[i].Rel2
			ok = ok && t.Arms[a].Samples[i].State == Measured && t.Arms[a].Bytes[i] >= 0 && v >= 0 && !math.IsInf(v, 1)
		}
		if p.priced[i] = ok; !ok {
			continue
		}
		p.n++
		p.elements += t.Items[i].Elements()
		p.base += t.Arms[o.Base].Bytes[i]
		none.addFinite(t.Arms[o.Base].Samples[i].Rel2)
		d := t.Arms[o.Protect].Bytes[i] - t.Arms[o.Base].Bytes[i]
		more, less = more || d > 0, less || d < 0
	}
	p.none = none.value() / float64(max(p.n, 1))
	switch {
	case more == less:
		p.axis = byWeights
	case less:
		p.axis = bySaved
	}
	return p
}

// exemption is a unit with what it has under both arms.
type exemption struct {
	unit
	bytes         int64 // more than under the base
	cost          int64 // on the axis
	before, after float64
	amax          float64 // the largest; -1 where none is known
}

func (e *exemption) mean() float64 { return e.before / float64(len(e.items)) }

func (p *pricer) groups(g Granularity) []exemption {
	all := units(p.t, g, func(i int) bool { return p.priced[i] })
	out := make([]exemption, len(all))
	base, protect := &p.t.Arms[p.o.Base], &p.t.Arms[p.o.Protect]
	for k, u := range all {
		e := exemption{unit: u, amax: -1}
		for _, i := range u.items {
			e.bytes += protect.Bytes[i] - base.Bytes[i]
			e.before += base.Samples[i].Rel2
			e.after += protect.Samples[i].Rel2
			if a := p.t.Items[i].Amax; a > e.amax {
				e.amax = a
			}
			if p.axis == byWeights {
				e.cost += p.t.Items[i].Elements()
			}
		}
		switch p.axis {
		case byBytes:
			e.cost = e.bytes
		case bySaved:
			e.cost = -e.bytes
		}
		out[k] = e
	}
	return out
}

// sorted is a copy by rising key; equal ones stay in order.
func sorted(list []exemption, key func(*exemption) float64) []exemption {
	type place struct {
		key float64
		at  int
	}
	places := make([]place, len(list))
	for k := range list {
		places[k] = place{key(&list[k]), k}
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.at, b.at)) })
	out := make([]exemption, len(list))
	for k, p := range places {
		out[k] = list[p.at]
	}
	return out
}

// path is a list followed from its first to its last: index k is after k units.
type path struct {
	cost, bytes []int64
	tensors     []int
	mean        []float64
}

// follow adds a list up, from both ends, so that the last mean is that of the
// protecting arm to the last digit.
func (p *pricer) follow(list []exemption) path {
	var out path
	p.refollow(list, &out)
	return out
}

// refollow is follow into a path that may be in use no more.
func (p *pricer) refollow(list []exemption, out *path) {
	n := len(list)
	if len(out.cost) != n+1 {
		*out = path{make([]int64, n+1), make([]int64, n+1), make([]int, n+1), make([]float64, n+1)}
	}
	out.bytes[0], out.mean[n] = p.base, 0
	var done, rest sum
	for k := n - 1; k >= 0; k-- {
		rest.addFinite(list[k].before)
		out.mean[k] = rest.value()
	}
	for k := range list {
		e := &list[k]
		done.addFinite(e.after)
		out.cost[k+1], out.bytes[k+1], out.tensors[k+1] = out.cost[k]+e.cost, out.bytes[k]+e.bytes, out.tensors[k]+len(e.items)
		out.mean[k+1] += done.value()
	}
	for k := range out.mean {
		out.mean[k] /= float64(p.n)
	}
}

// total is the cost of everything.
func (a *path) total() int64 { return a.cost[len(a.cost)-1] }

// at is the path where it costs c, between two lengths by proportion.
func (a *path) at(c float64) (bytes, tensors, mean float64) {
	k := sort.Search(len(a.cost), func(k int) bool { return float64(a.cost[k]) >= c })
	if k >= len(a.cost) {
		k = len(a.cost) - 1
	}
	if k == 0 || float64(a.cost[k]) <= c {
		return float64(a.bytes[k]), float64(a.tensors[k]), a.mean[k]
	}
	f := (c - float64(a.cost[k-1])) / float64(a.cost[k]-a.cost[k-1])
	mix := func(x, y float64) float64 { return x + f*(y-x) }
	return mix(float64(a.bytes[k-1]), float64(a.bytes[k])), mix(float64(a.tensors[k-1]), float64(a.tensors[k])), mix(a.mean[k-1], a.mean[k])
}

// share is the part of everything that point j of curvePoints stands at.
func share(j int) float64 { return float64(j*j) / (curvePoints * curvePoints) }

// points samples a path at whole units.
func (p *pricer) points(list []exemption, a *path) []Point {
	out := []Point{p.point(a, 0, "")}
	last := 0
	for j := 1; j <= curvePoints; j++ {
		if k := int(math.Round(share(j) * float64(len(list)))); k > last {
			out = append(out, p.point(a, k, list[k-1].name))
			last = k
		}
	}
	return out
}

func (p *pricer) point(a *path, k int, last string) Point {
	return Point{Exempted: a.tensors[k], Bytes: a.bytes[k], BitsPerWeight: bitsPerWeight(a.bytes[k], p.elements),
		MeanRel2: a.mean[k], Low: a.mean[k], High: a.mean[k], Last: last}
}

// random is the mean of shuffled lists, with their span, at even costs.
func (p *pricer) random(ctx context.Context, list []exemption) ([]Point, error) {
	rng := rand.New(rand.NewPCG(p.o.Seed, uint64(len(list))))
	list = slices.Clone(list)
	var a path
	means := make([][]float64, curvePoints+1)
	bytes, tensors := make([]float64, curvePoints+1), make([]float64, curvePoints+1)
	for range p.o.Repeats {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		p.refollow(list, &a)
		for j := range means {
			b, n, m := a.at(share(j) * float64(a.total()))
			means[j] = append(means[j], m)
			bytes[j] += b / float64(p.o.Repeats)
			tensors[j] += n / float64(p.o.Repeats)
		}
	}
	out := make([]Point, len(means))
	for j := range out {
		pt := Point{Exempted: int(math.Round(tensors[j])), Bytes: int64(math.Round(bytes[j]))}
		pt.BitsPerWeight = bitsPerWeight(pt.Bytes, p.elements)
		pt.MeanRel2, pt.Low, pt.High = span(means[j])
		out[j] = pt
	}
	return out, nil
}

// At reads a curve where a share of what can be added has been: of the bytes, or
// of the tensors where all sizes are the same. Between two points it is by
// proportion.
func (c *Curve) At(share float64) Point {
	n := len(c.Points)
	if n == 0 {
		return Point{}
	}
	first, last := &c.Points[0], &c.Points[n-1]
	where := func(p *Point) float64 {
		if first.Bytes == last.Bytes {
			return float64(p.Exempted) / float64(max(last.Exempted, 1))
		}
		return float64(p.Bytes-first.Bytes) / float64(last.Bytes-first.Bytes)
	}
	k := sort.Search(n, func(k int) bool { return where(&c.Points[k]) >= share })
	switch {
	case k == n:
		return *last
	case k == 0 || where(&c.Points[k]) <= share:
		return c.Points[k]
	}
	a, b := &c.Points[k-1], &c.Points[k]
	f := (share - where(a)) / (where(b) - where(a))
	mix := func(x, y float64) float64 { return x + f*(y-x) }
	return Point{
		Exempted: int(math.Round(mix(float64(a.Exempted), float64(b.Exempted)))), Bytes: int64(math.Round(mix(float64(a.Bytes), float64(b.Bytes)))),
		BitsPerWeight: mix(a.BitsPerWeight, b.BitsPerWeight), MeanRel2: mix(a.MeanRel2, b.MeanRel2), Low: mix(a.Low, b.Low), High: mix(a.High, b.High), Last: b.Last,
	}
}
