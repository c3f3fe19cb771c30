package codes

import "errors"

// Manifest says what the codes of a folder are. All of it must be the same for
// whoever goes on with it, but for Program.
type Manifest struct {
	Format      int      `json:"format"`
	Source      string   `json:"source"`      // identity of the checkpoint
	Variant     string   `json:"variant"`     // canonical name
	Convention  string   `json:"convention"`  // whose arithmetic
	GlobalScale string   `json:"globalScale"` // shared or tensor
	Targets     string   `json:"targets"`     // as sessions have it
	Matrices    []string `json:"matrices"`    // names, in storage order
	Units       []string `json:"units"`       // in the order in which they are made
	Only        []string `json:"only,omitempty"`
	Damp        float64  `json:"damp"`
	Inputs      string   `json:"inputs"` // sequential: through the layers quantized so far; or the identity of a saved calibration
	Corpus      Corpus   `json:"corpus"`
	Numerics    string   `json:"numerics"` // version of the arithmetic
	Program     string   `json:"program"`
}

// Corpus is the text that the inputs were measured on. Its ids are kept beside
// the manifest, so that an overlap with evaluation text can be told.
type Corpus struct {
	Name      string `json:"name"`
	Source    string `json:"source"`
	SHA256    string `json:"sha256"`
	Tokenizer string `json:"tokenizer"`
	Chunks    int    `json:"chunks"`
	Tokens    int64  `json:"tokens"`
}

// Matrix is one quantized matrix.
type Matrix struct {
	Name                string
	Rows, Cols          int
	Codes, Scales, Mins []byte // as kernels.Sizes has them
	Global              float32
	Effective           string // variant that really made it
	Why                 string // reason, where that is not the manifest's
	Figures             []byte // JSON of whoever made it; opaque here
}

// Store is a folder of codes. It has one writer; readers may be many.
type Store struct {
	dir string
	m   Manifest
}

var errNotYet = errors.New("codes: is not there yet")

// Create makes a folder of codes, or goes on with one whose manifest is the same;
// ids are the chunks of the corpus.
func Create(dir string, m Manifest, ids [][]int32) (*Store, error) { return nil, errNotYet }

// Open opens a folder of codes to read.
func Open(dir string) (*Store, error) { return nil, errNotYet }

// IsStore says whether a folder holds codes.
func IsStore(dir string) bool { return false }

func (s *Store) Dir() string        { return s.dir }
func (s *Store) Manifest() Manifest { return s.m }

// Whole says whether all units are there.
func (s *Store) Whole() bool { return false }

// Has says whether a unit is there.
func (s *Store) Has(unit string) bool { return false }

// Put writes a unit and syncs it; note is JSON of whoever made it (counts of tokens).
func (s *Store) Put(unit string, list []Matrix, note []byte) error { return errNotYet }

// Unit reads all of one.
func (s *Store) Unit(unit string) (list []Matrix, note []byte, err error) { return nil, nil, errNotYet }

// Matrix reads one by its name. It may be called from any goroutine.
func (s *Store) Matrix(name string) (Matrix, error) { return Matrix{}, errNotYet }

// Chunks are the ids of the corpus.
func (s *Store) Chunks() ([][]int32, error) { return nil, errNotYet }

// Close gives back the files and the writer's lock.
func (s *Store) Close() error { return nil }
