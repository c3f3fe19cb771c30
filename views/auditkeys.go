package views

import (
	"math"
	"slices"

	tea "github.com/charmbracelet/bubbletea"
)

// Keys lists the keys of the pane.
func (p *Audit) Keys() []Key {
	p.refresh()
	w := &p.scene.Audits
	open := p.openKey()
	back := Key{Keys: []string{"esc"}, Label: "esc", Help: "stop what runs, or back"}
	order := Key{Keys: []string{"s"}, Label: "s", Help: "sort by " + p.nextOrder()}
	only := Key{Keys: []string{"d"}, Label: "d", Help: "pairs that differ, or all"}
	next := Key{Keys: []string{"g"}, Label: "g", Help: "next that differs"}
	find := Key{Keys: []string{"/"}, Label: "/", Help: "filter findings, elsewhere tensors by name"}
	again := Key{Keys: []string{"R"}, Label: "R", Help: "audit anew"}
	proof := Key{Keys: []string{"p"}, Label: "p", Help: "prove against the master what a server does", Disabled: w.proofOff()}
	folder := Key{Keys: []string{"o"}, Label: "o", Help: "name a checkpoint", Disabled: w.Off}
	other := Key{Keys: []string{"n"}, Label: "n", Help: "next checkpoint"}
	before := Key{Keys: []string{"N"}, Label: "N", Help: "checkpoint before"}
	if p.part == auditPlan {
		other.Help, before.Help = "next recipe", "recipe before"
	}
	other.Disabled = p.otherOff()
	before.Disabled = other.Disabled
	p.censusOff(&order, &only, &next)
	if w.Running {
		again.Disabled = "an audit is under way: esc stops it"
	} else if w.Off != "" {
		again.Disabled = w.Off
	}
	keys := []Key{
		open, back,
		{Keys: []string{"tab", "right", "l"}, Label: "tab", Help: "next part: " + auditPartNames[(p.part+1)%auditParts]},
		{Keys: []string{"shift+tab", "left", "h"}, Label: "shift+tab", Help: "part before"},
	}
	for part, help := range [auditParts]string{"census of fused pairs", "findings", "plan of the recipe", "fallbacks: what ran of what was requested"} {
		key := Key{Keys: []string{auditPartKeys[part]}, Label: auditPartKeys[part], Help: help}
		if auditPart(part) == p.part && !p.opened {
			key.Disabled = "it is shown already"
		}
		keys = append(keys, key)
	}
	return append(keys, find, proof, folder, next, order, only, other, before, again,
		Key{Keys: []string{"up", "k"}, Label: "↑ k", Help: "row above"},
		Key{Keys: []string{"down", "j"}, Label: "↓ j", Help: "row below"},
		Key{Keys: []string{"pgup", "ctrl+b"}, Label: "pgup", Help: "a page up"},
		Key{Keys: []string{"pgdown", "ctrl+f"}, Label: "pgdn", Help: "a page down"},
		Key{Keys: []string{"home"}, Label: "home", Help: "first row"},
		Key{Keys: []string{"end"}, Label: "end", Help: "last row"},
	)
}

// openKey is what enter does.
func (p *Audit) openKey() Key {
	open := Key{Keys: []string{"enter"}, Label: "enter", Help: "pairs of the layer"}
	if p.part != auditCensus {
		item := p.item()
		switch {
		case item == nil:
			open.Help, open.Disabled = "open what is selected", "there is nothing to open"
		case !p.opened:
			open.Help = "open what is selected"
		default:
			open.Help = "show the tensor on the map"
			if len(item.all()) == 0 {
				open.Disabled = item.off
			}
		}
		return open
	}
	if p.level == auditPairs {
		open.Help = "open the tensor"
	}
	switch {
	case len(p.rows.layers) == 0:
		open.Disabled = "there are no pairs"
	case p.level == auditPairs && p.tensor() < 0:
		open.Disabled = "the session does not measure this matrix"
	}
	return open
}

