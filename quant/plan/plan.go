// Package plan resolves a recipe against a checkpoint before any weight is read.
//
// Promises: headers alone decide. Every matrix is in one group, ignored, exempted or
// untargeted, and counted once; what a person would regret later (overlaps, patterns
// that match nothing, routers, MTP or vision matched, experts missing or fused, an
// expert count that is off) is a finding with the pattern or the tensor in it. Sizes
// follow from the table of formats, in bytes; memory is of one rank, with what it
// leaves out named.
package plan

import (
	"errors"

	"quantscope/quant/checkpoint"
	"quantscope/quant/recipe"
	"quantscope/quant/topology"
)

// Options say what the plan is for.
type Options struct {
	Layout    string  // that will be written, as package export names it; "" for none
	Ranks     int     // of tensor parallelism; 0 is 1
	KVTokens  int64   // tokens whose keys and values are kept, of all sequences together; 0 for none
	KVFormat  string  // of them: bf16, f16, fp8; "" is bf16
	Bandwidth float64 // bytes/s of a rank's memory; 0 for none
	Loader    string  // class that a server loads it as; "" is the config's own
}

// Severity says what a finding means.
type Severity string

// Severities.
const (
	Error   Severity = "error"   // the recipe is not to be run
	Warning Severity = "warning" // worth a look
)

// Finding is something about a recipe that a person should know before time is spent.
type Finding struct {
	ID       string   `json:"id"`
	Severity Severity `json:"severity"`
	Where    string   `json:"where"` // groups[0].targets[1], ignore[2]; "" where it is about a tensor
	Pattern  string   `json:"pattern"`
	Tensor   string   `json:"tensor"`
	Message  string   `json:"message"`
	Fix      string   `json:"fix"`
}

// Pattern is one pattern with what it matches.
type Pattern struct {
	Pattern string `json:"pattern"`
	Matches int    `json:"matches"` // matrices
}

// Share is matrices that are stored alike.
type Share struct {
	Scheme      string  `json:"scheme"`  // in the table of formats; the dtype of what keeps the source's bytes
	Variant     string  `json:"variant"` // scheme with methods; "" of what is kept
	Matrices    int     `json:"matrices"`
	Params      int64   `json:"params"`
	ShareParams float64 `json:"share_params"` // of all parameters of the checkpoint
	BytesBefore int64   `json:"bytes_before"`
	BytesAfter  int64   `json:"bytes_after"`
}

// Group is a group of the recipe.
type Group struct {
	Share
	Targets       []Pattern `json:"targets"`
	BitsPerWeight float64   `json:"bits_per_weight"` // with scales
}

// Experts is the count of what the recipe takes of the routed experts.
type Experts struct {
	Layers, Experts, Projections int // as the config says them, MTP layers not included
	MTPLayers                    int
	Expected                     int // matrices: layers × experts × projections, with those of MTP layers that are targeted
	Targeted                     int // matrices that groups store
	Fused                        int // of the targeted ones, in tensors that hold all experts
	Missing                      []string
}

// Memory is what one rank holds.
type Memory struct {
	Ranks        int    `json:"ranks"`
	WeightsBytes int64  `json:"weights_bytes"`
	KVBytes      int64  `json:"kv_bytes"`
	Loader       string `json:"loader"`
	// LeftOut are parts that the loader does not instantiate, with their bytes.
	LeftOut []Part `json:"left_out"`
	Notes   []string
}

// Part is a part of a checkpoint.
type Part struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// Decode is what a decoded token reads at batch 1.
type Decode struct {
	BytesPerToken int64   `json:"bytes_per_token"` // of active weights and of keys and values, all ranks
	TokensPerSec  float64 `json:"tokens_per_s"`    // the ceiling at Options.Bandwidth a rank; 0 without
}

// Plan is a recipe resolved against a checkpoint. It can be kept as JSON.
type Plan struct {
	Recipe     string `json:"recipe"` // name
	Source     string `json:"source"` // of a built-in: where it was published
	Checkpoint string `json:"checkpoint"`
	Identity   string `json:"identity"`

	Groups     []Group   `json:"groups"`
	Ignore     []Pattern `json:"ignore"`
	Exemptions []Pattern `json:"exemptions"`
	Kept       []Share   `json:"kept"` // what keeps the source's bytes, by dtype
	// Of matrices that could be quantized.
	Ignored, Exempted, Untargeted int

	Experts      *Experts `json:"experts,omitempty"`
	Before       Memory   `json:"before"`
	After        Memory   `json:"after"`
	BytesBefore  int64    `json:"bytes_before"` // of all weights in files
	BytesAfter   int64    `json:"bytes_after"`
	BitsBefore   float64  `json:"bits_per_weight_before"` // of all parameters
	BitsAfter    float64  `json:"bits_per_weight_after"`
	DecodeBefore Decode   `json:"decode_before"`
	DecodeAfter  Decode   `json:"decode_after"`
	Findings     []Finding
	SchemeShares []Share `json:"schemes"` // of all parameters, by scheme, most first

	// Selection are the matrices that groups store, in storage order, and Of the
	// group of each.
	Selection []topology.Matrix `json:"-"`
	Of        []int             `json:"-"`
}

// errNotYet is returned by what is not there.
var errNotYet = errors.New("plan: not there")

// New resolves a recipe. An error is of a pattern's form or of a checkpoint that
// cannot be quantized at all; what is wrong with the recipe is in Findings.
func New(ck *checkpoint.Checkpoint, model *topology.Model, f *recipe.File, o Options) (*Plan, error) {
	return nil, errNotYet
}

// Err is the first finding that keeps the recipe from being run, with the number of
// the others; nil where there is none.
func (p *Plan) Err() error { return errNotYet }
