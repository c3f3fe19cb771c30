package candidate

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// twinMatrix is a matrix in another maker's way of storing it, beside the values that
// it stands for by that maker's formula.
type twinMatrix struct {
	parts  []tensor // named by parameter
	values []float32
}

// foreignForm makes a matrix of rows×cols.
type foreignForm struct {
	name, config, scheme string
	make                 func(t *testing.T, rng *rand.Rand, rows, cols int) twinMatrix
}

func le32(v []float32) (out []byte) {
	for _, x := range v {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x))
	}
	return out
}

func toBF16(x float32) float32 { return kernels.BF16ToF32(kernels.F32ToBF16(x)) }

func bf16s(v []float32) (out []byte) {
	for _, x := range v {
		out = binary.LittleEndian.AppendUint16(out, kernels.F32ToBF16(x))
	}
	return out
}

// randoms are values around those of weights that bf16 holds.
func randoms(rng *rand.Rand, n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = toBF16(float32(rng.Float64()+0.5) / 256)
	}
	return out
}

var foreignForms = []foreignForm{
	{"compressed-tensors, 3 bits with zero points", `{"quant_method":"compressed-tensors","ignore":["re:.*"],"config_groups":{"g":{"targets":["re:model.layers.0.*"],"weights":{"num_bits":3,"type":"int","symmetric":false,"strategy":"group","group_size":32}}}}`, "ct-int3-g32",
		func(t *testing.T, rng *rand.Rand, rows, cols int) twinMatrix {
			codes, groups := make([]int8, rows*cols), cols/32
			zeros, scales := make([]byte, rows*groups), randoms(rng, rows*groups)
			for i := range codes {
				codes[i] = int8(rng.IntN(8)) - 4
			}
			for i := range zeros {
				zeros[i] = byte(int8(rng.IntN(8)) - 4)
			}
			words, packedZeros := make([]byte, 4*rows*kernels.PackedWords(cols, 3)), make([]byte, 4*groups*kernels.PackedWords(rows, 3))
			if err := kernels.PackInt32(words, codes, rows, cols, 3); err != nil {
				t.Fatal(err)
			}
			if err := kernels.PackZeroPoints(packedZeros, zeros, rows, groups, 3); err != nil {
				t.Fatal(err)
			}
			m := twinMatrix{values: make([]float32, len(codes))}
			for i := range m.values {
				g := i/cols*groups + i%cols/32
				m.values[i] = toBF16(scales[g] * float32(int(codes[i])-int(int8(zeros[g]))))
			}
			m.parts = []tensor{
				{"weight_packed", checkpoint.I32, []int64{int64(rows), int64(kernels.PackedWords(cols, 3))}, words},
				{"weight_scale", checkpoint.BF16, []int64{int64(rows), int64(groups)}, bf16s(scales)},
				{"weight_zero_point", checkpoint.I32, []int64{int64(kernels.PackedWords(rows, 3)), int64(groups)}, packedZeros},
				{"weight_shape", checkpoint.I64, []int64{2}, binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(rows)), uint64(cols))},
			}
			return m
		}},
	{"compressed-tensors, bytes", `{"quant_method":"compressed-tensors","ignore":["re:.*"],"config_groups":{"g":{"targets":["re:model.layers.0.*"],"weights":{"num_bits":8,"type":"int","strategy":"channel"}}}}`, "ct-int8-channel-sym",
		func(t *testing.T, rng *rand.Rand, rows, cols int) twinMatrix {
			m := twinMatrix{values: make([]float32, rows*cols)}
			codes, scales := make([]byte, rows*cols), randoms(rng, rows)
			for i := range codes {
				codes[i] = byte(rng.IntN(256))
				m.values[i] = scales[i/cols] * float32(int8(codes[i]))
			}
			m.parts = []tensor{{"weight", checkpoint.I8, []int64{int64(rows), int64(cols)}, codes}, {"weight_scale", checkpoint.F32, []int64{int64(rows), 1}, le32(scales)}}
			return m
		}},
	{"ModelOpt, MXFP8", `{"quant_method":"modelopt","quant_algo":"MXFP8","ignore":["*"]}`, "mxfp8",
		func(t *testing.T, rng *rand.Rand, rows, cols int) twinMatrix {
			m := twinMatrix{values: make([]float32, rows*cols)}
			codes, scales := make([]byte, rows*cols), make([]byte, rows*cols/32)
			for i := range scales {
				scales[i] = byte(110 + rng.IntN(10))
			}
			for i := range codes {
				codes[i] = byte(rng.IntN(2)<<7 | rng.IntN(0x7F))
				m.values[i] = kernels.E4M3ToF32(codes[i]) * kernels.E8M0ToF32(scales[i/32])
			}
			m.parts = []tensor{{"weight", checkpoint.F8E4M3, []int64{int64(rows), int64(cols)}, codes}, {"weight_scale", checkpoint.U8, []int64{int64(rows), int64(cols / 32)}, scales}}
			return m
		}},
	{"ModelOpt, pairs of outputs of scaled inputs", `{"quant_method":"modelopt","quant_algo":"W4A16_AWQ","group_size":32,"ignore":["*"]}`, "modelopt-int4-g32-sym",
		func(t *testing.T, rng *rand.Rand, rows, cols int) twinMatrix {
			m := twinMatrix{values: make([]float32, rows*cols)}
			pairs, scales, columns := make([]byte, rows*cols/2), randoms(rng, rows*cols/32), randoms(rng, cols)
			for r := range rows {
				for c := range cols {
					code := rng.IntN(16)
					pairs[r/2*cols+c] |= byte(code << (r % 2 * 4))
					m.values[r*cols+c] = scales[(r*cols+c)/32] * float32((code^8)-8)
					m.values[r*cols+c] *= columns[c]
				}
			}
			m.parts = []tensor{
				{"weight", checkpoint.U8, []int64{int64(rows / 2), int64(cols)}, pairs}, {"weight_scale", checkpoint.F32, []int64{int64(rows), int64(cols / 32)}, le32(scales)},
				{"pre_quant_scale", checkpoint.BF16, []int64{int64(cols)}, bf16s(columns)},
			}
			return m
		}},
	{"ModelOpt, NVFP4 of scaled inputs", `{"quant_method":"modelopt","quant_algo":"NVFP4_AWQ","group_size":16,"ignore":["*"]}`, "nvfp4",
		func(t *testing.T, rng *rand.Rand, rows, cols int) twinMatrix {
			m := twinMatrix{values: make([]float32, rows*cols)}
			codes, scales, columns, global := make([]byte, rows*cols/2), make([]byte, rows*cols/16), randoms(rng, cols), float32(0.001)
			for i := range scales {
				scales[i] = byte(rng.IntN(0x70) + 1)
			}
			for i := range m.values {
				code := byte(rng.IntN(16))
				codes[i/2] |= code << (i % 2 * 4)
				step := kernels.E4M3ToF32(scales[i/16]) * global
				m.values[i] = (kernels.E2M1ToF32(code) + 0) * step // ModelOpt's table has no −0
				m.values[i] *= columns[i%cols]
			}
			m.parts = []tensor{
				{"weight", checkpoint.U8, []int64{int64(rows), int64(cols / 2)}, codes}, {"weight_scale", checkpoint.F8E4M3, []int64{int64(rows), int64(cols / 16)}, scales},
				{"weight_scale_2", checkpoint.F32, []int64{}, le32([]float32{global})}, {"pre_quant_scale", checkpoint.BF16, []int64{int64(cols)}, bf16s(columns)},
			}
			return m
		}},
}

