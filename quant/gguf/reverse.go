package gguf

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"quantscope/quant/topology"
)

// Namer gives tensors of checkpoints the names that GGUF files of an architecture
// have for them: the way back from what Model does.
type Namer struct {
	naming
	module  map[string]string // of a layer, from the checkpoint's name
	whole   map[string]string // of a layer, from a name that has no parameter or one of its own
	outside map[string]string
}

// NewNamer makes one for a general.architecture, the model_type of the checkpoint and
// the number of its decoder layers.
func NewNamer(arch, modelType string, layers int) (*Namer, error) {
	a, ok := architectures[arch]
	if !ok {
		return nil, fmt.Errorf("gguf: architecture %q is not known; known are %s", arch, strings.Join(Architectures(), ", "))
	}
	n := &Namer{naming: newNaming(a, modelType, layers), module: map[string]string{}, whole: map[string]string{}, outside: map[string]string{}}
	for g, h := range n.layer {
		n.module[h] = g
		if bare[h] {
			n.whole[h] = g + ".weight"
		}
	}
	for g, h := range a.scales {
		n.whole[h] = g + ".scale"
	}
	for h, g := range map[string]string{"linear_attn.A_log": "ssm_a", "linear_attn.dt_bias": "ssm_dt.bias"} {
		if n.whole[h] != "" {
			n.whole[h] = g
		}
	}
	n.whole[n.router+".e_score_correction_bias"] = "exp_probs_b.bias"
	if c := expertNames[n.kind].correction; c != "" {
		n.whole[c] = "exp_probs_b.bias"
	}
	for g, h := range maps.All(n.outer) {
		n.outside[strings.TrimPrefix(h, "model.")] = g
	}
	return n, nil
}

// Paired says whether rows of q and k stand in pairs in files of the architecture.
func (n *Namer) Paired() bool { return n.paired }

// Shift is what files of the architecture add to the values of a tensor, by its name
// in them.
func (n *Namer) Shift(name string) float32 {
	if _, module, param := split(name); n.shifts(module, param) {
		return 1
	}
	return 0
}

// ModuleName is what a file calls a module of a layer that is made by the caller.
func (n *Namer) ModuleName(layer int, module string) string {
	return fmt.Sprintf("blk.%d.%s", layer, module)
}

// Name is what a file calls a tensor that it holds by itself; ok is false for what
// no file of the architecture has.
func (n *Namer) Name(tensor string) (name string, ok bool) {
	tensor = strings.TrimPrefix(strings.Replace(tensor, "language_model.", "", 1), "model.")
	first := 0
	if n.mtp != nil {
		if rest, is := strings.CutPrefix(tensor, "mtp."); is {
			module, param := cutParam(rest)
			if g, ok := n.mtp[module]; ok && param == "weight" {
				return fmt.Sprintf("blk.%d.%s.weight", n.main, g), true
			}
			tensor, first = rest, n.main
		}
	}
	rest, ok := strings.CutPrefix(tensor, "layers.")
	if !ok {
		if g, ok := n.outside[tensor]; ok && bare[tensor] {
			return g + ".weight", true
		}
		module, param := cutParam(tensor)
		g, ok := n.outside[module]
		return g + "." + param, ok && (param == "weight" || param == "bias")
	}
	digits, rest, ok := strings.Cut(rest, ".")
	layer, err := strconv.Atoi(digits)
	if !ok || err != nil || layer < 0 || layer+first >= maxBlocks {
		return "", false
	}
	layer += first
	rest = strings.Replace(strings.TrimPrefix(rest, "transformer."), "shared_head.output", "shared_head.head", 1)
	if g, ok := n.whole[rest]; ok {
		return fmt.Sprintf("blk.%d.%s", layer, g), true
	}
	module, param := cutParam(rest)
	g, ok := n.module[module]
	return fmt.Sprintf("blk.%d.%s.%s", layer, g, param), ok && (param == "weight" || param == "bias")
}

// cutParam cuts the last part of a name off.
func cutParam(name string) (module, param string) {
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		return name[:i], name[i+1:]
	}
	return name, ""
}

// Stack is the name of the tensor with a part of all experts of a layer: gate, up or
// down.
func (n *Namer) Stack(layer int, projection, param string) (string, bool) {
	name, _, ok := LinearName(topology.Role{Kind: topology.Expert, Layer: layer, Projection: projection})
	return strings.TrimSuffix(name, "weight") + param, ok
}

// PairedRow is where row r of heads of d rows stands in files whose rows of q and k
// are in pairs.
func PairedRow(r, d int) int { return paired(r, d) }
