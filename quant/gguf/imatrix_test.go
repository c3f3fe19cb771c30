package gguf

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"quantscope/quant/topology"
)

func imatrixFile(name string) string { return filepath.Join("testdata", "imatrix", name) }

// imatrixView is what gguf-py reads of a file: shape, dtype and digest of tensors.
type imatrixView struct {
	Chunk int
	IDs   []int32
	Files map[string]struct {
		Keys    map[string]any
		Tensors map[string][3]any
	}
}

func readViews(t *testing.T) imatrixView {
	t.Helper()
	var v imatrixView
	readJSON(t, imatrixFile("expected.json"), &v)
	if len(v.Files) != 9 {
		t.Fatalf("%d files are expected", len(v.Files))
	}
	return v
}

// What llama-imatrix wrote is read as gguf-py reads it, and written again byte for
// byte.
func TestImatrixOfLlama(t *testing.T) {
	for name, want := range readViews(t).Files {
		m, err := ReadImatrix(imatrixFile(name))
		if err != nil {
			t.Error(err)
			continue
		}
		if !reflect.DeepEqual(m.Datasets, []string{"letters.txt"}) || m.ChunkCount != 6 || m.ChunkSize != 64 || m.Legacy || m.Others != nil || m.Notes != nil ||
			fmt.Sprint(want.Keys["imatrix.chunk_count"]) != "6" {
			t.Errorf("%s: %v, %d chunks of %d; gguf-py has %v", name, m.Datasets, m.ChunkCount, m.ChunkSize, want.Keys)
		}
		if 2*len(m.Entries) != len(want.Tensors) {
			t.Errorf("%s: %d entries of %d tensors", name, len(m.Entries), len(want.Tensors))
		}
		for _, e := range m.Entries {
			sums, counts := want.Tensors[e.Name+".in_sum2"], want.Tensors[e.Name+".counts"]
			shape := []int{e.Cols}
			if e.Matrices > 1 {
				shape = []int{e.Matrices, e.Cols}
			}
			if fmt.Sprint(sums[0]) != fmt.Sprint(shape) || sums[1] != "F32" || digestAsIs(e.Sum2) != sums[2] || digestAsIs(e.Counts) != counts[2] {
				t.Errorf("%s: %s is %d×%d, gguf-py has %v", name, e.Name, e.Matrices, e.Cols, sums)
			}
		}
		if name == "big-endian.gguf" { // as qwen3_moe.gguf, in the other order of bytes
			name = "qwen3_moe.gguf"
		}
		raw, err := os.ReadFile(imatrixFile(name))
		if err != nil {
			t.Fatal(err)
		}
		if got := written(t, m); !bytes.Equal(got, raw) {
			t.Errorf("%s: %d bytes were written in place of %d, or others", name, len(got), len(raw))
		}
	}
}

// digestAsIs is the SHA-256 of values, little-endian.
func digestAsIs(x []float32) string {
	b := make([]byte, 0, 4*len(x))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return fmt.Sprintf("%x", sha256.Sum256(b))
}

