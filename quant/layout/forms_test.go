package layout

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"quantscope/quant/checkpoint"
)

// Experts in one tensor may have a second-level scale each, and every field is
// the expert's own part of its tensor.
func TestGlobalScaleOfEachExpert(t *testing.T) {
	const name = "model.layers.0.mlp.experts.gate_up_proj"
	g := golden(t, "nvfp4_experts_3d", "modelopt.")
	want := g["dequant_f32"].floats(t)
	one := math.Float32frombits(binary.LittleEndian.Uint32(g["weight_scale_2"].data))
	var globals []byte
	for e := range 4 {
		globals = binary.LittleEndian.AppendUint32(globals, math.Float32bits(one*float32(int(1)<<e)))
	}
	codes, scales := g["weight"], g["weight_scale"]
	codes.name, scales.name = name+".weight", name+".weight_scale"
	_, l := openPath(t, write(t, "", []part{codes, scales, {name + ".weight_scale_2", checkpoint.F32, []int64{4}, globals}}))
	if len(l.Modules) != 4 || len(l.Findings) != 0 {
		t.Fatalf("%d modules, findings %v", len(l.Modules), l.Findings)
	}
	for e := range 4 {
		m, ok := l.Lookup(fmt.Sprintf("%s[%d]", name, e))
		if !ok {
			t.Fatalf("no expert %d", e)
		}
		times := float32(int(1) << e)
		if global, err := m.Global(t.Context()); err != nil || global != one*times {
			t.Errorf("expert %d has the scale %v, want %v: %v", e, global, one*times, err)
		}
		got := decode(t, m, 5)
		for i, q := range got {
			if w := want[e*len(got)+i] * times; q != w {
				t.Fatalf("expert %d, element %d: %v, want %v", e, i, q, w)
			}
		}
		if len(m.Fields) != 3 {
			t.Errorf("expert %d has the fields %+v", e, m.Fields)
		}
		for _, f := range m.Fields {
			if f.Size != f.Tensor.Size/4 || f.Offset != int64(e)*f.Size {
				t.Errorf("expert %d: %s is %d bytes at %d of %d", e, f.Param, f.Size, f.Offset, f.Tensor.Size)
			}
		}
	}
}

// ModelOpt's patterns are over whole names, and a module's covers what is below
// it, but not its neighbours whose names begin alike. compressed-tensors' names
// cover nothing but themselves.
func TestPatternsEndWithNames(t *testing.T) {
	for _, c := range []struct {
		pattern, module string
		style           style
		want            bool
	}{
		{"model.layers.1", "model.layers.1", wildcards, true},
		{"model.layers.1", "model.layers.1.mlp.up_proj", wildcards, true},
		{"model.layers.1", "model.layers.10.mlp.up_proj", wildcards, false},
		{"model.layers.1", "model.layers.1_proj", wildcards, false},
		{"model.layers.1*", "model.layers.10.mlp.up_proj", wildcards, true},
		{"model.layers.1.mlp", "model.layers.1", wildcards, false},
		{"model.layers.1", "model.layers.1.mlp.up_proj", exactOrRegex, false},
		{"re:model.layers.1.*", "model.layers.10.mlp.up_proj", exactOrRegex, true},
		{"re:layers.1.*", "model.layers.1.mlp.up_proj", exactOrRegex, false},
		{"Linear", "model.layers.1", exactOrRegex, true},
	} {
		e := newEntry(configFile, "ignore", c.pattern, c.style)
		if got := e.match(c.module, true); got != c.want {
			t.Errorf("%q matches %q: %t, want %t", c.pattern, c.module, got, c.want)
		}
	}
}

// Of groups that target a module equally closely that of the pattern that sorts
// first counts, and the later one of a pattern that stands in two.
func TestGroupsThatAreEquallyClose(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{"re:.*self_attn.*", "re:.*q_proj", "b"}, {"re:.*q_proj", "re:.*self_attn.*", "a"}, {"re:.*q_proj", "re:.*q_proj", "b"}, {"Linear", "Linear", "b"},
	} {
		config, err := parseConfig(configFile, fmt.Appendf(nil, `{"quant_method":"compressed-tensors","config_groups":{
			"a":{"targets":[%q],"weights":{"num_bits":4,"type":"int"}},"b":{"targets":[%q],"weights":{"num_bits":8,"type":"int"}}}}`, c.a, c.b))
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]int{"a": 4, "b": 8}[c.want]
		if v := config.cover(newMatchIndex(config.entries).find(nil, []string{proj}, true), true); v.group == nil || v.group.weights.Bits != want {
			t.Errorf("%q and %q: %+v, want %d bits", c.a, c.b, v.group, want)
		}
	}
}

// Scales of tiles that are powers of two, one byte each, decode as their f32 do.
func TestTilesOfPowers(t *testing.T) {
	codes := make([]byte, 200*136)
	for i := range codes {
		codes[i] = byte(i*7) & 0xBF
	}
	weight := part{proj + ".weight", checkpoint.F8E4M3, []int64{200, 136}, codes}
	exponents := []byte{120, 0, 254, 127}
	var floats []byte
	for _, e := range exponents {
		bits := uint32(e) << 23
		if e == 0 {
			bits = 1 << 22
		}
		floats = binary.LittleEndian.AppendUint32(floats, bits)
	}
	const config = `{"quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]}}`
	var decoded [][]float32
	for _, scale := range []part{
		{proj + ".weight_scale_inv", checkpoint.F8E8M0, []int64{2, 2}, exponents},
		{proj + ".weight_scale_inv", checkpoint.F32, []int64{2, 2}, floats},
	} {
		_, l := openPath(t, write(t, config, []part{weight, scale}))
		if len(l.Modules) != 1 || len(l.Findings) != 0 {
			t.Fatalf("%d modules, findings %v", len(l.Modules), l.Findings)
		}
		m := &l.Modules[0]
		decoded = append(decoded, decode(t, m, 128))
		var s Stored
		if err := m.Read(t.Context(), &s, 128, 72); err != nil {
			t.Fatal(err)
		}
		if m.ScaleSize() != 4 || len(s.Scales) != 8 || m.Steps(&s)[0] != float32(math.Ldexp(1, 127)) || m.Steps(&s)[1] != 1 {
			t.Errorf("%s: scales of %d bytes, %v", scale.dtype, m.ScaleSize(), m.Steps(&s))
		}
	}
	sameFloats(t, "decoded", decoded[0], decoded[1])
}
