package layout

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"quantscope/kernels"
)

// AWQ's gemv stores a matrix as it is, [outputs, inputs/8] words with the first input
// in the lowest bits; scales and zero points are [outputs, groups], groups filled up so
// that each row of zero points is whole words, two of them in groups of 64 and four in
// groups of 32.

// gemvModule holds shapes against what the config says.
func (o *opener) gemvModule(f *form, g *group, w *wordArgs) (*Module, error) {
	codes, zeros, scales := g.params["qweight"], g.params["qzeros"], g.params["scales"]
	if len(codes.Shape) != 2 || len(scales.Shape) != 2 || len(zeros.Shape) != 2 {
		return nil, fmt.Errorf("%s is %v, %s %v and %s %v, want a matrix each", codes.Name, codes.Shape, zeros.Name, zeros.Shape, scales.Name, scales.Shape)
	}
	outs, words := codes.Shape[0], codes.Shape[1]
	if outs > math.MaxInt32 || words > math.MaxInt32/8 {
		return nil, fmt.Errorf("%s of %v is too large", codes.Name, codes.Shape)
	}
	ins := 8 * words
	p := &packed{bits: w.bits, awq: true, gemv: true, height: 1, multiple: 1, codes: (*Module).readGEMV, scales: (*Module).readRowScales, zeros: (*Module).readGEMVZeros}
	groups := int64(1)
	if *w.group > 0 {
		p.group = *w.group
		groups = ceil(ins, int64(p.group))
	}
	p.groups = int(groups)
	least := ceil(groups, 8)
	across := zeros.Shape[1]
	switch {
	case outs == 0 || ins == 0:
		return nil, fmt.Errorf("%s is empty", codes.Name)
	case zeros.Shape[0] != outs || across < least || across > 4*least:
		return nil, fmt.Errorf("%s is %v, want [%d %d] or up to four words more a row for %d groups of AWQ's gemv", zeros.Name, zeros.Shape, outs, least, groups)
	case !slices.Equal(scales.Shape, []int64{outs, 8 * across}):
		return nil, fmt.Errorf("%s is %v, want [%d %d] beside %s %v of AWQ's gemv", scales.Name, scales.Shape, outs, 8*across, zeros.Name, zeros.Shape)
	}
	format := packedFormat(f.method, p, scales.DType)
	ms, err := o.startFormat(f, g, shape{false, 1, outs, words}, ins, kernels.Spec{Format: format.Name, Convention: kernels.CT32}, format)
	if err != nil {
		return nil, err
	}
	m := &ms[0]
	m.packed = p
	m.scales = place{t: scales, row: 8 * across * int64(scales.DType.Bits()) / 8}
	m.mins = place{t: zeros, row: 4 * across}
	return m, o.symmetric(m, w)
}

// readGEMV reads rows of words.
func (m *Module) readGEMV(ctx context.Context, s *Stored, first, rows int) (err error) {
	s.Codes, err = m.readPlace(ctx, s.Codes, m.codes, int64(first), int64(rows))
	return err
}

// readGEMVZeros takes the zero points of rows out of their words: a byte each.
func (m *Module) readGEMVZeros(ctx context.Context, s *Stored, first, rows int) ([]byte, error) {
	var err error
	if s.words, err = m.readPlace(ctx, s.words, m.mins, int64(first), int64(rows)); err != nil {
		return s.Mins, err
	}
	groups := m.packed.groups
	out := grow(s.Mins, rows*groups)
	for r := range rows {
		row := s.words[r*int(m.mins.row):]
		for g := range groups {
			out[r*groups+g] = row[g/2] >> (g % 2 * 4) & 15
		}
	}
	return out, nil
}

// symmetric holds the zero points of AWQ against a config that says there are none
// (zero_point false), which leaves the middle of the codes: that is what must be stored.
func (o *opener) symmetric(m *Module, w *wordArgs) error {
	if w.zeroPoint == nil || *w.zeroPoint {
		return nil
	}
	m.packed.sym = true
	n := min(m.mins.t.Elements(), evidenceWords)
	raw := make([]byte, 4*n)
	if err := o.ck.ReadAt(context.Background(), m.mins.t, 0, raw); err != nil {
		return err
	}
	for i := 0; 4*i < len(raw); i++ {
		v, eights := binary.LittleEndian.Uint32(raw[4*i:]), uint32(0x88888888)
		if v == eights {
			continue
		}
		if m.packed.gemv { // zeros fill rows up
			there := m.packed.groups - 8*(i%int(m.mins.row/4))
			if v == uint32(uint64(eights)&(1<<(4*max(0, min(there, 8)))-1)) {
				continue
			}
		}
		say := fmt.Sprintf("stores zero points (the first word is 0x%08x), but zero_point of %s is false, which makes each 8", v, o.config.file)
		if o.options.ZeroPoints == ZeroPointsTold {
			return &mislabelled{say + fmt.Sprintf("; --zero-points %s reads them as they are stored", ZeroPointsV2)}
		}
		o.repeat(Mislabelled, m.mins.t, say, "%s; read as they are stored, as --zero-points %s says", say, o.options.ZeroPoints)
		return nil
	}
	return nil
}
