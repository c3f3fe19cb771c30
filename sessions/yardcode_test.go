package sessions

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"quantscope/analysis/yardstick"
)

// sameBits compares figures by their bits, NaNs too.
var sameBits = cmp.Options{
	cmp.Comparer(func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }),
	cmp.Comparer(func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }),
}

// drawChunk draws a chunk of any figures.
func drawChunk(t *rapid.T) *yardstick.Chunk {
	f64 := rapid.Custom(func(t *rapid.T) float64 {
		return math.Float64frombits(rapid.OneOf(rapid.Uint64(), rapid.SampledFrom([]uint64{0, 1 << 63, 0x7ff0000000000000, 0x7ff8000000000001})).Draw(t, "bits"))
	})
	token := rapid.OneOf(rapid.Int32Range(0, 300), rapid.Int32())
	c := &yardstick.Chunk{Corpus: rapid.IntRange(0, 5).Draw(t, "corpus"), Index: rapid.IntRange(0, 1<<20).Draw(t, "index"), First: rapid.IntRange(0, 600).Draw(t, "first")}
	n := rapid.IntRange(0, 5).Draw(t, "n")
	c.Ref, c.Rows = make([]yardstick.RefRow, n), make([][]yardstick.Row, rapid.IntRange(0, 3).Draw(t, "candidates"))
	for i := range c.Ref {
		c.Ref[i] = yardstick.RefRow{NLL: f64.Draw(t, "nll"), MaxP: rapid.Float32().Draw(t, "p"), Top: token.Draw(t, "top")}
	}
	for k := range c.Rows {
		c.Rows[k] = make([]yardstick.Row, n)
		for i := range c.Rows[k] {
			top := c.Ref[i].Top
			if rapid.Bool().Draw(t, "differs") {
				top = token.Draw(t, "choice")
			}
			c.Rows[k][i] = yardstick.Row{KL: f64.Draw(t, "kl"), Reverse: f64.Draw(t, "reverse"), NLL: f64.Draw(t, "nllq"), Top: top}
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "texts") {
		if c.Texts == nil {
			c.Texts = map[int32]string{}
		}
		c.Texts[token.Draw(t, "token")] = string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
	}
	return c
}

// A score comes back bit for bit, and no part of it is taken for the whole.
func TestScorePayload(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawChunk(t)
		id := rapid.IntRange(0, 1<<20).Draw(t, "yard")
		p := encodeScore(nil, id, want)
		yard, got, err := decodeScore(p)
		if err != nil || yard != id {
			t.Fatalf("measurement %d of %d: %v", yard, id, err)
		}
		if diff := cmp.Diff(want, got, sameBits); diff != "" {
			t.Fatal(diff)
		}
		cut := rapid.IntRange(0, len(p)-1).Draw(t, "cut")
		if _, _, err := decodeScore(p[:cut]); err == nil {
			t.Fatalf("%d bytes of %d are taken for a score", cut, len(p))
		}
		if _, _, err := decodeScore(append(p, 0)); err == nil {
			t.Fatal("a byte after the end is not noticed")
		}
	})
}

// The drawing in docs/session.md, byte by byte.
func TestScoreLayout(t *testing.T) {
	c := &yardstick.Chunk{
		Corpus: 1, Index: 300, First: 2, Ref: []yardstick.RefRow{{NLL: 1, MaxP: 0.5, Top: 7}},
		Rows: [][]yardstick.Row{{{KL: 2, Reverse: 4, NLL: 8, Top: 7}}, {{KL: 0.5, Reverse: 0.25, NLL: 0.125, Top: 300}}}, Texts: map[int32]string{300: "é"},
	}
	f := func(x float64) []byte { return binary.LittleEndian.AppendUint64(nil, math.Float64bits(x)) }
	want := []byte{1, 3, 1, 0xac, 2, 2, 1, 2}
	want = append(append(want, f(1)...), 0, 0, 0, 0x3f, 7)
	want = append(append(append(append(want, f(2)...), f(4)...), f(8)...), 0)
	want = append(append(append(append(want, f(0.5)...), f(0.25)...), f(0.125)...), 0xad, 2)
	want = append(want, 1, 0xac, 2, 2, 0xc3, 0xa9)
	if got := encodeScore(nil, 3, c); string(got) != string(want) {
		t.Errorf("% x\nwant % x", got, want)
	}
}

// What claims to be large has the bytes for it, or is refused before room is made.
func TestScoreClaims(t *testing.T) {
	claim := func(ns ...uint64) []byte {
		p := []byte{scoreVersion}
		for _, n := range ns {
			p = binary.AppendUvarint(p, n)
		}
		return append(p, make([]byte, 64)...)
	}
	for name, p := range map[string][]byte{
		"none":       nil,
		"version 9":  {9, 0, 0},
		"positions":  claim(0, 0, 0, 0, 1<<31-1, 0),
		"candidates": claim(0, 0, 0, 0, 1, 1<<31-1),
		"both":       claim(0, 0, 0, 0, 1<<20, 1<<20),
		"overflow":   claim(0, 0, 0, 0, math.MaxUint64, 1),
		"no rows":    claim(0, 0, 0, 0, 0, 1<<31-1),
	} {
		allocated := testing.AllocsPerRun(1, func() {
			if _, _, err := decodeScore(p); err == nil {
				t.Errorf("%s: no error", name)
			}
		})
		if allocated > 20 {
			t.Errorf("%s: %g allocations", name, allocated)
		}
	}
}

