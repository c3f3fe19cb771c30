package views

import (
	"fmt"

	"quantscope/analysis/census"
)

// View draws the screen.
func (p *Audit) View() string {
	now := auditDrawing{p.version, p.scene.Version, p.scene.Theme, p.w, p.h}
	if p.drawn != now || p.cached == "" {
		p.refresh()
		p.cached, p.drawn = p.draw(), now
	}
	return p.cached
}

func (p *Audit) draw() string {
	if p.w <= 0 || p.h <= 0 {
		return Block(nil, p.w, p.h)
	}
	var blocks []placed
	bar := auditBarLines(p.h)
	if bar > 0 {
		line, _ := p.partBar(p.w)
		blocks = append(blocks, placed{rect{0, 0, p.w, 1}, Block([]string{line}, p.w, 1)})
	}
	if p.part != auditCensus {
		return compose(p.w, p.h, append(blocks, p.drawParts()...))
	}
	if p.report() == nil {
		r := rect{0, bar, p.w, p.h - bar}
		return compose(p.w, p.h, append(blocks, placed{r, Block(p.without(), r.w, r.h)}))
	}
	l := p.layout()
	blocks = append(blocks, placed{l.head, Block(p.head(), l.head.w, l.head.h)})
	if !l.findings.empty() {
		blocks = append(blocks, placed{l.findings, p.drawFindings(l.findings)})
	}
	switch wide := !l.beside.empty(); {
	case l.list.empty():
	case len(p.rows.layers) == 0:
	case wide:
		blocks = append(blocks, placed{l.list, p.layerTable(l.list)}, placed{l.beside, p.pairTable(l.beside)})
	case p.level == auditPairs:
		blocks = append(blocks, placed{l.list, p.pairTable(l.list)})
	default:
		blocks = append(blocks, placed{l.list, p.layerTable(l.list)})
	}
	if !l.spread.empty() {
		blocks = append(blocks, placed{l.spread, p.spread(l.spread.w, l.spread.h)})
	}
	if !l.detail.empty() && len(p.rows.layers) > 0 {
		blocks = append(blocks, placed{l.detail, Block(p.detail(l.detail.w), l.detail.w, l.detail.h)})
	}
	return compose(p.w, p.h, blocks)
}

func (p *Audit) layout() auditLayout {
	full := 0
	if n := p.findingsCount(); n > 0 && n <= auditFindingsFull && p.w >= auditWideW {
		full = len(p.findingLines(p.w))
	}
	bar := auditBarLines(p.h)
	l := arrangeAudit(p.w, p.h-bar, auditWants{
		foundFull: full,
		head:      len(p.head()), layers: p.count(auditLayers), pairs: p.count(auditPairs), found: p.findingsCount(),
		level: p.level, spread: len(p.rows.logs) > 0,
	})
	for _, r := range []*rect{&l.head, &l.list, &l.beside, &l.detail, &l.spread, &l.findings} {
		r.y += bar
	}
	return l
}

// without is the screen before there is a census: what runs, or why there is
// none.
func (p *Audit) without() []string {
	th, w, s := p.scene.Theme, &p.scene.Audits, p.scene.Audits.Shown()
	const folder = "o names a checkpoint: a folder, a file or demo"
	switch {
	case w.Off != "":
		return wrapped(th.Text, w.Off, p.w)
	case s == nil:
		return append(wrapped(th.Text, "there is no checkpoint to look at yet", p.w), wrapped(th.Dim, folder, p.w)...)
	case w.Running:
		return append([]string{p.running()}, wrapped(th.Dim, "of "+Clean(s.Path)+"; esc stops it", p.w)...)
	case s.Err != "":
		return append(wrapped(th.Bad, "✗ "+Clean(s.Err), p.w), wrapped(th.Dim, folder+"; R tries this one again", p.w)...)
	}
	return append(wrapped(th.Text, "the scales of "+Clean(s.Path)+" were not looked at yet", p.w), wrapped(th.Dim, "R looks at them; "+folder, p.w)...)
}

