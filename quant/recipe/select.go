package recipe

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"quantscope/quant/topology"
)

// Excluded is a matrix or a tensor that was named and is not taken.
type Excluded struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Selection is what is to be quantized.
type Selection struct {
	Matrices    []topology.Matrix // in storage order
	Description string            // "default: routed experts", or the patterns as given
	Excluded    []Excluded        // in storage order
	// Notes are what a person should read before spending time: how many matches
	// are not taken and why the first is not, and what is among the targets that
	// is usually kept.
	Notes []string
}

// Descriptions of the default targets.
const (
	DefaultExperts = "default: routed experts"
	DefaultDense   = "default: attention and MLP"
)

// ErrNothing is wrapped by the error of a selection that would be empty.
var ErrNothing = errors.New("nothing to quantize")

// NoMatchError is a pattern that matches no name.
type NoMatchError struct {
	Pattern string
	Nearest []string // names of the checkpoint that look most like it
}

func (e *NoMatchError) Error() string {
	if len(e.Nearest) == 0 {
		return fmt.Sprintf("target %q matches nothing", e.Pattern)
	}
	return fmt.Sprintf("target %q matches nothing; nearest: %s", e.Pattern, strings.Join(e.Nearest, ", "))
}

// Select picks matrices of a model. Targets are patterns separated by commas
// (see ParseTarget), held against a matrix's name, its tensor's name, and that
// name without .weight.
//
// Without targets these are the routed experts where the model has them, MTP
// layers included, else the linear maps of attention and MLP. Routers, norms,
// embeddings, heads, towers, the extra parts of MTP layers and what Kept names else
// are taken only by a pattern that matches nothing but such parts.
//
// Only BF16, F16 and F32 can be quantized. A pattern that matches nothing is a
// *NoMatchError; where no match can be quantized the error wraps ErrNothing.
func Select(model *topology.Model, targets string) (Selection, error) {
	return SelectFrom(model, targets, nil)
}

// SelectFrom is Select where something else decides what can be taken: refuse says why
// a tensor's matrices cannot be, "" where they can. nil is Select's own rule.
func SelectFrom(model *topology.Model, targets string, refuse func(tensor int) string) (Selection, error) {
	s := newSelector(model)
	if refuse != nil {
		s.refuse = refuse
	}
	if strings.TrimSpace(targets) == "" {
		return s.defaults()
	}
	matchers, err := ParseTargets(targets)
	if err != nil {
		return Selection{}, err
	}
	for _, m := range matchers {
		if err := s.pattern(m); err != nil {
			return Selection{}, err
		}
	}
	return s.selection(targets)
}

// selector gathers the fate of matrices and tensors.
type selector struct {
	*topology.Model
	first      []int // of each tensor, the index of its first matrix; len+1 entries
	taken      []bool
	matrixWhy  map[int]string // matrices that are not taken
	tensorWhy  map[int]string // tensors without matrices that were named
	unresolved map[string]string
	refuse     func(tensor int) string // why its matrices cannot be taken, "" where they can
}

func newSelector(m *topology.Model) *selector {
	s := &selector{Model: m, first: make([]int, len(m.Tensors)+1), taken: make([]bool, len(m.Matrices)),
		matrixWhy: map[int]string{}, tensorWhy: map[int]string{}, unresolved: map[string]string{},
		refuse: func(i int) string { return sourceReason(m, i) }}
	k := 0
	for i := range m.Tensors {
		s.first[i] = k
		for k < len(m.Matrices) && m.MatrixTensor[k] == i {
			k++
		}
	}
	s.first[len(m.Tensors)] = k
	for _, u := range m.Unresolved {
		s.unresolved[u.Tensor] = u.Message
	}
	return s
}

// take takes a matrix, if how it is stored allows.
func (s *selector) take(k int) {
	if why := s.refuse(s.MatrixTensor[k]); why != "" {
		s.matrixWhy[k] = why
		return
	}
	s.taken[k] = true
	delete(s.matrixWhy, k)
}

