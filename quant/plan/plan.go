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
	"fmt"
	"slices"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/export"
	"quantscope/quant/method"
	"quantscope/quant/recipe"
	"quantscope/quant/topology"
)

// Options say what the plan is for.
type Options struct {
	Layout    string   // that will be written, as package export names it; "" for none
	Ranks     int      // of tensor parallelism; 0 is 1
	KVTokens  int64    // tokens whose keys and values are kept, of all sequences together; 0 for none
	KVFormat  string   // of them: bf16, f16, fp8; "" is bf16
	Bandwidth float64  // bytes/s of a rank's memory; 0 for none
	Loader    string   // class that a server loads it as; "" is the config's own
	Accept    []string // ids of findings that keep no recipe from being run
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
	Modules int    `json:"modules"` // that hold no matrix, of patterns that match no matrix
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

// Cover is what becomes of the matrices of one kind that could be quantized.
type Cover struct {
	Kind       string `json:"kind"`
	Matrices   int    `json:"matrices"`
	Targeted   int    `json:"targeted"`
	Ignored    int    `json:"ignored"`
	Exempted   int    `json:"exempted"`
	Untargeted int    `json:"untargeted"`
	Params     int64  `json:"params"`
}

// Experts is the count of what the recipe takes of the routed experts.
type Experts struct {
	// As the config says them, MTP layers not included; as names say where it does not.
	Layers      int `json:"layers"`
	Experts     int `json:"experts"`
	Projections int `json:"projections"`
	MTPLayers   int `json:"mtp_layers"`
	// Expected is layers × experts × projections, with those of MTP layers where any
	// of them is targeted.
	Expected int      `json:"expected"`
	Targeted int      `json:"targeted"` // matrices that groups store
	Kept     int      `json:"kept"`     // that ignore or exemptions name
	Fused    int      `json:"fused"`    // of the targeted ones, in tensors that hold all experts
	Missing  []string `json:"missing"`  // layers and experts
}

// Memory is what one rank holds.
type Memory struct {
	Ranks        int    `json:"ranks"`
	WeightsBytes int64  `json:"weights_bytes"`
	KVBytes      int64  `json:"kv_bytes"`    // of keys and values of Options.KVTokens tokens, all layers
	StateBytes   int64  `json:"state_bytes"` // of one sequence, whatever its length: linear attention, open windows of compression
	Loader       string `json:"loader"`
	// LeftOut are parts that the loader does not instantiate, with their bytes.
	LeftOut []Part   `json:"left_out"`
	Notes   []string `json:"notes"`
}

// Part is a part of a checkpoint.
type Part struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"` // in files
	Why   string `json:"why"`
}

// Decode is what a decoded token reads at batch 1.
type Decode struct {
	BytesPerToken int64   `json:"bytes_per_token"` // of active weights, of keys and values and of states, all ranks
	BytesPerRank  int64   `json:"bytes_per_rank"`
	TokensPerSec  float64 `json:"tokens_per_s"` // the ceiling at Options.Bandwidth a rank; 0 without
}

// Plan is a recipe resolved against a checkpoint. It can be kept as JSON; all its
// figures are finite.
type Plan struct {
	Recipe     string `json:"recipe"` // name
	Source     string `json:"source"` // of a built-in: where it was published
	Checkpoint string `json:"checkpoint"`
	Identity   string `json:"identity"`
	Summary    string `json:"summary"` // of the checkpoint, in one line
	Layout     string `json:"layout"`  // "" for none: sizes are then of the table of formats

	Groups     []Group   `json:"groups"`
	Ignore     []Pattern `json:"ignore"`
	Exemptions []Pattern `json:"exemptions"`
	Kept       []Share   `json:"kept"` // what keeps the source's bytes, by dtype
	// Of matrices that could be quantized. What ignore or an exemption matches is
	// counted there whether or not a group matches it too; untargeted is what no
	// pattern matches.
	Matrices   int     `json:"matrices"`
	Targeted   int     `json:"targeted"`
	Ignored    int     `json:"ignored"`
	Exempted   int     `json:"exempted"`
	Untargeted int     `json:"untargeted"`
	Coverage   []Cover `json:"coverage"` // the same by kind
	// LeftAlone is all that no group stores, by parts of the model, with the reason.
	LeftAlone []recipe.Part `json:"left_alone"`

	Experts      *Experts  `json:"experts,omitempty"`
	Before       Memory    `json:"before"`
	After        Memory    `json:"after"`
	Params       int64     `json:"params"`       // of the checkpoint
	BytesBefore  int64     `json:"bytes_before"` // of all weights in files
	BytesAfter   int64     `json:"bytes_after"`
	BitsBefore   float64   `json:"bits_per_weight_before"` // of all parameters
	BitsAfter    float64   `json:"bits_per_weight_after"`
	DecodeBefore Decode    `json:"decode_before"`
	DecodeAfter  Decode    `json:"decode_after"`
	Findings     []Finding `json:"findings"` // errors first
	SchemeShares []Share   `json:"schemes"`  // of all parameters, by scheme, most first

	// Selection are the matrices that groups store, in storage order, and Of the
	// group of each.
	Selection []topology.Matrix `json:"-"`
	Of        []int             `json:"-"`
}

// Errors that callers tell apart.
var (
	ErrRecipe  = errors.New("recipe")  // what Err returns: the recipe is not to be run
	ErrUnknown = errors.New("unknown") // an option that is none
)

