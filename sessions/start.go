package sessions

import (
	"context"
	"errors"
	"time"

	"quantscope/kernels"
)

// Options say what Start runs, and where.
type Options struct {
	Checkpoint string   // path, or "demo" for the embedded one
	Session    string   // file; "" for a new one in the default place
	Variants   []string // names that quant/method knows
	Targets    string   // pattern of tensors; "" for the default
	Threads    int      // workers; 0 for GOMAXPROCS
	MemBytes   int64    // bound of the buffers that weights are read into; 0 for the default
	Program    string   // program version, for the record
	Clock      Clock    // nil: the machine's
}

// LiveFeed is a feed with an engine behind it. It implements Runner.
//
// The feed stays open when a run ends, since Add can start another: the end is
// seen in Progress.State. A Closed batch follows only on Close and on an error
// of the environment.
type LiveFeed struct{}

var errUnwired = errors.New("sessions: not wired yet")

// Start opens the checkpoint, creates the session or resumes it, and starts
// the run. The run ends with ctx, with Cancel or with Close.
func Start(ctx context.Context, o Options) (*LiveFeed, error) { return nil, errUnwired }

// Wait returns when nothing runs any more: finished, cancelled or stopped. The
// error is the reason of a stop, or ctx's.
func (l *LiveFeed) Wait(ctx context.Context) (Progress, error) { return Progress{}, errUnwired }

// Path is the session file.
func (l *LiveFeed) Path() string { return "" }

// Mode is Live.
func (l *LiveFeed) Mode() Mode { return Live }

// Snapshot implements Feed.
func (l *LiveFeed) Snapshot() *State { return nil }

// Next implements Feed.
func (l *LiveFeed) Next(ctx context.Context, frame time.Duration) (Batch, error) {
	return Batch{}, errUnwired
}

// Detail implements Feed.
func (l *LiveFeed) Detail(ctx context.Context, variant, tensor int) (kernels.Tap, error) {
	return kernels.Tap{}, errUnwired
}

// RowErrors implements Feed.
func (l *LiveFeed) RowErrors(ctx context.Context, variant, tensor int) ([]float64, error) {
	return nil, errUnwired
}

// Close ends the run, writes what is pending and closes the file.
func (l *LiveFeed) Close() error { return errUnwired }

// Pause implements Runner.
func (l *LiveFeed) Pause() {}

// Resume implements Runner.
func (l *LiveFeed) Resume() {}

// Cancel implements Runner.
func (l *LiveFeed) Cancel() {}

// Add implements Runner.
func (l *LiveFeed) Add(variants ...string) error { return errUnwired }

// OpenSession opens a session for reading: a Follow feed when a process is
// writing it, a Saved one otherwise.
func OpenSession(path string) (Feed, error) { return nil, errUnwired }

// OpenReplay plays a session from its beginning at speed times real time.
func OpenReplay(path string, speed float64) (Player, error) { return nil, errUnwired }

// IsSession says whether the file is a session of any version.
func IsSession(path string) (bool, error) { return false, errUnwired }

// DefaultDir is where sessions go when no file is named. It need not exist.
func DefaultDir() (string, error) { return "", errUnwired }

var _ Runner = (*LiveFeed)(nil)
