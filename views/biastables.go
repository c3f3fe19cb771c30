package views

import (
	"fmt"

	"quantscope/analysis/bias"
)

// tag is a candidate's name with its mark and the stroke of its curves.
func (p *Bias) tag(c int) string {
	ink := p.known.inks[c]
	th := p.scene.Theme
	return th.VariantStyle(ink).Render(p.name(c) + " " + th.VariantMark(ink) + strokes[ink%len(strokes)].Horizontal)
}

// name is how a candidate is called in tables.
func (p *Bias) name(c int) string {
	if q := &p.known.report.Setup.Candidates[c]; !q.Floor {
		return Clean(q.Label)
	}
	return klFloorName
}

// drawTable is the table of candidates: weights, the stream after the last layer that
// is there, predictions.
func (p *Bias) drawTable(w, h int) string {
	r := p.known.report
	tb := Table{Cursor: p.at, Marked: true, More: true, Columns: []Column{
		{Title: "candidate", Width: 0, Align: Middle}, {Title: "weights", Align: Right, Drop: 1}, {Title: "bias", Align: Right, Drop: 3}, {Title: "|bias|", Align: Right, Drop: 2},
		{Title: "stream", Align: Right}, {Title: "bias", Align: Right}, {Title: "gain", Align: Right, Drop: 4}, {Title: "shift", Align: Right, Drop: 5}, {Title: "by chance", Align: Right, Drop: 7},
		{Title: "KL ± se", Align: Right}, {Title: "top-1", Align: Right, Drop: 6}, {Title: "b/w", Align: Right, Drop: 8},
	}}
	for c := range r.Setup.Candidates {
		row := []string{p.tag(c), "–", "–", "–", "–", "–", "–", "–", "–", "–", "–", number("%.2f", r.Setup.Candidates[c].BitsPerWeight)}
		if x := r.Total(c); x != nil && x.Tensors > 0 {
			row[1], row[2], row[3] = biasFixed(x.RelL2, errorPlaces), biasFixedSigned(x.Bias, leanPlaces), biasFixed(x.AbsBias, leanPlaces)
		}
		if x := p.newest(c); x != nil {
			row[4], row[5], row[6], row[7], row[8] = biasFixed(x.Rel, errorPlaces), biasFixedSigned(x.Bias, leanPlaces), biasFixedSigned(x.Gain, errorPlaces), biasFixed(x.Shift, errorPlaces), biasFixed(x.Null, errorPlaces)
		}
		if d := r.DivergenceOf(c); d != nil {
			row[9], row[10] = klMean(d.KL, d.StdErr), klShare(d.Top1)
		}
		tb.Rows = append(tb.Rows, row)
	}
	tb.Offset = p.top
	return tb.Render(p.scene.Theme, w, h)
}

// newest is the stream of a candidate after the last layer that is there.
func (p *Bias) newest(c int) *bias.Row {
	for l := p.known.report.Setup.Layers - 1; l >= -1; l-- {
		if row := p.known.report.Row(c, l, bias.Residual); row != nil {
			return row
		}
	}
	return nil
}

// layerName names the layer whose figures are shown.
func (p *Bias) layerName() string {
	if p.layer < 0 {
		return "embeddings"
	}
	return "layer " + thousands(p.layer)
}

// layerLine is the layer's figures of the selected candidate.
func (p *Bias) layerLine(w int) string {
	th := p.scene.Theme
	row := p.known.report.Row(p.at, p.layer, biasPartKeys[p.part])
	head := th.Accent.Render(p.layerName()) + th.Dim.Render(" of "+p.name(p.at)+": ")
	if row == nil {
		return Truncate(head+th.Dim.Render("no figures"), w)
	}
	text := fmt.Sprintf("error %s  bias %s  gain %s  shift %s (by chance %s)", biasText(row.Rel), biasSigned(row.Bias), biasSigned(row.Gain), biasText(row.Shift), biasText(row.Null))
	short := fmt.Sprintf("error %s  bias %s  gain %s  shift %s", biasText(row.Rel), biasSigned(row.Bias), biasSigned(row.Gain), biasText(row.Shift))
	return Truncate(head+th.Text.Render(fitting(w-Width(head), text, short)), w)
}

