package export

import (
	"fmt"
	"slices"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/method"
	"quantscope/quant/topology"
)

// Recipe names the recipe that says what is stored as what.
type Recipe struct {
	Name   string
	SHA256 string // of its text, in hexadecimal
}

// NewMixedPlan is NewPlan of a selection in which matrices are stored in different
// ways: of[i] is the index in variants of selection[i]'s. Variants that no matrix has
// are left out. Layouts that can declare but one scheme refuse more of them by name,
// and so is a matrix that servers fuse with one of another scheme.
func NewMixedPlan(ck *checkpoint.Checkpoint, model *topology.Model, selection []topology.Matrix, variants []method.Variant, of []int, s Settings) (*Plan, error) {
	if len(of) != len(selection) {
		return nil, fmt.Errorf("%d matrices and the variants of %d: %w", len(selection), len(of), ErrMatrix)
	}
	for i, v := range of {
		if v < 0 || v >= len(variants) {
			return nil, fmt.Errorf("matrix %q: is of variant %d of %d: %w", selection[i].Name, v, len(variants), ErrMatrix)
		}
	}
	if len(selection) == 0 {
		return nil, fmt.Errorf("nothing to quantize: %w", ErrMatrix)
	}
	return newPlan(ck, model, selection, variants, of, s)
}

// storesOf finds how a layout stores the variants that are in use, in their order,
// and which of these each matrix has.
func storesOf(layout string, variants []method.Variant, of []int) (stores []stored, mine []int, err error) {
	at := make([]int, len(variants)) // of each variant its store, −1 before it has one
	used := make([]bool, len(variants))
	for _, v := range of {
		used[v] = true
	}
	if len(variants) == 1 { // whatever the selection is
		used[0] = true
	}
	for i, v := range variants {
		if !used[i] {
			continue
		}
		if k := slices.IndexFunc(stores, func(s stored) bool { return s.variant.Name == v.Name && s.variant.Spec == v.Spec }); k >= 0 {
			at[i] = k
			continue
		}
		sch, err := findScheme(layout, v.Spec.Format)
		if err != nil {
			return nil, nil, err
		}
		if err := sch.check(v.Spec); err != nil {
			return nil, nil, err
		}
		f, err := kernels.FormatByName(v.Spec.Format)
		if err != nil {
			return nil, nil, err
		}
		s := stored{variant: v, spec: v.Spec, scheme: sch, format: f, words: f}
		if sch.as != "" {
			if s.words, err = kernels.FormatByName(sch.as); err != nil {
				return nil, nil, err
			}
		}
		s.spec.Global, s.spec.Codebook = 0, 0
		at[i] = len(stores)
		stores = append(stores, s)
	}
	if err := sayable(layout, stores); err != nil {
		return nil, nil, err
	}
	mine = make([]int, len(of))
	for i, v := range of {
		mine[i] = at[v]
	}
	return stores, mine, nil
}

// kind is what the config of a layout tells schemes apart by.
type kind struct {
	format     string
	convention kernels.Convention
}

func (s *stored) kind() kind { return kind{s.words.Name, s.spec.Convention} }

// sayable refuses mixtures that the words of a layout are not enough for.
func sayable(layout string, stores []stored) error {
	var formats []string
	for i := range stores {
		if f := stores[i].words.Name; !slices.Contains(formats, f) {
			formats = append(formats, f)
		}
	}
	if len(formats) < 2 {
		return nil
	}
	switch layout {
	case Own:
		return fmt.Errorf("layout %s says one format of all its matrices, and these are %s: %w (%s can say several)", Own, strings.Join(formats, ", "), ErrLayout, CompressedTensors)
	case ModelOpt:
		for _, f := range formats {
			if modelOptGroups[f].Weights == nil {
				return fmt.Errorf("%s beside %s in layout %s: %w: ModelOpt has no words for it in a mixture (it has for %s)",
					f, strings.Join(slices.DeleteFunc(slices.Clone(formats), func(g string) bool { return g == f }), ", "), ModelOpt, ErrLayout, strings.Join(sortedKeys(modelOptGroups), ", "))
			}
		}
	}
	return nil
}

// nameOf is what the mixture is called.
func nameOf(stores []stored, r Recipe) string {
	if r.Name != "" {
		return "recipe:" + r.Name
	}
	names := make([]string, len(stores))
	for i := range stores {
		names[i] = stores[i].variant.Name
	}
	return strings.Join(names, ", ")
}

// together wants what servers fuse to be stored in one way.
func (b *planner) together() error {
	if len(b.stores) == 1 {
		return nil
	}
	for _, g := range SharedGroups(b.Matrices) {
		for _, i := range g[1:] {
			if first := b.storeOf(g[0]); first.kind() != b.storeOf(i).kind() {
				return fmt.Errorf("matrix %q: is %s, and %q, which servers fuse with it, is %s: they want one scheme for both: %w",
					b.Matrices[i].Name, b.storeOf(i).variant.Name, b.Matrices[g[0]].Name, first.variant.Name, ErrMatrix)
			}
		}
	}
	return nil
}

// mixed says whether the config has more than one scheme to declare.
func (p *Plan) mixed() bool {
	return slices.ContainsFunc(p.stores, func(s stored) bool { return s.words.Name != p.stores[0].words.Name })
}

// modulesOf lists the modules of the stores that are asked for, sorted.
func (p *Plan) modulesOf(want func(*stored) bool) []string {
	var out []string
	for i := range p.Modules {
		if want(p.storeOf(i)) {
			out = append(out, p.Modules[i])
		}
	}
	slices.Sort(out)
	return out
}

// formats lists the formats that the config speaks of, in the stores' order, each once.
func (p *Plan) formats() []kernels.Format {
	var out []kernels.Format
	for i := range p.stores {
		if f := p.stores[i].words; !slices.ContainsFunc(out, func(o kernels.Format) bool { return o.Name == f.Name }) {
			out = append(out, f)
		}
	}
	return out
}
