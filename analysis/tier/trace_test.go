package tier

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantscope/quant/checkpoint"
)

func drawn(t *testing.T) *Trace {
	t.Helper()
	z := zipf{exponent: 1, seed: 4, tokens: 60, drift: 25}
	tr, err := z.trace("z", []int{1, 4}, 9, 3)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestTraceFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.routes")
	tr := drawn(t)
	if err := WriteTrace(path, tr, "model"); err != nil {
		t.Fatal(err)
	}
	back, err := ReadTrace(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	if back.SHA256() != tr.SHA256() || !slices.Equal(back.Choices, tr.Choices) || !cmp.Equal(back.Phases, tr.Phases) || back.Kind != File {
		t.Errorf("%+v came back as %+v", tr.Ref(), back.Ref())
	}
	if err := WriteTrace(path, tr, "model"); err == nil {
		t.Error("a file that is there was written over")
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < len(whole); n += 1 + n/30 {
		if err := os.WriteFile(path, whole[:n], 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadTrace(context.Background(), path); err == nil {
			t.Fatalf("%d bytes of %d were taken", n, len(whole))
		}
	}
	last := slices.Clone(whole)
	last[len(last)-2] ^= 1
	if err := os.WriteFile(path, last, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadTrace(context.Background(), path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a choice was changed: %v", err)
	}
}

// TestTraceFileRefuses: files that are whole and cannot be meant.
func TestTraceFileRefuses(t *testing.T) {
	good := map[string]string{"format": routesFormat, "layers": "[1,2]", "experts": "4"}
	with := func(key, value string) map[string]string {
		m := map[string]string{}
		for k, v := range good {
			m[k] = v
		}
		if m[key] = value; value == "" {
			delete(m, key)
		}
		return m
	}
	spec := func(dtype checkpoint.DType, shape ...int64) checkpoint.Spec {
		return checkpoint.Spec{Name: routesTensor, DType: dtype, Shape: shape}
	}
	u16 := spec(checkpoint.U16, 1, 2, 2)
	for name, c := range map[string]struct {
		spec checkpoint.Spec
		meta map[string]string
		data []byte
		want string
	}{
		"format":  {u16, with("format", "other"), []byte{0, 0, 1, 0, 0, 0, 1, 0}, "no recorded trace"},
		"dtype":   {spec(checkpoint.I32, 1, 1, 2), good, make([]byte, 8), "want U16"},
		"shape":   {spec(checkpoint.U16, 2, 2), good, make([]byte, 8), "want U16"},
		"layers":  {u16, with("layers", "[1,2,3]"), []byte{0, 0, 1, 0, 0, 0, 1, 0}, "the metadata lists 3"},
		"no list": {u16, with("layers", ""), make([]byte, 8), "metadata layers"},
		"experts": {u16, with("experts", "x"), make([]byte, 8), "metadata experts"},
		"few":     {u16, with("experts", "1"), []byte{0, 0, 1, 0, 0, 0, 1, 0}, "2 of 1 experts"},
		"beyond":  {u16, good, []byte{0, 0, 9, 0, 0, 0, 1, 0}, "token 0 chose expert 9 of 4 in layer 1"},
		"twice":   {u16, good, []byte{0, 0, 1, 0, 3, 0, 3, 0}, "chose expert 3 twice in layer 2"},
		"phase":   {u16, with("phases", `[{"name":"a","first":0},{"name":"b","first":1}]`), []byte{0, 0, 1, 0, 0, 0, 1, 0}, "phase"},
		"name":    {checkpoint.Spec{Name: "other", DType: checkpoint.U16, Shape: []int64{1, 2, 2}}, good, make([]byte, 8), "holds no tensor routes"},
	} {
		path := filepath.Join(t.TempDir(), "x.routes")
		w, err := checkpoint.NewWriter(path, []checkpoint.Spec{c.spec}, c.meta)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(c.data); err != nil {
			t.Fatal(err)
		}
		if err := w.Commit(); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadTrace(context.Background(), path); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseBudget(t *testing.T) {
	s := &Shape{Layers: []int{1, 2}, Experts: 10, TopK: 1, Hot: []int64{1000, 3000}, Cold: []int64{1, 1}} // 40,000 bytes
	for text, want := range map[string]Budget{
		"0": {"0%", 0, 0}, "0%": {"0%", 0, 0}, "25%": {"25%", 10000, 0.25}, "0.25": {"25%", 10000, 0.25}, "12.5 %": {"12.5%", 5000, 0.125},
		"1": {"100%", 40000, 1}, "100%": {"100%", 40000, 1}, "10KB": {"10KB", 10000, 0.25}, "10000B": {"10000B", 10000, 0.25}, "1KiB": {"1KiB", 1024, 0.0256},
		"1GiB": {"1GiB", 40000, 1}, "33.3333333%": {"33.3333%", 13333, 0.333333333},
	} {
		b, err := ParseBudget(text, s)
		if err != nil || b.Label != want.Label || b.Bytes != want.Bytes || math.Abs(b.Share-want.Share) > 1e-12 {
			t.Errorf("%s: %+v, want %+v; %v", text, b, want, err)
		}
	}
	for _, text := range []string{"", "%", "101%", "1.01", "-1%", "NaN", "NaN%", "Inf%", "x", "1 XB", "-5GiB", "1e30GiB"} {
		if b, err := ParseBudget(text, s); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q was taken as %+v", text, b)
		}
	}
}

func TestMapRoundTrip(t *testing.T) {
	s, err := setupOf(Shape{Layers: []int{1, 7}, Experts: 5, TopK: 2, Hot: []int64{10, 20}, Cold: []int64{5, 9}}, DefaultPolicy(), "40%")
	if err != nil {
		t.Fatal(err)
	}
	hot := []bool{true, false, false, true, false, false, true, false, false, false}
	m := s.mapOf(0, hot, Managed)
	path := filepath.Join(t.TempDir(), "map.json")
	for range 2 { // a map is written over
		if err := WriteMap(path, m); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	back, err := ParseMap(path, text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m, back); diff != "" {
		t.Error(diff)
	}
	if m.HotBytes != 40 {
		t.Errorf("%d bytes are hot", m.HotBytes)
	}
	for l, layer := range s.Shape.Layers {
		for e := range 5 {
			if p, ok := back.PrecisionOf(layer, e); !ok || (p == Hot) != hot[l*5+e] {
				t.Errorf("layer %d expert %d is %s", layer, e, p)
			}
		}
	}
	for _, at := range [][2]int{{0, 0}, {1, 5}, {1, -1}, {8, 0}} {
		if _, ok := back.PrecisionOf(at[0], at[1]); ok {
			t.Errorf("there is an expert %v", at)
		}
	}
	for from, to := range map[string]string{
		`"quantscope-tier-1"`: `"quantscope-tier-2"`, `"experts": 5`: `"experts": 0`, `"hot": "nvfp4"`: `"hot": ""`, `"cold": "code2+sym"`: `"cold": "source"`,
		`"layer": 7`: `"layer": 1`, `"how"`: `"howl"`, "\"layers\": [": "\"layers\": [], \"x\": [", "\n}\n": "\n}{}",
	} {
		bad := strings.Replace(string(text), from, to, 1)
		if bad == string(text) {
			t.Fatalf("%s is not there", from)
		}
		if _, err := ParseMap("m.json", []byte(bad)); err == nil || !strings.Contains(err.Error(), "m.json") {
			t.Errorf("%s for %s: %v", to, from, err)
		}
	}
	for _, hot := range [][]int{{5}, {-1}, {2, 2}, {3, 1}} {
		bad := *m
		bad.Layers = []MapLayer{{1, hot}, {7, nil}}
		b, err := bad.Text()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseMap("m.json", b); err == nil {
			t.Errorf("hot experts %v were taken", hot)
		}
	}
}

// A trace is read in pieces, and longer than one of them it is what was written.
func TestTraceInPieces(t *testing.T) {
	tr := &Trace{Name: "long", Kind: Recorded, Layers: []int{1, 3}, Experts: 8, TopK: 1, Tokens: 33_333}
	for i := range 2 * tr.Tokens {
		tr.Choices = append(tr.Choices, uint16(i*i%61%8))
	}
	path := filepath.Join(t.TempDir(), "long.routes")
	if err := WriteTrace(path, tr, "model"); err != nil {
		t.Fatal(err)
	}
	back, err := ReadTrace(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if back.Tokens != tr.Tokens || !slices.Equal(back.Choices, tr.Choices) {
		t.Error("another trace came back")
	}
}
