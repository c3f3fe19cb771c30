package sessions

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"quantscope/quant/lockfile"
)

// MergeError says why sessions are not parts of one.
type MergeError struct {
	Path   string
	Reason string
}

func (e *MergeError) Error() string { return "sessions: " + e.Path + ": cannot be merged: " + e.Reason }

// MergeOptions say what a merge puts up with.
type MergeOptions struct {
	Partial bool // parts that are missing, and measurements that are
}

// Merge makes a session of the sessions of parts of one checkpoint. It is as that
// of one run over all of it: the tensors in the same order, every tap payload byte
// for byte; the events stand in the order in which they happened. A file that
// is there already is an *ExistsError; parts that overlap, differ or leave gaps
// are a *MergeError that names them. The file appears when it is whole.
func Merge(ctx context.Context, out string, paths []string, o MergeOptions) error {
	m, err := readParts(ctx, paths, o)
	if err != nil {
		return err
	}
	defer m.close()
	lock, err := lockSession(out)
	if err != nil {
		return err
	}
	err = func() error {
		if _, err := os.Lstat(out); err == nil {
			return &ExistsError{Path: out}
		}
		return create(ctx, out, func(put func(e *stored) error) error { return m.write(ctx, put) })
	}()
	return errors.Join(err, lock.Release())
}

// merging is a merge under way.
type merging struct {
	parts   []*mergePart // in the order of their tensors
	created int64        // Unix ms, the earliest
	whole   bool         // every tensor is there
	done    int64        // measurements, failed ones too
	total   int64
}

// mergePart is one of the sessions.
type mergePart struct {
	*loaded
	path  string
	first int // tensor of the merged session that is its first
	r     *reader
	c     *sql.Conn
	queue []stored
	after int64 // events up to this one were read
}

func (m *merging) close() {
	for _, p := range m.parts {
		if p.c != nil {
			_ = p.c.Close() // of a file that was only read
		}
		if p.r != nil {
			_ = p.r.Close()
		}
	}
}

// readParts reads the parts and makes sure that they belong together.
func readParts(ctx context.Context, paths []string, o MergeOptions) (m *merging, err error) {
	m = &merging{created: math.MaxInt64}
	defer func() {
		if err != nil {
			m.close()
		}
	}()
	if len(paths) == 0 {
		return m, errors.New("sessions: there are no parts to merge")
	}
	for _, path := range paths {
		p := &mergePart{path: path}
		m.parts = append(m.parts, p)
		if err := p.load(ctx); err != nil {
			return m, err
		}
		if err := p.agrees(m.parts[0]); err != nil {
			return m, err
		}
		m.created = min(m.created, p.meta.CreatedUnixMS)
		m.done += p.st.Progress.Done + p.st.Progress.Failed
		m.total += p.st.Progress.Total
		if left := p.st.Progress.Total - p.st.Progress.Done - p.st.Progress.Failed; left > 0 && !o.Partial {
			return m, &MergeError{path, fmt.Sprintf("%d of %s are still to do; --partial merges what is there", left, count(p.st.Progress.Total, "measurement"))}
		}
	}
	slices.SortStableFunc(m.parts, func(a, b *mergePart) int {
		return cmp.Or(cmp.Compare(a.meta.Part.First, b.meta.Part.First), cmp.Compare(len(a.st.Tensors), len(b.st.Tensors)), cmp.Compare(a.meta.Part.K, b.meta.Part.K))
	})
	return m, m.place(o)
}

