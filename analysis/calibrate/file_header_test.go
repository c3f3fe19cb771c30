package calibrate

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// reheaded is a saved calibration whose header was changed, and signed again.
func reheaded(t *testing.T, raw []byte, change func(h *storedHeader)) string {
	t.Helper()
	n := binary.LittleEndian.Uint64(raw)
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw[8:8+n], &all); err != nil {
		t.Fatal(err)
	}
	var meta map[string]string
	if err := json.Unmarshal(all["__metadata__"], &meta); err != nil {
		t.Fatal(err)
	}
	var h storedHeader
	if err := json.Unmarshal([]byte(meta[metadataKey]), &h); err != nil {
		t.Fatal(err)
	}
	change(&h)
	must := func(v any) []byte {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var err error
	meta[metadataKey] = string(must(h))
	if meta[identityKey], err = h.identity(); err != nil {
		t.Fatal(err)
	}
	all["__metadata__"] = must(meta)
	head := must(all)
	path := filepath.Join(t.TempDir(), "reheaded")
	if err := os.WriteFile(path, append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(head))), head...), raw[8+n:]...), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestFileOfAbsurdHeader: a header that signs itself is held against the tensors all
// the same, before anything is made of its sizes.
func TestFileOfAbsurdHeader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	newMadeUp(true).write(t, path)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(h *storedHeader){
		`"corpus.lengths": is missing, or not I64 [-3]`:             func(h *storedHeader) { h.Corpus.Chunks = -3 },
		`"corpus.ids": is missing, or not I32 [-1]`:                 func(h *storedHeader) { h.Corpus.Tokens = -1 },
		`"corpus.ids": is missing, or not I32 [1152921504606846976`: func(h *storedHeader) { h.Corpus.Tokens = 1 << 60 },
		"": func(h *storedHeader) {},
	} {
		name := reheaded(t, raw, change)
		f, err := OpenFile(t.Context(), name)
		if err == nil {
			_, err = f.Chunks(t.Context())
			f.Close()
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
