package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/export"
	"quantscope/quant/method"
	"quantscope/quant/recipe"
	"quantscope/quant/topology"
)

// sizes finds what each tensor takes and which matrices are of it.
func (p *planner) sizes() error {
	m := p.model
	p.size, p.params = make([]int64, len(m.Tensors)), m.TensorParams
	p.first = make([]int, len(m.Tensors)+1)
	k := 0
	for i := range m.Tensors {
		t := &m.Tensors[i]
		p.first[i] = k
		for k < len(m.Matrices) && m.MatrixTensor[k] == i {
			k++
		}
		d, ok := checkpoint.ParseDType(t.DType)
		if !ok {
			return fmt.Errorf("tensor %q: unknown dtype %q", t.Name, t.DType)
		}
		n := int64(1)
		for _, side := range t.Shape {
			n *= side
		}
		if b := int64(d.Bits()); b%8 == 0 {
			p.size[i] = n * (b / 8)
		} else {
			p.size[i] = (n*b + 7) / 8
		}
		p.BytesBefore += p.size[i]
	}
	p.first[len(m.Tensors)] = k
	return nil
}

// sourceDType says whether a matrix of a dtype can be quantized.
func sourceDType(dtype string) bool { return dtype == "BF16" || dtype == "F16" || dtype == "F32" }

// resolve finds the state of every matrix.
func (p *planner) resolve() error {
	for g := range p.file.Groups {
		v, err := method.Parse(p.file.Groups[g].Variant())
		if err != nil {
			return err
		}
		f, err := kernels.FormatByName(v.Scheme)
		if err != nil {
			return err
		}
		p.variants, p.formats = append(p.variants, v), append(p.formats, f)
	}
	m := p.model
	var err error
	if p.res, err = p.file.Resolve(m.Matrices); err != nil {
		return err
	}
	p.state, p.grouped = make([]state, len(m.Matrices)), make([]bool, len(m.Matrices))
	for _, patterns := range p.res.Targets {
		for _, hits := range patterns {
			for _, k := range hits {
				p.grouped[k] = true
			}
		}
	}
	for k := range p.state {
		p.state[k] = state(p.res.Group[k]) // −1 is untargeted
	}
	mark := func(hits [][]int, s state) {
		for _, list := range hits {
			for _, k := range list {
				p.state[k] = s
			}
		}
	}
	mark(p.res.Exemptions, exempted)
	mark(p.res.Ignore, ignored)
	for k := range p.state {
		if !sourceDType(m.Tensors[m.MatrixTensor[k]].DType) {
			p.state[k] = noSource
		} else {
			p.Matrices++
		}
	}
	if p.Matrices == 0 {
		how := ""
		if q := m.Config.QuantMethod; q != "" {
			how = fmt.Sprintf(" (the config says: quantized by %s)", q)
		}
		return fmt.Errorf("%w: no matrix stands in BF16, F16 or F32%s", recipe.ErrNothing, how)
	}
	return nil
}

// whyLeft says why no group stores a linear map.
func (p *planner) whyLeft(k int) string {
	switch p.state[k] {
	case ignored:
		return "named in ignore"
	case exempted:
		return "exempted"
	}
	return "no pattern matches them"
}

// shares counts what each group, each scheme and each dtype has.
func (p *planner) shares() error {
	m := p.model
	p.after = make([]int64, len(m.Matrices))
	kept := map[string]*Share{}
	covers := make([]Cover, topology.Mixing+1)
	p.Groups = make([]Group, len(p.file.Groups))
	for g := range p.Groups {
		p.Groups[g].Scheme, p.Groups[g].Variant = p.variants[g].Scheme, p.variants[g].Name
	}
	p.bytes = map[shaped]int64{}
	targeted := 0
	for _, s := range p.state {
		if s >= 0 {
			targeted++
		}
	}
	p.Selection, p.Of = make([]topology.Matrix, 0, targeted), make([]int, 0, targeted)
	p.BytesAfter = p.BytesBefore
	for i := range m.Tensors {
		stays, params := p.size[i], p.params[i]
		held, all := 0, p.first[i+1]-p.first[i]
		for k := p.first[i]; k < p.first[i+1]; k++ {
			x := &m.Matrices[k]
			n := int64(x.Rows) * int64(x.Cols)
			if s := p.state[k]; s != noSource {
				covers[x.Role.Kind].add(s, n)
			}
			g := int(p.state[k])
			if g < 0 {
				continue
			}
			before := p.size[i] / int64(all) // parts of a fused tensor are of one size
			after, err := p.stored(g, x)
			if err != nil {
				return fmt.Errorf("tensor %q: %w", x.Name, err)
			}
			p.after[k] = after
			p.Selection, p.Of = append(p.Selection, *x), append(p.Of, g)
			p.Groups[g].add(n, before, after)
			p.BytesAfter += after - before
			stays, params, held = stays-before, params-n, held+1
		}
		if stays == 0 && held > 0 {
			continue
		}
		d := m.Tensors[i].DType
		if kept[d] == nil {
			kept[d] = &Share{Scheme: strings.ToLower(d)}
		}
		kept[d].add(params, stays, stays)
		kept[d].Matrices += all - held - 1
	}
	p.sum(kept, covers)
	return nil
}