// FuzzScore: no payload makes the decoder panic, and what it reads is read again
// from what is written of it.
func FuzzScore(f *testing.F) {
	c := madeUpChunk(madeUpSetup("fuzz"), 0, 1)
	whole := encodeScore(nil, 0, c)
	for n := 0; n < len(whole); n += 97 {
		f.Add(whole[:n])
	}
	f.Add(whole)
	f.Fuzz(func(t *testing.T, p []byte) {
		yard, c, err := decodeScore(p)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Error(err)
			}
			return
		}
		again, d, err := decodeScore(encodeScore(nil, yard, c))
		if err != nil || again != yard || !cmp.Equal(c, d, sameBits) {
			t.Errorf("%v: %s", err, cmp.Diff(c, d, sameBits))
		}
		_ = new(yardBook).place(&stored{Event: Event{Kind: EventScore}, yard: yard, chunk: c})
		_ = checkChunk(madeUpSetup("fuzz"), c)
	})
}

// fillAll gives every field of v another value, non-finite figures among them.
func fillAll(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillAll(v.Elem(), n)
	case reflect.Struct:
		for i := range v.NumField() {
			fillAll(v.Field(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fillAll(v.Index(i), n)
		}
	case reflect.String:
		v.SetString(strings.Repeat("é<", *n))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Float64:
		v.SetFloat([]float64{math.Inf(1), 0.1, math.Inf(-1), 1e-300}[*n%4])
	case reflect.Bool:
		v.SetBool(true)
	default:
		panic("kind " + v.Kind().String())
	}
}

// The end of a measurement keeps every field of its probes and of what says
// whether it can be believed: whoever adds one there adds it here.
func TestYardEndKeepsAll(t *testing.T) {
	want, n := &YardEnd{}, 0
	fillAll(reflect.ValueOf(want).Elem(), &n)
	want.State = RunStopped
	e := newYardEndEvent(4, want, 3, 9)
	read := stored{Event: Event{Kind: EventYardEnd}, payload: e.payload}
	if err := decodeEvent(&read); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, read.end, sameBits); diff != "" || read.yard != 4 {
		t.Errorf("measurement %d: %s", read.yard, diff)
	}
	for text, payload := range map[string]string{
		"holds no end":                 `{"message":""}`,
		`ended in state "soon" (known`: `{"message":"","yard_end":{"id":0,"state":"soon"}}`,
	} {
		read := stored{Event: Event{Kind: EventYardEnd}, payload: []byte(payload)}
		if err := decodeEvent(&read); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", payload, err)
		}
	}
}

// madeUpSetup is of two candidates and the floor over two corpora, with texts that
// are parts of characters.
func madeUpSetup(label string) *yardstick.Setup {
	s := &yardstick.Setup{
		Reference: yardstick.Party{Label: "ref", Spec: "ref", Path: "/made/up", Identity: "0123456789abcdef", BitsPerWeight: 16, Effective: "bf16", Baseline: -1, Of: -1},
		Candidates: []yardstick.Party{
			{Label: label, Spec: label, Identity: "0123456789abcdef", BitsPerWeight: 4.5, Bytes: 1000, Effective: label, Baseline: -1, Of: -1},
			{Label: label + "+mse", Spec: label + "+mse", Identity: "0123456789abcdef", BitsPerWeight: 4.5, Bytes: 1000, Effective: label + "+mse", Baseline: 0, Of: -1},
			{Label: "floor", Spec: "floor", Identity: "0123456789abcdef", BitsPerWeight: 16, Floor: true, Baseline: -1, Of: -1},
		},
		Activations: "f32", Positions: "all", KernelSet: "ref", Program: "test", VocabRef: 40, Seed: 7,
		Texts: map[int32]string{0: "a", 1: "\xc3", 2: "\xa9", 39: "\x00\n"},
	}
	for i, name := range []string{"prose", "code"} {
		c := yardstick.CorpusRef{Name: name, Source: "demo", SHA256: strings.Repeat("ab", 32), BOS: "none", Chunking: "chunks of 9"}
		for k := range 3 {
			ids := make([]int32, 9)
			for j := range ids {
				ids[j] = int32((i*17 + k*5 + j*j) % 40)
			}
			c.IDs = append(c.IDs, ids)
		}
		s.Corpora = append(s.Corpora, c)
	}
	return s
}

// madeUpChunk is the scores of one chunk, made of its numbers alone. One row is
// not a number and one is infinite.
func madeUpChunk(s *yardstick.Setup, corpus, index int) *yardstick.Chunk {
	rng := rand.New(rand.NewPCG(uint64(corpus), uint64(index)))
	n := yardstick.Scored(len(s.Corpora[corpus].IDs[index]), s.Positions == "half")
	c := &yardstick.Chunk{Corpus: corpus, Index: index, Ref: make([]yardstick.RefRow, n), Rows: make([][]yardstick.Row, len(s.Candidates)), Texts: map[int32]string{41: "\xff"}}
	for i := range c.Ref {
		c.Ref[i] = yardstick.RefRow{NLL: rng.ExpFloat64(), MaxP: rng.Float32(), Top: rng.Int32N(40)}
	}
	for k := range c.Rows {
		c.Rows[k] = make([]yardstick.Row, n)
		for i := range c.Rows[k] {
			c.Rows[k][i] = yardstick.Row{KL: rng.ExpFloat64() / 50, Reverse: rng.ExpFloat64() / 50, NLL: c.Ref[i].NLL + rng.NormFloat64()/10, Top: c.Ref[i].Top}
			if rng.IntN(5) == 0 {
				c.Rows[k][i].Top = 41
			}
		}
	}
	nan := math.NaN()
	c.Rows[0][2] = yardstick.Row{KL: nan, Reverse: nan, NLL: nan}
	c.Rows[1][3].KL = math.Inf(1)
	return c
}
