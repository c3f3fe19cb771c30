package calibrate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"quantscope/analysis/candidate"
	"quantscope/analysis/model"
	"quantscope/quant/checkpoint"
	"quantscope/quant/codes"
)

// Header says of what, on what and through what moments were measured.
type Header struct {
	Format   int          `json:"format"`
	Source   string       `json:"source"`  // identity of the checkpoint
	Family   string       `json:"family"`  // of its architecture
	Through  string       `json:"through"` // "reference", or the variant through whose layers the text went
	Corpus   codes.Corpus `json:"corpus"`
	Counts   []Counts     `json:"counts"`
	Hessians bool         `json:"hessians"`
	Numerics string       `json:"numerics"`
	Program  string       `json:"program"`
	Imatrix  string       `json:"imatrix,omitempty"` // the file that moments were imported from
}

// fileFormat is the version of the file that this program writes and reads.
const fileFormat = 1

// ThroughReference is Header.Through where the text went through the source's own
// weights.
const ThroughReference = "reference"

// ErrNotMeasured is wrapped where a file has no moments of an input.
var ErrNotMeasured = errors.New("was not measured")

// storedInput is what the file says of one input.
type storedInput struct {
	At      string   `json:"at"`
	N       int      `json:"n"`
	Rows    int64    `json:"rows"`
	Hessian bool     `json:"hessian"`
	Unit    string   `json:"unit"`
	For     []string `json:"for"`
	SHA256  string   `json:"sha256"` // of its tensors' bytes, in their order
}

// storedHeader is the JSON under metadataKey.
type storedHeader struct {
	Header
	Inputs []storedInput `json:"inputs"`
	IDs    string        `json:"ids"` // SHA-256 of the corpus's tensors
}

// metadataKey of the container holds a storedHeader, identityKey its identity. The
// names of tensors end in one of the others.
const (
	metadataKey   = "quantscope.calibration"
	identityKey   = "quantscope.calibration.identity"
	sum2Suffix    = ".sum2"
	rowsSuffix    = ".rows"
	hessianSuffix = ".hessian"
	idsTensor     = "corpus.ids"
	lengthsTensor = "corpus.lengths"
)

// File is moments of every input of a model, kept in one file. Its methods may be
// called from any goroutine.
type File struct {
	Header Header

	path     string
	ck       *checkpoint.Checkpoint // nil of an imatrix
	identity string
	ids      string // SHA-256 of the corpus's tensors
	inputs   []storedInput
	at       map[model.Place]int // index in inputs
	units    []KeptUnit
	imatrix  map[model.Place]imatrixRow
	notes    []string
}

// OpenFile opens one: our own, or an imatrix of llama.cpp, which has moments only.
// Of ours only the header is read; the moments of an input are held against its
// digest when they are.
func OpenFile(ctx context.Context, path string) (*File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ours, err := isSafetensors(path)
	switch {
	case err != nil:
		return nil, err
	case !ours:
		return openImatrix(path)
	}
	ck, err := checkpoint.OpenFile(path)
	if err != nil {
		return nil, err
	}
	f := &File{path: path, ck: ck, at: map[model.Place]int{}}
	if err := f.readHeader(); err != nil {
		_ = ck.Close() // the error that ended it says more
		return nil, err
	}
	return f, nil
}

// isSafetensors looks for the brace that a header of safetensors begins with.
func isSafetensors(path string) (bool, error) {
	if _, err := os.Stat(path + partsSuffix); err == nil {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return false, &checkpoint.FileError{File: path, Reason: "is not finished: " + path + partsSuffix + " has what was measured so far, and the command that made it goes on with it", Err: os.ErrNotExist}
		}
	}
	f, _, err := checkpoint.OpenRegular(path)
	if err != nil {
		return false, err
	}
	start := make([]byte, 9)
	n, err := f.ReadAt(start, 0)
	if err == io.EOF {
		err = nil
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return false, checkpoint.SystemError(path, err)
	}
	return n == 9 && start[8] == '{' && string(start[:4]) != "GGUF", nil
}

func (f *File) fail(tensor, format string, args ...any) error {
	return &checkpoint.FileError{File: f.path, Tensor: tensor, Reason: fmt.Sprintf(format, args...)}
}

