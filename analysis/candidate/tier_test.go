package candidate

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/analysis/tier"
	"quantscope/quant/topology"
)

// demoMap is a map of the demo's experts; hot says which are.
func demoMap(t *testing.T, ref *Candidate, hot func(layer, expert int) bool) *tier.Map {
	t.Helper()
	m := &tier.Map{Format: tier.MapFormat, Source: ref.Identity, Model: ref.Label, Hot: "nvfp4", Cold: "code2+sym", Experts: 16, How: tier.Managed}
	for layer := 1; layer <= 4; layer++ {
		l := tier.MapLayer{Layer: layer, Hot: []int{}}
		for e := range 16 {
			if hot(layer, e) {
				l.Hot = append(l.Hot, e)
			}
		}
		m.Layers = append(m.Layers, l)
	}
	return m
}

// TestTierEnds: a map without hot experts is the two-bit variant, one of hot experts
// alone the four-bit one, to the last byte of what decides their weights.
func TestTierEnds(t *testing.T) {
	ctx := context.Background()
	digest := func(context.Context, string) (string, error) { return "demo", nil }
	ref, err := Open(ctx, "demo", Options{Digest: digest})
	if err != nil {
		t.Fatal(err)
	}
	defer ref.Close()
	text := map[string]string{}
	o := Options{Digest: digest, Tier: func(name string) (string, bool) { s, ok := text[name]; return s, ok }}
	parse := func(spec string) *Candidate {
		t.Helper()
		c, err := Parse(ctx, ref, spec, o)
		if err != nil {
			t.Fatalf("%s: %v", spec, err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	give := func(name string, m *tier.Map) {
		b, err := m.Text()
		if err != nil {
			t.Fatal(err)
		}
		text[name] = string(b)
	}
	give("0%", demoMap(t, ref, func(int, int) bool { return false }))
	give("100%", demoMap(t, ref, func(int, int) bool { return true }))
	half := demoMap(t, ref, func(layer, e int) bool { return (layer+e)%2 == 0 })
	give("50%", half)
	for _, c := range [][2]string{{"tier:0%", "code2+sym"}, {"tier:100%", "nvfp4"}} {
		a, b := parse(c[0]), parse(c[1])
		if a.Content == "" || a.Content != b.Content || a.Bytes != b.Bytes || a.Effective != b.Effective || a.Kind != Tier {
			t.Errorf("%s: content %.12s, %d bytes, %s, %s; %s: %.12s, %d, %s", c[0], a.Content, a.Bytes, a.Effective, a.Kind, c[1], b.Content, b.Bytes, b.Effective)
		}
	}
	file := filepath.Join(t.TempDir(), "half.json")
	if err := tier.WriteMap(file, half); err != nil {
		t.Fatal(err)
	}
	mixed, same := parse("tier:50%"), parse("tier:"+file)
	if mixed.Content != same.Content {
		t.Errorf("a map of the session and the same one of a file differ: %.12s, %.12s", mixed.Content, same.Content)
	}
	if lo, hi := parse("code2+sym").Bytes, parse("nvfp4").Bytes; 2*mixed.Bytes != lo+hi {
		t.Errorf("half of the experts in each precision take %d bytes, %d and %d in one", mixed.Bytes, lo, hi)
	}
	for i := range mixed.items {
		it := &mixed.items[i]
		if it.Kind != topology.Expert || it.name != "weight" {
			continue
		}
		want := "code2"
		if p, _ := half.PrecisionOf(it.Layer, it.Expert); p == tier.Hot {
			want = "nvfp4"
		}
		if it.scheme != want {
			t.Errorf("%s is %s, want %s", it.Place, it.scheme, want)
		}
	}
}

// TestTierSource: hot experts may stay as the reference has them.
func TestTierSource(t *testing.T) {
	ctx := context.Background()
	ref, err := Open(ctx, "demo", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer ref.Close()
	m := demoMap(t, ref, func(_, e int) bool { return e < 4 })
	m.Hot = tier.Source
	c, err := makeTier(ref, m, "m", Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := range c.items {
		if it := &c.items[i]; it.Kind == topology.Expert && it.name == "weight" && it.scheme == "bf16" {
			n++
		}
	}
	if n != 4*4*3 {
		t.Errorf("%d matrices are as the source has them, want 48", n)
	}
	m = demoMap(t, ref, func(int, int) bool { return true })
	m.Hot = tier.Source
	if c, err = makeTier(ref, m, "m", Options{}); err != nil || c.Bytes != ref.Bytes {
		t.Errorf("all experts as they are: %d bytes of %d, %v", c.Bytes, ref.Bytes, err)
	}
}

func TestTierRefuses(t *testing.T) {
	ctx := context.Background()
	ref, err := Open(ctx, "demo", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer ref.Close()
	for name, c := range map[string]struct {
		change func(*tier.Map)
		want   string
	}{
		"experts":    {func(m *tier.Map) { m.Experts = 8; m.Layers[0].Hot = nil }, "8 experts a layer, and layer 1 has 16"},
		"layers":     {func(m *tier.Map) { m.Layers = m.Layers[:3] }, "3 layers with experts, and there are 4"},
		"dense":      {func(m *tier.Map) { m.Layers[0].Layer = 0 }, "layer 0 has, which has no experts"},
		"variant":    {func(m *tier.Map) { m.Hot = "nvfp5" }, "nvfp5"},
		"calibrated": {func(m *tier.Map) { m.Cold = "code2+imatrix" }, "calibrated"},
	} {
		m := demoMap(t, ref, func(int, int) bool { return false })
		c.change(m)
		if _, err := makeTier(ref, m, "m.json", Options{}); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "tier:m.json") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	m := demoMap(t, ref, func(int, int) bool { return false })
	m.Source = "another"
	c, err := makeTier(ref, m, "m.json", Options{})
	if err != nil || len(c.Findings) != 1 || c.Findings[0].ID != "tier-source" {
		t.Errorf("a map of another checkpoint: %v", err)
	}
	if _, err := Parse(ctx, ref, "tier:nowhere", Options{}); err == nil || !strings.Contains(err.Error(), "no such map") {
		t.Errorf("a map that is not there: %v", err)
	}
	if c, err = Parse(ctx, ref, "tier:"+filepath.Join("..", "tier", "map.go"), Options{}); err == nil {
		t.Error("a file that is no map was taken", c.Label)
	}
}

// TestTierModel: what experts take is what the candidates take.
func TestTierModel(t *testing.T) {
	ref, err := Open(context.Background(), "demo", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer ref.Close()
	m := ref.TierModel()
	for variant, want := range map[string]int64{"source": 3 * 2 * 128 * 128, "nvfp4": 3 * (128*128/2 + 128*128/16 + 4)} {
		for _, at := range [][2]int{{1, 0}, {4, 15}} {
			if n, err := m.Size(variant, at[0], at[1]); n != want || err != nil {
				t.Errorf("%s of expert %d in layer %d takes %d bytes, want %d; %v", variant, at[1], at[0], n, want, err)
			}
		}
	}
	for _, c := range []struct {
		variant       string
		layer, expert int
	}{{"nvfp4", 0, 0}, {"nvfp4", 1, 16}, {"nvfp5", 1, 0}} {
		if _, err := m.Size(c.variant, c.layer, c.expert); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
}
