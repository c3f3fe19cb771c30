package layout

import (
	"fmt"
	"strings"
	"testing"

	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// A checkpoint of 24,576 expert matrices whose config names each of them: what
// opening it takes, headers apart.
func BenchmarkOpen(b *testing.B) {
	var parts []part
	var layers strings.Builder
	codes, scale, global := make([]byte, 2*8), make([]byte, 2), make([]byte, 4)
	for l := range 64 {
		for e := range 128 {
			for _, p := range []string{"gate_proj", "up_proj", "down_proj"} {
				name := fmt.Sprintf("model.layers.%d.mlp.experts.%d.%s", l, e, p)
				fmt.Fprintf(&layers, ",%q", name)
				parts = append(parts, part{name + ".weight", checkpoint.U8, []int64{2, 8}, codes},
					part{name + ".weight_scale", checkpoint.F8E4M3, []int64{2, 1}, scale}, part{name + ".weight_scale_2", checkpoint.F32, []int64{}, global})
			}
		}
	}
	dir := write(b, moHead+`{"num_bits":8,"type":"float"}},"group_1":{"weights":{"num_bits":4,"type":"float","group_size":16},"targets":[`+layers.String()[1:]+`]}}}}`, parts)
	ck, err := checkpoint.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer ck.Close()
	model, err := topology.FromCheckpoint(ck)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		l, err := Open(ck, model)
		if err != nil || len(l.Modules) != 64*128*3 || len(l.Findings) > 0 {
			b.Fatalf("%v, %d modules, %d findings", err, len(l.Modules), len(l.Findings))
		}
	}
}
