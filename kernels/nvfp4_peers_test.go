package kernels

import (
	"bytes"
	"slices"
	"testing"
)

// peerBlocks is what a file of reference data says block by block under a prefix.
type peerBlocks struct {
	amax, dequant []float32
	sse           []float64
	scales, codes []byte
}

func blocksOf(t *testing.T, g map[string]tensor, prefix string) peerBlocks {
	t.Helper()
	return peerBlocks{
		amax: need(t, g, prefix+".block_amax").f32(), dequant: need(t, g, prefix+".dequant_f32").f32(),
		sse: need(t, g, prefix+".block_sse").f64(), scales: need(t, g, prefix+".weight_scale").data, codes: need(t, g, prefix+".weight").data,
	}
}

// amaxOf is the largest magnitude of each block; the width is one of whole blocks.
func amaxOf(t *testing.T, m Matrix) []float32 {
	t.Helper()
	w := make([]float32, m.Rows*m.Cols)
	if err := DecodeFloats(w, m.Element, m.Data); err != nil {
		t.Fatal(err)
	}
	out := make([]float32, len(w)/BlockNVFP4)
	for i, v := range w {
		out[i/BlockNVFP4] = max(out[i/BlockNVFP4], v, -v)
	}
	return out
}

// checkBlocks compares decoded values and errors with the peer's in the blocks
// that have its scale, and the row sums of the record with the peer's where a
// whole row has. It returns how many blocks have the peer's scale.
func checkBlocks(t *testing.T, q quantized, conv Convention, peer peerBlocks) (equal int) {
	t.Helper()
	decoded, perRow := q.decode(t, conv), q.m.Cols/BlockNVFP4
	errors := blockErrors(t, q, conv)
	if len(peer.sse) != len(errors) || len(peer.dequant) != len(decoded) || len(peer.scales) != len(errors) {
		t.Fatalf("%d errors, %d values, %d scales of %d blocks", len(peer.sse), len(peer.dequant), len(peer.scales), len(errors))
	}
	for b := range errors {
		if q.Scales[b] != peer.scales[b] {
			continue
		}
		equal++
		if got, want := bitsOf(decoded[b*BlockNVFP4:][:BlockNVFP4]), bitsOf(peer.dequant[b*BlockNVFP4:][:BlockNVFP4]); !slices.Equal(got, want) {
			t.Errorf("block %d decodes to other values: %s", b, firstDiff(got, want))
		}
		if !close64(errors[b], peer.sse[b], 1e-12) {
			t.Errorf("block %d: error %v, peer %v", b, errors[b], peer.sse[b])
		}
	}
	for r := range q.m.Rows {
		if !bytes.Equal(q.Scales[r*perRow:][:perRow], peer.scales[r*perRow:][:perRow]) {
			continue
		}
		want := 0.0
		for _, e := range peer.sse[r*perRow:][:perRow] {
			want += e
		}
		if !close64(q.RowE2[r], want, 1e-6) { // w−q is rounded to f32
			t.Errorf("row %d: error %v, peer %v", r, q.RowE2[r], want)
		}
	}
	return equal
}

