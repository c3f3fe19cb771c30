package export

import (
	"encoding/json"

	"quantscope/kernels"
)

// quantization is what config.json says of the quantization, and the files
// that a layout has beside it. ignore are the modules that are not quantized.
func (b *planner) quantization(ignore []string) (json.RawMessage, []Text, error) {
	switch b.Layout {
	case ModelOpt:
		return b.modelOptConfig(ignore)
	case CompressedTensors:
		config, err := b.compressedConfig(ignore)
		return config, nil, err
	}
	config, err := b.ownConfig(ignore)
	return config, nil, err
}

// receipt says in every layout how the weights were made, which the layouts'
// own words do not.
type receipt struct {
	Variant    string         `json:"variant"`
	Recipe     string         `json:"recipe,omitempty"`
	SHA256     string         `json:"recipe_sha256,omitempty"`
	Format     string         `json:"format,omitempty"`
	Method     string         `json:"method,omitempty"`
	Convention string         `json:"convention,omitempty"`
	Globals    string         `json:"global_scale,omitempty"` // shared or tensor, where there is one
	Groups     []receiptGroup `json:"groups,omitempty"`       // of a mixture, in place of format, method and convention
}

// receiptGroup is one variant of a mixture. No two have a module in common.
type receiptGroup struct {
	Variant    string   `json:"variant"`
	Format     string   `json:"format"`
	Method     string   `json:"method"`
	Convention string   `json:"convention"`
	Targets    []string `json:"targets"` // as in compressed-tensors: names, or expressions after re:
}

func (b *planner) receipt() receipt {
	r := receipt{Variant: b.Variant, Recipe: b.recipe.Name, SHA256: b.recipe.SHA256}
	for i := range b.stores {
		if SharesGlobal(b.stores[i].spec.Format) {
			r.Globals = b.Globals.String()
		}
	}
	if len(b.stores) == 1 {
		r.Format, r.Method, r.Convention = b.Spec.Format, b.Spec.Method, b.Spec.Convention.String()
		return r
	}
	for i := range b.stores {
		s := &b.stores[i]
		r.Groups = append(r.Groups, receiptGroup{s.variant.Name, s.spec.Format, s.spec.Method, s.spec.Convention.String(), b.targetsOf(func(o *stored) bool { return o == s })})
	}
	return r
}

// ownConfig is the entry of our own layout.
func (b *planner) ownConfig(ignore []string) (json.RawMessage, error) {
	f := b.stores[0].words // the only one
	group := f.Group
	if group == 0 {
		group = -1
	}
	return marshal(struct {
		Method  string   `json:"quant_method"`
		Version int      `json:"version"`
		Format  string   `json:"format"`
		Bits    int      `json:"bits"`
		Group   int      `json:"group_size"`
		Targets []string `json:"targets"`
		Ignore  []string `json:"ignore"`
		Receipt receipt  `json:"quantscope"`
	}{Own, OwnVersion(f.Name), f.Name, f.Bits, group, []string{"Linear"}, exactOrExpression(ignore, b.Modules, b.stacks), b.receipt()})
}

// OwnVersion is the version of our own layout that a format needs: those of two bits
// came with the second.
func OwnVersion(format string) int {
	if _, book := kernels.CodebookBase(format); book {
		return 2
	}
	return 1
}