// load opens a part and reads what it holds.
func (p *mergePart) load(ctx context.Context) (err error) {
	if owner, alive := lockfile.Holder(p.path + lockSuffix); alive {
		return &BusyError{p.path, owner}
	}
	if p.r, err = openReader(ctx, p.path); err != nil {
		return err
	}
	if p.loaded, err = load(ctx, p.r, nil); err != nil {
		return err
	}
	if p.damage.any() {
		return &FileError{Path: p.path, Reason: "is damaged, so it is not merged: " + p.damage.String()}
	}
	if p.meta.Part == nil {
		return &MergeError{p.path, "it is not of a part of a checkpoint (--part), but of all of it"}
	}
	if n := len(p.st.Calibrations); n > 0 {
		return &MergeError{p.path, fmt.Sprintf("it holds %s, and what is calibrated is calibrated over the whole checkpoint", count(int64(n), "calibration"))}
	}
	if n := len(p.st.Tensors); p.meta.Part.First < 0 || p.meta.Part.Whole > maxTensors || p.meta.Part.First > p.meta.Part.Whole-n {
		return &FileError{Path: p.path, Reason: fmt.Sprintf("is damaged: tensors %d to %d of %d", p.meta.Part.First, p.meta.Part.First+n, p.meta.Part.Whole)}
	}
	if p.c, err = p.r.db.Conn(ctx); err != nil {
		return &FileError{p.path, "open", err}
	}
	return nil
}

// agrees compares a part with the first one.
func (p *mergePart) agrees(q *mergePart) error {
	differs := func(what, mine, other string) error {
		return &MergeError{p.path, fmt.Sprintf("%s is %s, and %s in %s", what, orNone(mine), orNone(other), q.path)}
	}
	for _, s := range settings {
		if s.mayChange || s.name == SettingPart {
			continue
		}
		if a, b := p.settings[s.name], q.settings[s.name]; a != b {
			return differs(s.name, a, b)
		}
	}
	if a, b := p.meta.Part.Whole, q.meta.Part.Whole; a != b {
		return differs("number of tensors of the whole", fmt.Sprint(a), fmt.Sprint(b))
	}
	names := func(l *loaded) string {
		var list []string
		for _, v := range l.st.Variants {
			list = append(list, v.Name)
		}
		return strings.Join(list, ", ")
	}
	if a, b := names(p.loaded), names(q.loaded); a != b {
		return differs("list of variants", a, b)
	}
	for i, v := range p.st.Variants {
		if a, b := definition(v), definition(q.st.Variants[i]); a != b {
			return differs("definition of variant "+v.Name, a, b)
		}
	}
	return p.sameRecipes(q, differs)
}

// place says where the tensors of each part stand, and refuses overlaps and gaps.
func (m *merging) place(o MergeOptions) error {
	at, tensors := 0, 0
	names := map[string]*mergePart{}
	m.whole = true
	whole := m.parts[0].meta.Part.Whole
	for i, p := range m.parts {
		first := p.meta.Part.First
		for _, q := range m.parts[:i] {
			if q.meta.Part.K == p.meta.Part.K && q.meta.Part.Of == p.meta.Part.Of {
				return &MergeError{p.path, fmt.Sprintf("it is part %s, as %s is", p.settings[SettingPart], q.path)}
			}
		}
		for _, t := range p.st.Tensors {
			if q := names[t.Name]; q != nil {
				return &MergeError{p.path, fmt.Sprintf("tensor %q is in %s too", t.Name, q.path)}
			}
			names[t.Name] = p
		}
		if first > at {
			m.whole = false
			if !o.Partial {
				return &MergeError{p.path, fmt.Sprintf("%s before its first are in none of the parts; --partial merges what is there", count(int64(first-at), "tensor"))}
			}
		}
		at = max(at, first+len(p.st.Tensors))
		p.first = tensors
		tensors += len(p.st.Tensors)
	}
	if at < whole {
		m.whole = false
		if !o.Partial {
			last := m.parts[len(m.parts)-1]
			return &MergeError{last.path, fmt.Sprintf("%s after its last are in none of the parts; --partial merges what is there", count(int64(whole-at), "tensor"))}
		}
	}
	return nil
}

// label is the part setting of the merged session: "" for the whole.
func (m *merging) label() string {
	if m.whole {
		return ""
	}
	var list []string
	for _, p := range m.parts {
		list = append(list, p.settings[SettingPart])
	}
	return strings.Join(list, "+")
}

