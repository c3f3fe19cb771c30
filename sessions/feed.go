package sessions

import (
	"context"
	"time"

	"quantscope/kernels"
)

// Mode says where a feed's batches come from.
type Mode uint8

// Modes of a feed.
const (
	Live   Mode = iota + 1 // an engine in this process
	Follow                 // another process writes the file; this one reads along
	Saved                  // a finished or interrupted session
	Replay                 // a session played back by a clock
)

// Feed is what a pane's data comes from. No pane can tell which kind it is.
// It has one reader.
type Feed interface {
	Mode() Mode
	// Snapshot is what is known now; the caller owns it. What comes after it
	// arrives through Next. It is called once, before Next.
	Snapshot() *State
	// Next waits for news, gives it one frame to gather and takes all of it.
	// After a Closed batch it waits until the context ends, or for what a
	// measurement brings that is begun on a saved session.
	Next(ctx context.Context, frame time.Duration) (Batch, error)
	// Detail is the whole tap record of one measurement, histograms included.
	// It reads the file and may be called from any goroutine.
	Detail(ctx context.Context, variant, tensor int) (kernels.Tap, error)
	// RowErrors is the relative l2 error of each row of one tensor under one
	// variant. It reads the checkpoint, so it is an error that says where the
	// checkpoint was when it is not to be had.
	RowErrors(ctx context.Context, variant, tensor int) ([]float64, error)
	Close() error
}

// Runner is a feed with an engine behind it: live runs.
type Runner interface {
	Feed
	Pause()
	Resume()
	// Cancel ends the run after the tensors that are being measured.
	Cancel()
	// Add measures further variants, by name. What was measured is kept.
	Add(variants ...string) error
}

// Position is where a replay stands, in microseconds of the session with idle
// time shortened.
type Position struct {
	AtUS, EndUS int64
	Speed       float64
	Playing     bool
}

// Player is a feed with a clock: replays.
type Player interface {
	Feed
	Position() Position
	Play()
	Pause()
	SetSpeed(x float64) // 0.25 to 64
	Step(events int)    // pauses; negative goes back
	SeekTo(us int64)
}