// readHeader checks that the file is one of ours, and that its tensors are those
// that it tells of.
func (f *File) readHeader() error {
	text, ok := f.ck.Files[0].Metadata[metadataKey]
	if !ok {
		return f.fail("", "has no %s in its metadata, so it is no saved calibration", metadataKey)
	}
	var h storedHeader
	var version struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal([]byte(text), &version); err != nil {
		return f.fail("", "%s is no JSON that is read here: %v", metadataKey, err)
	}
	if version.Format != fileFormat {
		return f.fail("", "is of format %d; this program reads %d", version.Format, fileFormat)
	}
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		return f.fail("", "%s is no JSON that is read here: %v", metadataKey, err)
	}
	f.Header, f.inputs, f.ids = h.Header, h.Inputs, h.IDs
	want := 0
	tensor := func(name string, d checkpoint.DType, n int64) error {
		want++
		t, ok := f.ck.Lookup(name)
		if !ok || t.DType != d || len(t.Shape) != 1 || t.Shape[0] != n {
			return f.fail(name, "is missing, or not %s [%d]", d, n)
		}
		return nil
	}
	for i := range h.Inputs {
		in := &h.Inputs[i]
		p, err := ParsePlace(in.At)
		if err != nil {
			return f.fail(in.At, "%v", err)
		}
		if _, twice := f.at[p]; twice || in.N <= 0 || in.N > maxColumns || in.Rows < 0 {
			return f.fail(in.At, "is there twice, or has %d columns and %d rows", in.N, in.Rows)
		}
		f.at[p] = i
		err = cmp.Or(tensor(in.At+sum2Suffix, checkpoint.F64, int64(in.N)), tensor(in.At+rowsSuffix, checkpoint.I64, 1))
		if in.Hessian && err == nil {
			err = tensor(in.At+hessianSuffix, checkpoint.F32, triangle(in.N))
		}
		if err != nil {
			return err
		}
		if k := len(f.units); k == 0 || f.units[k-1].Name != in.Unit {
			f.units = append(f.units, KeptUnit{Name: in.Unit})
		}
		u := &f.units[len(f.units)-1]
		u.Inputs = append(u.Inputs, Kept{At: p, N: in.N, Hessian: in.Hessian, For: in.For})
	}
	if err := cmp.Or(tensor(idsTensor, checkpoint.I32, h.Corpus.Tokens), tensor(lengthsTensor, checkpoint.I64, int64(h.Corpus.Chunks))); err != nil {
		return err
	}
	if want != len(f.ck.Tensors) {
		return f.fail("", "has %d tensors where its header tells of %d", len(f.ck.Tensors), want)
	}
	if err := refuseCounts(h.Counts); err != nil {
		return f.fail("", "%v", err)
	}
	var err error
	if f.identity, err = h.identity(); err != nil {
		return err
	}
	if was := f.ck.Files[0].Metadata[identityKey]; was != f.identity {
		return f.fail("", "is damaged: %s is %.16q, and its header has %.16s…", identityKey, was, f.identity)
	}
	return nil
}

// maxColumns bounds what is multiplied; the widest inputs in use stay below 2^17.
const maxColumns = 1 << 24

// triangle is how many entries the lower triangle of a Hessian has.
func triangle(n int) int64 { return int64(n) * (int64(n) + 1) / 2 }

// refuseCounts refuses counts that no routing can give.
func refuseCounts(all []Counts) error {
	for _, c := range all {
		sum := int64(0)
		for e, n := range c.Expert {
			if n < 0 || n > c.Tokens {
				return fmt.Errorf("layer %d: expert %d has %d of %d tokens", c.Layer, e, n, c.Tokens)
			}
			sum += n
		}
		if c.Tokens < 0 || sum != c.Tokens*int64(c.TopK) {
			return fmt.Errorf("layer %d: experts have %d tokens, and each of %d goes to %d", c.Layer, sum, c.Tokens, c.TopK)
		}
	}
	return nil
}

// identity is the SHA-256 of the header, digests included. Which program wrote it
// does not matter.
func (h storedHeader) identity() (string, error) {
	h.Program = ""
	b, err := json.Marshal(h)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// Path is where the file lies.
func (f *File) Path() string { return f.path }

// Units are the inputs that the file tells of, as they were measured.
func (f *File) Units() []KeptUnit { return f.units }

// Rows are the tokens that an input was measured on; 0 where it was not.
func (f *File) Rows(at model.Place) int64 {
	if i, ok := f.at[at]; ok {
		return f.inputs[i].Rows
	}
	return 0
}

// Has says whether the moments of an input are there, with a Hessian if asked. An
// expert that got no token has none.
func (f *File) Has(at model.Place, hessian bool) bool {
	i, ok := f.at[at]
	return ok && f.inputs[i].Rows > 0 && (f.inputs[i].Hessian || !hessian)
}

// Identity is the SHA-256 of what it holds, in hex.
func (f *File) Identity() string { return f.identity }

// Notes are what a person should know of an imported file, one a line.
func (f *File) Notes() []string { return f.notes }

// Close gives the file back.
func (f *File) Close() error {
	if f.ck == nil {
		return nil
	}
	return f.ck.Close()
}

// Check refuses moments of another model: by the identity of its weights, and
// where a file does not tell it, as of an imatrix, by the columns of its inputs.
func (f *File) Check(ref *candidate.Candidate) error {
	if s := f.Header.Source; s != "" && s != ref.Identity {
		return f.fail("", "has moments of a checkpoint with identity %.16s…, and %s has %.16s…", s, ref.Label, ref.Identity)
	}
	src, err := ref.Source()
	if err != nil {
		return err
	}
	defer src.Release()
	known := map[model.Place]int{}
	for _, u := range AllInputs(ref.Arch, src, false) {
		for _, in := range u.Inputs {
			known[in.At] = in.N
		}
	}
	for _, in := range f.inputs {
		p, err := ParsePlace(in.At)
		if err != nil {
			return err
		}
		switch n, ok := known[p]; {
		case !ok:
			return f.fail(in.At, "is no input of %s", ref.Label)
		case n != in.N:
			return f.fail(in.At, "has %d columns, and %s has %d", in.N, ref.Label, n)
		}
	}
	return nil
}
