package convert

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/export"
	"quantscope/quant/layout"
	"quantscope/quant/method"
)

// fp4 is a matrix of codes of E2M1 as one of the FP4 layouts stores it.
type fp4 struct {
	layout     string
	mx         bool
	rows, cols int
	codes      []byte // one a byte
	scales     []byte
	global     float32
}

func (m *fp4) block() int {
	if m.mx {
		return 32
	}
	return 16
}

// parts are its tensors, and config what is said of them.
func (m *fp4) parts() []part {
	two := make([]byte, m.rows*m.cols/2)
	for i, c := range m.codes {
		two[i/2] |= c << (i % 2 * 4)
	}
	rows, cols := int64(m.rows), int64(m.cols)
	global := binary.LittleEndian.AppendUint32(nil, math.Float32bits(m.global))
	scales := part{proj + ".weight_scale", checkpoint.F8E4M3, []int64{rows, cols / int64(m.block())}, m.scales}
	switch {
	case m.mx:
		scales.dtype = checkpoint.U8
		return []part{{proj + ".weight_packed", checkpoint.U8, []int64{rows, cols / 2}, two}, scales}
	case m.layout == ModelOpt:
		return []part{{proj + ".weight", checkpoint.U8, []int64{rows, cols / 2}, two}, scales, {proj + ".weight_scale_2", checkpoint.F32, []int64{}, global}}
	}
	return []part{{proj + ".weight_packed", checkpoint.U8, []int64{rows, cols / 2}, two}, scales, {proj + ".weight_global_scale", checkpoint.F32, []int64{1}, global}}
}

func (m *fp4) config() string {
	switch {
	case m.mx:
		return `{"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized", "ignore": ["lm_head", "re:.*gate_proj"], "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32}}}}`
	case m.layout == ModelOpt:
		return `{"quant_method": "modelopt", "quant_algo": "W4A16_NVFP4", "ignore": ["lm_head", "model.layers.0.mlp*"], "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float", "group_size": 16}}}}`
	}
	return `{"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized", "ignore": ["lm_head", "re:.*gate_proj"], "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}}}}`
}

// randomFP4 has codes of a codebook, all of which are used.
func randomFP4(rng *rand.Rand, where string, mx bool, rows, cols int, book []byte) *fp4 {
	m := &fp4{layout: where, mx: mx, rows: rows, cols: cols, codes: make([]byte, rows*cols), global: float32(math.Exp(rng.NormFloat64()))}
	for i := range m.codes {
		m.codes[i] = book[rng.IntN(len(book))]
	}
	copy(m.codes, book)
	for range rows * cols / m.block() {
		m.scales = append(m.scales, byte(0x20+rng.IntN(0x50)))
	}
	return m
}

