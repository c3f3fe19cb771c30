package sessions

import (
	"slices"

	"quantscope/kernels"
	"quantscope/quant/topology"
)

// Tensor is one matrix that a session measures. IDs are dense from 0, in the
// order in which the checkpoint stores them.
type Tensor struct {
	ID         int
	Name       string // topology.Matrix.Name
	Source     string // the stored tensor
	File       string // base name of the shard
	DType      string
	Rows, Cols int
	Role       topology.Role
}

// Variant is a scheme with its methods. IDs are dense from 0, in the order in
// which they were added to the session.
type Variant struct {
	ID            int
	Name          string   // as requested, for instance nvfp4+mse_ge1
	Effective     string   // what really ran; differs from Name where something fell back
	Scheme        string   // a name in the table of formats: nvfp4, int4-g128
	Convention    string   // whose arithmetic: modelopt, ct32
	BitsPerWeight float64  // scale overhead included
	Multipliers   []string // labels of Tap.Multipliers, in order
	// From is the label of the session that a joined state took the variant from,
	// and Own its name there; both are "" for a session's own variants.
	From, Own string
}

// Plain is the name that says what the variant does: scheme and methods, without
// the label that a joined state appends.
func (v *Variant) Plain() string {
	if v.Own != "" {
		return v.Own
	}
	return v.Name
}

// Record is one tap record as panes and tables use it: the figures of a
// kernels.Tap without its histograms, except the clip depths. Figures that are
// not defined are NaN.
type Record struct {
	Seq             int64 // of the event that carries it
	AtUS            int64 // microseconds since the session was created
	Variant, Tensor int
	Failed          bool // no figures: the event's message says why
	// Weights is the XXH3 of the matrix that was measured, as it is stored, and
	// WeightsSHA the first eight bytes of its SHA-256, which older records have
	// instead; 0 where it is not known.
	Weights, WeightsSHA uint64

	Cos, Rel2, RelL2, SQNR        float64
	MaxAbsErr, Amax               float64
	GlobalScale                   float64
	ScaleMin, ScaleMean, ScaleMax float64
	W2, E2                        float64 // Σw², Σ(w−q)²
	// Of the source: standard deviation about the mean and kurtosis m₄/m₂². Both
	// are NaN in older records.
	Std, Kurtosis float64

	Elements, Blocks, ZeroBlocks, NonFinite int64
	ScaleHigh, ScaleLow, ScaleSubnormal     int64
	Shallow, Deep, SubnormalClipped         int64   // blocks
	ShallowL2, DeepL2                       float64 // shares of W2 in clipped elements
	Depth                                   [kernels.DepthBins]uint32

	// Of formats with a codebook; NaN and 0 elsewhere, and in records of before format 7.
	Bias, RowBias, RowBiasMax float64 // sign bias: of the matrix, root mean square over its rows, largest of a row
	L2, Sym                   float64 // least rel2 of any codebook, and of those that are ±a, ±b; see kernels.Bias
	Codebook                  uint16
}

// EventKind says what an Event reports.
type EventKind string

