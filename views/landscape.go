package views

import (
	"fmt"
	"slices"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/analysis/landscape"
	"quantscope/sessions"
)

// Landscape says whether a variant's errors have a tail worth protecting, what
// protection would cost, and which variant each matrix should have within a
// budget. It computes nothing of this itself: the root asks for reports, prices
// and answers, and while they are made the old picture stays. Lists have no
// cursor of their own: the marked row is the one that the scene's cursor is in,
// so that they go with the other screens.
type Landscape struct {
	scene *Scene
	state *sessions.State // that everything below is of
	w, h  int

	pieces landPieces // of the table, as the root takes them

	reports []landReport // by variant
	pricing *landscape.Pricing
	priced  string // what the pricing is of, or why there is none
	slider  landSlider
	answer  *LandscapeAnswer
	refusal string // why there is no answer
	busy    bool

	protect  string // name of the arm that protects; "" is the source
	part     landPart
	byPlace  bool // levels stand in their order, not the largest effect first
	relative bool // prices stand against the random control
	grain    int  // of landGrains: what has one arm together

	version uint64
	drawn   landDrawing
	cached  string
	rows    map[landPart]landRows // where the lists were drawn last, for the mouse
	errors  landErrors            // of the shown group

	figuresTop, figuresMost int // first figure that is shown, and the last that can be
}

// landReport is what is known of one variant.
type landReport struct {
	report *landscape.Report
	why    string // why there is none
}

// LandscapeAnswer is what a solver says to one budget.
type LandscapeAnswer struct {
	Budget     int64 // that it answers
	Assignment landscape.Assignment
	Arms       []string // by arm
	Controls   []landscape.Curve
	Verdict    string // whether it beats its controls
	Beats      bool   // by more than their spread
}

// landDrawing is all that a picture depends on.
type landDrawing struct {
	version, scene uint64
	theme          *Theme
	state          *sessions.State
	w, h           int
}

// NewLandscape makes the pane.
func NewLandscape(s *Scene) *Landscape {
	return &Landscape{scene: s, state: s.State, byPlace: true, relative: true, rows: map[landPart]landRows{}}
}

// Title says of what the landscape is, and how much of it is known.
func (p *Landscape) Title() string {
	s := p.scene
	if s.Variant < 0 || s.Variant >= len(s.State.Variants) {
		return "Landscape"
	}
	title := "Landscape · " + Clean(s.State.Variants[s.Variant].Name)
	r := p.report()
	if r == nil || r.report == nil {
		return title + p.working()
	}
	if g := p.group(); g != nil {
		title += " · " + Clean(g.Role)
		if n := len(r.report.Groups); n > 1 {
			title += fmt.Sprintf(" (%d of %d kinds)", p.groupIndex()+1, n)
		}
		title += fmt.Sprintf(" · %s of %s measured", thousands(measuredOf(g)), thousands(g.Tensors))
		if g.Failed > 0 {
			title += fmt.Sprintf(", %s failed", thousands(g.Failed))
		}
		if g.LeftOut > 0 {
			title += fmt.Sprintf(", %s left out", thousands(g.LeftOut))
		}
	}
	return title + p.working()
}

// working is the quiet mark that newer figures are on their way.
func (p *Landscape) working() string {
	if p.busy {
		return " · computing" + ellipsis
	}
	return ""
}

// measuredOf is how many matrices of a group have a record.
func measuredOf(g *landscape.Group) int { return max(g.Tensors-g.Pending-g.Failed, 0) }

// SetSize sets the inner size.
func (p *Landscape) SetSize(w, h int) { p.w, p.h = w, h }

// Apply notes what is new; the root decides when it is worth computing anew.
func (p *Landscape) Apply(b sessions.Batch) {
	if b.Reset != nil || p.state != p.scene.State {
		p.reset()
	}
	p.pieces.note(p.scene.State, &b)
}

// reset forgets what belongs to other tensors. What a replay that goes back
// shows stays until it is computed anew.
func (p *Landscape) reset() {
	if p.state == p.scene.State && p.pieces.fits(p.scene.State) {
		return
	}
	p.state = p.scene.State
	p.reports, p.pricing, p.priced, p.answer, p.refusal = nil, nil, "", nil, ""
	p.slider = landSlider{}
	p.version++
}

// report is that of the shown variant, nil where there is none.
func (p *Landscape) report() *landReport {
	if v := p.scene.Variant; p.state == p.scene.State && v >= 0 && v < len(p.reports) && v < len(p.state.Variants) {
		return &p.reports[v]
	}
	return nil
}

// groupIndex is the group that the scene's cursor is in, or the first.
func (p *Landscape) groupIndex() int {
	r := p.report()
	if r == nil || r.report == nil {
		return 0
	}
	for i := range r.report.Groups {
		for _, l := range [][]landscape.Level{r.report.Groups[i].Layers, r.report.Groups[i].Projections, r.report.Groups[i].Experts} {
			if levelOf(l, p.scene.Cursor) >= 0 {
				return i
			}
		}
	}
	return 0
}

// group is what is shown, nil where nothing is.
func (p *Landscape) group() *landscape.Group {
	r := p.report()
	if r == nil || r.report == nil || len(r.report.Groups) == 0 {
		return nil
	}
	return &r.report.Groups[p.groupIndex()]
}

