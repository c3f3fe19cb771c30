package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// caseFile is an expect.json of testdata/cases: hostile and odd files with
// what must come of them.
type caseFile struct {
	Kind    string
	PerFile map[string]mention `json:"per_file"`
	PerDir  map[string]struct {
		Kind        string
		TensorsUsed int `json:"tensors_used"`
		mention
	} `json:"per_dir"`
	Tensors map[string]caseTensor
	Widths  map[string]*int
}

// mention is what a message must hold: every string of the first list, one of
// each list of the second, case ignored.
type mention struct {
	All []string   `json:"must_mention"`
	Any [][]string `json:"must_mention_any"`
}

type caseTensor struct {
	DType   string
	Shape   []int64
	Count   *int64
	Bytes   int64 `json:"nbytes"`
	Exact   []any
	Decoded *struct {
		SHA256   string `json:"sha256_f32le"`
		NaN      int
		Zeros    int
		NegZeros int `json:"negative_zeros"`
	}
}

func readCase(t *testing.T, dir string) caseFile {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata/cases", dir, "expect.json"))
	if err != nil {
		t.Fatal(err)
	}
	var c caseFile
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func (m mention) check(t *testing.T, text string) {
	t.Helper()
	lower := strings.ToLower(text)
	for _, s := range m.All {
		if !strings.Contains(lower, strings.ToLower(s)) {
			t.Errorf("%q is not in: %s", s, text)
		}
	}
	for _, list := range m.Any {
		found := false
		for _, s := range list {
			found = found || strings.Contains(lower, strings.ToLower(s))
		}
		if !found {
			t.Errorf("none of %q is in: %s", list, text)
		}
	}
	if strings.ContainsAny(text, "\n\r") {
		t.Errorf("more than one line: %q", text)
	}
}

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// maxRefusal is the most memory that refusing one of the small hostile files
// may cost. The lengths that they claim are 100 MB and more.
const maxRefusal = 256 << 10

func TestCasesRefused(t *testing.T) {
	wantFiles := map[string]int{
		"C01-pointer": 2, "C02-header-length": 3, "C03-overlap-hole": 2,
		"C04-duplicate-key": 2, "C05-size-arithmetic": 3, "C09-truncated": 1,
	}
	for dir, n := range wantFiles {
		c := readCase(t, dir)
		if len(c.PerFile) != n || c.Kind != "error" {
			t.Errorf("%s: kind %s with %d files, want error with %d", dir, c.Kind, len(c.PerFile), n)
		}
		for file, want := range c.PerFile {
			t.Run(dir+"/"+file, func(t *testing.T) {
				path := filepath.Join("testdata/cases", dir, file)
				var err error
				n := allocated(func() { _, err = Open(path) })
				if err == nil {
					t.Fatal("opened")
				}
				want.check(t, err.Error())
				if file == "model-00002-of-00003.safetensors" && !strings.Contains(err.Error(), "is a Git LFS pointer, not the weights: 135 bytes of text that stand for 4976698672") {
					t.Errorf("not said what it stands for: %v", err)
				}
				var fe *FileError
				if !errors.As(err, &fe) || fe.File != path || fe.Reason == "" {
					t.Errorf("not a FileError about %s: %#v", path, err)
				}
				if n > maxRefusal {
					t.Errorf("%d bytes allocated, want at most %d", n, maxRefusal)
				}
			})
		}
	}
}

func TestCaseUnknownDTypeIsUnsupported(t *testing.T) {
	_, err := Open("testdata/cases/C05-size-arithmetic/unknown-dtype.safetensors")
	if !errors.Is(err, ErrUnsupported) {
		t.Errorf("%v is not ErrUnsupported", err)
	}
	for _, text := range []string{`"F8_E3M4"`, "64000", "BF16"} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%s is not in: %v", text, err)
		}
	}
	if _, err := Open("testdata/cases/C05-size-arithmetic/too-big.safetensors"); errors.Is(err, ErrUnsupported) {
		t.Errorf("a broken file counts as unsupported: %v", err)
	}
}

func TestCaseTruncatedNamesBothSizes(t *testing.T) {
	_, err := Open("testdata/cases/C09-truncated/model-00003-of-00004.safetensors")
	for _, text := range []string{"2148", "2248", "924"} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%s is not in: %v", text, err)
		}
	}
}

func TestCaseValues(t *testing.T) {
	for _, path := range []string{"C06-dtypes/dtypes.safetensors", "C07-layout/layout.safetensors"} {
		want := readCase(t, filepath.Dir(path))
		if len(want.Tensors) == 0 {
			t.Fatalf("%s: no tensors expected", path)
		}
		c, err := Open(filepath.Join("testdata/cases", path))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if len(c.Tensors) != len(want.Tensors) || len(c.Findings) != 0 {
			t.Errorf("%s: %d tensors, findings %v; want %d and none", path, len(c.Tensors), c.Findings, len(want.Tensors))
		}
		for name, w := range want.Tensors {
			t.Run(name, func(t *testing.T) { checkTensor(t, c, name, w) })
		}
	}
}

