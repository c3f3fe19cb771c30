package convert

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// gptqQuant is a config as GPTQModel writes it.
func gptqQuant(bits, group int, sym, order bool, format string) string {
	return fmt.Sprintf(`{"quant_method": "gptq", "bits": %d, "group_size": %d, "sym": %t, "desc_act": %t, "checkpoint_format": %q, "dynamic": {"-:.*mlp.gate_proj$": {}}}`, bits, group, sym, order, format)
}

// checkWords holds compressed-tensors' words against the golden codes, zero points and
// scales that GPTQ's or AWQ's words were packed from.
func checkWords(t *testing.T, dir string, g map[string]part, bits int, sym bool) {
	t.Helper()
	x := tensors(t, dir)
	codes, zeros, scales := g["codes"], g["zeros"], g["scales"]
	rows, cols := int(codes.shape[0]), int(codes.shape[1])
	groups := int(zeros.shape[1])
	got := make([]int8, rows*cols)
	if err := kernels.UnpackInt32(got, x[proj+".weight_packed"].data, rows, cols, bits); err != nil {
		t.Fatal(err)
	}
	for i, v := range got {
		if int(v)+1<<(bits-1) != int(codes.data[i]) {
			t.Fatalf("code %d is %d, want %d", i, int(v)+1<<(bits-1), codes.data[i])
		}
	}
	if _, stored := x[proj+".weight_zero_point"]; stored == sym {
		t.Errorf("zero points are stored: %t, symmetric: %t", stored, sym)
	}
	if !sym {
		z := make([]byte, rows*groups)
		if err := kernels.UnpackZeroPoints(z, x[proj+".weight_zero_point"].data, rows, groups, bits); err != nil {
			t.Fatal(err)
		}
		for i, v := range z {
			if int(int8(v))+1<<(bits-1) != int(zeros.data[i]) {
				t.Fatalf("zero point %d is %d, want %d", i, int8(v), zeros.data[i])
			}
		}
	}
	s := x[proj+".weight_scale"]
	if s.dtype != checkpoint.F16 || !slices.Equal(s.shape, []int64{int64(rows), int64(groups)}) {
		t.Fatalf("scales are %s %v", s.dtype, s.shape)
	}
	for r := range rows {
		for k := range groups {
			if a, b := binary.LittleEndian.Uint16(s.data[2*(r*groups+k):]), binary.LittleEndian.Uint16(scales.data[2*(k*rows+r):]); a != b {
				t.Fatalf("scale of output %d, group %d is %#x, want %#x", r, k, a, b)
			}
		}
	}
	if shape := x[proj+".weight_shape"].data; binary.LittleEndian.Uint64(shape) != uint64(rows) || binary.LittleEndian.Uint64(shape[8:]) != uint64(cols) {
		t.Errorf("shape is %v", shape)
	}
}

// GPTQ's and AWQ's golden vectors hold in compressed-tensors the very codes, zero points
// and scales that they were packed from, and GPTQ's come back byte for byte.
func TestGoldenIntegers(t *testing.T) {
	for _, c := range []struct {
		file        string
		bits, group int
		sym, order  bool
		qzeros      string
		format      string
	}{
		{"gptq_sym_g128", 4, 128, true, false, "qzeros_v1", "gptq"}, {"gptq_sym_g128", 4, 128, true, false, "qzeros_v2", "gptq_v2"},
		{"gptq_asym_g128", 4, 128, false, false, "qzeros_v1", "gptq"}, {"gptq_asym_g128", 4, 128, false, false, "qzeros_v2", "gptq_v2"},
		{"gptq_asym_g128_actorder", 4, 128, false, true, "qzeros_v1", "gptq"},
		{"gptq_asym_g64_zero0", 4, 64, false, false, "qzeros_v2", "gptq_v2"},
		{"gptq_w8_sym_g128", 8, 128, true, false, "qzeros_v1", "gptq"}, {"gptq_w3_asym_g32", 3, 32, false, false, "qzeros_v1", "gptq"},
		{"gptq_w3_asym_g32", 3, 32, false, false, "qzeros_v2", "gptq_v2"}, {"gptq_w2_sym_g64", 2, 64, true, false, "qzeros_v1", "gptq"},
	} {
		t.Run(c.file+" "+c.format, func(t *testing.T) {
			g := golden(t, c.file, "")
			dir := folder(t, gptqQuant(c.bits, c.group, c.sym, c.order, c.format), module(proj, g, "qweight", c.qzeros+">qzeros", "scales", "g_idx"))
			out, r := convertTo(t, dir, CompressedTensors)
			if r.Values.Differ != r.Values.Rounded { // decoded in f16 as the golden values are
				t.Errorf("%+v", r.Values)
			}
			checkWords(t, out, g, c.bits, c.sym)
			if p, err := planned(t, dir, CompressedTensors); err != nil || strings.Contains(strings.Join(p.Notes, " "), "actorder") != c.order {
				t.Errorf("%v: notes %v", err, p.Notes)
			}
			args := quantConfig(t, out)["config_groups"].(map[string]any)["group_0"].(map[string]any)["weights"].(map[string]any)
			if args["num_bits"] != float64(c.bits) || args["group_size"] != float64(c.group) || args["symmetric"] != c.sym || (args["actorder"] == "group") != c.order {
				t.Errorf("%v", args)
			}
			back, _ := convertTo(t, out, GPTQ)
			sameFiles(t, "back", dir, back)
		})
	}
	for _, c := range []struct {
		file  string
		group int
	}{{"awq_g128", 128}, {"awq_g32", 32}} {
		t.Run(c.file, func(t *testing.T) {
			g := golden(t, c.file, "")
			quant := fmt.Sprintf(`{"quant_method": "awq", "bits": 4, "group_size": %d, "zero_point": true, "version": "gemm", "modules_to_not_convert": ["lm_head", "mlp.gate_proj"]}`, c.group)
			dir := folder(t, quant, module(proj, g, "qweight", "qzeros", "scales"))
			out, _ := convertTo(t, dir, CompressedTensors)
			checkWords(t, out, g, 4, false)
			if list := fmt.Sprint(quantConfig(t, out)["ignore"]); list != "[lm_head model.layers.0.mlp.gate_proj]" {
				t.Error(list)
			}
		})
	}
}

