package census

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/export"
	"quantscope/quant/layout"
	"quantscope/quant/topology"
)

// ErrConfig is wrapped by the error about a config from which it cannot be told
// what is quantized.
var ErrConfig = errors.New("census")

// Run reads the second-level scales of a checkpoint whose topology is m. A
// checkpoint without any has a report whose Note says so. Errors are ErrConfig,
// those of reads, and the context's.
func Run(ctx context.Context, ck *checkpoint.Checkpoint, m *topology.Model) (*Report, error) {
	l, err := layout.Open(ck, m)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	c := &counter{layout: l, ck: ck, model: m, rep: &Report{Path: ck.Path, Layers: []Layer{}}, at: map[place]int{}}
	c.describe()
	if err := c.groups(ctx); err != nil {
		return nil, err
	}
	c.total()
	return c.rep, nil
}

// counter is the work of one Run.
type counter struct {
	layout *layout.Layout
	ck     *checkpoint.Checkpoint
	model  *topology.Model
	rep    *Report
	at     map[place]int // index in rep.Layers
	scaled int           // modules with a second-level scale
}

// place is what a Layer is about.
type place struct {
	kind  topology.Kind
	layer int
	mtp   bool
	set   string
}

// divides says whether a module's stored scale is a divisor.
func divides(m *layout.Module) bool {
	return m.Spec.Convention == kernels.CT || m.Spec.Convention == kernels.CT32
}

// hasScale says whether a module has a second-level scale that what is fused
// with it must share.
func hasScale(m *layout.Module) bool {
	return m.GlobalTensor() != nil && export.SharesGlobal(m.Spec.Format)
}

// describe says whose layout it is, and lists what is not known how to read.
func (c *counter) describe() {
	var layouts, conventions []string
	add := func(list []string, word string) []string {
		if word == "" || slices.Contains(list, word) {
			return list
		}
		return append(list, word)
	}
	for i := range c.layout.Modules {
		m := &c.layout.Modules[i]
		layouts = add(layouts, m.Method)
		if !hasScale(m) {
			continue
		}
		c.scaled++
		word := "multiplier"
		if divides(m) {
			word = "divisor"
		}
		conventions = add(conventions, word)
	}
	c.rep.Layout, c.rep.Convention = strings.Join(layouts, ", "), strings.Join(conventions, ", ")
	for _, f := range c.layout.Findings {
		if f.ID == layout.UnknownForm || f.ID == layout.Incomplete {
			c.left(f.Tensor, "%s", f.Message)
		}
	}
}

func (c *counter) left(name, format string, args ...any) {
	c.rep.Left = append(c.rep.Left, LeftOut{name, fmt.Sprintf(format, args...)})
}

// partner is a candidate for a group: a quantized module, or a plain matrix.
type partner struct {
	module *layout.Module // nil for a plain one
	stored string         // as what
	name   string
	role   topology.Role
}

// groups goes through what a server fuses. Plain matrices take part, so that a
// module whose partner is not quantized is told from one that has none.
func (c *counter) groups(ctx context.Context) error {
	var selection []topology.Matrix
	var of []partner
	for i := range c.layout.Modules {
		m := &c.layout.Modules[i]
		if hasScale(m) && isJoined(m.Role.Projection) {
			c.rep.Joined++
		}
		name := m.Name + ".weight"
		selection = append(selection, topology.Matrix{Name: name, Tensor: name, Role: m.Role, ColStride: 1})
		of = append(of, partner{m, m.Spec.Format, m.Name, m.Role})
	}
	if c.scaled == 0 {
		return ctx.Err()
	}
	for i := range c.model.Matrices {
		m := &c.model.Matrices[i]
		name, err := export.Module(m)
		if err != nil {
			continue // is fused with nothing
		}
		if _, packed := c.layout.Lookup(name); packed { // FP8, which topology takes for plain floats
			continue
		}
		selection = append(selection, *m)
		of = append(of, partner{nil, c.model.Tensors[c.model.MatrixTensor[i]].DType, name, m.Role})
	}
	for _, indices := range export.SharedGroups(selection) {
		group := make([]partner, len(indices))
		for k, i := range indices {
			group[k] = of[i]
		}
		slices.SortStableFunc(group, func(a, b partner) int { return byStacking(a.role.Projection, b.role.Projection) })
		if err := c.group(ctx, group); err != nil {
			return err
		}
	}
	slices.SortStableFunc(c.rep.Layers, func(a, b Layer) int { return cmp.Compare(a.Layer, b.Layer) })
	return nil
}

