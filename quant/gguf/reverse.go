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
	module map[string]string // of a layer, from the checkpoint's name
	outer  map[string]string
}

// NewNamer makes one for a general.architecture and the model_type of the
// checkpoint.
func NewNamer(arch, modelType string) (*Namer, error) {
	a, ok := architectures[arch]
	if !ok {
		return nil, fmt.Errorf("gguf: architecture %q is not known; known are %s", arch, strings.Join(Architectures(), ", "))
	}
	n := &Namer{naming: newNaming(a, modelType), module: map[string]string{}, outer: map[string]string{}}
	for g, h := range n.layer {
		n.module[h] = g
	}
	for g, h := range maps.All(outside) {
		n.outer[h] = g
	}
	n.module[n.router+".e_score_correction_bias"] = "exp_probs_b"
	return n, nil
}

// Paired says whether rows of q and k stand in pairs in files of the architecture;
// Shift is what its files add to norms.
func (n *Namer) Paired() bool { return n.paired }

// Shift is what files of the architecture add to the values of norms.
func (n *Namer) Shift() float32 {
	if n.plusOne {
		return 1
	}
	return 0
}

// Name is what a file calls a tensor that it holds by itself; ok is false for what
// no file of the architecture has.
func (n *Namer) Name(tensor string) (name string, ok bool) {
	tensor = strings.TrimPrefix(strings.Replace(tensor, "language_model.", "", 1), "model.")
	module, param := tensor, ""
	if i := strings.LastIndexByte(tensor, '.'); i >= 0 {
		module, param = tensor[:i], tensor[i+1:]
	}
	rest, ok := strings.CutPrefix(module, "layers.")
	if !ok {
		for _, m := range []string{"model." + module, module} {
			if g, ok := n.outer[m]; ok && (param == "weight" || param == "bias") {
				return g + "." + param, true
			}
		}
		return "", false
	}
	digits, rest, ok := strings.Cut(rest, ".")
	layer, err := strconv.Atoi(digits)
	if !ok || err != nil || layer < 0 || layer >= maxBlocks {
		return "", false
	}
	if param != "weight" && param != "bias" { // e_score_correction_bias, sinks: the name has no parameter
		g, ok := n.module[rest+"."+param]
		if !ok {
			return "", false
		}
		param = "weight"
		if g == "exp_probs_b" {
			param = "bias"
		}
		return fmt.Sprintf("blk.%d.%s.%s", layer, g, param), true
	}
	g, ok := n.module[rest]
	return fmt.Sprintf("blk.%d.%s.%s", layer, g, param), ok
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
