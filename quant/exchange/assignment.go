package exchange

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"quantscope/quant/checkpoint"
	"quantscope/quant/layout"
	"quantscope/quant/plan"
	"quantscope/quant/recipe"
	"quantscope/quant/topology"
)

// Errors that are wrapped.
var (
	ErrFormat  = errors.New("unknown format")
	ErrCannot  = errors.New("cannot be said")       // in the other tool's format
	ErrForeign = errors.New("cannot be taken over") // from the other tool's file
)

// Assignment says in which scheme each matrix of a model is stored.
type Assignment struct {
	Model  *topology.Model
	Groups []recipe.Group // without targets
	Of     []int          // by index in Model.Matrices: of Groups, -1 for the source's bytes
}

// FromPlan is the assignment of a plan.
func FromPlan(p *plan.Plan, f *recipe.File, m *topology.Model) (*Assignment, error) {
	a := &Assignment{Model: m, Of: make([]int, len(m.Matrices))}
	for _, g := range f.Groups {
		a.Groups = append(a.Groups, recipe.Group{Scheme: g.Scheme, Methods: slices.Clone(g.Methods)})
	}
	at := make(map[string]int, len(m.Matrices))
	for i := range m.Matrices {
		a.Of[i] = -1
		at[m.Matrices[i].Name] = i
	}
	for k := range p.Selection {
		i, ok := at[p.Selection[k].Name]
		if !ok {
			return nil, fmt.Errorf("exchange: matrix %q of the plan is not one of the checkpoint", p.Selection[k].Name)
		}
		a.Of[i] = p.Of[k]
	}
	return a, nil
}

// Recipe is the assignment as a recipe of ours.
func (a *Assignment) Recipe() (*recipe.File, error) {
	return recipe.FromAssignment(a.Model.Matrices, a.Of, a.Groups)
}

// Same says whether two assignments over one model store every matrix alike, and
// names the first that they do not. Methods do not enter: other tools have others.
func (a *Assignment) Same(b *Assignment) (matrix string, same bool) {
	for i := range a.Of {
		if a.scheme(i) != b.scheme(i) {
			return a.Model.Matrices[i].Name, false
		}
	}
	return "", true
}

// scheme is that of a matrix, "" for the source's bytes.
func (a *Assignment) scheme(i int) string {
	if a.Of[i] < 0 {
		return ""
	}
	return a.Groups[a.Of[i]].Scheme
}

// module is what other tools name.
type module struct {
	name     string
	role     topology.Role
	linear   bool  // torch has it as a Linear
	stack    bool  // a parameter that holds all experts
	matrices []int // of the model
}

// modules lists those of a model, in storage order, and what is no matrix as well:
// patterns must not match it.
func modules(m *topology.Model) []module {
	var out []module
	at := map[int]int{} // by tensor
	for i := range m.Tensors {
		t, r := &m.Tensors[i], m.Roles[i]
		if r.Param != "weight" {
			continue
		}
		name := strings.TrimSuffix(t.Name, ".weight")
		stack := len(t.Shape) == 3 && r.Kind == topology.Expert
		isRouter := r.Kind == topology.Router
		at[i] = len(out)
		out = append(out, module{
			name: name, role: r, stack: stack,
			linear: !stack && !isRouter && r.Kind != topology.Embedding && layout.IsLinear(&checkpoint.Tensor{Name: t.Name, Shape: t.Shape}, &r),
		})
	}
	for k := range m.Matrices {
		if i, ok := at[m.MatrixTensor[k]]; ok {
			out[i].matrices = append(out[i].matrices, k)
		}
	}
	return out
}

// groupOf is the group of a module; an error where experts that are one parameter are
// in several.
func (a *Assignment) groupOf(m *module) (int, error) {
	if len(m.matrices) == 0 {
		return -1, nil
	}
	g := a.Of[m.matrices[0]]
	for _, k := range m.matrices[1:] {
		if a.scheme(k) != a.scheme(m.matrices[0]) {
			return 0, fmt.Errorf("%s holds experts of which some are %s and some %s: %w", m.name, word(a.scheme(m.matrices[0])), word(a.scheme(k)), ErrCannot)
		}
	}
	return g, nil
}

func word(scheme string) string {
	if scheme == "" {
		return "kept"
	}
	return scheme
}

// Note is something that a person should know about what was written or read. It
// changes no module's scheme.
type Note struct {
	Place string `json:"place"` // of the file or the recipe
	Text  string `json:"text"`
}

// schemes lists the groups that store something, most modules first where most is
// set, else in their order.
func (a *Assignment) used() []int {
	var out []int
	for g := range a.Groups {
		if slices.Contains(a.Of, g) {
			out = append(out, g)
		}
	}
	return out
}

// merge makes groups of one scheme and the same methods one: other tools tell them by
// nothing else.
func (a *Assignment) merge() *Assignment {
	b := &Assignment{Model: a.Model, Of: make([]int, len(a.Of))}
	to := make([]int, len(a.Groups))
	for i, g := range a.Groups {
		k := slices.IndexFunc(b.Groups, func(h recipe.Group) bool { return h.Scheme == g.Scheme && slices.Equal(h.Methods, g.Methods) })
		if k < 0 {
			k = len(b.Groups)
			b.Groups = append(b.Groups, recipe.Group{Scheme: g.Scheme, Methods: g.Methods})
		}
		to[i] = k
	}
	for i, g := range a.Of {
		if b.Of[i] = -1; g >= 0 {
			b.Of[i] = to[g]
		}
	}
	return b
}
