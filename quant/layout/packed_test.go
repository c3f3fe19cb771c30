package layout

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// openWith is openPath with options.
func openWith(t testing.TB, path string, options Options) *Layout {
	t.Helper()
	ck, err := checkpoint.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ck.Close() })
	model, err := topology.FromCheckpoint(ck)
	if err != nil {
		t.Fatal(err)
	}
	l, err := OpenWith(ck, model, options)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// gptqConfig is a config of GPTQ with what a test adds.
func gptqConfig(bits, group int, sym bool, more string) string {
	return fmt.Sprintf(`{"model_type":"llama","quantization_config":{"quant_method":"gptq","bits":%d,"group_size":%d,"sym":%t,"desc_act":false%s}}`, bits, group, sym, more)
}

// C28 v1, C29, C30 whole, C31: decoded as the cases say, in any ranges of rows.
func TestPackedCases(t *testing.T) {
	for _, c := range []struct{ dir, per, format string }{
		{"C28-gptq-zero", "v1", "gptq-int4-g16"}, {"C29-act-order", "", "gptq-int4-g8"}, {"C30-group-shape", "whole", "gptq-int4-channel"}, {"C31-awq-order", "", "awq-int4-g16"},
	} {
		t.Run(c.dir, func(t *testing.T) {
			want := perDirHashes(t, c.dir, c.per)
			_, l := openPath(t, casePath(c.dir, c.per))
			if len(l.Modules) != len(want) || len(l.Findings) != 0 {
				t.Fatalf("%d modules, findings %v", len(l.Modules), l.Findings)
			}
			for i := range l.Modules {
				m := &l.Modules[i]
				if m.Spec.Format != c.format || m.Method != l.Method || m.Declared != l.Method {
					t.Errorf("%+v", m)
				}
				for _, step := range []int{m.RowMultiple(), m.Rows} {
					if got := sum(decode(t, m, step)); got != want[m.Name] {
						t.Errorf("%s in ranges of %d rows decodes to %s, want %s", m.Name, step, got, want[m.Name])
					}
				}
				if found, err := m.Groups(t.Context()); err != nil || len(found) != 0 {
					t.Errorf("%v %v", found, err)
				}
			}
		})
	}
}

// perDirHashes are the sums of a case that may have a value in each of its
// folders.
func perDirHashes(t *testing.T, dir, per string) map[string]string {
	t.Helper()
	if per == "" {
		return expectedHashes(t, dir)
	}
	type values map[string]struct {
		Sum string `json:"sha256_f32le"`
	}
	var e struct {
		PerDir map[string]struct {
			Value values `json:"value"`
			IfV2  values `json:"value_if_v2"`
		} `json:"per_dir"`
	}
	data, err := os.ReadFile(casePath(dir, "expect.json"))
	if err == nil {
		err = json.Unmarshal(data, &e)
	}
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, list := range []values{e.PerDir[per].Value, e.PerDir[per].IfV2} {
		for name, v := range list {
			out[name] = v.Sum
		}
	}
	if len(out) == 0 {
		t.Fatalf("%s/%s: no values", dir, per)
	}
	return out
}

