package codes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"quantscope/quant/checkpoint"
	"quantscope/quant/lockfile"
)

// ErrBusy is wrapped by the error about a folder that another process writes.
var ErrBusy = errors.New("is being written by another process")

const (
	lockName   = "codes.lock"
	tempSuffix = ".tmp"           // of files that are being written
	patience   = time.Second / 10 // bridges the moment in which somebody only looks
)

// Matrix is one quantized matrix. One that stays as the checkpoint has it has no
// codes, scales and minima, and Effective says how it is stored.
type Matrix struct {
	Name                string
	Rows, Cols          int
	Codes, Scales, Mins []byte // as kernels.Sizes has them
	Global              float32
	Codebook            uint16 // what codes of two bits stand for, see kernels.Spec; 0 of other formats
	Effective           string // variant that really made it
	Why                 string // reason, where that is not the manifest's
	Figures             []byte // JSON of whoever made it; opaque here
}

// Store is a folder of codes. It has one writer; readers may be many. Put is called
// from one goroutine; everything else may be called from any.
type Store struct {
	dir  string
	m    Manifest
	id   string          // of m
	lock *lockfile.Lock  // nil for a reader
	all  map[string]bool // matrices

	mu     sync.Mutex
	open   []*unitFileOpen // of each unit, nil for those that were not read yet
	byName map[string]int  // unit of each matrix that was met
}

func newStore(dir string, m Manifest) (*Store, error) {
	id, err := m.identity()
	if err != nil {
		return nil, fmt.Errorf("codes: %s: the manifest cannot be written: %w", dir, err)
	}
	s := &Store{dir: dir, m: m, id: id, all: make(map[string]bool, len(m.Matrices)), open: make([]*unitFileOpen, len(m.Units)), byName: map[string]int{}}
	for _, name := range m.Matrices {
		s.all[name] = true
	}
	return s, nil
}

// Create makes a folder of codes, or goes on with one whose manifest is the same;
// ids are the chunks of the corpus, nil where the manifest names none. It is the
// folder's one writer until Close: a second is refused with ErrBusy. What a killed
// writer left half written is removed. A manifest that differs is a *DifferError; a
// folder that has other things in it is refused.
func Create(dir string, m Manifest, ids [][]int32) (*Store, error) {
	m.Format = format
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("codes: %s: %w", dir, err)
	}
	if err := checkIDs(&m, ids); err != nil {
		return nil, fmt.Errorf("codes: %s: %w", dir, err)
	}
	s, err := newStore(dir, m)
	if err != nil {
		return nil, err
	}
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	if s.lock, err = acquire(filepath.Join(dir, lockName)); err != nil {
		return nil, err
	}
	if err := s.begin(ids); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// makeDir makes a folder that outlives a power cut.
func makeDir(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return checkpoint.SystemError(dir, err)
	}
	return checkpoint.SyncDir(filepath.Dir(filepath.Clean(dir)))
}

func acquire(path string) (*lockfile.Lock, error) {
	l, err := lockfile.Acquire(path, patience)
	var busy *lockfile.Busy
	switch {
	case errors.As(err, &busy):
		return nil, fmt.Errorf("codes: %s: %w: %w", filepath.Dir(path), ErrBusy, err)
	case err != nil:
		return nil, checkpoint.SystemError(path, err)
	}
	return l, nil
}

// begin writes corpus and manifest into a new folder, in this order, so that a
// folder with a manifest has both; of an old one it checks them.
func (s *Store) begin(ids [][]int32) error {
	path := filepath.Join(s.dir, manifestName)
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return checkpoint.SystemError(s.dir, err)
	}
	begun := slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == manifestName })
	for _, e := range entries {
		name := e.Name()
		switch {
		case halfWritten(name), name == corpusName && !begun:
			if err := os.Remove(filepath.Join(s.dir, name)); err != nil {
				return checkpoint.SystemError(filepath.Join(s.dir, name), err)
			}
		case name != lockName && !begun:
			return &checkpoint.FileError{File: s.dir, Reason: fmt.Sprintf("has no %s, and is not empty: %q is in it", manifestName, name), Err: fs.ErrExist}
		}
	}
	if begun {
		old, err := readManifest(path)
		if err != nil {
			return err
		}
		if d := old.Differs(s.dir, &s.m); d != nil {
			return d
		}
		s.m.Program = old.Program
		_, err = s.Chunks() // whoever asks for it later must find it
		return err
	}
	if err := writeIDs(filepath.Join(s.dir, corpusName), ids); err != nil {
		return err
	}
	text, err := s.m.encode()
	if err != nil {
		return fmt.Errorf("codes: %s: the manifest cannot be written: %w", s.dir, err)
	}
	return checkpoint.AtomicWriteFile(path, text)
}

// halfWritten knows the temporary names of the folder's own files.
func halfWritten(name string) bool {
	if !strings.HasSuffix(name, tempSuffix) {
		return false
	}
	for _, own := range []string{unitPrefix, manifestName, corpusName} {
		if strings.HasPrefix(name, "."+own) {
			return true
		}
	}
	return false
}

// Open opens a folder of codes to read, also while another process writes it.
func Open(dir string) (*Store, error) {
	m, err := readManifest(filepath.Join(dir, manifestName))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, &checkpoint.FileError{File: dir, Reason: "is no folder of codes: it has no " + manifestName, Err: err}
		}
		return nil, err
	}
	return newStore(dir, m)
}

// IsStore says whether a folder holds codes.
func IsStore(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, manifestName))
	return err == nil && info.Mode().IsRegular()
}

// NoStore says why a folder is none of codes: it is not there, or one above such
// folders, which a run makes one a variant.
func NoStore(dir string) string {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "is not there"
	}
	var inside []string
	for _, e := range entries {
		if IsStore(filepath.Join(dir, e.Name())) {
			inside = append(inside, strconv.Quote(e.Name()))
		}
	}
	if len(inside) > 0 {
		return "is no folder of codes, and holds some: " + strings.Join(inside, ", ")
	}
	return "is no folder of codes"
}

// Dir is the folder.
func (s *Store) Dir() string { return s.dir }

// Manifest says what the codes are.
func (s *Store) Manifest() Manifest { return s.m }

// Missing lists the units that are not there, in the order in which they are made.
func (s *Store) Missing() []string {
	var out []string
	for i, u := range s.m.Units {
		if !s.has(i) {
			out = append(out, u)
		}
	}
	return out
}

// Whole says whether all units are there.
func (s *Store) Whole() bool { return len(s.Missing()) == 0 }

// Has says whether a unit is there.
func (s *Store) Has(unit string) bool {
	i := slices.Index(s.m.Units, unit)
	return i >= 0 && s.has(i)
}

func (s *Store) has(i int) bool {
	_, err := os.Stat(s.path(i))
	return err == nil
}

// path is the file of a unit.
func (s *Store) path(i int) string { return filepath.Join(s.dir, unitFile(i, s.m.Units[i])) }

// Close gives back the files and the writer's lock.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for i, u := range s.open {
		if u != nil {
			errs = append(errs, u.ck.Close())
			s.open[i] = nil
		}
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Release())
		s.lock = nil
	}
	return errors.Join(errs...)
}
