package sessions

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"quantscope/kernels"
	"quantscope/quant/lockfile"
)

// OpenSession opens a session for reading: a Follow feed when a process is
// writing it, a Saved one otherwise. A damaged file is opened as far as it can
// be read; what was lost is a finding in the log. Errors are *FileError.
func OpenSession(path string) (Feed, error) {
	return openSession(context.Background(), path, realClock{})
}

func openSession(ctx context.Context, path string, clock Clock) (Feed, error) {
	_, alive := lockfile.Holder(path + lockSuffix)
	l, err := loadFile(ctx, path)
	if err != nil {
		return nil, err
	}
	s := newSaved(path, l)
	if alive {
		return newFollow(s, l, clock), nil
	}
	l.st.interrupt()
	s.last = Batch{Progress: l.st.Progress, LastSeq: l.st.LastSeq, LastUS: l.st.LastUS, Closed: true}
	return s, nil
}

// loadFile reads a whole session into a state.
func loadFile(ctx context.Context, path string) (*loaded, error) {
	r, err := openReader(ctx, path)
	if err != nil {
		return nil, err
	}
	l, err := load(ctx, r, nil)
	if closeErr := r.Close(); err == nil { // the first error says more
		err = closeErr
	}
	return l, readError(ctx, path, err)
}

// interrupt makes a run that goes on an interrupted one: nobody runs it.
func (s *State) interrupt() {
	if s.Progress.State == RunRunning || s.Progress.State == RunPaused {
		s.Progress.State = RunInterrupted
	}
}

// savedFeed is a session that nobody writes but a measurement that is begun on it.
// It keeps no file open else, so that a later run may go on with the session.
type savedFeed struct {
	path     string
	meta     metaJSON
	settings map[string]string
	tensors  []Tensor
	variants atomic.Int64 // how many are known
	lastSeq  atomic.Int64 // of the last event that the reader was told of
	desk     *yardDesk
	gates    *gateDesk
	looks    *lookDesk
	box      *Mailbox // of measurements that are begun on this feed
	st       *State   // nil once it was handed out
	last     Batch
	told     bool
}

func newSaved(path string, l *loaded) *savedFeed {
	s := &savedFeed{path: path, meta: l.meta, settings: l.settings, tensors: l.st.Tensors, st: l.st, desk: newYardDesk(l.st.Yards), gates: newGateDesk(l.st.Gates), looks: newLookDesk(l.st), box: NewMailbox(nil)}
	s.lastSeq.Store(l.st.LastSeq)
	s.variants.Store(int64(len(l.st.Variants)))
	return s
}

func (s *savedFeed) Mode() Mode { return Saved }

func (s *savedFeed) Snapshot() *State {
	st := s.st
	s.st = nil // the caller owns it
	return st
}

func (s *savedFeed) Next(ctx context.Context, frame time.Duration) (Batch, error) {
	if !s.told {
		s.told = true
		return s.last, nil
	}
	return s.box.Next(ctx, frame)
}

func (s *savedFeed) Detail(ctx context.Context, variant, tensor int) (kernels.Tap, error) {
	if err := checkPair(s.path, variant, int(s.variants.Load()), tensor, len(s.tensors)); err != nil {
		return kernels.Tap{}, err
	}
	return readDetail(ctx, s.path, variant, tensor)
}

func (s *savedFeed) RowErrors(ctx context.Context, variant, tensor int) ([]float64, error) {
	if err := checkPair(s.path, variant, int(s.variants.Load()), tensor, len(s.tensors)); err != nil {
		return nil, err
	}
	v, err := readVariant(ctx, s.path, variant)
	if err != nil {
		return nil, err
	}
	e, err := readTapEvent(ctx, s.path, variant, tensor)
	if err != nil && !errors.Is(err, ErrNotMeasured) {
		return nil, err
	}
	folder, err := readFolder(ctx, s.path, variant)
	if err != nil {
		return nil, err
	}
	followed, err := storedRecipes(ctx, s.path)
	if err != nil {
		return nil, err
	}
	return sourceRowErrors(ctx, s.path, &s.meta, s.settings, followed, s.tensors[tensor], v, folder, e.rec.digest())
}

func (s *savedFeed) Close() error { return nil }

// readFolder reads where the codes of a variant's newest calibration are; "" for
// none.
func readFolder(ctx context.Context, path string, variant int) (string, error) {
	r, err := openReader(ctx, path)
	if err != nil {
		return "", err
	}
	defer r.Close()
	c, err := r.db.Conn(ctx)
	if err != nil {
		return "", &FileError{path, "open", err}
	}
	defer c.Close()
	folder := ""
	err = each(ctx, c, selectEvents+" where kind = 'calib' and variant = ? order by seq", func(row []driver.Value) error {
		e, err := scanEvent(row)
		if err == nil {
			folder = e.calibSetup.Codes
		}
		return err
	}, int64(variant))
	return folder, readError(ctx, path, err)
}

// readVariant reads how a variant is defined.
func readVariant(ctx context.Context, path string, variant int) (Variant, error) {
	r, err := openReader(ctx, path)
	if err != nil {
		return Variant{}, err
	}
	defer r.Close()
	var payload []byte
	if err := r.db.QueryRowContext(ctx, "select payload from events where kind = 'variant' and variant = ?", variant).Scan(&payload); err != nil {
		return Variant{}, &FileError{path, fmt.Sprintf("variant %d", variant), err}
	}
	e := stored{Event: Event{Kind: EventVariant, Variant: variant, Tensor: -1}, payload: payload}
	if err := decodeEvent(&e); err != nil {
		return Variant{}, &FileError{path, fmt.Sprintf("variant %d", variant), err}
	}
	return e.variant, nil
}
