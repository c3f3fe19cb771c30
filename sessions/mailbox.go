package sessions

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// pair names one measurement: a tensor under a variant.
type pair struct{ variant, tensor int }

// Mailbox carries what a run produces to one reader, the loop that draws.
// Records are latest-wins per (variant, tensor); events and variants keep their
// order and are never dropped. No method but Next blocks, so a slow terminal
// cannot slow a worker.
type Mailbox struct {
	clock Clock
	wake  chan struct{} // capacity 1: set when there is news

	mu      sync.Mutex
	records map[pair]Record
	rest    Batch // everything but Records
}

// NewMailbox is an empty mailbox whose frames are timed by clock (nil: the
// machine's).
func NewMailbox(clock Clock) *Mailbox {
	return &Mailbox{clock: clockOr(clock), wake: make(chan struct{}, 1), records: map[pair]Record{}}
}

// Put stores the newest record of its (variant, tensor). A record that is
// older than the one that waits, by Seq, is dropped.
func (m *Mailbox) Put(r Record) {
	m.add(func() {
		k := pair{r.Variant, r.Tensor}
		if old, ok := m.records[k]; !ok || r.Seq >= old.Seq {
			m.records[k] = r
		}
		m.rest.LastSeq = max(m.rest.LastSeq, r.Seq)
		m.rest.LastUS = max(m.rest.LastUS, r.AtUS)
	})
}

// Post appends an event.
func (m *Mailbox) Post(e Event) {
	m.add(func() {
		m.rest.Events = append(m.rest.Events, e)
		m.rest.LastSeq = max(m.rest.LastSeq, e.Seq)
		m.rest.LastUS = max(m.rest.LastUS, e.AtUS)
	})
}

// post appends an event with what it says of exports, audits, and what runs of several
// events: measurements, calibrations, gates, biases, tiers.
func (m *Mailbox) post(e *stored) {
	m.add(func() {
		m.rest.takeRuns(e)
		m.rest.LastSeq, m.rest.LastUS = max(m.rest.LastSeq, e.Seq), max(m.rest.LastUS, e.AtUS)
	})
	if e.unlogged() {
		return
	}
	if e.recipe != nil {
		m.add(func() { m.rest.Recipes = append(m.rest.Recipes, e.recipe) })
	}
	if x, a := e.note.Export, e.note.Audit; x != nil || a != nil {
		m.add(func() {
			if x != nil {
				m.rest.Exports = append(m.rest.Exports, x.ref())
			}
			if a != nil {
				m.rest.Audits = append(m.rest.Audits, a)
			}
		})
	}
	m.Post(e.Event)
}

// AddVariant appends a variant.
func (m *Mailbox) AddVariant(v Variant) {
	m.add(func() { m.rest.Variants = append(m.rest.Variants, v) })
}

// SetProgress replaces the progress.
func (m *Mailbox) SetProgress(p Progress) { m.add(func() { m.rest.Progress = p }) }

// reset makes the batch that is taken next begin with a state.
func (m *Mailbox) reset(st *State) {
	m.add(func() {
		m.records, m.rest = map[pair]Record{}, Batch{Reset: st, Progress: st.Progress, LastSeq: st.LastSeq, LastUS: st.LastUS}
	})
}

// Close marks the batch that is taken next as the last one.
func (m *Mailbox) Close() { m.add(func() { m.rest.Closed = true }) }

func (m *Mailbox) add(f func()) {
	m.mu.Lock()
	f()
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Next waits for news, gives it one frame to gather, and takes all of it. When
// the context ends first, what is there is handed over if news had come, and
// the context's error otherwise.
func (m *Mailbox) Next(ctx context.Context, frame time.Duration) (Batch, error) {
	select {
	case <-m.wake:
	case <-ctx.Done():
		return Batch{}, ctx.Err()
	}
	if frame > 0 {
		select {
		case <-m.clock.After(frame):
		case <-ctx.Done():
		}
	}
	m.mu.Lock()
	out, records := m.rest, m.records
	m.records = map[pair]Record{}
	m.rest = Batch{Progress: out.Progress, LastSeq: out.LastSeq, LastUS: out.LastUS}
	m.mu.Unlock()

	out.Records = slices.SortedFunc(maps.Values(records), func(a, b Record) int { return int(a.Seq - b.Seq) })
	return out, nil
}