// C28 mislabelled: refused with a finding, and read when told to, by the label
// one step off in every column.
func TestMislabelledZeroPoints(t *testing.T) {
	want := perDirHashes(t, "C28-gptq-zero", "mislabelled")
	const name = "model.layers.0.mlp.up_proj"
	dir := casePath("C28-gptq-zero", "mislabelled")
	_, l := openPath(t, dir)
	if len(l.Modules) != 0 || len(l.Unread) != 4 || len(l.Findings) != 1 {
		t.Fatalf("%d modules, unread %v, findings %v", len(l.Modules), l.Unread, l.Findings)
	}
	f := l.Findings[0]
	if f.ID != Mislabelled || f.Tensor != name+".qzeros" || f.File != "model.safetensors" {
		t.Errorf("%+v", f)
	}
	for _, word := range []string{"zero point 8", "makes 9", "gptq_v2", "one step", "--zero-points v2", "as-labelled"} {
		if !strings.Contains(f.Message, word) {
			t.Errorf("%q is not in %q", word, f.Message)
		}
	}
	byLabel := openWith(t, dir, Options{ZeroPoints: ZeroPointsLabelled})
	v1 := openWith(t, dir, Options{ZeroPoints: ZeroPointsV1})
	v2 := openWith(t, dir, Options{ZeroPoints: ZeroPointsV2})
	for _, l := range []*Layout{byLabel, v1, v2} {
		if len(l.Modules) != 1 || len(l.Unread) != 0 || len(l.Findings) != 1 || l.Findings[0].ID != Mislabelled {
			t.Fatalf("%+v", l)
		}
	}
	if byLabel.ZeroPoints != "" || v1.ZeroPoints != "" || v2.ZeroPoints != ZeroPointsV2 {
		t.Errorf("read otherwise than labelled: %q, %q, %q", byLabel.ZeroPoints, v1.ZeroPoints, v2.ZeroPoints)
	}
	good := decode(t, &v2.Modules[0], 16)
	if got := sum(good); got != want[name] {
		t.Errorf("as v2 it decodes to %s, want %s", got, want[name])
	}
	m := &byLabel.Modules[0]
	bad := decode(t, m, 16)
	sameFloats(t, "as v1", decode(t, &v1.Modules[0], 16), bad)
	var s Stored
	if err := m.Read(t.Context(), &s, 0, 16); err != nil {
		t.Fatal(err)
	}
	steps := m.Steps(&s)
	for i := range good {
		step := steps[m.StepIndex(&s, i/m.Cols, i%m.Cols)]
		if d := good[i] - bad[i]; d != step && !(d > 0.999*step && d < 1.001*step) {
			t.Fatalf("value %d is %v by the label and %v as v2: not one step of %v", i, bad[i], good[i], step)
		}
	}
}

// The other way round: labelled v2, stored minus 1.
func TestMislabelledTheOtherWay(t *testing.T) {
	g := golden(t, "gptq_sym_g128", "")
	for _, c := range []struct {
		zeros, label, says string
		sym                bool
	}{
		{"qzeros_v1", `,"checkpoint_format":"gptq_v2"`, "--zero-points v1", true},
		{"qzeros_v2", `,"checkpoint_format":"gptq"`, "--zero-points v2", true},
		{"qzeros_v2", ``, "no checkpoint_format", true},
		{"qzeros_v2", `,"checkpoint_format":"gptq_v2"`, "", true},
		{"qzeros_v1", ``, "", true},
		{"qzeros_v2", `,"checkpoint_format":"gptq"`, "", false}, // nothing tells
	} {
		_, l := openPath(t, write(t, gptqConfig(4, 128, c.sym, c.label), goldenParts(g, proj, c.zeros)))
		if c.says == "" {
			if len(l.Findings) != 0 || len(l.Modules) != 1 {
				t.Errorf("%s %s: %v", c.zeros, c.label, l.Findings)
			}
			continue
		}
		if len(l.Findings) != 1 || l.Findings[0].ID != Mislabelled || !strings.Contains(l.Findings[0].Message, c.says) || len(l.Modules) != 0 {
			t.Errorf("%s %s: %v", c.zeros, c.label, l.Findings)
		}
	}
}

// goldenParts are the fields of a golden of GPTQ or AWQ under a module's name.
func goldenParts(g map[string]part, module, zeros string) []part {
	var out []part
	for _, p := range []string{"qweight", zeros, "scales", "g_idx"} {
		x, ok := g[p]
		if !ok {
			continue
		}
		if x.name = module + "." + p; p == zeros {
			x.name = module + ".qzeros"
		}
		out = append(out, x)
	}
	return out
}

