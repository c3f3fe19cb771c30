package layout

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// fuzzConfigs are what the tensors of FuzzOpen may stand under.
var fuzzConfigs = []string{
	"", moHead + `{"num_bits":4,"type":"float","group_size":16}` + ctTail, ctHead + intArgs + `32}` + ctTail, ctHead + intArgs + `-1}` + ctTail,
	ctHead + fp8Args + `"block","block_structure":[3,2]}` + ctTail, `{"quantization_config":{"quant_method":"fp8","weight_block_size":[2,3]}}`,
	`{"quantization_config":{"quant_method":"quantscope","version":1,"bits":4,"group_size":32,"targets":["Linear"]}}`,
	gptqConfig(4, 16, true, ""), gptqConfig(3, -1, false, `,"checkpoint_format":"gptq_v2"`), gptqConfig(8, 8, false, `,"dynamic":{"model.layers.0.*":{"bits":2,"group_size":4}}`), awqConfig(4),
	ctHead + `{"num_bits":3,"type":"int","symmetric":false,"strategy":"group","group_size":8}` + ctTail, ctHead + `{"num_bits":8,"type":"int","strategy":"tensor"}` + ctTail,
	ctHead + `{"num_bits":8,"type":"float","symmetric":false,"strategy":"group","group_size":5}` + ctTail, ctHead + `{"num_bits":7,"type":"int","strategy":"block","block_structure":[3,4]}` + ctTail,
	`{"quantization_config":{"quant_method":"modelopt","quant_algo":"W4A8_NVFP4_FP8","quantized_layers":{"model.layers.0.self_attn.q_proj":{"quant_algo":"MXFP8","group_size":32}}}}`,
	`{"quantization_config":{"quant_method":"modelopt","quant_algo":"W4A16_AWQ","group_size":3}}`,
	`{"quantization_config":{"quant_method":"quark","global_quant_config":{"weight":{"dtype":"uint4","qscheme":"per_group","group_size":5}},"export":{"pack_method":"order"}}}`,
	`{"quantization_config":{"quant_method":"quark","global_quant_config":{"weight":{"dtype":"int8","qscheme":"per_tensor"}}}}`,
	`{"quantization_config":{"quant_method":"awq","bits":4,"group_size":16,"version":"gemv","zero_point":false}}`,
}