// group compares the scales of one group, or lists why it does not.
func (c *counter) group(ctx context.Context, group []partner) error {
	var scaled []partner
	var plain *partner
	for i := range group {
		if p := &group[i]; p.module != nil && hasScale(p.module) {
			scaled = append(scaled, *p)
		} else {
			plain = p
		}
	}
	if len(scaled) == 0 {
		return nil
	}
	if plain != nil {
		c.left(plain.name, "is stored as %s, what servers fuse it with, %s, as %s", plain.stored, scaled[0].name, scaled[0].stored)
	}
	if len(scaled) < 2 {
		return nil
	}
	members := make([]Member, len(scaled))
	first, firstDivides := float32(0), divides(scaled[0].module)
	for i, p := range scaled {
		stored, err := p.module.Global(ctx)
		if err != nil {
			return err
		}
		if why := noScale(stored); why != "" {
			c.left(p.name, "its second-level scale is %s, so that what servers fuse with it was not compared either", why)
			return nil
		}
		if divides(p.module) != firstDivides {
			c.left(p.name, "its second-level scale is stored in another convention than that of %s, which servers fuse with it", scaled[0].name)
			return nil
		}
		if i == 0 {
			first = stored
		}
		m := Member{Name: p.name, Projection: p.role.Projection, Scale: float64(stored), Ratio: float64(stored / first)}
		if firstDivides {
			m.Scale, m.Ratio = 1/m.Scale, float64(first/stored)
		}
		if m.Ratio == 0 || math.IsInf(m.Ratio, 0) {
			c.left(p.name, "its second-level scale is %.4g, that of %s, which servers fuse with it, %.4g: their ratio is no f32 number", stored, scaled[0].name, first)
			return nil
		}
		m.Change = math.Abs(1/m.Ratio - 1)
		t := p.module.GlobalTensor()
		m.Tensor, m.File = t.Name, c.ck.Files[t.File].Name
		members[i] = m
	}
	c.add(scaled[0].role, Group{Expert: scaled[0].role.Expert, Members: members, Differ: slices.ContainsFunc(members, func(m Member) bool { return m.Ratio != 1 })})
	return nil
}

// add puts a group where it belongs.
func (c *counter) add(role topology.Role, g Group) {
	names := make([]string, len(g.Members))
	for i := range g.Members {
		names[i] = g.Members[i].Projection
	}
	p := place{role.Kind, role.Layer, role.MTP, words(names)}
	k, ok := c.at[p]
	if !ok {
		k = len(c.rep.Layers)
		c.at[p] = k
		c.rep.Layers = append(c.rep.Layers, Layer{Layer: role.Layer, MTP: role.MTP, Set: p.set, Kind: role.Kind.String()})
	}
	c.rep.Layers[k].Groups = append(c.rep.Layers[k].Groups, g)
}

// noScale says what a number is that is no scale; "" for one that is.
func noScale(g float32) string {
	switch {
	case g != g:
		return "NaN"
	case math.IsInf(float64(g), 0):
		return "infinite"
	case g == 0:
		return "0"
	case g < 0:
		return fmt.Sprintf("negative, %g", g)
	}
	return ""
}

// total sums up and says why there is nothing, where there is nothing.
func (c *counter) total() {
	all := &c.rep.Totals
	sums := ratios{}
	for i := range c.rep.Layers {
		l := &c.rep.Layers[i]
		of := ratios{}
		for k := range l.Groups {
			l.Pairs++
			if !l.Groups[k].Differ {
				continue
			}
			l.Differing++
			for _, m := range l.Groups[k].Members {
				of.add(m.Ratio)
				sums.add(m.Ratio)
			}
		}
		of.into(&l.Totals)
		all.Pairs += l.Pairs
		all.Differing += l.Differing
	}
	sums.into(all)
	c.rep.Note = c.note()
}

func (c *counter) note() string {
	switch {
	case c.rep.Pairs > 0:
		return ""
	case len(c.layout.Modules) == 0 && len(c.layout.Unread) > 0:
		return "nothing is quantized in a way that is known here"
	case len(c.layout.Modules) == 0:
		return "no second-level scales: nothing is quantized"
	case c.scaled == 0:
		var formats []string
		for i := range c.layout.Modules {
			formats = append(formats, c.layout.Modules[i].Spec.Format)
		}
		slices.Sort(formats)
		return "no second-level scales: what is quantized is stored as " + words(slices.Compact(formats))
	case c.rep.Joined > 0:
		return "nothing that could differ: what servers fuse is stored as one matrix already, under one second-level scale"
	case len(c.rep.Left) > 0:
		return "no two second-level scales that can be compared"
	}
	return "no two matrices with second-level scales that servers fuse"
}

// ratios gathers what differs.
type ratios struct {
	n        int
	min, max float64
	logs     float64
}

func (r *ratios) add(ratio float64) {
	if ratio == 1 {
		return
	}
	if r.n == 0 {
		r.min, r.max = ratio, ratio
	}
	r.n++
	r.min, r.max = min(r.min, ratio), max(r.max, ratio)
	r.logs += math.Log(ratio)
}

func (r *ratios) into(t *Totals) {
	if r.n > 0 {
		t.RatioMin, t.RatioMean, t.RatioMax = r.min, math.Exp(r.logs/float64(r.n)), r.max
	}
}

// apart is how far a ratio is from 1, whichever way.
func apart(ratio float64) float64 { return math.Abs(math.Log(ratio)) }

// isJoined says whether a projection is several that are stored as one.
func isJoined(projection string) bool { return projection == "gate_up" || projection == "qkv" }

// byStacking orders projections as servers stack them: q before k before v,
// gate before up.
func byStacking(a, b string) int {
	order := []string{"q", "k", "v", "gate", "up", "q_a", "kv_a", "qkv", "z"}
	return cmp.Compare(slices.Index(order, a), slices.Index(order, b))
}
