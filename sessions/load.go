package sessions

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
)

// loaded is a session as it stood in its file at one moment.
type loaded struct {
	st       *State
	meta     metaJSON
	settings map[string]string
	notes    []stored // all events but taps and tensors, in order
	damage   damage
}

const selectEvents = "select seq, at_us, kind, variant, tensor, payload, crc from events"

// scanEvent reads one row of selectEvents. The error says that the event cannot
// be used.
func scanEvent(row []driver.Value) (stored, error) {
	var e stored
	var ok [7]bool
	e.Seq, ok[0] = row[0].(int64)
	e.AtUS, ok[1] = row[1].(int64)
	kind, ok2 := row[2].(string)
	variant, ok3 := row[3].(int64)
	tensor, ok4 := row[4].(int64)
	e.payload, ok[5] = row[5].([]byte)
	crc, ok6 := row[6].(int64)
	ok[2], ok[3], ok[4], ok[6] = ok2, ok3, ok4, ok6
	e.Kind, e.Variant, e.Tensor = EventKind(kind), int(variant), int(tensor)
	if slices.Contains(ok[:], false) {
		return e, errors.New("a column has another type")
	}
	if crc != eventSum(e.Seq, e.AtUS, e.Variant, e.Tensor, kind, e.payload) {
		return e, errors.New("its checksum is wrong")
	}
	return e, decodeEvent(&e)
}

// readBytes is after how many bytes of payloads readEvents stops: scores are large.
const readBytes = 16 << 20

// errEnough ends a query early.
var errEnough = errors.New("enough was read")

// readEvents reads up to limit events after one, all kinds, and no more once they
// are readBytes large; more says that there may be others. A damaged one is an error.
func readEvents(ctx context.Context, c *sql.Conn, after int64, limit int) (out []stored, more bool, err error) {
	size := 0
	err = each(ctx, c, selectEvents+" where seq > ? order by seq limit ?", func(row []driver.Value) error {
		e, err := scanEvent(row)
		if err != nil {
			return fmt.Errorf("event %d is damaged: %w", e.Seq, err)
		}
		out = append(out, e)
		if size += len(e.payload); size >= readBytes {
			return errEnough
		}
		return nil
	}, after, int64(limit))
	if errors.Is(err, errEnough) {
		return out, true, nil
	}
	return out, len(out) == limit, err
}

// load reads a session. slot says where the tap records go; nil files them in
// the state, which has no records else.
func load(ctx context.Context, r *reader, slot slotter) (*loaded, error) {
	l := &loaded{damage: damage{missing: r.missing}}
	parts := loadParts()
	r.db.SetMaxIdleConns(parts)
	c, err := r.db.Conn(ctx)
	if err != nil {
		return nil, &FileError{r.path, "open", err}
	}
	defer c.Close()

	last, err := lastSeq(ctx, c)
	if err != nil {
		return nil, &FileError{r.path, "read", err}
	}
	chunks, err := l.loadNotes(ctx, c, r.path, last, true)
	if err != nil {
		return nil, err
	}
	if err := l.begin(r.path); err != nil {
		return nil, err
	}
	tensors := make(chan error, 1)
	go func() { tensors <- l.loadTensors(r.path, chunks) }()

	var filer *filer
	if slot == nil {
		for range l.st.Variants {
			l.st.Records = append(l.st.Records, make([]Record, l.meta.Tensors))
		}
		filer = newFiler(l.st)
		slot = filer.slot
	}
	taps, lastTap, err := l.loadTaps(ctx, r, c, last, parts, slot)
	if err := errors.Join(err, <-tensors); err != nil {
		return nil, err
	}
	if filer != nil {
		filer.finish()
	}
	found := taps + int64(len(l.notes)+len(chunks)) + l.damage.bad
	switch {
	case len(l.damage.unreadable) > 0:
	case last < math.MaxInt64:
		l.damage.gone = max(last-found, 0)
	default: // SQLite could not say where the events end, though it read on without an error
		end := max(lastTap.Seq, l.lastNote())
		l.damage.gone = max(end-found, 0)
		l.damage.unreadable = append(l.damage.unreadable, end+1)
	}
	l.finish(lastTap)
	if n := len(chunks); n > 0 && chunks[n-1].Seq > l.st.LastSeq { // a session without variants ends with its tensors
		l.st.LastSeq, l.st.LastUS = chunks[n-1].Seq, chunks[n-1].AtUS
	}
	return l, nil
}

