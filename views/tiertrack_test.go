package views

import (
	"math/rand/v2"
	"slices"
	"testing"

	"quantscope/analysis/tier"
	"quantscope/sessions"
	"quantscope/views/viewstest"
)

// plainTier is the state of a budget after the run's first n windows, window by window
// from the beginning.
func plainTier(r *sessions.TierRun, budget, n int) (hot map[[2]int]bool, moves map[[2]int]int, hits, pairs, held int64, windows int) {
	hot, moves = map[[2]int]bool{}, map[[2]int]int{}
	m, err := tier.NewManager(r.Setup.Shape, r.Setup.Policy, r.Setup.Budgets[budget].Bytes)
	if err != nil {
		panic(err)
	}
	for _, l := range r.Setup.Shape.Layers {
		for e := range r.Setup.Shape.Experts {
			if p, _ := m.PrecisionOf(l, e); p == tier.Hot {
				hot[[2]int{l, e}] = true
			}
		}
	}
	for _, w := range r.Windows[:n] {
		if w.Budget != budget {
			continue
		}
		windows++
		hits, pairs, held = hits+w.Hits, pairs+w.Pairs, held+int64(w.Held)
		for _, v := range w.Moves {
			moves[[2]int{v.Layer, v.Expert}]++
			if hot[[2]int{v.Layer, v.Expert}] = v.Up; !v.Up {
				delete(hot, [2]int{v.Layer, v.Expert})
			}
		}
	}
	return hot, moves, hits, pairs, held, windows
}

func checkTrack(t *testing.T, tr *tierTrack, r *sessions.TierRun, n int) {
	t.Helper()
	for b, a := range tr.arms {
		hot, moves, hits, pairs, held, windows := plainTier(r, b, n)
		if len(a.windows) != windows || a.hits[windows] != hits || a.pairs[windows] != pairs || a.held[windows] != held || len(a.hits) != windows+1 {
			t.Fatalf("after %d windows, budget %d: %d windows, %d hits of %d, %d held; want %d, %d of %d, %d", n, b, len(a.windows), a.hits[windows], a.pairs[windows], a.held[windows], windows, hits, pairs, held)
		}
		for i := range a.hot {
			k := [2]int{r.Setup.Shape.Layers[i/a.experts], i % a.experts}
			if a.hot[i] != hot[k] || int(a.moves[i]) != moves[k] {
				t.Fatalf("after %d windows, budget %d: expert %v is hot %v after %d moves, want %v, %d", n, b, k, a.hot[i], a.moves[i], hot[k], moves[k])
			}
		}
		if w := a.newest(); w != nil && w.Hot != countHot(a.hot) {
			t.Fatalf("budget %d: %d hot, the window says %d", b, countHot(a.hot), w.Hot)
		}
	}
}

// A track is what the windows say, wherever a replay jumps to: forwards, backwards, to
// windows that were read anew, and to another run.
func TestTierTrackSeeks(t *testing.T) {
	whole := viewstest.Tier(3, 5, 24, 6400, 2) // 5 budgets of 100 windows
	for _, every := range []int{1, 7, tierMarkEvery} {
		tr := &tierTrack{}
		tr.follow(0, viewstest.TierUntil(whole, 0))
		for _, a := range tr.arms {
			a.every = every
		}
		rng := rand.New(rand.NewPCG(1, uint64(every)))
		for range 120 {
			n := rng.IntN(len(whole.Windows) + 1)
			part := viewstest.TierUntil(whole, n)
			if rng.IntN(3) == 0 { // as a replay that reads its file again
				part.Windows = slices.Clone(part.Windows)
				for i, w := range part.Windows {
					c := *w
					part.Windows[i] = &c
				}
			}
			tr.follow(0, part)
			checkTrack(t, tr, whole, n)
			for _, a := range tr.arms {
				if every == 1 && len(a.marks) > tierMarksMost {
					t.Fatalf("%d marks", len(a.marks))
				}
			}
		}
	}
	tr := &tierTrack{}
	tr.follow(0, whole)
	other := viewstest.Tier(1, 2, 8, 1280, 2)
	tr.follow(0, other)
	checkTrack(t, tr, other, len(other.Windows))
	tr.follow(1, whole)
	checkTrack(t, tr, whole, len(whole.Windows))
}

// Marks are thinned out, and what follows from them stays true.
func TestTierMarksAreBounded(t *testing.T) {
	whole := viewstest.Tier(0, 1, 6, 64*700, 2)
	tr := &tierTrack{}
	tr.follow(0, viewstest.TierUntil(whole, 0))
	for _, a := range tr.arms {
		a.every = 1
	}
	tr.follow(0, whole)
	for b, a := range tr.arms {
		if n := len(a.marks); n > tierMarksMost || n < tierMarksMost/3 {
			t.Errorf("budget %d: %d marks of 700 windows", b, n)
		}
	}
	for _, n := range []int{3499, 2000, 1999, 701, 700, 3, 0, 3500} {
		tr.follow(0, viewstest.TierUntil(whole, n))
		checkTrack(t, tr, whole, n)
	}
}