// running is the line of what is under way.
func (p *Audit) running() string {
	th, g := p.scene.Theme, p.scene.Audits.Progress
	text := string(g.Step)
	if text == "" {
		text = "opening the checkpoint"
	}
	line := th.Accent.Render("▶ ") + th.Text.Render(text+" …")
	if g.Total > 0 {
		share := float64(g.Done) / float64(g.Total)
		line += th.Text.Render(fmt.Sprintf("  %3.0f %%  ", 100*share)) + progressBar(th, share, min(24, max(p.w-60, 0)))
	}
	return line
}

// head is what the census means, in sentences.
func (p *Audit) head() []string {
	th, s, r := p.scene.Theme, p.scene.Audits.Shown(), p.report()
	if r == nil {
		return nil
	}
	style := th.Text
	switch {
	case r.Differing > 0:
		style = th.Warn
	case r.Pairs > 0:
		style = th.Good
	}
	most := auditHead(p.w, p.h-auditBarLines(p.h))
	sentence := auditSentence(s, r)
	var also []string
	switch {
	case p.scene.Audits.Running:
		also = []string{p.running() + th.Dim.Render("  esc stops it")}
	case s.Err != "":
		also = wrappedTo(th.Bad, "✗ "+Clean(s.Err), p.w, max(most-1, 1))
	case r.Proof != nil:
		also = wrappedTo(th.Text, proofSentence(r), p.w, max(most-1, 1))
	case r.Differing > 0:
		text := p.scene.Audits.proofOff()
		if text == "" {
			text = "p proves it against the master: the error of each as a server decodes it, as stored, and compensated"
		}
		also = wrapped(th.Dim, text, p.w)
		if len(wrapped(style, sentence, p.w))+len(also) > most { // help says it too
			also = nil
		}
	}
	return append(wrappedTo(style, sentence, p.w, max(most-len(also), 1)), also...)
}

// auditSentence says what a census means for who serves the checkpoint.
func auditSentence(s *AuditSubject, r *census.Report) string {
	var text string
	switch {
	case r.Pairs == 0:
		text = r.Note
		if text == "" {
			text = "no second-level scales"
		}
		text += ", so there is nothing that a server could mix up."
		if s.What == AuditOwn {
			text += " This screen audits exports: run with --out DIR, or name one with o."
		}
	case r.Differing == 0:
		text = fmt.Sprintf("0 of %s differ: whatever a server fuses shares one second-level scale.", plural(r.Pairs, "pair"))
	default:
		text = fmt.Sprintf("%s of %s differ in their second-level scale, by ×%s to ×%s, on average ×%s: a server that keeps the first one for all decodes the others off by that.",
			thousands(r.Differing), plural(r.Pairs, "pair"), auditRatio(r.RatioMin), auditRatio(r.RatioMax), auditRatio(r.RatioMean))
	}
	if n := len(r.Left); n > 0 {
		text += fmt.Sprintf(" Not compared: %s.", thousands(n))
	}
	if r.Differing == 0 && len(s.Audit.Findings) == 0 {
		text += " Lint finds nothing."
	}
	return text
}

// proofSentence says what a server makes of what differs.
func proofSentence(r *census.Report) string {
	f := r.Proof
	text := fmt.Sprintf("Against %s, rel_l2 of what differs is %s on average as stored, %s as served (%s at worst), %s compensated", Clean(r.Master),
		number("%.4f", f.Stored), number("%.4f", f.Served), number("%.4f", f.ServedWorst), number("%.4f", f.Compensated))
	if n := f.Clamped + f.Underflowed; n > 0 {
		return text + fmt.Sprintf("; for that %s of %s block scales clamp.", thousands(n), thousands(f.Scales))
	}
	return text + "; for that no block scale clamps."
}
