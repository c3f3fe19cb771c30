package sessions

import (
	"fmt"
	"slices"
	"strings"

	"quantscope/analysis/tier"
)

// tierJSON is what an event about a hot tier holds: as a document, and of windows in a
// form of their own, since there may be very many.
type tierJSON struct {
	Message string `json:"message,omitempty"` // not of windows
	Run     int    `json:"run"`               // from 0, in the order of tier events

	Setup *tier.Setup `json:"setup,omitempty"` // tier
	End   *tier.End   `json:"end,omitempty"`   // tierend

	window *tier.Window // window, moves
}

// Bounds of a run of a hot tier: more than anyone runs, and small enough that what a
// damaged or made-up file claims takes little memory.
const (
	maxBudgets = 1024
	maxWindows = 4 << 20 // of a run, all budgets
)

// newTierEvent is an event about a hot tier, without its numbers. What it holds is what
// a reader of the file will see.
func newTierEvent(kind EventKind, d *tierJSON) (stored, error) {
	var payload []byte
	var err error
	if d.window != nil {
		if payload, err = encodeWindow(nil, d.Run, d.window); err != nil {
			err = fmt.Errorf("sessions: a %s event cannot be recorded: %w", kind, err)
		}
	} else {
		payload, err = newDoc(kind, d)
	}
	if err != nil {
		return stored{}, err
	}
	e := stored{Event: Event{Kind: kind, Variant: -1, Tensor: -1}, payload: payload}
	if err := decodeTier(&e); err != nil {
		return stored{}, fmt.Errorf("sessions: a %s event cannot be recorded: %w", kind, err)
	}
	return e, nil
}

// newWindowEvent is a window: of kind moves where experts moved at its end and the
// trace says which.
func newWindowEvent(run int, w *tier.Window) (stored, error) {
	kind := EventWindow
	if len(w.Moves) > 0 {
		kind = EventMoves
	}
	return newTierEvent(kind, &tierJSON{Run: run, window: w})
}

// decodeTier fills in what the payload of an event about a hot tier holds.
func decodeTier(e *stored) (err error) {
	d := &tierJSON{}
	switch e.Kind {
	case EventWindow, EventMoves:
		if d.Run, d.window, err = decodeWindow(e.payload); err == nil && (len(d.window.Moves) > 0) != (e.Kind == EventMoves) {
			err = fmt.Errorf("a window of kind %s has %d moves", e.Kind, len(d.window.Moves))
		}
	default:
		if err = readDoc(e.payload, d); err == nil && (d.Setup != nil) == (d.End != nil) || err == nil && (d.Setup != nil) != (e.Kind == EventTier) {
			err = fmt.Errorf("an event of kind %s holds none of what it says", e.Kind)
		}
	}
	switch {
	case err != nil:
		return err
	case d.Setup != nil:
		err = checkTierSetup(d.Setup)
	case d.End != nil:
		err = checkEnd("a run of a hot tier", d.End.State)
	}
	e.tier, e.tierRun, e.Message = d, d.Run, d.Message
	return err
}

// checkTierSetup is an error where a setup claims what cannot be.
func checkTierSetup(s *tier.Setup) error {
	if err := s.Shape.Check(); err != nil {
		return err
	}
	if len(s.Budgets) == 0 || len(s.Budgets) > maxBudgets || s.Workload.Tokens < 0 || s.Trace < 1 || s.Trace > 2 {
		return fmt.Errorf("a tier of %d budgets over %d tokens with trace %d", len(s.Budgets), s.Workload.Tokens, s.Trace)
	}
	return nil
}

// tierBook knows the runs of a hot tier of a session while its events are read in
// order, and what fits them.
type tierBook struct {
	runs  runBook
	known []*tierKnown
}

// tierKnown is what of a run decides what may follow.
type tierKnown struct {
	setup         *tier.Setup
	layers        map[int]bool
	windows       int
	budget, index int // of the last window; -1 before
}

// place gives an event about a hot tier its index, and is an error where it does not
// fit what came before. Other events are left alone.
func (b *tierBook) place(e *stored) (err error) {
	if e.tier == nil {
		return nil
	}
	b.runs.what = "run of a hot tier"
	if e.Kind == EventTier {
		if e.tierRun, err = b.runs.begin(e.tier.Run); err == nil {
			b.known = append(b.known, newTierKnown(e.tier.Setup))
		}
		return err
	}
	if e.tierRun, err = b.runs.of(e.tier.Run); err != nil {
		return err
	}
	k := b.known[e.tierRun]
	if w := e.tier.window; w != nil {
		return k.take(w)
	}
	return checkTierEnd(k.setup, e.tier.End)
}

