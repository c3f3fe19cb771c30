package views

import (
	"fmt"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/sessions"
)

// tierDetail is what a hot tier comes to after the newest window: budget, coverage,
// hits, churn, and the expert under the cursor. In three lines or fewer it is two lines
// of text.
type tierDetail struct {
	scene *Scene
	of    *tierMap // whose cursor it follows
	more  *tierMore
	w, h  int

	drawn  tierDrawing
	cached string
}

// Title says what is listed.
func (d *tierDetail) Title() string {
	r := d.scene.TierRun()
	if r == nil {
		return "hot tier"
	}
	return "hot " + Clean(r.Setup.Hot) + " · cold " + Clean(r.Setup.Cold)
}

// SetSize gives the pane its size.
func (d *tierDetail) SetSize(w, h int) { d.w, d.h = max(w, 0), max(h, 0) }

// Apply does nothing: the map counts what is new.
func (d *tierDetail) Apply(sessions.Batch) {}

// HandleKey does what it does on the map.
func (d *tierDetail) HandleKey(k tea.KeyMsg) (bool, tea.Cmd) { return d.of.HandleKey(k) }

// HandleMouse does nothing.
func (d *tierDetail) HandleMouse(int, int, tea.MouseMsg) (bool, tea.Cmd) { return false, nil }

// Keys are those of the map.
func (d *tierDetail) Keys() []Key { return d.of.Keys() }

// View draws the pane.
func (d *tierDetail) View() string {
	key := d.scene.tierDrawing(d.w, d.h)
	if d.drawn != key {
		d.of.sync()
		d.cached, d.drawn = Block(d.lines(), d.w, d.h), key
	}
	return d.cached
}

// tierFacts are the figures of a budget after its newest window.
type tierFacts struct {
	budget, coverage, bytes, hits, sofar, churn, held, window, phase string
}

func (s *Scene) tierFacts(r *sessions.TierRun, a *tierArm) tierFacts {
	b := s.tierBudget(r)
	of, n := r.Setup.Budgets[b], len(a.windows)
	f := tierFacts{
		budget: Clean(of.Label), window: fmt.Sprintf("%d/%d", n, windowsOf(r.Setup)),
		coverage: "–", bytes: "–", hits: "–", sofar: "–", churn: "–", held: "–",
	}
	if size := sizeText(of.Bytes); size != f.budget {
		f.budget += "  " + size
	}
	w := a.newest()
	total := r.Setup.Shape.Total()
	if w == nil {
		if hot := countHot(a.start); hot > 0 {
			f.coverage = fmt.Sprintf("%s/%s at the start", thousands(hot), thousands(total))
		}
		return f
	}
	f.coverage = fmt.Sprintf("%s/%s (%.3g %%)", thousands(w.Hot), thousands(total), 100*float64(w.Hot)/float64(max(total, 1)))
	f.bytes = sizeText(w.HotBytes) + " of " + sizeText(r.Setup.Shape.AllHot())
	f.hits, f.sofar = fmt.Sprintf("%.1f %%", a.hitsBetween(n-1, n)), fmt.Sprintf("%.1f %%", a.hitsBetween(0, n))
	f.churn = fmt.Sprintf("%d  ▲%d ▼%d", w.Promoted+w.Evicted, w.Promoted, w.Evicted)
	f.held = thousands(w.Held)
	for _, p := range r.Setup.Workload.Phases {
		if p.First <= w.First {
			f.phase = Clean(p.Name)
		}
	}
	return f
}

