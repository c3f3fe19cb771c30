package layout

import (
	"math/rand/v2"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// Blocks of 256 inputs, as the forward pass asks for them, of what decodes itself, in
// bytes of f32.
func BenchmarkOwnPanels(b *testing.B) {
	const rows, cols = 64, 2048
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []byte {
		out := make([]byte, n)
		for i := range out {
			out[i] = byte(rng.Uint32())
		}
		return out
	}
	scale := map[checkpoint.DType]string{checkpoint.F16: "f16", checkpoint.BF16: "bf16", checkpoint.F32: "f32", checkpoint.U8: "e8m0"}
	for _, c := range []struct {
		name   string
		p      packed
		scales checkpoint.DType
		order  bool
	}{
		{"gptq-int4-g128", packed{bits: 4, group: 128}, checkpoint.F16, false},
		{"gptq-int8-g128", packed{bits: 8, group: 128}, checkpoint.F16, false},
		{"gptq-int4-g128 in any order", packed{bits: 4, group: 128}, checkpoint.F16, true},
		{"gptq-int3-g128", packed{bits: 3, group: 128}, checkpoint.F16, false},
		{"ct-int4-g128 bf16", packed{bits: 4, group: 128, round: toBF16}, checkpoint.BF16, false},
		{"ct-int6-g128 bf16", packed{bits: 6, group: 128, round: toBF16}, checkpoint.BF16, false},
		{"ct-int8-channel bf16", packed{bits: 8, round: toBF16}, checkpoint.BF16, false},
		{"mxfp8", packed{bits: 8, group: 32, values: e4m3Table}, checkpoint.U8, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := c.p
			p.groups = 1
			if p.group > 0 {
				p.groups = cols / p.group
			}
			m := &Module{Name: proj, Rows: rows, Cols: cols, packed: &p, format: kernels.Format{Scale: scale[c.scales]}, scales: place{t: &checkpoint.Tensor{DType: c.scales}}}
			s := &Stored{Codes: random(rows * m.rowBytes()), Scales: random(rows * p.groups * c.scales.Bits() / 8)}
			if p.values == nil {
				p.zeros = (*Module).readWordZeros
				s.Mins = random(rows * p.groups)
			}
			if c.order {
				s.Groups = make([]int32, cols)
				for i := range s.Groups {
					s.Groups[i] = int32(rng.IntN(p.groups))
				}
			}
			dst := make([]float32, rows*256)
			b.SetBytes(rows * cols * 4)
			for b.Loop() {
				for col := 0; col < cols; col += 256 {
					if err := m.Panel(dst, s, 0, rows, col, 256); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