func newTierKnown(s *tier.Setup) *tierKnown {
	k := &tierKnown{setup: s, layers: make(map[int]bool, len(s.Shape.Layers)), budget: -1, index: -1}
	for _, l := range s.Shape.Layers {
		k.layers[l] = true
	}
	return k
}

// take is an error where a window does not follow on those before, or says what cannot
// be.
func (k *tierKnown) take(w *tier.Window) error {
	s := k.setup
	switch {
	case w.Budget >= len(s.Budgets):
		return fmt.Errorf("a window of budget %d of %d", w.Budget, len(s.Budgets))
	case w.Budget < k.budget, w.Budget == k.budget && w.Index <= k.index:
		return fmt.Errorf("window %d of budget %d after window %d of budget %d", w.Index, w.Budget, k.index, k.budget)
	case k.windows == maxWindows:
		return fmt.Errorf("more than %d windows", maxWindows)
	case len(w.PerLayer) != len(s.Shape.Layers):
		return fmt.Errorf("hot experts of %d layers of %d", len(w.PerLayer), len(s.Shape.Layers))
	case w.Hits > w.Pairs:
		return fmt.Errorf("%d hits of %d", w.Hits, w.Pairs)
	}
	hot := 0
	for i, n := range w.PerLayer {
		if n > s.Shape.Experts {
			return fmt.Errorf("%d hot experts of %d in layer %d", n, s.Shape.Experts, s.Shape.Layers[i])
		}
		hot += n
	}
	if hot != w.Hot {
		return fmt.Errorf("%d hot experts, and by layer they are %d", w.Hot, hot)
	}
	if len(w.Moves) > 2*s.Shape.Total() {
		return fmt.Errorf("%d moves of %d experts", len(w.Moves), s.Shape.Total())
	}
	for _, m := range w.Moves {
		if !k.layers[m.Layer] || m.Expert >= s.Shape.Experts {
			return fmt.Errorf("expert %d of layer %d moves, which is none", m.Expert, m.Layer)
		}
	}
	k.windows++
	k.budget, k.index = w.Budget, w.Index
	return nil
}

// checkTierEnd is an error where an end names what its run does not have.
func checkTierEnd(s *tier.Setup, end *tier.End) error {
	for _, r := range end.Results {
		if r == nil || r.Budget < 0 || r.Budget >= len(s.Budgets) {
			return fmt.Errorf("a result of a budget that is none of %d", len(s.Budgets))
		}
		if len(r.PerLayer) != len(s.Shape.Layers) || len(r.Histogram) > s.Shape.Experts+1 || len(r.ByPhase) > len(s.Workload.Phases) {
			return fmt.Errorf("a result of budget %s has %d layers of %d", s.Budgets[r.Budget].Label, len(r.PerLayer), len(s.Shape.Layers))
		}
		maps := []*tier.Map{r.Map}
		for _, c := range r.Controls {
			maps = append(maps, c.Map)
		}
		for _, m := range maps {
			if err := checkTierMap(s, m); err != nil {
				return err
			}
		}
	}
	if c := end.Curve; c != nil && (len(c.Share) != len(c.Hits) || !slices.IsSorted(c.Share)) {
		return fmt.Errorf("a curve of %d shares and %d hits", len(c.Share), len(c.Hits))
	}
	return nil
}

// checkTierMap is an error where a map has experts that its run does not have.
func checkTierMap(s *tier.Setup, m *tier.Map) error {
	if m == nil {
		return nil
	}
	for _, l := range m.Layers {
		if !slices.Contains(s.Shape.Layers, l.Layer) || len(l.Hot) > s.Shape.Experts {
			return fmt.Errorf("a map has %d hot experts in layer %d, which has no such", len(l.Hot), l.Layer)
		}
		for _, e := range l.Hot {
			if e < 0 || e >= s.Shape.Experts {
				return fmt.Errorf("a map has expert %d of %d", e, s.Shape.Experts)
			}
		}
	}
	return nil
}

// tierMessage is a setup in a line of the log.
func tierMessage(s *tier.Setup) string {
	var budgets []string
	for _, b := range s.Budgets {
		budgets = append(budgets, b.Label)
	}
	by := ""
	if s.Routed != "" {
		by = ", routed by " + s.Routed
	}
	return oneLine(fmt.Sprintf("hot tier of %s over %s, budgets %s: %s in windows of %d over %s%s", s.Hot, s.Cold, strings.Join(budgets, ", "),
		count(int64(s.Workload.Tokens), "token"), s.Policy.Window, s.Workload.Name, by))
}

// tierEndMessage is an end in a line of the log.
func tierEndMessage(end *tier.End, windows int) string {
	message := fmt.Sprintf("hot tier %s: %s", end.State, count(int64(windows), "window"))
	switch {
	case end.Reason != "":
		message += ": " + end.Reason
	case end.Verdict != "":
		message += ": " + end.Verdict
	}
	return oneLine(message)
}
