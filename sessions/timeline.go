package sessions

import (
	"context"
	"slices"
	"sort"
)

// idleUS is the longest that nothing happens in a replay: longer gaps between
// events are shortened to it.
const idleUS = 1_000_000

// timeline is all events of a session in order, each with its moment in the
// replay: microseconds from the first event, idle time shortened.
type timeline struct {
	taps  []Record // in order of Seq
	notes []stored // all but taps and tensors; the last may be one that says what of the file is lost
	order []int32  // index of a tap, or ^index of a note
	at    []int64
}

// loadTimeline reads a session for a replay, and as it is at the end.
func loadTimeline(ctx context.Context, path string) (*timeline, *loaded, error) {
	r, err := openReader(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	parts := make([][]Record, loadParts())
	l, err := load(ctx, r, func(part, _, _ int) *Record {
		parts[part] = append(parts[part], Record{})
		return &parts[part][len(parts[part])-1]
	})
	if closeErr := r.Close(); err == nil { // the first error says more
		err = closeErr
	}
	if err != nil {
		return nil, nil, readError(ctx, path, err)
	}
	t := &timeline{taps: slices.Concat(parts...), notes: l.notes}
	if l.damage.any() {
		t.notes = append(t.notes, stored{Event: l.damageEvent()})
	}
	t.merge()
	return t, l, nil
}

// merge fills order and at.
func (t *timeline) merge() {
	n := len(t.taps) + len(t.notes)
	t.order, t.at = make([]int32, 0, n), make([]int64, 0, n)
	var now, last int64
	for i, j := 0, 0; i < len(t.taps) || j < len(t.notes); {
		var at int64
		if j == len(t.notes) || i < len(t.taps) && (t.notes[j].Seq == 0 || t.taps[i].Seq < t.notes[j].Seq) {
			at = t.taps[i].AtUS
			t.order = append(t.order, int32(i))
			i++
		} else {
			at = t.notes[j].AtUS
			t.order = append(t.order, ^int32(j))
			j++
		}
		if len(t.at) > 0 {
			now += min(max(at-last, 0), idleUS)
		}
		last = at
		t.at = append(t.at, now)
	}
}

// end is the moment of the last event.
func (t *timeline) end() int64 {
	if len(t.at) == 0 {
		return 0
	}
	return t.at[len(t.at)-1]
}

// until is how many events have happened at a moment.
func (t *timeline) until(us int64) int {
	return sort.Search(len(t.at), func(i int) bool { return t.at[i] > us })
}

// event is event i.
func (t *timeline) event(i int) stored {
	if k := t.order[i]; k < 0 {
		return t.notes[^k]
	}
	rec := t.taps[t.order[i]]
	return stored{Event: Event{Seq: rec.Seq, AtUS: rec.AtUS, Kind: EventTap, Variant: rec.Variant, Tensor: rec.Tensor}, rec: rec}
}

// sessionUS is the session's time when n events have happened and the replay
// stands at a moment.
func (t *timeline) sessionUS(n int, us int64) int64 {
	if n == 0 {
		return 0
	}
	e := t.order[n-1]
	at := int64(0)
	if e < 0 {
		at = t.notes[^e].AtUS
	} else {
		at = t.taps[e].AtUS
	}
	return at + max(us-t.at[n-1], 0)
}