// drawLayer is the layer's figures of all candidates.
func (p *Bias) drawLayer(w, h int) string {
	th, r := p.scene.Theme, p.known.report
	title := th.Title.Render(p.layerName()) + th.Dim.Render("  "+biasPartNames[p.part])
	tb := Table{Cursor: -1, More: true, Columns: []Column{
		{Title: "candidate", Align: Middle}, {Title: "error", Align: Right}, {Title: "bias", Align: Right}, {Title: "gain", Align: Right, Drop: 2}, {Title: "shift", Align: Right, Drop: 1},
		{Title: "by chance", Align: Right, Drop: 3}, {Title: "not finite", Align: Right, Drop: 4},
	}}
	for c := range r.Setup.Candidates {
		cells := []string{p.tag(c), "–", "–", "–", "–", "–", "–"}
		if row := r.Row(c, p.layer, biasPartKeys[p.part]); row != nil {
			cells = []string{p.tag(c), biasFixed(row.Rel, errorPlaces), biasFixedSigned(row.Bias, leanPlaces), biasFixedSigned(row.Gain, errorPlaces), biasFixed(row.Shift, errorPlaces), biasFixed(row.Null, errorPlaces), thousands(row.NonFinite)}
		}
		tb.Rows = append(tb.Rows, cells)
	}
	return Block([]string{title}, w, 1) + "\n" + tb.Render(th, w, h-1)
}

// drawWeights is how far matrices lean: a bar of the mean |bias| of a candidate's, the
// bias of all, and its codebooks.
func (p *Bias) drawWeights(w, h int) string {
	th, r := p.scene.Theme, p.known.report
	limit := 0.0
	for c := range r.Setup.Candidates {
		if x := r.Total(c); x != nil && isNumber(x.AbsBias) {
			limit = max(limit, x.AbsBias)
		}
	}
	title := th.Title.Render("weights") + th.Dim.Render(fitting(w-8, "  |Σ(q−w)|/Σ|w| of a matrix on average, and over all", "  |bias| of a matrix on average, and over all", ""))
	tb := Table{Cursor: -1, More: true, Columns: []Column{
		{Title: "candidate", Align: Middle}, {Title: "|bias|", Align: Right}, {Title: "by chance", Align: Right, Drop: 1}, {Title: "", Flex: 1, Min: 4, Drop: 4}, {Title: "bias", Align: Right}, {Title: "rows rms", Align: Right, Drop: 3},
		{Title: "positive", Align: Right, Drop: 2},
	}}
	const column = 3
	var of []int
	for c := range r.Setup.Candidates {
		x := r.Total(c)
		if x == nil || x.Tensors == 0 {
			continue
		}
		of = append(of, c)
		tb.Rows = append(tb.Rows, []string{p.tag(c), biasFixed(x.AbsBias, leanPlaces), biasFixed(x.AbsNull, leanPlaces), "", biasFixedSigned(x.Bias, leanPlaces), biasFixed(x.RowRMS, errorPlaces), klPercent(x.Positive)})
	}
	if len(of) == 0 {
		text := "no matrix differs"
		if r.Total(p.at) == nil {
			text = "not all matrices are compared yet"
		}
		return Block([]string{title, th.Dim.Render(Truncate(text, w))}, w, h)
	}
	for i, c := range of {
		share := 0.0
		if v := r.Total(c).AbsBias; limit > 0 && isNumber(v) {
			share = v / limit
		}
		tb.Rows[i][column] = th.VariantStyle(p.known.inks[c]).Render(Bar(share, max(tb.columnWidth(column, w), 0)))
	}
	books := p.books(w)
	n := min(len(of)+1, h-1)
	if h-1-n < 2 {
		books = nil
	}
	block := Block([]string{title}, w, 1) + "\n" + tb.Render(th, w, n)
	if rest := h - 1 - n; rest > 0 {
		block += "\n" + Block(books, w, rest)
	}
	return block
}

// books list the codebooks of candidates that have any, under a heading.
func (p *Bias) books(w int) []string {
	th, r := p.scene.Theme, p.known.report
	var out []string
	for c := range r.Setup.Candidates {
		x := r.Total(c)
		if x == nil || len(x.Books) == 0 {
			continue
		}
		if out == nil {
			out = append(out, "", th.Title.Render("codebooks")+th.Dim.Render("  ×matrices"))
		}
		tag := p.tag(c) + "  "
		list := BiasBooks(x.Books)
		for n := len(x.Books); Width(tag)+Width(list) > w && n > 1; {
			n--
			list = BiasBooks(x.Books[:n]) + fmt.Sprintf(", %d more", len(x.Books)-n)
		}
		out = append(out, Truncate(tag+th.Text.Render(list), w))
	}
	return out
}
