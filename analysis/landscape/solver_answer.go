package landscape

import (
	"fmt"
	"math"
	"strings"
)

// Solve finds the assignment of least error within the budget, in bytes over
// all items. A budget outside Range is a *BudgetError.
func (s *Solver) Solve(budget int64) (Assignment, error) {
	if budget < s.base || budget > s.most {
		return Assignment{}, &BudgetError{Budget: budget, Least: s.base, Most: s.most, Elements: s.elements, Fixed: len(s.fixed), Items: len(s.table.Items)}
	}
	choice, bound := s.find(budget)
	arms := make([]int, len(s.table.Items))
	total := int64(0)
	for u := range s.units {
		o := &s.units[u].option[choice[u]]
		total += o.err
		for _, i := range s.units[u].items {
			arms[i] = o.arm
		}
	}
	for _, i := range s.fixed {
		arms[i] = s.source
	}
	a := s.describe(arms)
	a.Budget = budget
	unit := s.unitOfValue()
	a.Slack = unit * float64(len(s.table.Items))
	if a.Exact = bound >= total; a.Exact {
		a.Bound = a.Value
		return a, nil
	}
	a.Bound = max(0, min(a.Value, float64(bound)*unit-a.Slack))
	switch {
	case a.Bound > 0:
		a.Gap = (a.Value - a.Bound) / a.Bound
	case a.Value > 0:
		a.Gap = 1
	}
	return a, nil
}

// describe adds an assignment up.
func (s *Solver) describe(arms []int) Assignment {
	t := s.table
	a := Assignment{Arm: arms, Counts: make([]int, len(t.Arms)), Objective: s.options.Objective.String(), Fixed: len(s.fixed), Notes: []string{}}
	var rel2, e2 sum
	for i, k := range arms {
		a.Counts[k]++
		a.Bytes += max(t.Arms[k].Bytes[i], 0)
		rel2.addFinite(t.Arms[k].Samples[i].Rel2)
		e2.addFinite(t.Arms[k].Samples[i].E2)
	}
	a.Bits = bitsPerWeight(a.Bytes, s.elements)
	a.Error = rel2.value() / float64(len(arms))
	if s.w2 > 0 {
		a.Weighted = e2.value() / s.w2
	}
	a.Value = a.Error
	if s.options.Objective == WeightedError {
		a.Value = a.Weighted
	}
	if len(s.fixed) > 0 {
		bytes := int64(0)
		for _, i := range s.fixed {
			bytes += t.Arms[s.source].Bytes[i]
		}
		a.Notes = append(a.Notes, fmt.Sprintf("%d of %d tensors have no finite figures under any of these variants and keep the source's weights, %d of the bytes", len(s.fixed), len(arms), bytes))
	}
	a.Split = splits(t, arms, s.fused)
	if a.Split > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("%d of %d groups that servers fuse (gate and up; q, k and v) are stored in different schemes: decided on by fused they stay together", a.Split, len(s.fused)))
	}
	return a
}

// splits counts the groups whose items are stored in different schemes.
func splits(t *Table, arms []int, groups [][]int) int {
	n := 0
	for _, g := range groups {
		for _, i := range g[1:] {
			if scheme(t.Arms[arms[i]].how(i)) != scheme(t.Arms[arms[g[0]]].how(g[0])) {
				n++
				break
			}
		}
	}
	return n
}

// scheme is how a variant stores a tensor: its name without the methods.
func scheme(arm string) string {
	name, _, _ := strings.Cut(arm, "+")
	return name
}

// sum is a sum of finite figures whose rounding error does not grow with their
// number (Neumaier, Zeitschrift für Angewandte Mathematik und Mechanik 54, 1974).
type sum struct{ total, rest float64 }

func (s *sum) addFinite(v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	t := s.total + v
	if math.Abs(s.total) >= math.Abs(v) {
		s.rest += (s.total - t) + v
	} else {
		s.rest += (v - t) + s.total
	}
	s.total = t
}

func (s *sum) value() float64 { return s.total + s.rest }
