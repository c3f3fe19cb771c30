package tier

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// slow is a manager written apart: it scores windows from the trace as a whole, and
// makes one move at a time from lists that are sorted anew.
type slow struct {
	s     Shape
	p     Policy
	hot   map[int]bool
	since map[int]int
	trace *Trace
}

func (m *slow) scores(window int) []float64 {
	out := make([]float64, m.s.Total())
	for w := 0; w <= window; w++ {
		first := w * m.p.Window
		end := min(first+m.p.Window, m.trace.Tokens)
		for at := range out {
			n := 0
			for token := first; token < end; token++ {
				if slices.Contains(m.trace.Of(token, at/m.s.Experts), uint16(at%m.s.Experts)) {
					n++
				}
			}
			out[at] = m.p.Decay*out[at] + (1-m.p.Decay)*float64(n)/float64(end-first)
		}
	}
	return out
}

// TestManagerSlow: with experts of one size and one budget for all, the moves are those
// of swapping the hottest cold expert against the coldest hot one for as long as
// hysteresis lets it.
func TestManagerSlow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, p := shapes(true).Draw(t, "shape"), policies().Draw(t, "policy")
		p.PerLayer, p.Decay = false, float64(rapid.IntRange(0, 3).Draw(t, "quarters"))/4
		tr := traceOf(t, s, rapid.IntRange(1, 120).Draw(t, "tokens"))
		slots := rapid.IntRange(0, s.Total()).Draw(t, "slots")
		m, err := NewManager(s, p, int64(slots)*100)
		if err != nil {
			t.Fatal(err)
		}
		o := &slow{s: s, p: p, hot: map[int]bool{}, since: map[int]int{}, trace: tr}
		for e := range s.Experts {
			for l := range s.Layers {
				if len(o.hot) < slots {
					o.hot[l*s.Experts+e], o.since[l*s.Experts+e] = true, math.MinInt/2
				}
			}
		}
		for w := 0; w*p.Window < tr.Tokens; w++ {
			first := w * p.Window
			end := min(first+p.Window, tr.Tokens)
			for token := first; token < end; token++ {
				for l := range s.Layers {
					want := 0
					for _, e := range tr.Of(token, l) {
						if o.hot[l*s.Experts+int(e)] {
							want++
						}
					}
					if hits := m.Choose(l, tr.Of(token, l)); hits != want {
						t.Fatalf("window %d: token %d has %d hits in layer %d, want %d", w, token, hits, l, want)
					}
				}
			}
			moves, held := m.End(end - first)
			score := o.scores(w)
			for at := range score {
				if math.Abs(score[at]-m.score[at]) > 1e-12 {
					t.Fatalf("window %d: expert %d scores %g, want %g", w, at, m.score[at], score[at])
				}
			}
			o.swap(m.score, w)
			if want := o.held(m.score, slots); held != want {
				t.Fatalf("window %d: %d held, want %d", w, held, want)
			}
			for _, v := range moves {
				at := slices.Index(s.Layers, v.Layer)*s.Experts + v.Expert
				if want := score[at] / (1 - math.Pow(p.Decay, float64(w+1))); math.Abs(v.Score-want) > 1e-9 {
					t.Fatalf("window %d: %+v, want a score of %g", w, v, want)
				}
			}
			for at := range score {
				if m.hot[at] != o.hot[at] {
					t.Fatalf("window %d: expert %d is hot: %v, want %v", w, at, m.hot[at], o.hot[at])
				}
			}
		}
	})
}

// swap makes the moves of a window. Scores are the manager's own, so that rounding
// decides no tie otherwise.
func (m *slow) swap(score []float64, window int) {
	gone := map[int]bool{}
	for n := 0; m.p.Moves == 0 || n < m.p.Moves; n++ {
		up, down := -1, -1
		for at := range score {
			switch {
			case gone[at]:
			case !m.hot[at] && (up < 0 || score[at] > score[up]):
				up = at
			case m.hot[at] && window-m.since[at] >= m.p.Stay && m.since[at] != window && (down < 0 || score[at] <= score[down]):
				down = at
			}
		}
		if up < 0 || down < 0 || !(score[up] > (1+m.p.Hysteresis)*score[down]) {
			return
		}
		m.hot[up], m.since[up] = true, window
		m.hot[down] = false
		gone[down] = true
	}
}

// held counts cold experts that are above the score of the slots-th: those that would
// be hot by score alone.
func (m *slow) held(score []float64, slots int) (n int) {
	if slots == 0 {
		return 0
	}
	order := slices.Clone(score)
	slices.Sort(order)
	least := order[len(order)-slots]
	above, hotAt := 0, 0 // scores above the least, and hot ones at it
	for at, v := range score {
		switch {
		case v > least:
			above++
			if !m.hot[at] {
				n++
			}
		case v == least && m.hot[at]:
			hotAt++
		}
	}
	if left := slots - above - hotAt; left > 0 && least > 0 {
		n += left
	}
	return n
}

