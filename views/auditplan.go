package views

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/lipgloss"

	recipes "quantscope/quant/plan"
	"quantscope/sessions"
)

// recipe is the one whose plan is shown: what the person chose, else that of the
// variant that is shown; nil where the session follows none.
func (p *Audit) recipe() (r *sessions.RecipeRun, at, of int) {
	all := p.scene.State.Recipes
	of = len(all)
	if of == 0 {
		return nil, 0, 0
	}
	at = p.planAt
	if at < 0 || at >= of {
		at = of - 1
		for i := range all {
			if all[i].Variant == p.scene.Variant {
				at = i
			}
		}
	}
	if all[at].Plan == nil {
		return nil, 0, 0
	}
	return all[at], at, of
}

// planItems are the groups of the recipe, what it keeps, and the plan's findings.
func (p *Audit) planItems() []auditItem {
	r, _, _ := p.recipe()
	if r == nil {
		return nil
	}
	of := make([][]int, len(r.Plan.Groups)+1) // the last one is what is kept
	for t, g := range r.Of {
		if g < 0 || g >= len(r.Plan.Groups) {
			g = len(r.Plan.Groups)
		}
		of[g] = append(of[g], t)
	}
	var out []auditItem
	for i := range r.Plan.Groups {
		out = append(out, groupItem(&r.Plan.Groups[i], i, of[i], r.Variant))
	}
	for i := range r.Plan.Kept {
		out = append(out, keptItem(&r.Plan.Kept[i], r, p.scene.State, of[len(of)-1]))
	}
	for i := range r.Plan.Findings {
		out = append(out, p.planItem(&r.Plan.Findings[i], r.Variant))
	}
	return out
}

// storedName is how a group is stored: its scheme with methods.
func storedName(s *recipes.Share) string {
	if s.Variant != "" {
		return Clean(s.Variant)
	}
	return Clean(s.Scheme)
}

func groupItem(g *recipes.Group, i int, tensors []int, variant int) auditItem {
	item := auditItem{title: fmt.Sprintf("group %d · %s", i+1, storedName(&g.Share)), tensors: tensors, variant: variant}
	if len(tensors) == 0 {
		item.off = "the session measures no matrix of this group"
	}
	item.body = func(th *Theme, w int) []string {
		f := fields{th: th, w: w}
		f.add("scheme", th.Title, Clean(g.Scheme))
		_, methods, has := strings.Cut(g.Variant, "+")
		switch {
		case has:
			f.add("methods", th.Text, Clean(strings.ReplaceAll(methods, "+", ", ")))
		default:
			f.add("methods", th.Text, "rtn, round to nearest")
		}
		f.add("matrices", th.Text, fmt.Sprintf("%s, %s parameters, %s of all", thousands(g.Matrices), compact(float64(g.Params)), roughPercent(g.ShareParams)))
		f.add("bytes", th.Text, fmt.Sprintf("%s → %s, %s bits a weight", sizeText(g.BytesBefore), sizeText(g.BytesAfter), number("%.2f", g.BitsPerWeight)))
		for k, t := range g.Targets {
			label := ""
			if k == 0 {
				label = "targets"
			}
			f.name(label, matchStyle(th, &t), matchLead(&t), Clean(t.Pattern))
		}
		return f.lines
	}
	return item
}

func keptItem(s *recipes.Share, r *sessions.RecipeRun, st *sessions.State, kept []int) auditItem {
	item := auditItem{title: "kept · " + Clean(s.Scheme), variant: r.Variant}
	for _, t := range kept {
		if t < len(st.Tensors) && strings.EqualFold(st.Tensors[t].DType, s.Scheme) {
			item.tensors = append(item.tensors, t)
		}
	}
	if len(item.tensors) == 0 {
		item.off = "the session measures no matrix that the recipe keeps in " + Clean(s.Scheme)
	}
	item.body = func(th *Theme, w int) []string {
		f := fields{th: th, w: w}
		f.add("stored", th.Title, "as the source has it, byte for byte")
		f.add("matrices", th.Text, fmt.Sprintf("%s, %s parameters, %s of all", thousands(s.Matrices), compact(float64(s.Params)), roughPercent(s.ShareParams)))
		f.add("bytes", th.Text, sizeText(s.BytesAfter))
		for k, t := range r.Plan.Ignore {
			label := ""
			if k == 0 {
				label = "ignore"
			}
			f.name(label, matchStyle(th, &t), matchLead(&t), Clean(t.Pattern))
		}
		for k, t := range r.Plan.Exemptions {
			label := ""
			if k == 0 {
				label = "exempt"
			}
			f.name(label, matchStyle(th, &t), matchLead(&t), Clean(t.Pattern))
		}
		return f.lines
	}
	return item
}

// matchLead is what a pattern matches, before the pattern.
func matchLead(p *recipes.Pattern) string {
	text := matchText(p)
	return FitRight(text, max(Width(text), 6)) + "  "
}

// matchText is what a pattern matches.
func matchText(p *recipes.Pattern) string {
	switch {
	case p.Matches > 0:
		return thousands(p.Matches)
	case p.Modules > 0:
		return plural(p.Modules, "module")
	}
	return "nothing!"
}