// lastSeq is the number of the last event, 0 where there is none, and
// math.MaxInt64 where it cannot be known: a flipped bit in the last one can make
// its number a small one, so it is believed only where those before lead up to
// it.
func lastSeq(ctx context.Context, c *sql.Conn) (last int64, err error) {
	const some = 4
	var seqs []int64
	err = each(ctx, c, "select seq from events order by seq desc limit ?", func(row []driver.Value) error {
		seq, _ := row[0].(int64)
		seqs = append(seqs, seq)
		return nil
	}, int64(some))
	switch {
	case damaged(err):
		return math.MaxInt64, nil
	case err != nil || len(seqs) == 0:
		return 0, err
	}
	for i, seq := range seqs {
		if seq != seqs[0]-int64(i) || seq < 1 {
			return math.MaxInt64, nil
		}
	}
	return seqs[0], nil
}

// loadNotes reads all events but taps, and but those of which runs have very many
// where these are not wanted, and returns the tensors events.
func (l *loaded) loadNotes(ctx context.Context, c *sql.Conn, path string, last int64, scores bool) (chunks []stored, err error) {
	which := " where kind <> 'tap' and seq <= ? order by seq"
	if !scores {
		which = " where kind <> 'tap' and kind not in (" + unloggedKinds + ") and seq <= ? order by seq"
	}
	read := func(source string) error {
		l.notes, chunks = nil, nil
		before := int64(0)
		return each(ctx, c, strings.Replace(selectEvents, "events", source, 1)+which, func(row []driver.Value) error {
			e, err := scanEvent(row)
			switch {
			case err != nil, e.Seq <= before: // the latter where a page is there twice
				l.damage.add(e.Seq)
				return nil
			case e.Kind == EventTensors:
				chunks = append(chunks, e)
			default:
				e.payload = nil // what it holds is decoded
				l.notes = append(l.notes, e)
			}
			before = e.Seq
			return nil
		}, last)
	}
	err = read("events")
	if damaged(err) {
		// The index may be what is broken. Without it, what stands before the
		// break is had.
		l.damage = damage{missing: l.damage.missing}
		if err = read("events not indexed"); damaged(err) {
			l.damage.unreadable = append(l.damage.unreadable, l.lastNote()+1)
			err = nil
		}
	}
	if err != nil {
		return nil, &FileError{path, "read", err}
	}
	return chunks, nil
}

func (l *loaded) lastNote() int64 {
	if len(l.notes) == 0 {
		return 0
	}
	return l.notes[len(l.notes)-1].Seq
}

// maxTensors bounds how many tensors a file may claim: ten times the matrices of
// the largest mixture-of-experts models, and 200 bytes each.
const maxTensors = 4 << 20

// begin makes the state that the notes describe, without records.
func (l *loaded) begin(path string) error {
	if len(l.notes) == 0 || l.notes[0].Kind != EventCreated || l.notes[0].note.Meta == nil {
		return &FileError{Path: path, Reason: "is damaged: how the session was created cannot be read (" + l.damage.String() + ")"}
	}
	l.meta, l.settings = *l.notes[0].note.Meta, l.notes[0].note.Settings
	if l.meta.Tensors < 0 || l.meta.Tensors > maxTensors {
		return &FileError{Path: path, Reason: fmt.Sprintf("is damaged: %d tensors", l.meta.Tensors)}
	}
	l.st = &State{Meta: l.meta.meta(path), Tensors: make([]Tensor, l.meta.Tensors)}
	l.st.Progress = Progress{State: RunIdle, Variant: -1}
	for i := range l.notes {
		e := &l.notes[i]
		if e.Kind != EventVariant {
			continue
		}
		if e.Variant != len(l.st.Variants) {
			return &FileError{Path: path, Reason: fmt.Sprintf("is damaged: variant %d of event %d does not follow on %d variants", e.Variant, e.Seq, len(l.st.Variants))}
		}
		l.st.Variants = append(l.st.Variants, e.variant)
	}
	return nil
}

