package views

import (
	"fmt"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/quant/topology"
	"quantscope/sessions"
)

// tierMap is the map of a hot tier: the precision of every routed expert after the
// newest window, and under it how many of the workload's questions hot experts
// answered. Where the session has no tensors, the run's own experts stand in.
type tierMap struct {
	scene *Scene
	heat  *Heat
	own   bool // the grid is of the run's experts, not of the session's tensors
	roles []topology.Role
	of    tierGridOf
	w, h  int

	drawn  tierDrawing
	cached string
}

// tierGridOf is what a grid was made of.
type tierGridOf struct {
	state   *sessions.State
	tensors int
	setup   any
}

// tierDrawing is all that a picture depends on.
type tierDrawing struct {
	w, h    int
	version uint64
	windows int
	state   *sessions.State
	theme   *Theme
	valid   bool
}

func (s *Scene) tierDrawing(w, h int) tierDrawing {
	d := tierDrawing{w, h, s.Version, 0, s.State, s.Theme, true}
	if r := s.TierRun(); r != nil {
		d.windows = len(r.Windows)
	}
	return d
}

func newTierMap(s *Scene) *tierMap { return &tierMap{scene: s} }

// Title names budget, workload and how far the run is.
func (m *tierMap) Title() string {
	s := m.scene
	r, a := s.tierArm()
	if r == nil {
		return "hot tier"
	}
	b := s.tierBudget(r)
	parts := []string{"hot tier"}
	if n := len(s.State.Tiers); n > 1 {
		parts = append(parts, fmt.Sprintf("run %d of %d", s.Tier.At+1, n))
	}
	parts = append(parts, "budget "+Clean(r.Setup.Budgets[b].Label))
	parts = append(parts, fmt.Sprintf("window %d/%d", len(a.windows), windowsOf(r.Setup)), Clean(r.Setup.Workload.Name))
	return strings.Join(parts, " · ")
}

// SetSize gives the pane its size.
func (m *tierMap) SetSize(w, h int) { m.w, m.h = max(w, 0), max(h, 0) }

// Apply counts what is new.
func (m *tierMap) Apply(b sessions.Batch) { m.scene.noteTier(&b) }

// heatHeight is how many of h lines the map may have.
func (m *tierMap) heatHeight() int {
	switch {
	case m.h >= 30:
		return m.h - 14
	case m.h >= 24:
		return m.h - 11
	case m.h >= 10:
		return m.h - 3
	case m.h >= 6:
		return m.h - 1
	}
	return m.h
}

// sync hands the run over to the heat map.
func (m *tierMap) sync() {
	s := m.scene
	r, a := s.tierArm()
	if r == nil {
		m.heat = nil
		return
	}
	if of := (tierGridOf{s.State, len(s.State.Tensors), r.Setup}); m.heat == nil || m.of != of {
		m.of = of
		m.grid(r)
	}
	h := m.heat
	h.SetTheme(s.Theme)
	h.SetSize(m.w, m.heatHeight())
	if m.own {
		h.SetFilter(Filter{})
	} else {
		h.SetFilter(s.Filter)
	}
	h.SetCursor(m.cursor(r))
	p := &tierPicture{setup: r.Setup}
	if w := a.newest(); w != nil {
		p.layers = w.PerLayer
	}
	if r.Setup.Trace >= 2 {
		p.now, p.top = &a.tierNow, topScore(a.score)
		p.fresh = int32(len(a.windows) - s.freshWindows())
		if len(a.windows) == 0 {
			p.fresh = 0
		}
	}
	h.SetTier(p)
}

