package landscape

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Objective says what a Solver minimises.
type Objective uint8

// Objectives.
const (
	MeanError     Objective = iota // the mean of rel2 over items: every tensor counts the same
	WeightedError                  // Σe²/Σw² over all items: every weight counts by its magnitude
)

var objectives = []string{"mean", "weighted"}

// String is the word for it.
func (o Objective) String() string {
	if int(o) < len(objectives) {
		return objectives[o]
	}
	return fmt.Sprintf("objective(%d)", uint8(o))
}

// ParseObjective reads the word; an unknown one is an error that lists the known.
func ParseObjective(word string) (Objective, error) {
	if i := slices.Index(objectives, word); i >= 0 {
		return Objective(i), nil
	}
	return 0, fmt.Errorf("objective %q is not known (known: %s)", word, strings.Join(objectives, ", "))
}

// SolverOptions are the settings of a Solver.
type SolverOptions struct {
	Arms      []int // indices of the arms that may be used; none: all
	By        Granularity
	Objective Objective
	// Work bounds the search of one Solve, in partial assignments that are made;
	// 0 is the usual. It is a count, not a time, so that an answer is the same
	// everywhere.
	Work int
}

// ErrNoFigures is wrapped by the error of a table in which some item has no
// arm that could be used, not even the source's.
var ErrNoFigures = errors.New("no usable figures")

// Solver assigns an arm to every item within a budget. It is made once for a
// table and may be asked for any number of budgets, from one goroutine at a
// time.
//
// The problem is a multiple-choice knapsack: of every unit of items one arm, the
// bytes within the budget, the sum of the errors least. NewSolver sorts the
// steps of the lower convex hulls of all units by what they gain per byte, which
// solves the linear relaxation for every budget; Solve starts there and
// enumerates partial assignments of the units near the break (the core problem
// of Pisinger, European Journal of Operational Research 83, 1995), each with its
// own bound.
//
// All sums are of integers: an error e becomes round(e·2ˢ), s chosen so that
// no sum leaves 2⁵⁹. So order does not matter, and what an answer can miss by
// rounding is Assignment.Slack, half a unit an item.
type Solver struct {
	table    *Table
	arms     []int
	options  SolverOptions
	source   int // arm of what has no figures, -1 for none
	elements int64
	w2       float64 // Σw² over all items

	fixed      []int // items that keep the source
	fixedBytes int64
	units      []choices
	scale      float64 // errors are stored times this
	gcd        int64   // every size is base + a multiple of it
	base       int64   // bytes with every unit at its smallest, fixed items included
	baseError  int64
	most       int64  // bytes with every unit at its best
	steps      []step // of all hulls, the most gain per byte first
	bytesAt    []int64
	errorAt    []int64 // after so many steps
	fused      [][]int
	all        []option // of every unit under every arm, for controls; nil before any
	keep       int      // partial assignments that are kept at a time
	arena      []node
	front      []state
	back       []state
	origin     []state
}

// choices are the arms of a unit that no other arm beats in both bytes and
// error: by rising bytes and falling error.
type choices struct {
	items  []int
	option []option
	hull   []int32 // indices of options on the lower convex hull
}

type option struct {
	arm   int
	bytes int64
	err   int64
}

// step goes from one option on a unit's hull to the next.
type step struct {
	unit, hull int32 // to hull[hull] of the unit
	bytes, err int64 // more bytes and less error, both positive
}

// NewSolver prepares the arms of a table, tensor by tensor; arms lists those
// that may be used. See NewSolverWith.
func NewSolver(t *Table, arms []int) (*Solver, error) {
	return NewSolverWith(t, SolverOptions{Arms: arms})
}

// NewSolverWith prepares the arms of a table. A unit keeps the arms under which
// all its items have finite figures and a size. An item without any but the
// source's keeps that, the arm of that name, and ties no other to it (counted in
// Assignment.Fixed). The error wraps ErrNoFigures where the table has no such arm.
func NewSolverWith(t *Table, o SolverOptions) (*Solver, error) {
	s := &Solver{table: t, options: o, keep: usualFront, source: t.Arm(sourceArm)}
	if len(t.Items) == 0 {
		return nil, fmt.Errorf("a table without tensors: %w", ErrNoFigures)
	}
	if int(o.By) >= len(granularities) || int(o.Objective) >= len(objectives) {
		return nil, fmt.Errorf("solver: %v, %v: not known", o.By, o.Objective)
	}
	if len(o.Arms) == 0 {
		for a := range t.Arms {
			s.arms = append(s.arms, a)
		}
	}
	for _, a := range o.Arms {
		if a < 0 || a >= len(t.Arms) {
			return nil, fmt.Errorf("arm %d is none of the %d of the table", a, len(t.Arms))
		}
		if !slices.Contains(s.arms, a) {
			s.arms = append(s.arms, a)
		}
	}
	for a := range t.Arms {
		if len(t.Arms[a].Bytes) != len(t.Items) || len(t.Arms[a].Samples) != len(t.Items) {
			return nil, fmt.Errorf("arm %q has %d sizes and %d samples for %d tensors", t.Arms[a].Name, len(t.Arms[a].Bytes), len(t.Arms[a].Samples), len(t.Items))
		}
	}
	for i := range t.Items {
		s.elements += t.Items[i].Elements()
	}
	s.w2 = totalW2(t)
	if err := s.choose(); err != nil {
		return nil, err
	}
	if err := s.relax(); err != nil {
		return nil, err
	}
	s.fused = fusedGroups(t)
	return s, nil
}

// sourceArm is the name of the arm that keeps the source's weights.
const sourceArm = "source"

// Range is the smallest and the largest size in bytes that an answer can have:
// every unit at its smallest arm, and every unit at its best.
func (s *Solver) Range() (least, most int64) { return s.base, s.most }

// Elements is the number of weights that budgets in bits per weight are over.
func (s *Solver) Elements() int64 { return s.elements }

// figure is what an arm does to an item in the unit of the objective, false
// where that cannot be used.
func (s *Solver) figure(arm, item int) (float64, bool) {
	a := &s.table.Arms[arm]
	v := a.Samples[item].Rel2
	if s.options.Objective == WeightedError {
		v = a.Samples[item].E2
	}
	return v, a.Samples[item].State == Measured && a.Bytes[item] >= 0 && v >= 0 && !math.IsInf(v, 1)
}

// totalW2 is Σw² over the items whose records have it.
func totalW2(t *Table) float64 {
	sum := 0.0
	for i := range t.Items {
		sum += itemW2(t, i)
	}
	return sum
}

// itemW2 is Σw² of an item by the first record that has it, else 0: the arm that
// keeps the source has no record.
func itemW2(t *Table, i int) float64 {
	for a := range t.Arms {
		if n := &t.Arms[a].Samples[i]; n.State == Measured && n.W2 > 0 && !math.IsInf(n.W2, 1) {
			return n.W2
		}
	}
	return 0
}

// unitOfValue is what one of the stored integers stands for in the unit of
// Assignment.Value.
func (s *Solver) unitOfValue() float64 {
	if s.options.Objective == WeightedError {
		if s.w2 == 0 {
			return 0
		}
		return 1 / (s.scale * s.w2)
	}
	return 1 / (s.scale * float64(len(s.table.Items)))
}
