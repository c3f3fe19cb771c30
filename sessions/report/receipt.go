package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"quantscope/sessions"
)

// title is what the report is of: the last part of the path that a person gave.
func (r *Report) title() string {
	if r.Meta.Served() { // a server's address
		_, s, _ := strings.Cut(r.Meta.SourcePath, "://")
		return strings.TrimSuffix(strings.TrimRight(s, "/"), "/v1")
	}
	s := strings.TrimRight(r.Meta.SourcePath, `/\`)
	if i := strings.LastIndexAny(s, `/\`); i >= 0 {
		s = s[i+1:]
	}
	if s == "" {
		return "session"
	}
	return s
}

// facts are how the run stands and what it is of.
func (r *Report) facts() (state string, facts []string) {
	p := r.Progress
	if r.Meta.Served() {
		var done, of int
		for _, g := range r.state.Gates {
			d, o := g.Answers()
			done, of = done+d, of+o
		}
		return fmt.Sprintf("%s of %s answers", thousands(int64(done)), thousands(int64(of))), []string{counted(len(r.state.Gates), "run of gates", "runs of gates"), "no checkpoint"}
	}
	state = fmt.Sprintf("%s · %s of %s measured", p.State, thousands(p.Done), thousands(p.Total))
	facts = append(facts, counted(len(r.table.Items), "matrix", "matrices"), counted(len(r.Variants), "variant", "variants"))
	if r.Meta.Targets != "" {
		facts = append(facts, r.Meta.Targets)
	}
	return state, facts
}

// Alerts are what a reader must be warned of before the figures, a sentence
// each: a part, a run that is not over, failures, fallbacks, a damaged file.
func (r *Report) Alerts() []string {
	p := r.Progress
	var out []string
	if r.Meta.Part.Of > 0 {
		out = append(out, fmt.Sprintf("Part %v of the checkpoint: what follows is of this part alone.", r.Meta.Part))
	}
	if p.Done+p.Failed < p.Total {
		out = append(out, fmt.Sprintf("Not all is measured (%s): %s of %s measurements are missing.", p.State, thousands(p.Total-p.Done-p.Failed), thousands(p.Total)))
	}
	if p.Failed > 0 {
		out = append(out, counted(int(p.Failed), "measurement", "measurements")+" failed.")
	}
	fell := 0
	for _, n := range r.Notes {
		switch {
		case n.Kind == sessions.EventFallback:
			fell++
		case n.Variant == "" && n.Tensor == "": // of the run, its source or its file
			out = append(out, capital(n.Message)+".")
		}
	}
	if fell > 0 {
		out = append(out, counted(fell, "fallback", "fallbacks")+": something other than what was asked for ran.")
	}
	return out
}

// receipt is what a reader needs to make the same figures again.
func (r *Report) receipt() []fact {
	m := r.Meta
	out := []fact{
		{"session", r.Session}, {"checkpoint", m.SourcePath}, {"identity", m.SourceIdentity}, {"records, sha256", r.Records},
		{"family", m.Family}, {"targets", m.Targets}, {"program", "quantscope " + m.Program}, {"kernel set", m.KernelSet},
		{"source", size(m.SourceBytes)},
	}
	if m.CreatedUnixMS != 0 {
		out = append(out, fact{"created", time.UnixMilli(m.CreatedUnixMS).UTC().Format(time.RFC3339)})
	}
	for _, v := range r.Variants {
		if f := r.state.RecipeOf(v.ID); f != nil {
			out = append(out, fact{"recipe " + f.Name, fmt.Sprintf("sha256 %s; %s", f.SHA256, storedAs(r.state, v.ID))})
		}
	}
	for _, g := range r.state.Gates {
		out = append(out, fact{"gates " + g.Setup.Suite, fmt.Sprintf("sha256 %s; program %s, kernel set %s", g.Setup.SHA256, g.Setup.Program, g.Setup.Set)})
	}
	for _, b := range r.state.Biases {
		out = append(out, fact{"biases", fmt.Sprintf("reference %.12s; program %s, kernel set %s", b.Setup.Reference.Identity, b.Setup.Program, b.Setup.KernelSet)})
	}
	for _, t := range r.state.Tiers {
		out = append(out, fact{"hot tier", fmt.Sprintf("workload %s, sha256 %s; checkpoint %.12s; program %s, kernel set %s", t.Setup.Workload.Name, t.Setup.Workload.SHA256, t.Setup.Source, t.Setup.Program, t.Setup.KernelSet)})
	}
	var names []string
	for name := range r.Settings {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if v := r.Settings[name]; v != "" && v != m.SourceIdentity && v != m.Targets {
			out = append(out, fact{name, v})
		}
	}
	files := map[string]int{}
	var order []string
	for i := range r.state.Tensors {
		f := r.state.Tensors[i].File
		if files[f] == 0 {
			order = append(order, f)
		}
		files[f]++
	}
	const most = 12
	for i, f := range order {
		if i == most {
			out = append(out, fact{"files", counted(len(order)-most, "more", "more")})
			break
		}
		out = append(out, fact{"file", fmt.Sprintf("%s, %s", f, counted(files[f], "matrix", "matrices"))})
	}
	return slices.DeleteFunc(out, func(f fact) bool { return f.Value == "" || f.Name == "source" && m.SourceBytes == 0 })
}

// storedAs says how many matrices a variant stores in which way, by its recipe.
func storedAs(st *sessions.State, variant int) string {
	var order []string
	counts := map[string]int{}
	for t := range st.Tensors {
		how, quantized := st.How(variant, t)
		name := how.Name
		if !quantized {
			name = "the source's bytes"
		}
		if counts[name] == 0 {
			order = append(order, name)
		}
		counts[name]++
	}
	parts := make([]string, len(order))
	for i, name := range order {
		parts[i] = fmt.Sprintf("%s: %s", name, counted(counts[name], "matrix", "matrices"))
	}
	return strings.Join(parts, ", ")
}