// shaped is a shape in the scheme of a group.
type shaped struct{ group, rows, cols int }

// stored is what a matrix takes in a group's scheme: in the layout, where there is
// one that has the scheme, else by the table of formats.
func (p *planner) stored(g int, x *topology.Matrix) (n int64, err error) {
	key := shaped{g, x.Rows, x.Cols}
	if n, ok := p.bytes[key]; ok {
		return n, nil
	}
	if p.o.Layout != "" && slices.Contains(export.Formats(p.o.Layout), p.formats[g].Name) {
		n, err = export.StoredBytes(p.o.Layout, p.variants[g].Spec, x.Rows, x.Cols)
	} else {
		n, err = p.formats[g].Bytes(x.Rows, x.Cols)
	}
	if err == nil {
		p.bytes[key] = n
	}
	return n, err
}

func (s *Share) add(params, before, after int64) {
	s.Matrices++
	s.Params += params
	s.BytesBefore += before
	s.BytesAfter += after
}

func (c *Cover) add(s state, params int64) {
	c.Matrices++
	c.Params += params
	switch {
	case s >= 0:
		c.Targeted++
	case s == ignored:
		c.Ignored++
	case s == exempted:
		c.Exempted++
	default:
		c.Untargeted++
	}
}

// sum fills in shares, bits and what stands beside the groups.
func (p *planner) sum(kept map[string]*Share, covers []Cover) {
	total := p.model.TotalParams
	part := func(n int64) float64 {
		if total == 0 {
			return 0
		}
		return float64(n) / float64(total)
	}
	bits := func(bytes, params int64) float64 {
		if params == 0 {
			return 0
		}
		return float64(bytes) * 8 / float64(params)
	}
	schemes := map[string]*Share{}
	join := func(s Share) {
		key := s.Scheme
		if schemes[key] == nil {
			schemes[key] = &Share{Scheme: s.Scheme, Variant: s.Variant}
		}
		to := schemes[key]
		if to.Variant != s.Variant {
			to.Variant = "" // several
		}
		to.Matrices, to.Params = to.Matrices+s.Matrices, to.Params+s.Params
		to.BytesBefore, to.BytesAfter = to.BytesBefore+s.BytesBefore, to.BytesAfter+s.BytesAfter
	}
	for g := range p.Groups {
		x := &p.Groups[g]
		x.ShareParams, x.BitsPerWeight = part(x.Params), bits(x.BytesAfter, x.Params)
		join(x.Share)
	}
	p.Kept, p.SchemeShares, p.Coverage = []Share{}, []Share{}, []Cover{}
	for _, s := range kept {
		s.ShareParams = part(s.Params)
		p.Kept = append(p.Kept, *s)
		join(*s)
	}
	for _, s := range schemes {
		s.ShareParams = part(s.Params)
		p.SchemeShares = append(p.SchemeShares, *s)
	}
	most := func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Params, a.Params), cmp.Compare(b.BytesAfter, a.BytesAfter), strings.Compare(a.Scheme, b.Scheme))
	}
	slices.SortFunc(p.Kept, most)
	slices.SortFunc(p.SchemeShares, most)
	for kind, c := range covers {
		if c.Matrices == 0 {
			continue
		}
		c.Kind = topology.Kind(kind).String()
		p.Coverage = append(p.Coverage, c)
		p.Targeted, p.Ignored, p.Exempted, p.Untargeted = p.Targeted+c.Targeted, p.Ignored+c.Ignored, p.Exempted+c.Exempted, p.Untargeted+c.Untargeted
	}
	slices.SortStableFunc(p.Coverage, func(a, b Cover) int { return cmp.Compare(b.Params, a.Params) })
	p.BitsBefore, p.BitsAfter = bits(p.BytesBefore, total), bits(p.BytesAfter, total)
}
