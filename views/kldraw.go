package views

// View draws the screen.
func (p *KL) View() string {
	now := p.drawing()
	if p.drawn != now || p.cached == "" {
		p.refresh()
		p.cached, p.drawn = p.draw(), now
	}
	return p.cached
}

func (p *KL) draw() string {
	if p.w <= 0 || p.h <= 0 {
		return Block(nil, p.w, p.h)
	}
	if p.rows.report == nil || len(p.rows.order) == 0 {
		return Block(p.without(), p.w, p.h)
	}
	l := p.layout()
	blocks := []placed{{l.head, Block(p.arranged().head, l.head.w, l.head.h)}}
	if !l.table.empty() {
		blocks = append(blocks, placed{l.table, p.drawTable(l.table)})
	}
	for part, r := range l.parts {
		if !r.empty() {
			blocks = append(blocks, placed{r, p.drawPart(klPart(part), r.w, r.h)})
		}
	}
	return compose(p.w, p.h, blocks)
}

func (p *KL) drawPart(part klPart, w, h int) string {
	switch part {
	case klSpread:
		return p.drawSpread(w, h)
	case klPlaces:
		return p.drawPlaces(w, h)
	case klWorst:
		return p.drawWorst(w, h)
	case klPosition:
		return p.drawPosition(w, h)
	case klPairs:
		return p.drawPairs(w, h)
	case klWhere:
		return p.drawWhere(w, h)
	case klCorpora:
		return p.drawCorpora(w, h)
	case klGates:
		return p.drawGates(w, h)
	case klAttribution:
		return p.drawAttribution(w, h)
	case klProbes:
		return p.drawProbes(w, h)
	}
	return Block(nil, w, h)
}

// has says whether there is anything to show in a part.
func (p *KL) has(part klPart) bool {
	r := p.rows.report
	if r == nil {
		return part == klWorst
	}
	switch part {
	case klPairs:
		return len(r.Pairs) > 0
	case klWhere:
		return p.at >= 0 && p.at < len(r.Results) && len(r.Results[p.at].Buckets)+len(r.Results[p.at].Classes) > 0
	case klCorpora:
		return len(r.Setup.Corpora) > 1
	case klGates:
		return len(r.Gates) > 0 || r.Sane != nil && r.Sane.Message != ""
	case klAttribution:
		return len(r.Attributed) > 0
	case klProbes:
		return len(r.Probes) > 0
	case klPosition:
		return false // it stands below the list, or fills the screen
	}
	return true
}

// nextPart is the part that o shows next, or O with a negative step: one that
// has something and is not on the screen anyway.
func (p *KL) nextPart(by int) klPart {
	at := p.part
	for range klParts {
		at = (at + klPart(by) + klParts) % klParts
		if p.has(at) && !p.fixed(at) {
			return at
		}
	}
	return p.part
}

// fixed says that a part has a place of its own, whatever is chosen.
func (p *KL) fixed(part klPart) bool {
	if p.w < klRoomyW || p.h < klRoomyH || p.rows.report == nil {
		return false
	}
	l := &p.arranged().fixed
	switch part {
	case klSpread, klPlaces:
		return !l.parts[part].empty()
	case klWorst: // it stands for the tables that have room together
		return l.all
	}
	return p.w >= klWideW && p.h >= klWideH && !l.parts[part].empty()
}

func (p *KL) layout() klLayout { return p.arranged().layout }

// klArranged is what drawing, keys and the mouse all need: it is worked out once
// for what a picture depends on.
type klArranged struct {
	of     klArrangedOf
	head   []string
	table  Table
	layout klLayout
	fixed  klLayout // with nothing chosen
}

type klArrangedOf struct {
	drawing   klDrawing
	at, order int
	level     klLevel
	part      klPart
}

func (p *KL) arranged() *klArranged {
	of := klArrangedOf{p.drawing(), p.at, p.order, p.level, p.part}
	a := &p.memo
	if a.of == of {
		return a
	}
	*a = klArranged{of: of, head: p.head()}
	if p.rows.report != nil {
		a.table = p.klTable(p.w)
	}
	want := p.wants(a)
	a.layout = arrangeKL(p.w, p.h, want)
	want.only, want.full = klParts-1, false
	a.fixed = arrangeKL(p.w, p.h, want)
	return a
}

func (p *KL) drawing() klDrawing {
	return klDrawing{p.version, p.scene.Version, p.scene.Theme, p.scene.KL.Report, p.scene.State, p.w, p.h}
}

// wants is what the parts would like to have.
func (p *KL) wants(a *klArranged) klWants {
	r := p.rows.report
	want := klWants{head: len(a.head), only: p.part, full: p.level == klFull}
	if r == nil {
		return want
	}
	want.rows = len(p.rows.order)
	for part := range klParts {
		want.has[part] = p.has(part)
	}
	side := p.w * 3 / 10
	want.lines[klWorst] = len(p.rows.worst) + 2
	want.lines[klPosition] = len(p.rows.order) + 7
	sentences := 0
	for i := range r.Pairs {
		if r.Pairs[i].A == p.at || r.Pairs[i].B == p.at {
			sentences += 3
		}
	}
	want.lines[klPairs] = len(r.Pairs) + 3 + min(sentences, 6)
	if p.at >= 0 && p.at < len(r.Results) {
		want.lines[klWhere] = len(r.Results[p.at].Buckets) + len(r.Results[p.at].Classes) + 3
	}
	want.lines[klCorpora] = len(p.rows.order) + 1
	want.lines[klGates] = min(len(p.gates(side, false))+1, len(p.gates(side, true))+1)
	want.lines[klAttribution] = len(p.attribution(side)) + 1
	want.lines[klProbes] = len(p.probes()) + 2
	want.fits = klFits(a.table)
	return want
}

// listHeight is how many rows of the list with the keys are seen.
func (p *KL) listHeight() int {
	l := p.layout()
	if p.level == klPositions {
		return max(l.parts[klWorst].h-3, 1)
	}
	return max(l.table.h-1, 1)
}

// rowAt is the row of a list at a cell.
func (p *KL) rowAt(x, y int) (klLevel, int, bool) {
	l := p.layout()
	at := func(r rect, level klLevel, list klList, n, head int) (klLevel, int, bool) {
		from, to := list.window(n, r.h-head+1)
		row := from + y - r.y - head
		return level, row, row >= from && row < to
	}
	switch {
	case l.table.has(x, y):
		return at(l.table, klCandidates, p.table, len(p.rows.order), 1)
	case l.parts[klWorst].has(x, y) && len(p.rows.worst) > 0:
		return at(l.parts[klWorst], klPositions, p.worst, len(p.rows.worst), 2)
	}
	return 0, 0, false
}
