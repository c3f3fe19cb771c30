package plan

import (
	"fmt"
	"strings"

	"quantscope/quant/recipe"
	"quantscope/quant/topology"
)

// checkPatterns counts what each pattern matches, and reports those that match
// nothing and matrices that two groups match.
func (p *planner) checkPatterns() {
	for g := range p.file.Groups {
		stored := p.Groups[g].Matrices
		p.Groups[g].Targets = p.patterns(p.file.Groups[g].Targets, p.res.Targets[g])
		matched := 0
		for t, pattern := range p.file.Groups[g].Targets {
			hits := len(p.res.Targets[g][t])
			matched += hits
			if hits == 0 {
				p.noMatch(fmt.Sprintf("groups[%d].targets[%d]", g, t), pattern)
			}
		}
		if matched > 0 && stored == 0 {
			p.find(Finding{ID: GroupEmpty, Where: fmt.Sprintf("groups[%d]", g),
				Message: fmt.Sprintf("%s stores nothing: what it matches is ignored, exempted, or in a group before it", p.Groups[g].Variant),
				Fix:     "take the group out, or what stands in its way"})
		}
	}
	p.Ignore, p.Exemptions = p.patterns(p.file.Ignore, p.res.Ignore), p.patterns(p.file.Exemptions, p.res.Exemptions)
	p.checkOverlaps()
	for i, pattern := range p.file.Exemptions {
		if len(p.res.Exemptions[i]) == 0 || !p.takesOut(p.res.Exemptions[i]) {
			p.find(Finding{ID: ExemptionNoUse, Where: fmt.Sprintf("exemptions[%d]", i), Pattern: pattern,
				Message: fmt.Sprintf("%q takes nothing out of a group (%s)", pattern, matches(len(p.res.Exemptions[i]))) + p.near(pattern, p.res.Exemptions[i]),
				Fix:     "correct the pattern, or take it out"})
		}
	}
	p.checkIgnore()
	if len(p.Selection) == 0 {
		p.find(Finding{ID: NothingTargeted, Message: "no group stores any matrix", Fix: "see what each pattern matches, and what ignore takes out"})
	}
}

func matches(n int) string { return "it matches " + countedMatrices(n) }

func (p *planner) patterns(texts []string, hits [][]int) []Pattern {
	out := make([]Pattern, len(texts))
	for i, text := range texts {
		out[i] = Pattern{Pattern: text, Matches: len(hits[i])}
	}
	return out
}

// takesOut says whether a pattern of exemptions names something that a group
// matches.
func (p *planner) takesOut(hits []int) bool {
	for _, k := range hits {
		if p.grouped[k] {
			return true
		}
	}
	return false
}

// maxGuesses is how many patterns get names that look like them: each costs a look at
// every name, and a list that was made for another checkpoint has thousands.
const maxGuesses = 20

// near names what looks like a pattern that matches nothing.
func (p *planner) near(pattern string, hits []int) string {
	if len(hits) > 0 || p.guesses == maxGuesses {
		return ""
	}
	p.guesses++
	if names := recipe.Nearest(pattern, p.model.Tensors, 3); len(names) > 0 {
		return "; nearest: " + strings.Join(names, ", ")
	}
	return ""
}

// noMatch reports a target that matches no matrix, with why what it does match is
// none.
func (p *planner) noMatch(where, pattern string) {
	text := fmt.Sprintf("%q matches no matrix", pattern)
	m, err := recipe.ParseTarget(pattern)
	tensor, n := "", 0
	for i := range p.model.Tensors {
		name := p.model.Tensors[i].Name
		if err == nil && (m.Match(name) || m.Match(moduleOf(name, &p.model.Roles[i]))) {
			if n++; n == 1 {
				tensor = name
				text += fmt.Sprintf("; of tensors it matches %s, %s", name, p.whyNone(i))
			}
		}
	}
	switch {
	case n > 1:
		text += fmt.Sprintf(", and %d more", n-1)
	case n == 0:
		text += p.near(pattern, nil)
	}
	p.find(Finding{ID: TargetNoMatch, Where: where, Pattern: pattern, Tensor: tensor, Message: text, Fix: "correct the pattern, or take it out"})
}