// Four values a matrix, packed and taken apart again: packed bytes are what plain loops
// over bits make, scales and second-level scale are the source's bytes, every value is
// the same, and what comes back is the very file, from either side.
func TestTwoBitsThereAndBack(t *testing.T) {
	ascending := []byte{15, 14, 13, 12, 11, 10, 9, 0, 1, 2, 3, 4, 5, 6, 7}
	rapid.Check(t, func(r *rapid.T) {
		mx := rapid.Bool().Draw(r, "mx")
		where := CompressedTensors
		if !mx && rapid.Bool().Draw(r, "modelopt") {
			where = ModelOpt
		}
		at := rapid.SliceOfNDistinct(rapid.IntRange(0, 14), 4, 4, rapid.ID[int]).Draw(r, "book")
		slices.Sort(at)
		var book []byte
		for _, i := range at {
			book = append(book, ascending[i])
		}
		m := randomFP4(rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 1)), where, mx, rapid.IntRange(1, 9).Draw(r, "rows"), 32*rapid.IntRange(1, 4).Draw(r, "cols"), book)
		dir := folder(t, m.config(), m.parts())
		own, report := convertTo(t, dir, Own)
		if report.Values.Differ != 0 || report.Scales.Reciprocal != 0 {
			r.Fatalf("%+v", report)
		}
		stored := tensors(t, own)
		packed := make([]byte, m.rows*m.cols/4)
		for i, c := range m.codes {
			packed[i/4] |= byte(slices.Index(book, c)) << (i % 4 * 2)
		}
		if got := stored[proj+".weight_packed"]; !slices.Equal(got.data, packed) || !slices.Equal(got.shape, []int64{int64(m.rows), int64(m.cols / 4)}) {
			r.Fatalf("packed %v %x, want %x", got.shape, got.data, packed)
		}
		if got := stored[proj+".weight_codebook"]; !slices.Equal(got.data, book) {
			r.Fatalf("codebook %v, want %v", got.data, book)
		}
		if !slices.Equal(stored[proj+".weight_scale"].data, m.scales) {
			r.Fatal("other scales")
		}
		q := quantConfig(t, own)
		want := map[bool]string{false: "code2", true: "code2-mxfp4"}[mx]
		if q["format"] != want || q["version"] != 2.0 || q["bits"] != 2.0 || q["group_size"] != float64(m.block()) {
			r.Fatalf("%v", q)
		}
		back, _ := convertTo(t, own, where)
		sameFiles(t, "back", dir, back)
		again, _ := convertTo(t, back, Own)
		sameFiles(t, "again", own, again)
		if mx {
			return
		}
		other := map[string]string{ModelOpt: CompressedTensors, CompressedTensors: ModelOpt}[where]
		out, report := convertTo(t, own, other)
		direct, _ := convertTo(t, dir, other)
		if sameFiles(t, "by way of two bits", direct, out); report.Scales.Reciprocal != 1 {
			r.Fatalf("%+v", report.Scales)
		}
	})
}

// A matrix that uses fewer than four values has a codebook with these and the first
// codes that it does not use, and its codes come back.
func TestFewerThanFourValues(t *testing.T) {
	for _, c := range []struct{ used, want []byte }{{[]byte{0}, []byte{0, 1, 2, 3}}, {[]byte{15, 0}, []byte{15, 0, 1, 2}}, {[]byte{13, 1, 7}, []byte{13, 0, 1, 7}}} {
		m := randomFP4(rand.New(rand.NewPCG(3, 1)), ModelOpt, false, 4, 32, c.used)
		dir := folder(t, m.config(), m.parts())
		own, _ := convertTo(t, dir, Own)
		if got := tensors(t, own)[proj+".weight_codebook"].data; !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.used, got, c.want)
		}
		back, _ := convertTo(t, own, ModelOpt)
		sameFiles(t, "back", dir, back)
	}
}

