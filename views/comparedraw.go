package views

import (
	"fmt"
	"strings"

	"quantscope/analysis/calibrate"
	"quantscope/sessions"
)

// View draws the screen.
func (p *Compare) View() string {
	now := compareDrawing{p.version, p.scene.Version, p.scene.Theme, p.scene.State, p.w, p.h}
	if p.drawn != now || p.cached == "" {
		p.cached, p.drawn = p.draw(), now
	}
	return p.cached
}

func (p *Compare) draw() string {
	th := p.scene.Theme
	a, b, ok := p.sides()
	switch {
	case !ok:
		return Block([]string{th.Dim.Render(Truncate("no two variants to compare yet", p.w))}, p.w, p.h)
	case p.scene.Baseline == p.scene.Variant:
		text := "A and B are both " + Clean(a.Name) + ": choose another baseline with b, or another variant with v"
		return Block(wrapped(th.Text, text, p.w), p.w, p.h)
	}
	p.refresh()
	layout := p.layout()
	blocks := []placed{{layout.head, p.head(a, b, layout.head)}, {layout.cursor, p.underCursor(layout.cursor)}}
	for part, r := range layout.parts {
		if !r.empty() {
			blocks = append(blocks, placed{r, p.drawPart(comparePart(part), r, a, b)})
		}
	}
	return compose(p.w, p.h, blocks)
}

func (p *Compare) drawPart(part comparePart, r rect, a, b *sessions.Variant) string {
	th, s := p.scene.Theme, p.scene
	switch part {
	case compareA:
		return p.drawMap(0, "A  "+th.VariantTag(a.Name, a.ID), r)
	case compareB:
		return p.drawMap(1, "B  "+th.VariantTag(b.Name, b.ID), r)
	case compareDiff:
		unit := p.pairs.change.unit
		name := strings.TrimSuffix(p.pairs.metric.Name+", "+unit, ", ")
		if p.showsTrade() {
			unit, name = "%", tradeMetric+", %"
		}
		_, short := p.maps[2].Over()
		return p.drawMap(2, th.Title.Render("B − A")+th.Dim.Render("  "+fitting(r.w-Width("B − A    "+short), name, unit)), r)
	case comparePaired:
		return Block(pairedTable(th, &p.pairs, s.KL.of(a.Name, b.Name), a, b, r.w), r.w, r.h)
	case compareWorst:
		return worstTable(th, &p.pairs, s.State.Tensors, s.Cursor, r.w, r.h)
	case compareScatter:
		return Block(strings.Split(scatterChart(th, &p.pairs, s.Cursor, b.ID, r.w, r.h), "\n"), r.w, r.h)
	case compareSpread:
		return Block(strings.Split(spreadChart(th, &p.pairs, b.ID, r.w, r.h), "\n"), r.w, r.h)
	case compareTradeTable:
		return tradeTable(th, &p.trades, s.State.Tensors, s.Cursor, r.w, r.h)
	case compareTradeChart:
		return Block(strings.Split(tradeChart(th, &p.trades, s.Cursor, a.ID, b.ID, r.w, r.h), "\n"), r.w, r.h)
	case compareTradeSums:
		return tradeSums(th, &p.trades, a, b, r.w, r.h)
	case comparePlaces:
		layer := -1
		if s.Cursor >= 0 && s.Cursor < len(s.State.Tensors) {
			layer = p.pairs.places.layer(s.Cursor)
		}
		return comparePlacesTable(th, &p.pairs, p.pairs.places.projectionIndex(s.Projection), layer, r.w, r.h)
	}
	return ""
}

