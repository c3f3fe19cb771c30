package layout

import (
	"strings"
	"testing"

	"quantscope/quant/checkpoint"
)

// A module that lacks a part is known by others that have it; one of another form is
// not taken for one of theirs.
func TestLackingParts(t *testing.T) {
	const other = "model.layers.0.self_attn.k_proj"
	codes := part{".weight", checkpoint.U8, []int64{4, 16}, make([]byte, 64)}
	scale := part{".weight_scale", checkpoint.F8E4M3, []int64{4, 2}, make([]byte, 8)}
	global := part{".weight_scale_2", checkpoint.F32, []int64{}, make([]byte, 4)}
	whole := []part{codes, scale, global}
	for lacking, want := range map[int]string{0: "lacks weight U8", 1: "lacks weight_scale F8_E4M3", 2: "has weight U8, weight_scale F8_E4M3 and lacks weight_scale_2 F32, which " + other + " has"} {
		var parts []part
		for i, p := range whole {
			parts = append(parts, part{other + p.name, p.dtype, p.shape, p.data})
			if i != lacking {
				parts = append(parts, part{proj + p.name, p.dtype, p.shape, p.data})
			}
		}
		_, l := openPath(t, write(t, "", parts))
		if len(l.Modules) != 1 || len(l.Findings) != 1 || l.Findings[0].ID != Incomplete || !strings.HasPrefix(l.Findings[0].Tensor, proj) || !strings.Contains(l.Findings[0].Message, want) {
			t.Errorf("%d modules, %v, want %q", len(l.Modules), l.Findings, want)
		}
		parts = append(parts, part{proj + ".weight_zero_point", checkpoint.I8, []int64{4, 2}, make([]byte, 8)})
		if _, l = openPath(t, write(t, "", parts)); len(l.Findings) != 1 || l.Findings[0].ID != UnknownForm {
			t.Errorf("%v", l.Findings)
		}
	}
}
