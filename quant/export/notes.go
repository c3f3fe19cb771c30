package export

import (
	"fmt"
	"slices"

	"quantscope/quant/topology"
)

// advise notes what a server is likely to stumble over: matrices that it fuses
// of which only some are quantized, and formats that want what is not there.
func (b *planner) advise() error {
	taken := make(map[string]bool, len(b.Matrices))
	for i := range b.Matrices {
		taken[b.Matrices[i].Name] = true
	}
	partly, first := 0, ""
	for _, g := range SharedGroups(b.model.Matrices) {
		in, out := -1, -1
		for _, i := range g {
			if taken[b.model.Matrices[i].Name] {
				in = i
			} else {
				out = i
			}
		}
		if in >= 0 && out >= 0 {
			if partly++; first == "" {
				first = fmt.Sprintf("%s is, %s is not", b.model.Matrices[in].Name, b.model.Matrices[out].Name)
			}
		}
	}
	if partly > 0 {
		b.Notes = append(b.Notes, fmt.Sprintf("of %d groups of matrices that servers fuse only a part is quantized, which they refuse; the first: %s", partly, first))
	}
	if n, of := b.expertsTaken(taken); n > 0 && n < of {
		b.Notes = append(b.Notes, fmt.Sprintf("in some layers %d of %d expert matrices are quantized; servers want all or none of a layer's", n, of))
	}
	if n := b.expertsSplit(); n > 0 {
		b.Notes = append(b.Notes, fmt.Sprintf("in %d layers the experts are stored in several schemes; servers want one for all of a layer's", n))
	}
	if b.Layout == ModelOpt && slices.ContainsFunc(b.stores, func(s stored) bool { return s.spec.Format == "fp8" }) {
		b.Notes = append(b.Notes, "fp8 in layout modelopt has no input_scale, which servers want for it; fp8-channel needs none")
	}
	return nil
}

// expertsSplit counts the layers whose expert matrices are of several schemes.
func (b *planner) expertsSplit() int {
	first := map[int]kind{}
	split := map[int]bool{}
	for i := range b.Matrices {
		role := &b.Matrices[i].Role
		if role.Kind != topology.Expert {
			continue
		}
		k := b.storeOf(i).kind()
		if was, ok := first[role.Layer]; ok && was != k {
			split[role.Layer] = true
		}
		first[role.Layer] = k
	}
	return len(split)
}

// expertsTaken counts the expert matrices of the layers that have some but not
// all of them quantized.
func (b *planner) expertsTaken(taken map[string]bool) (n, of int) {
	type count struct{ n, of int }
	layers := map[int]count{}
	for i := range b.model.Matrices {
		m := &b.model.Matrices[i]
		if m.Role.Kind != topology.Expert {
			continue
		}
		c := layers[m.Role.Layer]
		if c.of++; taken[m.Name] {
			c.n++
		}
		layers[m.Role.Layer] = c
	}
	for _, c := range layers {
		if c.n > 0 && c.n < c.of {
			n, of = n+c.n, of+c.of
		}
	}
	return n, of
}
