package tui

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/sessions"
)

// frame is how long a feed gathers news before the loop takes it: 30 frames a
// second look live, and a batch a frame keeps drawing off the workers' path.
const frame = 33 * time.Millisecond

// tasks counts what runs outside the loop, so that the end of the program can
// wait for it and a test knows when nothing is under way.
type tasks struct {
	mu     sync.Mutex
	n      int
	closed bool
	empty  chan struct{} // closed when closed and n is 0
}

func newTasks() *tasks { return &tasks{empty: make(chan struct{})} }

// begin registers a task; it is false when the program is ending.
func (t *tasks) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.n++
	return true
}

func (t *tasks) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n--
	if t.closed && t.n == 0 {
		close(t.empty)
	}
}

// close refuses further tasks; the channel closes when the last one has ended.
func (t *tasks) close() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.closed = true
		if t.n == 0 {
			close(t.empty)
		}
	}
	return t.empty
}

// do makes a command of f: counted, under the given context, and with a panic
// turned into a message, so that it ends the program instead of the terminal.
// f must not touch the model.
func (m *Model) do(ctx context.Context, what string, f func(context.Context) tea.Msg) tea.Cmd {
	running := m.tasks
	return func() (msg tea.Msg) {
		if !running.begin() {
			return nil
		}
		defer running.end()
		defer func() {
			if r := recover(); r != nil {
				msg = fatalMsg{fmt.Errorf("%s: internal error: %v", what, r)}
			}
		}()
		return f(ctx)
	}
}

// guard is do for a command that a pane made.
func (m *Model) guard(cmd tea.Cmd) tea.Cmd {
	if cmd == nil {
		return nil
	}
	return m.do(m.ctx, "pane", func(context.Context) tea.Msg { return cmd() })
}

// pump asks a source for its next batch. It is armed once when the source is
// taken up and again by each of its batches, so one request is in flight.
func (m *Model) pump(s *source) tea.Cmd {
	if m.o.handFed {
		return nil
	}
	return m.do(s.ctx, "feed", func(ctx context.Context) tea.Msg { return nextBatch(ctx, s, frame) })
}

// nextBatch waits for the next batch of a source.
func nextBatch(ctx context.Context, s *source, gather time.Duration) tea.Msg {
	b, err := s.feed.Next(ctx, gather)
	switch {
	case err == nil:
		return batchMsg{src: s, batch: b}
	case ctx.Err() != nil || errors.Is(err, context.Canceled):
		return nil
	default:
		return feedErrMsg{src: s, err: err}
	}
}

// lane runs commands to an engine or a player one after the other, in the order
// in which they were given, outside the loop.
type lane struct {
	busy  bool
	queue []order
}

// order is one command to an engine or player, and what to say of it.
type order struct {
	what string
	run  func() error
}

// send gives an order to the lane.
func (m *Model) send(what string, run func() error) tea.Cmd {
	m.lane.queue = append(m.lane.queue, order{what, run})
	return m.advance()
}

// advance starts the next order if none is under way.
func (m *Model) advance() tea.Cmd {
	if m.lane.busy || len(m.lane.queue) == 0 {
		return nil
	}
	next := m.lane.queue[0]
	m.lane.queue = m.lane.queue[1:]
	m.lane.busy = true
	return m.do(m.ctx, next.what, func(context.Context) tea.Msg {
		return orderDoneMsg{what: next.what, err: next.run()}
	})
}

// tickEvery is how often the clock of a replay that plays is read.
const tickEvery = 100 * time.Millisecond

// tick reads a playing replay's clock again after a while. One is in flight: it
// is armed when playing begins and re-armed by its own message.
func (m *Model) tick() tea.Cmd {
	if m.ticking || m.src.player == nil || !m.pos.Playing || m.o.handFed {
		return nil
	}
	m.ticking = true
	return m.do(m.src.ctx, "clock", func(ctx context.Context) tea.Msg {
		t := time.NewTimer(tickEvery)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		return tickMsg{}
	})
}

// source is a feed and what belongs to it while it is open.
type source struct {
	feed   sessions.Feed
	runner sessions.Runner // nil unless the feed is a live run
	player sessions.Player // nil unless the feed is a replay
	state  *sessions.State
	ctx    context.Context
	stop   context.CancelFunc
	owned  bool // opened by this program, which then closes it
	closed bool // nothing will follow
}

// textual is a feed that knows whether it has a text to calibrate on.
type textual interface{ NoCalibration() string }

func newSource(ctx context.Context, feed sessions.Feed, state *sessions.State) *source {
	s := &source{feed: feed, state: state}
	s.ctx, s.stop = context.WithCancel(ctx)
	s.runner, _ = feed.(sessions.Runner)
	s.player, _ = feed.(sessions.Player)
	if feed.Mode() != sessions.Live {
		s.runner = nil
	}
	if run, ok := feed.(textual); ok {
		run.NoCalibration() // a run begins to find out
	}
	return s
}
