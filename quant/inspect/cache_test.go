package inspect

import (
	"math"
	"slices"
	"testing"

	"quantscope/quant/topology/topologytest"
)

// Layers that keep alike stand in one row, in bytes of bf16; what they keep together of
// 1000 tokens is by hand what quant/plan says as well.
func TestCaches(t *testing.T) {
	const delta = 4*4*16*16 + 2*(2*2*16+4*16)*3
	for _, c := range []struct {
		name  string
		rows  []Cache
		bytes int64
	}{
		{"qwen3_next_release", []Cache{
			{Attention: "linear_attention", Layers: 3, StateBytes: delta},
			{Attention: "full_attention", Layers: 1, BytesPerToken: 256},
			{Attention: "full_attention", MTP: true, Layers: 1, BytesPerToken: 256},
		}, 3*delta + 256*1000},
		{"deepseek_v4", []Cache{
			{Attention: "sliding_attention", Layers: 1, BytesPerToken: 64, Window: 12},
			{Attention: "heavily_compressed_attention", Layers: 1, BytesPerToken: 64, Window: 12, EntryBytes: 64, EntryTokens: 16, StateBytes: 4096},
			{Attention: "compressed_sparse_attention", Layers: 1, BytesPerToken: 64, Window: 12, EntryBytes: 64 + 16 + 4, EntryTokens: 4, StateBytes: 6144},
		}, 3*64*12 + 62*64 + 250*84 + 4096 + 6144},
		{"gemma4_ple", []Cache{
			{Attention: "sliding_attention", Layers: 1, BytesPerToken: 64, Window: 10},
			{Attention: "full_attention", Layers: 1, BytesPerToken: 128},
			{Attention: "sliding_attention", Layers: 1, Shared: true},
			{Attention: "full_attention", Layers: 1, Shared: true},
		}, 64*10 + 128*1000},
		{"deepseek_v2", []Cache{{Attention: "full_attention", Layers: 2, BytesPerToken: 48}}, 2 * 48 * 1000},
		{"qwen3", []Cache{{Attention: "full_attention", Layers: 2, BytesPerToken: 2 * 2 * 48}}, 2 * 192 * 1000},
	} {
		got := caches(topologytest.Model(t, c.name))
		if !slices.Equal(got, c.rows) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.rows)
		}
		if n := CacheBytes(got, 1000); n != c.bytes {
			t.Errorf("%s: %d bytes of 1000 tokens, by hand %d", c.name, n, c.bytes)
		}
	}
	full := []Cache{{Layers: 3, BytesPerToken: 1 << 40}}
	if n := CacheBytes(full, 1<<40); n != math.MaxInt64 {
		t.Errorf("%d", n)
	}
	if n := CacheBytes([]Cache{{Layers: 2, BytesPerToken: 5, StateBytes: -1}}, -3); n != 0 {
		t.Errorf("%d", n)
	}
}