// write puts the events of the merged session.
func (m *merging) write(ctx context.Context, put func(e *stored) error) error {
	seq, lastUS := int64(0), int64(0)
	post := func(e stored) error {
		seq++
		lastUS = max(lastUS, e.AtUS)
		e.Seq, e.AtUS = seq, lastUS
		e.rec.Seq, e.rec.AtUS = e.Seq, e.AtUS
		return put(&e)
	}
	head, err := m.head()
	if err != nil {
		return err
	}
	for _, e := range head {
		if err := post(e); err != nil {
			return err
		}
	}
	said := map[string]bool{}
	for {
		e, err := m.next(ctx)
		if err != nil {
			return err
		}
		if e == nil {
			break
		}
		if e.Kind == EventFinding && e.Tensor < 0 { // each part says it of the whole
			if said[e.Message] {
				continue
			}
			said[e.Message] = true
		}
		if err := post(*e); err != nil {
			return err
		}
	}
	kind, n := ending(nil, m.total-m.done, m.total, false)
	return post(newNote(kind, -1, -1, n))
}

// head are the events that begin the merged session.
func (m *merging) head() ([]stored, error) {
	a := m.parts[0]
	meta := a.meta
	meta.Part, meta.CreatedUnixMS, meta.Tensors = nil, m.created, 0
	settings := map[string]string{}
	for k, v := range a.settings {
		settings[k] = v
	}
	settings[SettingPart] = m.label()
	var tensors []Tensor
	var sets, from []string
	for _, p := range m.parts {
		for _, t := range p.st.Tensors {
			t.ID = len(tensors)
			tensors = append(tensors, t)
		}
		if !slices.Contains(sets, p.meta.KernelSet) {
			sets = append(sets, p.meta.KernelSet)
		}
		from = append(from, fmt.Sprintf("%s (part %s, %s)", filepath.Base(p.path), p.settings[SettingPart], count(int64(len(p.st.Tensors)), "tensor")))
	}
	meta.Tensors, meta.KernelSet = len(tensors), strings.Join(sets, "+")
	events := []stored{newNote(EventCreated, -1, -1, note{
		Message: fmt.Sprintf("%s: %s, %s", meta.SourcePath, count(int64(len(tensors)), "tensor"), meta.Targets),
		Meta:    &meta, Settings: settings,
	})}
	chunks, err := encodeTensors(tensors)
	if err != nil {
		return nil, err
	}
	for _, c := range chunks {
		events = append(events, stored{Event: Event{Kind: EventTensors, Variant: -1, Tensor: -1}, payload: c})
	}
	n := note{Message: "merged from " + strings.Join(from, ", "), Program: meta.Program, KernelSet: meta.KernelSet}
	for id, v := range a.st.Variants {
		added, err := addedEvents(id, m.quantizer(v))
		if err != nil {
			return nil, err
		}
		events = append(events, added[:min(len(added), 2)]...) // what it warns of the parts say
		n.Variants = append(n.Variants, v.Name)
	}
	return append(events, newNote(EventStarted, -1, -1, n)), nil
}

// next is the event of the parts that happened next, nil at the end. Of the
// lives of the parts' runs nothing is kept.
func (m *merging) next(ctx context.Context) (*stored, error) {
	var soonest *mergePart
	for _, p := range m.parts {
		if err := p.fill(ctx, m.created); err != nil {
			return nil, err
		}
		if len(p.queue) > 0 && (soonest == nil || p.queue[0].AtUS < soonest.queue[0].AtUS) {
			soonest = p
		}
	}
	if soonest == nil {
		return nil, nil
	}
	e := &soonest.queue[0]
	soonest.queue = soonest.queue[1:]
	return e, nil
}

// fill reads more events of a part where its queue is empty, with the numbers of
// the merged session.
func (p *mergePart) fill(ctx context.Context, created int64) error {
	for len(p.queue) == 0 && p.after < p.st.LastSeq {
		events, _, err := readEvents(ctx, p.c, p.after, refillRows)
		if err != nil {
			return readError(ctx, p.path, err)
		}
		if len(events) == 0 {
			return nil
		}
		p.after = events[len(events)-1].Seq
		for _, e := range events {
			if !e.ofTensor() {
				continue
			}
			if e.Tensor >= 0 {
				e.Tensor += p.first
				e.rec.Tensor += p.first
			}
			e.AtUS += (p.meta.CreatedUnixMS - created) * 1000
			p.queue = append(p.queue, e)
		}
	}
	return nil
}
