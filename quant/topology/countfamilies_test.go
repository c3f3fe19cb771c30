package topology

import "testing"

// Parameters of the newest families' golden models, layer by layer from their sizes:
// hidden 64, vocabulary 128 in all of them.
func TestGoldenCounts(t *testing.T) {
	const (
		h, v = 64, 128
		// 2 key heads and 4 value heads of 16, 4 taps
		keys, values = 2 * 16, 4 * 16
		delta        = (2*keys+2*values)*h + 2*4*h + (2*keys+values)*4 + 4 + 4 + 16 + h*values
	)
	// gated attention: 4 heads of d with as many gates, 2 of keys and values, norms of both
	gated := func(d int64) int64 { return 2*4*d*h + 2*2*d*h + h*4*d + 2*d }
	mlp := func(inner int64) int64 { return 3 * inner * h }
	moe := func(experts, inner, shared int64) int64 { return experts*h + experts*mlp(inner) + mlp(shared) }
	// of step3p7 with n heads: q, k, v, o, a gate a head, norms
	step := func(n int64) int64 { return n*16*h + 2*2*16*h + h*n*16 + n*h + 2*16 }
	// of deepseek_v2: q of 4·(16+8), latent of 16 and 8, k and v out of it, o
	const mla = 4*24*h + 24*h + 4*32*16 + h*4*16 + 16
	// of deepseek_v4: q through 32 to 4·32, kv of 32, sinks, o in 2 groups through 16
	const v4 = 32*h + 32 + 4*32*32 + 32*h + 32 + 4 + 2*16*(2*32) + h*2*16
	compressor := func(rate, wide, d int64) int64 { return 2*wide*h + rate*wide + d }
	const (
		indexer = 8*16*32 + 8*h // its queries and the weights of its heads, 8 of 16
		hyper   = 3 * h         // streams side by side
		mix     = 15*hyper + 15 + 3
		heads   = 3*hyper + 3 + 1
	)
	v4moe := func(bias int64) int64 { return moe(4, 16, 16) + bias }
	// of gemma4: 4 heads of d over n of keys; v is 0 where k is v as well
	gemma := func(d, n, v int64) int64 { return 2*4*d*h + (n+v)*d*h + 2*d }
	gemmaNorms := func(n int64) int64 { return n*h + 1 } // and the layer's scalar
	// per-layer inputs of 8: gate, projection, norm
	const perLayer = 8*h + h*8 + h

	for _, tt := range []struct {
		name            string
		total, inactive int64 // those of experts that a token does not take
	}{
		{"qwen3_next", 2*v*h + h + 3*delta + gated(32) + 4*(2*h+moe(4, 16, 24)+h), 4 * 2 * mlp(16)},
		{"qwen3_5", v*h + h + 3*delta + gated(16) + 4*(2*h+mlp(48)), 0},
		{"qwen3_5_moe", 2*v*h + h + 3*delta + gated(16) + 4*(2*h+moe(4, 16, 16)+h), 4 * 2 * mlp(16)},
		{"step3p7", 2*v*h + h + step(4) + step(6) + step(4) + 3*2*h + mlp(64) + 2*(moe(6, 16, 24)+6), 2 * 4 * mlp(16)},
		{"deepseek_v2", 2*v*h + h + 2*(mla+2*h) + mlp(64) + moe(8, 16, 32), 6 * mlp(16)},
		{"deepseek_v4", 2*v*h + h + heads + 3*(v4+2*h+2*mix) + v4moe(0) + 2*v4moe(4) +
			compressor(16, 32, 32) + compressor(4, 64, 32) + indexer + compressor(4, 32, 16), 3 * 2 * mlp(16)},
		{"gemma4_moe", v*h + h + 2*gemma(16, 2, 2) + gemma(32, 1, 0) + 3*(gemmaNorms(7)+mlp(48)+5*h+5*mlp(16)+h+5), 3 * 3 * mlp(16)},
		{"gemma4_ple", v*h + h + v*4*8 + 4*8*h + 8 + gemma(16, 1, 1) + gemma(32, 1, 1) + gemma(16, 0, 0) - 16 + gemma(32, 0, 0) - 32 +
			4*(gemmaNorms(4)+perLayer) + 2*mlp(32) + 2*mlp(64), 0},
	} {
		m := resolveFixture(t, tt.name)
		vision := m.Params[Vision] // of step3p7
		if m.TotalParams-vision != tt.total {
			t.Errorf("%s: %d parameters, by hand %d", tt.name, m.TotalParams-vision, tt.total)
		}
		if m.ActiveParams != tt.total-tt.inactive {
			t.Errorf("%s: %d of a token, by hand %d", tt.name, m.ActiveParams, tt.total-tt.inactive)
		}
	}
}
