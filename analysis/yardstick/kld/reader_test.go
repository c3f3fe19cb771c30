package kld

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// file is a small whole file: 2 chunks of 8 tokens over 5, rows of which the first
// has scale 0.
func file(t testing.TB) []byte {
	t.Helper()
	l := Layout{NCtx: 8, Vocab: 5, Chunks: 2}
	b := l.encode()
	for i := range l.NCtx * l.Chunks {
		b = binary.LittleEndian.AppendUint32(b, uint32(i%l.Vocab))
	}
	row := Row{}
	raw := make([]byte, l.rowBytes())
	for i := range l.Chunks * l.Rows() {
		logits := []float32{1, 1, 1, 1, 1}
		if i > 0 {
			logits = []float32{0, float32(i), -3, -40, 2}
		}
		if _, err := row.Set(logits, 0); err != nil {
			t.Fatal(err)
		}
		row.encode(raw)
		b = append(b, raw...)
	}
	return b
}

func write(t testing.TB, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "base.kld")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLayout(t *testing.T) {
	l := Layout{NCtx: 512, Vocab: 32000, Chunks: 655}
	if l.First() != 256 || l.Rows() != 255 || l.rowBytes() != 64008 {
		t.Errorf("first %d, rows %d of %d bytes", l.First(), l.Rows(), l.rowBytes())
	}
	if odd := (Layout{NCtx: 9, Vocab: 5, Chunks: 1}); odd.rowBytes() != 8+2*6 || odd.Rows() != 4 || odd.First() != 4 || odd.Size() != 20+4*9+4*20 {
		t.Errorf("an odd vocabulary: rows %d of %d bytes, %d in all", odd.Rows(), odd.rowBytes(), odd.Size())
	}
	if got := l.Size(); got != 20+4*512*655+655*255*64008 {
		t.Errorf("size %d", got)
	}
}

func TestRowWithoutSpread(t *testing.T) {
	r := open(t, write(t, file(t)))
	var row Row
	if err := r.Row(0, 0, &row); err != nil {
		t.Fatal(err)
	}
	if row.Scale != 0 || row.LogProb(3) != row.Least || row.LogProb(3) > -1.6094 || row.LogProb(3) < -1.6095 {
		t.Errorf("scale %g, ln p %g, want 0 and −ln 5", row.Scale, row.LogProb(3))
	}
}

func TestBadFiles(t *testing.T) {
	good := file(t)
	set := func(at int, v uint32) []byte {
		b := append([]byte{}, good...)
		binary.LittleEndian.PutUint32(b[at:], v)
		return b
	}
	l := Layout{NCtx: 8, Vocab: 5, Chunks: 2}
	for name, c := range map[string]struct {
		data    []byte
		mention string
	}{
		"empty":                    {nil, "too short"},
		"a cut header":             {good[:19], "too short"},
		"another magic":            {append([]byte("_logitz_"), good[8:]...), "does not begin with _logits_"},
		"cut tokens":               {good[:60], "do not hold the 2·8 tokens"},
		"cut rows":                 {good[:l.at(1, 1)], "cut after 1 of 2 chunks"},
		"one byte short":           {good[:len(good)-1], "cut after 1 of 2 chunks"},
		"one byte more":            {append(append([]byte{}, good...), 0), "1 more than the header asks for"},
		"another vocabulary":       {set(12, 7), "cut after 1 of 2 chunks"},
		"no vocabulary":            {set(12, 0), "n_vocab is 0"},
		"a negative vocabulary":    {set(12, 0x80000000), "n_vocab is -2147483648"},
		"a vocabulary of billions": {set(12, 0x7FFFFFFF), "n_vocab is 2147483647"},
		"no context":               {set(8, 0), "n_ctx is 0"},
		"a context without rows":   {set(8, 2), "n_ctx is 2"},
		"a context too long":       {set(8, 0x7FFFFFFF), "n_ctx is 2147483647"},
		"no chunks":                {set(16, 0), "n_chunk is 0"},
		"chunks in billions":       {set(16, 0x7FFFFFFF), "n_chunk is 2147483647"},
		"negative chunks":          {set(16, 0xFFFFFFFF), "n_chunk is -1"},
		"a token too large":        {set(20+4*11, 5), "token 5 at position 3 of chunk 1"},
		"a negative token":         {set(20, 0xFFFFFFFF), "token -1 at position 0 of chunk 0"},
		"a scale that is NaN":      {set(int(l.at(0, 0)), 0x7FC00000), "row 0 of chunk 0 has scale NaN"},
		"a negative scale":         {set(int(l.at(1, 0)), 0xBF800000), "row 0 of chunk 1 has scale -1"},
		"a scale too large":        {set(int(l.at(1, 0)), math.Float32bits(24./65535)), "row 0 of chunk 1: its probabilities sum to"},
		"a minimum above 0":        {set(int(l.at(0, 0))+4, math.Float32bits(50)), "row 0 of chunk 0: its probabilities sum to"},
		"a minimum too small":      {set(int(l.at(0, 0))+4, math.Float32bits(-3)), "row 0 of chunk 0: its probabilities sum to"},
		"a minimum of -Inf":        {set(int(l.at(0, 0))+4, 0xFF800000), "least ln p -Inf"},
	} {
		path := write(t, c.data)
		r, err := Open(path)
		if err == nil {
			_ = r.Close()
			t.Errorf("%s: no error", name)
			continue
		}
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.mention) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestRowsOutside(t *testing.T) {
	r := open(t, write(t, file(t)))
	var row Row
	for _, at := range [][2]int{{-1, 0}, {2, 0}, {0, -1}, {0, 3}} {
		if err := r.Row(at[0], at[1], &row); err == nil {
			t.Errorf("row %d of chunk %d: no error", at[1], at[0])
		}
	}
	if err := os.Truncate(r.Path, r.at(1, 2)); err != nil {
		t.Fatal(err)
	}
	if err := r.Row(1, 2, &row); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "become shorter") {
		t.Errorf("a row behind the end: %v", err)
	}
}

// A row with a spread of 24 nats is one of ik_llama.cpp's.
func TestDeepRows(t *testing.T) {
	b := file(t)
	if r := open(t, write(t, b)); r.Deep() {
		t.Error("a spread of 16 is taken for a deeper one")
	}
	l := Layout{NCtx: 8, Vocab: 5, Chunks: 2}
	var row Row
	row.Scale, row.Least, row.Codes = 24./65535, -24, []uint16{0, 65535, 0, 9, 0}
	row.encode(b[l.at(1, 0):l.at(1, 1)])
	if r := open(t, write(t, b)); !r.Deep() {
		t.Error("a spread of 24 is not noticed")
	}
}

func FuzzOpen(f *testing.F) {
	good := file(f)
	f.Add(good)
	for _, n := range []int{0, 8, 19, 20, 40, 84, len(good) - 1} {
		f.Add(good[:n])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Open(write(t, b))
		if err != nil {
			return
		}
		defer r.Close()
		if r.Size() != int64(len(b)) {
			t.Errorf("%d bytes pass for %d", len(b), r.Size())
		}
		var row Row
		for c := range r.Chunks {
			for i := range r.Rows() {
				_ = r.Row(c, i, &row)
			}
		}
	})
}
