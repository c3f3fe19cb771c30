package codes

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantscope/kernels"
)

// bookManifest is of codes of two bits.
func bookManifest() Manifest {
	m := testManifest()
	m.Variant, m.Convention, m.Matrices, m.Units = "code2+sym+gptq", "modelopt", []string{"a.weight", "b.weight"}, []string{"layer 0"}
	return m
}

func bookStore(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Create(dir, bookManifest(), testIDs)
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

// Codebooks are kept, of each matrix its own, and described.
func TestCodebooksAreKept(t *testing.T) {
	dir := t.TempDir()
	s := bookStore(t, dir)
	want := []Matrix{
		{Name: "a.weight", Rows: 2, Cols: 18, Codes: []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 2}, Scales: []byte{1, 2, 3, 4}, Global: 0.5, Codebook: 1<<1 | 1<<6 | 1<<9 | 1<<14, Effective: "code2+sym+gptq"},
		{Name: "b.weight", Rows: 1, Cols: 4, Codes: []byte{0xe4}, Scales: []byte{9}, Global: 2, Codebook: 1 | 1<<3 | 1<<10 | 1<<15, Effective: "code2+sym", Why: "no token was routed to it"},
	}
	if err := s.Put("layer 0", want, nil); err != nil {
		t.Fatal(err)
	}
	got, _, err := s.Unit("layer 0")
	if err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("%v %s", err, cmp.Diff(want, got))
	}
	if about, _, err := s.Describe("layer 0"); err != nil || about[1].Codebook != want[1].Codebook {
		t.Errorf("%+v, %v", about, err)
	}
	if m, err := s.Matrix("b.weight"); err != nil || m.Codebook != want[1].Codebook {
		t.Errorf("%+v, %v", m, err)
	}
	other := want[1]
	other.Codebook = 1 | 1<<3 | 1<<10 | 1<<14
	if other.sum() == want[1].sum() {
		t.Error("another codebook has the same digest")
	}
}

// A codebook that is none, one that is missing and one that nothing has are refused.
func TestCodebooksAreChecked(t *testing.T) {
	s := bookStore(t, t.TempDir())
	m := Matrix{Name: "a.weight", Rows: 1, Cols: 4, Codes: []byte{0}, Scales: []byte{1}, Effective: "code2+sym"}
	for mask, says := range map[uint16]string{0: "with the codebook 0x0000: no codebook", 7: "0x0007", 1<<8 | 7: "0x0107", 31: "0x001f"} {
		m.Codebook = mask
		if err := s.Put("layer 0", []Matrix{m}, nil); !errors.Is(err, kernels.ErrCodebook) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "a.weight") {
			t.Errorf("%#x: %v", mask, err)
		}
	}
	m.Codebook, m.Effective = 15, "nvfp4"
	if err := s.Put("layer 0", []Matrix{m}, nil); err == nil || !strings.Contains(err.Error(), "nvfp4 has no codebook, and 0x000f is one") {
		t.Errorf("of nvfp4: %v", err)
	}
}

// What was kept as codes of four bits, before codebooks were, is read as two bits of the
// same values.
func TestFourBitsAreReadAsTwo(t *testing.T) {
	const rows, cols = 3, 37
	for _, c := range []struct {
		what  string
		used  []byte
		mask  uint16
		wrong error
	}{
		{"four", []byte{1, 6, 9, 14}, 1<<1 | 1<<6 | 1<<9 | 1<<14, nil},
		{"two", []byte{2, 10}, 1 | 1<<1 | 1<<2 | 1<<10, nil}, // made full with 0 and 0.5
		{"five", []byte{1, 2, 3, 4, 5}, 0, kernels.ErrRange},
		{"minus zero", []byte{1, 2, 3, 8}, 0, kernels.ErrRange},
	} {
		wide := (cols + 1) / 2
		old := Matrix{Name: "a.weight", Rows: rows, Cols: cols, Codes: make([]byte, rows*wide), Effective: "code2+imatrix"}
		for r := range rows {
			for k := range cols {
				old.Codes[r*wide+k/2] |= c.used[(r+k)%len(c.used)] << (k % 2 * 4)
			}
		}
		got := old
		if err := got.pack(); !errors.Is(err, c.wrong) {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		if c.wrong != nil {
			continue
		}
		back := make([]byte, len(old.Codes))
		if err := kernels.UnpackCode2(back, got.Codes, rows, cols, got.Codebook); err != nil || got.Codebook != c.mask || cmp.Diff(back, old.Codes) != "" {
			t.Errorf("%s: codebook %#04x, want %#04x, %v %s", c.what, got.Codebook, c.mask, err, cmp.Diff(back, old.Codes))
		}
	}
	short := Matrix{Name: "a.weight", Rows: 2, Cols: 8, Codes: make([]byte, 4), Effective: "code2"}
	if err := short.pack(); !errors.Is(err, kernels.ErrShape) {
		t.Errorf("two bits without a codebook: %v", err)
	}
	plain := Matrix{Name: "a.weight", Rows: 2, Cols: 8, Codes: make([]byte, 8), Effective: "nvfp4+gptq"}
	if err := plain.pack(); err != nil || len(plain.Codes) != 8 {
		t.Errorf("nvfp4: %v", err)
	}
}

// A folder that was written before codebooks were kept is read; its bytes are what that
// program left of elements 0.5, 4, −0.5, −4, … and of −1, 1, 1, −1.
func TestFolderOfFourBits(t *testing.T) {
	s, err := Open("testdata/four-bits")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got, _, err := s.Unit("layer 0")
	if err != nil {
		t.Fatal(err)
	}
	want := []Matrix{
		{Name: "a.weight", Rows: 2, Cols: 18, Codes: []byte{0x1e, 0x1e, 0x1e, 0x1e, 0x0e, 0x87, 0x87, 0x87, 0x87, 0x07}, Scales: []byte{1, 2, 3, 4}, Global: 0.5, Codebook: 1<<1 | 1<<6 | 1<<9 | 1<<14, Effective: "code2+imatrix", Figures: []byte(`{"rel2":0.1}`)},
		{Name: "b.weight", Rows: 1, Cols: 4, Codes: []byte{0x3c}, Scales: []byte{9}, Global: 2, Codebook: 1 | 1<<1 | 1<<2 | 1<<10, Effective: "code2", Why: "no token was routed to it"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