const ctHead = `{"quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head", "re:.*gate_proj"], "config_groups": {"group_0": {"targets": ["Linear"], "weights": `

// What compressed-tensors wrote with bf16 scales goes to GPTQ and back byte for byte, where
// its scales are halves; symmetric to our own layout and back.
func TestGoldenWords(t *testing.T) {
	asym := module(proj, golden(t, "int4_ct_asym_g32", "ct."), "weight_packed", "weight_scale", "weight_zero_point", "weight_shape")
	sym := module(proj, golden(t, "int4_ct_sym_g128", "ct."), "weight_packed", "weight_scale", "weight_shape")
	args := func(group int, sym bool) string {
		return fmt.Sprintf(ctHead+`{"num_bits": 4, "type": "int", "strategy": "group", "group_size": %d, "symmetric": %t}}}}`, group, sym)
	}
	dir := folder(t, args(128, true), sym)
	out, r := convertTo(t, dir, Own)
	if r.Values.Differ != 0 {
		t.Errorf("%+v", r.Values)
	}
	x := tensors(t, out)
	scale, low := x[proj+".weight_scale"].data, x[proj+".weight_min"].data
	for i := 0; i < len(scale); i += 2 {
		a, b := kernels.BF16ToF32(binary.LittleEndian.Uint16(scale[i:])), kernels.BF16ToF32(binary.LittleEndian.Uint16(low[i:]))
		if b != -8*a {
			t.Fatalf("minimum %v for the scale %v, want −8 times that", b, a)
		}
	}
	back, _ := convertTo(t, out, CompressedTensors)
	sameFiles(t, "back from our own", dir, back)

	if _, err := planned(t, folder(t, args(32, false), asym), Own); err == nil || !strings.Contains(err.Error(), "would be") || !strings.Contains(err.Error(), proj+": output ") {
		t.Errorf("asymmetric: %v", err)
	}
	// 20 outputs do not fill words of zero points
	if _, err := planned(t, folder(t, args(32, false), asym), GPTQ); err == nil || !strings.Contains(err.Error(), "does not fill words") {
		t.Errorf("20 outputs: %v", err)
	}
	f32 := module(proj, golden(t, "int4_ct_sym_g128", "ct32."), "weight_packed", "weight_scale", "weight_shape")
	for _, to := range []string{Own, GPTQ} {
		if _, err := planned(t, folder(t, args(128, true), f32), to); err == nil || !strings.Contains(err.Error(), "which is no ") || !strings.Contains(err.Error(), "weight_scale") {
			t.Errorf("f32 scales to %s: %v", to, err)
		}
	}
}

