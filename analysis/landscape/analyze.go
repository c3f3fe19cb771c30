package landscape

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"quantscope/quant/topology"
)

// Analyze describes one arm of a table, one group for each kind of role. The
// error is that of ctx, or says that there is no such arm.
//
// Errors are rel2. Intervals are at the level Confidence: of means by Student's
// t, of the worst 1 %'s share by the bootstrap over tensors, of shares of
// variance and ω² by inverting the noncentral F, of correlations by Fisher's z,
// of ratios by Student's t on logarithms.
func Analyze(ctx context.Context, t *Table, arm int) (*Report, error) {
	if arm < 0 || arm >= len(t.Arms) {
		return nil, fmt.Errorf("landscape: arm %d, there are %d", arm, len(t.Arms))
	}
	if s, n := len(t.Arms[arm].Samples), len(t.Items); s != n {
		return nil, fmt.Errorf("landscape: arm %q: %d samples for %d items", t.Arms[arm].Name, s, n)
	}
	byKind := map[topology.Kind][]int{}
	for i := range t.Items {
		k := t.Items[i].Role.Kind
		byKind[k] = append(byKind[k], i)
	}
	kinds := make([]topology.Kind, 0, len(byKind))
	for k := range byKind {
		kinds = append(kinds, k)
	}
	slices.SortFunc(kinds, func(a, b topology.Kind) int {
		return cmp.Or(cmp.Compare(len(byKind[b]), len(byKind[a])), cmp.Compare(a, b))
	})
	r := &Report{Variant: t.Arms[arm].Name, Groups: make([]Group, 0, len(kinds))}
	for _, k := range kinds {
		g, err := newGroup(t, arm, k, byKind[k]).analyze(ctx)
		if err != nil {
			return nil, err
		}
		r.Groups = append(r.Groups, *g)
	}
	return r, nil
}