// What two bits cannot hold is refused by name, and nothing is written.
func TestTwoBitRefusals(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	nv := func(book ...byte) *fp4 { return randomFP4(rng, ModelOpt, false, 4, 64, book) }
	good := nv(15, 10, 2, 7)
	input := part{proj + ".input_scale", checkpoint.F32, []int64{}, make([]byte, 4)}
	for _, c := range []struct {
		what, quant, to string
		parts           []part
		words           []string
	}{
		{"five values", good.config(), Own, nv(15, 10, 0, 2, 7).parts(), []string{proj + ".weight uses 5 values ([-6 -1 0 1 6])", "has 4"}},
		{"all values", good.config(), Own, nv(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15).parts(), []string{"uses 15 values"}},
		{"−0", good.config(), Own, nv(15, 8, 2, 7).parts(), []string{proj + ".weight has codes of −0"}},
		{"activations", strings.Replace(good.config(), "W4A16_NVFP4", "NVFP4", 1), Own, append(good.parts(), input), []string{"activations in blocks, static global"}},
		{"a scale of activations", good.config(), Own, append(good.parts(), input), []string{"input_scale"}},
		{"MXFP4 as ModelOpt's", (&fp4{mx: true}).config(), ModelOpt, randomFP4(rng, CompressedTensors, true, 4, 64, []byte{1, 2}).parts(), []string{"mxfp4", "can be in compressed-tensors, quantscope"}},
	} {
		_, err := planned(t, folder(t, c.quant, c.parts), c.to)
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), proj) {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		for _, w := range c.words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q is not in %q", c.what, w, err)
			}
		}
	}
	// Two bits of MXFP4 have no words in layout modelopt, and short blocks none outside.
	mx := randomFP4(rng, CompressedTensors, true, 4, 64, []byte{15, 10, 2, 7})
	own, _ := convertTo(t, folder(t, mx.config(), mx.parts()), Own)
	if _, err := planned(t, own, ModelOpt); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "code2-mxfp4") {
		t.Errorf("%v", err)
	}
	if _, err := planned(t, own, Own); !errors.Is(err, export.ErrSource) || !strings.Contains(err.Error(), "already") {
		t.Errorf("%v", err)
	}
	short := folder(t, `{"quant_method": "quantscope", "version": 2, "format": "code2", "bits": 2, "group_size": 16, "targets": ["Linear"], "ignore": ["lm_head", "re:.*gate_proj"]}`, []part{
		{proj + ".weight_packed", checkpoint.U8, []int64{2, 5}, make([]byte, 10)}, {proj + ".weight_scale", checkpoint.F8E4M3, []int64{2, 2}, []byte{56, 56, 56, 56}},
		{proj + ".weight_codebook", checkpoint.U8, []int64{4}, []byte{15, 10, 2, 7}}, {proj + ".weight_scale_2", checkpoint.F32, []int64{}, []byte{0, 0, 128, 63}},
	})
	if _, err := planned(t, short, ModelOpt); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "20 inputs are no multiple of 16") {
		t.Errorf("%v", err)
	}
}

// A damaged copy is found out, in either direction.
func TestTwoBitCheckFinds(t *testing.T) {
	m := randomFP4(rand.New(rand.NewPCG(7, 1)), CompressedTensors, false, 8, 64, []byte{15, 10, 2, 7})
	dir := folder(t, m.config(), m.parts())
	own, _ := convertTo(t, dir, Own)
	for _, c := range []struct{ source, to, tensor, mention string }{
		{dir, Own, "weight_packed", "codes of outputs 0 to 8"}, {dir, Own, "weight_scale", "block scales"}, {dir, Own, "weight_global_scale", "want"},
		{own, CompressedTensors, "weight_packed", "codes of outputs"}, {own, CompressedTensors, "weight_scale", "block scales"},
	} {
		p, err := planned(t, c.source, c.to)
		if err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), "out")
		if _, _, err := p.Write(t.Context(), out, WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		damage(t, out, proj+"."+c.tensor)
		r, err := p.Check(t.Context(), out, 2)
		if err != nil {
			t.Fatal(err)
		}
		if r.OK() || !slices.ContainsFunc(r.Problems, func(x Problem) bool { return strings.Contains(x.Message, c.mention) }) {
			t.Errorf("%s: %+v", c.tensor, r.Problems)
		}
	}
}

// damage turns the lowest bit of a tensor.
func damage(t testing.TB, dir, tensor string) {
	t.Helper()
	ck, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	x, ok := ck.Lookup(tensor)
	if !ok {
		t.Fatalf("no %s", tensor)
	}
	file, at := filepath.Join(dir, ck.Files[x.File].Name), x.Offset
	_ = ck.Close()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	raw[at] ^= 1
	if err := os.WriteFile(file, raw, 0o666); err != nil {
		t.Fatal(err)
	}
}

