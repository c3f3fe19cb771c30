package views

import (
	"math"

	"quantscope/analysis/tier"
	"quantscope/sessions"
)

// TierWork is what the root and the panes of the hot tier share: the root runs tiers in
// the background, the panes show them and ask for more.
type TierWork struct {
	On       bool   // the map shows the tier
	At       int    // the run that is shown, -1 where there is none
	Budget   int    // the one that was chosen, -1: that of the newest window, or where it has ended TierBest
	Off      string // why none can be run here; "" where one can
	Running  bool   // a run of this process
	Runs     int    // which of the runs it is, -1 where that is not known yet
	Paused   bool   // of what runs
	Progress tier.Progress
	Rate     float64 // windows a second that it is held to; 0: none
	Err      string  // why the last one failed
	Ask      TierAsk // taken by the root

	expert [2]int // layer and expert under the cursor of a map that no tensors stand behind
	fresh  int    // windows that the newest batch brought
	track  tierTrack
}

// TierAsk is what the person wants of the root.
type TierAsk uint8

// What can be asked for.
const (
	TierNothing TierAsk = iota
	TierDialog          // choose budgets and workload, and run
)

// askTier wants something of the root.
func (s *Scene) askTier(a TierAsk) {
	s.Tier.Ask = a
	s.Touch()
}

// SetTier shows the tier on the map, or the metric again.
func (s *Scene) SetTier(on bool) {
	if on != s.Tier.On {
		s.Tier.On = on
		s.Touch()
	}
}

// showTier shows another run, at the budget that it shows by itself.
func (s *Scene) showTier(at int) {
	if at != s.Tier.At && at >= 0 && at < len(s.State.Tiers) {
		s.Tier.At, s.Tier.Budget = at, -1
		s.Touch()
	}
}

// SetTierBudget shows another budget of the run, -1 the one that it shows by itself.
func (s *Scene) SetTierBudget(b int) {
	if r := s.TierRun(); r != nil && b != s.Tier.Budget && b >= -1 && b < len(r.Setup.Budgets) {
		s.Tier.Budget = b
		s.Touch()
	}
}

// TierRun is the run that is shown, nil where there is none.
func (s *Scene) TierRun() *sessions.TierRun {
	if at := s.Tier.At; at >= 0 && at < len(s.State.Tiers) {
		return s.State.Tiers[at]
	}
	return nil
}

// tierBudget is the budget that is shown: the one that was chosen, else that of the
// newest window; of a run that has ended, live, saved or replayed, TierBest.
func (s *Scene) tierBudget(r *sessions.TierRun) int {
	if b := s.Tier.Budget; b >= 0 && b < len(r.Setup.Budgets) {
		return b
	}
	if b := TierBest(r); b >= 0 {
		return b
	}
	if n := len(r.Windows); n > 0 {
		return min(max(r.Windows[n-1].Budget, 0), max(len(r.Setup.Budgets)-1, 0))
	}
	return 0
}

// tierArm is the run that is shown and the state of its budget, brought up to date;
// nil where there is none.
func (s *Scene) tierArm() (*sessions.TierRun, *tierArm) {
	r := s.TierRun()
	if r == nil || len(r.Setup.Budgets) == 0 {
		return nil, nil
	}
	s.Tier.track.follow(s.Tier.At, r)
	return r, s.Tier.track.arms[s.tierBudget(r)]
}

// noteTier counts the windows of a batch: what moved in them is brighter.
func (s *Scene) noteTier(b *sessions.Batch) {
	n := 0
	for i := range b.TiersMoved {
		if b.TiersMoved[i].Run == s.Tier.At {
			n++
		}
	}
	if n > 0 || b.Reset != nil {
		s.Tier.fresh = n
	}
}

// freshWindows is how many of the newest windows are marked: those of the newest
// batch, so that a fast replay shows all that moved since the frame before, but never
// many.
func (s *Scene) freshWindows() int { return min(max(s.Tier.fresh, 1), 8) }

// runOff is why no run can be begun; "" where one can.
func (w *TierWork) runOff() string {
	if w.Off == "" && w.Running {
		return "a hot tier is being run: X ends it"
	}
	return w.Off
}

// windowsOf is how many windows a workload has at each budget.
func windowsOf(s *tier.Setup) int {
	if s.Policy.Window <= 0 {
		return 0
	}
	return (s.Workload.Tokens + s.Policy.Window - 1) / s.Policy.Window
}

// TierWindows is how many windows a run has over all its budgets.
func TierWindows(s *tier.Setup) int { return windowsOf(s) * len(s.Budgets) }

// TierBest is the budget that says most about a run that ended: the one nearest to the
// knee, or to a quarter where there is none; -1 where it goes on.
func TierBest(r *sessions.TierRun) int {
	if r == nil || r.End == nil {
		return -1
	}
	want := 0.25
	if c := r.End.Curve; c != nil && c.Knee >= 0 {
		want = c.Knee
	}
	best := -1
	for i, b := range r.Setup.Budgets {
		if best < 0 || math.Abs(b.Share-want) < math.Abs(r.Setup.Budgets[best].Share-want) {
			best = i
		}
	}
	return best
}

// TierStage says in words what a run of a tier does.
func TierStage(s string) string {
	switch s {
	case "":
		return "beginning"
	case "routing":
		return "recording whom the tokens ask"
	case "running":
		return "running"
	}
	return Clean(s)
}
