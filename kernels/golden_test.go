package kernels

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tensor is one tensor of a file of reference data.
type tensor struct {
	DType   string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets [2]int `json:"data_offsets"`
	data    []byte
}

// golden reads a safetensors file below testdata. These are our own fixtures,
// so a broken one fails the test.
func golden(t testing.TB, path string) map[string]tensor {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	header := binary.LittleEndian.Uint64(raw)
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(raw[8:8+header], &entries); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	tensors := map[string]tensor{}
	for name, entry := range entries {
		if name == "__metadata__" {
			continue
		}
		var x tensor
		if err := json.Unmarshal(entry, &x); err != nil {
			t.Fatalf("%s: %s: %v", path, name, err)
		}
		x.data = raw[8+int(header):][x.Offsets[0]:x.Offsets[1]]
		tensors[name] = x
	}
	return tensors
}

// need is the named tensor, which must be there.
func need(t testing.TB, tensors map[string]tensor, name string) tensor {
	t.Helper()
	x, ok := tensors[name]
	if !ok {
		t.Fatalf("no tensor %q in the fixture", name)
	}
	return x
}

func (x tensor) f32() []float32 {
	out := make([]float32, len(x.data)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(x.data[4*i:]))
	}
	return out
}

func (x tensor) f64() []float64 {
	out := make([]float64, len(x.data)/8)
	for i := range out {
		out[i] = math.Float64frombits(binary.LittleEndian.Uint64(x.data[8*i:]))
	}
	return out
}

func (x tensor) u16() []uint16 {
	out := make([]uint16, len(x.data)/2)
	for i := range out {
		out[i] = binary.LittleEndian.Uint16(x.data[2*i:])
	}
	return out
}

func (x tensor) i32() []int32 {
	out := make([]int32, len(x.data)/4)
	for i := range out {
		out[i] = int32(binary.LittleEndian.Uint32(x.data[4*i:]))
	}
	return out
}

// matrix is a BF16 or F32 tensor with its leading dimensions taken as rows.
func (x tensor) matrix(t testing.TB) Matrix {
	t.Helper()
	elements := map[string]Element{"BF16": BF16, "F16": F16, "F32": F32}
	e, ok := elements[x.DType]
	if !ok {
		t.Fatalf("no matrix: %s", x.DType)
	}
	rows := 1
	for _, n := range x.Shape[:len(x.Shape)-1] {
		rows *= n
	}
	return Matrix{Element: e, Rows: rows, Cols: x.Shape[len(x.Shape)-1], Data: x.data}
}

func sameF32(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

// A fixture that was changed by accident is found out, and so is one that
// nobody lists.
func TestFixturesAreWhatTheyWere(t *testing.T) {
	list, err := os.ReadFile(filepath.Join("testdata", "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(list)) {
		want, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			t.Fatalf("line %q", line)
		}
		listed[name] = true
		raw, err := os.ReadFile(filepath.Join("testdata", filepath.FromSlash(name)))
		if err != nil {
			t.Error(err)
			continue
		}
		if sum := sha256.Sum256(raw); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s is not what SHA256SUMS says", name)
		}
	}
	for _, dir := range []string{"golden", "cases"} {
		entries, err := os.ReadDir(filepath.Join("testdata", dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !listed[dir+"/"+e.Name()] {
				t.Errorf("%s/%s is not in SHA256SUMS", dir, e.Name())
			}
		}
	}
}
