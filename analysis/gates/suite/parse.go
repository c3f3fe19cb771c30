package suite

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"quantscope/analysis/gates/chat"
)

// Bounds of a suite, checked before anything of their size is made.
const (
	maxProbes = 2000
	maxCases  = 200_000   // of a suite
	maxText   = 256 << 20 // bytes of its cases
	maxPasses = 1000
	maxTokens = 1 << 20
	maxSlots  = 1024
)

type parser struct {
	path  string
	read  func(path string) ([]byte, error)
	suite *Suite
	tools map[string]chat.Tool
	order []string // of tools
	files [][]byte // that were read, in order
	cases int
	bytes int64
}

// rawProbe is a probe as it is written; also are its siblings.
type rawProbe struct {
	Probe
	at    *yaml.Node
	tools []string
	from  string
	make  *makeSpec
	cases *yaml.Node
	also  *yaml.Node
	need  *yaml.Node
}

func (p *parser) parse(text []byte) error {
	root, err := p.document(text)
	if err != nil {
		return err
	}
	base := rawProbe{Probe: Probe{Passes: 1, Need: 1, Set: Settings{MaxTokens: 256, Concurrency: 1}}}
	var defaults, probes, tools *yaml.Node
	keep := func(to **yaml.Node) field { return func(n *yaml.Node) error { *to = n; return nil } }
	if err := p.fields(root, "suite", map[string]field{
		"name": p.text("name", &p.suite.Name), "about": p.text("about", &p.suite.About),
		"defaults": keep(&defaults), "tools": keep(&tools), "probes": keep(&probes),
	}); err != nil {
		return err
	}
	if !idForm.MatchString(p.suite.Name) {
		return p.fail(root, "name: is %q, want small letters, digits and - or .", p.suite.Name)
	}
	if probes == nil || len(probes.Content) == 0 {
		return p.fail(root, "has no probes")
	}
	if tools != nil {
		if err := p.each(tools, "tools", maxProbes, p.tool); err != nil {
			return err
		}
	}
	if defaults != nil {
		if err := p.fields(defaults, "defaults", p.common(&base, "defaults")); err != nil {
			return err
		}
	}
	return p.each(probes, "probes", maxProbes, func(n *yaml.Node) error { return p.probe(n, base) })
}

var idForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*(/[a-z0-9][a-z0-9.-]*)?$`)

// common are the fields that defaults, probes and siblings have.
func (p *parser) common(r *rawProbe, what string) map[string]field {
	return map[string]field{
		"passes":   p.count(what+": passes", 1, maxPasses, &r.Passes),
		"need":     func(n *yaml.Node) error { r.need = n; return p.number(what+": need", 0, 1, &r.Need)(n) },
		"timed":    p.flag(what+": timed", &r.Timed),
		"settings": func(n *yaml.Node) error { return p.settings(n, what, &r.Set) },
	}
}

func (p *parser) settings(n *yaml.Node, what string, s *Settings) error {
	what += ": settings"
	return p.fields(n, what, map[string]field{
		"max_tokens":   p.count(what+": max_tokens", 1, maxTokens, &s.MaxTokens),
		"temperature":  p.number(what+": temperature", 0, 10, &s.Temperature),
		"top_p":        p.number(what+": top_p", 0, 1, &s.TopP),
		"top_k":        p.count(what+": top_k", 0, maxTokens, &s.TopK),
		"seed":         p.seed(what+": seed", &s.Seed),
		"concurrency":  p.count(what+": concurrency", 1, maxSlots, &s.Concurrency),
		"stop":         p.texts(what+": stop", &s.Stop),
		"stream":       p.flag(what+": stream", &s.Stream),
		"system":       p.text(what+": system", &s.System),
		"template":     p.object(what+": template", &s.Template),
		"may_truncate": p.flag(what+": may_truncate", &s.MayTruncate),
	})
}

// with is a and b together.
func with(a, b map[string]field) map[string]field {
	for k, v := range b {
		a[k] = v
	}
	return a
}

func (p *parser) probe(n *yaml.Node, base rawProbe) error {
	r := base
	r.at = n
	what := "probe"
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == "id" {
			what = fmt.Sprintf("probe %s", short(n.Content[i+1].Value))
		}
	}
	if err := p.fields(n, what, with(p.common(&r, what), map[string]field{
		"id": p.text(what+": id", &r.ID), "group": p.text(what+": group", &r.Group), "about": p.text(what+": about", &r.About),
		"grader": p.text(what+": grader", &r.Grader), "args": p.object(what+": args", &r.Args),
		"tools": p.texts(what+": tools", &r.tools), "from": p.text(what+": from", &r.from),
		"make":  func(n *yaml.Node) (err error) { r.make, err = p.makeSpec(n, what); return err },
		"cases": func(n *yaml.Node) error { r.cases = n; return nil },
		"also":  func(n *yaml.Node) error { r.also = n; return nil },
	})); err != nil {
		return err
	}
	if strings.Contains(r.ID, "/") || r.ID == "" {
		return p.fail(n, "%s: id: is %q, want small letters, digits and - or .; / is for those under also", what, r.ID)
	}
	if r.Group == "" {
		r.Group = r.ID
	}
	if err := p.fill(&r, what); err != nil {
		return err
	}
	if err := p.add(&r, what); err != nil {
		return err
	}
	if r.also == nil {
		return nil
	}
	return p.each(r.also, what+": also", maxProbes, func(n *yaml.Node) error { return p.sibling(n, r, what) })
}

// sibling asks the cases of another probe at other settings.
func (p *parser) sibling(n *yaml.Node, of rawProbe, what string) error {
	r := of
	r.at, r.Like, r.need = n, of.ID, nil
	var id string
	what += ": also"
	if err := p.fields(n, what, with(p.common(&r, what), map[string]field{
		"id": p.text(what+": id", &id), "about": p.text(what+": about", &r.About), "group": p.text(what+": group", &r.Group),
		"grader": func(n *yaml.Node) error { r.Args = nil; return p.text(what+": grader", &r.Grader)(n) },
		"args":   p.object(what+": args", &r.Args),
	})); err != nil {
		return err
	}
	if id == "" {
		return p.fail(n, "%s: has no id", what)
	}
	r.ID = of.ID + "/" + id
	return p.add(&r, what+" "+id)
}

// add checks a probe with its cases and keeps it.
func (p *parser) add(r *rawProbe, what string) error {
	g, err := grader(r.Grader)
	if err == nil {
		if err = checkArgs(r.Args, g.Args); err != nil {
			err = fmt.Errorf("args: %w", err)
		}
	}
	if err != nil {
		return p.fail(r.at, "%s: %v", what, err)
	}
	r.Against, r.Measure = g.Against, g.Measure
	if r.Measure {
		r.Set.MayTruncate = true // it always ends at its budget
	}
	switch {
	case !idForm.MatchString(r.ID):
		return p.fail(r.at, "%s: id: is %q, want small letters, digits and - or .", what, r.ID)
	case slices.ContainsFunc(p.suite.Probes, func(o Probe) bool { return o.ID == r.ID }):
		return p.fail(r.at, "%s: id %q is there already", what, r.ID)
	case r.About == "":
		return p.fail(r.at, "%s: has no about: say what it asks", what)
	case len(p.suite.Probes) >= maxProbes:
		return p.fail(r.at, "%s: more than %d probes", what, maxProbes)
	case r.Need == 0:
		return p.fail(either(r.need, r.at), "%s: need: is 0: it would pass without an answer", what)
	case r.Measure && (r.Set.Temperature > 0 || r.Passes > 1 || r.Set.Concurrency > 1 || r.Timed):
		return p.fail(r.at, "%s: grader %s asks greedily, once, one at a time and without a nonce; temperature is %g, passes %d, concurrency %d, timed %v", what, g.Name, r.Set.Temperature, r.Passes, r.Set.Concurrency, r.Timed)
	case r.Measure && len(r.Set.Stop) > 0:
		return p.fail(r.at, "%s: grader %s has no stop: its answers go on to max_tokens", what, g.Name)
	case r.Measure && r.block() < leastBlock:
		return p.fail(r.at, "%s: block: is %d, want %d or more tokens", what, r.block(), leastBlock)
	case r.Measure && slices.ContainsFunc(r.Cases, func(c Case) bool { return len(c.Turns) > 1 }):
		return p.fail(r.at, "%s: grader %s wants one question in a case", what, g.Name)
	case r.Set.Temperature == 0 && r.Passes > 1 && r.Set.Concurrency == 1:
		return p.fail(r.at, "%s: %d passes at temperature 0 ask the same again: give a temperature, or concurrency", what, r.Passes)
	}
	for i := range r.Cases {
		if why := caseLacks(g, &r.Cases[i]); why != "" {
			return p.fail(r.at, "%s: case %s: %s", what, r.Cases[i].ID, why)
		}
	}
	if p.cases += len(r.Cases); p.cases > maxCases {
		return p.fail(r.at, "%s: the suite has more than %d cases", what, maxCases)
	}
	p.suite.Probes = append(p.suite.Probes, r.Probe)
	return nil
}

// either is a, or b where there is none.
func either(a, b *yaml.Node) *yaml.Node {
	if a != nil {
		return a
	}
	return b
}

// caseLacks says why a grader cannot grade a case, "" where it can.
func caseLacks(g *Grader, c *Case) string {
	if c.Prompt == "" && len(c.Turns) < g.turns {
		return fmt.Sprintf("grader %s wants %d turns or more", g.Name, g.turns)
	}
	if c.Prompt != "" && g.turns > 1 {
		return fmt.Sprintf("grader %s wants turns, not a prompt", g.Name)
	}
	wants := 0
	check := func(w *Want) string {
		if w == nil {
			return ""
		}
		wants++
		if w.Script != "" {
			if _, err := ParseScript(w.Script); err != nil {
				return err.Error()
			}
		}
		for _, word := range slices.Concat(w.Any, w.All, w.Absent) {
			if strings.TrimSpace(word) == "" {
				return fmt.Sprintf("%q is no word: it is in nearly every answer", word)
			}
		}
		if w.MaxRunes > 0 && w.MaxRunes < w.MinRunes {
			return fmt.Sprintf("max_runes %d is under min_runes %d", w.MaxRunes, w.MinRunes)
		}
		if g.needs != nil {
			if what := g.needs(w); what != "" {
				return fmt.Sprintf("grader %s wants %s", g.Name, what)
			}
		}
		return ""
	}
	if why := check(c.Want); why != "" {
		return why
	}
	for i := range c.Turns {
		if why := check(c.Turns[i].Want); why != "" {
			return fmt.Sprintf("turn %d: %s", i+1, why)
		}
		if !utf8.ValidString(c.Turns[i].User) {
			return "is not UTF-8"
		}
	}
	if g.needs != nil && wants == 0 {
		return fmt.Sprintf("grader %s has nothing to hold an answer against: a want is missing", g.Name)
	}
	return ""
}