// censusOff says why what sorts and chooses does nothing.
func (p *Audit) censusOff(order, only, next *Key) {
	none := ""
	switch {
	case p.part != auditCensus:
		none = "it is about pairs: c shows the census"
	case len(p.rows.layers) == 0:
		none = "there are no pairs"
	}
	order.Disabled, only.Disabled, next.Disabled = none, none, none
	switch {
	case p.part == auditFindings && p.opened:
		order.Disabled = "esc leads back to the list"
	case p.part == auditFindings:
		order.Disabled = ""
		if p.findingsCount() == 0 {
			order.Disabled = "there are no findings"
		}
	case p.part != auditCensus:
		order.Disabled = "only the census and findings can be sorted"
	}
	if r := p.report(); none == "" && r.Differing == 0 {
		only.Disabled, next.Disabled = "all pairs are equal", "all pairs are equal"
	}
}

// otherOff is why there is no other checkpoint, or no other plan.
func (p *Audit) otherOff() string {
	if p.part == auditPlan {
		if len(p.scene.State.Recipes) < 2 {
			return "the session follows no other recipe"
		}
		return ""
	}
	if len(p.scene.Audits.Subjects) < 2 {
		return "there is one checkpoint: o names another"
	}
	return ""
}

// HandleKey acts on the keys that Keys lists.
func (p *Audit) HandleKey(k tea.KeyMsg) (bool, tea.Cmd) {
	p.refresh()
	key := k.String()
	if part := slices.Index(auditPartKeys[:], key); part >= 0 {
		p.showPart(auditPart(part))
		return true, nil
	}
	switch key {
	case "tab", "right", "l":
		p.showPart((p.part + 1) % auditParts)
	case "shift+tab", "left", "h":
		p.showPart((p.part + auditParts - 1) % auditParts)
	case "esc":
		return p.leave(), nil
	case "p":
		if p.scene.Audits.proofOff() != "" {
			return false, nil
		}
		p.scene.ask(AskProof)
	case "o":
		p.scene.ask(AskFolder)
	case "R":
		p.scene.ask(AskAgain)
	case "n":
		return p.other(1), nil
	case "N":
		return p.other(-1), nil
	case "s":
		p.sort()
	default:
		if p.part != auditCensus {
			if key == "enter" {
				return p.openItem(), nil
			}
			return p.step(key), nil
		}
		return p.censusKey(key), nil
	}
	return true, nil
}

// censusKey acts on the keys of the census.
func (p *Audit) censusKey(key string) bool {
	l := &p.lists[p.level]
	page := max(p.listHeight()-1, 1)
	switch key {
	case "enter":
		return p.enter()
	case "g":
		return p.nextDiffering()
	case "d":
		p.only = !p.only
		p.lists[auditPairs].selected, p.lists[auditPairs].top = 0, 0
		p.version++
	case "up", "k":
		p.moveTo(l.selected - 1)
	case "down", "j":
		p.moveTo(l.selected + 1)
	case "pgup", "ctrl+b":
		p.moveTo(l.selected - page)
	case "pgdown", "ctrl+f":
		p.moveTo(l.selected + page)
	case "home":
		p.moveTo(math.MinInt32)
	case "end":
		p.moveTo(math.MaxInt32)
	default:
		return false
	}
	return true
}

// other shows another checkpoint, or in the plan another recipe.
func (p *Audit) other(step int) bool {
	if p.otherOff() != "" {
		return false
	}
	if p.part == auditPlan {
		_, at, of := p.recipe()
		p.planAt = (at + step + of) % max(of, 1)
		p.pages[auditPlan], p.opened = auditPager{}, false
		p.version++
		return true
	}
	n := len(p.scene.Audits.Subjects)
	p.scene.showAudit((p.scene.Audits.At + step + n) % n)
	return true
}

// sort goes on to the next order of what is listed.
func (p *Audit) sort() {
	switch p.part {
	case auditFindings:
		p.order = (p.order + 1) % len(findingOrders)
		p.pages[auditFindings] = auditPager{}
	case auditCensus:
		l := &p.lists[p.level]
		l.order = (l.order + 1) % len(p.orders())
		l.selected, l.top = 0, 0
	default:
		return
	}
	p.version++
}
