package layout

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// ErrGroup is wrapped by the error about an input whose group is none.
var ErrGroup = errors.New("no such group")

// ErrZeroPoint is wrapped by the error about a zero point that is no code.
var ErrZeroPoint = errors.New("no such code")

// packed is what a Module knows that decodes itself, not by one of the kernels'
// formats: codes of a number of bits, packed by row with the first in the lowest
// bits, a scale for each group of a row, and of each a zero point. An element is
// scale·(value − zero point), rounded as the library does whose it is.
type packed struct {
	bits   int                // of a code, as Read gives it
	values *[256]float32      // what codes stand for; nil where they are integers and stand for themselves
	group  int                // inputs of one; 0 for all
	groups int                // that there are
	index  *checkpoint.Tensor // the group of each input; nil where they follow one another
	middle byte               // the zero point of all, where none is stored
	round  rounding
	within int // bits that the config says codes keep to, where they are stored in more; 0 where it says nothing

	// How what is stored becomes that, row by row. zeros is nil where none are stored.
	codes, scales func(m *Module, ctx context.Context, s *Stored, first, rows int) error
	zeros         func(m *Module, ctx context.Context, s *Stored, first, rows int) ([]byte, error)
	multiple      int // that rows are read in
	height        int // rows that share scales and zero points; 0 for all

	minus1    bool    // GPTQ's zero points are stored minus 1
	awq       bool    // words hold eight outputs
	gemv      bool    // words hold eight inputs, in order
	sym       bool    // the config says that zero points are the middle
	unordered bool    // an index with −1 in it is none
	flip      byte    // what makes a code with a sign one that is counted from the least
	order     *[8]int // the nibble of each of eight values in a word; nil is AWQ's
	padded    bool    // words hold whole codes, and are not filled up
	signed    bool    // zero points are bytes with a sign
}

// rounding is the type that a library computes in: what its results are rounded to.
type rounding uint8

const (
	exact  rounding = iota // f32 holds them
	toBF16                 // each result is rounded to bf16
	toF16
)

func (r rounding) of(v float32) float32 {
	switch r {
	case toBF16:
		return kernels.BF16ToF32(kernels.F32ToBF16(v))
	case toF16:
		return kernels.F16ToF32(kernels.F32ToF16(v))
	}
	return v
}

// roundingOf is what a library rounds to that computes in the type of its scales.
func roundingOf(scales *checkpoint.Tensor) rounding {
	switch scales.DType {
	case checkpoint.BF16:
		return toBF16
	case checkpoint.F16:
		return toF16
	}
	return exact
}

// rowBytes is what the codes of an output take, packed by row.
func (m *Module) rowBytes() int { return (m.Cols*m.packed.bits + 7) / 8 }

// readPacked reads rows of a module that decodes itself: codes are packed by row, a
// row has a scale for each of its groups, and a zero point, a byte, where they are
// stored.
func (m *Module) readPacked(ctx context.Context, s *Stored, first, rows int) error {
	p := m.packed
	var err error
	if s.Global, err = m.Global(ctx); err != nil {
		return err
	}
	if s.Groups, err = m.groupIndex(ctx); err != nil {
		return err
	}
	if err := p.codes(m, ctx, s, first, rows); err != nil {
		return err
	}
	if err := p.scales(m, ctx, s, first, rows); err != nil {
		return err
	}
	if p.zeros == nil {
		s.Mins = s.Mins[:0]
		return nil
	}
	s.Mins, err = p.zeros(m, ctx, s, first, rows)
	return err
}

// groupIndex reads the group of each input; nil where they follow one another.
func (m *Module) groupIndex(ctx context.Context) ([]int32, error) {
	p := m.packed
	if p.index == nil {
		return nil, nil
	}
	raw := make([]byte, 4*m.Cols)
	if err := m.ck.ReadAt(ctx, p.index, 0, raw); err != nil {
		return nil, err
	}
	if p.unordered && minusOne(raw) {
		return nil, nil
	}
	out := make([]int32, m.Cols)
	apart := false
	for i := range out {
		g := int32(binary.LittleEndian.Uint32(raw[4*i:]))
		if g < 0 || int(g) >= p.groups {
			return nil, fmt.Errorf("layout: %s: input %d is in group %d of %d: %w", p.index.Name, i, g, p.groups, ErrGroup)
		}
		out[i] = g
		apart = apart || int(g) != m.groupOf(i)
	}
	if !apart {
		return nil, nil
	}
	return out, nil
}