// TestBudgetHolds: at no moment are more bytes hot than the budget has, a hot set never
// shrinks, and what is told of a window is what happened.
func TestBudgetHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, p := shapes(false).Draw(t, "shape"), policies().Draw(t, "policy")
		tr := traceOf(t, s, rapid.IntRange(1, 200).Draw(t, "tokens"))
		budget := rapid.Int64Range(0, s.AllHot()+10).Draw(t, "budget")
		m, err := NewManager(s, p, budget)
		if err != nil {
			t.Fatal(err)
		}
		before := slices.Clone(m.hot)
		for first := 0; first < tr.Tokens; first += p.Window {
			n := min(p.Window, tr.Tokens-first)
			for token := first; token < first+n; token++ {
				for l := range s.Layers {
					m.Choose(l, tr.Of(token, l))
				}
			}
			moves, held := m.End(n)
			up := 0
			for _, v := range moves {
				l := slices.Index(s.Layers, v.Layer)
				at := l*s.Experts + v.Expert
				if before[at] == v.Up {
					t.Fatalf("%+v, and it was so before", v)
				}
				before[at] = v.Up
				if v.Up {
					up++
				}
				if got, ok := m.PrecisionOf(v.Layer, v.Expert); !ok || (got == Hot) != v.Up {
					t.Fatalf("%+v, and it is %s", v, got)
				}
			}
			if !slices.Equal(before, m.hot) {
				t.Fatal("the moves are not what changed")
			}
			if p.Moves > 0 && up > p.Moves {
				t.Fatalf("%d promotions, of %d", up, p.Moves)
			}
			per, hot, bytes := m.perLayer()
			if bytes > budget {
				t.Fatalf("%d bytes are hot, of %d", bytes, budget)
			}
			sum := 0
			for l, n := range per {
				sum += n
				if p.PerLayer && int64(n)*s.Hot[l] > s.Hot[l]*int64(s.Experts) {
					t.Fatalf("layer %d has %d hot experts", l, n)
				}
			}
			if sum != hot || held < 0 || held > s.Total()-hot {
				t.Fatalf("%d hot by layer, %d in all, %d held", sum, hot, held)
			}
			if budget == 0 && hot > 0 || budget >= s.AllHot() && hot < s.Total() {
				t.Fatalf("%d hot of %d with %d bytes of %d", hot, s.Total(), budget, s.AllHot())
			}
		}
	})
}

// TestHysteresis: what is a little hotter waits, what is much hotter comes in, and who
// came in stays.
func TestHysteresis(t *testing.T) {
	s := Shape{Layers: []int{3}, Experts: 3, TopK: 1, Hot: []int64{10}, Cold: []int64{5}}
	m, err := NewManager(s, Policy{Window: 20, Hysteresis: 0.5, Stay: 2}, 10)
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range []struct {
		counts [3]int
		hot    int
		held   int
	}{
		{[3]int{8, 12, 0}, 0, 1}, // exactly half more: it waits
		{[3]int{7, 13, 0}, 1, 0},
		{[3]int{20, 0, 0}, 1, 1}, // it stays two windows
		{[3]int{20, 0, 0}, 0, 0},
		{[3]int{0, 0, 0}, 0, 0},
	} {
		n := 0
		for e, k := range w.counts {
			for range k {
				m.Choose(0, []uint16{uint16(e)})
				n++
			}
		}
		moves, held := m.End(n)
		if p, _ := m.PrecisionOf(3, w.hot); p != Hot || held != w.held {
			t.Errorf("window %d: expert %d is %s, %d held, want hot and %d; %+v", i, w.hot, p, held, w.held, moves)
		}
	}
	for _, at := range [][2]int{{2, 0}, {3, 3}, {3, -1}, {4, 0}} {
		if _, ok := m.PrecisionOf(at[0], at[1]); ok {
			t.Errorf("there is an expert %v", at)
		}
	}
}

// TestSizes: a small expert that is not hot enough to take a large one's place does not
// keep out a large one that is, though the small one has more score a byte.
func TestSizes(t *testing.T) {
	s := Shape{Layers: []int{1, 2}, Experts: 4, TopK: 1, Hot: []int64{30, 10}, Cold: []int64{5, 5}}
	m, err := NewManager(s, Policy{Window: 20, Hysteresis: 0.25}, 30)
	if err != nil {
		t.Fatal(err)
	}
	for e, n := range [2][4]int{{6, 14, 0, 0}, {0, 7, 7, 6}} {
		for expert, k := range n {
			for range k {
				m.Choose(e, []uint16{uint16(expert)})
			}
		}
	}
	moves, held := m.End(20)
	if want := []Move{{1, 0, false, 0.3}, {1, 1, true, 0.7}}; !slices.Equal(moves, want) || held != 3 {
		t.Errorf("%+v and %d held, want %+v and 3", moves, held, want)
	}
}

// TestStart: before anything is known the budget is filled, layers in turn.
func TestStart(t *testing.T) {
	s := Shape{Layers: []int{1, 2}, Experts: 4, TopK: 2, Hot: []int64{10, 10}, Cold: []int64{5, 5}}
	m, err := NewManager(s, DefaultPolicy(), 39)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]bool{true, true, false, false, true, false, false, false}, m.hot); diff != "" {
		t.Error(diff)
	}
	p := DefaultPolicy()
	p.PerLayer = true
	if m, err = NewManager(s, p, 40); err != nil {
		t.Fatal(err)
	}
	if per, _, _ := m.perLayer(); !slices.Equal(per, []int{2, 2}) {
		t.Errorf("%v hot by layer", per)
	}
}