// Static block scales and both searches, block by block: values, errors, and
// which candidate won.
func TestNVFP4SearchesBlockByBlock(t *testing.T) {
	for _, set := range Available() {
		for _, file := range []string{"mse_small", "mse_medium"} {
			g := golden(t, "golden/nvfp4_"+file+".safetensors")
			m := need(t, g, "w").matrix(t)
			amax := amaxOf(t, m)
			run := func(search nvfp4Search) quantized {
				t.Helper()
				q := quantized{NVFP4Output: newOutput(m), m: m}
				var err error
				if q.tap, err = set.nvfp4(m, ModelOptStatic, search, 0, &q.NVFP4Output); err != nil {
					t.Fatal(err)
				}
				return q
			}
			t.Run(set.Name+"/"+file+"/max", func(t *testing.T) {
				peer := blocksOf(t, g, "max")
				if !slices.Equal(amax, peer.amax) {
					t.Errorf("block amax: %s", firstDiff(amax, peer.amax))
				}
				q := run(nvfp4Search{top: MaxE4M3})
				if n := checkBlocks(t, q, ModelOptStatic, peer); n != len(amax) {
					t.Errorf("%d of %d scales are the peer's", n, len(amax))
				}
				if got, want := bitsOf(q.decode(t, ModelOptStatic)), bitsOf(peer.dequant); !slices.Equal(got, want) {
					t.Errorf("decoded: %s", firstDiff(got, want))
				}
			})
			t.Run(set.Name+"/"+file+"/sweep", func(t *testing.T) {
				peer := blocksOf(t, g, "sweep")
				candidates := need(t, g, "sweep.candidates").f32()
				if len(candidates) != nanE4M3-1 {
					t.Fatalf("%d candidates", len(candidates))
				}
				for i, c := range candidates {
					if want := E4M3ToF32(byte(i+1)) / MaxE4M3; c != want {
						t.Errorf("candidate %d is %v, ours is %v", i, c, want)
					}
				}
				q := run(nvfp4Search{sweep: true, top: MaxE4M3})
				checkBlocks(t, q, ModelOptStatic, peer)
				global := slices.Max(amax)
				checkChosen(t, need(t, g, "sweep.candidate_index").i32(), func(b int) int { return int(q.Scales[b]) - 1 }, len(amax))
				for b, i := range need(t, g, "sweep.candidate_index").i32() {
					if want := float32(global * candidates[i]); peer.amax[b] != want {
						t.Errorf("block %d: amax %v of candidate %d is not the %v that its scale stands for", b, peer.amax[b], i, want)
					}
				}
			})
			if _, ok := g["mult.weight"]; !ok {
				continue
			}
			t.Run(set.Name+"/"+file+"/mult", func(t *testing.T) {
				multipliers := need(t, g, "mult.multipliers").f32()
				search := nvfp4Search{multipliers: multipliers, top: MaxE4M3}
				q := run(search)
				checkBlocks(t, q, ModelOptStatic, blocksOf(t, g, "mult"))
				j := new(nvfp4Job)
				j.start(m.Element, ModelOptStatic, search, slices.Max(amax), 0)
				checkChosen(t, need(t, g, "mult.multiplier_index").i32(), func(b int) int {
					return slices.IndexFunc(multipliers, func(f float32) bool { return j.scaleCode(j.rawScale(float32(amax[b]*f))) == q.Scales[b] })
				}, len(amax))
			})
		}
	}
}

// checkChosen wants the peer's candidate in 99.5 % of blocks: the order of f32
// sums decides near ties.
func checkChosen(t *testing.T, want []int32, got func(b int) int, blocks int) {
	t.Helper()
	if len(want) != blocks {
		t.Fatalf("%d choices for %d blocks", len(want), blocks)
	}
	same := 0
	for b := range want {
		if got(b) == int(want[b]) {
			same++
		}
	}
	if float64(same) < 0.995*float64(blocks) {
		t.Errorf("the candidate is the peer's in %d of %d blocks", same, blocks)
	}
}

// Four over six, block by block.
func TestNVFP4FourOverSixBlockByBlock(t *testing.T) {
	g := golden(t, "golden/nvfp4_four_over_six.safetensors")
	for _, set := range Available() {
		for _, name := range []string{"gaussian", "heavy_tail", "zero_blocks", "range24"} {
			t.Run(set.Name+"/"+name, func(t *testing.T) {
				m := need(t, g, name+".w").matrix(t)
				q := quantize(t, set, m, NVFP4Options{Method: NVFP4FourOverSix})
				peer := blocksOf(t, g, name)
				if n := checkBlocks(t, q, ModelOpt, peer); n != len(q.Scales) {
					t.Errorf("%d of %d scales are the peer's", n, len(q.Scales))
				}
				// The peer's amax is that of the chosen candidate: the block's own, or 1.5 of
				// it. Where both give the same scale ours counts as the first.
				search, _ := NVFP4FourOverSix.search()
				j, amax := new(nvfp4Job), amaxOf(t, m)
				j.start(m.Element, ModelOptStatic, search, slices.Max(amax), 0)
				six, four := int64(0), int64(0)
				for b, own := range amax {
					more := float32(1.5 * own)
					switch {
					case peer.amax[b] == own, peer.amax[b] == more && j.scaleCode(j.rawScale(own)) == j.scaleCode(j.rawScale(more)):
						six++
					case peer.amax[b] == more:
						four++
					default:
						t.Errorf("block %d: amax %v, the peer has %v", b, own, peer.amax[b])
					}
				}
				if q.tap.Multipliers[0] != six || q.tap.Multipliers[1] != four {
					t.Errorf("%d blocks to 6 and %d to 4, the peer has %d and %d", q.tap.Multipliers[0], q.tap.Multipliers[1], six, four)
				}
			})
		}
	}
}
