package sessions

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"quantscope/analysis/yardstick"
)

// scoreVersion is the first byte of the payload of a score event. docs/session.md
// draws it.
const scoreVersion = 1

var (
	errScoreShort   = errors.New("score payload ends early")
	errScoreTrailed = errors.New("score payload goes on after its end")
)

// encodeScore appends the payload of a score event: figures of one kind stand
// together, bit for bit, and first choices as whether they are the reference's.
func encodeScore(dst []byte, yard int, c *yardstick.Chunk) []byte {
	dst = append(dst, scoreVersion)
	for _, n := range []int{yard, c.Corpus, c.Index, c.First, len(c.Ref), len(c.Rows)} {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	for i := range c.Ref {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(c.Ref[i].NLL))
	}
	for i := range c.Ref {
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(c.Ref[i].MaxP))
	}
	for i := range c.Ref {
		dst = binary.AppendUvarint(dst, uint64(uint32(c.Ref[i].Top)))
	}
	for _, rows := range c.Rows {
		for _, figure := range rowFigures {
			for i := range rows {
				dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(*figure(&rows[i])))
			}
		}
		for i := range rows {
			n := uint64(0)
			if rows[i].Top != c.Ref[i].Top {
				n = uint64(uint32(rows[i].Top)) + 1
			}
			dst = binary.AppendUvarint(dst, n)
		}
	}
	return appendTexts(dst, c.Texts)
}

// rowFigures are the figures of a row, in the order of the payload.
var rowFigures = [...]func(r *yardstick.Row) *float64{
	func(r *yardstick.Row) *float64 { return &r.KL },
	func(r *yardstick.Row) *float64 { return &r.Reverse },
	func(r *yardstick.Row) *float64 { return &r.NLL },
}

// appendTexts writes how many texts follow, and each as its token, its length
// and its bytes, by token. Bytes, since a token may be a part of a character.
func appendTexts(dst []byte, texts map[int32]string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(texts)))
	for _, id := range slices.Sorted(maps.Keys(texts)) {
		dst = binary.AppendUvarint(dst, uint64(uint32(id)))
		dst = binary.AppendUvarint(dst, uint64(len(texts[id])))
		dst = append(dst, texts[id]...)
	}
	return dst
}

// What a row, and a position with its reference, take at least in a payload.
const (
	leastRow = 3*8 + 1
	leastRef = 8 + 4 + 1
)

// decodeScore reads the payload of a score event. Nothing is allocated that the
// payload has not the bytes for.
func decodeScore(p []byte) (yard int, c *yardstick.Chunk, err error) {
	d := scoreReader{p: p}
	if version := d.byte(); d.err == nil && version != scoreVersion {
		return 0, nil, fmt.Errorf("score payload has version %d, this program reads %d", version, scoreVersion)
	}
	c = &yardstick.Chunk{}
	yard = d.count()
	c.Corpus, c.Index, c.First = d.count(), d.count(), d.count()
	positions, candidates := d.count(), d.count()
	if d.err != nil {
		return 0, nil, d.err
	}
	if positions > len(d.p)/leastRef || candidates > 0 && positions > 0 && candidates > len(d.p)/leastRow/positions || candidates > maxParties {
		return 0, nil, fmt.Errorf("score payload of %d positions and %d candidates has %d bytes: %w", positions, candidates, len(p), errScoreShort)
	}
	c.Ref = make([]yardstick.RefRow, positions)
	for i := range c.Ref {
		c.Ref[i].NLL = d.f64()
	}
	for i := range c.Ref {
		c.Ref[i].MaxP = d.f32()
	}
	for i := range c.Ref {
		c.Ref[i].Top = d.token()
	}
	c.Rows = make([][]yardstick.Row, candidates)
	for k := range c.Rows {
		rows := make([]yardstick.Row, positions)
		for _, figure := range rowFigures {
			for i := range rows {
				*figure(&rows[i]) = d.f64()
			}
		}
		for i := range rows {
			if rows[i].Top = c.Ref[i].Top; !d.same() {
				rows[i].Top = d.otherToken()
			}
		}
		c.Rows[k] = rows
	}
	c.Texts = d.texts()
	switch {
	case d.err != nil:
		return 0, nil, d.err
	case len(d.p) != 0:
		return 0, nil, errScoreTrailed
	}
	return yard, c, nil
}

// scoreReader takes a payload apart. After its first error it gives zeros.
type scoreReader struct {
	p   []byte
	err error
}

func (d *scoreReader) take(n int) []byte {
	if d.err != nil || len(d.p) < n {
		if d.err == nil {
			d.err = errScoreShort
		}
		return make([]byte, min(n, 8))
	}
	out := d.p[:n]
	d.p = d.p[n:]
	return out
}

func (d *scoreReader) byte() byte { return d.take(1)[0] }
func (d *scoreReader) f64() float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64(d.take(8)))
}
func (d *scoreReader) f32() float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(d.take(4)))
}

// uvarint reads a number of at most most.
func (d *scoreReader) uvarint(most uint64) uint64 {
	if d.err != nil {
		return 0
	}
	n, k := binary.Uvarint(d.p)
	switch {
	case k <= 0:
		d.err = errScoreShort
		return 0
	case n > most:
		d.err = fmt.Errorf("score payload has the number %d where at most %d can be", n, most)
		return 0
	}
	d.p = d.p[k:]
	return n
}

func (d *scoreReader) count() int   { return int(d.uvarint(math.MaxInt32)) }
func (d *scoreReader) token() int32 { return int32(uint32(d.uvarint(math.MaxUint32))) }

// same says whether a choice is the reference's, and takes that in.
func (d *scoreReader) same() bool {
	if d.err == nil && len(d.p) > 0 && d.p[0] != 0 {
		return false
	}
	d.byte()
	return true
}

func (d *scoreReader) otherToken() int32 {
	return int32(uint32(d.uvarint(math.MaxUint32+1) - 1))
}

// texts reads what appendTexts wrote; nil for none.
func (d *scoreReader) texts() map[int32]string {
	n := d.count()
	if d.err != nil || n == 0 {
		return nil
	}
	if n > len(d.p)/2 {
		d.err = errScoreShort
		return nil
	}
	texts := make(map[int32]string, n)
	for range n {
		id := d.token()
		size := d.count()
		if d.err == nil && size > len(d.p) {
			d.err = errScoreShort
		}
		if d.err != nil {
			return nil
		}
		texts[id] = string(d.take(size))
	}
	return texts
}