// grid makes the geometry: that of the session's tensors where all of the run's experts
// are among them.
func (m *tierMap) grid(r *sessions.TierRun) {
	s, shape := m.scene, &r.Setup.Shape
	g := NewGrid(s.State.Tensors)
	layers, experts := map[int]bool{}, map[int]bool{}
	for i := range s.State.Tensors {
		if role := &s.State.Tensors[i].Role; role.Kind == topology.Expert && role.Expert >= 0 {
			layers[role.Layer], experts[role.Expert] = true, true
		}
	}
	m.own = len(experts) < shape.Experts
	for _, l := range shape.Layers {
		m.own = m.own || !layers[l]
	}
	m.roles = nil
	if m.own {
		tensors := make([]sessions.Tensor, 0, shape.Total())
		for _, l := range shape.Layers {
			for e := range shape.Experts {
				role := topology.Role{Kind: topology.Expert, Layer: l, Expert: e, Projection: "expert"}
				m.roles = append(m.roles, role)
				tensors = append(tensors, sessions.Tensor{ID: len(tensors), Role: role})
			}
		}
		g = NewGrid(tensors)
	}
	m.heat = NewHeat(g, s.Theme)
}

// cursor is the tensor of the grid under the cursor.
func (m *tierMap) cursor(r *sessions.TierRun) int {
	s, shape := m.scene, &r.Setup.Shape
	if !m.own {
		return s.Cursor
	}
	l, e := s.Tier.expert[0], s.Tier.expert[1]
	if l < 0 || l >= len(shape.Layers) || e < 0 || e >= shape.Experts {
		return 0
	}
	return l*shape.Experts + e
}

// setCursor puts the cursor on a tensor of the grid.
func (m *tierMap) setCursor(t int) {
	s := m.scene
	r := s.TierRun()
	switch {
	case r == nil || t < 0:
	case !m.own:
		s.SetCursor(t)
	case s.Tier.expert != [2]int{t / r.Setup.Shape.Experts, t % r.Setup.Shape.Experts}:
		s.Tier.expert = [2]int{t / r.Setup.Shape.Experts, t % r.Setup.Shape.Experts}
		s.Touch()
	}
}

// expertUnder is the expert under the cursor, by its layer in the shape; −1 where
// something else is.
func (s *Scene) expertUnder(r *sessions.TierRun, own bool) (layer, expert int) {
	if own {
		return s.Tier.expert[0], s.Tier.expert[1]
	}
	if s.Cursor < 0 || s.Cursor >= len(s.State.Tensors) {
		return -1, -1
	}
	role := &s.State.Tensors[s.Cursor].Role
	if role.Kind != topology.Expert || role.Expert < 0 || role.Expert >= r.Setup.Shape.Experts {
		return -1, -1
	}
	for i, l := range r.Setup.Shape.Layers {
		if l == role.Layer {
			return i, role.Expert
		}
	}
	return -1, -1
}

// View draws the pane.
func (m *tierMap) View() string {
	key := m.scene.tierDrawing(m.w, m.h)
	if m.drawn != key {
		m.cached, m.drawn = m.draw(), key
	}
	return m.cached
}

func (m *tierMap) draw() string {
	s, th := m.scene, m.scene.Theme
	m.sync()
	switch {
	case m.w <= 0 || m.h <= 0:
		return Block(nil, m.w, m.h)
	case m.heat == nil:
		return Block(m.empty(), m.w, m.h)
	}
	r, a := s.tierArm()
	_, used := m.heat.Used()
	var foot []string
	if m.h-used >= 3 {
		foot = append(foot, "")
	}
	foot = append(foot, m.legend(r))
	if words := m.words(r, a); words != "" {
		foot = append(foot, words)
	}
	if room := m.h - used - len(foot) - 1; room >= 7 && m.w >= 40 {
		foot = append(foot, "")
		foot = append(foot, strings.Split(tierHits(th, r, a, m.w, min(room, 20)), "\n")...)
	} else if room >= 0 && m.w >= 40 {
		foot = append(foot, tierHitsLine(th, a, m.w))
	}
	lines := strings.Split(m.heat.View(), "\n")
	lines = append(lines[:min(used, max(m.h-len(foot), 0))], foot...)
	return Block(lines, m.w, m.h)
}

