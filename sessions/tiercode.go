package sessions

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"quantscope/analysis/tier"
)

// windowVersion is the first byte of the payload of a window or moves event.
// docs/session.md draws it.
const windowVersion = 1

var (
	errWindowShort   = errors.New("window payload ends early")
	errWindowTrailed = errors.New("window payload goes on after its end")
)

// encodeWindow appends the payload of a window to dst. Everything but scores is an
// unsigned varint, scores are f64, bit for bit. What is negative cannot be written.
func encodeWindow(dst []byte, run int, w *tier.Window) ([]byte, error) {
	dst = append(dst, windowVersion)
	var bad error
	put := func(n int64) {
		if n < 0 && bad == nil {
			bad = fmt.Errorf("window %d of budget %d has a count of %d", w.Index, w.Budget, n)
		}
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	for _, n := range [...]int64{int64(run), int64(w.Budget), int64(w.Index), int64(w.First), int64(w.Tokens), w.Pairs, w.Hits,
		int64(w.Promoted), int64(w.Evicted), w.Churn, int64(w.Hot), w.HotBytes, int64(w.Held), int64(len(w.PerLayer))} {
		put(n)
	}
	for _, n := range w.PerLayer {
		put(int64(n))
	}
	put(int64(len(w.Moves)))
	for i := range w.Moves {
		m := &w.Moves[i]
		put(int64(m.Layer))
		if m.Expert < 0 || m.Expert > math.MaxInt32 {
			put(-1)
		}
		up := uint64(0)
		if m.Up {
			up = 1
		}
		dst = binary.AppendUvarint(dst, uint64(m.Expert)<<1|up)
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(m.Score))
	}
	return dst, bad
}

// leastMove is what a move takes at least in a payload.
const leastMove = 1 + 1 + 8

// decodeWindow reads the payload of a window. Nothing is allocated that the payload
// has not the bytes for.
func decodeWindow(p []byte) (run int, w *tier.Window, err error) {
	d := windowReader{p: p}
	if len(p) == 0 {
		return 0, nil, errWindowShort
	}
	if p[0] != windowVersion {
		return 0, nil, fmt.Errorf("window payload has version %d, this program reads %d", p[0], windowVersion)
	}
	d.p = p[1:]
	w = &tier.Window{}
	run = d.count()
	w.Budget, w.Index, w.First, w.Tokens = d.count(), d.count(), d.count(), d.count()
	w.Pairs, w.Hits = d.number(math.MaxInt64), d.number(math.MaxInt64)
	w.Promoted, w.Evicted = d.count(), d.count()
	w.Churn = d.number(math.MaxInt64)
	w.Hot = d.count()
	w.HotBytes = d.number(math.MaxInt64)
	w.Held = d.count()
	if n := d.list(1); n > 0 {
		w.PerLayer = make([]int, n)
		for i := range w.PerLayer {
			w.PerLayer[i] = d.count()
		}
	}
	if n := d.list(leastMove); n > 0 {
		w.Moves = make([]tier.Move, n)
		for i := range w.Moves {
			m := &w.Moves[i]
			m.Layer = d.count()
			e := d.number(2*math.MaxInt32 + 1)
			m.Expert, m.Up = int(e>>1), e&1 == 1
			m.Score = d.f64()
		}
	}
	switch {
	case d.err != nil:
		return 0, nil, d.err
	case len(d.p) != 0:
		return 0, nil, errWindowTrailed
	}
	return run, w, nil
}

// windowReader takes a payload apart. After its first error it gives zeros.
type windowReader struct {
	p   []byte
	err error
}

// number reads a number of at most most.
func (d *windowReader) number(most uint64) int64 {
	if d.err != nil {
		return 0
	}
	n, k := binary.Uvarint(d.p)
	switch {
	case k <= 0:
		d.err = errWindowShort
		return 0
	case n > most:
		d.err = fmt.Errorf("window payload has the number %d where at most %d can be", n, most)
		return 0
	}
	d.p = d.p[k:]
	return int64(n)
}

func (d *windowReader) count() int { return int(d.number(math.MaxInt32)) }

// list reads how many follow that take at least so many bytes each.
func (d *windowReader) list(least int) int {
	n := d.count()
	if d.err == nil && n > len(d.p)/least {
		d.err = errWindowShort
	}
	if d.err != nil {
		return 0
	}
	return n
}

func (d *windowReader) f64() float64 {
	if d.err == nil && len(d.p) < 8 {
		d.err = errWindowShort
	}
	if d.err != nil {
		return 0
	}
	v := math.Float64frombits(binary.LittleEndian.Uint64(d.p))
	d.p = d.p[8:]
	return v
}
