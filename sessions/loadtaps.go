package sessions

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"quantscope/kernels"
)

// slotter says where a tap record goes. It is called from several goroutines at
// once, each with the number of the part of the file that it reads: parts are in
// order of seq, and so are the records of one. The record is filled before the
// next call of the same part.
type slotter func(part, variant, tensor int) *Record

// loadParts is in how many parts the taps are read at once.
func loadParts() int { return min(runtime.GOMAXPROCS(0), 4) }

// loadTaps reads all tap events, in parts of equal numbers of events, and
// returns how many there are and the last one.
func (l *loaded) loadTaps(ctx context.Context, r *reader, c *sql.Conn, last int64, parts int, slot slotter) (taps int64, lastTap *Record, err error) {
	if last == math.MaxInt64 { // it is not known where the events end
		parts = 1
	}
	type result struct {
		taps   int64
		last   Record
		damage damage
		err    error
	}
	results := make([]result, parts)
	var wg sync.WaitGroup
	for i := range parts {
		from, to := last/int64(parts)*int64(i), last/int64(parts)*int64(i+1)
		if i == parts-1 {
			to = last
		}
		wg.Go(func() {
			res := &results[i]
			own := c
			if i > 0 {
				if own, res.err = r.db.Conn(ctx); res.err != nil {
					return
				}
				defer own.Close()
			}
			seq, before := from, from
			var lastRec *Record
			var tap kernels.Tap
			res.err = each(ctx, own, "select seq, at_us, variant, tensor, payload, crc from events where seq > ? and seq <= ? and kind = 'tap' order by seq", func(row []driver.Value) error {
				if n, ok := row[0].(int64); ok && n <= before { // a page is there twice
					res.damage.add(n)
					return nil
				}
				var rec *Record
				if seq, rec = l.scanTap(row, &tap, i, slot); rec == nil {
					res.damage.add(seq)
					return nil
				}
				lastRec, before = rec, seq
				res.taps++
				return nil
			}, from, to)
			if lastRec != nil {
				res.last = *lastRec
			}
			if damaged(res.err) {
				res.damage.unreadable = append(res.damage.unreadable, seq+1)
				res.err = nil
			}
		})
	}
	wg.Wait()
	lastTap = &Record{}
	for i := range results {
		if err := results[i].err; err != nil {
			return 0, nil, &FileError{r.path, "read", err}
		}
		l.damage.merge(results[i].damage)
		taps += results[i].taps
		if results[i].last.Seq > lastTap.Seq {
			lastTap = &results[i].last
		}
	}
	return taps, lastTap, nil
}

// scanTap reads a tap event, without what a Record does not need, into its slot.
// It returns nil for an event that cannot be used. tap is room to work in.
func (l *loaded) scanTap(row []driver.Value, tap *kernels.Tap, part int, slot slotter) (seq int64, rec *Record) {
	seq, ok0 := row[0].(int64)
	atUS, ok1 := row[1].(int64)
	v, ok2 := row[2].(int64)
	t, ok3 := row[3].(int64)
	payload, ok4 := row[4].([]byte)
	crc, ok5 := row[5].(int64)
	variant, tensor := int(v), int(t)
	switch {
	case !ok0 || !ok1 || !ok2 || !ok3 || !ok4 || !ok5,
		variant < 0 || variant >= len(l.st.Variants) || tensor < 0 || tensor >= len(l.st.Tensors),
		crc != eventSum(seq, atUS, variant, tensor, string(EventTap), payload):
		return seq, nil
	}
	weights, _, err := decodeTapHead(payload, tap)
	if err != nil {
		return seq, nil
	}
	rec = slot(part, variant, tensor)
	rec.set(variant, tensor, tap)
	rec.Seq, rec.AtUS = seq, atUS
	rec.setDigest(weights)
	return seq, rec
}

// filer files records of several goroutines: the first of each (variant,
// tensor) straight away, later ones, which are rare, at the end.
type filer struct {
	st   *State
	seen [][]atomic.Bool

	mu   sync.Mutex
	late []*Record
}

func newFiler(st *State) *filer {
	f := &filer{st: st, seen: make([][]atomic.Bool, len(st.Records))}
	for i := range f.seen {
		f.seen[i] = make([]atomic.Bool, len(st.Tensors))
	}
	return f
}

func (f *filer) slot(_, variant, tensor int) *Record {
	if !f.seen[variant][tensor].Swap(true) {
		return &f.st.Records[variant][tensor]
	}
	rec := new(Record)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.late = append(f.late, rec)
	return rec
}

func (f *filer) finish() {
	for _, rec := range f.late {
		if old := &f.st.Records[rec.Variant][rec.Tensor]; rec.Seq > old.Seq {
			*old = *rec
		}
	}
}