// Whatever maker's way a layer is stored in, the forward pass gets the values that the
// maker's formula makes of it, bit for bit, as from a twin in f32.
func TestForeignForms(t *testing.T) {
	ref := open(t, "demo")
	ck := stored(t, ref).ck
	all := readAll(t, ck)
	for _, f := range foreignForms {
		t.Run(f.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(7, 7))
			var a, b []tensor
			n := 0
			for _, x := range all {
				name, ok := strings.CutSuffix(x.name, ".weight")
				if !ok || len(x.shape) != 2 || !strings.HasPrefix(name, "model.layers.0.") {
					a, b = append(a, x), append(b, x)
					continue
				}
				m := f.make(t, rng, int(x.shape[0]), int(x.shape[1]))
				for _, p := range m.parts {
					p.name = name + "." + p.name
					a = append(a, p)
				}
				b = append(b, tensor{x.name, checkpoint.F32, x.shape, le32(m.values)})
				n++
			}
			c, twin := open(t, writeModel(t, withConfig(t, ck.ConfigJSON(), "quantization_config", f.config), a)), open(t, writeModel(t, ck.ConfigJSON(), b))
			if got := checkModules(t, c); got != n || n != 7 {
				t.Errorf("%d quantized matrices of %d", got, n)
			}
			if !strings.Contains(c.Effective, f.scheme) {
				t.Errorf("it is said to be %s, want %s", c.Effective, f.scheme)
			}
			compareAll(t, c, twin)
		})
	}
}
