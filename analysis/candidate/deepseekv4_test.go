package candidate

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

const v4Golden = "../model/testdata/deepseek_v4"

// v4Tensor is one that is written.
type v4Tensor struct {
	checkpoint.Spec
	data []byte
}

// v4Codes are random codes as DeepSeek-V4 ships them, with their scales and, in bf16,
// what they stand for: of experts E2M1, two a byte, with a power of two for each 32
// inputs; of all else E4M3 with one for the whole matrix, which is smaller than a tile.
func v4Codes(rng *rand.Rand, name string, rows, cols int64, expert bool) (shipped []v4Tensor, plain v4Tensor) {
	base := strings.TrimSuffix(name, "weight")
	plain = v4Tensor{checkpoint.Spec{Name: name, DType: checkpoint.BF16, Shape: []int64{rows, cols}}, nil}
	weight := v4Tensor{checkpoint.Spec{Name: name, DType: checkpoint.F8E4M3, Shape: []int64{rows, cols}}, nil}
	scale := v4Tensor{checkpoint.Spec{Name: base + "scale", DType: checkpoint.F8E8M0, Shape: []int64{1, 1}}, []byte{119}}
	if expert {
		weight.DType, weight.Shape = checkpoint.I8, []int64{rows, cols / 2}
		scale.Shape, scale.data = []int64{rows, cols / 32}, nil
		for range rows * cols / 32 {
			scale.data = append(scale.data, byte(122+rng.IntN(4)))
		}
	}
	for i := range rows * cols {
		var v float32
		if expert {
			code := byte(rng.IntN(16))
			if i%2 == 0 {
				weight.data = append(weight.data, code)
			} else {
				weight.data[i/2] |= code << 4
			}
			v = kernels.E2M1ToF32(code) * kernels.E8M0ToF32(scale.data[i/32])
		} else {
			code := kernels.F32ToE4M3(float32(rng.NormFloat64() * 32))
			weight.data = append(weight.data, code)
			v = kernels.E4M3ToF32(code) * kernels.E8M0ToF32(scale.data[0])
		}
		plain.data = binary.LittleEndian.AppendUint16(plain.data, uint16(math.Float32bits(v)>>16))
	}
	return []v4Tensor{weight, scale}, plain
}

// v4Checkpoints writes the golden model as DeepSeek ships it, with experts of 32
// channels, and a checkpoint of what its codes stand for.
func v4Checkpoints(t *testing.T) (shipped, plain string) {
	t.Helper()
	ck, err := checkpoint.Open(v4Golden)
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	rng := rand.New(rand.NewPCG(4, 4))
	var codes, values []v4Tensor
	for i := range ck.Tensors {
		x := &ck.Tensors[i]
		expert := strings.Contains(x.Name, ".experts.")
		rows, cols := int64(0), int64(0)
		if len(x.Shape) == 2 {
			rows, cols = x.Shape[0], x.Shape[1]
		}
		switch {
		case strings.Contains(x.Name, "experts.") && strings.HasSuffix(x.Name, "w2.weight"):
			cols = 32
		case strings.Contains(x.Name, "experts."):
			rows = 32
		case strings.Contains(x.Name, ".attn.w") || strings.HasSuffix(x.Name, "indexer.wq_b.weight"):
		default:
			raw := make([]byte, x.Size)
			if err := ck.ReadAt(t.Context(), x, 0, raw); err != nil {
				t.Fatal(err)
			}
			same := v4Tensor{checkpoint.Spec{Name: x.Name, DType: x.DType, Shape: x.Shape}, raw}
			codes, values = append(codes, same), append(values, same)
			continue
		}
		c, v := v4Codes(rng, x.Name, rows, cols, expert)
		codes, values = append(codes, c...), append(values, v)
	}
	write := func(name string, list []v4Tensor, quantized bool) string {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		var specs []checkpoint.Spec
		for _, x := range list {
			specs = append(specs, x.Spec)
		}
		w, err := checkpoint.NewWriter(filepath.Join(dir, "model.safetensors"), specs, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range list {
			if _, err := w.Write(x.data); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Commit(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(v4Golden, "config.hub.json"))
		if err != nil {
			t.Fatal(err)
		}
		config := map[string]any{}
		if err := json.Unmarshal(text, &config); err != nil {
			t.Fatal(err)
		}
		config["moe_intermediate_size"] = 32
		if quantized {
			config["expert_dtype"] = "fp4"
			config["quantization_config"] = map[string]any{"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "scale_fmt": "ue8m0", "weight_block_size": []int{128, 128}}
		}
		if text, err = json.Marshal(config); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "config.json"), text, 0o666); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	return write("shipped", codes, true), write("plain", values, false)
}

// TestDeepSeekV4AsShipped: FP4 experts and FP8 in tiles give the logits of what their
// codes stand for, to the last bit.
func TestDeepSeekV4AsShipped(t *testing.T) {
	shipped, plain := v4Checkpoints(t)
	chunks := [][]int32{{1, 5, 9, 70, 33, 2, 90, 14, 127, 64, 8, 31, 77, 5, 5, 101, 42, 11, 3, 60, 25, 99, 18}, {7, 8}}
	got, want := ggufLogits(t, open(t, shipped), chunks), ggufLogits(t, open(t, plain), chunks)
	if len(got) != 25*128 {
		t.Fatalf("%d logits", len(got))
	}
	for i, v := range want {
		if v-v != 0 || math.Float32bits(got[i]) != math.Float32bits(v) {
			t.Fatalf("logit %d is %g, want %g", i, got[i], v)
		}
	}
}
