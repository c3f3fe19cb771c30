package calibrate

import (
	"context"
	"errors"

	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/kernels"
	"quantscope/quant/codes"
	"quantscope/quant/export"
	"quantscope/quant/method"
	"quantscope/quant/topology"
)

// Setup says what is calibrated. It is not changed once handed over.
type Setup struct {
	Reference *candidate.Candidate
	Variant   method.Variant // one that is Calibrated
	Targets   string         // as the session says it; for the record
	Matrices  []topology.Matrix
	Globals   export.Globals
	Corpus    *corpus.Corpus // nil where Saved has all that is needed
	Saved     *File          // moments that were measured before; nil: they are measured now, layer by layer
	Only      []string       // projections that are calibrated; the others stay at the baseline. nil: all
	Damp      float64        // 0 stands for 0.01
	Codes     string         // folder of codes, to make or to go on with; "": nothing is kept
	Set       kernels.Set
	Threads   int
	Mem       int64  // bytes; 0: 2 GiB
	Program   string // for the record
}

// Job is a Setup that was checked: nothing was computed yet.
type Job struct {
	s Setup
}

var errNotYet = errors.New("calibrate: is not there yet")

// Prepare checks a setup: that the pass reaches every matrix, that the text fits
// the vocabulary, that memory is enough; *model.MemoryError where it is not.
func Prepare(ctx context.Context, s Setup) (*Job, error) { return nil, errNotYet }

// Units are what a run does one after the other, by the names that codes are kept
// under.
func (j *Job) Units() []string { return nil }

// Progress is told as a run goes.
type Progress struct {
	Unit        string // layer 3, mtp 5, head
	Units, Done int
	Step        string // reading codes, looking, factoring, quantizing, passing
	Of, At      int64  // of the step: tokens, or weights
	Tokens      int64  // that went through layers in all, both ways
}

// Result is one matrix that was quantized, or was read back.
type Result struct {
	Matrix int            // index into Setup.Matrices
	Source kernels.Matrix // the weights as stored, only lent; without data where they are not stored as a matrix
	Tap    kernels.Tap
	Trade  Trade
	Codes  codes.Matrix
	Again  bool // read back from the codes folder
}

// Trade is what calibration did to a matrix: GPTQ pays with weight error for
// output error. Output errors are relative: tr((W−Q)H(W−Q)ᵀ)/tr(WHWᵀ).
type Trade struct {
	Effective string `json:"effective"`         // variant that made it
	Why       string `json:"why,omitempty"`     // why that is not what was asked for
	Chosen    bool   `json:"chosen,omitempty"`  // not calibrated because the user said so (--calibrate)
	Input     string `json:"input"`             // whose moments, as model.Place says it
	Tokens    int64  `json:"tokens"`            // that they were measured on
	N         int    `json:"n"`                 // columns
	Rank      int    `json:"rank"`              // of the Hessian; -1 without one
	Cond      Float  `json:"cond"`              // of the damped one
	DampShare Float  `json:"dampShare"`         // of the solution that is damping
	Dead      int    `json:"dead,omitempty"`    // columns that were never anything but 0
	Codes     int64  `json:"codes"`             // of the matrix
	Changed   int64  `json:"changed"`           // codes that are not the baseline's, and group parameters
	Rel2      Float  `json:"rel2"`              // weight error
	BaseRel2  Float  `json:"baseRel2"`          // of the baseline
	Out2      Float  `json:"out2"`              // output error
	BaseOut2  Float  `json:"baseOut2"`          // of the baseline
	OutRows   int    `json:"outRows,omitempty"` // rows that output errors were taken over, where not all
}

// Sink takes what a run makes, from one goroutine. Fields may be nil.
type Sink struct {
	Progress func(Progress)
	Counts   func(Counts)
	Matrix   func(Result) error
	Unit     func(unit string, seconds float64) error // all of it is handed over, and kept
	Pause    func(context.Context) error              // asked between units; waits where the person holds the run
}

// Fallback is a matrix that is not what was asked for.
type Fallback struct {
	Matrix    int
	Effective string
	Reason    string
}

// Outcome is what a run comes to.
type Outcome struct {
	Store      *codes.Store // nil without a folder
	Fallbacks  []Fallback
	Params     int64 // of all matrices
	FellBack   int64 // parameters of those that fell back
	Calibrated int   // matrices
	Changed    int64 // codes and parameters of calibrated matrices that are not the baseline's
	Rank       RankBound
	Warnings   []string
}

// ErrFidelity is wrapped where a calibrated arm is its baseline, code for code.
var ErrFidelity = errors.New("calibration changed nothing")

// Gate is ErrFidelity with the figures where nothing changed, nil else.
func (o *Outcome) Gate() error { return nil }

// RankBound says whether the text can fill the Hessians of experts' down
// projections: T ≥ moe_intermediate · n_experts / top_k.
type RankBound struct {
	Inner   int   `json:"inner"`
	Experts int   `json:"experts"`
	TopK    int   `json:"topK"`
	Tokens  int64 `json:"tokens"`
	Need    int64 `json:"need"`
}

// Met says whether it is; a model without experts needs nothing.
func (r RankBound) Met() bool { return r.Experts == 0 || r.Tokens >= r.Need }

// Run calibrates. What the codes folder has already is read back and passed
// through, not made again. ctx ends it; what is kept stays.
func (j *Job) Run(ctx context.Context, sink Sink) (*Outcome, error) { return nil, errNotYet }