func matchStyle(th *Theme, p *recipes.Pattern) lipgloss.Style {
	if p.Matches == 0 && p.Modules == 0 {
		return th.Bad
	}
	return th.Text
}

// planDoc is the plan in full, in lines of w cells.
func (p *Audit) planDoc(w int, items []auditItem) auditDoc {
	th := p.scene.Theme
	var d auditDoc
	r, _, _ := p.recipe()
	if r == nil {
		d.say(wrapped(th.Text, "The session follows no recipe, so there is no plan.", w)...)
		d.say(wrapped(th.Dim, "quantscope quantize CHECKPOINT --recipe NAME runs one and shows here what it asks for; quantscope plan proves one without running it.", w)...)
		d.say(p.exportLines(w)...)
		return d
	}
	pl := r.Plan
	d.say(wrapped(th.Text, fmt.Sprintf("%s of %s stand in groups; files %s → %s, %s → %s bits a weight.", thousands(pl.Targeted), matrices(pl.Matrices),
		sizeText(pl.BytesBefore), sizeText(pl.BytesAfter), number("%.2f", pl.BitsBefore), number("%.2f", pl.BitsAfter)), w)...)
	d.say(sharesBar(th, pl.SchemeShares, w)...)
	d.gap()
	head, rows := planRows(th, r, w-auditMark)
	d.say(spaces(auditMark) + head)
	n := len(pl.Groups) + len(pl.Kept)
	for i := range min(n, len(items)) {
		d.add(rows[i])
	}
	d.gap()
	p.planFindings(&d, pl, items[min(n, len(items)):], w)
	d.gap()
	d.say(patternLines(th, pl, w)...)
	d.gap()
	d.say(coverLines(th, pl, w)...)
	d.gap()
	d.say(memoryLines(th, pl, w)...)
	d.say(p.exportLines(w)...)
	return d
}

// planFindings lists what the plan finds.
func (p *Audit) planFindings(d *auditDoc, pl *recipes.Plan, items []auditItem, w int) {
	th := p.scene.Theme
	if len(items) == 0 {
		d.say(th.Good.Render("✓ ") + th.Text.Render("the plan finds nothing wrong"))
		return
	}
	head, rows := findingRows(th, items, w-auditMark)
	d.say(spaces(auditMark) + head)
	for _, row := range rows {
		d.add(row)
	}
}

// planRows is the table of what is stored how.
func planRows(th *Theme, r *sessions.RecipeRun, w int) (head string, rows []string) {
	tb := Table{Cursor: -1, Columns: []Column{
		{Title: "", Width: 8}, {Title: "stored as", Flex: 1, Min: 10}, {Title: "matrices", Align: Right, Width: 8, Drop: 4}, {Title: "params", Align: Right, Width: 7, Drop: 3},
		{Title: "share", Align: Right, Width: 7}, {Title: "b/w", Align: Right, Width: 5, Drop: 2}, {Title: "before", Align: Right, Width: 7, Drop: 5}, {Title: "after", Align: Right, Width: 7, Drop: 1},
	}}
	add := func(name string, s *recipes.Share, bits string) {
		tb.Rows = append(tb.Rows, []string{name, storedName(s), thousands(s.Matrices), compact(float64(s.Params)), roughPercent(s.ShareParams), bits, sizeText(s.BytesBefore), sizeText(s.BytesAfter)})
	}
	for i := range r.Plan.Groups {
		g := &r.Plan.Groups[i]
		add(fmt.Sprintf("group %d", i+1), &g.Share, number("%.2f", g.BitsPerWeight))
	}
	for i := range r.Plan.Kept {
		add("kept", &r.Plan.Kept[i], "")
	}
	return tb.apart(th, w)
}

// apart is the header and the rows of a table, each a line of w cells.
func (tb Table) apart(th *Theme, w int) (head string, rows []string) {
	if w <= 0 {
		return "", make([]string, len(tb.Rows))
	}
	widths := tb.widths(w)
	titles := make([]string, len(tb.Columns))
	for i, c := range tb.Columns {
		titles[i] = c.Title
	}
	for _, row := range tb.Rows {
		rows = append(rows, tb.line(row, widths))
	}
	return th.Dim.Render(tb.line(titles, widths)), rows
}

// planTitle names the recipe.
func (p *Audit) planTitle() string {
	r, at, of := p.recipe()
	if r == nil {
		return "Audit · plan"
	}
	title := "Audit · plan of recipe " + Clean(r.Plan.Recipe)
	if r.Plan.Recipe == "" {
		title += Clean(r.Name)
	}
	if of > 1 {
		title += " · " + thousands(at+1) + " of " + thousands(of)
	}
	if s := Clean(r.Plan.Summary); s != "" {
		title += " · " + s
	}
	if r.Plan.Layout != "" {
		title += " · for " + Clean(r.Plan.Layout)
	}
	return title
}

func matrices(n int) string {
	if n == 1 {
		return "1 matrix"
	}
	return thousands(n) + " matrices"
}