// Kinds of events. The set is part of the file format (docs/session.md).
const (
	EventCreated   EventKind = "created"  // a session began: source, settings
	EventVariant   EventKind = "variant"  // a variant was added
	EventStarted   EventKind = "started"  // a run over one or more variants began
	EventTap       EventKind = "tap"      // one tensor was measured under one variant
	EventFailed    EventKind = "failed"   // one tensor could not be measured
	EventFallback  EventKind = "fallback" // something other than what was requested ran
	EventFinding   EventKind = "finding"  // a defect of the checkpoint or an odd record
	EventPaused    EventKind = "paused"
	EventResumed   EventKind = "resumed" // after a pause, or a later process going on
	EventCancelled EventKind = "cancelled"
	EventStopped   EventKind = "stopped" // the run ended early on an error of the environment
	EventFinished  EventKind = "finished"
	EventAudit     EventKind = "audit" // the scales of a checkpoint were looked at
	EventYard      EventKind = "yard"  // a measurement of KL divergence began: its setup
	EventScore     EventKind = "score" // one chunk was scored under all candidates
	EventYardEnd   EventKind = "yardend"
	EventCalib     EventKind = "calib" // a calibrated run of a variant began: its setup
	EventUnit      EventKind = "unit"  // one layer of it is done: counts of tokens, what was traded
	EventCalibEnd  EventKind = "calibend"
	EventPlan      EventKind = "plan"   // the variant before it follows a recipe: its plan
	EventGates     EventKind = "gates"  // a run of gates began: its setup
	EventArm       EventKind = "arm"    // an arm of it was opened: who answers
	EventAnswer    EventKind = "answer" // one answer to a probe, with its verdict
	EventMeter     EventKind = "meter"  // an arm of a run is done: who it was, what it counted
	EventGatesEnd  EventKind = "gatesend"
	EventBias      EventKind = "bias"    // a look at biases through depth began: its setup
	EventBiasFound EventKind = "biasrow" // weights of a candidate, a part of a layer, or a divergence
	EventBiasEnd   EventKind = "biasend"
	EventTier      EventKind = "tier"   // a run of a hot tier began: its setup
	EventWindow    EventKind = "window" // one window of it: trace level 1
	EventMoves     EventKind = "moves"  // one window of it with what moved at its end: trace level 2
	EventTierEnd   EventKind = "tierend"
)

// Event is one line of the session's log. Variant and Tensor are -1 where the
// event is about neither. Tap events carry no message.
type Event struct {
	Seq             int64
	AtUS            int64
	Kind            EventKind
	Variant, Tensor int
	Message         string
	// Of fallback events: what ran in place of what, and why.
	Effective, Requested, Why string
}

// RunState is where a run stands.
type RunState string

// States of a run.
const (
	RunIdle        RunState = "idle" // nothing ran yet
	RunRunning     RunState = "running"
	RunPaused      RunState = "paused"
	RunFinished    RunState = "finished"
	RunCancelled   RunState = "cancelled"
	RunStopped     RunState = "stopped"     // on an error, which is in the log
	RunInterrupted RunState = "interrupted" // a process died; resume goes on
)

// Progress is what the status line shows. Rates are of the last few seconds of
// a live run; they are 0 when nothing runs.
type Progress struct {
	State         RunState
	Variant       int     // the one that was measured last, -1 before any
	Done, Total   int64   // (variant, tensor) pairs of all variants of the session: measured, and all
	Failed        int64   // pairs that could not be measured; not in Done
	BytesPerSec   float64 // source bytes quantized, counted once a variant
	WeightsPerSec float64 // weights quantized, counted once a variant
	ETASeconds    float64 // 0 where it is not known
	Calibrating   Calibrating
}

// Meta is what a session says about its origin.
type Meta struct {
	Path                       string // of the session file; "" for one that is only in memory
	SourcePath                 string // as given by the user; "demo" for the embedded one
	SourceIdentity             string // checkpoint.Identity in hex
	Family                     string
	Summary                    string // one line: family, layers, experts, bytes
	Layers, MTPLayers, Experts int
	SourceBytes                int64
	Targets                    string // the pattern, or "default: routed experts"
	Program                    string // program version
	KernelSet                  string
	CreatedUnixMS              int64
	Part                       Part // zero for the whole
}

