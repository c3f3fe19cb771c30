package sessions

import (
	"context"
	"time"

	"quantscope/analysis/gates"
	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/local"
	"quantscope/kernels"
	"quantscope/quant/layout"
)

// GateRun is one run of gates that a session holds.
type GateRun struct {
	Setup    *gates.Setup
	Settings map[string]string // that decide answers and are not in the setup; see GateSettings
	AtUS     int64             // of its beginning
	Opened   []*chat.Identity  // by arm: who answered when it was opened last; nil before
	Results  []*gates.Result   // in the order in which they came, one of a key: one that is asked again takes the place of the older; not changed once they are here
	Meters   []*gates.Meter    // of arms that are done, one of an arm
	End      *gates.End        // nil while it runs, and where it never ended

	at map[gates.Key]int // where in Results; made when it is needed
}

// GatesBegun, GatesOpened, GatesAnswered, GatesMetered and GatesEnded are what
// batches bring; Run is the index in State.Gates.
type (
	GatesBegun struct {
		Run      int
		AtUS     int64
		Setup    *gates.Setup
		Settings map[string]string
	}
	GatesOpened struct {
		Run, Arm int
		Identity *chat.Identity
	}
	GatesAnswered struct {
		Run    int
		Result *gates.Result
	}
	GatesMetered struct {
		Run   int
		Meter *gates.Meter
	}
	GatesEnded struct {
		Run int
		End *gates.End
	}
)

// GatesRequest says what a run of gates asks of whom. The first arm is the
// baseline: the session's checkpoint where it is named, else the first candidate or
// server.
type GatesRequest struct {
	Checkpoint string   // reference and baseline; "": where the session says, or none
	Candidates []string // LABEL=SPEC or SPEC as package candidate parses them
	Servers    []string // LABEL=URL or URL
	Model      string   // to ask servers for; "": what they serve
	KeyEnv     string   // environment variable that holds the servers' key
	Suite      string   // name or path; "": demo for the demo's tokenizer, else default
	Probes     string   // GLOB or re:REGEXP of probes' IDs, separated by commas; "": all
	Passes     int      // of each probe but those that measure acceptance; 0: as the suite says
	Texts      string   // corpus to ask log probabilities for; "": none
	Top        int      // likeliest tokens at each position
	TextChunks int      // of the corpus at most; 0: 8
	NoPlacebo  bool
	NoBaseline bool // the checkpoint is only what variants are made from
	Targets    string
	Layout     layout.Options
	Codes      string // folder that keeps the codes of calibrated variants
	Calib      []string
	Cache      string        // folder that remembers digests of files; "": none
	Local      local.Options // of arms in process; nothing said of drafts is one a step where the suite measures acceptance and the model can
	NoDrafts   bool          // arms in process draft nothing, whatever the suite measures
	Timeout    time.Duration
	Threads    int
	MemBytes   int64
	Program    string
	KernelSet  kernels.Set

	Progress func(gates.Progress)
	Pause    func(context.Context) error
	Warn     func(string)
	Report   func(*gates.Report) // given what a run that finished says; may be nil

	ready *gateParties // opened by PrepareGates

	held holdings // what the session holds that candidates may be made of
}

// GateSettings are what of a request decides answers and is not in the setup of its
// run, by the names of GateModel and so on; what is as usual is left out.
func (r *GatesRequest) GateSettings() map[string]string { return r.gateSettings() }

// Gater is a feed that can run gates on its session's own checkpoint and on
// servers. Gates may be called from any goroutine and returns when the run has
// ended; its results arrive through the feed. ctx ends it; what was answered stays,
// and the same request goes on with it. A second run at the same time, or one beside a
// measurement, is ErrMeasuring.
type Gater interface {
	Gates(ctx context.Context, r GatesRequest) error
}

// Analyze is the report of what was answered so far.
func (g *GateRun) Analyze() *gates.Report {
	return gates.Analyze(g.Setup, g.Results, g.Meters, 0)
}
