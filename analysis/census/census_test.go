package census

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/quant/checkpoint"
	"quantscope/quant/export"
	"quantscope/quant/layout"
)

func casePath(parts ...string) string {
	return filepath.Join(append([]string{"testdata", "cases"}, parts...)...)
}

// expected reads a case's expectations.
func expected(t *testing.T, dir string, v any) {
	t.Helper()
	data, err := os.ReadFile(casePath(dir, "expect.json"))
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// C24: which experts differ, by exactly what ratio.
func TestGateAndUp(t *testing.T) {
	var want struct {
		Pairs     int
		Differing []struct {
			Expert   int
			Gate, Up float64
			Ratio    float64 `json:"ratio_up_over_gate"`
		}
	}
	const name = "C24-gate-up-scales"
	expected(t, name, &want)
	rep := census(t, casePath(name))
	if rep.Pairs != want.Pairs || rep.Differing != len(want.Differing) || len(rep.Layers) != 1 || len(rep.Left) != 0 || rep.Note != "" {
		t.Fatalf("%+v", rep)
	}
	if rep.Layout != "modelopt" || rep.Convention != "multiplier" {
		t.Errorf("%s, %s", rep.Layout, rep.Convention)
	}
	l := rep.Layers[0]
	if l.Layer != 3 || l.Set != "gate and up" || l.Kind != "expert" || l.Totals != rep.Totals {
		t.Errorf("%+v, totals %+v", l, rep.Totals)
	}
	product, found := 1.0, 0
	for _, g := range l.Groups {
		k := slices.IndexFunc(want.Differing, func(d struct {
			Expert   int
			Gate, Up float64
			Ratio    float64 `json:"ratio_up_over_gate"`
		}) bool {
			return d.Expert == g.Expert
		})
		if g.Differ != (k >= 0) {
			t.Errorf("expert %d differs: %t", g.Expert, g.Differ)
		}
		if k < 0 {
			continue
		}
		w := want.Differing[k]
		if g.Members[0].Scale != w.Gate || g.Members[1].Scale != w.Up || g.Members[1].Ratio != w.Ratio || g.Furthest() != w.Ratio {
			t.Errorf("expert %d: %+v, want %+v", g.Expert, g.Members, w)
		}
		if c := g.Members[1].Change; math.Abs(c-math.Abs(1/w.Ratio-1)) > 1e-15 || g.Members[0].Change != 0 {
			t.Errorf("expert %d: changes by %v", g.Expert, c)
		}
		product *= w.Ratio
		found++
	}
	if found != 2 || rep.RatioMin != 1.254699945449829 || rep.RatioMax != 10 || math.Abs(rep.RatioMean-math.Sqrt(product)) > 1e-12 {
		t.Errorf("%d, %+v", found, rep.Totals)
	}
	if s := rep.Sentence(); !strings.Contains(s, "2 of 4 pairs") || !strings.Contains(s, "0.1 to 0.797") || !strings.Contains(s, "rel_l2 0.9 ") {
		t.Error(s)
	}
}

// C25: both conventions decode to the same values, and the same pair of
// matrices written either way has the same census.
func TestBothConventions(t *testing.T) {
	const name, module = "C25-two-conventions", "model.layers.0.self_attn.o_proj"
	var want struct {
		Value map[string]struct {
			Hash string `json:"sha256_f32le"`
		}
	}
	expected(t, name, &want)
	for _, dir := range []string{"multiplier", "divisor"} {
		q := decoded(t, casePath(name, dir), module)
		raw := make([]byte, 0, 4*len(q))
		for _, x := range q {
			if x == 0 {
				x = 0 // −0 too
			}
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
		}
		if sum := sha256.Sum256(raw); hex.EncodeToString(sum[:]) != want.Value[module].Hash {
			t.Errorf("%s decodes to something else", dir)
		}
		rep := census(t, casePath(name, dir))
		if rep.Convention != dir || rep.Pairs != 0 || !strings.Contains(rep.Note, "no two matrices") || len(rep.Left) != 0 {
			t.Errorf("%s: %+v", dir, rep)
		}
	}

	const mlp = "model.layers.0.mlp."
	var reports []*Report
	for _, lay := range []string{layout.ModelOpt, layout.CompressedTensors} {
		gate, up := floats(8*32, 1, 0.02), floats(8*32, 2, 0.02)
		g, u := float32(0x1p-14), float32(0x1p-12) // powers of two, which have exact reciprocals
		if lay == layout.CompressedTensors {
			g, u = 1/g, 1/u
		}
		rep := census(t, writeFiles(t, "", slices.Concat(packed(t, mlp+"gate_proj", lay, gate, 8, 32, g), packed(t, mlp+"up_proj", lay, up, 8, 32, u))))
		if rep.Layout != lay {
			t.Errorf("layout %s, want %s", rep.Layout, lay)
		}
		reports = append(reports, rep)
	}
	a, b := reports[0].Layers[0].Groups[0].Members, reports[1].Layers[0].Groups[0].Members
	for k := range a {
		if a[k].Scale != b[k].Scale || a[k].Ratio != b[k].Ratio {
			t.Errorf("%+v and %+v", a[k], b[k])
		}
	}
	if reports[0].Totals != reports[1].Totals || reports[0].RatioMax != 4 {
		t.Errorf("%+v and %+v", reports[0].Totals, reports[1].Totals)
	}
}

// C26: experts in one tensor. The source has no scales; exported, its experts
// are pairs, and a layout that keeps them in one tensor has pairs as well.
func TestFusedExperts(t *testing.T) {
	const name = "C26-fused-experts"
	rep := census(t, casePath(name))
	if rep.Pairs != 0 || rep.Note != "no second-level scales: nothing is quantized" || len(rep.Layers) != 0 {
		t.Errorf("%+v", rep)
	}
	ck, model := open(t, casePath(name))
	dir := exported(t, ck, model, "*_proj*", "nvfp4", export.ModelOpt, export.PerTensor)
	rep = census(t, dir)
	if rep.Pairs != 5 || len(rep.Layers) != 2 {
		t.Fatalf("%+v", rep)
	}
	for _, l := range rep.Layers {
		switch l.Set {
		case "gate and up":
			if l.Pairs != 4 || l.Kind != "expert" {
				t.Errorf("%+v", l)
			}
		case "q, k and v":
			if l.Pairs != 1 || l.Kind != "attention" || len(l.Groups[0].Members) != 3 {
				t.Errorf("%+v", l)
			}
		default:
			t.Errorf("set %q", l.Set)
		}
	}
	master, mm := open(t, casePath(name))
	out, om := open(t, dir)
	proven, err := Prove(t.Context(), rep, out, om, NewMaster(master, mm), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(proven.Left) > 0 || proven.Proof == nil || proven.Proof.Members < proven.Differing || !(proven.Proof.Stored < 0.2) || rep.Proof != nil {
		t.Errorf("%+v, %+v", proven.Proof, proven.Left)
	}

	dir = stackedExperts(t, []float32{1e-4, 2e-4, 3e-4}, []float32{1e-4, 4e-4, 3e-4})
	rep = census(t, dir)
	if rep.Pairs != 3 || rep.Differing != 1 || rep.Joined != 0 || rep.Layers[0].Groups[1].Members[1].Ratio != 2 || rep.Layers[0].Groups[1].Expert != 1 {
		t.Errorf("%+v", rep)
	}
}

// stackedExperts has gate, up and down of three experts in one tensor each, with
// these second-level scales: one an expert, or one of all.
func stackedExperts(t testing.TB, gate, up []float32) string {
	t.Helper()
	const experts, rows, cols = 3, 16, 32
	var shard []stored
	add := func(proj string, seed uint64, globals []float32, rows, cols int) {
		var codes, scales, second []byte
		for e := range experts {
			p := packed(t, "x", layout.ModelOpt, floats(rows*cols, seed+uint64(e), 0.02), rows, cols, globals[e%len(globals)])
			codes, scales = append(codes, p[0].data...), append(scales, p[1].data...)
			if e < len(globals) {
				second = append(second, p[2].data...)
			}
		}
		name := "model.layers.0.mlp.experts." + proj
		shard = append(shard,
			stored{name + ".weight", checkpoint.U8, []int64{experts, int64(rows), int64(cols / 2)}, codes},
			stored{name + ".weight_scale", checkpoint.F8E4M3, []int64{experts, int64(rows), int64(cols / 16)}, scales},
			stored{name + ".weight_scale_2", checkpoint.F32, []int64{int64(len(globals))}, second})
	}
	add("gate_proj", 1, gate, rows, cols)
	add("up_proj", 10, up, rows, cols)
	add("down_proj", 20, []float32{1e-4}, cols, rows)
	return writeFiles(t, `{"model_type": "qwen3_moe", "hidden_size": 32, "num_hidden_layers": 1, "num_experts": 3, "moe_intermediate_size": 16, "num_experts_per_tok": 1}`, shard)
}

// Gate and up in one tensor share a scale and cannot differ.
func TestJoined(t *testing.T) {
	var codes, scales, second []byte
	for e := range uint64(3) {
		p := packed(t, "x", layout.ModelOpt, floats(32*32, e, 0.02), 32, 32, float32(e+1)*1e-4)
		codes, scales, second = append(codes, p[0].data...), append(scales, p[1].data...), append(second, p[2].data...)
	}
	const name = "model.layers.0.mlp.experts.gate_up_proj"
	rep := census(t, writeFiles(t, "", []stored{
		{name + ".weight", checkpoint.U8, []int64{3, 32, 16}, codes}, {name + ".weight_scale", checkpoint.F8E4M3, []int64{3, 32, 2}, scales}, {name + ".weight_scale_2", checkpoint.F32, []int64{3}, second},
	}))
	if rep.Joined != 3 || rep.Pairs != 0 || !strings.Contains(rep.Note, "one matrix already") {
		t.Errorf("%+v", rep)
	}
}

// What cannot be compared is listed, with what is wrong with it; what has no
// partner at all is no pair.
func TestLeftOut(t *testing.T) {
	const a, m = "model.layers.0.self_attn.", "model.layers.0.mlp."
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	pack := func(module, lay string, global float32) []stored {
		p := packed(t, module, lay, floats(8*32, 3, 0.02), 8, 32, 0x1p-14)
		binary.LittleEndian.PutUint32(p[2].data, math.Float32bits(global))
		return p
	}
	mo := func(module string, global float32) []stored { return pack(module, layout.ModelOpt, global) }
	plain := bf16(t, m+"up_proj.weight", floats(8*32, 4, 0.02), 8, 32)
	fp8 := []stored{{m + "up_proj.weight", checkpoint.F8E4M3, []int64{8, 32}, make([]byte, 256)}, scalar(m+"up_proj.weight_scale", 1)}
	for _, c := range []struct {
		name   string
		shard  []stored
		pairs  int
		left   string // of the first that is left out; "" for none
		reason string
	}{
		{"zero", slices.Concat(mo(m+"gate_proj", 1e-4), mo(m+"up_proj", 0)), 0, m + "up_proj", "is 0,"},
		{"negative", slices.Concat(mo(m+"gate_proj", -1e-4), mo(m+"up_proj", 1e-4)), 0, m + "gate_proj", "negative, -0.0001"},
		{"NaN", slices.Concat(mo(a+"q_proj", 1e-4), mo(a+"k_proj", nan), mo(a+"v_proj", 1e-4)), 0, a + "k_proj", "is NaN"},
		{"infinite", slices.Concat(mo(m+"gate_proj", inf), mo(m+"up_proj", 1e-4)), 0, m + "gate_proj", "infinite"},
		{"too far apart", slices.Concat(mo(m+"gate_proj", 1e30), mo(m+"up_proj", 1e-20)), 0, m + "up_proj", "no f32 number"},
		{"not quantized", append(mo(m+"gate_proj", 1e-4), plain), 0, m + "up_proj", "is stored as BF16"},
		{"in another format", append(mo(m+"gate_proj", 1e-4), fp8...), 0, m + "up_proj", "is stored as fp8"},
		{"in another convention", append(mo(m+"gate_proj", 1e-4), pack(m+"up_proj", layout.CompressedTensors, 1e4)...), 0, m + "up_proj", "another convention"},
		{"in part", slices.Concat(mo(a+"q_proj", 1e-4), mo(a+"k_proj", 2e-4), []stored{bf16(t, a+"v_proj.weight", floats(8*32, 4, 0.02), 8, 32)}), 1, a + "v_proj", "is stored as BF16"},
		{"alone", mo(m+"gate_proj", 1e-4), 0, "", ""},
		{"not fused", slices.Concat(mo(a+"o_proj", 1e-4), mo(m+"down_proj", 2e-4)), 0, "", ""},
		{"an unknown form", append(mo(m+"gate_proj", 1e-4), stored{a + "o_proj.qweight", checkpoint.I32, []int64{4, 8}, make([]byte, 128)}), 0, a + "o_proj.qweight", "not known"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rep := census(t, writeFiles(t, "", c.shard))
			if rep.Pairs != c.pairs || (rep.Note == "") != (c.pairs > 0) {
				t.Errorf("%d pairs, note %q", rep.Pairs, rep.Note)
			}
			switch {
			case c.left == "" && len(rep.Left) > 0:
				t.Errorf("left out: %+v", rep.Left)
			case c.left != "" && (len(rep.Left) != 1 || rep.Left[0].Name != c.left || !strings.Contains(rep.Left[0].Reason, c.reason)):
				t.Errorf("left out: %+v, want %s: %s", rep.Left, c.left, c.reason)
			}
			if _, err := json.Marshal(rep); err != nil {
				t.Error(err)
			}
		})
	}
}

// What is quantized without second-level scales is said to be.
func TestNoScales(t *testing.T) {
	const m = "model.layers.0.mlp."
	rep := census(t, writeFiles(t, "", []stored{
		{m + "gate_proj.weight", checkpoint.F8E4M3, []int64{8, 32}, make([]byte, 256)}, scalar(m+"gate_proj.weight_scale", 1),
		{m + "up_proj.weight", checkpoint.F8E4M3, []int64{8, 32}, make([]byte, 256)}, scalar(m+"up_proj.weight_scale", 2),
	}))
	if rep.Pairs != 0 || rep.Note != "no second-level scales: what is quantized is stored as fp8" {
		t.Errorf("%+v", rep)
	}
	text, err := json.Marshal(rep)
	if err != nil || !strings.Contains(string(text), `"layers":[]`) || strings.Contains(string(text), "ratio") {
		t.Errorf("%s, %v", text, err)
	}
}