// groupIn is the group of the same role in another variant's report.
func (p *Landscape) groupIn(variant int, role string) *landscape.Group {
	if variant >= len(p.reports) || p.reports[variant].report == nil {
		return nil
	}
	groups := p.reports[variant].report.Groups
	if i := slices.IndexFunc(groups, func(g landscape.Group) bool { return g.Role == role }); i >= 0 {
		return &groups[i]
	}
	return nil
}

// levelOf is the level that an item belongs to, -1 where none has it.
func levelOf(levels []landscape.Level, item int) int {
	return slices.IndexFunc(levels, func(l landscape.Level) bool { return slices.Contains(l.Members, item) })
}

// SetReport takes the report of a variant, or the reason why there is none.
func (p *Landscape) SetReport(variant int, r *landscape.Report, why string) {
	for len(p.reports) <= variant {
		p.reports = append(p.reports, landReport{})
	}
	p.reports[variant] = landReport{r, why}
	p.version++
}

// SetPricing takes the prices of exemption lists, or the reason why there are
// none.
func (p *Landscape) SetPricing(c *landscape.Pricing, why string) {
	p.pricing, p.priced = c, why
	p.version++
}

// SetRange takes the sizes that the budget can have, or the reason why there is
// no solver.
func (p *Landscape) SetRange(least, most, elements int64, why string) {
	p.slider.setRange(least, most, elements)
	p.refusal = why
	if why != "" {
		p.answer = nil
	}
	p.version++
}

// SetAnswer takes an answer to a budget, or the reason why there is none.
func (p *Landscape) SetAnswer(a *LandscapeAnswer, why string) {
	p.refusal = why
	if a != nil || why != "" {
		p.answer = a
	}
	p.version++
}

// SetBusy says whether anything is being computed.
func (p *Landscape) SetBusy(busy bool) {
	if p.busy != busy {
		p.busy = busy
		p.version++
	}
}

// Budget is the size in bytes that the person asks for; false before there is a
// range.
func (p *Landscape) Budget() (int64, bool) { return p.slider.budget, p.slider.ready() }

// Answer is the latest answer, nil where there is none.
func (p *Landscape) Answer() *LandscapeAnswer { return p.answer }

// Answered says whether the answer is to the present budget.
func (p *Landscape) Answered() bool {
	return p.answer != nil && p.slider.ready() && p.answer.Budget == p.slider.budget
}

// Protect is the arm that exemptions are priced with: a variant's ID, or their
// number for the source.
func (p *Landscape) Protect() int {
	if v := p.scene.State.VariantByName(p.protect); p.protect != "" && v >= 0 && v != p.scene.Variant {
		return v
	}
	return len(p.scene.State.Variants)
}

// landGrains are the granularities of budgets and prices, the usual first.
var landGrains = landscape.Granularities()

// grainWords says what has one arm together, in a sentence after "by".
func grainWords(i int) string {
	switch g := landGrains[i%len(landGrains)]; g {
	case "tensor":
		return "matrix"
	case "fused":
		return "what servers fuse"
	default:
		return g
	}
}

// Granularity is what budgets and prices keep together.
func (p *Landscape) Granularity() landscape.Granularity { return landscape.Granularity(p.grain) }

// nextProtect goes to the next arm that can protect: the source, then the other
// variants.
func (p *Landscape) nextProtect() {
	variants := p.scene.State.Variants
	at := p.Protect()
	for range len(variants) + 1 {
		if at = (at + 1) % (len(variants) + 1); at != p.scene.Variant {
			break
		}
	}
	p.protect = ""
	if at < len(variants) {
		p.protect = variants[at].Name
	}
	p.version++
}

// View draws the screen.
func (p *Landscape) View() string {
	key := landDrawing{p.version, p.scene.Version, p.scene.Theme, p.scene.State, p.w, p.h}
	if p.drawn != key || p.cached == "" {
		p.cached, p.drawn = Block(strings.Split(p.draw(), "\n"), p.w, p.h), key
	}
	return p.cached
}

// HandleMouse moves the slider, the cursor to the row of a list, and through the
// list under the wheel.
func (p *Landscape) HandleMouse(x, y int, m tea.MouseMsg) (bool, tea.Cmd) {
	layout := p.layout()
	switch m.Button {
	case tea.MouseButtonWheelUp, tea.MouseButtonWheelDown:
		by := 1
		if m.Button == tea.MouseButtonWheelUp {
			by = -1
		}
		for part, r := range layout.parts {
			if !r.has(x, y) {
				continue
			}
			switch landPart(part) {
			case landBudget:
				return p.slider.move(-by, &p.version), nil
			case landFigures:
				return p.scrollFigures(by), nil
			}
			return p.moveIn(landPart(part), by), nil
		}
		return false, nil
	case tea.MouseButtonLeft:
	default:
		return false, nil
	}
	if bar := p.sliderRect(layout); bar.has(x, y) && m.Action != tea.MouseActionRelease {
		return p.slider.moveTo(x-bar.x, bar.w, &p.version), nil
	}
	if m.Action != tea.MouseActionPress {
		return false, nil
	}
	for part, r := range layout.parts {
		if r.has(x, y) && landPart(part).list() {
			if p.part != landPart(part) {
				p.part = landPart(part)
				p.version++
			}
			return p.click(landPart(part), y-r.y), nil
		}
	}
	return false, nil
}
