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
// whose own range asks for a scale beyond the format's. Threads expand w.
func (s Set) TapOf(spec Spec, w Operand, out *Output, global float32, threads int) (Tap, error) {
	return s.orReference().tapOf(spec, w, out, global, 0, threads)
}

// tapOf is TapOf of a matrix whose largest magnitude may be known: 0 has it
// looked for where it says something.
func (s Set) tapOf(spec Spec, w Operand, out *Output, global, amax float32, threads int) (Tap, error) {
	q, f, err := spec.check()
	if err != nil {
		return Tap{}, fmt.Errorf("record: %w", err)
	}
	if err := w.check(); err != nil {
		return Tap{}, fmt.Errorf("%s record: %w", f.Name, err)
	}
	if w.transposed {
		return Tap{}, fmt.Errorf("%s record: of a transpose: %w", f.Name, ErrUnsupported)
	}
	rows, cols := w.Dims()
	if _, err := f.Bytes(rows, cols); err != nil {
		return Tap{}, fmt.Errorf("%s record: %w", f.Name, err)
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
			return Tap{}, fmt.Errorf("%s record: %d %s for %d×%d, want %d: %w", f.Name, x.have, x.what, rows, cols, x.want, ErrShape)
		}
	}
	var t givenTap
	if f.Name == "nvfp4" {
		t, err = s.givenNVFP4(spec, cols, amax, global)
	} else {
		t, err = s.givenBlocks(spec, f, cols, scaleBytes, minBytes, out)
	}
	if err != nil {
		return Tap{}, fmt.Errorf("%s record: %w", f.Name, err)
	}
	r := givenRows{set: s, f: f, spec: spec, w: w, out: out, global: global, rows: rows, cols: cols, scaleBytes: scaleBytes, minBytes: minBytes}
	if err := r.each(t); err != nil {
		t.finish()
		return Tap{}, fmt.Errorf("%s record: %w", f.Name, err)
	}
	return t.finish(), nil
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
	rows, cols           int
	scaleBytes, minBytes int
}

// givenBytes is about how much of a matrix is expanded at a time.
const givenBytes = 1 << 18

func (g *givenRows) each(t givenTap) error {
	height := 1
	if g.f.Scope == ScopeTile {
		height = g.f.Group
	}
	atOnce := g.rows
	if g.cols > 0 {
		atOnce = min(ceilDiv(max(givenBytes/4/g.cols, 1), height)*height, g.rows)
	}
	m, stored := g.w.Stored()
	element := F32
	if stored {
		element = m.Element
	}
	var q, w []float32
	var data []byte
	for first := 0; first < g.rows; first += atOnce {
		rows := min(atOnce, g.rows-first)
		n := rows * g.cols
		part := g.part(first, rows, height)
		q = resize(q, n)
		if err := g.set.Dequantize(q, g.spec, rows, g.cols, part.Codes, part.Scales, part.Mins, g.global); err != nil {
			return err
		}
		if stored {
			data = m.Data[first*g.cols*element.Size():][:n*element.Size()]
		} else {
			w, data = resize(w, n), resize(data, 4*n)
			if g.cols > 0 {
				if err := g.set.ExpandRows(w, g.w, first); err != nil {
					return err
				}
				g.set.convert.encodeF32(data, w)
			}
		}
		t.rows(element, data, q, rows, part)
	}
	return nil
}

// part is what of the output belongs to some rows.
func (g *givenRows) part(first, rows, height int) *Output {
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
