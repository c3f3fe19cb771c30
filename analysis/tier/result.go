package tier

import "slices"

// take adds a window up.
func (r *Result) take(w *Window) {
	r.Windows++
	r.Promoted += int64(w.Promoted)
	r.Evicted += int64(w.Evicted)
	r.Held += int64(w.Held)
	r.PerLayer, r.HotBytes = w.PerLayer, w.HotBytes
}

// judge fills in what follows from the run and from the workload as a whole.
func (s *Setup) judge(t *Trace, counts []int64, r *Result) {
	hot := 0
	r.Histogram = make([]int, s.Shape.Experts+1)
	for l, n := range r.PerLayer {
		hot += n
		r.Histogram[n]++
		r.Replace += int64(n)*s.Shape.Hot[l] + int64(s.Shape.Experts-n)*s.Shape.Cold[l]
		r.Beside += int64(n)*s.Shape.Hot[l] + int64(s.Shape.Experts)*s.Shape.Cold[l]
	}
	r.Coverage = share(int64(hot), int64(s.Shape.Total()))
	if r.Windows > 0 {
		r.ChurnWindow = float64(r.Churn) / float64(r.Windows)
	}
	of := pools(&s.Shape, &s.Policy, s.Budgets[r.Budget].Bytes)
	fixed := best(&s.Shape, counts, of, false)
	r.Best = served(fixed, counts)
	if hot == 0 || hot == s.Shape.Total() {
		return // every map of as many bytes is the same one
	}
	for _, c := range []struct {
		how string
		hot []bool
	}{{Fixed, fixed}, {Random, anyOf(&s.Shape, of, s.Seed)}, {Coldest, best(&s.Shape, counts, of, true)}} {
		r.Controls = append(r.Controls, Control{Name: c.how, Hits: served(c.hot, counts), Map: s.mapOf(r.Budget, c.hot, c.how)})
	}
}

// tally counts hits token by token.
type tally struct {
	t     *Trace
	hits  []int32
	pairs int64 // of a token
}

func newTally(t *Trace) *tally {
	return &tally{t: t, hits: make([]int32, t.Tokens), pairs: int64(len(t.Layers)) * int64(t.TopK)}
}

func (y *tally) take(token, hits int) { y.hits[token] = int32(hits) }

// of is the share of pairs that tokens from one on were served hot.
func (y *tally) of(first, end int) float64 {
	var n int64
	for _, h := range y.hits[first:end] {
		n += int64(h)
	}
	return share(n, int64(end-first)*y.pairs)
}

func (y *tally) all() float64 { return y.of(0, y.t.Tokens) }

// settled is of the second half of the windows.
func (y *tally) settled(window int) float64 {
	windows := (y.t.Tokens + window - 1) / window
	return y.of(min(windows/2*window, y.t.Tokens), y.t.Tokens)
}

func (y *tally) phases() []float64 {
	var out []float64
	for i, p := range y.t.Phases {
		end := y.t.Tokens
		if i+1 < len(y.t.Phases) {
			end = y.t.Phases[i+1].First
		}
		out = append(out, y.of(p.First, end))
	}
	return out
}

// Labels are the maps of a run by the name that stands behind tier: in the spec of a
// candidate: LABEL, and LABEL#fixed, LABEL#random and LABEL#coldest for controls.
func (e *End) Labels() (names []string, maps []*Map) {
	for _, r := range e.Results {
		if r.Map == nil {
			continue
		}
		names, maps = append(names, r.Map.Budget.Label), append(maps, r.Map)
		for _, c := range r.Controls {
			names, maps = append(names, r.Map.Budget.Label+"#"+c.Name), append(maps, c.Map)
		}
	}
	return names, maps
}

// MapOf finds a map by its name, see Labels.
func (e *End) MapOf(name string) (*Map, bool) {
	names, maps := e.Labels()
	if i := slices.Index(names, name); i >= 0 {
		return maps[i], true
	}
	return nil, false
}
