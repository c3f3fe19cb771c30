package ggufmake

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/gguf"
)

// Every type is written and read back: the errors that are told are those of what
// the file holds, and metadata come along in their order.
func TestEveryType(t *testing.T) {
	values := map[string][]float32{}
	path := ggufFile(t, func(p []gguf.Pair, v map[string][]float32) []gguf.Pair {
		for k, x := range v {
			values[k] = x
		}
		return p
	})
	s := openSource(t, path)
	for _, name := range Types() {
		typ, err := ParseType(name)
		if err != nil {
			t.Fatal(err)
		}
		f, p, errs := write(t, s, Request{Type: typ, AllowFallback: true}, 3)
		if info, err := os.Stat(f.Path); err != nil || info.Size() != p.Size {
			t.Errorf("%s: %v, %d bytes planned", name, err, p.Size)
		}
		m, err := gguf.NewModel(f)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i := range p.Targets {
			x := &p.Targets[i]
			g, ok := f.Lookup(x.Name)
			if !ok || g.Type != x.Effective {
				t.Fatalf("%s: %s is %+v", name, x.Name, g)
			}
			got := make([]float32, g.Elements())
			if err := f.Decode(context.Background(), g, 0, got); err != nil {
				t.Fatal(err)
			}
			if x.scaled >= 0 {
				for k := range got {
					got[k] *= p.scales[x.scaled].values[0]
				}
			}
			var e2, w2 float64
			for k, w := range values[x.Name] {
				d := float64(w) - float64(got[k])
				e2, w2 = e2+d*d, w2+float64(w)*float64(w)
			}
			if want := math.Sqrt(e2 / w2); math.Abs(errs[i].RelL2-want) > 1e-6*(1+want) {
				t.Errorf("%s: %s has error %g, said is %g", name, x.Name, want, errs[i].RelL2)
			}
			if bound := map[bool]float64{true: 0, false: 0.3}[x.Kept != "" || typ == kernels.GGUFF32]; errs[i].RelL2 > bound && typ != kernels.GGUFTQ1_0 && typ != kernels.GGUFTQ2_0 {
				t.Errorf("%s: %s has error %g", name, x.Name, errs[i].RelL2)
			}
		}
		var keys []string
		for _, p := range s.Pairs {
			if p.Key != "quantize.imatrix.file" {
				keys = append(keys, p.Key)
			}
		}
		if !slices.Equal(f.Keys, append(keys, "general.quantization_version")) || f.Parts[0].Alignment != 64 {
			t.Errorf("%s: keys %v, alignment %d", name, f.Keys, f.Parts[0].Alignment)
		}
		if typ == kernels.GGUFNVFP4 && !m.Weights[2].Scaled() {
			t.Error("a scale is written and not read")
		}
	}
}

