package views

import (
	"strings"

	"quantscope/sessions"
)

// auditNames finds the tensors of a session by what checkpoints call them.
type auditNames struct {
	tensors []sessions.Tensor
	at      map[string]int // by the name of the module, the first of a stack
}

// update takes up the tensors of another state.
func (n *auditNames) update(tensors []sessions.Tensor) {
	if n.at != nil && len(tensors) == len(n.tensors) && (len(tensors) == 0 || &tensors[0] == &n.tensors[0]) {
		return
	}
	n.tensors, n.at = tensors, make(map[string]int, len(tensors))
	for i := range tensors {
		for _, name := range []string{tensors[i].Name, tensors[i].Source} {
			name = strings.TrimSuffix(name, ".weight")
			if _, there := n.at[name]; !there {
				n.at[name] = i
			}
		}
	}
}

// wrappers are prefixes that the same module has under another class.
var wrappers = []string{"", "model.", "language_model.", "model.language_model."}

// find is the tensor that a name is of: the matrix itself, or one of its scales.
// -1 where the session measures none.
func (n *auditNames) find(name string) int {
	module := name
	if i := strings.LastIndexByte(name, '.'); i > 0 {
		module = name[:i]
	}
	for _, m := range []string{name, module, strings.TrimSuffix(name, "_scales"), strings.TrimSuffix(name, "_blocks"), strings.TrimSuffix(name, "_scale_inv")} {
		for _, prefix := range wrappers {
			if i, ok := n.at[prefix+m]; ok {
				return i
			}
			if bare, ok := strings.CutPrefix(m, prefix); ok && prefix != "" {
				if i, ok := n.at[bare]; ok {
					return i
				}
				if i, ok := n.at["model."+bare]; ok {
					return i
				}
			}
		}
	}
	return -1
}

// placeOf says where a tensor of a checkpoint is, which tensor of the session that
// is, and else why there is none.
func (p *Audit) placeOf(name string) (place string, tensors []int, off string) {
	p.names.update(p.scene.State.Tensors)
	if t := p.names.find(name); t >= 0 {
		return strings.TrimSuffix(ShortName(&p.scene.State.Tensors[t]), ".weight"), []int{t}, ""
	}
	return Clean(name), nil, "the session does not measure " + Clean(name)
}