// NVFP4 keeps codes and block scales, and its second-level scales become reciprocals;
// where those come back, the file does.
func TestGoldenNVFP4(t *testing.T) {
	modelopt := `{"quant_method": "modelopt", "quant_algo": "W4A16_NVFP4", "ignore": ["lm_head", "model.layers.0.mlp*", "mtp*"], "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float", "group_size": 16}}}}`
	ct := `{"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized", "ignore": ["lm_head", "re:.*gate_proj", "re:^mtp.*", "re:.*(a|b)x"], "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16, "symmetric": true}}}}`
	for _, file := range []string{"nvfp4_gaussian", "nvfp4_heavy_tail", "nvfp4_row_outlier", "nvfp4_zero_blocks", "nvfp4_scale_underflow", "nvfp4_ties", "nvfp4_explicit_scale_2"} {
		t.Run(file, func(t *testing.T) {
			dir := folder(t, modelopt, module(proj, golden(t, file, "modelopt."), "weight", "weight_scale", "weight_scale_2"))
			out, r := convertTo(t, dir, CompressedTensors)
			before, after := tensors(t, dir), tensors(t, out)
			if string(before[proj+".weight"].data) != string(after[proj+".weight_packed"].data) || string(before[proj+".weight_scale"].data) != string(after[proj+".weight_scale"].data) {
				t.Error("codes or block scales are not the same bytes")
			}
			a, b := f32At(before[proj+".weight_scale_2"]), f32At(after[proj+".weight_global_scale"])
			if b != 1/a || len(after[proj+".weight_global_scale"].shape) != 1 {
				t.Errorf("global scale %v for %v, %v", b, a, after[proj+".weight_global_scale"].shape)
			}
			if list := fmt.Sprint(quantConfig(t, out)["ignore"]); list != "[lm_head model.layers.0.mlp.gate_proj re:^mtp.*$]" {
				t.Error(list)
			}
			back, s := convertTo(t, out, ModelOpt)
			if 1/b == a {
				sameFiles(t, "back", dir, back)
				if r.Scales.RoundTrip != 1 {
					t.Errorf("%+v", r.Scales)
				}
			} else if r.Scales.RoundTrip != 0 {
				t.Errorf("%+v", r.Scales)
			}
			if r.Scales.Reciprocal != 1 || s.Scales.Reciprocal != 1 {
				t.Errorf("%+v, %+v", r.Scales, s.Scales)
			}
		})
	}
	g := golden(t, "nvfp4_gaussian", "ct.")
	dir := folder(t, ct, module(proj, g, "weight_packed", "weight_scale", "weight_global_scale"), proj+".weight_packed")
	out, r := convertTo(t, dir, ModelOpt)
	q := quantConfig(t, out)
	if q["quant_algo"] != "W4A16_NVFP4" || fmt.Sprint(q["ignore"]) != "[lm_head model.layers.0.mlp* mtp*]" {
		t.Errorf("%v", q)
	}
	back, _ := convertTo(t, out, CompressedTensors)
	if r.Scales.RoundTrip == 1 {
		if a, b := tensors(t, dir), tensors(t, back); !reflect.DeepEqual(a, b) { // all of the module is in one file now
			t.Error("back: other tensors")
		}
	}
}

func f32At(p part) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(p.data)) }

// 1/x of f32 comes back where the significand of x is below √2, whatever its exponent;
// above, about as often as not.
func TestReciprocals(t *testing.T) {
	below, above, lost := 0, 0, 0
	for i := uint32(0); i < 1<<23; i += 37 {
		x := math.Float32frombits(0x3f800000 | i)
		same := 1/(1/x) == x
		switch {
		case x < math.Sqrt2 && !same:
			below++
		case x >= math.Sqrt2 && !same:
			lost++
			fallthrough
		case x >= math.Sqrt2:
			above++
		}
	}
	if below != 0 || lost == 0 || lost > above/2 {
		t.Errorf("%d lost below √2; %d of %d above", below, lost, above)
	}
}