// New resolves a recipe. An error is of a pattern's form, of a scheme or an option
// that does not exist, or of a checkpoint that has nothing to quantize; what is
// wrong with the recipe is in Findings.
func New(ck *checkpoint.Checkpoint, model *topology.Model, f *recipe.File, o Options) (*Plan, error) {
	p := &planner{Plan: &Plan{Checkpoint: ck.Path, Identity: ck.Identity().String()}, model: model, file: f, o: o}
	if err := p.options(); err != nil {
		return nil, err
	}
	if err := p.run(); err != nil {
		return nil, fmt.Errorf("%s: %w", ck.Path, err)
	}
	return p.Plan, nil
}

// Resolve is New for a model without a checkpoint: names, shapes and a config.
func Resolve(model *topology.Model, f *recipe.File, o Options) (*Plan, error) {
	p := &planner{Plan: &Plan{}, model: model, file: f, o: o}
	if err := p.options(); err != nil {
		return nil, err
	}
	if err := p.run(); err != nil {
		return nil, err
	}
	return p.Plan, nil
}

// Err is the first finding that keeps the recipe from being run, with the number of
// the others; nil where there is none.
func (p *Plan) Err() error {
	var first *Finding
	more := 0
	for i := range p.Findings {
		switch {
		case p.Findings[i].Severity != Error:
		case first == nil:
			first = &p.Findings[i]
		default:
			more++
		}
	}
	if first == nil {
		return nil
	}
	also := ""
	if more > 0 {
		also = fmt.Sprintf(" (%d more, see plan)", more)
	}
	return fmt.Errorf("%w %q is not to be run: %s: %s%s", ErrRecipe, p.Recipe, first.ID, first.Message, also)
}

// planner is the work of one New.
type planner struct {
	*Plan
	model *topology.Model
	file  *recipe.File
	o     Options

	variants []method.Variant // of the groups
	formats  []kernels.Format
	res      *recipe.Resolution
	state    []state // by matrix
	grouped  []bool  // matrices that a target matches, whatever becomes of them
	first    []int   // of each tensor, the index of its first matrix; len+1 entries
	size     []int64 // of each tensor in the source
	params   []int64 // of each tensor; of scales and the like 0
	after    []int64 // of each matrix that a group stores, its bytes in files
	bytes    map[shaped]int64
	guesses  int // of names that a pattern could have meant
}

// state is what becomes of a matrix: the index of its group, or one of these.
type state int

const (
	untargeted state = -1 - iota
	ignored
	exempted
	noSource // cannot be quantized from its dtype
)

func (p *planner) run() error {
	p.Findings = []Finding{}
	for _, step := range []func() error{p.sizes, p.resolve, p.shares, p.experts} {
		if err := step(); err != nil {
			return err
		}
	}
	p.checkPatterns()
	p.checkKinds()
	p.checkStacks()
	p.checkFused()
	p.checkShapes()
	p.checkSource()
	p.LeftAlone = recipe.LeftAlone(p.model, p.size, func(k int) bool { return p.state[k] >= 0 }, p.whyLeft)
	if err := p.memory(); err != nil {
		return err
	}
	p.finish()
	return nil
}

// options checks what the plan is for.
func (p *planner) options() error {
	o := &p.o
	o.Ranks = max(o.Ranks, 1)
	if o.KVFormat == "" {
		o.KVFormat = "bf16"
	}
	switch {
	case o.Ranks > maxRanks:
		return fmt.Errorf("%d ranks: 1 to %d", o.Ranks, maxRanks)
	case o.KVTokens < 0 || o.KVTokens > maxTokens:
		return fmt.Errorf("%d tokens of keys and values: 0 to %d", o.KVTokens, int64(maxTokens))
	case !(o.Bandwidth >= 0 && o.Bandwidth <= maxBandwidth):
		return fmt.Errorf("a bandwidth of %v bytes/s: 0 to %v", o.Bandwidth, float64(maxBandwidth))
	case kvBytes[o.KVFormat] == 0:
		return fmt.Errorf("keys and values in %q: %w (known: bf16, f16, fp8)", o.KVFormat, ErrUnknown)
	case o.Layout != "" && !slices.Contains(export.Layouts(), o.Layout):
		return fmt.Errorf("layout %q: %w (known: %s)", o.Layout, ErrUnknown, strings.Join(export.Layouts(), ", "))
	}
	for _, id := range o.Accept {
		if !slices.ContainsFunc(findings, func(k Kind) bool { return k.ID == id }) {
			return fmt.Errorf("finding %q: %w (known: %s)", id, ErrUnknown, strings.Join(ids(), ", "))
		}
	}
	return nil
}

// Bounds on what can be asked for, so that no product of them overflows.
const (
	maxRanks     = 4096
	maxTokens    = 1 << 36
	maxBandwidth = 1e18
)

// finish sums up what is printed.
func (p *planner) finish() {
	p.Recipe, p.Source = p.file.Name, p.file.Origin
	if p.Recipe == "" {
		p.Recipe = "unnamed"
	}
	p.Summary, p.Layout, p.Params = p.model.Summary, p.o.Layout, p.model.TotalParams
	slices.SortStableFunc(p.Findings, func(a, b Finding) int { return rank(a.Severity) - rank(b.Severity) })
}

func rank(s Severity) int {
	if s == Error {
		return 0
	}
	return 1
}
