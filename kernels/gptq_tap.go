package kernels

import (
	"fmt"
	"math"
)

// TapOf is the tap record of codes that are there already: what a Pass would
// have recorded had it chosen them, bit for bit. Codes, Scales and Mins of out
// are those of all rows of w, as Pass.Sizes says; its row sums are filled in
// where they are wanted. global is Pass.Global.
//
// What does not come from the codes is that of round to nearest: every block is
// in bin 0 of Multipliers, and ScaleHigh and ScaleLow count the blocks
// whose own range asks for a scale beyond the format's. Sums go on from row to row,
// so that threads are of no use to it.
func (s Set) TapOf(spec Spec, w Operand, out *Output, global float32, _ int) (Tap, error) {
	g, err := s.orReference().beginGiven(spec, w, out, global, 0)
	if err != nil {
		return Tap{}, err
	}
	err = g.rows(0, g.count)
	t := g.tap.finish()
	if err != nil {
		return Tap{}, fmt.Errorf("%s record: %w", g.f.Name, err)
	}
	return t, nil
}

// beginGiven begins the record of a matrix whose largest magnitude may be known;
// it is 0 where not.
func (s Set) beginGiven(spec Spec, w Operand, out *Output, global, amax float32) (*givenRows, error) {
	q, f, err := spec.check()
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	if err := w.check(); err != nil {
		return nil, fmt.Errorf("%s record: %w", f.Name, err)
	}
	if w.transposed {
		return nil, fmt.Errorf("%s record: of a transpose: %w", f.Name, ErrUnsupported)
	}
	rows, cols := w.Dims()
	if _, err := f.Bytes(rows, cols); err != nil {
		return nil, fmt.Errorf("%s record: %w", f.Name, err)
	}
	n, _ := f.Scales(rows, cols)
	scaleBytes, minBytes := q.stored(f, spec.Convention)
	if out == nil {
		out = &Output{}
	}
	if f.Scope == ScopeTensor && len(out.Scales) == 0 && n > 0 {
		scales := make([]byte, scaleBytes)
		bits := math.Float32bits(global)
		if scaleBytes == 2 {
			bits = uint32(F32ToBF16(global))
		}
		putBits(scales, bits)
		o := *out
		o.Scales = scales
		out = &o
	}
	for _, x := range []struct {
		what       string
		have, want int
	}{
		{"code bytes", len(out.Codes), rows * ceilDiv(cols*f.Bits, 8)},
		{"scale bytes", len(out.Scales), n * scaleBytes},
		{"bytes of minima", len(out.Mins), n * minBytes},
		{"row errors", len(out.RowE2), orZero(out.RowE2, rows)},
		{"row norms", len(out.RowW2), orZero(out.RowW2, rows)},
	} {
		if x.have != x.want {
			return nil, fmt.Errorf("%s record: %d %s for %d×%d, want %d: %w", f.Name, x.have, x.what, rows, cols, x.want, ErrShape)
		}
	}
	var t givenTap
	if f.Scale == "e4m3" {
		t, err = s.givenNVFP4(spec, cols, amax, global)
	} else {
		t, err = s.givenBlocks(spec, f, cols, scaleBytes, minBytes, out)
	}
	if err != nil {
		return nil, fmt.Errorf("%s record: %w", f.Name, err)
	}
	g := &givenRows{set: s, f: f, spec: spec, w: w, out: out, global: global, count: rows, cols: cols, scaleBytes: scaleBytes, minBytes: minBytes, tap: t}
	g.stored, g.isStored = w.Stored()
	return g, nil
}

func orZero(s []float64, n int) int {
	if s == nil {
		return 0
	}
	return n
}

// givenTap records rows whose codes are given.
type givenTap interface {
	// rows takes some rows, whose elements data holds, and what their codes decode
	// to; out has what belongs to them.
	rows(e Element, data []byte, q []float32, rows int, out *Output)
	finish() Tap
}

// givenRows hands rows to a record.
type givenRows struct {
	set                  Set
	f                    Format
	spec                 Spec
	w                    Operand
	out                  *Output
	global               float32
	count, cols          int
	scaleBytes, minBytes int
	tap                  givenTap
	stored               Matrix // the operand, where it is one
	isStored             bool
	q, w32               []float32
	data                 []byte
}

// givenBytes is about how much of a matrix is expanded at a time.
const givenBytes = 1 << 18

// rows records some rows, the next ones; under ScopeTile they begin with a tile.
func (g *givenRows) rows(first, count int) error {
	height := 1
	if g.f.Scope == ScopeTile {
		height = g.f.Group
	}
	atOnce := max(count, 1)
	if g.cols > 0 {
		atOnce = ceilDiv(max(givenBytes/4/g.cols, 1), height) * height
	}
	element := F32
	if g.isStored {
		element = g.stored.Element
	}
	for end := first + count; first < end; first += atOnce {
		rows := min(atOnce, end-first)
		n := rows * g.cols
		part := g.part(first, rows)
		g.q = resize(g.q, n)
		if err := g.set.Dequantize(g.q, g.spec, rows, g.cols, part.Codes, part.Scales, part.Mins, g.global); err != nil {
			return err
		}
		if g.isStored {
			size := element.Size()
			g.tap.rows(element, g.stored.Data[first*g.cols*size:][:n*size], g.q, rows, part)
			continue
		}
		g.w32, g.data = resize(g.w32, n), resize(g.data, 4*n)
		if g.cols > 0 {
			if err := g.set.ExpandRows(g.w32, g.w, first); err != nil {
				return err
			}
			g.set.convert.encodeF32(g.data, g.w32)
		}
		g.tap.rows(element, g.data, g.q, rows, part)
	}
	return nil
}

// part is what of the output belongs to some rows.
func (g *givenRows) part(first, rows int) *Output {
	codes := ceilDiv(g.cols*g.f.Bits, 8)
	o := &Output{Codes: g.out.Codes[first*codes:][:rows*codes], Scales: g.out.Scales, Mins: g.out.Mins}
	if g.f.Scope != ScopeTensor {
		at, _ := g.f.Scales(first, g.cols)
		n, _ := g.f.Scales(rows, g.cols)
		o.Scales, o.Mins = g.out.Scales[at*g.scaleBytes:][:n*g.scaleBytes], g.out.Mins[at*g.minBytes:][:n*g.minBytes]
	}
	if g.out.RowE2 != nil {
		o.RowE2 = g.out.RowE2[first : first+rows]
	}
	if g.out.RowW2 != nil {
		o.RowW2 = g.out.RowW2[first : first+rows]
	}
	return o
}
