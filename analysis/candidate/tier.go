package candidate

import (
	"fmt"
	"slices"

	"quantscope/analysis/tier"
	"quantscope/quant/checkpoint"
	"quantscope/quant/export"
	"quantscope/quant/method"
	"quantscope/quant/topology"
)

// tierPrefix begins the spec of a precision map.
const tierPrefix = "tier:"

// Tier is a candidate whose routed experts are stored as a precision map says.
const Tier Kind = "tier"

// parseTier opens tier:NAME, a map that the session holds or a file.
func parseTier(ref *Candidate, name string, o Options) (*Candidate, error) {
	if ref.Topology == nil || ref.Arch == nil {
		return nil, fmt.Errorf("%w %s%s: the reference %s has no topology to find experts in", ErrSpec, tierPrefix, name, ref.Label)
	}
	var text []byte
	if o.Tier != nil {
		if held, ok := o.Tier(name); ok {
			text = []byte(held)
		}
	}
	if text == nil {
		if !exists(name) {
			return nil, fmt.Errorf("%w %s%s: the session holds no such map, and there is no such file", ErrSpec, tierPrefix, name)
		}
		var err error
		if text, err = readRecipe(name); err != nil {
			return nil, err
		}
	}
	m, err := tier.ParseMap(name, text)
	if err != nil {
		return nil, err
	}
	return makeTier(ref, m, name, o)
}

// makeTier makes what a map says of the reference. name is what errors call it.
func makeTier(ref *Candidate, m *tier.Map, name string, o Options) (*Candidate, error) {
	refuse := func(err error) (*Candidate, error) {
		return nil, &checkpoint.FileError{File: tierPrefix + name, Reason: "does not fit the reference " + ref.Label, Err: err}
	}
	of := map[tier.Precision]method.Variant{}
	for _, p := range []tier.Precision{tier.Cold, tier.Hot} {
		variant := m.Cold
		if p == tier.Hot {
			variant = m.Hot
		}
		if variant == tier.Source {
			continue
		}
		v, err := tierVariant(variant)
		if err != nil {
			return refuse(err)
		}
		of[p] = v
	}
	if err := ref.fitsMap(m); err != nil {
		return refuse(err)
	}
	var any taking // of both precisions the same matrices
	takes := map[tier.Precision]*taking{}
	for _, p := range []tier.Precision{tier.Hot, tier.Cold} {
		v, ok := of[p]
		if !ok {
			continue
		}
		took, err := choose(ref, v, "")
		if err != nil {
			return refuse(err)
		}
		takes[p], any = took, *took
	}
	var choices []choice
	for i := range any.choices {
		x := &any.choices[i].m
		if x.Role.Kind != topology.Expert || x.Role.MTP {
			continue
		}
		p, ok := m.PrecisionOf(x.Role.Layer, x.Role.Expert)
		if !ok {
			return refuse(fmt.Errorf("it does not say what expert %d of layer %d is", x.Role.Expert, x.Role.Layer))
		}
		if t, ok := takes[p]; ok {
			choices = append(choices, t.choices[i])
		}
	}
	var c *Candidate
	var err error
	if len(choices) == 0 && m.Hot == tier.Source { // all experts are hot, and hot is as they are
		all := *ref
		all.close = nil
		c = &all
	} else if c, err = makeOf(ref, choices, export.Shared, o); err != nil {
		return refuse(err)
	}
	c.Kind, c.Baseline = Tier, ""
	c.Fallbacks = append(c.Fallbacks, any.fallbacks...)
	if m.Source != ref.Identity {
		c.Findings = append(slices.Clone(c.Findings), Finding{ID: "tier-source", Message: fmt.Sprintf("%s was made for checkpoint %.12s, the reference is %.12s", name, m.Source, ref.Identity)})
	}
	return c, nil
}

// fitsMap is an error where a map is of other layers or experts than the forward pass
// has.
func (c *Candidate) fitsMap(m *tier.Map) error {
	var layers []int
	for i := range c.Arch.Layers {
		l := &c.Arch.Layers[i]
		if l.MoE == nil {
			continue
		}
		layers = append(layers, l.Index)
		if l.MoE.Experts != m.Experts {
			return fmt.Errorf("it is of %d experts a layer, and layer %d has %d", m.Experts, l.Index, l.MoE.Experts)
		}
	}
	if len(layers) != len(m.Layers) {
		return fmt.Errorf("it is of %d layers with experts, and there are %d", len(m.Layers), len(layers))
	}
	for i, l := range m.Layers {
		if l.Layer != layers[i] {
			return fmt.Errorf("it says what layer %d has, which has no experts", l.Layer)
		}
	}
	return nil
}

// tierVariant parses what experts of a map are stored as.
func tierVariant(variant string) (method.Variant, error) {
	v, err := method.Parse(variant)
	if err == nil && v.Calibrated() {
		err = fmt.Errorf("%s is calibrated, and tiers are made on the fly", v.Name)
	}
	return v, err
}

// TierModel is what a hot tier needs to know of the candidate.
func (c *Candidate) TierModel() tier.Model {
	type expert struct{ layer, expert int }
	known := map[string]map[expert]int64{}
	sizes := func(items []item) map[expert]int64 {
		of := map[expert]int64{}
		for i := range items {
			if it := &items[i]; it.Kind == topology.Expert && it.name == "weight" {
				of[expert{it.Layer, it.Expert}] += it.bytes
			}
		}
		return of
	}
	size := func(variant string, layer, e int) (int64, error) {
		of, ok := known[variant]
		if !ok {
			items := c.inventory()
			if variant != tier.Source {
				v, err := tierVariant(variant)
				if err != nil {
					return 0, err
				}
				made, err := newVariant(c, v, "", Options{})
				if err != nil {
					return 0, err
				}
				if len(made.Fallbacks) > 0 {
					f := &made.Fallbacks[0]
					return 0, fmt.Errorf("%s cannot be stored as %s: %s", f.Tensor, variant, f.Reason)
				}
				items = made.items
			}
			of = sizes(items)
			known[variant] = of
		}
		n, ok := of[expert{layer, e}]
		if !ok {
			return 0, fmt.Errorf("%s has no expert %d in layer %d", c.Label, e, layer)
		}
		return n, nil
	}
	return tier.Model{Label: c.Label, Identity: c.Identity, Spec: c.Arch, Bits: c.BitsPerWeight, Size: size, Source: c.Source}
}
