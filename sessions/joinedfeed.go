package sessions

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"quantscope/kernels"
)

// OpenJoined opens two sessions of one source as one: the state is that of Join,
// and what is asked of a tensor goes to the session that measured it. A session
// that another process writes is followed. label names the second session.
func OpenJoined(path, with, label string) (Feed, error) {
	a, err := OpenSession(path)
	if err != nil {
		return nil, err
	}
	b, err := OpenSession(with)
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	f, err := JoinFeeds(a, b, label)
	if err != nil {
		return nil, errors.Join(err, a.Close(), b.Close())
	}
	return f, nil
}

// JoinFeeds joins two feeds of sessions that do not go backwards: not replays.
// The joined feed owns both; after an error they are still the caller's.
func JoinFeeds(a, b Feed, label string) (Feed, error) {
	for _, f := range []Feed{a, b} {
		if f.Mode() == Replay {
			return nil, errors.New("sessions: a replay cannot be joined with another session")
		}
	}
	sa, sb := a.Snapshot(), b.Snapshot()
	j, err := newJoining(sa, sb, label)
	if err != nil {
		return nil, err
	}
	f := &joinedFeed{sides: [2]Feed{a, b}, j: j, news: make(chan joinedNews)}
	f.paths = [2]string{sessionName(sa), sessionName(sb)}
	f.snapshot = j.state(sa, sb)
	f.names = make([]string, len(f.snapshot.Tensors))
	for t := range f.names {
		f.names[t] = f.snapshot.Tensors[t].Name
	}
	auditor, ok := a.(Auditor)
	if !ok {
		return f, nil
	}
	return &auditedJoin{f, auditor}, nil
}

// auditedJoin is a joined feed whose first session can look at scales.
type auditedJoin struct {
	*joinedFeed
	Auditor
}

// joinedFeed is two feeds as one. Each is read by a goroutine of its own, from
// the first Next until Close.
type joinedFeed struct {
	sides    [2]Feed
	paths    [2]string
	snapshot *State
	names    []string // of tensors, for errors
	news     chan joinedNews
	closed   [2]bool
	start    sync.Once
	stop     context.CancelFunc
	wait     sync.WaitGroup

	mu sync.Mutex // guards j: Detail may be called from any goroutine
	j  *joining
}

// joinedNews is what one side has to say.
type joinedNews struct {
	side  joinedSide
	batch Batch
	err   error
}

// Mode is Follow as long as one of the two is being written.
func (f *joinedFeed) Mode() Mode {
	for _, s := range f.sides {
		if s.Mode() != Saved {
			return s.Mode()
		}
	}
	return Saved
}

func (f *joinedFeed) Snapshot() *State {
	s := f.snapshot
	f.snapshot = nil // the caller owns it
	return s
}

func (f *joinedFeed) Next(ctx context.Context, frame time.Duration) (Batch, error) {
	f.start.Do(func() {
		var run context.Context
		run, f.stop = context.WithCancel(context.Background())
		for side := range f.sides {
			f.wait.Add(1)
			go f.read(run, joinedSide(side), frame)
		}
	})
	select {
	case n := <-f.news:
		if n.err != nil {
			return Batch{}, n.err
		}
		return f.take(n.side, n.batch), nil
	case <-ctx.Done():
		return Batch{}, ctx.Err()
	}
}

// read hands on what one side says, until its last batch or its first error.
func (f *joinedFeed) read(ctx context.Context, side joinedSide, frame time.Duration) {
	defer f.wait.Done()
	for {
		b, err := f.sides[side].Next(ctx, frame)
		if ctx.Err() != nil {
			return
		}
		select {
		case f.news <- joinedNews{side, b, err}:
		case <-ctx.Done():
			return
		}
		if err != nil || b.Closed {
			return
		}
	}
}

// take moves a batch of one side into the joined state.
func (f *joinedFeed) take(side joinedSide, b Batch) Batch {
	f.mu.Lock()
	defer f.mu.Unlock()
	j := f.j
	out := Batch{}
	for _, v := range b.Variants {
		if v.ID == len(j.at[side]) {
			out.Variants = append(out.Variants, j.variant(side, v))
		}
	}
	for _, r := range b.Recipes {
		out.Recipes = append(out.Recipes, j.recipe(side, r)...)
	}
	for _, r := range b.Records {
		if r, ok := j.record(side, r); ok {
			out.Records = append(out.Records, r)
		}
	}
	for _, e := range b.Events {
		if e, ok := j.event(side, e); ok {
			out.Events = append(out.Events, e)
		}
	}
	if side == first {
		out.Exports, out.Audits = b.Exports, b.Audits
		out.YardsBegun, out.YardChunks, out.YardsEnded = b.YardsBegun, b.YardChunks, b.YardsEnded
		out.GatesBegun, out.GatesOpened, out.GatesAnswered, out.GatesMetered, out.GatesEnded = b.GatesBegun, b.GatesOpened, b.GatesAnswered, b.GatesMetered, b.GatesEnded
		out.BiasesBegun, out.BiasesFound, out.BiasesEnded = b.BiasesBegun, b.BiasesFound, b.BiasesEnded
		out.TiersBegun, out.TiersMoved, out.TiersEnded = b.TiersBegun, b.TiersMoved, b.TiersEnded
	}
	j.calibBatch(side, b, &out)
	j.last[side] = j.sideProgress(side, b.Progress)
	j.seq[side], j.us[side] = max(j.seq[side], b.LastSeq), max(j.us[side], b.LastUS)
	f.closed[side] = f.closed[side] || b.Closed
	out.Progress, out.LastSeq, out.LastUS = j.progress(), j.lastSeq(), max(j.us[first], j.us[second])
	out.Closed = f.closed[first] && f.closed[second]
	return out
}

// own is the session that measured under a variant, and what the two are there.
func (f *joinedFeed) own(variant, tensor int) (Feed, int, int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if variant < 0 || variant >= len(f.j.variants) || tensor < 0 || tensor >= len(f.names) {
		return nil, 0, 0, fmt.Errorf("sessions: %s with %s: there is no tensor %d under variant %d (%d tensors, %d variants)",
			f.paths[first], f.paths[second], tensor, variant, len(f.names), len(f.j.variants))
	}
	v := f.j.variants[variant]
	return f.sides[v.side], v.variant, f.j.own[v.side][tensor], nil
}

func (f *joinedFeed) Detail(ctx context.Context, variant, tensor int) (kernels.Tap, error) {
	feed, v, t, err := f.own(variant, tensor)
	if err != nil {
		return kernels.Tap{}, err
	}
	return feed.Detail(ctx, v, t)
}

func (f *joinedFeed) RowErrors(ctx context.Context, variant, tensor int) ([]float64, error) {
	feed, v, t, err := f.own(variant, tensor)
	if err != nil {
		return nil, err
	}
	return feed.RowErrors(ctx, v, t)
}

// Close ends both.
func (f *joinedFeed) Close() error {
	f.start.Do(func() {}) // no reader begins after this
	if f.stop != nil {
		f.stop()
	}
	f.wait.Wait()
	return errors.Join(f.sides[first].Close(), f.sides[second].Close())
}
