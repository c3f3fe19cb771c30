package layout

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// vectorCase is what a library stores of one matrix, what it decodes that to, and its
// config.
type vectorCase struct {
	config, hf string // config.json, and hf_quant_config.json where there is one
	parts      []part
	want       []float32
}

// vectorCases reads a file that .ci/peers/layoutvectors.py made.
func vectorCases(t testing.TB, file string) map[string]vectorCase {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "golden", file+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var configs map[string]map[string]json.RawMessage
	if err := json.Unmarshal(text, &configs); err != nil {
		t.Fatal(err)
	}
	out := map[string]vectorCase{}
	for name, c := range configs {
		v := vectorCase{hf: string(c["hf_quant_config"])}
		delete(c, "hf_quant_config")
		quant, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		v.config = `{"model_type":"llama","quantization_config":` + string(quant) + `}`
		for param, p := range golden(t, file, name+".") {
			if param == "dequant" {
				v.want = p.floats(t)
				continue
			}
			p.name = proj + "." + param
			v.parts = append(v.parts, p)
		}
		out[name] = v
	}
	return out
}

// open writes a case as a checkpoint and opens that.
func (v *vectorCase) open(t testing.TB, o Options) *Layout {
	t.Helper()
	dir := write(t, v.config, v.parts)
	if v.hf != "" {
		if err := os.WriteFile(filepath.Join(dir, modelOptFile), []byte(v.hf), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return openWith(t, dir, o)
}

// What the peers store is decoded to what they decode it to, bit for bit, in any ranges
// of rows, and nothing is found wrong with it.
func TestPeerVectors(t *testing.T) {
	for _, file := range []string{"ct_words", "ct_older", "modelopt_forms", "quark_forms"} {
		for name, v := range vectorCases(t, file) {
			t.Run(file+"/"+name, func(t *testing.T) {
				o := Options{}
				if name == "padded_w3_11" { // as many words whether codes cross them or not
					l := v.open(t, o)
					if len(l.Modules) != 0 || !strings.Contains(l.Findings[0].Message+l.Findings[len(l.Findings)-1].Message, "--packing dense or padded") {
						t.Errorf("%d modules, %v", len(l.Modules), l.Findings)
					}
					o.Packing = PackingPadded
				}
				l := v.open(t, o)
				for _, f := range l.Findings {
					if f.ID != UnmatchedPattern { // of lm_head, which is not here
						t.Errorf("%+v", f)
					}
				}
				if len(l.Modules) != 1 {
					t.Fatalf("%d modules", len(l.Modules))
				}
				m := &l.Modules[0]
				if m.Method != l.Method || m.Declared == "" || m.Name != proj || m.Rows*m.Cols != len(v.want) || m.Reading() == "" {
					t.Errorf("%+v, %q", m, m.Reading())
				}
				for _, step := range []int{m.RowMultiple(), 3 * m.RowMultiple(), m.Rows} {
					sameFloats(t, m.Spec.Format, decode(t, m, step), v.want)
				}
				checkOwnPanels(t, m, v.want)
				t.Logf("%s: %s", m.Spec.Format, m.Reading())
			})
		}
	}
}

// checkOwnPanels wants blocks of a matrix that decodes itself to be those of the whole.
func checkOwnPanels(t *testing.T, m *Module, want []float32) {
	t.Helper()
	if !m.OwnPanels() {
		return
	}
	var s Stored
	if err := m.Read(t.Context(), &s, 0, m.Rows); err != nil {
		t.Fatal(err)
	}
	for _, cut := range [][4]int{{0, 1, 0, m.Cols}, {1, m.Rows - 1, 3, m.Cols - 3}, {m.Rows / 2, 1, m.Cols / 2, 1}, {0, m.Rows, 5, 6}, {0, 0, 0, 0}} {
		row0, rows, col0, cols := cut[0], cut[1], cut[2], cut[3]
		got := make([]float32, rows*cols)
		if err := m.Panel(got, &s, row0, rows, col0, cols); err != nil {
			t.Fatal(err)
		}
		var part []float32
		for r := range rows {
			part = append(part, want[(row0+r)*m.Cols+col0:][:cols]...)
		}
		sameFloats(t, "panel", got, part)
	}
	steps := m.Steps(&s)
	for _, at := range [][2]int{{0, 0}, {m.Rows - 1, m.Cols - 1}} {
		if k := m.StepIndex(&s, at[0], at[1]); k < 0 || k >= len(steps) {
			t.Errorf("the step of %v is number %d of %d", at, k, len(steps))
		}
	}
	if err := m.Panel(make([]float32, 1), &s, m.Rows, 1, 0, 1); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("a row beyond the end: %v", err)
	}
}
