package codes

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"quantscope/quant/checkpoint"
)

// A unit's file is safetensors: tensor global, F32, one a matrix; then of each
// matrix that has codes NAME.codes, NAME.scales and NAME.mins, U8. What it is stands
// in the metadata, under these keys.
const (
	keyFormat   = "format"
	keyUnit     = "unit"
	keyOf       = "of"       // identity of the manifest
	keyMatrices = "matrices" // JSON of a list of entries
	keyNote     = "note"
	keySum      = "sha256" // over all other keys

	globalTensor = "global"
	unitPrefix   = "unit-"
	fileFormat   = "quantscope codes 1"
)

// fields are the tensors of a matrix, in order.
var fields = [...]string{"codes", "scales", "mins"}

// entry is what the metadata say of a matrix.
type entry struct {
	Name      string          `json:"name"`
	Rows      int             `json:"rows"`
	Cols      int             `json:"cols"`
	Codebook  uint16          `json:"codebook,omitempty"` // as kernels.Spec has it
	Effective string          `json:"effective"`
	Why       string          `json:"why,omitempty"`
	Figures   json.RawMessage `json:"figures,omitempty"`
	SHA256    string          `json:"sha256"` // over its codes, scales, minima, global scale and codebook
}

// unitFile is the name of a unit's file: its number, and its name for people.
func unitFile(i int, unit string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_':
			return r
		}
		return '-'
	}, unit)
	return fmt.Sprintf("%s%03d-%s.safetensors", unitPrefix, i, name)
}

// data are the bytes of a matrix in the order of fields.
func (m *Matrix) data() [len(fields)][]byte { return [...][]byte{m.Codes, m.Scales, m.Mins} }

// sum is the digest of what a matrix is made of.
func (m *Matrix) sum() string {
	h := sha256.New()
	for _, d := range m.data() {
		_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(d)))) // a hash never fails
		_, _ = h.Write(d)
	}
	_, _ = h.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(m.Global)))
	if m.Codebook != 0 { // others were written before there was any
		_, _ = h.Write(binary.LittleEndian.AppendUint16(nil, m.Codebook))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// sumOf is the digest of metadata.
func sumOf(meta map[string]string) string {
	h := sha256.New()
	for _, k := range []string{keyFormat, keyUnit, keyOf, keyMatrices, keyNote} {
		_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(meta[k])))) // a hash never fails
		_, _ = h.Write([]byte(meta[k]))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// check refuses a matrix that cannot be written, or was not asked for.
func (s *Store) check(m *Matrix, seen map[string]bool) error {
	switch {
	case !s.all[m.Name]:
		return errors.New("is not one of the folder's matrices")
	case seen[m.Name]:
		return errors.New("is there twice")
	case m.Rows < 0 || m.Cols < 0:
		return fmt.Errorf("%d×%d is no shape", m.Rows, m.Cols)
	case m.Rows == 0 && len(m.Codes) > 0, m.Rows > 0 && len(m.Codes)%m.Rows != 0:
		return fmt.Errorf("%d bytes of codes are no %d rows", len(m.Codes), m.Rows)
	case len(m.Figures) > 0 && !json.Valid(m.Figures):
		return errors.New("its figures are no JSON")
	}
	return m.checkCodebook()
}

// errReader is a Put by whoever only reads.
var errReader = errors.New("was opened to be read")

// Put writes a unit and syncs it; note is JSON of whoever made it (counts of tokens).
// When it returns without an error the unit is whole and durable; before, it is not
// there. A unit that is there already is refused.
func (s *Store) Put(unit string, list []Matrix, note []byte) error {
	i := slices.Index(s.m.Units, unit)
	if i < 0 {
		return fmt.Errorf("codes: %s: unit %q is not one of %s", s.dir, unit, strings.Join(s.m.Units, ", "))
	}
	path := s.path(i)
	if s.lock == nil {
		return &checkpoint.FileError{File: path, Reason: "cannot be written", Err: errReader}
	}
	if len(note) > 0 && !json.Valid(note) {
		return &checkpoint.FileError{File: path, Reason: "its note is no JSON"}
	}
	entries := make([]entry, 0, len(list))
	specs := []checkpoint.Spec{{Name: globalTensor, DType: checkpoint.F32, Shape: []int64{int64(len(list))}}}
	globals := make([]byte, 0, 4*len(list))
	seen := make(map[string]bool, len(list))
	for k := range list {
		m := &list[k]
		if err := s.check(m, seen); err != nil {
			return &checkpoint.FileError{File: path, Tensor: m.Name, Reason: "cannot be written", Err: err}
		}
		seen[m.Name] = true
		entries = append(entries, entry{m.Name, m.Rows, m.Cols, m.Codebook, m.Effective, m.Why, m.Figures, m.sum()})
		globals = binary.LittleEndian.AppendUint32(globals, math.Float32bits(m.Global))
		for f, d := range m.data() {
			if len(d) > 0 {
				specs = append(specs, checkpoint.Spec{Name: m.Name + "." + fields[f], DType: checkpoint.U8, Shape: byRows(len(d), m.Rows)})
			}
		}
	}
	text, err := json.Marshal(entries)
	if err != nil {
		return &checkpoint.FileError{File: path, Reason: "cannot be written", Err: err}
	}
	meta := map[string]string{keyFormat: fileFormat, keyUnit: unit, keyOf: s.id, keyMatrices: string(text), keyNote: string(note)}
	meta[keySum] = sumOf(meta)
	w, err := checkpoint.NewWriter(path, specs, meta)
	if err != nil {
		return err
	}
	defer w.Abort()
	if _, err := w.Write(globals); err != nil {
		return err
	}
	for k := range list {
		for _, d := range list[k].data() {
			if _, err := w.Write(d); err != nil {
				return err
			}
		}
	}
	if hookBeforeCommit != nil {
		hookBeforeCommit(path)
	}
	return w.Commit()
}

// hookBeforeCommit lets a test stop where all is written and nothing has its name.
var hookBeforeCommit func(path string)

// byRows is the shape of n bytes of a matrix: rows of them, where they are.
func byRows(n, rows int) []int64 {
	if rows > 0 && n%rows == 0 {
		return []int64{int64(rows), int64(n / rows)}
	}
	return []int64{int64(n)}
}

// exists says whether a file is there at all.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
