package views

import (
	"fmt"

	"quantscope/sessions"
)

// effectiveRow is what ran for tensors of a variant, beside what was asked for.
type effectiveRow struct {
	variant int
	sessions.EffectiveShare
	tensors []int // of what fell back; of the others once they were asked for
	asked   bool
}

func (r *effectiveRow) fell() bool { return r.Requested != r.Effective }

// effectiveRows are those of all variants, what fell back first. While a run goes
// on they are counted anew only now and then: that is a look at every tensor.
func (p *Audit) effectiveRows() (rows []effectiveRow, fell int) {
	st := p.scene.State
	key := effectiveKey{st, len(st.Variants), st.LastSeq, st.Progress.State}
	now := p.effective.key
	if late := key.seq - now.seq; key.run == sessions.RunRunning && late >= 0 && late < st.Progress.Total/100 {
		now.seq = key.seq
	}
	if now == key {
		return p.effective.rows, p.effective.fell
	}
	type pairing struct {
		variant              int
		requested, effective string
	}
	tensors := map[pairing][]int{}
	for _, f := range st.Fallbacks() {
		tensors[pairing{f.Variant, f.Requested, f.Effective}] = f.Tensors
	}
	var asked []effectiveRow
	for v := range st.Variants {
		for _, e := range st.EffectiveShares(v) {
			row := effectiveRow{variant: v, EffectiveShare: e, tensors: tensors[pairing{v, e.Requested, e.Effective}]}
			if row.fell() {
				rows = append(rows, row)
			} else {
				asked = append(asked, row)
			}
		}
	}
	fell = len(rows)
	rows = append(rows, asked...)
	p.effective = effectiveMemo{key, rows, fell}
	return rows, fell
}

// effectiveKey is what the accounting depends on.
type effectiveKey struct {
	st       *sessions.State
	variants int
	seq      int64
	run      sessions.RunState
}

type effectiveMemo struct {
	key  effectiveKey
	rows []effectiveRow
	fell int
}

// fallbackItems are what ran instead of what was asked for.
func (p *Audit) fallbackItems() []auditItem {
	st := p.scene.State
	rows, _ := p.effectiveRows()
	var out []auditItem
	for i := range rows {
		r := &rows[i]
		name := Clean(st.Variants[r.variant].Name)
		item := auditItem{variant: r.variant, tensors: r.tensors}
		switch {
		case r.fell():
			item.title = "▽ " + Clean(r.Requested) + " → " + Clean(r.Effective)
		case r.Requested == sessions.SourceArm:
			item.title, item.load = "= kept as the source has it", func() []int { return p.tensorsThat(r) }
		default:
			item.title, item.load = "= "+Clean(r.Requested)+", as requested", func() []int { return p.tensorsThat(r) }
		}
		item.off = "the session has no tensor of this"
		item.body = func(th *Theme, w int) []string {
			f := fields{th: th, w: w}
			f.add("variant", th.VariantStyle(r.variant), name+" "+th.VariantMark(r.variant))
			f.add("requested", th.Text, Clean(r.Requested))
			style := th.Good
			if r.fell() {
				style = th.Warn
			}
			f.add("ran", style, Clean(r.Effective))
			f.add("tensors", th.Text, fmt.Sprintf("%s, %s parameters, %s of all that the session measures", thousands(r.Tensors), compact(float64(r.Params)), roughPercent(r.ShareParams)))
			f.add("why", th.Text, oneLine(r.Why))
			return f.lines
		}
		out = append(out, item)
	}
	return out
}

// tensorsThat are the tensors for which what a row says was requested and ran.
func (p *Audit) tensorsThat(r *effectiveRow) []int {
	if r.asked {
		return r.tensors
	}
	r.asked = true
	st := p.scene.State
	rows, fell := p.effectiveRows()
	other := map[int]bool{}
	for i := range rows[:fell] {
		if rows[i].variant == r.variant {
			for _, t := range rows[i].tensors {
				other[t] = true
			}
		}
	}
	run := st.RecipeOf(r.variant)
	plain := st.Variants[r.variant].Plain()
	for t := range st.Tensors {
		asked := plain
		if run != nil && t < len(run.Of) {
			asked = sessions.SourceArm
			if g := run.Of[t]; g >= 0 && g < len(run.Groups) {
				asked = run.Groups[g].Plain()
			}
		}
		if asked != r.Requested || other[t] {
			continue
		}
		if record, ok := p.scene.Record(r.variant, t); asked == sessions.SourceArm || ok && !record.Failed {
			r.tensors = append(r.tensors, t)
		}
	}
	return r.tensors
}

// fallbackDoc says for all variants what ran of what was requested.
func (p *Audit) fallbackDoc(w int, items []auditItem) auditDoc {
	th, st := p.scene.Theme, p.scene.State
	var d auditDoc
	rows, fell := p.effectiveRows()
	switch {
	case len(rows) == 0:
		d.say(wrapped(th.Text, "Nothing ran yet: there is nothing to hold against what was requested.", w)...)
		d.say(p.exportLines(w)...)
		return d
	case fell == 0:
		d.say(wrapped(th.Good, "None: everything ran as requested.", w)...)
	default:
		n, params := 0, 0.0
		for i := range rows[:fell] {
			n += rows[i].Tensors
			params = max(params, rows[i].ShareParams)
		}
		d.say(wrapped(th.Warn, fmt.Sprintf("Something else ran than was requested for %s; the largest of these is %s of the parameters.", plural(n, "tensor"), roughPercent(params)), w)...)
	}
	d.gap()
	tb := Table{Columns: []Column{
		{Title: "", Width: 1}, {Title: "variant", Width: 18, Drop: 3}, {Title: "requested", Flex: 1, Min: 12}, {Title: "", Width: 1}, {Title: "ran", Flex: 1, Min: 10},
		{Title: "tensors", Align: Right, Width: 7}, {Title: "params", Align: Right, Width: 7, Drop: 2}, {Title: "share", Align: Right, Width: 7},
	}}
	for i := range rows {
		r := &rows[i]
		mark, arrow, ran := th.Good.Render("="), "", th.Dim.Render("as requested")
		if r.fell() {
			mark, arrow, ran = th.Warn.Render("▽"), "→", th.Warn.Render(Clean(r.Effective))
		}
		requested := Clean(r.Requested)
		if r.Requested == sessions.SourceArm {
			requested, ran = "kept as the source has it", ""
		}
		tb.Rows = append(tb.Rows, []string{mark, th.VariantStyle(r.variant).Render(shortenVariant(Clean(st.Variants[r.variant].Name), 18)), requested, arrow, ran, thousands(r.Tensors), compact(float64(r.Params)), roughPercent(r.ShareParams)})
	}
	head, lines := tb.apart(th, w-auditMark)
	d.say(spaces(auditMark) + head)
	for i := range min(len(lines), len(items)) {
		d.add(lines[i])
	}
	d.say(p.exportLines(w)...)
	return d
}
