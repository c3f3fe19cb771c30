package export

import "encoding/json"

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
	Variant    string `json:"variant"`
	Format     string `json:"format"`
	Method     string `json:"method"`
	Convention string `json:"convention"`
	Globals    string `json:"global_scale,omitempty"` // shared or tensor, where there is one
}

func (b *planner) receipt() receipt {
	r := receipt{Variant: b.Variant, Format: b.Spec.Format, Method: b.Spec.Method, Convention: b.Spec.Convention.String()}
	if SharesGlobal(b.Spec.Format) {
		r.Globals = b.Globals.String()
	}
	return r
}

// ownConfig is the entry of our own layout.
func (b *planner) ownConfig(ignore []string) (json.RawMessage, error) {
	group := b.format.Group
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
	}{Own, ownVersion, b.Spec.Format, b.format.Bits, group, []string{"Linear"}, exactOrExpression(ignore, b.Modules, b.stacks), b.receipt()})
}

// ownVersion is the version of our own layout.
const ownVersion = 1