// Codes that come from elsewhere are packed under the source's scales; a killed copy
// goes on to the same bytes, and what is not of the codebook is refused.
func TestTwoBitsOfOthers(t *testing.T) {
	m := randomFP4(rand.New(rand.NewPCG(9, 1)), ModelOpt, false, 8, 64, []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
	dir := folder(t, m.config(), m.parts())
	ck, model, l := open(t, dir)
	v, err := method.Parse("code2+sym")
	if err != nil {
		t.Fatal(err)
	}
	two, err := NewTwoBits(t.Context(), ck, model, l, v)
	if err != nil {
		t.Fatal(err)
	}
	unit, ok := two.Unit(proj)
	if _, other := two.Unit("model.norm"); !ok || other {
		t.Fatalf("units %t, %t", ok, other)
	}
	book := []byte{14, 10, 2, 6}
	const mask = 1<<14 | 1<<10 | 1<<2 | 1<<6
	nibbles, want := make([]byte, 8*32), make([]byte, 8*16)
	for i := range 8 * 64 {
		k := i * 7 % 4
		nibbles[i/2] |= book[k] << (i % 2 * 4)
		want[i/4] |= byte(k) << (i % 4 * 2)
	}
	out := filepath.Join(t.TempDir(), "out")
	w, err := export.Create(t.Context(), two.Plan(), out, export.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := two.Put(t.Context(), w, unit, nibbles, 1); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), proj) {
		t.Errorf("no codebook: %v", err)
	}
	if err := two.Put(t.Context(), w, 7, nibbles, mask); !errors.Is(err, export.ErrMatrix) {
		t.Errorf("unit 7: %v", err)
	}
	if err := w.Close(); err != nil { // killed before its codes came
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(out, "config.json")); err == nil {
		t.Error("has a config, and is not whole")
	}
	if w, err = export.Create(t.Context(), two.Plan(), out, export.Options{Resume: true}); err != nil {
		t.Fatal(err)
	}
	if err := two.Put(t.Context(), w, unit, nibbles, mask); err != nil {
		t.Fatal(err)
	}
	if res, err := w.Finish(context.Background()); err != nil || !res.Whole {
		t.Fatalf("%+v, %v", res, err)
	}
	got := tensors(t, out)
	if !slices.Equal(got[proj+".weight_packed"].data, want) || !slices.Equal(got[proj+".weight_codebook"].data, book) || !slices.Equal(got[proj+".weight_scale"].data, m.scales) {
		t.Errorf("%v", got)
	}
	if g := got[proj+".weight_scale_2"].data; math.Float32frombits(binary.LittleEndian.Uint32(g)) != m.global {
		t.Errorf("global scale %x", g)
	}
	receipt := quantConfig(t, out)["quantscope"].(map[string]any)
	if receipt["variant"] != "code2+sym" || receipt["format"] != "code2" || receipt["method"] != "sym" || receipt["convention"] != "modelopt" || receipt["converted"].(map[string]any)["from"] != "modelopt" {
		t.Errorf("%v", receipt)
	}
	_, _, back := open(t, out)
	if b, err := back.Modules[0].Codebook(t.Context()); err != nil || b != mask || len(back.Findings) != 0 {
		t.Errorf("%#04x, %v, %v", b, err, back.Findings)
	}
	// Codes that the codebook does not have.
	out = filepath.Join(t.TempDir(), "out")
	if w, err = export.Create(t.Context(), two.Plan(), out, export.Options{}); err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	nibbles[40] ^= 1
	if err := two.Put(t.Context(), w, unit, nibbles, mask); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "row 1, column 16") {
		t.Errorf("%v", err)
	}
	// Another format beside it.
	fp8 := module(layer+"self_attn.k_proj", golden(t, "fp8_gaussian", "ct32.channel."), "weight", "weight_scale")
	mixed := folder(t, m.config(), append(m.parts(), fp8...))
	ck, model, l = open(t, mixed)
	if _, err := NewTwoBits(t.Context(), ck, model, l, v); !errors.Is(err, ErrRefused) && !errors.Is(err, export.ErrSource) {
		t.Errorf("%v", err)
	}
}

// Every form of two bits is what its module is read as.
func TestFormsOfTwoBits(t *testing.T) {
	for _, f := range []form{code2, code2mxfp4} {
		base, ok := kernels.CodebookBase(string(f))
		if !ok || fourBits(f) != form(base) || fourBits(form(base)) != form(base) {
			t.Errorf("%s: %s, %s", f, base, fourBits(f))
		}
	}
	if m := (&layout.Module{}); divides(m) {
		t.Error("nothing divides")
	}
}