// Whatever tensors stand beside one another, each is in a module that decodes,
// to its last row, or in a finding.
func FuzzOpen(f *testing.F) {
	for i := range fuzzConfigs {
		f.Add(uint8(i), []byte{0, 2, 4, 16, 1, 2, 4, 2, 2, 0}, []byte{1, 2, 3})
		f.Add(uint8(i), []byte{5, 2, 4, 32, 6, 2, 4, 1, 7, 1, 2}, []byte{4, 0, 0, 0, 0, 0, 0, 0, 32})
		f.Add(uint8(i), []byte{3, 2, 4, 6, 4, 2, 2, 2, 8, 4, 2, 3, 2, 16, 9, 3, 2, 3, 2}, []byte{})
		f.Add(uint8(i), []byte{15, 2, 4, 32, 16, 2, 2, 4, 17, 2, 2, 32, 18, 1, 32}, []byte{1})
		f.Add(uint8(i), []byte{15, 2, 3, 32, 16, 2, 1, 3, 17, 2, 1, 32, 18, 1, 32}, []byte{0x80})
		f.Add(uint8(i), []byte{15, 2, 1, 7, 16, 2, 1, 1, 19, 2, 1, 7}, []byte{0xFF})
		f.Add(uint8(i), []byte{15, 2, 7, 4, 16, 2, 2, 4, 17, 2, 2, 32}, []byte{})
		f.Add(uint8(i), []byte{20, 2, 7, 4, 21, 2, 2, 4}, []byte{})
		f.Add(uint8(i), []byte{22, 2, 6, 10, 24, 2, 6, 2, 26, 2, 6, 2, 30, 1, 10}, []byte{1, 2})
		f.Add(uint8(i), []byte{0, 2, 3, 9, 24, 2, 6, 3, 30, 1, 9}, []byte{3})
		f.Add(uint8(i), []byte{3, 2, 6, 10, 25, 2, 6, 2, 27, 2, 6, 2}, []byte{0x7F})
		f.Add(uint8(i), []byte{23, 2, 10, 2, 24, 2, 2, 16, 13, 2, 2, 2}, []byte{9})
		f.Add(uint8(i), []byte{5, 2, 6, 1, 25, 2, 6, 2, 31, 1, 2, 29, 1, 10, 13, 2, 1, 2}, []byte{6, 0, 0, 0, 10})
		f.Add(uint8(i), []byte{10, 3, 2, 4, 8, 11, 3, 2, 4, 1, 12, 1, 2}, []byte{0x7F})
	}
	kinds := []struct {
		param string
		dtype checkpoint.DType
	}{
		{"weight", checkpoint.U8}, {"weight_scale", checkpoint.F8E4M3}, {"weight_scale_2", checkpoint.F32}, {"weight", checkpoint.F8E4M3}, {"weight_scale_inv", checkpoint.F32},
		{"weight_packed", checkpoint.I32}, {"weight_scale", checkpoint.BF16}, {"weight_shape", checkpoint.I64}, {"blocks", checkpoint.U8}, {"scales", checkpoint.U8},
		{"weight_packed", checkpoint.U8}, {"weight_scale", checkpoint.U8}, {"weight_global_scale", checkpoint.F32}, {"weight_zero_point", checkpoint.I32}, {"weight_min", checkpoint.BF16},
		{"qweight", checkpoint.I32}, {"qzeros", checkpoint.I32}, {"scales", checkpoint.F16}, {"g_idx", checkpoint.I32}, {"scales", checkpoint.F32}, {"B", checkpoint.I32}, {"s", checkpoint.F16},
		{"weight", checkpoint.I8}, {"weight", checkpoint.I32}, {"weight_scale", checkpoint.F32}, {"weight_scale", checkpoint.F16}, {"weight_zero_point", checkpoint.I8}, {"weight_zero_point", checkpoint.F8E4M3},
		{"weight_zero_point", checkpoint.U8}, {"weight_g_idx", checkpoint.I32}, {"pre_quant_scale", checkpoint.BF16}, {"weight_shape", checkpoint.I32},
	}
	f.Fuzz(func(t *testing.T, config uint8, layout, data []byte) {
		type entry struct {
			DType   string   `json:"dtype"`
			Shape   []int64  `json:"shape"`
			Offsets [2]int64 `json:"data_offsets"`
		}
		header, size := map[string]entry{}, int64(0)
		for len(layout) >= 2 && len(header) < 8 {
			k, rank := kinds[int(layout[0])%len(kinds)], int(layout[1])%5
			layout = layout[2:]
			shape, n := []int64{}, int64(k.dtype.Bits()/8)
			for ; rank > 0 && len(layout) > 0; rank-- {
				shape = append(shape, int64(layout[0]%40))
				n *= shape[len(shape)-1]
				layout = layout[1:]
			}
			name := fmt.Sprintf("%s.%s", proj, k.param)
			if _, twice := header[name]; twice || n > 1<<18 {
				continue
			}
			header[name] = entry{k.dtype.String(), shape, [2]int64{size, size + n}}
			size += n
		}
		text, err := json.Marshal(header)
		if err != nil {
			t.Fatal(err)
		}
		file := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
		file = append(file, text...)
		for i := range size {
			b := byte(i)
			if int(i) < len(data) {
				b = data[i]
			}
			file = append(file, b)
		}
		files := fstest.MapFS{"model.safetensors": {Data: file}}
		if c := fuzzConfigs[int(config)%len(fuzzConfigs)]; c != "" {
			files["config.json"] = &fstest.MapFile{Data: []byte(c)}
		}
		ck, err := checkpoint.OpenFS("fuzz", files)
		if err != nil {
			return
		}
		defer ck.Close()
		model, err := topology.FromCheckpoint(ck)
		if err != nil {
			return
		}
		l, err := Open(ck, model)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range l.Findings {
			if strings.Contains(f.Message, "\n") {
				t.Errorf("%q is no line", f.Message)
			}
		}
		telling := 0 // tensors that say that something is quantized
		for i := range ck.Tensors {
			if x := &ck.Tensors[i]; x.Name != proj+".s" && (x.Name != proj+".weight" || len(x.Shape) >= 2) {
				telling++
			}
		}
		if telling > 0 && len(l.Modules) == 0 && len(l.Findings) == 0 {
			t.Errorf("%v is in no module and no finding", header)
		}
		for i := range l.Modules {
			m := &l.Modules[i]
			var s Stored
			if err := m.Read(t.Context(), &s, 0, m.Rows); errors.Is(err, ErrGroup) {
				if found, err := m.Groups(t.Context()); err != nil || !slices.ContainsFunc(found, func(f Finding) bool { return f.ID == GroupRange }) {
					t.Errorf("%s: its groups are found good: %v %v", m.Name, found, err)
				}
				continue
			}
			if len(m.Steps(&s)) > 0 && m.StepIndex(&s, m.Rows-1, m.Cols-1) >= len(m.Steps(&s)) {
				t.Errorf("%s: the step of the last element is none of %d", m.Name, len(m.Steps(&s)))
			}
			if got := decode(t, m, m.RowMultiple()); len(got) != m.Rows*m.Cols || len(got) == 0 {
				t.Errorf("%s: %d elements for %d×%d", m.Name, len(got), m.Rows, m.Cols)
			}
			for _, f := range m.Fields {
				if f.Offset < 0 || f.Size < 0 || f.Offset+f.Size > f.Tensor.Size {
					t.Errorf("%s: %+v of %d bytes", m.Name, f, f.Tensor.Size)
				}
			}
		}
	})
}
