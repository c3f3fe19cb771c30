package views

// View draws the pane.
func (p *Bias) View() string {
	run := p.run()
	now := biasDrawing{
		version: p.version, scene: p.scene.Version, theme: p.scene.Theme, state: p.scene.State, run: p.scene.Bias.At, found: biasFound(run),
		ended: run != nil && run.End != nil, w: p.w, h: p.h,
	}
	if p.drawn != now || p.cached == "" {
		p.refresh()
		p.cached, p.drawn = p.draw(), now
	}
	return p.cached
}

func (p *Bias) draw() string {
	if p.w <= 0 || p.h <= 0 {
		return Block(nil, p.w, p.h)
	}
	if p.known.report == nil {
		return Block(p.without(), p.w, p.h)
	}
	l := p.layout()
	blocks := []placed{{l.head, Block(p.head(l.head.h), l.head.w, l.head.h)}}
	if !l.table.empty() {
		blocks = append(blocks, placed{l.table, p.drawTable(l.table.w, l.table.h)})
	}
	if !l.upper.empty() {
		blocks = append(blocks, placed{l.upper, p.drawError(l.upper.w, l.upper.h)})
	}
	if !l.lower.empty() {
		blocks = append(blocks, placed{l.lower, p.drawFigure(l.lower.w, l.lower.h)})
	}
	if !l.foot.empty() {
		blocks = append(blocks, placed{l.foot, Block([]string{p.layerLine(l.foot.w)}, l.foot.w, 1)})
	}
	if !l.figures.empty() {
		blocks = append(blocks, placed{l.figures, p.drawLayer(l.figures.w, l.figures.h)})
	}
	if !l.weights.empty() {
		blocks = append(blocks, placed{l.weights, p.drawWeights(l.weights.w, l.weights.h)})
	}
	return compose(p.w, p.h, blocks)
}