// What gptqmodel wrote decodes to what it decodes it to, bit for bit, in f32;
// rounded to f16 once it is what it decodes in f16.
func TestPackedGoldens(t *testing.T) {
	for _, c := range []struct {
		file, config, zeros, format string
	}{
		{"gptq_sym_g128", gptqConfig(4, 128, true, `,"checkpoint_format":"gptq"`), "qzeros_v1", "gptq-int4-g128"},
		{"gptq_sym_g128", gptqConfig(4, 128, true, `,"checkpoint_format":"gptq_v2"`), "qzeros_v2", "gptq-int4-g128"},
		{"gptq_asym_g128", gptqConfig(4, 128, false, `,"checkpoint_format":"gptq"`), "qzeros_v1", "gptq-int4-g128"},
		{"gptq_asym_g128", gptqConfig(4, 128, false, `,"checkpoint_format":"gptq_v2"`), "qzeros_v2", "gptq-int4-g128"},
		{"gptq_asym_g128_actorder", gptqConfig(4, 128, false, `,"checkpoint_format":"gptq"`), "qzeros_v1", "gptq-int4-g128"},
		{"gptq_asym_g128_actorder", gptqConfig(4, 128, false, `,"checkpoint_format":"gptq_v2"`), "qzeros_v2", "gptq-int4-g128"},
		{"gptq_asym_g64_zero0", gptqConfig(4, 64, false, `,"checkpoint_format":"gptq"`), "qzeros_v1", "gptq-int4-g64"},
		{"gptq_asym_g64_zero0", gptqConfig(4, 64, false, `,"checkpoint_format":"gptq_v2"`), "qzeros_v2", "gptq-int4-g64"},
		{"gptq_w8_sym_g128", gptqConfig(8, 128, true, `,"checkpoint_format":"gptq"`), "qzeros_v1", "gptq-int8-g128"},
		{"gptq_w8_sym_g128", gptqConfig(8, 128, true, `,"checkpoint_format":"gptq_v2"`), "qzeros_v2", "gptq-int8-g128"},
		{"gptq_w3_asym_g32", gptqConfig(3, 32, false, `,"checkpoint_format":"gptq"`), "qzeros_v1", "gptq-int3-g32"},
		{"gptq_w3_asym_g32", gptqConfig(3, 32, false, `,"checkpoint_format":"gptq_v2"`), "qzeros_v2", "gptq-int3-g32"},
		{"gptq_w2_sym_g64", gptqConfig(2, 64, true, ``), "qzeros_v1", "gptq-int2-g64"},
		{"gptq_w2_sym_g64", gptqConfig(2, 64, true, `,"checkpoint_format":"gptq_v2"`), "qzeros_v2", "gptq-int2-g64"},
		{"awq_g128", awqConfig(128), "qzeros", "awq-int4-g128"},
		{"awq_g32", awqConfig(32), "qzeros", "awq-int4-g32"},
	} {
		t.Run(c.file+" "+c.zeros, func(t *testing.T) {
			g := golden(t, c.file, "")
			_, l := openPath(t, write(t, c.config, goldenParts(g, proj, c.zeros)))
			if len(l.Modules) != 1 || len(l.Findings) != 0 {
				t.Fatalf("%d modules, findings %v", len(l.Modules), l.Findings)
			}
			m := &l.Modules[0]
			if m.Spec.Format != c.format {
				t.Errorf("%s, want %s", m.Spec.Format, c.format)
			}
			var want []float32
			if p, ok := g["dequant_f32_out_in"]; ok {
				want = p.floats(t)
			}
			half := g["dequant_f16_in_out"].floats(t)
			for _, step := range []int{m.RowMultiple(), 3 * m.RowMultiple(), m.Rows} {
				got := decode(t, m, step)
				if want != nil {
					sameFloats(t, "decoded", got, want)
				}
				rounded := make([]float32, len(got))
				for i, x := range got {
					rounded[i%m.Cols*m.Rows+i/m.Cols] = kernels.F16ToF32(kernels.F32ToF16(x))
				}
				sameFloats(t, "rounded to f16", rounded, half)
			}
			checkCodes(t, g, decode(t, m, m.Rows), m.Rows, m.Cols)
			checkPanels(t, m)
		})
	}
}

