package calibrate

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"runtime"
	"slices"

	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/analysis/model"
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
	s         Setup
	base      method.Variant // without what is calibrated
	targets   []target       // as Setup.Matrices
	units     []unit
	shared    [][]int // targets that share a global scale
	budget    Budget
	beside    int // matrices that are made beside each other
	rank      RankBound
	savedText [][]int32 // the ids that Setup.Saved was measured on, where it has them
}

// numerics is the version of the arithmetic: codes of another are not gone on with.
const numerics = "1"

// numericsOfBooks is that of variants with a codebook, whose codes were of four bits in
// the first.
const numericsOfBooks = "2"

// sequential is what manifests call inputs that were measured behind quantized
// layers.
const sequential = "sequential"

const (
	defaultMem  = 2 << 30
	defaultDamp = 0.01
)

// Prepare checks a setup: that the text fits the vocabulary, that the pass gets
// through the model and, of every matrix, that it reaches it and that the tensors
// are there that its input comes through; that memory is enough, *MemoryError where
// it is not. What the method cannot be run on falls back, with the reason; Fallbacks
// says which are known already.
func Prepare(ctx context.Context, s Setup) (*Job, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.Set.Name == "" {
		s.Set = kernels.Best()
	}
	if s.Threads <= 0 {
		s.Threads = runtime.GOMAXPROCS(0)
	}
	if s.Mem == 0 {
		s.Mem = defaultMem
	}
	if s.Damp == 0 {
		s.Damp = defaultDamp
	}
	if len(s.Only) > 1 { // a set: neither order nor repetition changes anything
		s.Only = slices.Compact(slices.Sorted(slices.Values(s.Only)))
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	j := &Job{s: s, base: s.Variant.Baseline()}
	src, err := s.Reference.Source()
	if err != nil {
		return nil, err
	}
	defer src.Release()
	if err := newGuards(j, src).check(); err != nil {
		return nil, err
	}
	j.share()
	tokens := int64(0)
	if s.Corpus != nil {
		tokens = s.Corpus.Tokens()
	} else {
		tokens = s.Saved.Header.Corpus.Tokens
		if j.savedText, err = s.Saved.Chunks(ctx); err != nil {
			return nil, err
		}
	}
	j.rank = NewRankBound(s.Reference.Arch, tokens)
	return j, j.fit()
}

// share finds the matrices that have one global scale.
func (j *Job) share() {
	if j.s.Globals != export.Shared || !export.SharesGlobal(j.s.Variant.Scheme) {
		return
	}
	var list []topology.Matrix
	var at []int
	for i := range j.targets {
		if !j.targets[i].kept {
			list, at = append(list, j.s.Matrices[i]), append(at, i)
		}
	}
	for _, g := range export.SharedGroups(list) {
		members := make([]int, len(g))
		for k, i := range g {
			members[k] = at[i]
		}
		j.shared = append(j.shared, members)
	}
}

// fit shares the memory out: the codes of a unit stay until it is written.
func (j *Job) fit() error {
	j.beside = j.s.Threads
	if j.s.Saved != nil {
		return nil
	}
	held := j.codesOf()
	for {
		var err error
		if j.budget, err = Predict(j.s.Reference.Arch, j.load(), j.s.Mem-held.Bytes); err == nil {
			j.budget.Need += held.Bytes
			j.budget.Parts = append(j.budget.Parts, held)
			return nil
		}
		if j.beside > 1 { // less beside each other needs less
			j.beside = 1
			continue
		}
		var e *MemoryError
		if !errors.As(err, &e) {
			return err
		}
		list := append(slices.Clone(e.Parts), held)
		slices.SortStableFunc(list, func(a, b Part) int { return cmp.Compare(b.Bytes, a.Bytes) })
		return &MemoryError{e.Need + held.Bytes, j.s.Mem, list}
	}
}

// codesOf is what the codes of the largest unit take.
func (j *Job) codesOf() Part {
	var most Part
	for i := range j.units {
		n := int64(0)
		for _, k := range j.units[i].targets {
			if m := &j.s.Matrices[k]; !j.targets[k].kept {
				n += max(0, j.s.Variant.Bytes(m.Rows, m.Cols))
			}
		}
		if n > most.Bytes {
			most = Part{"codes of " + j.units[i].name, n}
		}
	}
	return most
}

// load is what memory is predicted for.
func (j *Job) load() Load {
	l := Load{Rows: j.s.Corpus.Tokens(), Threads: j.s.Threads, Bits: j.bits(), Beside: j.takes}
	for _, c := range j.s.Corpus.Chunks {
		l.Chunk = max(l.Chunk, len(c))
	}
	head := Input{N: j.s.Reference.Arch.Hidden}
	l.Wants = func(layer *model.Layer) []Want {
		name := unitHead
		if layer != nil {
			name = unitOf(layer)
		}
		for i := range j.units {
			if u := &j.units[i]; u.name == name {
				return j.wants(u, head)
			}
		}
		return nil
	}
	return l
}

// bits are those of the widest weights.
func (j *Job) bits() float64 {
	for i := range j.s.Reference.Topology.Tensors {
		if j.s.Reference.Topology.Tensors[i].DType == "F32" {
			return 32
		}
	}
	return 16
}

// takes are the bytes beside the moments of an input of n columns while the matrices
// are made that read it: what its Hessian is taken apart in, twice, and of the
// matrices of a batch the weights, in f32 where they are not stored so, two sets of
// codes and what they decode to.
func (j *Job) takes(n int) int64 {
	weights := int64(batchWeights)
	for i := range j.s.Matrices {
		if m := &j.s.Matrices[i]; m.Cols == n {
			weights = max(weights, j.targets[i].params)
		}
	}
	all := int64(0)
	for i := range j.targets {
		all += j.targets[i].params
	}
	bytes := 12 * min(weights, all)
	if j.s.Variant.NeedsHessian() {
		bytes += int64(j.beside) * 16 * int64(n) * int64(n)
	}
	return bytes
}

// Units are what a run does one after the other, by the names that codes are kept
// under.
func (j *Job) Units() []string {
	out := make([]string, len(j.units))
	for i := range j.units {
		out[i] = j.units[i].name
	}
	return out
}

// Rank says whether the text can fill the Hessians of experts.
func (j *Job) Rank() RankBound { return j.rank }

// Budget says how memory is shared out; the zero value where nothing is measured.
func (j *Job) Budget() Budget { return j.budget }

// Fallbacks are the matrices of which it is known before anything is computed that
// they cannot be what was asked for.
func (j *Job) Fallbacks() []Fallback {
	var out []Fallback
	for i := range j.targets {
		if t := &j.targets[i]; t.why != "" {
			out = append(out, Fallback{i, t.as, t.why})
		}
	}
	return out
}

// Manifest is that of the codes which the job makes.
func (j *Job) Manifest() codes.Manifest {
	s := &j.s
	m := codes.Manifest{
		Format: 1, Source: s.Reference.Identity, Variant: s.Variant.Name, Convention: s.Variant.Spec.Convention.String(), GlobalScale: s.Globals.String(),
		Targets: s.Targets, Units: j.Units(), Only: s.Only, Damp: s.Damp, Inputs: sequential, Numerics: numerics, Program: s.Program,
	}
	if s.Variant.NeedsMatrix() {
		m.Numerics = numericsOfBooks
	}
	for i := range s.Matrices {
		m.Matrices = append(m.Matrices, s.Matrices[i].Name)
	}
	if s.Saved != nil {
		m.Inputs = s.Saved.Identity()
		if len(j.savedText) > 0 { // an importance matrix has no text
			m.Corpus = s.Saved.Header.Corpus
		}
		return m
	}
	c := s.Corpus
	m.Corpus = codes.Corpus{
		Name: c.Name, Source: c.Source, SHA256: hex.EncodeToString(c.SHA256[:]), Tokenizer: c.Tokenizer, Chunks: len(c.Chunks), Tokens: c.Tokens(),
	}
	return m
}

// chunks are the ids that are kept beside the codes, so that evaluation text that
// is in them can be told.
func (j *Job) chunks() [][]int32 {
	if j.s.Saved != nil {
		return j.savedText
	}
	return j.s.Corpus.Chunks
}

// Progress is told as a run goes.
type Progress struct {
	Unit        string // layer 3, mtp 5, head
	Units, Done int
	Step        string // reading codes, looking, factoring, quantizing, passing
	Of, At      int64  // of the step: tokens, in a layer by the share of its work that is done, or weights
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
	Moments  func(*Moments) error // of every input that was measured, before it is used; only lent
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
	Variant    string       // what was asked for
	Baseline   string       // what stays where that cannot be
	Store      *codes.Store // nil without a folder
	Fallbacks  []Fallback
	Matrices   int
	Params     int64 // of all matrices
	FellBack   int64 // parameters of those that fell back
	Calibrated int   // matrices
	Chosen     int   // matrices that stay at the baseline because the person said so
	Codes      int64 // of calibrated matrices
	Changed    int64 // codes and parameters of calibrated matrices that are not the baseline's
	Rank       RankBound
	Experts    Spread // of what tokens experts were given
	All        Means  // of calibrated matrices
	Downs      Means  // of those that are down projections of routed experts
	Others     Means  // of the others
	Warnings   []string
}

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
