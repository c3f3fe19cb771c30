package candidate

import (
	"fmt"

	"quantscope/analysis/model"
	"quantscope/quant/topology"
)

// Names of orders.
const (
	pairsName   = "rows of each head interleaved (rotary halves ↔ pairs)"
	headsName   = "heads reordered"
	swappedName = "gate and up swapped"
	mixedName   = "gate and up interleaved"
)

// heads are how the rows of a projection, or the columns of o, fall into heads of so
// many, of which the first rotary ones are rotated; 0 where they do not.
func (x *comparing) heads(p model.Place) (heads, width, rotary int) {
	if p.Kind != topology.Attention || p.Layer < 0 || p.Layer >= len(x.spec.Layers) {
		return 0, 0, 0
	}
	for _, t := range x.spec.Layers[p.Layer].Tensors(x.spec) {
		if t.At == p {
			return t.Heads, t.Width, t.Rotary
		}
	}
	return 0, 0, 0
}

// known tries the orders that have a name.
func (x *comparing) known(p *pair, at model.Place) (order []int32, name string) {
	heads, width, rotary := x.heads(at)
	if heads*width != p.rows || rotary < 2 {
		return nil, ""
	}
	for _, turned := range []int{rotary, width} {
		for _, toPairs := range []bool{true, false} {
			if order := rotaryOrder(heads, width, turned, toPairs); p.explains(order) {
				return order, pairsName
			}
		}
	}
	return nil, ""
}

// rotaryOrder is where rows of halves stand among pairs, or the other way round:
// channel k of half h of the first turned rows of a head is row 2k+h of pairs.
func rotaryOrder(heads, width, turned int, toPairs bool) []int32 {
	order := make([]int32, heads*width)
	half := turned / 2
	for h := range heads {
		for r := range width {
			from := r
			switch {
			case r >= 2*half:
			case toPairs:
				from = 2*(r%half) + r/half
			default:
				from = r%2*half + r/2
			}
			order[h*width+r] = int32(h*width + from)
		}
	}
	return order
}

// knownPair tries the orders of gate and up together: one in the other's place,
// and the two alternating.
func knownPair(p *pair) (order []int32, name string) {
	n := p.each
	swapped, alternating, separated := make([]int32, 2*n), make([]int32, 2*n), make([]int32, 2*n)
	for r := range 2 * n {
		swapped[r] = int32((r + n) % (2 * n))
		alternating[r] = int32(2*(r%n) + r/n)
		separated[r] = int32(r%2*n + r/2)
	}
	switch {
	case p.explains(swapped):
		return swapped, swappedName
	case p.explains(alternating):
		return alternating, mixedName
	case p.explains(separated):
		return separated, mixedName
	}
	return nil, ""
}

// nameOf names an order that rows were matched to.
func (x *comparing) nameOf(order []int32, at model.Place) string {
	heads, width, _ := x.heads(at)
	if heads*width != len(order) || heads < 2 {
		return ""
	}
	list := make([]int, heads)
	for h := range heads {
		first := order[h*width]
		for r := range width {
			if order[h*width+r] != first+int32(r) || first%int32(width) != 0 {
				return ""
			}
		}
		list[h] = int(first) / width
	}
	if heads > 16 {
		return headsName
	}
	return fmt.Sprintf("%s: the reference's are its heads %v", headsName, list)
}
