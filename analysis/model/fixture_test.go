package model

import (
	"context"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/demo"
	"quantscope/quant/topology"
)

// fixture is a checkpoint that is open.
type fixture struct {
	ck   *checkpoint.Checkpoint
	top  *topology.Model
	spec *Spec
}

func (f *fixture) source() *Stored { return NewStored(f.ck, f.top) }

func fixtureOf(t testing.TB, ck *checkpoint.Checkpoint, err error) *fixture {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ck.Close() })
	f := &fixture{ck: ck}
	if f.top, err = topology.FromCheckpoint(ck); err != nil {
		t.Fatal(err)
	}
	if f.spec, err = NewSpec(f.top); err != nil {
		t.Fatal(err)
	}
	return f
}

// opened is a model of testdata.
func opened(t testing.TB, name string) *fixture {
	t.Helper()
	ck, err := checkpoint.Open(filepath.Join("testdata", name))
	return fixtureOf(t, ck, err)
}

// openedDemo is the embedded model.
func openedDemo(t testing.TB) *fixture {
	t.Helper()
	ck, err := demo.Open()
	return fixtureOf(t, ck, err)
}

// golden are the expected values of a file of testdata.
type golden struct {
	t  testing.TB
	ck *checkpoint.Checkpoint
}

func openGolden(t testing.TB, file string) golden {
	t.Helper()
	ck, err := checkpoint.Open(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ck.Close() })
	return golden{t, ck}
}

func (g golden) has(name string) bool { _, ok := g.ck.Lookup(name); return ok }

// count is how many arrays have a word in their name, but for those of MTP layers and
// of other texts.
func (g golden) count(word string) (n int) {
	for _, x := range g.ck.Tensors {
		if strings.Contains(x.Name, word) && !strings.HasPrefix(x.Name, "mtp") {
			n++
		}
	}
	return n
}

// values reads an array as f32.
func (g golden) values(name string) ([]float32, []int64) {
	g.t.Helper()
	x, ok := g.ck.Lookup(name)
	if !ok {
		g.t.Fatalf("%s has no %s", g.ck.Path, name)
	}
	raw := make([]byte, x.Elements()*int64(x.DType.Bits())/8)
	if err := g.ck.ReadAt(context.Background(), x, 0, raw); err != nil {
		g.t.Fatal(err)
	}
	out := make([]float32, x.Elements())
	if x.DType == checkpoint.I32 {
		for i := range out {
			out[i] = float32(int32(uint32(raw[4*i]) | uint32(raw[4*i+1])<<8 | uint32(raw[4*i+2])<<16 | uint32(raw[4*i+3])<<24))
		}
	} else if err := checkpoint.DecodeF32(out, x.DType, raw); err != nil {
		g.t.Fatal(err)
	}
	return out, x.Shape
}

// chunks reads token ids, a row a chunk.
func (g golden) chunks(name string) [][]int32 {
	g.t.Helper()
	ids, shape := g.values(name)
	var chunks [][]int32
	for i := range int(shape[0]) {
		var c []int32
		for _, id := range ids[i*int(shape[1]):][:shape[1]] {
			c = append(c, int32(id))
		}
		chunks = append(chunks, c)
	}
	return chunks
}

// worst is the largest difference of two arrays, +Inf where one is not a number
// or is shorter.
func worst(a, b []float32) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	most := 0.0
	for i := range b {
		d := math.Abs(float64(a[i]) - float64(b[i]))
		if math.IsNaN(d) {
			return math.Inf(1)
		}
		most = max(most, d)
	}
	return most
}

// within fails where got differs from want by more than tol anywhere.
func within(t testing.TB, what string, got, want []float32, tol float64) {
	t.Helper()
	if w := worst(got, want); w > tol {
		t.Errorf("%s: off by %.2g, want at most %g", what, w, tol)
	}
}

// two threads, as quickly as the machine can.
func quick() Options { return Options{Set: kernels.Best(), Threads: 2} }

// logitsOf takes chunks through a model.
func logitsOf(t testing.TB, f *fixture, src Source, chunks [][]int32, o Options) (hidden, logits []float32) {
	t.Helper()
	out, err := Run(context.Background(), f.spec, []Source{src}, chunks, o)
	if err != nil {
		t.Fatal(err)
	}
	head, err := NewHead(context.Background(), f.spec, src, o)
	if err != nil {
		t.Fatal(err)
	}
	logits, err = head.Logits(nil, out[0].X, out[0].Rows)
	if err != nil {
		t.Fatal(err)
	}
	return out[0].X, logits
}