// whyNone says why a tensor is no matrix that can be quantized.
func (p *planner) whyNone(i int) string {
	t := &p.model.Tensors[i]
	for _, u := range p.model.Unresolved {
		if u.Tensor == t.Name {
			return "whose layout is not known: " + u.Message
		}
	}
	switch {
	case !sourceDType(t.DType):
		return "which stands as " + t.DType
	case len(t.Shape) < 2:
		return "a vector"
	}
	return fmt.Sprintf("of shape %v, which is no linear map", t.Shape)
}

// moduleOf is a tensor's name without its parameter.
func moduleOf(name string, r *topology.Role) string { return strings.TrimSuffix(name, "."+r.Param) }

// checkOverlaps reports matrices that two groups match, once a pair of groups.
func (p *planner) checkOverlaps() {
	type pair struct{ first, second int }
	count := map[pair]int{}
	var order []pair
	example := map[pair]string{}
	for _, o := range p.res.Overlaps {
		key := pair{o.First, o.Second}
		if count[key]++; count[key] == 1 {
			order = append(order, key)
			example[key] = o.Matrix
		}
	}
	for _, key := range order {
		f := Finding{ID: Overlap, Where: fmt.Sprintf("groups[%d], groups[%d]", key.first, key.second), Tensor: example[key],
			Message: fmt.Sprintf("groups %d (%s) and %d (%s) both match %s", key.first+1, p.Groups[key.first].Variant, key.second+1, p.Groups[key.second].Variant, example[key]),
			Fix:     "make the targets of one of them narrower, or exempt the matrices"}
		if n := count[key]; n > 1 {
			f.Message += fmt.Sprintf(" and %d more", n-1)
		}
		f.Pattern = p.patternOf(key.second, example[key])
		p.find(f)
	}
}

// patternOf is the pattern of a group that matches a matrix.
func (p *planner) patternOf(g int, matrix string) string {
	for t, hits := range p.res.Targets[g] {
		for _, k := range hits {
			if p.model.Matrices[k].Name == matrix {
				return p.file.Groups[g].Targets[t]
			}
		}
	}
	return ""
}

// checkIgnore reports entries that match nothing that a checkpoint, or the model
// that is loaded from it, has: no matrix, no tensor, no module above one.
func (p *planner) checkIgnore() {
	var modules []string
	for i, pattern := range p.file.Ignore {
		if len(p.res.Ignore[i]) > 0 {
			continue
		}
		if modules == nil {
			modules = p.modules()
		}
		m, err := recipe.ParseTarget(pattern)
		if err != nil {
			continue // Resolve has refused it
		}
		for _, name := range modules {
			if m.Match(name) {
				p.Ignore[i].Modules++
			}
		}
		if p.Ignore[i].Modules == 0 {
			p.find(Finding{ID: IgnoreNoMatch, Where: fmt.Sprintf("ignore[%d]", i), Pattern: pattern,
				Message: fmt.Sprintf("%q matches no matrix, tensor or module, so it protects nothing", pattern) + p.near(pattern, nil),
				Fix:     "correct the pattern, or take it out"})
		}
	}
}

// modules are the names of tensors and of all modules that hold them; the head is
// one even where it is tied and not stored.
func (p *planner) modules() []string {
	seen := map[string]bool{}
	var names []string
	add := func(name string) bool {
		if seen[name] {
			return false
		}
		seen[name] = true
		names = append(names, name)
		return true
	}
	for i := range p.model.Tensors {
		name := p.model.Tensors[i].Name
		add(name)
		for at := strings.LastIndexByte(name, '.'); at > 0; at = strings.LastIndexByte(name, '.') {
			if name = name[:at]; !add(name) {
				break
			}
		}
	}
	if p.model.Tied && !p.model.HeadStored {
		add("lm_head")
	}
	return names
}
