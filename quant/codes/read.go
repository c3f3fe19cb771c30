package codes

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"quantscope/quant/checkpoint"
)

// unitFileOpen is a unit whose header was read and checked.
type unitFileOpen struct {
	path    string
	ck      *checkpoint.Checkpoint
	entries []entry
	globals []float32
	note    []byte
}

// damaged is the error about a unit's file that must not be used.
func damaged(path, tensor, reason string, err error) error {
	return &checkpoint.FileError{File: path, Tensor: tensor, Reason: reason + "; without the file the unit is made again", Err: err}
}

// unit opens the file of a unit.
func (s *Store) unit(i int) (*unitFileOpen, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u := s.open[i]; u != nil {
		return u, nil
	}
	path := s.path(i)
	if !exists(path) {
		return nil, &checkpoint.FileError{File: s.dir, Reason: fmt.Sprintf("unit %q is not there yet", s.m.Units[i]), Err: fs.ErrNotExist}
	}
	ck, err := checkpoint.Open(path)
	if err != nil {
		return nil, damaged(path, "", "is damaged", err)
	}
	u := &unitFileOpen{path: path, ck: ck}
	if err := s.checkUnit(u, i); err != nil {
		_ = ck.Close() // the error that ended it says more
		return nil, err
	}
	s.open[i] = u
	for _, e := range u.entries {
		s.byName[e.Name] = i
	}
	return u, nil
}

// checkUnit holds a file's header against its metadata and the manifest.
func (s *Store) checkUnit(u *unitFileOpen, i int) error {
	meta := u.ck.Files[0].Metadata
	switch {
	case meta[keyFormat] != fileFormat:
		return damaged(u.path, "", fmt.Sprintf("is no unit of codes that is known here: its format is %q, not %q", meta[keyFormat], fileFormat), nil)
	case meta[keySum] != sumOf(meta):
		return damaged(u.path, "", "is damaged: its description is not what was written", nil)
	case meta[keyOf] != s.id:
		return damaged(u.path, "", fmt.Sprintf("is of other codes: of manifest %.12s, not %.12s", meta[keyOf], s.id), nil)
	case meta[keyUnit] != s.m.Units[i]:
		return damaged(u.path, "", fmt.Sprintf("is unit %q, not %q", meta[keyUnit], s.m.Units[i]), nil)
	}
	if err := json.Unmarshal([]byte(meta[keyMatrices]), &u.entries); err != nil {
		return damaged(u.path, "", "is damaged", err)
	}
	if note := meta[keyNote]; note != "" {
		u.note = []byte(note)
	}
	t, ok := u.ck.Lookup(globalTensor)
	if !ok || t.DType != checkpoint.F32 || t.Size != 4*int64(len(u.entries)) {
		return damaged(u.path, globalTensor, fmt.Sprintf("is not the global scales of %d matrices", len(u.entries)), nil)
	}
	raw := make([]byte, t.Size)
	if err := u.ck.ReadAt(context.Background(), t, 0, raw); err != nil {
		return err
	}
	u.globals = make([]float32, len(u.entries))
	for k := range u.globals {
		u.globals[k] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*k:]))
	}
	tensors := 1
	for k := range u.entries {
		e := &u.entries[k]
		if !s.all[e.Name] {
			return damaged(u.path, e.Name, "is not one of the folder's matrices", nil)
		}
		if e.Rows < 0 || e.Cols < 0 {
			return damaged(u.path, e.Name, fmt.Sprintf("%d×%d is no shape", e.Rows, e.Cols), nil)
		}
		for f := range fields {
			t, ok := u.ck.Lookup(e.Name + "." + fields[f])
			if !ok {
				continue
			}
			if t.DType != checkpoint.U8 || f == 0 && (e.Rows == 0 || t.Size%int64(e.Rows) != 0) {
				return damaged(u.path, t.Name, fmt.Sprintf("%s of %d bytes cannot belong to %d rows", t.DType, t.Size, e.Rows), nil)
			}
			tensors++
		}
	}
	if tensors != len(u.ck.Tensors) {
		return damaged(u.path, "", fmt.Sprintf("has %d tensors, %d of which are known", len(u.ck.Tensors), tensors), nil)
	}
	return nil
}

// matrix reads one and checks it against its digest.
func (u *unitFileOpen) matrix(k int) (Matrix, error) {
	e := &u.entries[k]
	m := Matrix{Name: e.Name, Rows: e.Rows, Cols: e.Cols, Global: u.globals[k], Codebook: e.Codebook, Effective: e.Effective, Why: e.Why, Figures: e.Figures}
	for f, to := range []*[]byte{&m.Codes, &m.Scales, &m.Mins} {
		t, ok := u.ck.Lookup(e.Name + "." + fields[f])
		if !ok {
			continue
		}
		*to = make([]byte, t.Size)
		if err := u.ck.ReadAt(context.Background(), t, 0, *to); err != nil {
			return Matrix{}, err
		}
	}
	if m.sum() != e.SHA256 {
		return Matrix{}, damaged(u.path, e.Name, "is damaged: its codes or scales are not what was written", nil)
	}
	if err := m.pack(); err != nil {
		return Matrix{}, damaged(u.path, e.Name, "is damaged", err)
	}
	return m, nil
}

// Unit reads all of one.
func (s *Store) Unit(unit string) (list []Matrix, note []byte, err error) {
	i := slices.Index(s.m.Units, unit)
	if i < 0 {
		return nil, nil, fmt.Errorf("codes: %s: has no unit %q", s.dir, unit)
	}
	u, err := s.unit(i)
	if err != nil {
		return nil, nil, err
	}
	list = make([]Matrix, len(u.entries))
	for k := range list {
		if list[k], err = u.matrix(k); err != nil {
			return nil, nil, err
		}
	}
	return list, u.note, nil
}

// Describe is a unit without its codes: what its matrices are, and the note.
func (s *Store) Describe(unit string) (list []Matrix, note []byte, err error) {
	i := slices.Index(s.m.Units, unit)
	if i < 0 {
		return nil, nil, fmt.Errorf("codes: %s: has no unit %q", s.dir, unit)
	}
	u, err := s.unit(i)
	if err != nil {
		return nil, nil, err
	}
	for k, e := range u.entries {
		list = append(list, Matrix{Name: e.Name, Rows: e.Rows, Cols: e.Cols, Global: u.globals[k], Codebook: e.Codebook, Effective: e.Effective, Why: e.Why, Figures: e.Figures})
	}
	return list, u.note, nil
}

// Matrix reads one by its name. It may be called from any goroutine. Of a name that
// no unit has that is there it is fs.ErrNotExist.
func (s *Store) Matrix(name string) (Matrix, error) {
	if !s.all[name] {
		return Matrix{}, fmt.Errorf("codes: %s: has no matrix %q", s.dir, name)
	}
	s.mu.Lock()
	i, ok := s.byName[name]
	s.mu.Unlock()
	for k := 0; !ok && k < len(s.m.Units); k++ {
		if !s.has(k) {
			continue
		}
		u, err := s.unit(k)
		if err != nil {
			return Matrix{}, err
		}
		i, ok = k, slices.ContainsFunc(u.entries, func(e entry) bool { return e.Name == name })
	}
	if !ok {
		return Matrix{}, &checkpoint.FileError{File: s.dir, Tensor: name, Reason: "is in no unit that is there", Err: fs.ErrNotExist}
	}
	u, err := s.unit(i)
	if err != nil {
		return Matrix{}, err
	}
	return u.matrix(slices.IndexFunc(u.entries, func(e entry) bool { return e.Name == name }))
}