// empty says what a hot tier is, and how one is run or how far it is.
func (m *tierMap) empty() []string {
	th, w := m.scene.Theme, &m.scene.Tier
	lines := []string{""}
	lines = append(lines, wrappedTo(th.Text, "A hot tier keeps the experts that a workload asks for most in the better of two precisions, within a budget of bytes, and the others in the cheaper one. Here it is seen at work, window by window.", m.w, 6)...)
	lines = append(lines, "")
	switch {
	case w.Running:
		text := TierStage(w.Progress.Stage)
		if w.Progress.Of > 0 {
			text += fmt.Sprintf(": %s of %s tokens", thousands(w.Progress.Done), thousands(w.Progress.Of))
			lines = append(lines, th.Accent.Render("▶ ")+text, progressBar(th, float64(w.Progress.Done)/float64(w.Progress.Of), min(m.w, 40)))
			break
		}
		lines = append(lines, th.Accent.Render("▶ ")+text)
	case w.runOff() != "":
		lines = append(lines, wrappedTo(th.Dim, w.runOff(), m.w, 3)...)
	default:
		lines = append(lines, th.Accent.Render("R")+th.Dim.Render(" runs one; ")+th.Accent.Render("t")+th.Dim.Render(" goes back to the metric"))
	}
	if w.Err != "" && !w.Running {
		lines = append(append(lines, ""), wrappedTo(th.Bad, "✗ "+Clean(w.Err), m.w, max(m.h-len(lines)-1, 1))...)
	}
	return lines
}

// legend says what the cells mean.
func (m *tierMap) legend(r *sessions.TierRun) string {
	th := m.scene.Theme
	var parts []string
	if r.Setup.Trace < 2 {
		parts = append(parts, "▆ hot experts of a layer"+th.Dim.Render(", not which"))
	} else {
		if m.heat.tier.top > 0 {
			s := Scale{Hi: float64(m.heat.tier.top)}
			parts = append(parts, th.Dim.Render("score 0 ")+th.rampBar(s, min(8, max(m.w/12, 3)))+" "+compact(s.Hi))
		}
		parts = append(parts,
			glyphHot+th.Dim.Render(" hot"), glyphCold+th.Dim.Render(" cold"),
			th.paint(glyphUp, th.ink.accent)+th.Dim.Render(" promoted"), th.paint(glyphDown, th.ink.accent)+th.Dim.Render(" evicted"))
	}
	line := parts[0]
	for _, p := range parts[1:] {
		if Width(line)+3+Width(p) > m.w {
			break
		}
		line += "   " + p
	}
	if _, experts, _ := m.heat.Stride(); experts > 1 {
		if add := th.Dim.Render(fmt.Sprintf("   a cell is %d experts", experts)); Width(line)+Width(add) <= m.w {
			line += add
		}
	}
	return Truncate(line, m.w)
}

// words say what the map cannot show, and why; "" where that is nothing.
func (m *tierMap) words(r *sessions.TierRun, a *tierArm) string {
	th := m.scene.Theme
	w := a.newest()
	switch {
	case m.scene.Tier.Err != "" && !m.scene.Tier.Running:
		return th.Bad.Render(Truncate("✗ "+Clean(m.scene.Tier.Err), m.w))
	case r.Setup.Trace < 2:
		return th.Warn.Render(fitting(m.w,
			"trace 1 keeps counts by layer: single experts are not known; trace 2 keeps every move",
			"trace 1: single experts are not known; trace 2 keeps moves", "single experts: trace 2"))
	case w == nil && len(r.Windows) == 0:
		return th.Dim.Render(fitting(m.w, "no window yet: the budget is filled before it is known who is asked", "no window yet"))
	case w == nil:
		return th.Dim.Render(fitting(m.w, "this budget has not been run yet", "not run yet"))
	case a.lost > 0:
		return th.Bad.Render(Truncate(fmt.Sprintf("%s of experts that the model lacks", plural(a.lost, "move")), m.w))
	}
	if hot := countHot(a.hot); hot != w.Hot {
		return th.Bad.Render(Truncate(fmt.Sprintf("the moves lead to %d hot experts, the window says %d", hot, w.Hot), m.w))
	}
	return ""
}

func countHot(hot []bool) (n int) {
	for _, h := range hot {
		if h {
			n++
		}
	}
	return n
}