func (s *selector) defaults() (Selection, error) {
	description, wanted := DefaultDense, defaultDense
	if s.ExpertMatrices > 0 {
		description, wanted = DefaultExperts, func(r *topology.Role) bool { return r.Kind == topology.Expert }
	}
	for i := range s.Tensors {
		role := &s.Roles[i]
		if !holdsWeight(role) || !wanted(role) {
			continue
		}
		if s.first[i] == s.first[i+1] && mayBeMatrix(&s.Tensors[i]) {
			s.tensorWhy[i] = s.tensorReason(i)
		}
		for k := s.first[i]; k < s.first[i+1]; k++ {
			s.take(k)
		}
	}
	return s.selection(description)
}

// defaultDense are the linear maps of attention and MLP.
func defaultDense(r *topology.Role) bool {
	switch r.Kind {
	case topology.Attention, topology.MLP, topology.SharedExpert:
		return Kept(r) == ""
	}
	return false
}

// pattern takes what one pattern matches.
func (s *selector) pattern(m Matcher) error {
	var matrices, tensors []int
	for i := range s.Tensors {
		name, from, to := s.Tensors[i].Name, s.first[i], s.first[i+1]
		if m.Match(name) || holdsWeight(&s.Roles[i]) && m.Match(module(name, &s.Roles[i])) {
			if from == to {
				tensors = append(tensors, i)
			}
			for k := from; k < to; k++ {
				matrices = append(matrices, k)
			}
			continue
		}
		for k := from; k < to; k++ {
			if s.Matrices[k].Name != name && m.Match(s.Matrices[k].Name) {
				matrices = append(matrices, k)
			}
		}
	}
	if len(matrices)+len(tensors) == 0 {
		return &NoMatchError{Pattern: m.String(), Nearest: nearest(m.String(), s.Tensors, 3)}
	}
	plain := slices.ContainsFunc(matrices, func(k int) bool { return Kept(&s.Matrices[k].Role) == "" })
	for _, k := range matrices {
		what := Kept(&s.Matrices[k].Role)
		switch {
		case s.taken[k]:
		case plain && what != "":
			s.matrixWhy[k] = what + "; a pattern of its own takes it"
		default:
			s.take(k)
		}
	}
	for _, i := range tensors {
		s.tensorWhy[i] = s.tensorReason(i)
	}
	return nil
}

// selection sums up.
func (s *selector) selection(description string) (Selection, error) {
	out := Selection{Description: description}
	var unusual []string // what is usually kept, in order
	counts := map[string]int{}
	mtp := 0
	for i := range s.Tensors {
		if why, ok := s.tensorWhy[i]; ok {
			out.Excluded = append(out.Excluded, Excluded{s.Tensors[i].Name, why})
		}
		for k := s.first[i]; k < s.first[i+1]; k++ {
			if why, ok := s.matrixWhy[k]; ok {
				out.Excluded = append(out.Excluded, Excluded{s.Matrices[k].Name, why})
			}
			if !s.taken[k] {
				continue
			}
			out.Matrices = append(out.Matrices, s.Matrices[k])
			if what := Kept(&s.Matrices[k].Role); what != "" {
				if counts[what] == 0 {
					unusual = append(unusual, what)
				}
				counts[what]++
			}
			if s.Matrices[k].Role.MTP {
				mtp++
			}
		}
	}
	if len(out.Matrices) == 0 {
		if len(out.Excluded) == 0 {
			return out, fmt.Errorf("%w: %s: the checkpoint has no such matrices", ErrNothing, description)
		}
		none := "the only match cannot be quantized:"
		if n := len(out.Excluded); n > 1 {
			none = fmt.Sprintf("none of %d matches can be quantized; the first,", n)
		}
		return out, fmt.Errorf("%w: %s: %s %s: %s", ErrNothing, description, none, out.Excluded[0].Name, out.Excluded[0].Reason)
	}
	if n := len(out.Excluded); n > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("not taken: %d; the first, %s: %s", n, out.Excluded[0].Name, out.Excluded[0].Reason))
	}
	for _, what := range unusual {
		out.Notes = append(out.Notes, fmt.Sprintf("among the targets: %d of a kind that is usually kept: %s", counts[what], what))
	}
	if mtp > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("among the targets: %d in MTP layers", mtp))
	}
	return out, nil
}
