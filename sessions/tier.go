package sessions

import (
	"cmp"
	"context"
	"errors"
	"fmt"

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

	ready *tierParties // opened by PrepareTier
	held  holdings
}

// Tierer is a feed that can run a hot tier on its session's own checkpoint. Tier may be
// called from any goroutine and returns when the run has ended; its windows arrive
// through the feed. ctx ends it; what was recorded stays. Every call is a run of its
// own. A second one at the same time, or one beside a measurement or gates, is
// ErrMeasuring.
type Tierer interface {
	Tier(ctx context.Context, r TierRequest) error
}

// PreparedTier is a session that a hot tier can be run in.
type PreparedTier struct {
	Path string
	Made bool // it was made for this
	Feed Feed // the windows arrive through it
	r    TierRequest
}

// PrepareTier opens everything that a run reads, and then the session: that at path,
// which must be of the same checkpoint, or a new one, in the default place where path is
// "". Without an error no pass was made, with one no session was made.
func PrepareTier(ctx context.Context, path string, r TierRequest) (p *PreparedTier, err error) {
	p = &PreparedTier{Path: path, r: r}
	defer func() {
		if err != nil {
			p, err = nil, errors.Join(err, p.Close())
		}
	}()
	var identity string
	if p.Feed, identity, p.r.held, p.Made, err = openLook(ctx, path); err != nil {
		return p, err
	}
	at := r.Checkpoint
	if s, ok := p.Feed.(*savedFeed); ok {
		at = cmp.Or(at, s.meta.place())
	}
	if p.r.ready, err = p.r.open(ctx, at, identity); err == nil && p.Made {
		p.Path, p.Feed, err = makeLook(ctx, path, at, p.r.measured(), p.r.ready.ref)
	}
	return p, err
}

// Run runs the tier; see Tierer.
func (p *PreparedTier) Run(ctx context.Context) error {
	t, ok := p.Feed.(Tierer)
	if !ok {
		return fmt.Errorf("sessions: %s: no hot tier can be run in it", p.Path)
	}
	return t.Tier(ctx, p.r)
}

// Close closes what was opened.
func (p *PreparedTier) Close() error {
	var errs []error
	if p.r.ready != nil {
		errs = append(errs, p.r.ready.close())
	}
	if p.Feed != nil {
		errs = append(errs, p.Feed.Close())
	}
	return errors.Join(errs...)
}