// HandleKey moves the cursor and chooses budget and run.
func (m *tierMap) HandleKey(k tea.KeyMsg) (handled bool, cmd tea.Cmd) {
	s := m.scene
	r := s.TierRun()
	key := k.String()
	switch {
	case key == "R":
		s.askTier(TierDialog)
		return true, nil
	case r == nil:
		return false, nil
	}
	m.sync()
	far := m.heat.grid.Tensors() + 1
	to := m.cursor(r)
	switch key {
	case "left", "h":
		to = m.heat.Move(-1, 0)
	case "right", "l":
		to = m.heat.Move(1, 0)
	case "up", "k":
		to = m.heat.Move(0, -1)
	case "down", "j":
		to = m.heat.Move(0, 1)
	case "home":
		to = m.heat.Move(-far, 0)
	case "end":
		to = m.heat.Move(far, 0)
	case "pgup":
		to = m.heat.Move(0, -far)
	case "pgdown":
		to = m.heat.Move(0, far)
	case ">":
		s.SetTierBudget((s.tierBudget(r) + 1) % len(r.Setup.Budgets))
	case "<":
		s.SetTierBudget((s.tierBudget(r) + len(r.Setup.Budgets) - 1) % len(r.Setup.Budgets))
	case "f":
		s.SetTierBudget(-1)
	case "n":
		s.showTier((s.Tier.At + 1) % len(s.State.Tiers))
	case "N":
		s.showTier((s.Tier.At + len(s.State.Tiers) - 1) % len(s.State.Tiers))
	default:
		return false, nil
	}
	m.setCursor(to)
	return true, nil
}

// HandleMouse puts the cursor under the pointer.
func (m *tierMap) HandleMouse(x, y int, msg tea.MouseMsg) (handled bool, cmd tea.Cmd) {
	m.sync()
	if m.heat == nil {
		return false, nil
	}
	switch {
	case msg.Action == tea.MouseActionMotion, msg.Action == tea.MouseActionPress && msg.Button == tea.MouseButtonLeft:
		if t, ok := m.heat.At(x, y); ok {
			m.setCursor(t)
			return true, nil
		}
	case msg.Button == tea.MouseButtonWheelUp:
		m.setCursor(m.heat.Move(0, -1))
		return true, nil
	case msg.Button == tea.MouseButtonWheelDown:
		m.setCursor(m.heat.Move(0, 1))
		return true, nil
	}
	return false, nil
}

// Keys lists the keys of the map of a tier.
func (m *tierMap) Keys() []Key {
	s := m.scene
	none, oneRun, follows := "", "", ""
	r := s.TierRun()
	switch {
	case r == nil:
		if none = "no hot tier was run: R runs one"; s.Tier.Running {
			none = "the hot tier begins: it has no budgets yet"
		}
		oneRun, follows = none, none
	default:
		if len(r.Setup.Budgets) < 2 {
			none = "the run has one budget"
		}
		switch {
		case s.Tier.Budget < 0 && r.End != nil:
			follows = "the budget is the one nearest to the knee already"
		case s.Tier.Budget < 0:
			follows = "the budget is that of the newest window already"
		}
		if len(s.State.Tiers) < 2 {
			oneRun = "the session has one run of a hot tier"
		}
	}
	return []Key{
		{Keys: []string{"left", "h", "right", "l"}, Label: "←→ hl", Help: "next expert of the layer"},
		{Keys: []string{"up", "k", "down", "j"}, Label: "↑↓ jk", Help: "next layer"},
		{Keys: []string{"home", "end", "pgup", "pgdown"}, Label: "home end pgup pgdn", Help: "to the edges"},
		{Keys: []string{">"}, Label: ">", Help: "next budget", Disabled: none},
		{Keys: []string{"<"}, Label: "<", Help: "budget before", Disabled: none},
		{Keys: []string{"f"}, Label: "f", Help: "follow the budget that is run, at the end the one nearest to the knee", Disabled: follows},
		{Keys: []string{"n"}, Label: "n", Help: "next run of a tier", Disabled: oneRun},
		{Keys: []string{"N"}, Label: "N", Help: "run of a tier before", Disabled: oneRun},
		{Keys: []string{"R"}, Label: "R", Help: "run a hot tier", Disabled: s.Tier.runOff()},
	}
}
