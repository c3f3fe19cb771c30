package views

import (
	"fmt"
	"math"
	"strings"

	recipes "quantscope/quant/plan"
)

// shareGlyphs tell the parts of a bar of shares apart without colour.
var shareGlyphs = []string{"█", "▓", "▒", "░", "▚", "╳", "┼", "·"}

// sharesBar is how much of all parameters is stored in which scheme: a bar, and
// what its parts are.
func sharesBar(th *Theme, shares []recipes.Share, w int) []string {
	if len(shares) == 0 || w < 10 {
		return nil
	}
	names, list := []string{}, map[string]float64{}
	for i := range shares {
		name := Clean(shares[i].Scheme)
		if _, there := list[name]; !there {
			names = append(names, name)
		}
		list[name] += max(shares[i].ShareParams, 0)
	}
	var bar strings.Builder
	var legend []string
	done, at := 0.0, 0
	for i, name := range names {
		glyph, style := shareGlyphs[i%len(shareGlyphs)], th.VariantStyle(i)
		done += list[name]
		to := min(int(math.Round(min(done, 1)*float64(w))), w)
		if i == len(names)-1 && done > 0.999 {
			to = w
		}
		bar.WriteString(style.Render(strings.Repeat(glyph, max(to-at, 0))))
		at = max(at, to)
		legend = append(legend, style.Render(glyph)+" "+th.Text.Render(name+" ")+th.Dim.Render(roughPercent(list[name])))
	}
	lines := []string{Truncate(bar.String(), w)}
	line := ""
	for _, text := range legend {
		switch {
		case line == "":
			line = text
		case Width(line)+3+Width(text) <= w:
			line += "   " + text
		default:
			lines = append(lines, line)
			line = text
		}
	}
	return append(lines, Truncate(line, w))
}

// patternLines are the patterns of a recipe with what they match.
func patternLines(th *Theme, pl *recipes.Plan, w int) []string {
	tb := Table{Columns: []Column{{Title: "pattern", Width: 8}, {Title: "matches", Align: Right}, {Title: "", Flex: 1, Min: 10, Align: Middle}}}
	tb.Columns[1].Width = len("matches")
	add := func(what string, list []recipes.Pattern) {
		for i := range list {
			tb.Rows = append(tb.Rows, []string{what, matchStyle(th, &list[i]).Render(matchText(&list[i])), Clean(list[i].Pattern)})
			tb.Columns[1].Width = max(tb.Columns[1].Width, len(matchText(&list[i])))
		}
	}
	for i := range pl.Groups {
		add(fmt.Sprintf("group %d", i+1), pl.Groups[i].Targets)
	}
	add("ignore", pl.Ignore)
	add("exempt", pl.Exemptions)
	head, rows := tb.apart(th, w)
	return append([]string{head}, rows...)
}

// coverLines say what becomes of the matrices by kind, and whether all routed
// experts are taken.
func coverLines(th *Theme, pl *recipes.Plan, w int) []string {
	tb := Table{Columns: []Column{
		{Title: "matrices", Width: 14}, {Title: "all", Align: Right, Width: 7}, {Title: "in a group", Align: Right, Width: 10}, {Title: "ignored", Align: Right, Width: 7},
		{Title: "exempted", Align: Right, Width: 8, Drop: 1}, {Title: "in none", Align: Right, Width: 7}, {Title: "params", Align: Right, Width: 8, Drop: 2},
	}}
	row := func(name string, counts [5]int, params int64) {
		cells := []string{name}
		for i, n := range counts {
			text := thousands(n)
			switch {
			case n == 0:
				text = "–"
			case i == 4:
				text = th.Warn.Render(text)
			}
			cells = append(cells, text)
		}
		if params > 0 {
			cells = append(cells, compact(float64(params)))
		}
		tb.Rows = append(tb.Rows, cells)
	}
	for _, c := range pl.Coverage {
		row(strings.ReplaceAll(Clean(c.Kind), "_", " "), [5]int{c.Matrices, c.Targeted, c.Ignored, c.Exempted, c.Untargeted}, c.Params)
	}
	row("all", [5]int{pl.Matrices, pl.Targeted, pl.Ignored, pl.Exempted, pl.Untargeted}, 0)
	head, rows := tb.apart(th, w)
	out := append([]string{head}, rows...)
	if x := pl.Experts; x != nil {
		out = append(append(out, ""), expertLines(th, x, w)...)
	}
	return out
}

