package codes

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantscope/quant/checkpoint"
)

var testIDs = [][]int32{{1, 2, 3}, {4, 5}, {6}}

func testManifest() Manifest {
	raw, _ := encodeIDs(testIDs)
	return Manifest{
		Source: "abc", Variant: "int4-g128+gptq", Convention: "own", GlobalScale: "shared", Targets: "", Damp: 0.01,
		Matrices: []string{"a.weight", "b.weight", "c[3].gate", "head"}, Units: []string{"layer 0", "layer 3", "head"},
		Inputs: "sequential", Numerics: "1", Program: "test",
		Corpus: Corpus{Name: "calib", Source: "demo", SHA256: fmt.Sprintf("%x", sha256.Sum256(raw)), Tokenizer: "t", Chunks: 3, Tokens: 6},
	}
}

// testMatrix is one whose bytes depend on the seed.
func testMatrix(name string, rows, cols, seed int) Matrix {
	fill := func(n, salt int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(i*7 + seed*31 + salt)
		}
		return b
	}
	return Matrix{
		Name: name, Rows: rows, Cols: cols, Codes: fill(rows*cols/2, 1), Scales: fill(2*rows, 2), Mins: fill(2*rows, 3), Global: float32(seed) / 3,
		Effective: "int4-g128+gptq", Figures: []byte(fmt.Sprintf(`{"rel2":%d}`, seed)),
	}
}

// testUnits are what the folder of testManifest holds.
func testUnits() map[string][]Matrix {
	odd := testMatrix("b.weight", 3, 4, 2)
	odd.Scales, odd.Mins, odd.Why = []byte{1, 2, 3, 4}, nil, "no token was routed to it"
	kept := Matrix{Name: "c[3].gate", Rows: 5, Cols: 7, Effective: "f8_e4m3", Why: "is stored so"}
	return map[string][]Matrix{
		"layer 0": {testMatrix("a.weight", 4, 8, 1), odd},
		"layer 3": {kept},
		"head":    {testMatrix("head", 0, 8, 3)},
	}
}

