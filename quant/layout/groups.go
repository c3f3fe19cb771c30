package layout

import (
	"context"
	"encoding/binary"
	"fmt"

	"quantscope/quant/checkpoint"
)

// IDs of what Groups finds.
const (
	GroupRange    = "g-idx-range"            // an input is in a group that is none
	ZeroPointZero = "zero-points-zero"       // readers disagree about zero points of 0 that are stored minus 1
	NotMiddle     = "zero-points-not-middle" // a symmetric module has zero points beside the middle of its codes
)

// Groups reads what says of a module which group its inputs are in, and of a GPTQ
// module where its codes are zero, all of it, and says what is wrong there. Most
// modules have nothing of the kind.
func (m *Module) Groups(ctx context.Context) ([]Finding, error) {
	if m.packed == nil {
		return nil, nil
	}
	var out []Finding
	found := func(id string, t *checkpoint.Tensor, format string, args ...any) {
		out = append(out, Finding{ID: id, File: m.ck.Files[t.File].Name, Tensor: t.Name, Message: fmt.Sprintf(format, args...)})
	}
	p := m.packed
	if p.index != nil {
		raw := make([]byte, 4*m.Cols)
		if err := m.ck.ReadAt(ctx, p.index, 0, raw); err != nil {
			return nil, err
		}
		if p.unordered && minusOne(raw) {
			return out, nil
		}
		n, first, group := 0, 0, int32(0)
		for i := range m.Cols {
			g := int32(binary.LittleEndian.Uint32(raw[4*i:]))
			if g >= 0 && int(g) < p.groups {
				continue
			}
			if n++; n == 1 {
				first, group = i, g
			}
		}
		if n > 0 {
			found(GroupRange, p.index, "%d of %d inputs are in a group that is none of %d, the first, input %d, in %d", n, m.Cols, p.groups, first, group)
		}
	}
	if m.Method != GPTQ || !p.minus1 && !p.sym {
		return out, nil
	}
	zeros, err := m.readTurnedZeros(ctx, &Stored{}, 0, m.Rows)
	if err != nil {
		return nil, err
	}
	var none, beside int
	var at [2]int
	middle := byte(1) << (p.bits - 1)
	for k, z := range zeros {
		if z == 0 {
			if none++; none == 1 {
				at[0] = k
			}
		}
		if z != middle {
			if beside++; beside == 1 {
				at[1] = k
			}
		}
	}
	where := func(k int) string { return fmt.Sprintf("group %d, output %d", k%p.groups, k/p.groups) }
	if p.minus1 && p.bits != 3 && none > 0 { // 3 bits are taken one by one by all
		found(ZeroPointZero, m.mins.t, "%d of %d zero points are 0, stored minus 1, the first in %s: they are read with the borrow that their writer leaves in the next one, but tools that take them one by one decode those differently", none, len(zeros), where(at[0]))
	}
	if p.sym && beside > 0 {
		found(NotMiddle, m.mins.t, "%d of %d zero points are not %d, which sym makes them, the first in %s: %d", beside, len(zeros), middle, where(at[1]), zeros[at[1]])
	}
	return out, nil
}
