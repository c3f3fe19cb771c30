package export

import (
	"fmt"

	"quantscope/quant/topology"
)

// fused wants the experts that stand in one tensor to be targeted together:
// they become tensors of their own, and a loader that finds some of them so
// looks for all.
func (b *planner) fused() error {
	stacks := map[string]bool{} // modules whose experts are taken apart
	parts := map[string]int{}   // matrices of each fused tensor
	for i := range b.model.Matrices {
		if m := &b.model.Matrices[i]; m.Name != m.Tensor {
			parts[m.Tensor]++
		}
	}
	for tensor, matrices := range b.taken {
		if n := parts[tensor]; n > 0 {
			stacks[expertsOf(tensor)] = true
			if n != len(matrices) {
				return fmt.Errorf("tensor %q: %d of its %d matrices are targeted; target all or none: %w", tensor, len(matrices), n, ErrMatrix)
			}
		}
	}
	if len(stacks) == 0 {
		return nil
	}
	for i := range b.model.Tensors {
		t, role := &b.model.Tensors[i], &b.model.Roles[i]
		if role.Kind != topology.Expert || role.Expert >= 0 || len(b.taken[t.Name]) > 0 || !stacks[expertsOf(t.Name)] {
			continue
		}
		if role.Param != "weight" {
			return fmt.Errorf("tensor %q: belongs to experts that become tensors of their own, and a %s of all experts in one tensor cannot follow: %w", t.Name, role.Param, ErrMatrix)
		}
		return fmt.Errorf("tensor %q: is not targeted, but other matrices of the same experts are, which become tensors of their own; target all or none: %w", t.Name, ErrMatrix)
	}
	return nil
}

// isStacked says whether a tensor holds the weights of all experts of a layer.
func isStacked(role *topology.Role) bool {
	return role.Kind == topology.Expert && role.Expert < 0 && role.Param == "weight"
}