// minusOne says whether an index has a −1 in it, which compressed-tensors writes
// where there is no order.
func minusOne(raw []byte) bool {
	for ; len(raw) >= 4; raw = raw[4:] {
		if binary.LittleEndian.Uint32(raw) == math.MaxUint32 {
			return true
		}
	}
	return false
}

// groupOf is the group of an input where groups follow one another.
func (m *Module) groupOf(col int) int {
	if m.packed.group == 0 {
		return 0
	}
	return col / m.packed.group
}

// Integers is how a module that decodes itself stores integers: an element is
// scale·(code − zero point) with codes and zero points from 0 to 2^Bits−1. Codes are
// packed by row, the first in the lowest bits; Stored.Mins has a byte for each zero
// point, or nothing, where all are Middle.
type Integers struct {
	Bits   int
	Group  int                // inputs that share a scale; 0 where all do
	Groups int                // of a row
	Middle int                // the code of 0 where no zero points are stored
	Index  *checkpoint.Tensor // the group of each input, nil where they follow one another
}

// Integers is false for modules of the kernels' formats and of floats.
func (m *Module) Integers() (Integers, bool) {
	p := m.packed
	if p == nil || p.values != nil {
		return Integers{}, false
	}
	return Integers{p.bits, p.group, p.groups, int(p.middle), p.index}, true
}

// OwnPanels says whether what was read is decoded by Panel, not by the kernels'
// formats.
func (m *Module) OwnPanels() bool { return m.packed != nil || m.own != nil }

// Panel decodes rows row0 … and columns col0 … of what was read, rows counted from
// the first of it, into dst, row-major without gaps. Of GPTQ, AWQ, Quark and ModelOpt
// these are the exact products scale·(code − zero point), which f32 holds, and a
// kernel that works in the scales' type computes these rounded to it once; of
// compressed-tensors they are rounded to the scales' type as the library does. Many
// goroutines may call it at once.
func (m *Module) Panel(dst []float32, s *Stored, row0, rows, col0, cols int) error {
	p := m.packed
	switch {
	case m.own != nil:
		return m.ownPanel(dst, s, row0, rows, col0, cols)
	case p == nil:
		return fmt.Errorf("layout: %s: %s has no panels of its own: %w", m.Name, m.Spec.Format, kernels.ErrUnsupported)
	}
	rowBytes := m.rowBytes()
	have := len(s.Codes) / rowBytes
	if row0 < 0 || rows < 0 || rows > have-row0 || col0 < 0 || cols < 0 || cols > m.Cols-col0 || len(dst) != rows*cols {
		return fmt.Errorf("layout: %s: %d elements for rows %d to %d of %d, columns %d to %d of %d: %w", m.Name, len(dst), row0, row0+rows, have, col0, col0+cols, m.Cols, kernels.ErrShape)
	}
	for r := range rows {
		row := dst[r*cols:][:cols]
		codes := s.Codes[(row0+r)*rowBytes:][:rowBytes]
		steps := rowOf{m: m, global: s.Global, scales: s.Scales[(row0+r)*p.groups*m.ScaleSize():]}
		if p.zeros != nil {
			steps.zeros = s.Mins[(row0+r)*p.groups:][:p.groups]
		}
		if s.Groups != nil {
			steps.scattered(row, codes, s.Groups[col0:col0+cols], col0)
			continue
		}
		for done := 0; done < cols; {
			col := col0 + done
			g, n := 0, cols-done
			if p.group > 0 {
				g = col / p.group
				n = min(n, (g+1)*p.group-col)
			}
			steps.run(row[done:done+n], codes, col, g)
			done += n
		}
	}
	s.Multiply(dst, col0, cols)
	return nil
}

// Multiply applies Columns to rows of cols decoded elements, of columns col0 ….
func (s *Stored) Multiply(dst []float32, col0, cols int) {
	if s.Columns == nil || cols == 0 {
		return
	}
	factors := s.Columns[col0:][:cols]
	for ; len(dst) >= cols; dst = dst[cols:] {
		for c, f := range factors {
			dst[c] *= f
		}
	}
}