// drawMap draws one of the maps under its title. Where a cell stands for several
// tensors it shows the worst of them: of B − A the change that is most for the
// worse, whatever the values on either side. The map's title says so, or where it
// has no room the screen's.
func (p *Compare) drawMap(i int, title string, r rect) string {
	if words, short := p.maps[i].Over(); words != "" {
		title += p.scene.Theme.Dim.Render(fitting(r.w-Width(title), "  "+words, "  "+short, ""))
	}
	lines := []string{title}
	n, legend := mapParts(r.h)
	if n > 0 {
		lines = append(lines, strings.Split(p.maps[i].View(), "\n")...)
	}
	if legend {
		text := p.pairs.metric.text
		in := func(format string) func(float64) string {
			return func(v float64) string { return number(format, v) }
		}
		trade := p.showsTrade()
		switch {
		case trade && i == 2:
			text = in("%+.1f")
		case trade:
			text = func(v float64) string { return floatWords(calibrate.Float(v)) }
		case i == 2:
			text = in(p.pairs.change.format)
		}
		lines = append(lines, p.maps[i].Legend(text, r.w))
	}
	return Block(lines, r.w, r.h)
}

// head says who is compared and, in one line, the outcome.
func (p *Compare) head(a, b *sessions.Variant, r rect) string {
	th, o := p.scene.Theme, &p.pairs.outcome
	who := th.Dim.Render("A ") + th.VariantTag(a.Name, a.ID) + th.Dim.Render("   B ") + th.VariantTag(b.Name, b.ID)
	trade := p.showsTrade()
	switch {
	case p.layout().small && trade:
		who += th.Dim.Render("   " + comparePartNames[tradeParts[p.at]])
	case p.layout().small:
		who += th.Dim.Render("   " + comparePartNames[p.part])
	}
	outcome := o.coverage()
	if p.pairs.metric.Worse != 0 {
		outcome += fmt.Sprintf("  B wins %s, loses %s", thousands(o.by.Wins), thousands(o.by.Losses))
		if o.by.Ties > 0 {
			outcome += fmt.Sprintf(", ties %s", thousands(o.by.Ties))
		}
	}
	outcome += fmt.Sprintf("  mean rel2 %s  p %s", relative(o.rel2.Change()), pValue(o.test.Log10P))
	if short := relative(o.sizeChange(a, b)); a.BitsPerWeight != b.BitsPerWeight && short != "–" {
		size := short + " (" + o.sizeWords() + ")"
		who += fitting(r.w-Width(who), th.Dim.Render("   size ")+size, th.Dim.Render("   size ")+short, "")
	}
	if !p.layout().small {
		text := compareSentence(a, b, o, p.pairs.metric.Name)
		if trade {
			text = p.trades.sentence(a, b)
		}
		if kl := p.scene.KL.of(a.Name, b.Name); kl != nil {
			plain := strings.TrimSuffix(text, ".")
			for _, said := range []string{"; " + kl.sentence() + ".", "; KL " + kl.words() + ".", "; KL " + kl.means() + "."} {
				if len(wrapped(th.Text, plain+said, r.w)) <= r.h {
					text = plain + said
					break
				}
			}
		}
		return Block(wrapped(th.Text, text, r.w), r.w, r.h)
	}
	if l := &p.trades; trade {
		outcome = fmt.Sprintf("mean weight error² %s  output error² %s  falls on %s of %s", relative(quotient(l.relB-l.relA, l.relA)), relative(quotient(l.outB-l.outA, l.outA)), thousands(l.lower), thousands(l.n))
	}
	if kl := p.scene.KL.of(a.Name, b.Name); kl != nil {
		outcome += fitting(r.w-Width(outcome), "  KL "+kl.words(), "  KL "+kl.means(), "")
	}
	return Block([]string{who, th.Text.Render(outcome)}, r.w, r.h)
}