// expertLines hold the experts that are targeted against those that there are.
func expertLines(th *Theme, x *recipes.Experts, w int) []string {
	mark, style := "✓", th.Good
	if x.Targeted != x.Expected || len(x.Missing) > 0 {
		mark, style = "×", th.Bad
		if x.Targeted+x.Kept >= x.Expected && len(x.Missing) == 0 {
			mark, style = "·", th.Dim
		}
	}
	text := fmt.Sprintf("%s of %s routed experts' matrices are in groups: %s × %s × %s", thousands(x.Targeted), thousands(x.Expected), plural(x.Layers, "layer"), plural(x.Experts, "expert"), plural(x.Projections, "projection"))
	if x.MTPLayers > 0 {
		text += ", " + plural(x.MTPLayers, "MTP layer")
	}
	if x.Kept > 0 {
		text += fmt.Sprintf("; %s kept by ignore or exemptions", thousands(x.Kept))
	}
	if x.Fused > 0 {
		text += fmt.Sprintf("; %s in tensors that hold all experts", thousands(x.Fused))
	}
	if n := len(x.Missing); n > 0 {
		text += "; missing " + oneLine(strings.Join(x.Missing[:min(n, 8)], ", "))
		if n > 8 {
			text += fmt.Sprintf(" and %s more", thousands(n-8))
		}
	}
	var out []string
	for i, line := range wrapped(th.Text, text, max(w-2, 1)) {
		lead := "  "
		if i == 0 {
			lead = style.Render(mark) + " "
		}
		out = append(out, lead+line)
	}
	return out
}

// memoryLines are what one device holds, and what a token reads.
func memoryLines(th *Theme, pl *recipes.Plan, w int) []string {
	ranks := "one device"
	if n := pl.After.Ranks; n > 1 {
		ranks = fmt.Sprintf("each of %s ranks", thousands(n))
	}
	tb := Table{Columns: []Column{{Title: ranks, Width: 22}, {Title: "before", Align: Right, Width: 10}, {Title: "after", Align: Right, Width: 10}}}
	row := func(name string, before, after int64) {
		tb.Rows = append(tb.Rows, []string{name, sizeText(before), sizeText(after)})
	}
	row("weights", pl.Before.WeightsBytes, pl.After.WeightsBytes)
	if pl.Before.KVBytes+pl.After.KVBytes > 0 {
		row("keys and values", pl.Before.KVBytes, pl.After.KVBytes)
	}
	if pl.Before.StateBytes+pl.After.StateBytes > 0 {
		row("state of one sequence", pl.Before.StateBytes, pl.After.StateBytes)
	}
	if pl.After.LeftOut != nil || pl.DecodeAfter.BytesPerRank > 0 {
		row("a token reads", pl.DecodeBefore.BytesPerRank, pl.DecodeAfter.BytesPerRank)
	}
	if before, after := ceiling(&pl.DecodeBefore), ceiling(&pl.DecodeAfter); after != "" {
		tb.Rows = append(tb.Rows, []string{"tokens/s at most", before, after})
	}
	head, rows := tb.apart(th, w)
	out := append([]string{head}, rows...)
	if pl.DecodeAfter.TokensPerSec == 0 && pl.DecodeAfter.BytesPerRank > 0 {
		out = append(out, wrapped(th.Dim, "tokens/s: at batch 1, for a memory of 1 TB/s; quantscope plan --bandwidth, --ranks and --kv-tokens say it for yours", w)...)
	}
	f := fields{th: th, w: w}
	f.add("loader", th.Text, Clean(pl.After.Loader))
	for _, part := range pl.After.LeftOut {
		f.add("left out", th.Text, fmt.Sprintf("%s, %s: %s", Clean(part.Name), sizeText(part.Bytes), oneLine(part.Why)))
	}
	for _, note := range pl.After.Notes {
		f.add("note", th.Text, oneLine(note))
	}
	return append(out, f.lines...)
}

// ceiling is how many tokens a second a device can read at most: at the bandwidth
// of the plan, and else at 1 TB/s.
func ceiling(d *recipes.Decode) string {
	switch {
	case d.BytesPerRank <= 0:
		return ""
	case d.TokensPerSec > 0:
		return thousands(int64(d.TokensPerSec))
	}
	return thousands(int64(1e12 / float64(d.BytesPerRank)))
}

// exportLines say what became of the checkpoints that the session wrote.
func (p *Audit) exportLines(w int) []string {
	th := p.scene.Theme
	if len(p.scene.State.Exports) == 0 {
		return nil
	}
	f := fields{th: th, w: w, lines: []string{""}}
	for _, x := range p.scene.State.Exports {
		style, text := th.Warn, Clean(string(x.State))
		if x.State == "whole" {
			style = th.Good
		}
		f.add("export", style, fmt.Sprintf("%s · %s · %s", text, Clean(x.Layout), Clean(x.Dir)))
	}
	return f.lines
}
