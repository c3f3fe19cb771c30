package model

import (
	"fmt"
	"slices"
	"testing"

	"quantscope/quant/topology"
)

// TestParties: several sources in one pass, whatever they have in common, have
// the bits of each alone.
func TestParties(t *testing.T) {
	for name, spec := range map[string]*Spec{
		"dense": llamaSpec(5, 48, 4, 2, 12, 40, 90), "experts": moeSpec(5, 48, 4, 2, 12, 40, 8, 2, 90),
	} {
		chunks := texts(spec, 2, 50, 20, 64, 64)
		make := func() []*random {
			ref := newRandom(spec, 1)
			late, early := ref.with(3, 7), ref.with(1, 7)
			return []*random{ref, late, early, ref.with(4, 9), late.with(4, 9), ref, newRandom(spec, 2), early.with(3, 7), late}
		}
		var want [][][]float32 // by candidate and layer
		for _, src := range make() {
			var layers [][]float32
			o := quick()
			o.Layer = func(_, _ int, x []float32) { layers = append(layers, slices.Clone(x)) }
			hiddenOf(t, spec, src, chunks, o)
			want = append(want, layers)
		}
		for _, wave := range []int64{0, 1} {
			for _, threads := range []int{1, 2} {
				o := quick()
				o.Wave, o.Threads = wave, threads
				var after [9][]int
				o.Layer = func(c, n int, _ []float32) { after[c] = append(after[c], n) }
				var sources []Source
				for _, src := range make() {
					sources = append(sources, src)
				}
				pass := NewPass(spec, sources, o)
				for range 2 {
					out, err := pass.Run(t.Context(), chunks)
					if err != nil {
						t.Fatal(err)
					}
					for c := range out {
						sameBits(t, fmt.Sprintf("%s, wave %d: candidate %d", name, wave, c), out[c].X, want[c][len(spec.Layers)])
						if len(out[c].RMS) != len(spec.Layers)+1 {
							t.Errorf("candidate %d: %d norms", c, len(out[c].RMS))
						}
					}
				}
				for c, got := range after {
					if !slices.Equal(got, []int{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}) {
						t.Errorf("candidate %d: layers after %v", c, got)
					}
				}
				// All memory of weights was given back.
				for c, src := range sources {
					if live := src.(*random).shared.live.Load(); live != 0 {
						t.Errorf("candidate %d: %d bytes of weights are still held", c, live)
					}
				}
			}
		}
	}
}

// TestReadOnce: what candidates have in common is read once for all of them, and
// layers before the first difference once in all.
func TestReadOnce(t *testing.T) {
	spec := moeSpec(4, 32, 2, 1, 16, 24, 6, 2, 60)
	ref := newRandom(spec, 1)
	other := ref.with(2, 5)
	// A candidate whose attention alone is another in layer 1: the rest of the layer
	// is lent to it.
	part := &partly{random: newRandom(spec, 1), layer: 1, seed: 5}
	if _, err := Run(t.Context(), spec, []Source{ref, other, part}, texts(spec, 1, 200), quick()); err != nil {
		t.Fatal(err)
	}
	experts := 0
	for i := range spec.Layers {
		l := &spec.Layers[i]
		for _, p := range l.places(spec) {
			got := [3]int{ref.shared.reads[p], other.shared.reads[p], part.shared.reads[p]}
			want := [3]int{1, 0, 0}
			if i == 2 {
				want = [3]int{1, 1, 0}
			}
			if i == 1 && p.Kind == topology.Attention {
				want = [3]int{1, 0, 1}
			}
			if p.Kind == topology.Expert {
				if got == want {
					experts++
				}
				continue // one that the reference did not choose is read by who does
			}
			if got != want {
				t.Errorf("%s was read %v times, want %v", p, got, want)
			}
		}
	}
	if experts < 40 {
		t.Errorf("%d matrices of experts were read as they should, want most of 54", experts)
	}
}

// partly has another attention in one layer.
type partly struct {
	*random
	layer int
	seed  uint64
}

func (s *partly) own(p Place) bool { return p.Layer == s.layer && p.Kind == topology.Attention }

func (s *partly) Fork() Source { return &partly{s.random.Fork().(*random), s.layer, s.seed} }

func (s *partly) LayerOrigin(layer int) any {
	if layer == s.layer {
		return s
	}
	return s.random.LayerOrigin(layer)
}

func (s *partly) WeightOrigin(p Place) any {
	if s.own(p) {
		return fmt.Sprint("partly ", s.seed, p)
	}
	return s.random.WeightOrigin(p)
}
