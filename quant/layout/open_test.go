package layout

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// openPath opens a checkpoint and its layout for the time of the test.
func openPath(t testing.TB, path string) (*checkpoint.Checkpoint, *Layout) {
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
	l, err := Open(ck, model)
	if err != nil {
		t.Fatal(err)
	}
	return ck, l
}

func casePath(parts ...string) string {
	return filepath.Join(append([]string{"testdata", "cases"}, parts...)...)
}

// expectedHashes are the sums of the decoded modules of a case.
func expectedHashes(t testing.TB, dir string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(casePath(dir, "expect.json"))
	if err != nil {
		t.Fatal(err)
	}
	var e struct {
		Value map[string]struct {
			Sum string `json:"sha256_f32le"`
		}
	}
	if err := json.Unmarshal(data, &e); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for name, v := range e.Value {
		out[name] = v.Sum
	}
	if len(out) == 0 {
		t.Fatalf("%s: no values in expect.json", dir)
	}
	return out
}

// decode decodes a module in ranges of rows.
func decode(t testing.TB, m *Module, step int) []float32 {
	t.Helper()
	out := make([]float32, m.Rows*m.Cols)
	var s Stored
	for r := 0; r < m.Rows; r += step {
		n := min(step, m.Rows-r)
		if err := m.Dequantize(t.Context(), out[r*m.Cols:(r+n)*m.Cols], r, &s); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// sum is the hash that the cases use: NaN as 0x7FC00000, −0 as +0.
func sum(v []float32) string {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		u := math.Float32bits(x)
		switch {
		case x != x:
			u = 0x7FC00000
		case x == 0:
			u = 0
		}
		b = append(b, byte(u), byte(u>>8), byte(u>>16), byte(u>>24))
	}
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// C25: the same layer under two conventions decodes to the same bits, by a
// factor that multiplies and by one that divides.
func TestTwoConventions(t *testing.T) {
	want := expectedHashes(t, "C25-two-conventions")
	for dir, method := range map[string]string{"multiplier": ModelOpt, "divisor": CompressedTensors} {
		_, l := openPath(t, casePath("C25-two-conventions", dir))
		if len(l.Modules) != len(want) || len(l.Findings) != 0 || l.Method != method {
			t.Fatalf("%s: method %q, %d modules, findings %v", dir, l.Method, len(l.Modules), l.Findings)
		}
		for i := range l.Modules {
			m := &l.Modules[i]
			if m.Method != method || m.Declared == "" || m.Rows != 8 || m.Cols != 64 {
				t.Errorf("%s: %+v", dir, m)
			}
			for _, step := range []int{1, 3, 8} {
				if got := sum(decode(t, m, step)); got != want[m.Name] {
					t.Errorf("%s: %s in ranges of %d rows decodes to %s, want %s", dir, m.Name, step, got, want[m.Name])
				}
			}
		}
	}
}

// C24: a file without any config is told by its tensors; the global scales of
// gate and up are there to compare, the largest ratio is 10.
func TestGlobalScales(t *testing.T) {
	_, l := openPath(t, casePath("C24-gate-up-scales"))
	if l.Method != "" || len(l.Modules) != 8 || len(l.Findings) != 0 {
		t.Fatalf("method %q, %d modules, findings %v", l.Method, len(l.Modules), l.Findings)
	}
	largest := float32(0)
	for i := range l.Modules {
		gate := &l.Modules[i]
		if gate.Role.Projection != "gate" {
			continue
		}
		up, ok := l.Lookup(strings.Replace(gate.Name, "gate_proj", "up_proj", 1))
		if !ok {
			t.Fatalf("%s has no partner", gate.Name)
		}
		a, errA := gate.Global(t.Context())
		b, errB := up.Global(t.Context())
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		largest = max(largest, b/a)
	}
	if largest != 10 {
		t.Errorf("largest ratio is %v, want 10", largest)
	}
}

// C20: NaN scales decode to NaN and nothing else does.
func TestNaNScales(t *testing.T) {
	_, l := openPath(t, casePath("C20-nan-scale"))
	for i, want := range []int{3 * 16, 0} {
		nan := 0
		for _, x := range decode(t, &l.Modules[i], 8) {
			if x != x {
				nan++
			}
		}
		if nan != want {
			t.Errorf("%s: %d NaN, want %d", l.Modules[i].Name, nan, want)
		}
	}
}

// C37: what the ignore list forgot is named, what is packed is not, and the two
// config files disagree.
func TestIgnoreList(t *testing.T) {
	_, l := openPath(t, casePath("C37-ignore-list"))
	var missing []string
	for _, f := range l.Findings {
		switch f.ID {
		case NotQuantized:
			missing = append(missing, f.Tensor)
			if !strings.Contains(f.Message, "ignore") {
				t.Errorf("%v", f)
			}
		case ConfigsDisagree:
			if !strings.Contains(f.Message, "hf_quant_config.json and config.json disagree") || !strings.Contains(f.Message, "mtp.fc") {
				t.Errorf("%v", f)
			}
		default:
			t.Errorf("unexpected: %v", f)
		}
	}
	slices.Sort(missing)
	want := []string{"model.layers.0.mlp.gate.weight", "mtp.fc.weight", "mtp.layers.0.mlp.up_proj.weight"}
	if !slices.Equal(missing, want) || len(l.Findings) != 4 {
		t.Errorf("findings %v, want %v and that the files disagree", l.Findings, want)
	}
	if len(l.Modules) != 2 {
		t.Errorf("%d modules, want the 2 that are packed", len(l.Modules))
	}
}