func create(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Create(dir, testManifest(), testIDs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func put(t *testing.T, s *Store, units ...string) {
	t.Helper()
	for _, u := range units {
		if err := s.Put(u, testUnits()[u], []byte(`{"unit":"`+u+`"}`)); err != nil {
			t.Fatal(err)
		}
	}
}

// equalUnits compares what a store reads with what was put.
func equalUnits(t *testing.T, s *Store, units ...string) {
	t.Helper()
	empty := func(b []byte) []byte {
		if len(b) == 0 {
			return nil
		}
		return b
	}
	for _, u := range units {
		got, note, err := s.Unit(u)
		if err != nil {
			t.Fatal(err)
		}
		want := testUnits()[u]
		for i := range want {
			w := &want[i]
			w.Codes, w.Scales, w.Mins, w.Figures = empty(w.Codes), empty(w.Scales), empty(w.Mins), empty(w.Figures)
		}
		if d := cmp.Diff(want, got); d != "" || string(note) != `{"unit":"`+u+`"}` {
			t.Errorf("%s: note %s, %s", u, note, d)
		}
		for _, w := range want {
			m, err := s.Matrix(w.Name)
			if err != nil || cmp.Diff(w, m) != "" {
				t.Errorf("%s alone: %v %s", w.Name, err, cmp.Diff(w, m))
			}
		}
		if about, _, err := s.Describe(u); err != nil || len(about) != len(want) || about[0].Why != want[0].Why || about[0].Codes != nil {
			t.Errorf("%s is described as %+v, %v", u, about, err)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "codes")
	if IsStore(filepath.Dir(dir)) {
		t.Error("no folder is one of codes")
	}
	s := create(t, dir)
	if s.Whole() || s.Has("layer 0") || !IsStore(dir) {
		t.Error("a folder that was just begun has units, or is none")
	}
	put(t, s, "head", "layer 0") // in any order
	if d := cmp.Diff([]string{"layer 3"}, s.Missing()); d != "" {
		t.Error(d)
	}
	equalUnits(t, s, "layer 0")
	r, err := Open(dir) // while it is being written
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, _, err := r.Unit("layer 3"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "layer 3") {
		t.Errorf("a unit that is not there: %v", err)
	}
	if _, err := r.Matrix("c[3].gate"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a matrix that is not there: %v", err)
	}
	put(t, s, "layer 3")
	if !s.Whole() || !r.Whole() {
		t.Error("all units were put, and the folder is not whole")
	}
	equalUnits(t, r, "layer 0", "layer 3", "head")
	ids, err := r.Chunks()
	if err != nil || cmp.Diff(testIDs, ids) != "" {
		t.Errorf("%v, %v", ids, err)
	}
	want := testManifest()
	want.Format = 1
	if d := cmp.Diff(want, r.Manifest()); d != "" || r.Dir() != dir {
		t.Error(d)
	}
	if _, err := r.Matrix("d"); err == nil || !strings.Contains(err.Error(), `"d"`) {
		t.Errorf("another's matrix: %v", err)
	}
	if err := r.Put("head", nil, nil); err == nil || !strings.Contains(err.Error(), "opened to be read") {
		t.Errorf("a reader writes: %v", err)
	}
	if err := s.Put("head", nil, nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a unit is written twice: %v", err)
	}
	// The codes of a global scale that is no number come back as they were.
	nan := math.Float32frombits(0x7fc01234)
	if m := testMatrix("x", 1, 2, 1); m.sum() == (&Matrix{Name: "x", Codes: m.Codes, Scales: m.Scales, Mins: m.Mins, Global: nan}).sum() {
		t.Error("the digest leaves the global scale out")
	}
}

// Codes, scales and minima that change places between fields have another digest.
func TestSumKnowsFields(t *testing.T) {
	a := Matrix{Codes: []byte{1, 2}, Scales: []byte{3}}
	b := Matrix{Codes: []byte{1}, Scales: []byte{2, 3}}
	if a.sum() == b.sum() {
		t.Error("bytes of scales pass for codes")
	}
}

func TestGoesOn(t *testing.T) {
	dir := t.TempDir()
	s := create(t, dir)
	put(t, s, "layer 0")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	m := testManifest()
	m.Program = "a later one"
	m.Corpus.Name = "otherwise called"
	again, err := Create(dir, m, testIDs)
	if err != nil {
		t.Fatal(err)
	}
	if again.Manifest().Program != "test" {
		t.Error("the manifest was written anew")
	}
	equalUnits(t, again, "layer 0")
	put(t, again, "layer 3", "head")
	equalUnits(t, again, "layer 3", "head")
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct {
		field    string
		old, now string
		change   func(*Manifest)
	}{
		{"source identity", "abc", "abd", func(m *Manifest) { m.Source = "abd" }},
		{"variant", "int4-g128+gptq", "nvfp4+gptq", func(m *Manifest) { m.Variant = "nvfp4+gptq" }},
		{"convention", "own", "ct32", func(m *Manifest) { m.Convention = "ct32" }},
		{"global scale", "shared", "tensor", func(m *Manifest) { m.GlobalScale = "tensor" }},
		{"targets", "none", "*", func(m *Manifest) { m.Targets = "*" }},
		{"calibrated projections", "all", "gate,up", func(m *Manifest) { m.Only = []string{"gate", "up"} }},
		{"damping", "0.01", "0.1", func(m *Manifest) { m.Damp = 0.1 }},
		{"inputs", "sequential", "f00", func(m *Manifest) { m.Inputs = "f00" }},
		{"numerics", "1", "2", func(m *Manifest) { m.Numerics = "2" }},
		{"the list of matrices", `4, with "c[3].gate" as number 2`, "2", func(m *Manifest) { m.Matrices = m.Matrices[:2] }},
		{"the list of units", "3", `4, with "mtp 5" as number 3`, func(m *Manifest) { m.Units = append(m.Units, "mtp 5") }},
	} {
		m := testManifest()
		c.change(&m)
		_, err := Create(dir, m, testIDs)
		var d *DifferError
		if !errors.As(err, &d) || d.Field != c.field || d.Old != c.old || d.New != c.now || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", c.field, err)
		}
	}
	fewer := testIDs[:2]
	raw, _ := encodeIDs(fewer)
	m = testManifest()
	m.Corpus.SHA256, m.Corpus.Chunks, m.Corpus.Tokens = fmt.Sprintf("%x", sha256.Sum256(raw)), 2, 5
	if _, err := Create(dir, m, fewer); err == nil || !strings.Contains(err.Error(), "corpus was") || !strings.Contains(err.Error(), "2 chunks and 5 tokens") {
		t.Errorf("another corpus: %v", err)
	}
	if _, err := Create(dir, testManifest(), fewer); err == nil || !strings.Contains(err.Error(), "5 tokens") {
		t.Errorf("ids that are not the manifest's: %v", err)
	}
}

func TestOneWriter(t *testing.T) {
	dir := t.TempDir()
	s := create(t, dir)
	if _, err := Create(dir, testManifest(), testIDs); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("a second writer: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := create(t, dir).Close(); err != nil {
		t.Fatal(err)
	}
}

func TestForeignFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir, testManifest(), testIDs); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "notes.txt") {
		t.Errorf("a folder of something else: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, lockName)); err == nil {
		t.Error("its lock is left in it")
	}
	var file *checkpoint.FileError
	if _, err := Open(dir); !errors.As(err, &file) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opened: %v", err)
	}
	if _, err := Create(filepath.Join(dir, "notes.txt", "codes"), testManifest(), testIDs); !errors.As(err, &file) {
		t.Errorf("a folder below a file: %v", err)
	}
	if IsStore(filepath.Join(dir, "none")) {
		t.Error("what is not there holds codes")
	}
}

