package landscape

import (
	"strings"

	"quantscope/quant/topology"
)

// Item is one matrix of the checkpoint.
type Item struct {
	ID          int // of the session's tensor
	Name        string
	Role        topology.Role
	Rows, Cols  int
	SourceBytes int64 // as the source stores it; -1 where its type is not known

	// Of the source weights, finite elements only: largest magnitude, standard
	// deviation about the mean, and kurtosis m₄/m₂² (3 for a Gaussian). NaN where
	// the records do not have it.
	Amax, Std, Kurtosis float64
}

// Elements is the number of weights.
func (it *Item) Elements() int64 { return int64(it.Rows) * int64(it.Cols) }

// State says what is known of an item under an arm.
type State uint8

// States of a sample.
const (
	Pending  State = iota // not measured yet
	Failed                // could not be measured
	Measured              // has figures, which may not be finite
)

// Sample is what one arm did to one item.
type Sample struct {
	State            State
	Rel2, RelL2, Cos float64
	W2, E2           float64 // Σw², Σ(w−q)²

	Blocks, ScaleHigh, ScaleLow int64   // clamped block scales by end
	Shallow, Deep               int64   // clipped blocks
	ShallowL2, DeepL2           float64 // shares of W2 in the clipped elements of such blocks
}

// Arm is a variant that was measured, or one that keeps the source's weights.
type Arm struct {
	Name          string
	BitsPerWeight float64
	Bytes         []int64  // by item, as stored under this arm, scales and all; -1 where it is not known
	Samples       []Sample // by item
	// As is the scheme with its methods of each item where the arm follows a recipe, ""
	// of what that keeps; nil where the arm's name says it.
	As []string
}

// Plain is the variant that an arm is of: its name without the label that tells
// the variants of joined sessions apart, as in "nvfp4+mse @ run2".
func (a *Arm) Plain() string {
	name, _, _ := strings.Cut(a.Name, " @ ")
	return name
}

// how is the scheme with its methods by which an arm stores an item; "" where it
// keeps the source's bytes.
func (a *Arm) how(item int) string {
	switch {
	case a.Name == sourceArm:
		return ""
	case a.As != nil:
		return a.As[item]
	}
	return a.Plain()
}

// Table is what all arms did to all items. Items are in the order of the
// checkpoint.
type Table struct {
	Items []Item
	Arms  []Arm
}

// Arm finds an arm by name, -1 where there is none.
func (t *Table) Arm(name string) int {
	for i := range t.Arms {
		if t.Arms[i].Name == name {
			return i
		}
	}
	return -1
}

// SourceBits is what the source takes for a weight, in bits: a mean over the
// items whose size is known, 0 where none is.
func SourceBits(items []Item) float64 {
	var bytes, elements int64
	for i := range items {
		if b := items[i].SourceBytes; b >= 0 {
			bytes += b
			elements += items[i].Elements()
		}
	}
	return 8 * float64(bytes) / float64(max(elements, 1))
}