func (d *tierDetail) lines() []string {
	s, th := d.scene, d.scene.Theme
	r, a := s.tierArm()
	if r == nil {
		text := "no hot tier was run in this session"
		if s.Tier.Running {
			text = "a hot tier begins"
		}
		return []string{th.Dim.Render(Truncate(text, d.w))}
	}
	f := s.tierFacts(r, a)
	n := len(a.windows)
	if d.h <= 3 {
		return d.short(r, a, f)
	}
	row := func(label, value, more string) string {
		line := th.Dim.Render(Fit(label, detailLabelW)) + value
		if more != "" {
			line += "  " + th.Dim.Render(more)
		}
		return Truncate(line, d.w)
	}
	which := ""
	if k := len(r.Setup.Budgets); k > 1 {
		which = fmt.Sprintf("%d of %d  < >", s.tierBudget(r)+1, k)
	}
	lines := []string{
		row("budget", f.budget, which),
		row("coverage", f.coverage, ""),
		row("hot bytes", f.bytes, ""),
		row("window", f.window, f.phase),
		row("hits", f.hits, "so far "+f.sofar),
		row("churn", f.churn, "total "+thousands(a.churn[n])),
		row("held back", f.held, "total "+thousands(a.held[n])),
		row("workload", Clean(r.Setup.Workload.Name), Clean(r.Setup.Workload.Kind)+", "+thousands(r.Setup.Workload.Tokens)+" tokens"),
		row("policy", policyWords(r), ""),
	}
	lines = append(lines, "")
	lines = append(lines, d.expert(r, a)...)
	room := d.h - len(lines)
	if layers := tierLayers(th, r, a.newest(), d.w, min(room-1, 26)); len(layers) > 0 {
		lines = append(append(lines, ""), layers...)
	}
	if room = d.h - len(lines); room >= 13 || r.End == nil && room >= 3 {
		if spread := tierSpread(th, a.newest(), r.Setup.Shape.Experts, d.w); len(spread) > 0 {
			lines = append(append(lines, ""), spread...)
		}
	}
	room = d.h - len(lines) - 1
	if r.End != nil && r.End.Curve != nil && room >= 8 && d.more.w == 0 {
		lines = append(lines, "")
		lines = append(lines, strings.Split(tierCurve(th, r, s.tierBudget(r), d.w, min(room, 16)), "\n")...)
	}
	return lines
}

// policyWords are the policy of a run.
func policyWords(r *sessions.TierRun) string {
	p := &r.Setup.Policy
	words := fmt.Sprintf("window %d, decay %g, enter +%g %%", p.Window, p.Decay, 100*p.Hysteresis)
	if p.PerLayer {
		words += ", by layer"
	}
	return words
}

// expert is what is known of the expert under the cursor.
func (d *tierDetail) expert(r *sessions.TierRun, a *tierArm) []string {
	th := d.scene.Theme
	name, words, more := d.expertWords(r, a)
	if name == "" {
		return []string{th.Dim.Render(Truncate(words, d.w))}
	}
	return []string{th.Title.Render(name) + "  " + Truncate(words, d.w-Width(name)-2), th.Dim.Render(Truncate(more, d.w))}
}

// expertWords are its name, its precision, and how it came to it.
func (d *tierDetail) expertWords(r *sessions.TierRun, a *tierArm) (name, words, more string) {
	th := d.scene.Theme
	l, e := d.scene.expertUnder(r, d.of.own)
	if l < 0 || l >= a.layers || e < 0 || e >= a.experts {
		return "", "no expert of the tier is under the cursor", ""
	}
	name = fmt.Sprintf("L%d e%d", r.Setup.Shape.Layers[l], e)
	if r.Setup.Trace < 2 {
		w := a.newest()
		if w == nil || l >= len(w.PerLayer) {
			return name, th.Dim.Render("not known"), "trace 1 keeps counts by layer"
		}
		return name, th.Dim.Render("not known"), fmt.Sprintf("%d of %d experts of its layer are hot", w.PerLayer[l], a.experts)
	}
	at := l*a.experts + e
	hot, moved := a.hot[at], a.moved[at]
	switch {
	case hot && moved == 0:
		return name, th.Accent.Render("█ hot") + " from the start", "its score is not known: it never moved"
	case hot:
		words = th.Accent.Render("█ hot") + fmt.Sprintf(" since window %d", moved)
	case moved > 0:
		words = th.Dim.Render("▁ cold") + fmt.Sprintf(" since window %d", moved)
	default:
		return name, th.Dim.Render("▁ cold") + " from the start", "its score is not known: it never moved"
	}
	verb := "evicted"
	if hot {
		verb = "promoted"
	}
	return name, words, fmt.Sprintf("score %s when %s · %s so far", compact(float64(a.score[at])), verb, plural(int(a.moves[at]), "move"))
}

// short is the pane in two lines.
func (d *tierDetail) short(r *sessions.TierRun, a *tierArm, f tierFacts) []string {
	th := d.scene.Theme
	pair := func(label, value string) string { return th.Dim.Render(label+" ") + value }
	n := len(a.windows)
	join := func(parts ...string) string {
		line := ""
		for i, p := range parts {
			if i > 0 {
				p = "  " + p
			}
			if Width(line)+Width(p) > d.w {
				break
			}
			line += p
		}
		return line
	}
	name, words, more := d.expertWords(r, a)
	if name == "" {
		words = th.Dim.Render(words)
	} else {
		words = th.Title.Render(name) + "  " + words + th.Dim.Render("  "+more)
	}
	return []string{
		join(pair("budget", f.budget), pair("coverage", f.coverage), pair("hits", f.hits), pair("so far", f.sofar), pair("churn", f.churn),
			pair("total", thousands(a.churn[n])), pair("held", f.held)),
		Truncate(words, d.w),
	}
}
