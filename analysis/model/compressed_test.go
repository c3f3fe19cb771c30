package model

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/topology"
)

// TestIndexerKeeps: the entries that each token sees are those that transformers lets
// it see.
func TestIndexerKeeps(t *testing.T) {
	f, gold := opened(t, "deepseek_v4"), openGolden(t, "deepseek_v4.expected.safetensors")
	pass := NewPass(f.spec, []Source{f.source()}, Options{Set: kernels.Best(), Threads: 1})
	_, err := pass.Run(t.Context(), gold.chunks("input_ids"))
	must(t, err)
	keep, shape := gold.values("layer2.indexer_keep")
	a := f.spec.Layers[2].Compressed
	chosen, choices := pass.run.scratch[0].pooling.chosen, 0
	for row := range int(shape[0] * shape[1]) {
		var want, got []int32
		for e, v := range keep[row*int(shape[2]):][:shape[2]] {
			if v == 1 {
				want = append(want, int32(e))
			}
		}
		if n := (row%int(shape[1]) + 1) / a.Rate; n > a.Indexer.TopK {
			got, choices = chosen[row*a.Indexer.TopK:][:a.Indexer.TopK], choices+1
		} else {
			for e := range n {
				got = append(got, int32(e))
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("token %d sees entries %v, want %v", row, got, want)
		}
	}
	if choices != 2*(48-19) {
		t.Errorf("%d tokens had a choice", choices)
	}
}

// TestKeepLargest: the heap keeps what sorting keeps.
func TestKeepLargest(t *testing.T) {
	for n := range 9 {
		var all, heap []uint64
		for i := range 40 {
			key := uint64(i*i*2654435761) % 97
			all = append(all, key)
			if n > 0 {
				heap = keepLargest(heap, key, n)
			}
		}
		slices.Sort(all)
		slices.Sort(heap)
		if !slices.Equal(heap, all[len(all)-n:]) {
			t.Errorf("%d: %v, want %v", n, heap, all[len(all)-n:])
		}
	}
}

// TestCompressedGoesBack: a long text that is cut anywhere, or copied, goes on with the
// bits of the whole, from where it says; the last 64 tokens it takes back exactly.
func TestCompressedGoesBack(t *testing.T) {
	for _, name := range []string{"deepseek_v4", "deepseek_v4_mtp"} {
		f := opened(t, name)
		text := texts(f.spec, 5, 420)[0]
		w := f.spec.Width()
		want := hiddenOf(t, f.spec, f.source(), [][]int32{text}, quick())
		b, err := NewBatch(t.Context(), f.spec, NewResident(f.source()), quick())
		must(t, err)
		long := &Step{Text: NewText(f.spec, 0)}
		for at := 0; at < len(text); at += 60 {
			long.Tokens = text[at : at+60]
			_, err := b.Feed(t.Context(), []*Step{long})
			must(t, err)
		}
		for _, n := range []int{419, 380, 356, 300, 200, 130, 65, 64, 50, 3, 0} {
			s := &Step{Text: long.Text.Copy(n, 0)}
			from := s.Text.Len()
			if from > n || n >= 356 && from != n || name == "deepseek_v4" && n >= 70 && from < n-64 {
				t.Errorf("%s: cut to %d tokens, has %d", name, n, from)
			}
			s.Tokens = text[from:min(from+90, len(text))]
			x, err := b.Feed(t.Context(), []*Step{s})
			must(t, err)
			sameBits(t, fmt.Sprint(name, " from ", from), x, want[from*w:][:len(x)])
		}
		long.Text.Cut(200)
		from := long.Text.Len()
		long.Tokens = text[from:]
		x, err := b.Feed(t.Context(), []*Step{long})
		must(t, err)
		sameBits(t, name+" cut", x, want[from*w:])
	}
}

// otherTable is a source whose table of tokens has another number somewhere.
type otherTable struct {
	Source
	value float32
}

func (s otherTable) Vector(ctx context.Context, p Place, param string) ([]float32, error) {
	v, err := s.Source.Vector(ctx, p, param)
	if err == nil && param == tokenExperts {
		v = slices.Clone(v)
		v[7] = s.value
	}
	return v, err
}

// TestTokenTable: a table that sends a token to an expert that is not there is told of
// by token and expert.
func TestTokenTable(t *testing.T) {
	f := opened(t, "deepseek_v4")
	for _, v := range []float32{-1, 4, 1.5, float32(math.NaN()), float32(math.Inf(1))} {
		_, err := Run(t.Context(), f.spec, []Source{otherTable{f.source(), v}}, [][]int32{{1, 2}}, quick())
		if err == nil || !strings.Contains(err.Error(), "layer 0 router tid2eid sends token 3 to expert") {
			t.Errorf("%g: %v", v, err)
		}
	}
}

// brokenToken is a source in which one token's embedding is not finite.
type brokenToken struct {
	Source
	token int32
}

func (s brokenToken) Rows(ctx context.Context, p Place, rows []int32, dst []float32) error {
	err := s.Source.Rows(ctx, p, rows, dst)
	for i, id := range rows {
		if id == s.token && p.Kind == topology.Embedding {
			dst[i*len(dst)/len(rows)+3] = float32(math.NaN())
		}
	}
	return err
}

// TestCompressedNaN: a NaN reaches no token before it and no other chunk.
func TestCompressedNaN(t *testing.T) {
	f := opened(t, "deepseek_v4_mtp")
	chunks := texts(f.spec, 9, 90, 40)
	for _, c := range chunks {
		for i := range c {
			c[i] = c[i] % 70
		}
	}
	const at = 44
	chunks[0][at] = 75
	o := quick()
	o.NonFinite = func(int, int, *NonFiniteError) error { return nil }
	w := f.spec.Width()
	got := hiddenOf(t, f.spec, brokenToken{f.source(), 75}, chunks, o)
	want := hiddenOf(t, f.spec, f.source(), chunks, o)
	sameBits(t, "before", got[:at*w], want[:at*w])
	sameBits(t, "the other chunk", got[90*w:], want[90*w:])
	if !math.IsNaN(float64(got[at*w])) {
		t.Errorf("the token itself is %g", got[at*w])
	}
}
