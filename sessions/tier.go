package sessions

import (
	"context"
	"errors"

	"quantscope/analysis/tier"
	"quantscope/kernels"
	"quantscope/quant/layout"
)

// TierRun is one run of a hot tier that a session holds.
type TierRun struct {
	Setup   *tier.Setup
	AtUS    int64          // of its beginning
	Windows []*tier.Window // in the order in which they came; not changed once they are here
	End     *tier.End      // nil while it runs, and where it never ended
}

// TierBegun, TierMoved and TierEnded are what batches bring; Run is the index in
// State.Tiers.
type (
	TierBegun struct {
		Run   int
		AtUS  int64
		Setup *tier.Setup
	}
	TierMoved struct {
		Run    int
		AtUS   int64
		Window *tier.Window
	}
	TierEnded struct {
		Run int
		End *tier.End
	}
)

// TierRequest says what a hot tier is to be run on.
type TierRequest struct {
	Checkpoint string   // "": where the session says
	Workload   []string // as tier.Prepare takes it; none: the embedded calibration corpora, where the tokenizer is theirs
	Routed     string   // spec whose forward pass chooses; "": the checkpoint
	Record     string   // file to write the trace to; "": none
	Chunk      int      // tokens of a chunk of a text; 0: 512
	Chunks     int      // at most, of each corpus; 0: all
	Layout     layout.Options
	Cache      string // folder that remembers digests of files; "": none
	Threads    int
	MemBytes   int64
	Program    string
	KernelSet  kernels.Set
	Options    tier.Options // Set, Threads, Mem, Program and the callbacks below are filled in

	Progress func(tier.Progress)
	Pause    func(context.Context) error
	Pace     func(context.Context, *tier.Window) error
	Warn     func(string)
	Report   func(*tier.Setup, *tier.End) // given what a run that finished says; may be nil
}

// Tierer is a feed that can run a hot tier on its session's own checkpoint, as Gater
// runs gates.
type Tierer interface {
	Tier(ctx context.Context, r TierRequest) error
}

// PreparedTier is a session that a hot tier can be run in.
type PreparedTier struct {
	Path string
	Made bool // it was made for this
	Feed Feed
}

// PrepareTier opens everything that a run reads, and then the session, as PrepareGates
// does.
func PrepareTier(ctx context.Context, path string, r TierRequest) (*PreparedTier, error) {
	return nil, errors.ErrUnsupported
}

// Run runs the tier; see Tierer.
func (p *PreparedTier) Run(ctx context.Context) error { return errors.ErrUnsupported }

// Close closes what was opened.
func (p *PreparedTier) Close() error { return nil }

// TierMap is the text of a map of a session's runs, by the name that follows tier: in
// the spec of a candidate: RUN/LABEL or LABEL of the newest run, with #random or
// #coldest behind it for a control.
func (s *State) TierMap(name string) (text string, ok bool) { return "", false }
