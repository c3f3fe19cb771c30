package landscape

import "context"

// Settings of a pricing.
type PriceOptions struct {
	Base    int    // arm of what is not exempted
	Protect int    // arm of what is
	Repeats int    // of the random control; 0: 20
	Seed    uint64 // of the random control
}

// Price follows exemption lists and their controls from no exemption to all.
func Price(ctx context.Context, t *Table, o PriceOptions) (*Pricing, error) { return nil, errNotYet }

// Solver assigns an arm to every item within a budget. It is made once for a
// table and may be asked for any number of budgets, from one goroutine at a time.
type Solver struct{}

// NewSolver prepares the arms of a table; Keep lists the arms that may be used.
func NewSolver(t *Table, arms []int) (*Solver, error) { return nil, errNotYet }

// Range is the smallest and the largest size in bytes that an answer can have.
func (s *Solver) Range() (least, most int64) { return 0, 0 }

// Solve finds the assignment of least mean rel2 within the budget.
func (s *Solver) Solve(budget int64) (Assignment, error) { return Assignment{}, errNotYet }

// Controls are assignments at the same bytes that know nothing of the errors
// (random ones, uniform) or use them the wrong way round (reversed), as points.
func (s *Solver) Controls(a Assignment, repeats int, seed uint64) []Curve { return nil }