// State is all that is known of a session at one moment. It belongs to one
// reader, who brings it up to date with Apply.
type State struct {
	Meta     Meta
	Tensors  []Tensor
	Variants []Variant
	Records  [][]Record  // [variant][tensor]; Seq is 0 where nothing is known yet
	Log      []Event     // all events but taps and lists of tensors, in order
	Exports  []ExportRef // checkpoints that runs wrote, in order
	Audits   []*Audit    // looks at the scales of checkpoints, in order; not changed once they are here
	Yards    []*Yard     // measurements of KL divergence, in order
	// Calibrations are runs of calibrated variants, in order.
	Calibrations []*Calibration
	// Recipes are recipes that variants follow, in order.
	Recipes []*RecipeRun
	// Gates are runs of gates, in order.
	Gates []*GateRun
	// Biases are looks at biases through depth, Tiers runs of a hot tier, in order.
	Biases   []*BiasRun
	Tiers    []*TierRun
	Progress Progress
	LastSeq  int64
	LastUS   int64
}

// Batch is what changed since the last one.
type Batch struct {
	Reset           *State      // not nil: forget everything, this is the new state (a replay went backwards)
	Variants        []Variant   // added, in order
	Records         []Record    // latest of each (variant, tensor) that changed, by Seq
	Events          []Event     // in order, none lost, without taps
	Exports         []ExportRef // written, in order
	Audits          []*Audit    // made, in order
	YardsBegun      []YardBegun
	YardChunks      []YardChunk // in order, none lost
	YardsEnded      []YardEnded
	CalibsBegun     []CalibBegun
	CalibsDone      []CalibDone // in order, none lost
	CalibsEnded     []CalibEnded
	Recipes         []*RecipeRun // that variants follow, in order
	GatesBegun      []GatesBegun
	GatesOpened     []GatesOpened
	GatesAnswered   []GatesAnswered // in order, none lost
	GatesMetered    []GatesMetered
	GatesEnded      []GatesEnded
	BiasesBegun     []BiasBegun
	BiasesFound     []BiasFound // in order, none lost
	BiasesEnded     []BiasEnded
	TiersBegun      []TierBegun
	TiersMoved      []TierMoved // in order, none lost
	TiersEnded      []TierEnded
	Progress        Progress
	LastSeq, LastUS int64
	Closed          bool // nothing will follow
}

// Apply brings the state up to date. It takes what the batch holds.
func (s *State) Apply(b Batch) {
	if b.Reset != nil {
		*s = *b.Reset
	}
	for _, v := range b.Variants {
		if v.ID == len(s.Variants) {
			s.Variants = append(s.Variants, v)
			s.Records = append(s.Records, make([]Record, len(s.Tensors)))
		}
	}
	for _, r := range b.Records {
		if old := &s.Records[r.Variant][r.Tensor]; r.Seq > old.Seq {
			*old = r
		}
	}
	s.Log = append(s.Log, b.Events...)
	s.Exports = append(s.Exports, b.Exports...)
	s.Audits = append(s.Audits, b.Audits...)
	s.Recipes = append(s.Recipes, b.Recipes...)
	s.applyYards(b)
	s.applyCalibrations(b)
	s.applyGates(b)
	s.applyBiases(b)
	s.applyTiers(b)
	s.Progress = b.Progress
	s.LastSeq = max(s.LastSeq, b.LastSeq)
	s.LastUS = max(s.LastUS, b.LastUS)
}

// Clone is a copy that shares nothing that Apply changes.
func (s *State) Clone() *State {
	c := *s
	c.Variants = slices.Clone(s.Variants)
	c.Log = slices.Clone(s.Log)
	c.Exports, c.Audits, c.Yards = slices.Clone(s.Exports), slices.Clone(s.Audits), cloneYards(s.Yards)
	c.Calibrations, c.Recipes = cloneCalibrations(s.Calibrations), slices.Clone(s.Recipes)
	c.Gates, c.Biases, c.Tiers = cloneGates(s.Gates), cloneBiases(s.Biases), cloneTiers(s.Tiers)
	c.Records = make([][]Record, len(s.Records))
	for i, r := range s.Records {
		c.Records[i] = slices.Clone(r)
	}
	return &c
}

// VariantByName is the ID of a variant, or -1.
func (s *State) VariantByName(name string) int {
	return slices.IndexFunc(s.Variants, func(v Variant) bool { return v.Name == name })
}