func checkTensor(t *testing.T, c *Checkpoint, name string, w caseTensor) {
	got, ok := c.Lookup(name)
	if !ok {
		t.Fatal("not found")
	}
	if got.DType.String() != w.DType || got.Size != w.Bytes || fmt.Sprint(got.Shape) != fmt.Sprint(w.Shape) {
		t.Errorf("%s %v of %d bytes, want %s %v of %d", got.DType, got.Shape, got.Size, w.DType, w.Shape, w.Bytes)
	}
	if w.Count != nil && got.Elements() != *w.Count {
		t.Errorf("%d elements, want %d", got.Elements(), *w.Count)
	}
	raw := make([]byte, got.Size)
	if err := c.ReadAt(context.Background(), got, 0, raw); err != nil {
		t.Fatal(err)
	}
	for i, want := range w.Exact {
		text, err := AppendElement(nil, got.DType, raw, i)
		if err != nil || string(text) != fmt.Sprint(want) {
			t.Errorf("element %d is %s, %v; want %v", i, text, err, want)
		}
	}
	if w.Decoded == nil {
		return
	}
	values := make([]float32, got.Elements())
	if err := DecodeF32(values, got.DType, raw); err != nil {
		t.Fatal(err)
	}
	sum, nan, zeros, negative := digest(values)
	if sum != w.Decoded.SHA256 {
		t.Errorf("sha256 of the values %s, want %s: %v", sum, w.Decoded.SHA256, values)
	}
	if nan != w.Decoded.NaN || zeros != w.Decoded.Zeros || negative != w.Decoded.NegZeros {
		t.Errorf("%d NaN, %d zeros, %d of them negative; want %d, %d, %d", nan, zeros, negative, w.Decoded.NaN, w.Decoded.Zeros, w.Decoded.NegZeros)
	}
}

// digest is the SHA-256 of the values as little-endian float32, each NaN as
// 0x7FC00000 and each zero as +0, and what was levelled by that.
func digest(values []float32) (sum string, nan, zeros, negative int) {
	var raw []byte
	for _, v := range values {
		bits := math.Float32bits(v)
		switch {
		case v != v:
			bits = 0x7FC00000
			nan++
		case v == 0:
			zeros++
			negative += int(bits >> 31)
			bits = 0
		}
		raw = binary.LittleEndian.AppendUint32(raw, bits)
	}
	h := sha256.Sum256(raw)
	return hex.EncodeToString(h[:]), nan, zeros, negative
}

func TestCaseMetadata(t *testing.T) {
	c, err := Open("testdata/cases/C07-layout/layout.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	want := map[string]string{"format": "pt", "note": "量子化 ≤ 4 bit ✓", "empty": ""}
	if diff := cmp.Diff(want, c.Files[0].Metadata); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
}

func TestCaseIndex(t *testing.T) {
	want := readCase(t, "C08-index").PerDir
	for _, suffix := range []string{"", "/model.safetensors.index.json"} {
		_, err := Open("testdata/cases/C08-index/absent" + suffix)
		if err == nil {
			t.Fatal("opened without its second shard")
		}
		want["absent"].check(t, err.Error())
		for _, text := range []string{"model.safetensors.index.json", "2 of 3 tensors"} {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%q is not in: %v", text, err)
			}
		}

		c, err := Open("testdata/cases/C08-index/leftover" + suffix)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if len(c.Tensors) != want["leftover"].TensorsUsed {
			t.Errorf("%d tensors, want %d", len(c.Tensors), want["leftover"].TensorsUsed)
		}
		if len(c.Findings) != 1 || c.Findings[0].File != "model-00001-of-00002.safetensors" {
			t.Fatalf("findings %v, want one about shard 1", c.Findings)
		}
		want["leftover"].check(t, c.Findings[0].Tensor+" "+c.Findings[0].Message)
		if _, ok := c.Lookup(c.Findings[0].Tensor); ok {
			t.Error("the tensor that was left out is found by name")
		}
		for i := range c.Tensors {
			if got, ok := c.Lookup(c.Tensors[i].Name); !ok || got != &c.Tensors[i] {
				t.Errorf("%s is not found by its name", c.Tensors[i].Name)
			}
		}
	}
}

func TestCaseWideNames(t *testing.T) {
	c, err := Open("testdata/cases/C41-wide-names")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	widths := readCase(t, "C41-wide-names").Widths
	if len(c.Tensors) != len(widths) {
		t.Errorf("%d tensors, want %d", len(c.Tensors), len(widths))
	}
	for name := range widths {
		if _, ok := c.Lookup(name); !ok {
			t.Errorf("%q is not found", name)
		}
	}
}