// checkCodes wants a decoded matrix to be scale · (code − zero) of what was packed, and
// within half a step of what was quantized: up to what rounding scales to f16 adds to
// the farthest codes.
func checkCodes(t *testing.T, g map[string]part, got []float32, rows, cols int) {
	t.Helper()
	codes, zeros, scales, w := g["codes"].data, g["zeros"].data, g["scales"].floats(t), g["w"].floats(t)
	groups := len(scales) / rows
	for i, x := range got {
		row, col := i/cols, i%cols
		group := col / (cols / groups)
		if p, ok := g["g_idx"]; ok {
			group = int(binary.LittleEndian.Uint32(p.data[4*col:]))
		}
		scale := scales[group*rows+row]
		if want := scale * float32(int(codes[i])-int(zeros[row*groups+group])); x != want {
			t.Fatalf("[%d,%d] is %v, want %v of code %d and zero point %d", row, col, x, want, codes[i], zeros[row*groups+group])
		}
		if off := math.Abs(float64(w[i]-x)) / float64(scale); !(off < 0.54) {
			t.Fatalf("[%d,%d] is %v of a step off", row, col, off)
		}
	}
}

func awqConfig(group int) string {
	return fmt.Sprintf(`{"model_type":"llama","quantization_config":{"quant_method":"awq","bits":4,"group_size":%d,"zero_point":true,"version":"gemm","modules_to_not_convert":["head"]}}`, group)
}

// checkPanels wants every block of a module to be what the whole has there.
func checkPanels(t *testing.T, m *Module) {
	t.Helper()
	whole := decode(t, m, m.Rows)
	var s Stored
	if err := m.Read(t.Context(), &s, 0, m.Rows); err != nil {
		t.Fatal(err)
	}
	for _, b := range [][4]int{{0, m.Rows, 0, m.Cols}, {1, 3, 5, m.Cols - 5}, {m.Rows - 1, 1, 0, 33}, {2, 2, 31, 34}, {0, 0, 0, 1}, {m.Rows, 0, m.Cols, 0}, {7, 1, m.Cols - 1, 1}} {
		dst := make([]float32, b[1]*b[3])
		if err := m.Panel(dst, &s, b[0], b[1], b[2], b[3]); err != nil {
			t.Fatal(err)
		}
		for r := range b[1] {
			sameFloats(t, fmt.Sprint("block ", b), dst[r*b[3]:][:b[3]], whole[(b[0]+r)*m.Cols+b[2]:][:b[3]])
		}
	}
	for _, b := range [][4]int{{-1, 1, 0, 1}, {0, m.Rows + 1, 0, 1}, {0, 1, -1, 1}, {0, 1, m.Cols, 1}, {1, -1, 0, 1}} {
		if err := m.Panel(make([]float32, max(b[1]*b[3], 0)), &s, b[0], b[1], b[2], b[3]); !errors.Is(err, kernels.ErrShape) {
			t.Errorf("block %v: %v", b, err)
		}
	}
	if err := m.Panel(make([]float32, 3), &s, 0, 1, 0, 2); !errors.Is(err, kernels.ErrShape) {
		t.Errorf("3 elements for 2: %v", err)
	}
}

