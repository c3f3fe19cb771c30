package views

import (
	"fmt"

	"quantscope/sessions"
)

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
	want.fits = klFits(a.table, p.w)
	return want
}

// head says what the figures mean, and how far they are of the whole.
func (p *KL) head() []string {
	th, r := p.scene.Theme, p.rows.report
	if r == nil {
		return nil
	}
	lines := 1
	switch {
	case p.w >= klRoomyW && p.h >= klRoomyH:
		lines = 2
	case p.h >= 16:
		lines = 2
	}
	var out []string
	if line := p.running(); line != "" {
		out = append(out, line)
	}
	if p.scene.KL.Err != "" {
		out = append(out, th.Bad.Render(TruncateMiddle("✗ "+Clean(p.scene.KL.Err), p.w)))
	}
	if room := lines - len(out); room > 0 {
		out = append(out, wrappedTo(th.Text, p.sentence(), p.w, room)...)
	}
	return out
}

// running is the line of what is under way, "" where all is scored.
func (p *KL) running() string {
	th, w, y := p.scene.Theme, &p.scene.KL, p.yard()
	if y == nil || p.rows.report == nil {
		return ""
	}
	all, done := 0, len(y.Chunks)
	for i := range y.Setup.Corpora {
		all += len(y.Setup.Corpora[i].IDs)
	}
	of := fmt.Sprintf("%d of %s scored", done, plural(all, "chunk"))
	switch {
	case y.End != nil && y.End.State == sessions.RunFinished && done >= all && !w.Running:
		return ""
	case y.End != nil && !w.Running:
		text := fmt.Sprintf("■ %s: %s", y.End.State, of)
		if y.End.Reason != "" {
			text += ": " + Clean(y.End.Reason)
		}
		return th.Warn.Render(Truncate(text, p.w)) + th.Dim.Render(fitting(p.w-Width(text), "; figures are of those, R goes on", ""))
	case w.Running && w.Paused:
		return th.Warn.Render("‖ paused: "+of) + th.Dim.Render("  space goes on, X ends it")
	case done < all:
		line := th.Accent.Render("▶ ") + th.Text.Render(of+"  ") + th.Accent.Render(Bar(float64(done)/float64(max(all, 1)), 16))
		figures := "  figures are of those"
		if w.Stale && len(p.rows.report.Results) > 0 {
			figures = fmt.Sprintf("  figures are of the first %d", p.rows.report.Results[0].All.Chunks)
		}
		keys := ""
		if w.Running {
			keys = "; space pauses, X ends it"
		}
		return Truncate(line+th.Dim.Render(fitting(p.w-Width(line), figures+keys, figures, "")), p.w)
	case w.Running:
		return th.Accent.Render("▶ ") + th.Text.Render(of+", "+KLStage(w.Progress.Stage))
	}
	return ""
}

// klStages are what a measurement does, in words.
var klStages = map[string]string{
	"opening": "opening checkpoints", "reference": "computing the reference", "candidates": "computing candidates", "scoring": "scoring",
	"probing": "measuring output errors", "bootstrap": "computing intervals",
}

// KLStage says what a measurement does.
func KLStage(s string) string {
	if text := klStages[s]; text != "" {
		return text
	}
	if s == "" {
		return "beginning"
	}
	return Clean(s)
}

// sentence is the verdict on the selected candidate: against its baseline where
// it has one, else against whatever it is paired with, else its figures.
func (p *KL) sentence() string {
	r := p.rows.report
	best := -1
	for i := range r.Pairs {
		pair := &r.Pairs[i]
		if pair.B != p.at && pair.A != p.at {
			continue
		}
		if best < 0 || pair.B == p.at && pair.A == p.rows.party(p.at).Baseline {
			best = i
		}
	}
	if best >= 0 {
		return klSentence(r.Setup, &r.Pairs[best])
	}
	s := &r.Results[p.at].All
	text := fmt.Sprintf("%s: KL %s nats a token over %s", p.label(p.at), klMean(s.KL, s.KLErr), plural(int(s.Positions), "position"))
	if s.Why != "" {
		text += "; " + Clean(s.Why)
	}
	return text + "."
}

// without is the screen before there is a report: what a measurement is, what it
// would take in, and the key that begins it; or what runs, or why nothing can be
// measured.
func (p *KL) without() []string {
	th, w, y := p.scene.Theme, &p.scene.KL, p.yard()
	lines := []string{""}
	if p.h >= 12 {
		lines = append(lines, wrapped(th.Text, "KL divergence says how far predictions are from the reference's. A measurement takes texts through the reference and through every candidate and compares token by token, over the whole vocabulary: how far each is, where it is worst, and what the ruler itself can tell apart (its floor).", p.w)...)
		lines = append(lines, "")
	}
	switch {
	case w.Running:
		lines = append(lines, th.Accent.Render("▶ ")+th.Text.Render(KLStage(w.Progress.Stage)+" "+ellipsis)+p.share())
		if y != nil {
			lines = append(lines, wrapped(th.Dim, "Figures come with the first chunk. "+klMeasured(y), p.w)...)
		}
		return append(lines, wrapped(th.Dim, "space pauses, X ends it", p.w)...)
	case y != nil && len(y.Chunks) > 0:
		return append(lines, wrapped(th.Text, "the report is being computed "+ellipsis, p.w)...)
	}
	if w.Err != "" {
		lines = append(lines, wrapped(th.Bad, "✗ "+Clean(w.Err), p.w)...)
	}
	if y != nil {
		lines = append(lines, wrapped(th.Text, "No chunk was scored yet. "+klMeasured(y), p.w)...)
	}
	if w.Off != "" {
		return append(lines, wrapped(th.Warn, w.Off, p.w)...)
	}
	for _, text := range w.Plan {
		lines = append(lines, wrapped(th.Text, Clean(text), p.w)...)
	}
	return append(append(lines, ""), wrapped(th.Accent, "R measures; c chooses candidates and corpora first", p.w)...)
}

// share is how far what runs is, in per cent with a bar.
func (p *KL) share() string {
	th, g := p.scene.Theme, &p.scene.KL.Progress
	if g.Total <= 0 {
		return ""
	}
	share := min(float64(g.Done)/float64(g.Total), 1)
	return th.Text.Render(fmt.Sprintf("  %3.0f %%  ", 100*share)) + th.Accent.Render(Bar(share, min(24, max(p.w-60, 0))))
}

// klMeasured names what a measurement takes in.
func klMeasured(y *sessions.Yard) string {
	text := ""
	for i := range y.Setup.Candidates {
		if i > 0 {
			text += ", "
		}
		text += Clean(y.Setup.Candidates[i].Label)
	}
	text += " on "
	for i := range y.Setup.Corpora {
		if i > 0 {
			text += ", "
		}
		text += Clean(y.Setup.Corpora[i].Name)
	}
	return text + "."
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
