package checkpoint

import (
	"context"
	"encoding/hex"
	"io/fs"
)

// Tensor is one stored tensor.
type Tensor struct {
	Name   string
	DType  DType
	Shape  []int64 // outermost first; empty for a scalar; counts elements, of F4 too
	File   int     // index in Checkpoint.Files
	Offset int64   // bytes from the start of the file
	Size   int64   // bytes
}

// Elements is the product of the shape; 1 for a scalar.
func (t *Tensor) Elements() int64 {
	n, _ := elements(t.Shape) // checked when it was opened
	return n
}

// File is one file that holds tensors.
type File struct {
	Name         string // in the checkpoint's folder
	Size         int64  // bytes
	HeaderSHA256 [32]byte
	Metadata     map[string]string // of the header; nil where it has none
}

// Finding is something odd that does not keep the checkpoint from being read.
type Finding struct {
	File    string
	Tensor  string // "" where it is about the file
	Message string
}

// SideFile is a file beside the weights: tokenizer, templates, processors.
type SideFile struct {
	Name string
	Size int64
	fsys fs.FS
	path string // of the folder, for messages
}

// Checkpoint is an opened checkpoint. Its fields are not changed after Open;
// its methods may be called from any goroutine.
type Checkpoint struct {
	Path     string // as given to Open, or the label
	Files    []File
	Tensors  []Tensor // by file, then offset
	Config   []byte   // config.json as it stands, nil where there is none
	Side     []SideFile
	Findings []Finding

	byName map[string]int32
}

// Open opens a folder, a .safetensors file or an index.
func Open(path string) (*Checkpoint, error) {
	return nil, &FileError{File: path, Reason: "not opened", Err: ErrUnsupported}
}

// OpenFS opens the checkpoint in the root of a file system.
func OpenFS(label string, fsys fs.FS) (*Checkpoint, error) {
	return nil, &FileError{File: label, Reason: "not opened", Err: ErrUnsupported}
}

// Lookup finds a tensor by its name.
func (c *Checkpoint) Lookup(name string) (*Tensor, bool) {
	i, ok := c.byName[name]
	if !ok {
		return nil, false
	}
	return &c.Tensors[i], true
}

// Bytes is the sum of the tensors' sizes.
func (c *Checkpoint) Bytes() int64 {
	var n int64
	for i := range c.Tensors {
		n += c.Tensors[i].Size
	}
	return n
}

// ReadAt fills dst with the bytes of t from off on.
func (c *Checkpoint) ReadAt(ctx context.Context, t *Tensor, off int64, dst []byte) error {
	return &FileError{File: c.Path, Tensor: t.Name, Reason: "not opened", Err: ErrUnsupported}
}

// Close closes the files. No other method may run any more.
func (c *Checkpoint) Close() error { return nil }

// Identity says which checkpoint it is, wherever it lies.
type Identity [32]byte

// Identity is the checkpoint's identity.
func (c *Checkpoint) Identity() Identity { return Identity{} }

// DecodeF32 decodes len(dst) elements of raw.
func DecodeF32(dst []float32, dt DType, raw []byte) error {
	return ErrUnsupported
}

// Pool hands out byte buffers within a byte budget.
type Pool struct{}

// NewPool is a pool that keeps to budget bytes.
func NewPool(budget int64) *Pool { return &Pool{} }

// Get waits for a buffer of n bytes.
func (p *Pool) Get(ctx context.Context, n int) ([]byte, error) { return make([]byte, n), ctx.Err() }

// Put gives a buffer back.
func (p *Pool) Put(b []byte) {}

// String is the identity in hex.
func (id Identity) String() string { return hex.EncodeToString(id[:]) }

// Read is the whole file.
func (s SideFile) Read() ([]byte, error) { return fs.ReadFile(s.fsys, s.Name) }