func written(t *testing.T, m *Imatrix) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteImatrix(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The older format has the same means: of each expert, and 1 where there was no
// token.
func TestImatrixOfBefore(t *testing.T) {
	old, err := ReadImatrix(imatrixFile("mixtral.dat"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := ReadImatrix(imatrixFile("mixtral.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	if !old.Legacy || old.ChunkCount != 6 || !reflect.DeepEqual(old.Datasets, m.Datasets) || len(old.Entries) != len(m.Entries) {
		t.Fatalf("%d entries, %d chunks, %v", len(old.Entries), old.ChunkCount, old.Datasets)
	}
	for i, e := range m.Entries {
		o := old.Entries[i]
		if o.Name != e.Name || o.Matrices != 1 || o.Cols != e.Matrices*e.Cols || o.Counts[0] <= 0 {
			t.Fatalf("%s of %d columns for %s of %d×%d", o.Name, o.Cols, e.Name, e.Matrices, e.Cols)
		}
		for k := range o.Sum2 {
			want := 1.0
			if n := e.Counts[k/e.Cols]; n > 0 {
				want = float64(e.Sum2[k]) / float64(n)
			}
			if got := float64(o.Sum2[k]) / float64(o.Counts[0]); math.Abs(got-want) > 3e-7*want {
				t.Fatalf("%s: mean %d is %g, want %g", e.Name, k, got, want)
			}
		}
	}
	// The other order of bytes, and a file without its tail.
	raw, err := os.ReadFile(imatrixFile("mixtral.dat"))
	if err != nil {
		t.Fatal(err)
	}
	for what, b := range map[string][]byte{"big-endian": swapDat(raw), "without its tail": raw[:len(raw)-len("letters.txt")-8]} {
		other, err := ReadImatrix(writeFile(t, b))
		if err != nil {
			t.Fatal(what, err)
		}
		if !reflect.DeepEqual(other.Entries, old.Entries) {
			t.Errorf("%s: other entries", what)
		}
	}
}

// swapDat turns the numbers of a .dat round.
func swapDat(raw []byte) []byte {
	var b []byte
	at := 0
	number := func() uint32 {
		n := binary.LittleEndian.Uint32(raw[at:])
		b = binary.BigEndian.AppendUint32(b, n)
		at += 4
		return n
	}
	word := func() {
		n := int(number())
		b = append(b, raw[at:at+n]...)
		at += n
	}
	for range number() {
		word()
		number()
		for range number() {
			number()
		}
	}
	number()
	word()
	return b
}

func tinyImatrix() *Imatrix {
	return &Imatrix{Datasets: []string{"text"}, ChunkCount: 2, ChunkSize: 8, Notes: []string{"a note"}, Entries: []ImatrixEntry{
		{Name: "blk.0.attn_q.weight", Cols: 3, Matrices: 1, Sum2: []float32{1, 2, 3}, Counts: []float32{16}},
		{Name: "blk.0.ffn_down_exps.weight", Cols: 2, Matrices: 2, Sum2: []float32{1, 2, 0, 0}, Counts: []float32{16, 0}},
	}}
}

// What is wrong with an imatrix is told by its place, whether it is read or to be
// written.
func TestImatrixDamaged(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		change  func(*Imatrix)
		mention string
	}{
		{func(m *Imatrix) { m.Entries[0].Sum2[1] = nan }, "attn_q.weight\": the sum of squares of column 1 of matrix 0 is NaN"},
		{func(m *Imatrix) { m.Entries[1].Sum2[1] = inf }, "ffn_down_exps.weight\": the sum of squares of column 1 of matrix 0 is +Inf"},
		{func(m *Imatrix) { m.Entries[1].Sum2[3] = -1 }, "column 1 of matrix 1 is -1"},
		{func(m *Imatrix) { m.Entries[1].Counts[1] = -1 }, "count 1 is -1"},
		{func(m *Imatrix) { m.Entries[0].Counts[0] = nan }, "count 0 is NaN"},
		{func(m *Imatrix) { m.Entries[0].Counts[0] = 2.5 }, "count 0 is 2.5"},
	} {
		m := tinyImatrix()
		good := written(t, m)
		bad := *m
		bad.Entries = []ImatrixEntry{tinyImatrix().Entries[0], tinyImatrix().Entries[1]}
		c.change(&bad)
		says(t, WriteImatrix(&bytes.Buffer{}, &bad), c.mention)
		// The same values, put into the bytes of a good file.
		f := open(t, writeFile(t, good))
		for _, e := range bad.Entries {
			for suffix, x := range map[string][]float32{".in_sum2": e.Sum2, ".counts": e.Counts} {
				at, ok := f.Lookup(e.Name + suffix)
				if !ok {
					t.Fatal(e.Name)
				}
				for i, v := range x {
					binary.LittleEndian.PutUint32(good[at.Offset+4*int64(i):], math.Float32bits(v))
				}
			}
		}
		_, err := ReadImatrix(writeFile(t, good))
		refused(t, c.mention, err, c.mention)
	}
	for _, c := range []struct {
		tensors []Tensor
		pairs   []Pair
		mention string
	}{
		{tensors: []Tensor{F32Tensor("a.in_sum2", 2)}, mention: `"a.in_sum2": stands without a.counts`},
		{tensors: []Tensor{F32Tensor("a.counts", 2)}, mention: `"a.counts": stands without a.in_sum2`},
		{tensors: []Tensor{F32Tensor("a.in_sum2", 3), F32Tensor("a.counts", 2)}, mention: `"a.in_sum2": 3 sums for 2 counts`},
		{tensors: []Tensor{F32Tensor("a.in_sum2", 0), F32Tensor("a.counts", 1)}, mention: "0 sums for 1 counts"},
		{tensors: []Tensor{{Name: "a.in_sum2", Type: 1, Shape: []int64{2}}, F32Tensor("a.counts", 1)}, mention: "type F16, want F32"},
		{tensors: []Tensor{F32Tensor("a", 1)}, mention: "no imatrix"},
		{tensors: []Tensor{F32Tensor("a.in_sum2", 1), F32Tensor("a.counts", 1)}, pairs: []Pair{{"general.type", Word("model")}}, mention: `"model"`},
		{tensors: []Tensor{F32Tensor("a.in_sum2", 1), F32Tensor("a.counts", 1)}, pairs: []Pair{{"imatrix.chunk_size", Word("x")}}, mention: "imatrix.chunk_size is x"},
	} {
		var b bytes.Buffer
		w, err := NewWriter(&b, c.pairs, c.tensors)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range c.tensors {
			n, _ := x.size("", x.Elements())
			if _, err := w.Write(make([]byte, n)); err != nil {
				t.Fatal(err)
			}
		}
		_, err = ReadImatrix(writeFile(t, b.Bytes()))
		refused(t, c.mention, err, c.mention)
	}
	dat, err := os.ReadFile(imatrixFile("mixtral.dat"))
	if err != nil {
		t.Fatal(err)
	}
	put := func(at int, n uint32) []byte {
		b := bytes.Clone(dat)
		binary.LittleEndian.PutUint32(b[at:], n)
		return b
	}
	for _, c := range []struct {
		b       []byte
		mention string
	}{
		{nil, "too short"}, {[]byte{1, 2}, "too short"}, {put(0, 0), "count of 0"}, {put(0, 1<<30), "count of 1073741824"}, {put(4, 1<<20), "a length of 1048576"},
		{put(4+4+len("blk.0.attn_k.weight")+4, 1<<28), "268435456 values"}, {dat[:len(dat)-4], "beyond the end"}, {append(bytes.Clone(dat), 0), "1 bytes follow the end"},
		{[]byte("This is a text, and no importance matrix."), "neither GGUF nor the older"},
	} {
		_, err := ReadImatrix(writeFile(t, c.b))
		refused(t, c.mention, err, c.mention)
	}
}

// However a file is damaged, it is read or refused with its name, and what is read
// is written and read the same.
func FuzzImatrix(f *testing.F) {
	for _, name := range []string{"llama_tied.gguf", "qwen3_moe.gguf", "big-endian.gguf", "mixtral.dat"} {
		raw, err := os.ReadFile(imatrixFile(name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
		f.Add(raw[:len(raw)/2])
		f.Add(raw[:min(len(raw), 2000)])
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := writeFile(t, raw)
		m, err := ReadImatrix(path)
		if err != nil {
			if !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q does not name the file on one line", err)
			}
			return
		}
		for _, e := range m.Entries {
			if len(e.Name) > maxWrittenName-len(sumSuffix) {
				return
			}
		}
		m.Legacy, m.Others = false, nil
		again, err := ReadImatrix(writeFile(t, written(t, m)))
		if err != nil {
			t.Fatal(err)
		}
		if len(again.Entries) != len(m.Entries) || !reflect.DeepEqual(again.Entries, m.Entries) {
			t.Error("entries differ after they were written")
		}
	})
}

// Names of linear maps go both ways, and agree with what a model's file has.
func TestLinearNames(t *testing.T) {
	for l, module := range linearNames {
		r := topology.Role{Kind: l.kind, Layer: 3, Expert: -1, Projection: l.projection, Param: "weight"}
		name, stacked, ok := LinearName(r)
		back, stacked2, ok2 := LinearRole(name)
		if !ok || !ok2 || back != r || stacked != stacked2 || stacked != (l.kind == topology.Expert) || !strings.Contains(name, module) {
			t.Errorf("%+v is %s, which is %+v", r, name, back)
		}
	}
	for name, want := range map[string]topology.Role{
		"output.weight":              {Kind: topology.Head, Layer: -1, Expert: -1, Param: "weight"},
		"blk.12.ffn_up.7.weight":     {Kind: topology.Expert, Layer: 12, Expert: 7, Projection: "up", Param: "weight"},
		"blk.0.nextn.eh_proj.weight": {Kind: topology.MTPExtra, Layer: 0, Expert: -1, Projection: "eh_proj", Param: "weight"},
	} {
		if r, _, ok := LinearRole(name); !ok || r != want {
			t.Errorf("%s is %+v", name, r)
		}
	}
	for _, name := range []string{"blk.0.attn_norm.weight", "blk.0.attn_q.bias", "token_embd.weight", "blk.x.attn_q.weight", "blk.-1.attn_q.weight", "", "blk.0.attn_k_b.weight"} {
		if r, _, ok := LinearRole(name); ok {
			t.Errorf("%q is %+v", name, r)
		}
	}
	for _, r := range []topology.Role{{Kind: topology.Norm, Layer: 0}, {Kind: topology.Attention, Layer: -1, Projection: "q"}, {Kind: topology.Attention, Layer: 0, Projection: "qkv_a"}, {Kind: topology.Embedding, Layer: -1}} {
		if name, _, ok := LinearName(r); ok {
			t.Errorf("%+v is %s", r, name)
		}
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "analysis", "candidate", "testdata", "gguf", "*.gguf"))
	if err != nil || len(files) == 0 {
		t.Fatal("no models", err)
	}
	for _, path := range files {
		m, err := OpenModel(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Close() })
		for i, r := range m.Topology.Roles {
			w := &m.Weights[i]
			if w.Vector || r.Kind == topology.Embedding || r.Projection == "kv_b" {
				continue
			}
			if name, _, ok := LinearName(r); !ok || name != m.Stored(w) {
				t.Errorf("%s: %+v is %s, and is stored as %s", path, r, name, m.Stored(w))
			}
		}
	}
}
