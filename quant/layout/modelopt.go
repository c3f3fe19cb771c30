package layout

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"quantscope/kernels"
)

// modelOptInt4 reads ModelOpt's 4-bit integers (INT4_AWQ, W4A8_AWQ): a byte has two
// outputs of an input, the even one in its low nibble, with a sign; scales are
// [outputs, groups]. W4A8's weight_scale_2 is that of FP8, in which kernels round these
// weights once more: it is no part of them.
func (o *opener) modelOptInt4(f *form, g *group) ([]Module, error) {
	named := *f
	named.method = ModelOpt
	codes, scales := g.params["weight"], g.params["weight_scale"]
	s, err := codesShape(codes)
	if err != nil {
		return nil, err
	}
	s.rows *= 2
	across := scales.Shape[max(len(scales.Shape)-1, 0):]
	want := []int64{s.rows, 0}
	if s.fused {
		want = []int64{s.experts, s.rows, 0}
	}
	if len(across) == 1 {
		want[len(want)-1] = across[0]
	}
	if !slices.Equal(scales.Shape, want) || across[0] == 0 {
		return nil, fmt.Errorf("%s is %v beside %s %v, want [outputs, groups] and [outputs/2, inputs] of ModelOpt's int4", scales.Name, scales.Shape, codes.Name, codes.Shape)
	}
	p := &packed{bits: 4, middle: 8, groups: int(across[0]), height: 1, multiple: 1, codes: (*Module).readPairs}
	if p.group, err = o.modelOptGroup(g, s.stored, across[0]); err != nil {
		return nil, err
	}
	format := p.intFormat("modelopt", scales, false)
	ms, err := o.startFormat(&named, g, s, s.stored, kernels.Spec{Format: format.Name, Convention: kernels.CT32}, format)
	if err != nil {
		return nil, err
	}
	return ms, p.attach(ms, scales, s.stored)
}

// modelOptGroup is the group_size of the config, which must have as many groups as there
// are; where it says nothing, what they divide the inputs into.
func (o *opener) modelOptGroup(g *group, cols, groups int64) (int, error) {
	said, stated := o.modelOptSaid(g)
	if said > 0 && ceil(cols, int64(said)) == groups {
		return said, nil
	}
	if !stated && cols%groups == 0 {
		return int(cols / groups), nil
	}
	return 0, fmt.Errorf("%s has %d groups for %d inputs, and the config's group_size is %d", g.params["weight_scale"].Name, groups, cols, said)
}

// modelOptSaid is the size of groups that the config states of a module, or that its
// quant_algo usually has; 0 where neither says.
func (o *opener) modelOptSaid(g *group) (size int, stated bool) {
	c := o.config
	if l, ok := c.layers[g.name]; ok && l.GroupSize > 0 {
		return l.GroupSize, true
	}
	if args := o.argsOf(g); args.GroupSize != nil {
		return *args.GroupSize, true
	}
	if c.group > 0 {
		return c.group, true
	}
	algo := c.algo
	if l, ok := c.layers[g.name]; ok {
		algo = l.Algo
	}
	return modelOptAlgos[strings.ToUpper(algo)].group, false
}

// readPairs reads codes of two outputs a byte, each with a sign, and packs those of an
// output: plus 8.
func (m *Module) readPairs(ctx context.Context, s *Stored, first, rows int) error {
	rowBytes := m.rowBytes()
	s.Codes = grow(s.Codes, rows*rowBytes)
	if rows == 0 {
		return nil
	}
	from, to := first/2, (first+rows+1)/2
	pair := place{t: m.codes.t, off: m.codes.off, row: int64(m.Cols)}
	var err error
	if s.words, err = m.readPlace(ctx, s.words, pair, int64(from), int64(to-from)); err != nil {
		return err
	}
	for r := range rows {
		line := s.words[((first+r)/2-from)*m.Cols:][:m.Cols]
		row := s.Codes[r*rowBytes:][:rowBytes]
		if (first+r)%2 == 0 {
			for i := range m.Cols / 2 {
				row[i] = (line[2*i]&15 | line[2*i+1]<<4) ^ 0x88
			}
		} else {
			for i := range m.Cols / 2 {
				row[i] = (line[2*i]>>4 | line[2*i+1]&0xF0) ^ 0x88
			}
		}
		if m.Cols%2 == 1 {
			row[rowBytes-1] = line[m.Cols-1]>>((first+r)%2*4)&15 ^ 8
		}
	}
	return nil
}

