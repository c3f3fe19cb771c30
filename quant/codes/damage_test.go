package codes

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantscope/quant/checkpoint"
)

// damagedStore is a whole folder with one file rewritten.
func damagedStore(t *testing.T, name string, change func([]byte) []byte) string {
	t.Helper()
	dir := t.TempDir()
	s := create(t, dir)
	put(t, s, "layer 0", "layer 3", "head")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(bytes.Clone(b)), 0o666); err != nil {
		t.Fatal(err)
	}
	return dir
}

func replace(old, now string) func([]byte) []byte {
	return func(b []byte) []byte { return bytes.Replace(b, []byte(old), []byte(now), 1) }
}

func TestDamagedUnit(t *testing.T) {
	unit := unitFile(0, "layer 0")
	other, err := os.ReadFile(filepath.Join(damagedStore(t, unit, func(b []byte) []byte { return b }), unitFile(1, "layer 3")))
	if err != nil {
		t.Fatal(err)
	}
	foreign := func() []byte {
		dir := t.TempDir()
		m := testManifest()
		m.Damp = 0.5
		s, err := Create(dir, m, testIDs)
		if err != nil {
			t.Fatal(err)
		}
		put(t, s, "layer 0")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(dir, unit))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}()
	for _, c := range []struct {
		what   string
		reason string
		change func([]byte) []byte
	}{
		{"cut at its end", "truncated", func(b []byte) []byte { return b[:len(b)-1] }},
		{"empty", "too short", func([]byte) []byte { return nil }},
		{"a code", "codes or scales are not what was written", func(b []byte) []byte { b[len(b)-20]++; return b }},
		{"the reason of a fallback", "description is not what was written", replace("no token was", "a token was ")},
		{"the variant that made it", "description is not what was written", replace("g128+gptq", "g128+rtnn")},
		{"a shape", "description is not what was written", replace(`\"rows\":4`, `\"rows\":2`)},
		{"the note", "description is not what was written", replace(`{\"unit\":\"layer 0\"}`, `{\"unit\":\"layer 1\"}`)},
		{"the format", "is no unit of codes that is known here", replace(fileFormat, "quantscope codes 9")},
		{"another unit of the folder", `is unit "layer 3", not "layer 0"`, func([]byte) []byte { return other }},
		{"a unit of other codes", "is of other codes", func([]byte) []byte { return foreign }},
		{"a name of a tensor", "codes or scales are not what was written", replace(`"b.weight.scales"`, `"b.weight.mins"  `)},
		{"a tensor that nobody knows", "has 6 tensors, 5 of which are known", replace(`"b.weight.scales"`, `"x.weight.scales"`)},
		{"a type", "F8_E4M3 of 16 bytes cannot belong", replace(`"a.weight.codes":{"dtype":"U8"`, `"a.weight.codes":{"dtype":"F8_E4M3"`)},
		{"the global scales", "is not the global scales of 2 matrices", replace(`"global":{"dtype":"F32"`, `"global":{"dtype":"I32"`)},
	} {
		dir := damagedStore(t, unit, c.change)
		for _, open := range []func() (*Store, error){
			func() (*Store, error) { return Open(dir) },
			func() (*Store, error) { return Create(dir, testManifest(), testIDs) },
		} {
			s, err := open()
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = s.Unit("layer 0")
			if c.what == "a type" && err != nil { // the header is longer then, and the file is no safetensors any more
				c.reason = ""
			}
			var file *checkpoint.FileError
			if !errors.As(err, &file) || !strings.Contains(err.Error(), c.reason) || !strings.Contains(err.Error(), unit) || !strings.Contains(err.Error(), "without the file") {
				t.Errorf("%s: %v", c.what, err)
			}
			equalUnits(t, s, "head") // the others are as good as before
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestDamagedManifest(t *testing.T) {
	for _, c := range []struct {
		what   string
		reason string
		change func([]byte) []byte
	}{
		{"cut", "is no manifest of codes", func(b []byte) []byte { return b[:len(b)/2] }},
		{"newer", "format 2 is not known here, 1 is", replace(`"format": 1`, `"format": 2`)},
		{"of another kind", "format 0 is not known", func([]byte) []byte { return []byte(`{"a":1}`) }},
		{"a unit twice", "is damaged", replace("layer 3", "layer 0")},
	} {
		dir := damagedStore(t, manifestName, c.change)
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), c.reason) || !strings.Contains(err.Error(), manifestName) {
			t.Errorf("%s: %v", c.what, err)
		}
		if _, err := Create(dir, testManifest(), testIDs); err == nil {
			t.Errorf("%s: it is gone on with", c.what)
		}
	}
}

func TestDamagedCorpus(t *testing.T) {
	for _, c := range []struct {
		what   string
		reason string
		change func([]byte) []byte
	}{
		{"an id", "is damaged", func(b []byte) []byte { b[len(b)-20]++; return b }},
		{"a length", "leaves 1 tokens in no chunk", func(b []byte) []byte { b[len(b)-4]--; return b }},
		{"too long a chunk", "chunk 2 of 2 tokens is more than the 1", func(b []byte) []byte { b[len(b)-4]++; return b }},
		{"a negative length", "chunk 2 of -", func(b []byte) []byte { b[len(b)-1] = 0x80; return b }},
		{"a tensor", "is not there", replace(`"lengths"`, `"lengthz"`)},
		{"cut", "truncated", func(b []byte) []byte { return b[:len(b)-1] }},
	} {
		dir := damagedStore(t, corpusName, c.change)
		s, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Chunks(); err == nil || !strings.Contains(err.Error(), c.reason) || !strings.Contains(err.Error(), corpusName) {
			t.Errorf("%s: %v", c.what, err)
		}
		if _, err := Create(dir, testManifest(), testIDs); err == nil {
			t.Errorf("%s: it is gone on with", c.what)
		}
	}
}

// TestNoByteIsFree: whatever byte of a unit changes, it is refused or it reads as
// it was written.
func TestNoByteIsFree(t *testing.T) {
	unit := unitFile(0, "layer 0")
	dir := damagedStore(t, unit, func(b []byte) []byte { return b })
	path := filepath.Join(dir, unit)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	good, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	want, note, err := good.Unit("layer 0")
	if err != nil {
		t.Fatal(err)
	}
	if err := good.Close(); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(7, 1))
	refused := 0
	for i := range whole {
		b := bytes.Clone(whole)
		b[i] ^= 1 << rng.IntN(8)
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
		s, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		got, n, err := s.Unit("layer 0")
		switch {
		case err != nil:
			refused++
		case cmp.Diff(want, got) != "" || !bytes.Equal(n, note):
			t.Errorf("byte %d of %d: %s", i, len(whole), cmp.Diff(want, got))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if refused < len(whole)*9/10 {
		t.Errorf("of %d changed bytes %d were noticed", len(whole), refused)
	}
}
