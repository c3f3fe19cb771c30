package views

import (
	"math"
	"reflect"
	"slices"

	"quantscope/analysis/tier"
	"quantscope/sessions"
)

// tierTrack is what a run of a hot tier comes to, budget by budget, after as many
// windows as it has: who is hot, since when and how hot. Windows that follow are
// taken in as they are; where there are fewer than before, as after a seek back, it
// goes on from the last mark before.
type tierTrack struct {
	run    int // index in State.Tiers
	atUS   int64
	setup  *tier.Setup
	budget []uint16 // of each window taken, in the order of the run
	last   *tier.Window
	arms   []*tierArm // by budget
}

// tierArm is one budget of a run.
type tierArm struct {
	experts, layers int
	index           map[int]int // of a layer of the model in the shape
	start           []bool      // hot before the first window
	windows         []*tier.Window
	// hits and the others are sums over the windows, one longer than there are.
	hits, pairs, held, churn []int64

	tierNow
	at    int // windows that it is after
	every int // windows between marks
	marks []tierMark
}

// tierNow is the state of each expert, by layer and expert of the shape.
type tierNow struct {
	hot   []bool
	moved []int32   // number of the window at whose end it moved last, from 1; 0: it never did
	moves []int32   // how often it moved
	score []float32 // at its last move, NaN before
	lost  int       // moves of experts that the shape lacks
}

// tierMark is the state after some windows.
type tierMark struct {
	windows int
	tierNow
}

// Marks stand so far apart that going back from one is a matter of a millisecond, and
// are thinned out where there are many.
const (
	tierMarkEvery = 512
	tierMarksMost = 128
)

func (n *tierNow) clone() tierNow {
	return tierNow{slices.Clone(n.hot), slices.Clone(n.moved), slices.Clone(n.moves), slices.Clone(n.score), n.lost}
}

// newTierArm is a run before its first window: the manager says who is hot then.
func newTierArm(setup *tier.Setup, budget int) *tierArm {
	s := &setup.Shape
	a := &tierArm{
		experts: s.Experts, layers: len(s.Layers), index: make(map[int]int, len(s.Layers)), every: tierMarkEvery,
		hits: []int64{0}, pairs: []int64{0}, held: []int64{0}, churn: []int64{0},
	}
	for i, l := range s.Layers {
		a.index[l] = i
	}
	a.start = make([]bool, a.layers*a.experts)
	if m, err := tier.NewManager(*s, setup.Policy, setup.Budgets[budget].Bytes); err == nil {
		for i := range a.start {
			p, ok := m.PrecisionOf(s.Layers[i/s.Experts], i%s.Experts)
			a.start[i] = ok && p == tier.Hot
		}
	}
	a.reset()
	return a
}

// reset goes back to the state before the first window.
func (a *tierArm) reset() {
	n := a.layers * a.experts
	a.at = 0
	a.tierNow = tierNow{slices.Clone(a.start), make([]int32, n), make([]int32, n), make([]float32, n), 0}
	for i := range a.score {
		a.score[i] = float32(math.NaN())
	}
}

// add takes in one more window; catchUp moves experts.
func (a *tierArm) add(w *tier.Window) {
	n := len(a.windows)
	a.windows = append(a.windows, w)
	a.hits, a.pairs = append(a.hits, a.hits[n]+w.Hits), append(a.pairs, a.pairs[n]+w.Pairs)
	a.held, a.churn = append(a.held, a.held[n]+int64(w.Held)), append(a.churn, a.churn[n]+int64(w.Promoted)+int64(w.Evicted))
}

// catchUp brings the experts to the newest window, from where they are or from a mark
// that is nearer.
func (a *tierArm) catchUp() {
	n := len(a.windows)
	k := len(a.marks)
	for k > 0 && a.marks[k-1].windows > n {
		k--
	}
	switch {
	case k > 0 && (a.at > n || a.at < a.marks[k-1].windows):
		a.tierNow, a.at = a.marks[k-1].clone(), a.marks[k-1].windows
	case a.at > n:
		a.reset()
	}
	for ; a.at < n; a.at++ {
		if a.at > 0 && a.at%a.every == 0 && (len(a.marks) == 0 || a.marks[len(a.marks)-1].windows < a.at) {
			a.mark(a.at)
		}
		a.move(a.at, a.windows[a.at])
	}
}

