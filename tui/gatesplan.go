package tui

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"quantscope/analysis/gates"
	"quantscope/analysis/gates/local"
	"quantscope/analysis/gates/suite"
	"quantscope/quant/demo"
	"quantscope/sessions"
	"quantscope/views"
)

// gatesPlan says in sentences what R would ask of whom.
func (m *Model) gatesPlan() []string {
	specs := m.variantSpecs()
	switch g := m.gateRun(); {
	case views.GatesLeft(g):
		return nil // the table says it
	case m.served():
		return []string{"The session is of served models: c names servers."}
	case len(specs) == 0:
		return []string{"The session has no variants: c names candidates, which may be variants made on the fly (nvfp4+mse), checkpoints, exports or GGUF files, and servers."}
	}
	name := "default"
	if m.source() == demo.Label {
		name = "demo"
	}
	return []string{fmt.Sprintf("R asks %s, then %s, then %s again, the suite %s.", views.Clean(filepath.Base(m.source())), strings.Join(specs, ", "), views.Clean(filepath.Base(m.source())), name)}
}

// gatesRequestOf asks again for what a run is of, so that it is gone on with. source
// is where the session's checkpoint is.
func gatesRequestOf(g *sessions.GateRun, source string) sessions.GatesRequest {
	s := g.Setup
	r := sessions.GatesRequest{
		Suite: cmp.Or(s.Path, s.Suite), Model: g.Settings[sessions.GateModel], Targets: g.Settings[sessions.GateTargets],
		Timeout: s.Timeout, NoPlacebo: s.Placebo() < 0, NoBaseline: true,
	}
	r.Local.Speculate, _ = strconv.Atoi(g.Settings[sessions.GateSpeculate])
	r.NoDrafts = g.Settings[sessions.GateSpeculate] == "0"
	r.Local.BF16 = g.Settings[sessions.GateActivations] == "bf16"
	r.Local.PrefixCache = g.Settings[sessions.GatePrefixCache] != ""
	r.Local.Fault = local.Fault(g.Settings[sessions.GateFault])
	if s.Texts != nil {
		r.Texts, r.Top, r.TextChunks = s.Texts.Name, s.Texts.Top, len(s.Texts.IDs)
	}
	for i := range s.Arms {
		a := &s.Arms[i]
		spec := a.Spec
		if a.Label != a.Spec {
			spec = a.Label + "=" + a.Spec
		}
		switch {
		case a.Role == gates.Placebo:
		case isURL(a.Spec):
			r.Servers = append(r.Servers, spec)
		case i == s.Baseline() && samePlace(a.Spec, source):
			r.NoBaseline = false
		default:
			r.Candidates = append(r.Candidates, spec)
		}
	}
	r.Probes, r.Passes = gatesChosen(s)
	return r
}

// gatesChosen is what was asked for of the suite: which probes, and how many passes;
// nothing where that is all of it, or where the suite as it was read says no more.
func gatesChosen(s *gates.Setup) (probes string, passes int) {
	whole, err := suite.Parse(s.Path, []byte(s.Text), nil)
	if err != nil { // it names files: its probes are named one by one
		whole = &suite.Suite{}
	}
	if len(whole.Probes) != len(s.Probes) {
		var ids []string
		for i := range s.Probes {
			ids = append(ids, regexp.QuoteMeta(s.Probes[i].ID))
		}
		probes = "re:^(" + strings.Join(ids, "|") + ")$"
	}
	own := map[string]int{}
	for i := range whole.Probes {
		own[whole.Probes[i].ID] = whole.Probes[i].Passes
	}
	for i := range s.Probes {
		p := &s.Probes[i]
		if n, known := own[p.ID]; known && n != p.Passes {
			passes = p.Passes
		}
	}
	return probes, passes
}

// isURL says that an arm is a server.
func isURL(spec string) bool {
	return strings.HasPrefix(spec, "http://") || strings.HasPrefix(spec, "https://")
}

// samePlace says that a path is that of the session's checkpoint, which may lie
// elsewhere by now.
func samePlace(spec, source string) bool {
	return spec == source || source != "" && filepath.Base(filepath.Clean(spec)) == filepath.Base(filepath.Clean(source))
}
