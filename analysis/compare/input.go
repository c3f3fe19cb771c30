package compare

import (
	"errors"
	"fmt"

	"quantscope/analysis/landscape"
	"quantscope/quant/topology"
)

// Metric is the figure that is compared.
type Metric struct {
	Name string `json:"name"` // rel2
	Help string `json:"help"`
	// Worse is +1 where a larger figure is worse, -1 where a smaller one is, 0 for
	// figures that are neither.
	Worse int `json:"worse"`
	// Relative says how the step from A to B is told: by (b−a)/|a|, else by b−a,
	// as for shares that are often 0 and for figures that are ratios already.
	Relative bool `json:"relative"`
	// Diverging says that figures lie around 0 and that what is compared, in counts,
	// means, changes and the test, is how far they are from it.
	Diverging bool `json:"diverging,omitempty"`
}

// Item is one matrix that both sides are asked about.
type Item struct {
	Name     string
	Role     topology.Role
	Elements int64
}

// Side is one variant of one session. Slices are by item.
type Side struct {
	Session string
	Variant string
	States  []landscape.State
	Values  []float64 // of the metric; NaN where there is none
	Bytes   []int64   // as the variant stores it, scales and all; -1 where it is not known
	Alone   int       // tensors of its session that the other session does not have
}

// Input is a comparison to be made.
type Input struct {
	Metric Metric
	Items  []Item
	A, B   Side
}

// ErrInput is wrapped by errors about inputs whose parts do not fit together.
var ErrInput = errors.New("the parts of the comparison do not fit together")

func (in *Input) check() error {
	for _, s := range []*Side{&in.A, &in.B} {
		if len(s.States) != len(in.Items) || len(s.Values) != len(in.Items) || len(s.Bytes) != len(in.Items) {
			return fmt.Errorf("compare: %s of %s: %w: %d tensors, %d states, %d figures, %d sizes",
				s.Variant, s.Session, ErrInput, len(in.Items), len(s.States), len(s.Values), len(s.Bytes))
		}
	}
	return nil
}