// move moves experts as window n says.
func (a *tierArm) move(n int, w *tier.Window) {
	for i := range w.Moves {
		m := &w.Moves[i]
		l, ok := a.index[m.Layer]
		if !ok || m.Expert < 0 || m.Expert >= a.experts {
			a.lost++
			continue
		}
		at := l*a.experts + m.Expert
		a.hot[at], a.moved[at], a.score[at] = m.Up, int32(n+1), float32(m.Score)
		a.moves[at]++
	}
}

// mark keeps the state after n windows.
func (a *tierArm) mark(n int) {
	if len(a.marks) >= tierMarksMost {
		a.every *= 2
		a.marks = slices.DeleteFunc(a.marks, func(m tierMark) bool { return m.windows%a.every != 0 })
		if n%a.every != 0 {
			return
		}
	}
	a.marks = append(a.marks, tierMark{n, a.clone()})
}

// back goes back to the first n windows.
func (a *tierArm) back(n int) {
	if n >= len(a.windows) {
		return
	}
	a.windows = a.windows[:n]
	a.hits, a.pairs, a.held, a.churn = a.hits[:n+1], a.pairs[:n+1], a.held[:n+1], a.churn[:n+1]
}

// newest is the newest window, nil before the first.
func (a *tierArm) newest() *tier.Window {
	if a == nil || len(a.windows) == 0 {
		return nil
	}
	return a.windows[len(a.windows)-1]
}

// follow brings a track up to a run.
func (t *tierTrack) follow(run int, r *sessions.TierRun) {
	n := len(r.Windows)
	if !t.same(run, r) {
		*t = tierTrack{run: run, atUS: r.AtUS, setup: r.Setup}
		for b := range r.Setup.Budgets {
			t.arms = append(t.arms, newTierArm(r.Setup, b))
		}
	}
	if n < len(t.budget) {
		count := make([]int, len(t.arms))
		for _, b := range t.budget[:n] {
			if int(b) < len(count) {
				count[b]++
			}
		}
		for b, a := range t.arms {
			a.back(count[b])
		}
		t.budget = t.budget[:n]
	}
	for _, w := range r.Windows[len(t.budget):] {
		b := uint16(math.MaxUint16) // of no budget
		if w.Budget >= 0 && w.Budget < len(t.arms) {
			b = uint16(w.Budget)
			t.arms[b].add(w)
		}
		t.budget = append(t.budget, b)
	}
	for _, a := range t.arms {
		a.catchUp()
	}
	t.last, t.setup = nil, r.Setup
	if n > 0 {
		t.last = r.Windows[n-1]
	}
}

// same says that a run is the one that the track is of, farther or less far.
func (t *tierTrack) same(run int, r *sessions.TierRun) bool {
	if t.setup == nil || t.run != run || t.atUS != r.AtUS || t.setup != r.Setup && !reflect.DeepEqual(t.setup, r.Setup) {
		return false
	}
	n := len(t.budget)
	switch {
	case n == 0:
		return true
	case len(r.Windows) >= n:
		return sameWindow(r.Windows[n-1], t.last)
	case len(r.Windows) == 0:
		return true
	}
	// Of what was taken, the windows are kept by budget.
	last := r.Windows[len(r.Windows)-1]
	if last.Budget < 0 || last.Budget >= len(t.arms) {
		return false
	}
	k := 0
	for _, b := range t.budget[:len(r.Windows)] {
		if int(b) == last.Budget {
			k++
		}
	}
	ws := t.arms[last.Budget].windows
	return k > 0 && k <= len(ws) && sameWindow(last, ws[k-1])
}

// sameWindow compares what two windows came to: a replay may have read them anew.
func sameWindow(a, b *tier.Window) bool {
	return a == b || a != nil && b != nil && a.Budget == b.Budget && a.Index == b.Index && a.First == b.First &&
		a.Hits == b.Hits && a.Pairs == b.Pairs && a.Churn == b.Churn && a.Hot == b.Hot && len(a.Moves) == len(b.Moves)
}