// Activations go with the weights, and their scale is a reciprocal too.
func TestInputScales(t *testing.T) {
	f32 := func(name string, v float32, shape ...int64) part {
		return part{name, checkpoint.F32, append([]int64{}, shape...), binary.LittleEndian.AppendUint32(nil, math.Float32bits(v))}
	}
	nv := module(proj, golden(t, "nvfp4_gaussian", "modelopt."), "weight", "weight_scale", "weight_scale_2")
	modelopt := `{"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head", "model.layers.0.mlp*"], "config_groups": {"group_0": {"targets": ["Linear"], "input_activations": {"dynamic": false, "num_bits": 4, "type": "float", "group_size": 16}, "weights": {"num_bits": 4, "type": "float", "group_size": 16}}}}`
	dir := folder(t, modelopt, append(slices.Clone(nv), f32(proj+".input_scale", 0.0025)))
	out, _ := convertTo(t, dir, CompressedTensors)
	x := tensors(t, out)[proj+".input_global_scale"]
	if f32At(x) != 1/float32(0.0025) || !slices.Equal(x.shape, []int64{1}) {
		t.Errorf("%v %v", f32At(x), x.shape)
	}
	in := quantConfig(t, out)["config_groups"].(map[string]any)["group_0"].(map[string]any)["input_activations"].(map[string]any)
	if in["dynamic"] != "local" || in["strategy"] != "tensor_group" || in["num_bits"] != 4.0 || in["group_size"] != 16.0 {
		t.Errorf("%v", in)
	}
	back, _ := convertTo(t, out, ModelOpt)
	if q := quantConfig(t, back); q["quant_algo"] != "NVFP4" || q["config_groups"].(map[string]any)["group_0"].(map[string]any)["input_activations"] == nil {
		t.Errorf("%v", q)
	}
	if _, err := planned(t, folder(t, modelopt, nv), CompressedTensors); err == nil || !strings.Contains(err.Error(), "no input_scale") {
		t.Errorf("without: %v", err)
	}
	weightOnly := strings.Replace(modelopt, `"NVFP4"`, `"W4A16_NVFP4"`, 1)
	if _, err := planned(t, folder(t, weightOnly, append(slices.Clone(nv), f32(proj+".input_scale", 0.0025))), CompressedTensors); err == nil || !strings.Contains(err.Error(), "input_scale") {
		t.Errorf("not declared: %v", err)
	}
}

// FP8 of every scope goes both ways; the codes stay where they are.
func TestGoldenFP8(t *testing.T) {
	for _, c := range []struct{ prefix, args, inputs, algo string }{
		{"ct32.channel.", `"strategy": "channel"`, `{"num_bits": 8, "type": "float", "strategy": "token", "dynamic": true, "symmetric": true}`, "FP8_PER_CHANNEL_PER_TOKEN"},
		{"ct.channel.", `"strategy": "channel"`, `{"num_bits": 8, "type": "float", "strategy": "token", "dynamic": true}`, "FP8_PER_CHANNEL_PER_TOKEN"},
		{"ct32.tensor.", `"strategy": "tensor"`, `{"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": false}`, "FP8"},
	} {
		t.Run(c.prefix, func(t *testing.T) {
			quant := `{"quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["lm_head", "re:.*gate_proj"], "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", ` + c.args + `}, "input_activations": ` + c.inputs + `}}}`
			parts := module(proj, golden(t, "fp8_gaussian", c.prefix), "weight", "weight_scale")
			if c.algo == "FP8" {
				parts = append(parts, part{proj + ".input_scale", checkpoint.F32, []int64{1}, binary.LittleEndian.AppendUint32(nil, math.Float32bits(0.01))})
			}
			dir := folder(t, quant, parts)
			out, r := convertTo(t, dir, ModelOpt)
			if q := quantConfig(t, out); q["quant_algo"] != c.algo {
				t.Errorf("%v", q["quant_algo"])
			}
			if wide := strings.HasPrefix(c.prefix, "ct32"); wide && r.Values.Differ != 0 || r.Values.Differ != r.Values.Rounded {
				t.Errorf("%+v", r.Values)
			}
			back, _ := convertTo(t, out, CompressedTensors)
			if strings.HasPrefix(c.prefix, "ct32") {
				sameFiles(t, "back", dir, back)
			}
		})
	}
	quant := `{"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}`
	dir := folder(t, quant, module(proj, golden(t, "fp8_deepseek_block128", ""), "weight", "weight_scale_inv"))
	out, r := convertTo(t, dir, CompressedTensors)
	args := quantConfig(t, out)["config_groups"].(map[string]any)["group_0"].(map[string]any)
	if fmt.Sprint(args["weights"].(map[string]any)["block_structure"]) != "[128 128]" || args["input_activations"].(map[string]any)["strategy"] != "group" || r.Values.Differ != 0 {
		t.Errorf("%v, %+v", args, r.Values)
	}
	again, _ := convertTo(t, out, ModelOpt)
	if x := tensors(t, again)[proj+".weight_scale"]; !slices.Equal(x.shape, []int64{2, 1, 2, 1}) || quantConfig(t, again)["quant_algo"] != "FP8_PB_WO" {
		t.Errorf("%v", x.shape)
	}
	ragged := folder(t, quant, module(proj, golden(t, "fp8_deepseek_ragged_dequant", ""), "weight", "weight_scale_inv"))
	if _, err := planned(t, ragged, ModelOpt); err == nil || !strings.Contains(err.Error(), "140×150") {
		t.Errorf("ragged: %v", err)
	}
	convertTo(t, ragged, CompressedTensors)
}