// compareSentence says what the table means.
func compareSentence(a, b *sessions.Variant, o *comparison, metric string) string {
	if o.by.N == 0 && o.total > 0 && o.missing == 0 {
		return fmt.Sprintf("%s against %s: no tensor has %s under both.", Clean(b.Name), Clean(a.Name), metric)
	}
	if o.by.N == 0 {
		return fmt.Sprintf("%s against %s: no tensor is measured under both yet.", Clean(b.Name), Clean(a.Name))
	}
	change := o.rel2.Change()
	verb := "changes"
	switch {
	case change < 0:
		verb = "lowers"
	case change > 0:
		verb = "raises"
	}
	text := fmt.Sprintf("%s %s mean rel2 by %s against %s", Clean(b.Name), verb, strings.TrimLeft(relative(change), "+−"), Clean(a.Name))
	if change == 0 {
		text = fmt.Sprintf("%s has the mean rel2 of %s", Clean(b.Name), Clean(a.Name))
	}
	if size := relative(o.sizeChange(a, b)); a.BitsPerWeight != b.BitsPerWeight && size != "–" {
		text += " at size " + size
		if words := o.sizeWords(); words != "–" {
			text += " (" + words + ")"
		}
	}
	switch n := o.by.Wins + o.by.Ties + o.by.Losses; {
	case n > 0 && o.by.Ties == n:
		text += fmt.Sprintf("; by %s none of %s differs", metric, plural(n, "tensor"))
	case n > 0:
		text += fmt.Sprintf("; by %s it is better on %s of %s", metric, thousands(o.by.Wins), plural(n, "tensor"))
		if o.by.Losses > 0 {
			text += fmt.Sprintf(" and worse on %s", thousands(o.by.Losses))
		}
	}
	if o.missing > 0 {
		text += fmt.Sprintf("; %s not measured yet", thousands(o.missing))
	}
	return text + "."
}

// underCursor is the tensor under the cursor on both sides.
func (p *Compare) underCursor(r rect) string {
	s, th := p.scene, p.scene.Theme
	if r.empty() {
		return ""
	}
	t := s.Cursor
	if t < 0 || t >= len(s.State.Tensors) {
		return Block([]string{th.Dim.Render("no tensor under the cursor")}, r.w, r.h)
	}
	name := th.Title.Render(TruncateMiddle(Clean(s.State.Tensors[t].Name), r.w))
	c := &p.pairs
	figure := func(col *column) string {
		switch {
		case col.states[t] == NotYet:
			return "not yet"
		case col.states[t] == Failed:
			return "failed"
		case col.states[t] == Absent:
			return "none"
		case !isNumber(col.metric[t]):
			return "not finite"
		}
		return c.metric.text(col.metric[t])
	}
	step := signed(c.change.format, c.change.of(c.left.metric[t], c.right.metric[t]))
	if c.change.unit != "" && step != "–" {
		step += " " + c.change.unit
	}
	if r.h < 5 {
		line := fmt.Sprintf("%s  A %s  B %s  B − A %s", c.metric.Name, figure(&c.left), figure(&c.right), step)
		if x := p.trades.row(t); p.showsTrade() && x != nil {
			line = fmt.Sprintf("weights %s → %s  output %s → %s  B/A %s", tradeText(x.relA), tradeText(x.relB), tradeText(x.outA), tradeText(x.outB), ratioOf(x.ratio))
		}
		return Block([]string{name, th.Text.Render(Truncate(line, r.w))}, r.w, r.h)
	}
	lines := []string{name}
	rows := [][2]string{{c.metric.Name + ", A", figure(&c.left)}, {c.metric.Name + ", B", figure(&c.right)}, {"B − A", step}}
	if p.showsTrade() {
		rows = [][2]string{{"no figure of calibration", ""}}
		if x := p.trades.row(t); x != nil {
			rows = append(rows[:0], [2]string{"weight error²", tradeText(x.relA) + " → " + tradeText(x.relB)}, [2]string{"output error²", tradeText(x.outA) + " → " + tradeText(x.outB)}, [2]string{"  B/A", ratioOf(x.ratio)})
		}
	}
	for _, row := range rows {
		lines = append(lines, th.Dim.Render(Fit(row[0], max(r.w-Width(row[1]), 0)))+th.Text.Render(row[1]))
	}
	return Block(lines, r.w, r.h)
}
