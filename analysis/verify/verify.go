// Package verify proves that a quantized checkpoint is what it says it is, made
// of the checkpoint that it says.
//
// Promises: every byte of both checkpoints' tensors is read, in bounded memory.
// A tensor that is not quantized must have the source's bytes. A quantized one
// is decoded by its layout's own formula and held against the source; where it
// is known how it was made the kernels make it again, and codes, scales and what
// stands beside them must be equal bit for bit. A problem does not end the run:
// the report has all of them. What was not checked is said.
package verify

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"quantscope/analysis/align"
	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/layout"
	"quantscope/quant/topology"
)

// Options say what is known beside the two checkpoints.
type Options struct {
	// Variant is how the quantized tensors were made, as in nvfp4+mse; "" takes
	// what the output's config says, and where it says nothing what reproduces the
	// tensors, if something does.
	Variant string
	// Session is what was measured when the output was made; nil: not known.
	Session Session
	// Codes are those that a calibrated variant chose; nil: not known.
	Codes Codes
	// Layout is how the output is read where it does not tell.
	Layout layout.Options

	Set      kernels.Set // the zero value is the best of the machine
	Threads  int         // 0: all cores
	Progress func(Progress)
}

// Session is what is needed of a session. Its methods may be called from any
// goroutine.
type Session interface {
	// Variants are the names of those that were measured.
	Variants() []string
	// Record is what was measured of a matrix, by the name that topology.Matrix
	// has; ok is false where nothing was.
	Record(ctx context.Context, variant, matrix string) (tap kernels.Tap, ok bool, err error)
}

// ErrSession is wrapped by errors about a session that is of something else.
var ErrSession = errors.New("session")

// ErrVariant is wrapped by errors about a variant that cannot be what made the
// output.
var ErrVariant = errors.New("not what made it")

// Progress is how far a run is. It is reported from many goroutines, one at a
// time.
type Progress struct {
	Done, Total int64  // bytes of both checkpoints
	Tensor      string // read last
}

// Problem is one thing that is not as it should be.
type Problem struct {
	ID      string `json:"id"`
	File    string `json:"file"`
	Tensor  string `json:"tensor"`
	Message string `json:"message"`
}

// IDs of problems, beside those of package layout's findings.
const (
	Unreadable     = "unreadable"      // a file that cannot be opened
	BadIndex       = "index"           // index against shards
	Leftover       = "leftover"        // a file that a finished checkpoint does not have
	Unfinished     = "unfinished"      // what marks an export as not finished
	SideMissing    = "side-missing"    // a file beside the weights that only the source has
	SideChanged    = "side-changed"    // one that has other bytes
	ConfigChanged  = "config-changed"  // a key of config.json, quantization apart
	TensorMissing  = "tensor-missing"  // in the source alone
	TensorExtra    = "tensor-extra"    // in the output alone
	TensorShape    = "tensor-shape"    // dtype or shape differ
	TensorChanged  = "tensor-changed"  // untouched, with other bytes
	ScaleNonFinite = "scale-nonfinite" // NaN or infinite scales
	ScaleZero      = "scale-zero"      // scales of 0, or negative
	ScalesDiffer   = "scales-differ"   // from what the method makes
	CodesDiffer    = "codes-differ"    // the same
	MinsDiffer     = "minima-differ"   // the same of minima or zero points
	GlobalDiffers  = "global-differs"  // the same of a second-level scale
	// CodebookDiffers is the same of the values that codes of two bits stand for.
	CodebookDiffers = "codebook-differs"
	DecodeDiffers   = "decode-differs"   // codes are those of the method, and decode to something else
	ErrorBound      = "error-bound"      // further from the source than rounding explains
	RecordDiffers   = "record-differs"   // from the session's record
	RecordMissing   = "record-missing"   // the session has none
	SourceInfinite  = "source-nonfinite" // source weights that are NaN or infinite
)