// The same bytes with any number of threads, and figures to the bit; chunks of big
// tensors meet at the same places.
func TestSameBytes(t *testing.T) {
	s := openSource(t, ggufFile(t, nil))
	for _, r := range []Request{{Type: kernels.GGUFQ4_K, AllowFallback: true}, {Type: kernels.GGUFNVFP4}, {Type: kernels.GGUFIQ4NL, Importance: true, Imatrix: imatrixOf(nil)}} {
		a, _, ea := write(t, s, r, 1)
		b, _, eb := write(t, s, r, 5)
		x, err := os.ReadFile(a.Path)
		if err != nil {
			t.Fatal(err)
		}
		y, err := os.ReadFile(b.Path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(x, y) {
			t.Errorf("%s: other bytes with other threads", r.Type)
		}
		for i := range ea {
			if ea[i].RelL2 != eb[i].RelL2 || math.Float64bits(ea[i].Weighted) != math.Float64bits(eb[i].Weighted) {
				t.Errorf("%s: %+v and %+v", r.Type, ea[i], eb[i])
			}
		}
	}
}

// Weighted errors are smaller by the weights than those of a file that was made
// without.
func TestImportanceIsUsed(t *testing.T) {
	s := openSource(t, ggufFile(t, nil))
	for _, typ := range []kernels.GGUFType{kernels.GGUFQ4_0, kernels.GGUFQ5_1, kernels.GGUFIQ4NL} {
		f, p, errs := write(t, s, Request{Type: typ, Importance: true, Imatrix: imatrixOf(nil)}, 2)
		plain, _, _ := write(t, s, Request{Type: typ}, 2)
		i := slices.IndexFunc(p.Targets, func(x Target) bool { return x.Name == "blk.0.ffn_up.weight" })
		x := &p.Targets[i]
		weighted := func(f *gguf.File) float64 {
			g, _ := f.Lookup(x.Name)
			got := make([]float32, g.Elements())
			if err := f.Decode(context.Background(), g, 0, got); err != nil {
				t.Fatal(err)
			}
			src := make([]float32, g.Elements())
			if err := x.rows(context.Background(), &reader{set: kernels.Best()}, 0, x.Rows(), src); err != nil {
				t.Fatal(err)
			}
			u := sumsOf(src, got, x.importance[0], x.Cols())
			return math.Sqrt(u.we2 / u.ww2)
		}
		with, without := weighted(f), weighted(plain)
		if !(with < without) || math.Abs(with-errs[i].Weighted) > 1e-9 {
			t.Errorf("%s: %g with, %g without, %g said", typ, with, without, errs[i].Weighted)
		}
	}
}

// Whatever goes wrong leaves nothing under the name, and no other file.
func TestNothingIsLeftBehind(t *testing.T) {
	plan := func(s *Source) *Plan {
		p, err := NewPlan(s, Request{Type: kernels.GGUFQ8_0})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	good := openSource(t, ggufFile(t, nil))
	broken := openSource(t, ggufFile(t, func(p []gguf.Pair, v map[string][]float32) []gguf.Pair {
		v["blk.0.ffn_up.weight"][300*256+5] = float32(math.NaN())
		return p
	}))
	huge := openSource(t, ggufFile(t, func(p []gguf.Pair, v map[string][]float32) []gguf.Pair {
		v["blk.0.ffn_up.weight"][0] = 3e38
		return p
	}))
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	for what, c := range map[string]struct {
		ctx context.Context
		p   *Plan
		s   Settings
		say []string
	}{
		"a NaN":      {context.Background(), plan(broken), Settings{}, []string{"source.gguf", "blk.0.ffn_up.weight", "row 300, column 5", "NaN"}},
		"no scale":   {context.Background(), plan(huge), Settings{}, []string{"blk.0.ffn_up.weight", "Q8_0"}},
		"broken off": {cancelled, plan(good), Settings{}, []string{"canceled"}},
		"no memory":  {context.Background(), plan(good), Settings{MemBytes: 1000}, []string{"1000 bytes of memory"}},
	} {
		dir := t.TempDir()
		c.s.Set = kernels.Best()
		_, err := c.p.Write(c.ctx, filepath.Join(dir, "out.gguf"), c.s)
		if err == nil {
			t.Errorf("%s: no error", what)
			continue
		}
		for _, word := range c.say {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %q does not mention %q", what, err, word)
			}
		}
		left, readErr := os.ReadDir(dir)
		if readErr != nil || len(left) != 0 || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: left %v, %v", what, left, err)
		}
	}
	path := filepath.Join(t.TempDir(), "out.gguf")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := plan(good).Write(context.Background(), path, Settings{Set: kernels.Best()}); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("%v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "mine" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := plan(good).Write(context.Background(), filepath.Join(path, "x"), Settings{Set: kernels.Best()}); err == nil {
		t.Error("written below a file")
	}
	if _, err := plan(good).Write(context.Background(), path, Settings{Set: kernels.Best(), Overwrite: true, MemBytes: 64 << 20}); err != nil {
		t.Error(err)
	}
}