func TestPolicyRefuses(t *testing.T) {
	s := Shape{Layers: []int{1}, Experts: 4, TopK: 2, Hot: []int64{10}, Cold: []int64{5}}
	for _, p := range []Policy{
		{}, {Window: -1}, {Window: 1, Decay: 1}, {Window: 1, Decay: math.NaN()}, {Window: 1, Hysteresis: -1},
		{Window: 1, Hysteresis: math.NaN()}, {Window: 1, Hysteresis: math.Inf(1)}, {Window: 1, Stay: -1}, {Window: 1, Moves: -1},
	} {
		if _, err := NewManager(s, p, 10); err == nil {
			t.Errorf("%+v was taken", p)
		}
	}
	for _, s := range []Shape{
		{}, {Layers: []int{1}, Experts: 4, TopK: 5, Hot: []int64{1}, Cold: []int64{1}}, {Layers: []int{1}, Experts: 4, TopK: 1, Hot: []int64{1}},
		{Layers: []int{2, 1}, Experts: 4, TopK: 1, Hot: []int64{1, 1}, Cold: []int64{1, 1}}, {Layers: []int{1}, Experts: 4, TopK: 1, Hot: []int64{0}, Cold: []int64{1}},
	} {
		if _, err := NewManager(s, DefaultPolicy(), 10); err == nil {
			t.Errorf("%+v was taken", s)
		}
	}
	if _, err := NewManager(s, DefaultPolicy(), -1); err == nil {
		t.Error("a negative budget was taken")
	}
}

// TestRunIsTheManager: a run tells what a manager does, whatever the trace level.
func TestRunIsTheManager(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, p := shapes(false).Draw(t, "shape"), policies().Draw(t, "policy")
		tr := traceOf(t, s, rapid.IntRange(1, 150).Draw(t, "tokens"))
		setup, err := setupOf(s, p, "0", "30%", "100%")
		if err != nil {
			t.Fatal(err)
		}
		var windows, short []*Window
		end, err := Run(context.Background(), setup, tr, Options{}, all(&windows))
		if err != nil {
			t.Fatal(err)
		}
		setup.Trace = TraceWindows
		again, err := Run(context.Background(), setup, tr, Options{}, all(&short))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(end, again); diff != "" {
			t.Fatal("the trace level changes what happens:", diff)
		}
		for i, w := range windows {
			n := *w
			n.Moves = nil
			if diff := cmp.Diff(&n, short[i]); diff != "" {
				t.Fatal(diff)
			}
			if len(w.Moves) != w.Promoted+w.Evicted {
				t.Fatalf("%d moves, %d up and %d down", len(w.Moves), w.Promoted, w.Evicted)
			}
		}
		for b, r := range end.Results {
			var hits, pairs, churn int64
			for _, w := range windows {
				if w.Budget == b {
					if w.Churn != churn+int64(len(w.Moves)) {
						t.Fatalf("churn is %d in window %d, %d moves after %d", w.Churn, w.Index, len(w.Moves), churn)
					}
					hits, pairs, churn = hits+w.Hits, pairs+w.Pairs, churn+int64(len(w.Moves))
				}
			}
			if r.Hits != share(hits, pairs) || r.Churn != churn || pairs != int64(len(tr.Choices)) {
				t.Fatalf("budget %d: %v hits and churn %d, want %v and %d", b, r.Hits, r.Churn, share(hits, pairs), churn)
			}
			layers := 0
			for _, n := range r.Histogram {
				layers += n
			}
			if layers != len(s.Layers) || r.Beside < r.Replace || r.Beside != r.HotBytes+s.AllCold() {
				t.Fatalf("budget %d: %d layers in the histogram, %d bytes beside, %d in place", b, layers, r.Beside, r.Replace)
			}
		}
		for _, c := range end.Results[1].Controls {
			for l, layer := range c.Map.Layers {
				if n := int64(len(layer.Hot)); p.PerLayer && n*s.Hot[l] > pools(&s, &p, setup.Budgets[1].Bytes)[l].budget {
					t.Fatalf("%s has %d hot experts in layer %d, more than its share", c.Name, n, layer.Layer)
				}
			}
			if c.Map.HotBytes > setup.Budgets[1].Bytes {
				t.Fatalf("%s takes %d bytes", c.Name, c.Map.HotBytes)
			}
		}
		if r := end.Results[0]; r.Hits != 0 || r.Coverage != 0 || r.Churn != 0 || r.Replace != s.AllCold() || r.Controls != nil {
			t.Fatalf("nothing: %+v", r)
		}
		if r := end.Results[2]; r.Hits != 1 || r.Coverage != 1 || r.Churn != 0 || r.Replace != s.AllHot() || r.Controls != nil {
			t.Fatalf("everything: %+v", r)
		}
	})
}
