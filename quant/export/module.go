package export

import (
	"strconv"
	"strings"

	"quantscope/quant/topology"
)

// Module is what a matrix of a checkpoint is called as a module: the tensor's
// name without .weight, and for a part of a fused tensor the expert's own,
// ….experts.N.gate_proj. Errors wrap ErrMatrix.
func Module(m *topology.Matrix) (string, error) { return moduleOf(m) }

// ExpertModule is the name under which an expert of a fused module stands by
// itself: ….experts.gate_proj[3] is ….experts.3.gate_proj. A name without an
// expert stays.
func ExpertModule(name string) string {
	open := strings.LastIndexByte(name, '[')
	if open < 0 || !strings.HasSuffix(name, "]") {
		return name
	}
	expert, err := strconv.Atoi(name[open+1 : len(name)-1])
	if err != nil {
		return name
	}
	base := name[:open]
	return expertsOf(base) + "." + strconv.Itoa(expert) + "." + base[strings.LastIndexByte(base, '.')+1:]
}
