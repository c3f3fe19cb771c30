package layout

import (
	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// Said is what one config says of a module.
type Said struct {
	File      string // of the config
	Method    string // its quant_method
	Quantized bool
	By        string // the group, the pattern or the method that decides
}

// Says asks each config of the checkpoint about a module by its name, whether it is
// stored or not. linear says that torch has it as a Linear. Configs of methods that
// name no exceptions, since the model's code knows them, are not asked.
func (l *Layout) Says(module string, linear bool) []Said {
	var out []Said
	for _, c := range l.configs {
		if c == nil || c.file == "" || !c.lists() {
			continue
		}
		v := c.cover(newMatchIndex(c.entries).find(nil, []string{module}, linear), linear)
		s := Said{File: c.file, Method: c.method, Quantized: v.quantized(), By: c.method}
		switch {
		case v.ignore != nil:
			s.By = v.ignore.Pattern
		case v.group != nil:
			s.By = v.group.name
		}
		out = append(out, s)
	}
	return out
}

// IsLinear says whether torch has the module of a stored weight as a Linear: the
// projections, routers and heads, stored as a matrix, or experts as a stack of them.
func IsLinear(t *checkpoint.Tensor, r *topology.Role) bool { return isLinear(t, r) }