// e2m1Table is what codes of E2M1 stand for to ModelOpt, whose table has no −0.
var e2m1Table = tableOf(func(c byte) float32 { return kernels.E2M1ToF32(c&15) + 0 })

// wideBlocks reads NVFP4 whose blocks are not of 16 inputs, as ModelOpt's
// W4A8_NVFP4_FP8 has them of 32; nil where they are.
func (o *opener) wideBlocks(f *form, g *group) ([]Module, error) {
	codes, scales := g.params[f.needs[0].param], g.params["weight_scale"]
	if f.method != ModelOpt || len(codes.Shape) == 0 || len(scales.Shape) != len(codes.Shape) {
		return nil, nil
	}
	s, err := codesShape(codes)
	if err != nil {
		return nil, nil // which fourBit says
	}
	cols := 2 * s.stored
	groups := scales.Shape[len(scales.Shape)-1]
	said, _ := o.modelOptSaid(g)
	if said <= 0 || said == kernels.BlockNVFP4 || groups == ceil(cols, kernels.BlockNVFP4) || groups != ceil(cols, int64(said)) {
		return nil, nil
	}
	p := &packed{bits: 4, values: e2m1Table, group: said, groups: int(groups), height: 1, multiple: 1, codes: (*Module).readBytes}
	format := kernels.Format{
		Name: fmt.Sprintf("nvfp4-g%d", said), Description: fmt.Sprintf("E2M1 in blocks of %d with E4M3 scales and one f32 scale a tensor", said),
		Bits: 4, Element: "e2m1", Codes: slices.Clone(e2m1Table[:16]), Scope: kernels.ScopeGroup, Group: said, Scale: "e4m3", ScaleBits: 8, TensorBytes: 4,
	}
	ms, err := o.startFormat(f, g, s, cols, kernels.Spec{Format: format.Name, Convention: kernels.ModelOpt}, format)
	if err != nil {
		return nil, err
	}
	if want := append(slices.Clone(codes.Shape[:len(codes.Shape)-1]), groups); !slices.Equal(scales.Shape, want) {
		return nil, fmt.Errorf("%s is %v, want %v", scales.Name, scales.Shape, want)
	}
	if err := p.attach(ms, scales, cols); err != nil {
		return nil, err
	}
	return ms, addGlobal(ms, g.params["weight_scale_2"])
}

// modelOptAlgos are the values of quant_algo that are read, with what they store.
var modelOptAlgos = map[string]storedAs{
	"NVFP4": {"e2m1", 16}, "W4A16_NVFP4": {"e2m1", 16}, "NVFP4_AWQ": {"e2m1", 16}, "W4A8_NVFP4_FP8": {"e2m1", 32},
	"MXFP4": {"e2m1", 32}, "W4A8_MXFP4_FP8": {"e2m1", 32}, "MXFP8": {"e4m3", 32},
	"FP8": {"e4m3", 0}, "FP8_PER_CHANNEL_PER_TOKEN": {"e4m3", 0}, "FP8_PB_WO": {"e4m3", 128},
	"W4A16_AWQ": {"int4", 128}, "W4A8_AWQ": {"int4", 128}, "W8A16": {"int8", 0}, "W8A8_SQ_PER_CHANNEL": {"int8", 0},
}

// storedAs is the element and the usual group of an algorithm.
type storedAs struct {
	element string
	group   int
}
