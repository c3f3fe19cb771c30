package layout

import (
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"
	"testing/fstest"

	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// byteConfigs are what the tensors of FuzzOpenBytes may stand under.
var byteConfigs = []string{
	"", mlxConfig("affine", 4, 8, ""), mlxConfig("affine", 3, 32, ""), mlxConfig("affine", 8, 16, ""), mlxConfig("nvfp4", 4, 16, ""),
	mlxConfig("mxfp8", 8, 32, `,"`+proj+`":{"bits":5,"group_size":32,"mode":"affine"}`), fp8Config(`,"weight_block_size":[3,5]`, ""), fp8Config("", `,"expert_dtype":"fp4"`), gptqConfig(4, 16, true, ""),
}

// Whatever tensors of MLX and of DeepSeek-V4 stand beside one another, each is in a
// module that decodes, all at once and row by row alike, or in a finding of one line.
func FuzzOpenBytes(f *testing.F) {
	for i := range byteConfigs {
		f.Add(uint8(i), []byte{0, 2, 3, 4, 1, 2, 3, 4, 2, 2, 3, 4}, []byte{1, 2, 3})
		f.Add(uint8(i), []byte{0, 2, 3, 12, 3, 2, 3, 4, 4, 2, 3, 4}, []byte{0xFF, 0x7F})
		f.Add(uint8(i), []byte{0, 3, 2, 3, 8, 5, 3, 2, 3, 4, 6, 1, 2}, []byte{0, 0, 0, 0x80})
		f.Add(uint8(i), []byte{0, 2, 3, 8, 5, 2, 3, 1}, []byte{255})
		f.Add(uint8(i), []byte{7, 2, 3, 16, 8, 2, 3, 1}, []byte{})
		f.Add(uint8(i), []byte{7, 2, 3, 32, 9, 2, 3, 2}, []byte{1})
		f.Add(uint8(i), []byte{10, 2, 4, 6, 11, 2, 2, 2}, []byte{5})
		f.Add(uint8(i), []byte{10, 2, 4, 6, 12, 0}, []byte{5})
		f.Add(uint8(i), []byte{13, 3, 1, 1, 8, 8, 2, 4, 4}, []byte{5})
	}
	kinds := []struct {
		param string
		dtype checkpoint.DType
	}{
		{"weight", checkpoint.U32}, {"scales", checkpoint.F16}, {"biases", checkpoint.F16}, {"scales", checkpoint.BF16}, {"biases", checkpoint.BF16}, {"scales", checkpoint.U8}, {"global_scale", checkpoint.F32},
		{"weight", checkpoint.I8}, {"scale", checkpoint.U8}, {"scale", checkpoint.F8E8M0}, {"weight", checkpoint.F8E4M3}, {"scale", checkpoint.F32}, {"weight_scale_inv", checkpoint.BF16}, {"trellis", checkpoint.I16},
	}
	f.Fuzz(func(t *testing.T, config uint8, layout, data []byte) {
		type entry struct {
			DType   string   `json:"dtype"`
			Shape   []int64  `json:"shape"`
			Offsets [2]int64 `json:"data_offsets"`
		}
		header, size, weights := map[string]entry{}, int64(0), 0
		for len(layout) >= 2 && len(header) < 6 {
			k, rank := kinds[int(layout[0])%len(kinds)], int(layout[1])%4
			layout = layout[2:]
			shape, n := []int64{}, int64(k.dtype.Bits()/8)
			for ; rank > 0 && len(layout) > 0; rank-- {
				shape = append(shape, int64(layout[0]%40))
				n *= shape[len(shape)-1]
				layout = layout[1:]
			}
			name := proj + "." + k.param
			if _, twice := header[name]; twice || n > 1<<17 {
				continue
			}
			if k.param == "weight" && len(shape) > 1 {
				weights++
			}
			header[name] = entry{k.dtype.String(), shape, [2]int64{size, size + n}}
			size += n
		}
		text, err := json.Marshal(header)
		if err != nil {
			t.Fatal(err)
		}
		file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
		for i := range size {
			b := byte(100 + i%20)
			if int(i) < len(data) {
				b = data[i]
			}
			file = append(file, b)
		}
		files := fstest.MapFS{"model.safetensors": {Data: file}}
		if c := byteConfigs[int(config)%len(byteConfigs)]; c != "" {
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
		if weights > 0 && len(l.Modules)+len(l.Findings) == 0 {
			t.Errorf("%v is in no module and no finding", header)
		}
		for _, f := range l.Findings {
			if strings.Contains(f.Message, "\n") {
				t.Errorf("%q is no line", f.Message)
			}
		}
		for i := range l.Modules {
			m := &l.Modules[i]
			whole, pieces := decode(t, m, max(m.RowMultiple(), m.Rows)), decode(t, m, m.RowMultiple())
			sameFloats(t, m.Name, pieces, whole)
			if len(whole) != m.Rows*m.Cols || len(whole) == 0 {
				t.Errorf("%s: %d elements for %d×%d", m.Name, len(whole), m.Rows, m.Cols)
			}
			if !m.OwnPanels() {
				continue
			}
			var s Stored
			if err := m.Read(t.Context(), &s, 0, m.Rows); err != nil {
				t.Fatal(err)
			}
			col, n := min(3, m.Cols-1), 0
			if n = m.Cols - col; n > 7 {
				n -= 5
			}
			got := make([]float32, n)
			if err := m.Panel(got, &s, m.Rows-1, 1, col, n); err != nil {
				t.Fatal(err)
			}
			sameFloats(t, m.Name, got, whole[(m.Rows-1)*m.Cols+col:][:n])
		}
	})
}

// Whatever MLX's section holds, reading it ends in an error of one line or in modes
// that are known.
func FuzzMLXConfig(f *testing.F) {
	for _, seed := range []string{
		`{"group_size":64,"bits":4}`, `{"group_size":64,"bits":4,"mode":"affine","lm_head":{"bits":6},"model.embed_tokens":false,"a":true}`,
		`{"bits":null}`, `{"bits":1e9}`, `{"bits":4,"x":null,"y":[],"z":"","re:(?!x)":{}}`, `[]`, `{"group_size":-1,"mode":""}`, `{"bits":4,"a":{"mode":"mxfp4"},"a":{"mode":"nvfp4"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		isMLX(raw, mlxSection)
		c, err := parseMLX(configFile, raw)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q is no line", err)
			}
			return
		}
		for name, a := range c.mlxLayers {
			if _, known := mlxModes[a.mode]; !known || a.bits < 1 {
				t.Errorf("%q: %+v", name, a)
			}
		}
		if v := c.cover(newMatchIndex(c.entries).find(nil, []string{proj}, true), true); !v.quantized() && v.ignore == nil {
			t.Errorf("a Linear is neither quantized nor left out: %+v", v)
		}
	})
}