// Big-endian, split and NVFP4 sources come out as what they hold.
func TestOddSources(t *testing.T) {
	const golden = "../gguf/testdata/golden"
	for _, name := range []string{"big_endian.gguf", "split-00002-of-00002.gguf"} {
		s := openSource(t, filepath.Join(golden, name))
		f, p, _ := write(t, s, Request{Type: kernels.GGUFF32, AllowRequantize: true}, 2)
		src := openGGUF(t, filepath.Join(golden, name))
		for i := range src.Tensors {
			x := &src.Tensors[i]
			g, ok := f.Lookup(x.Name)
			if !ok || !slices.Equal(g.Shape, x.Shape) {
				t.Fatalf("%s: %s is %+v", name, x.Name, g)
			}
			if !x.Type.Decodes() {
				continue
			}
			a, b := make([]float32, x.Elements()), make([]float32, x.Elements())
			if err := src.Decode(context.Background(), x, 0, a); err != nil {
				t.Fatal(err)
			}
			if err := f.Decode(context.Background(), g, 0, b); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(a, b) {
				t.Errorf("%s: %s differs", name, x.Name)
			}
		}
		if f.Parts[0].BigEndian || slices.ContainsFunc(f.Keys, func(k string) bool { return strings.HasPrefix(k, "split.") }) || len(p.Targets) != len(src.Tensors) {
			t.Errorf("%s: %v", name, f.Keys)
		}
	}
	first, _, _ := write(t, openSource(t, ggufFile(t, nil)), Request{Type: kernels.GGUFNVFP4}, 2)
	again, _, errs := write(t, openSource(t, first.Path), Request{Type: kernels.GGUFF32, AllowRequantize: true}, 2)
	if len(errs) != 12 || len(again.Tensors) != 12 {
		t.Errorf("%d tensors", len(again.Tensors))
	}
	a, err := gguf.NewModel(first)
	if err != nil {
		t.Fatal(err)
	}
	b, err := gguf.NewModel(again)
	if err != nil {
		t.Fatal(err)
	}
	for i := range a.Weights {
		if a.Weights[i].Vector {
			continue
		}
		rows := []int32{0, int32(a.Weights[i].Rows - 1)}
		x, y := make([]float32, 2*a.Weights[i].Cols), make([]float32, 2*a.Weights[i].Cols)
		w, ok := b.Find(a.Topology.Roles[i])
		if !ok {
			t.Fatal(a.Weights[i].Name)
		}
		if err := errors.Join(a.ReadRows(context.Background(), &a.Weights[i], rows, x), b.ReadRows(context.Background(), w, rows, y)); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(x, y) {
			t.Errorf("%s differs", a.Weights[i].Name)
		}
	}
}

// full is a file on a disk that is full after some writes.
type full struct {
	output
	left *atomic.Int64
}

func (f full) WriteAt(p []byte, off int64) (int, error) {
	if f.left.Add(-1) < 0 {
		return 0, syscall.ENOSPC
	}
	return f.output.WriteAt(p, off)
}

// A disk that fills up at any write ends the work with its error, and with nothing
// left; neither does a scale that is written before the blocks.
func TestDiskFull(t *testing.T) {
	p, err := NewPlan(openSource(t, ggufFile(t, nil)), Request{Type: kernels.GGUFNVFP4})
	if err != nil {
		t.Fatal(err)
	}
	for at := range int64(100) {
		dir := t.TempDir()
		var left atomic.Int64
		left.Store(at)
		_, err := p.Write(context.Background(), filepath.Join(dir, "out.gguf"), Settings{Set: kernels.Best(), Threads: 2, create: func(path string) (output, error) {
			f, err := checkpoint.CreateAtomic(path)
			return full{f, &left}, err
		}})
		files, readErr := os.ReadDir(dir)
		if readErr != nil {
			t.Fatal(readErr)
		}
		if err == nil {
			if at < 20 || len(files) != 1 {
				t.Errorf("whole after %d writes, %d files", at, len(files))
			}
			return
		}
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "out.gguf") || strings.Contains(err.Error(), "\n") || len(files) != 0 {
			t.Fatalf("after %d writes: %v, left %v", at, err, files)
		}
	}
	t.Error("never whole")
}
