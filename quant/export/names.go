package export

import (
	"fmt"
	"strconv"
	"strings"

	"quantscope/quant/topology"
)

// projectionNames are what the parts of an expert are called where each expert
// has tensors of its own.
var projectionNames = map[string]string{"gate": "gate_proj", "up": "up_proj", "down": "down_proj"}

const weightSuffix = ".weight"

// moduleOf is the module that a matrix becomes: the tensor's name without
// .weight, and for a part of a fused tensor the expert's own,
// ….experts.N.gate_proj.
func moduleOf(m *topology.Matrix) (string, error) {
	name, hasSuffix := strings.CutSuffix(m.Tensor, weightSuffix)
	if m.Name == m.Tensor {
		switch {
		case m.ColStride != 1:
			return "", fmt.Errorf("tensor %q: is stored [in, out], which the weight of a linear layer is not: %w", m.Tensor, ErrMatrix)
		case !hasSuffix:
			return "", fmt.Errorf("tensor %q: is no module's .weight: %w", m.Tensor, ErrMatrix)
		}
		return name, nil
	}
	proj, ok := projectionNames[m.Role.Projection]
	if !ok || m.Role.Expert < 0 {
		return "", fmt.Errorf("matrix %q: no name for projection %q of expert %d: %w", m.Name, m.Role.Projection, m.Role.Expert, ErrMatrix)
	}
	return expertsOf(m.Tensor) + "." + strconv.Itoa(m.Role.Expert) + "." + proj, nil
}

// expertsOf is the module that holds the experts of a tensor with all experts
// of a layer.
func expertsOf(tensor string) string {
	name := parent(strings.TrimSuffix(tensor, weightSuffix))
	if name != "experts" && !strings.HasSuffix(name, ".experts") {
		name += ".experts"
	}
	return name
}

// parent is a dotted name without its last part, "" for a name of one part.
func parent(name string) string {
	return name[:max(strings.LastIndexByte(name, '.'), 0)]
}