// loadTensors decodes the lists of tensors, several at once.
func (l *loaded) loadTensors(path string, chunks []stored) error {
	errs := make([]error, len(chunks))
	var wg sync.WaitGroup
	for i := range chunks {
		wg.Go(func() {
			if err := decodeTensors(chunks[i].payload, l.st.Tensors); err != nil {
				errs[i] = &FileError{path, fmt.Sprintf("is damaged: event %d", chunks[i].Seq), err}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i, t := range l.st.Tensors {
		if t.Name == "" {
			return &FileError{Path: path, Reason: fmt.Sprintf("is damaged: tensor %d of %d is in no list", i, len(l.st.Tensors))}
		}
	}
	return nil
}

// finish files the failures, the log and the progress.
func (l *loaded) finish(lastTap *Record) {
	st := l.st
	st.LastSeq, st.LastUS, st.Progress.Variant = lastTap.Seq, lastTap.AtUS, -1
	lastSettled := int64(0)
	if lastTap.Seq > 0 {
		lastSettled, st.Progress.Variant = lastTap.Seq, lastTap.Variant
	}
	var runs books
	kept := l.notes[:0]
	for _, n := range l.notes {
		if n.Kind != EventVariant && !n.valid(len(st.Variants), len(st.Tensors)) || runs.place(&n, len(st.Tensors)) != nil {
			l.damage.add(n.Seq) // it names what there is not
			continue
		}
		kept = append(kept, n)
		e := &kept[len(kept)-1]
		st.takeYard(e)
		st.takeCalib(e)
		st.takeGates(e)
		st.takeBias(e)
		st.takeTier(e)
		if !e.unlogged() {
			st.Log = append(st.Log, e.Event)
		}
		if e.recipe != nil {
			st.Recipes = append(st.Recipes, e.recipe)
		}
		if x := e.note.Export; x != nil {
			st.Exports = append(st.Exports, x.ref())
		}
		if a := e.note.Audit; a != nil {
			st.Audits = append(st.Audits, a)
		}
		st.Progress.State = nextRunState(st.Progress.State, e.Kind)
		if e.Seq > st.LastSeq {
			st.LastSeq, st.LastUS = e.Seq, e.AtUS
		}
		if e.Kind != EventFailed {
			continue
		}
		if st.Records != nil && e.Seq > st.Records[e.Variant][e.Tensor].Seq {
			st.Records[e.Variant][e.Tensor] = e.rec
		}
		if e.Seq > lastSettled {
			lastSettled, st.Progress.Variant = e.Seq, e.Variant
		}
	}
	clear(l.notes[len(kept):])
	l.notes = kept
	st.count()
	if l.damage.any() {
		st.Log = append(st.Log, l.damageEvent())
	}
}

// count makes Done, Failed and Total of the progress anew from the records.
func (s *State) count() {
	s.Progress.Done, s.Progress.Failed = 0, 0
	s.Progress.Total = s.measurements()
	for _, rs := range s.Records {
		for i := range rs {
			switch {
			case rs[i].Seq == 0:
			case rs[i].Failed:
				s.Progress.Failed++
			default:
				s.Progress.Done++
			}
		}
	}
}

// nextRunState is where a run stands after an event.
func nextRunState(s RunState, k EventKind) RunState {
	switch k {
	case EventStarted, EventResumed:
		return RunRunning
	case EventPaused:
		return RunPaused
	case EventCancelled:
		return RunCancelled
	case EventStopped:
		return RunStopped
	case EventFinished:
		return RunFinished
	}
	return s
}