// What a killed writer leaves is removed by the next one, and read by nobody.
func TestHalfWritten(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"." + corpusName + ".0123456789ab.tmp", corpusName, lockName, "." + manifestName + ".0123456789ab.tmp"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	s := create(t, dir)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(dir, "."+unitFile(0, "layer 0")+".0123456789ab.tmp")
	if err := os.WriteFile(half, []byte("half"), 0o666); err != nil {
		t.Fatal(err)
	}
	r, err := Open(dir)
	if err != nil || r.Has("layer 0") {
		t.Errorf("%v: half a unit is taken for one", err)
	}
	s = create(t, dir)
	put(t, s, "layer 0", "layer 3", "head")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := []string{"codes.json", "corpus.safetensors", "unit-000-layer-0.safetensors", "unit-001-layer-3.safetensors", "unit-002-head.safetensors"}
	if d := cmp.Diff(want, names); d != "" {
		t.Error(d)
	}
}

func TestPutRefuses(t *testing.T) {
	s := create(t, t.TempDir())
	one := func(change func(*Matrix)) []Matrix {
		m := testMatrix("a.weight", 4, 8, 1)
		change(&m)
		return []Matrix{m}
	}
	for _, c := range []struct {
		reason string
		unit   string
		list   []Matrix
		note   string
	}{
		{`unit "layer 9"`, "layer 9", nil, ""},
		{"not one of the folder's matrices", "head", one(func(m *Matrix) { m.Name = "z" }), ""},
		{"is there twice", "head", append(one(func(*Matrix) {}), one(func(*Matrix) {})...), ""},
		{"-1×8 is no shape", "head", one(func(m *Matrix) { m.Rows = -1 }), ""},
		{"15 bytes of codes are no 4 rows", "head", one(func(m *Matrix) { m.Codes = m.Codes[:15] }), ""},
		{"figures are no JSON", "head", one(func(m *Matrix) { m.Figures = []byte("NaN") }), ""},
		{"note is no JSON", "head", nil, "{"},
	} {
		err := s.Put(c.unit, c.list, []byte(c.note))
		if err == nil || !strings.Contains(err.Error(), c.reason) || !strings.Contains(err.Error(), s.Dir()) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", c.reason, err)
		}
		if s.Has("head") {
			t.Fatalf("%s: it is there", c.reason)
		}
	}
	for _, change := range []func(*Manifest){
		func(m *Manifest) { m.Units = []string{"a", "a"} },
		func(m *Manifest) { m.Matrices = []string{""} },
	} {
		m := testManifest()
		change(&m)
		if _, err := Create(t.TempDir(), m, testIDs); err == nil {
			t.Errorf("%v and %v are begun", m.Units, m.Matrices)
		}
	}
}

// Two folders of the same codes are the same bytes.
func TestSameBytes(t *testing.T) {
	var dirs [2]string
	for i := range dirs {
		dirs[i] = t.TempDir()
		put(t, create(t, dirs[i]), "layer 0", "layer 3", "head")
	}
	for _, name := range []string{manifestName, corpusName, unitFile(0, "layer 0"), unitFile(1, "layer 3"), unitFile(2, "head")} {
		a, err := os.ReadFile(filepath.Join(dirs[0], name))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(dirs[1], name))
		if err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s: %v, or other bytes", name, err)
		}
	}
}
