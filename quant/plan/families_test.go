package plan

import (
	"slices"
	"strings"
	"testing"
)

// What a rank keeps of 1000 tokens in each golden model of the newest families, by
// hand: layers × (keys + values) × 2 bytes × tokens, as many tokens as a window has
// where there is one, an entry for so many tokens where layers compress, and states of
// a sequence where attention is linear.
func TestCachesOfFamilies(t *testing.T) {
	const (
		text   = 1000
		delta  = 4*4*16*16 + 2*(2*2*16+4*16)*3 // f32 state, inputs of three taps
		sparse = text/16*32*2 + text/4*(32*2+16+4)
		open   = 2*4*16*32 + 2*4*(2*4)*(2*32+2*16) // windows of 1/16; of 1/4, twice as wide and two of them
	)
	for _, c := range []struct {
		name      string
		ranks     int
		kv, state int64
		note      string
	}{
		{"qwen3_next", 1, 2 * 2 * 32 * 2 * text, 3 * delta, "layers with linear attention keep 4864 bytes a layer"},
		{"qwen3_next", 2, 2 * 32 * 2 * text, 3 * delta / 2, "keep 2432 bytes a layer and sequence on a rank"},
		{"qwen3_5", 1, 2 * 2 * 16 * 2 * text, 3 * delta, "counted for one sequence"},
		{"qwen3_5_moe", 1, 2 * 2 * 16 * 2 * text, 3 * delta, "counted for one sequence"},
		{"step3p7", 1, 2*2*2*16*2*text + 2*2*16*2*12, 0, "a sliding window keep 12 tokens"},
		{"deepseek_v2", 1, 2 * (16 + 8) * 2 * text, 0, ""},
		{"deepseek_v2", 4, 2 * (16 + 8) * 2 * text, 0, "every rank keeps the whole"},
		{"deepseek_v4", 1, 3*32*2*12 + sparse, open, "one entry for 16 tokens"},
		{"gemma4_moe", 1, 2*2*2*16*2*12 + 2*32*2*text, 0, "one projection gives keys and values both are kept"},
		{"gemma4_moe", 2, 2*2*16*2*12 + 2*32*2*text, 0, ""}, // one head in the layer that sees all
		{"gemma4_ple", 1, 2*16*2*10 + 2*32*2*text, 0, "the last 2 layers use the keys and values of layers before them"},
	} {
		m := fromTopology(t, c.name)
		p := resolved(t, m, builtinOf(t, "int4-g128", m), Options{KVTokens: text, Ranks: c.ranks})
		got := p.Before
		if got.KVBytes != c.kv || got.StateBytes != c.state || p.After.KVBytes != c.kv || p.After.StateBytes != c.state {
			t.Errorf("%s over %d: %d bytes and a state of %d, by hand %d and %d", c.name, c.ranks, got.KVBytes, got.StateBytes, c.kv, c.state)
		}
		if c.note != "" && !slices.ContainsFunc(got.Notes, func(n string) bool { return strings.Contains(n, c.note) }) {
			t.Errorf("%s: notes %q, want %q", c.name, got.Notes, c.note)
		}
		none := resolved(t, m, builtinOf(t, "int4-g128", m), Options{Ranks: c.ranks})
		if d := p.DecodeBefore.BytesPerRank - none.DecodeBefore.BytesPerRank; d != c.kv+c.state || none.Before.KVBytes+none.Before.StateBytes != 0 {
			t.Errorf("%s: a token reads %d more, want %d", c.name, d, c.kv+c.state)
		}
	}
}
