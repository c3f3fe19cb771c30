package recipe

import (
	"strings"

	"quantscope/quant/topology"
)

// FromTargets is what Select takes as a recipe of one group: the patterns as they are
// given, or those of the default targets, with what they match and Select leaves
// alone in ignore. Errors are those of Select.
func FromTargets(m *topology.Model, targets, scheme string, methods []string) (*File, error) {
	s, err := Select(m, targets)
	if err != nil {
		return nil, err
	}
	f := &File{Groups: []Group{{Scheme: scheme, Methods: methods}}}
	f.Name = f.Groups[0].Variant()
	if strings.TrimSpace(targets) != "" {
		for _, p := range splitList(targets) {
			f.Groups[0].Targets = append(f.Groups[0].Targets, strings.TrimSpace(p))
		}
	} else {
		var names []string
		for i := range s.Matrices {
			if i == 0 || s.Matrices[i].Tensor != s.Matrices[i-1].Tensor {
				names = append(names, module(s.Matrices[i].Tensor, &s.Matrices[i].Role))
			}
		}
		f.Groups[0].Targets = patterns(names)
	}
	out := map[string]bool{}
	for _, x := range s.Excluded {
		out[x.Name] = true
	}
	var left []string
	for k := range m.Matrices {
		if x := &m.Matrices[k]; out[x.Name] && sourceReason(m, m.MatrixTensor[k]) == "" {
			left = append(left, x.Name)
		}
	}
	f.Ignore = patterns(left)
	return f, nil
}
