package views

import (
	"fmt"
	"slices"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/analysis/tier"
	"quantscope/sessions"
)

// tierMore is what a run of a hot tier says in all: its budgets beside each other, hits
// against budget where it has ended, and what moved in the newest window.
type tierMore struct {
	scene *Scene
	of    *tierMap
	w, h  int

	drawn  tierDrawing
	cached string
}

// Title says what is listed.
func (p *tierMore) Title() string { return "budgets and moves" }

// SetSize gives the pane its size.
func (p *tierMore) SetSize(w, h int) { p.w, p.h = max(w, 0), max(h, 0) }

// Apply does nothing: the map counts what is new.
func (p *tierMore) Apply(sessions.Batch) {}

// HandleKey does what it does on the map.
func (p *tierMore) HandleKey(k tea.KeyMsg) (bool, tea.Cmd) { return p.of.HandleKey(k) }

// Keys are those of the map.
func (p *tierMore) Keys() []Key { return p.of.Keys() }

// HandleMouse chooses the budget that is clicked.
func (p *tierMore) HandleMouse(_, y int, msg tea.MouseMsg) (bool, tea.Cmd) {
	r := p.scene.TierRun()
	if r == nil || msg.Action != tea.MouseActionPress || msg.Button != tea.MouseButtonLeft || y < 1 || y > len(r.Setup.Budgets) {
		return false, nil
	}
	p.scene.SetTierBudget(y - 1)
	return true, nil
}

// View draws the pane.
func (p *tierMore) View() string {
	key := p.scene.tierDrawing(p.w, p.h)
	if p.drawn != key {
		p.cached, p.drawn = Block(p.lines(), p.w, p.h), key
	}
	return p.cached
}

func (p *tierMore) lines() []string {
	s, th := p.scene, p.scene.Theme
	r, a := s.tierArm()
	if r == nil {
		return []string{th.Dim.Render("nothing yet")}
	}
	lines := p.table(r)
	if end := r.End; end != nil {
		if room := p.h - len(lines) - 1; end.Curve != nil && room >= 10 {
			lines = append(lines, "")
			lines = append(lines, strings.Split(tierCurve(th, r, s.tierBudget(r), p.w, min(room, 16)), "\n")...)
		}
		text := end.Verdict
		if end.Reason != "" {
			text = end.State + ": " + end.Reason
		}
		if room := p.h - len(lines) - 1; text != "" && room >= 2 {
			lines = append(append(lines, ""), wrappedTo(th.Text, Clean(text), p.w, min(room, 8))...)
		}
	}
	if room := p.h - len(lines) - 1; room >= 3 {
		if moves := p.moves(r, a, room); len(moves) > 0 {
			lines = append(append(lines, ""), moves...)
		}
	}
	return lines
}

// table is the budgets of the run, the shown one marked.
func (p *tierMore) table(r *sessions.TierRun) []string {
	s, th := p.scene, p.scene.Theme
	shown := s.tierBudget(r)
	const cell = 8
	row := func(mark, label string, cells ...string) string {
		line := mark + Fit(label, max(p.w-2-cell*len(cells), 4))
		for _, c := range cells {
			line += FitRight(c, cell)
		}
		return line
	}
	lines := []string{th.Dim.Render(row("  ", "budget", "hot", "hits %", "best %", "churn"))}
	for i, b := range r.Setup.Budgets {
		a := s.Tier.track.arms[i]
		hot, hits, best, churn := "·", "·", "·", "·"
		if w := a.newest(); w != nil {
			n := len(a.windows)
			hot, hits, churn = thousands(w.Hot), fmt.Sprintf("%.1f", a.hitsBetween(0, n)), thousands(a.churn[n])
		}
		if res := resultOf(r, i); res != nil {
			best = fmt.Sprintf("%.1f", 100*res.Best)
		}
		mark, style := "  ", th.Text
		if i == shown {
			mark, style = th.Accent.Render("❯ "), th.Title
		}
		lines = append(lines, mark+style.Render(row("", Clean(b.Label)+" ", hot, hits, best, churn)))
	}
	if res := resultOf(r, shown); res != nil {
		for _, c := range res.Controls {
			lines = append(lines, th.Dim.Render(row("  ", "  "+Clean(c.Name), "", fmt.Sprintf("%.1f", 100*c.Hits), "", "")))
		}
		lines = append(lines, th.Dim.Render(Truncate(fmt.Sprintf("  %s in all, %s with cold copies kept", sizeText(res.Replace), sizeText(res.Beside)), p.w)))
	}
	return lines
}

// resultOf is the result at a budget, nil where there is none.
func resultOf(r *sessions.TierRun, budget int) *tier.Result {
	if r.End == nil {
		return nil
	}
	for _, res := range r.End.Results {
		if res.Budget == budget {
			return res
		}
	}
	return nil
}

// moves are those of the newest window, the hottest first.
func (p *tierMore) moves(r *sessions.TierRun, a *tierArm, room int) []string {
	th := p.scene.Theme
	w := a.newest()
	if w == nil || r.Setup.Trace < 2 {
		return nil
	}
	title := th.Title.Render("moves") + th.Dim.Render(fmt.Sprintf("  of window %d, hottest first", len(a.windows)))
	if len(w.Moves) == 0 {
		return []string{title, th.Dim.Render("none")}
	}
	list := slices.Clone(w.Moves)
	slices.SortStableFunc(list, func(a, b tier.Move) int {
		switch {
		case a.Score > b.Score:
			return -1
		case a.Score < b.Score:
			return 1
		}
		return 0
	})
	const each = 21
	columns := max(p.w/each, 1)
	rows := min((len(list)+columns-1)/columns, room-1)
	lines := []string{title}
	for y := range rows {
		line := ""
		for x := range columns {
			i := x*rows + y
			if i >= len(list) {
				break
			}
			if rest := len(list) - i; x == columns-1 && y == rows-1 && rest > 1 {
				line += th.Dim.Render(Fit(moreText(rest), each))
				break
			}
			m := &list[i]
			mark := th.paint(glyphDown, th.ink.dim)
			if m.Up {
				mark = th.paint(glyphUp, th.ink.accent)
			}
			line += Fit(mark+" "+Fit(fmt.Sprintf("L%d e%d", m.Layer, m.Expert), 10)+th.Dim.Render(compact(m.Score)), each)
		}
		lines = append(lines, line)
	}
	return lines
}