// Report is the outcome.
type Report struct {
	OK       bool   `json:"ok"`
	Source   string `json:"source"`
	Output   string `json:"output"`
	Identity string `json:"identity"` // of the source
	Method   string `json:"quant_method"`

	Variant    string `json:"variant"`              // that the quantized tensors were held against, with commas where there are several; "" for none
	From       string `json:"variant_from"`         // who says so: options, config, session, found; "" for none
	Calibrated bool   `json:"calibrated,omitempty"` // that variant is, so that nothing makes its codes again of the weights
	Convention string `json:"convention"`           // whose arithmetic that was; "" for none

	// Of a mixture: the recipe that it was made by, and what of it was made alike.
	Recipe       string  `json:"recipe,omitempty"`
	RecipeSHA256 string  `json:"recipe_sha256,omitempty"`
	Groups       []Group `json:"groups,omitempty"`

	UntouchedTensors   int    `json:"untouched_tensors"`   // compared
	UntouchedIdentical int    `json:"untouched_identical"` // of those
	UntouchedBytes     int64  `json:"untouched_bytes"`
	UntouchedXXH3      string `json:"untouched_xxh3"` // over the hashes of the source's tensors, in the order of its files

	QuantizedTensors    int `json:"quantized_tensors"`    // modules
	QuantizedChecked    int `json:"quantized_checked"`    // read and decoded
	QuantizedReproduced int `json:"quantized_reproduced"` // made again, or held against codes that were kept, equal bit for bit
	// QuantizedCompensated are those that have what the method makes, moved to the
	// second-level scale of what is fused with them, bit for bit.
	QuantizedCompensated int   `json:"quantized_compensated"`
	RecordsCompared      int   `json:"records_compared"`
	QuantizedBytes       int64 `json:"quantized_bytes"` // as stored
	TableBytes           int64 `json:"table_bytes"`     // as the table of formats has it

	// Recoded are matrices that the source has in FP4 codes, and the output in no more
	// than four values of them: each code is the nearest of these to the source's, under
	// the source's scales. They are among QuantizedTensors.
	Recoded int `json:"recoded"`
	// HeadersIdentical are files with the source's header, counted where codes alone may
	// differ.
	HeadersIdentical int    `json:"headers_identical"`
	Codebooks        []Book `json:"codebooks"` // of two bits, and of matrices of four whose codes take no more than four values

	MeanRel2    Figure `json:"mean_rel2"` // of the decoded tensors
	MeanRelL2   Figure `json:"mean_rel_l2"`
	WorstTensor string `json:"worst_tensor"`
	WorstRelL2  Figure `json:"worst_rel_l2"`
	CosMin      Figure `json:"cos_min"`

	Bytes    int64     `json:"bytes"` // read
	Notes    []string  `json:"notes"`
	Problems []Problem `json:"problems"`
}

// Run compares the checkpoint at the path out with its source. Errors are those
// that leave nothing to report: the output is no checkpoint, the context ended,
// the source cannot be read.
func Run(ctx context.Context, src *checkpoint.Checkpoint, model *topology.Model, out string, o Options) (*Report, error) {
	if o.Set.Name == "" {
		o.Set = kernels.Best()
	}
	if o.Threads < 1 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	r := &run{Options: o, src: src, model: model, rep: &Report{
		Source: src.Path, Output: out, Identity: src.Identity().String(), Notes: []string{}, Problems: []Problem{},
	}}
	if err := r.open(out); err != nil {
		return nil, err
	}
	defer func() { _ = r.out.Close() }() // of files that were only read
	r.folder()
	if err := r.stock(); err != nil {
		return nil, err
	}
	r.pair()
	if err := r.methodsOf(); err != nil {
		return nil, err
	}
	if err := r.smoothing(ctx); err != nil {
		return nil, err
	}
	if err := r.method(ctx); err != nil {
		return nil, err
	}
	if err := r.work(ctx); err != nil {
		return nil, err
	}
	if err := r.globals(ctx); err != nil {
		return nil, err
	}
	if file, changed := src.Changed(); changed {
		return nil, &checkpoint.FileError{File: file, Reason: "changed while it was read"}
	}
	if file, changed := r.out.Changed(); changed {
		r.problem(Unreadable, filepath.Base(file), "", "changed while it was read")
	}
	r.finish()
	return r.rep, nil
}

// run is the work of one Run.
type run struct {
	Options
	rep   *Report
	src   *checkpoint.Checkpoint
	model *topology.Model

	outputState
	pairs
	recodes
	specs    map[string]found // by family of modules
	recorded string           // variant whose records are compared
	sums     sums
	smoothed map[string]align.Smoothed // tensors of the output that were, by name

	groupsOnce sync.Once
	groups     map[string][]int // see sharedGroups
}

// problem adds a problem. It may be called from any goroutine.
func (r *run) problem(id, file, tensor, format string, args ...any) {
	r.sums.mu.Lock()
	defer r.sums.mu.Unlock()
	r.rep.Problems = append(r.rep.Problems, Problem{id, file, tensor, fmt.Sprintf(format, args...)})
}

func (r *run) note(format string, args ...any) {
	r.rep.Notes = append(r.rep.Notes, fmt.Sprintf(format, args...))
}

// finish orders the problems and sums up.
func (r *run) finish() {
	at := make(map[string]int, len(r.out.Tensors))
	for i := range r.out.Tensors {
		at[r.out.Tensors[i].Name] = i + 1
	}
	slices.SortStableFunc(r.rep.Problems, func(a, b Problem) int {
		if c := strings.Compare(a.File, b.File); c != 0 {
			return c
		}
		if c := at[a.Tensor] - at[b.Tensor]; c != 0 {
			return c
		}
		return strings.Compare(a.Tensor, b.Tensor)
	})
	r.repaired()
	r.recodedTotals()
	r.books()
	r.figures()
	r.rep.OK = len(r.rep.Problems) == 0
}
