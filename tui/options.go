package tui

import (
	"context"
	"io"
	"os"
	"strings"
	"time"

	"github.com/muesli/termenv"

	"quantscope/sessions"
)

// Known is a variant that can be measured, and what it is in a few words.
type Known struct {
	Name, Help string
	Calibrated bool // made by calibration, which needs a text
}

// Options say how the workbench looks and what it can reach. The zero Options
// show a feed on the process's own terminal.
type Options struct {
	Theme   string           // name; "" for the default
	Profile *termenv.Profile // colours of the terminal; nil detects them
	Dark    *bool            // background of the terminal; nil detects it
	NoMouse bool
	Screen  string // first screen, as ScreenByName knows it; "" is the map

	In  io.Reader                // nil: the terminal
	Out io.Writer                // nil: standard output
	Env func(name string) string // nil: the process's environment
	Now func() time.Time         // nil: the machine's clock

	// Known lists the variants that can be added to a live run.
	Known []Known
	// OpenReplay plays a session file from its beginning. nil: no replay.
	OpenReplay func(path string) (sessions.Player, error)
	// Reopen opens a session file for reading. nil: a replay cannot be left for
	// the session's end.
	Reopen func(path string) (sessions.Feed, error)
	// Export writes the records of a session file. The kind is one of JSONL, CSV
	// and Parquet. Unless it may overwrite, a file that is there already is an
	// error that wraps fs.ErrExist. nil: nothing can be exported.
	Export func(ctx context.Context, kind, session, path string, overwrite bool) error

	ctx     context.Context
	handFed bool // a test feeds batches and ticks by hand
}

func (o Options) withDefaults() Options {
	if o.ctx == nil {
		o.ctx = context.Background()
	}
	if o.Out == nil {
		o.Out = os.Stdout
	}
	if o.Env == nil {
		o.Env = os.Getenv
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Profile == nil {
		p := termenv.NewOutput(o.Out, termenv.WithEnvironment(environ(o.Env))).EnvColorProfile()
		if o.Env("TERM") == "dumb" {
			p = termenv.Ascii
		}
		o.Profile = &p
	}
	if o.Dark == nil {
		dark := darkByEnv(o.Env)
		o.Dark = &dark
	}
	return o
}

// darkByEnv guesses the background from COLORFGBG, which some terminals set to
// "foreground;background"; dark where it says nothing.
func darkByEnv(env func(string) string) bool {
	v := env("COLORFGBG")
	switch v[strings.LastIndexByte(v, ';')+1:] {
	case "7", "9", "10", "11", "12", "13", "14", "15":
		return strings.IndexByte(v, ';') < 0
	}
	return true
}

// environ is an environment that termenv can read.
type environ func(string) string

// Environ lists nothing: termenv asks for names.
func (environ) Environ() []string { return nil }

// Getenv implements termenv's Environ.
func (e environ) Getenv(name string) string { return e(name) }
