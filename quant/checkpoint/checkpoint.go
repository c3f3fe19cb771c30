package checkpoint

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
	ID      string // what it is, one of the constants
	File    string
	Tensor  string // "" where it is about the file
	Message string
}

// IDs of findings. They are stable: suppressions and documentation name them.
const (
	NotIndexed = "index-unlisted"    // a tensor that a shard has and the index does not know
	IndexTotal = "index-total"       // metadata.total_size is not what the tensors have
	StrayFile  = "shard-stray"       // a file of tensors that is no part of the checkpoint
	NoIndex    = "index-missing"     // several files and no index
	Unfinished = "export-unfinished" // a mark of an export that is not finished
	Unreadable = "side-unreadable"   // a file beside the weights
)

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
	src    source
	whole  bool // a folder was opened, not one of its files
	files  *handles
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

// Close closes the files. Reads that are under way end first; later ones are
// errors.
func (c *Checkpoint) Close() error { return c.files.close() }
