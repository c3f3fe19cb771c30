package topology

import (
	"fmt"
	"strings"
	"testing"
)

// describe is a layer's cache in one line.
func (l LayerCache) describe() string {
	s := fmt.Sprintf("%s%d %s", map[bool]string{true: "M"}[l.MTP], l.Layer, short[l.Type])
	if l.Shared {
		return s + " shared"
	}
	if l.Keys > 0 {
		s += fmt.Sprintf(" %d+%d", l.Keys, l.Values)
	}
	for _, x := range []struct {
		is   bool
		text string
	}{
		{l.Latent, " latent"}, {l.OneProjection, " k=v"}, {l.Window > 0, fmt.Sprint(" window ", l.Window)}, {l.Rate > 0, fmt.Sprintf(" %d in %d", l.Entry, l.Rate)},
		{l.Index > 0, fmt.Sprint(" index ", l.Index)}, {l.State > 0, fmt.Sprint(" state ", l.State)}, {l.StateUnknown, " state ?"},
	} {
		if x.is {
			s += x.text
		}
	}
	return s
}

// What each golden model keeps, from its sizes by hand. Gated delta nets have 4
// heads of values of 16 over keys of 16 and a convolution over 4 tokens of 2·2·16 +
// 4·16 channels: 4·4·16·16 + 2·128·3 = 4864 bytes. DeepSeek-V4's open windows are 2
// f32 of 16 tokens × 32, and of 2·4 tokens × 2·32 and 2·16.
func TestCaches(t *testing.T) {
	linear := func(layers ...int) (list []string) {
		for _, l := range layers {
			list = append(list, fmt.Sprintf("%d L state 4864", l))
		}
		return list
	}
	for name, want := range map[string][]string{
		"qwen3_next":          append(linear(0, 1, 2), "3 F 64+64"),
		"qwen3_5":             append(linear(0, 1, 2), "3 F 32+32"),
		"qwen3_5_moe":         append(linear(0, 1, 2), "3 F 32+32"),
		"qwen3_next_release":  append(linear(0, 1, 2), "3 F 64+64", "M4 ? 64+64"),
		"step3p7":             {"0 F 32+32", "1 S 32+32 window 12", "2 F 32+32"},
		"step3p7_release":     {"0 F 32+32", "1 S 32+32 window 12", "2 F 32+32", "M3 S 32+32 window 12", "M4 S 32+32 window 12", "M5 S 32+32 window 12"},
		"deepseek_v2":         {"0 ? 24+0 latent", "1 ? 24+0 latent"},
		"deepseek_v4":         {"0 S 32+0 latent window 12", "1 H 32+0 latent window 12 32 in 16 state 4096", "2 C 32+0 latent window 12 32 in 4 index 16 state 6144"},
		"deepseek_v4_release": {"0 S 32+0 latent window 12", "1 H 32+0 latent window 12 32 in 128 state 32768", "2 C 32+0 latent window 12 32 in 4 index 16 state 6144", "M3 S 32+0 latent window 12"},
		"gemma4_moe":          {"0 S 32+32 window 12", "1 S 32+32 window 12", "2 F 32+32 k=v"},
		"gemma4_ple":          {"0 S 16+16 window 10", "1 F 32+32", "2 S shared", "3 F shared"},
	} {
		var got []string
		for _, l := range resolveFixture(t, name).Caches() {
			got = append(got, l.describe())
		}
		if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
			t.Errorf("%s:\n%s\nwant\n%s", name, g, w)
		}
	}
	// the config of a release and the one that transformers writes
	for _, name := range []string{"step3p7", "gemma4_moe", "deepseek_v4"} {
		f, tensors := load(t, name)
		hub, err := FromConfig(f.Hub, tensors)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := fmt.Sprint(resolveFixture(t, name).Caches()), fmt.Sprint(hub.Caches()); a != b {
			t.Errorf("%s: %s, from the release %s", name, a, b)
		}
	}
	// layers whose sizes the config does not give
	f, tensors := load(t, "qwen3_next")
	m, err := FromConfig([]byte(strings.Replace(string(f.Config), `"linear_conv_kernel_dim"`, `"x"`, 1)), tensors)
	if err != nil {
		t.Fatal(err)
	}
	if c := m.Caches()[0]; c.State != 0 || !c.StateUnknown {
		t.Errorf("%+v", c)
	}
}