// Step sizes are those of an input's own group, by g_idx.
func TestStepsOfRealGroups(t *testing.T) {
	g := golden(t, "gptq_asym_g128_actorder", "")
	_, l := openPath(t, write(t, gptqConfig(4, 128, false, ""), goldenParts(g, proj, "qzeros_v1")))
	m := &l.Modules[0]
	var s Stored
	if err := m.Read(t.Context(), &s, 8, 8); err != nil {
		t.Fatal(err)
	}
	scales, steps := g["scales"].floats(t), m.Steps(&s)
	if len(steps) != 8*2 || len(s.Groups) != m.Cols {
		t.Fatalf("%d steps, %d groups", len(steps), len(s.Groups))
	}
	apart := 0
	for col := range m.Cols {
		group := int(binary.LittleEndian.Uint32(g["g_idx"].data[4*col:]))
		if group != col/128 {
			apart++
		}
		for row := range 8 {
			if got, want := steps[m.StepIndex(&s, row, col)], scales[group*m.Rows+8+row]; got != want {
				t.Fatalf("row %d column %d: %v, want %v", row, col, got, want)
			}
		}
	}
	if apart == 0 {
		t.Error("g_idx is in order: the golden shows nothing")
	}
}

// A g_idx that is in order is no reason to decode element by element.
func TestGroupsInOrder(t *testing.T) {
	g := golden(t, "gptq_sym_g128", "")
	_, l := openPath(t, write(t, gptqConfig(4, 128, true, ""), goldenParts(g, proj, "qzeros_v1")))
	var s Stored
	if err := l.Modules[0].Read(t.Context(), &s, 0, 8); err != nil || s.Groups != nil {
		t.Errorf("groups %v, %v", s.Groups, err)
	}
}

// g_idx beyond the groups is an error that names the input, and what Groups says.
func TestGroupsThatAreNone(t *testing.T) {
	g := golden(t, "gptq_sym_g128", "")
	for _, bad := range []int32{2, -1, 1 << 30} {
		parts := goldenParts(g, proj, "qzeros_v1")
		parts[3].data = slices.Clone(parts[3].data)
		binary.LittleEndian.PutUint32(parts[3].data[4*77:], uint32(bad))
		_, l := openPath(t, write(t, gptqConfig(4, 128, true, ""), parts))
		m := &l.Modules[0]
		err := m.Read(t.Context(), &Stored{}, 0, m.Rows)
		if !errors.Is(err, ErrGroup) || !strings.Contains(err.Error(), fmt.Sprintf("input 77 is in group %d of 2", bad)) || !strings.Contains(err.Error(), proj+".g_idx") {
			t.Errorf("%v", err)
		}
		found, err := m.Groups(t.Context())
		if err != nil || len(found) != 1 || found[0].ID != GroupRange || !strings.Contains(found[0].Message, "input 77") {
			t.Errorf("%v %v", found, err)
		}
	}
}

// Zero points of 0 that are stored minus 1, and symmetric modules whose zero
// points are not the middle, are said.
func TestZeroPointsThatReadersDisagreeOn(t *testing.T) {
	g := golden(t, "gptq_asym_g64_zero0", "")
	ids := func(config, zeros string) []string {
		_, l := openPath(t, write(t, config, goldenParts(g, proj, zeros)))
		found, err := l.Modules[0].Groups(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, f := range found {
			out = append(out, f.ID)
		}
		return out
	}
	if got := ids(gptqConfig(4, 64, false, ""), "qzeros_v1"); !slices.Equal(got, []string{ZeroPointZero}) {
		t.Errorf("v1: %v", got)
	}
	if got := ids(gptqConfig(4, 64, false, `,"checkpoint_format":"gptq_v2"`), "qzeros_v2"); got != nil {
		t.Errorf("v2: %v", got)
	}
	if got := ids(gptqConfig(4, 64, true, `,"checkpoint_format":"gptq_v2"`), "qzeros_v2"); !slices.Equal(got, []string{NotMiddle}) {
		t.Errorf("symmetric: %v", got)
	}
}

func TestParseZeroPoints(t *testing.T) {
	for _, name := range []string{"", "as-labelled", "v1", "v2"} {
		if w, err := ParseZeroPoints(name); err != nil || string(w) != name {
			t.Errorf("%q: %q, %v", name, w, err)
		}
	}
	if _, err := ParseZeroPoints("v3"); err == nil || !strings.Contains(err.Error(), "as-labelled, v1, v2") {
		t.Errorf("v3: %v", err)
	}
}
