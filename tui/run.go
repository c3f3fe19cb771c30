package tui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/term"

	"quantscope/sessions"
)

// ErrInterrupted says that the program was ended at once while a run was going:
// by ctrl+c, a signal or the context.
var ErrInterrupted = errors.New("interrupted")

// StoppedError says that the live run had ended on an error of the environment
// when the program was left. Message is the run's own.
type StoppedError struct{ Message string }

func (e *StoppedError) Error() string { return "the run stopped: " + e.Message }

// patience is how long the end of the program waits for what is under way. All
// of it ends with the context; this bounds what a hung disk could do.
const patience = 2 * time.Second

// Run shows a feed until the person quits. It does not close the feed. The
// terminal is as it was before when Run returns, whatever happened.
func Run(ctx context.Context, feed sessions.Feed, o Options) error {
	return run(ctx, o, func(o Options) *Model { return New(feed, o) })
}

// RunOpening is Run for a feed that takes a while to open: the frame says so
// meanwhile, under the given name, and keeps what is typed. An error of open
// ends the program and is returned as it is. What open gave is closed.
func RunOpening(ctx context.Context, name string, open func() (sessions.Feed, error), o Options) error {
	return run(ctx, o, func(o Options) *Model { return newOpening(name, open, o) })
}

// run runs the model that is made of the options.
//
// The end of the context and signals are taken as an order to quit, not handed
// to Bubble Tea: there they kill the program, which leaves its reader behind.
func run(ctx context.Context, o Options, made func(Options) *Model) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	o.ctx = ctx
	m := made(o)
	defer func() { err = cmp.Or(err, m.end()) }()

	options := []tea.ProgramOption{tea.WithoutSignalHandler(), tea.WithAltScreen(), tea.WithOutput(m.o.Out)}
	if !m.o.NoMouse {
		options = append(options, tea.WithMouseAllMotion())
	}
	var program *tea.Program
	in := m.o.In
	if in == nil {
		in = os.Stdin
	}
	if f, ok := in.(*os.File); ok && term.IsTerminal(f.Fd()) {
		in = &backgroundReader{File: f, found: func(dark bool) { program.Send(backgroundMsg{dark}) }}
	}
	options = append(options, tea.WithInput(in))
	program = tea.NewProgram(m, options...)
	_, err = program.Run()
	return m.verdict(ctx, err)
}

// verdict is what Run returns for the way in which the program ended.
func (m *Model) verdict(ctx context.Context, err error) error {
	switch {
	case m.err != nil:
		return m.err
	case ctx.Err() != nil:
		return ErrInterrupted
	case errors.Is(err, tea.ErrProgramPanic):
		return fmt.Errorf("the workbench: internal error")
	case err != nil:
		return fmt.Errorf("terminal: %w", err)
	case m.interrupted:
		return ErrInterrupted
	}
	live := m.src
	if m.home != nil {
		live = m.home
	}
	if live.runner != nil && live.state.Progress.State == sessions.RunStopped {
		return &StoppedError{lastStop(live.state)}
	}
	return nil
}

// lastStop is the message of the event that ended a run early.
func lastStop(st *sessions.State) string {
	for i := len(st.Log) - 1; i >= 0; i-- {
		if st.Log[i].Kind == sessions.EventStopped {
			return st.Log[i].Message
		}
	}
	return "the log does not say why"
}

// end cancels what is under way, waits for it, and closes what was opened from
// within.
func (m *Model) end() error {
	m.cancel()
	select {
	case <-m.tasks.close():
	case <-time.After(patience):
	}
	open := []*source{m.src, m.home}
	if m.first != nil {
		open = append(open, m.first.fresh.Swap(nil))
	}
	var errs []error
	for _, s := range open {
		if s != nil && s.owned {
			s.owned = false
			errs = append(errs, s.feed.Close())
		}
	}
	return errors.Join(errs...)
}
