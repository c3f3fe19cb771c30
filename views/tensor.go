package views

import (
	"fmt"
	"math"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/quant/topology"
	"quantscope/sessions"
)

// Tensor shows one tensor on the whole screen: its figures under every variant,
// its histograms with axes, all variants over each other, and the error of each
// row. What does not fit stands on further pages.
type Tensor struct {
	scene *Scene
	w, h  int
	page  int
	log   bool

	places places

	version uint64
	drawn   tensorDrawing
	cached  string
}

// tensorDrawing is all that a picture depends on.
type tensorDrawing struct {
	version, scene uint64
	theme          *Theme
	state          *sessions.State
	detail         *Detail
	w, h           int
}

// tensorParts are what is shown, in order.
const tensorParts = 7

// NewTensor makes the full screen of the tensor under the scene's cursor.
func NewTensor(s *Scene) Pane { return newTensor(s) }

func newTensor(s *Scene) *Tensor { return &Tensor{scene: s} }

// Title says which page is shown, where there are several; the tensor's name
// heads the page itself.
func (p *Tensor) Title() string {
	if _, ok := p.tensor(); ok {
		if g := p.grid(); g.pages > 1 {
			return fmt.Sprintf("Tensor · page %d of %d", min(p.page, g.pages-1)+1, g.pages)
		}
	}
	return "Tensor"
}

func (p *Tensor) tensor() (*sessions.Tensor, bool) {
	if c := p.scene.Cursor; c >= 0 && c < len(p.scene.State.Tensors) {
		return &p.scene.State.Tensors[c], true
	}
	return nil, false
}

// SetSize sets the inner size.
func (p *Tensor) SetSize(w, h int) {
	p.w, p.h = w, h
	p.page = min(p.page, p.grid().pages-1)
}

// Apply redraws where a record of the tensor changed.
func (p *Tensor) Apply(b sessions.Batch) {
	changed := b.Reset != nil || len(b.Variants) > 0
	for i := range b.Records {
		changed = changed || b.Records[i].Tensor == p.scene.Cursor
	}
	changed = changed || len(b.CalibsBegun)+len(b.CalibsDone) > 0
	if changed {
		p.version++
	}
}

// tensorGrid says how the parts are laid out.
type tensorGrid struct {
	top, cols, rows, pages int
	cellW, cellH           int
}

// Gaps between parts, and the least that a part needs to be of use.
const (
	tensorGapX, tensorGapY = 2, 1
	tensorPartW            = 56
	tensorPartH            = 12
)

// grid is a pure function of the size.
func (p *Tensor) grid() tensorGrid { return arrangeTensor(p.w, p.h) }

func arrangeTensor(w, h int) tensorGrid {
	g := tensorGrid{top: 4}
	if h < 16 {
		g.top = min(max(h-6, 0), 2)
	}
	room := max(h-g.top, 0)
	g.cols = min(max((w+tensorGapX)/(tensorPartW+tensorGapX), 1), 4)
	fits := max((room+tensorGapY)/(tensorPartH+tensorGapY), 1)
	g.rows = min((tensorParts+g.cols-1)/g.cols, fits)
	g.pages = (tensorParts + g.cols*g.rows - 1) / (g.cols * g.rows)
	g.cellW = max((w-tensorGapX*(g.cols-1))/g.cols, 0)
	g.cellH = max((room-tensorGapY*(g.rows-1))/g.rows, 0)
	return g
}

// Keys lists the keys of the pane.
func (p *Tensor) Keys() []Key {
	left := Key{Keys: []string{"left"}, Label: "←", Help: "page before"}
	right := Key{Keys: []string{"right"}, Label: "→", Help: "next page"}
	if p.grid().pages < 2 {
		left.Disabled, right.Disabled = "everything is on this page", "everything is on this page"
	}
	axis := "logarithmic counts"
	if p.log {
		axis = "linear counts"
	}
	return []Key{
		left, right,
		{Keys: []string{"n"}, Label: "n", Help: "next tensor"},
		{Keys: []string{"N"}, Label: "N", Help: "tensor before"},
		{Keys: []string{"up", "k"}, Label: "↑ k", Help: "the same in the layer above"},
		{Keys: []string{"down", "j"}, Label: "↓ j", Help: "the same in the layer below"},
		{Keys: []string{"l"}, Label: "l", Help: axis},
	}
}

// HandleKey acts on the keys that Keys lists.
func (p *Tensor) HandleKey(k tea.KeyMsg) (bool, tea.Cmd) {
	switch key := k.String(); key {
	case "left", "right":
		return p.turn(key == "right"), nil
	case "l":
		p.log = !p.log
		p.version++
	case "n", "N", "up", "k", "down", "j":
		p.index()
		return moveByKey(p.scene, &p.places, key), nil
	default:
		return false, nil
	}
	return true, nil
}

// turn shows another page, round at the ends.
func (p *Tensor) turn(forward bool) bool {
	pages := p.grid().pages
	if pages < 2 {
		return false
	}
	step := pages - 1
	if forward {
		step = 1
	}
	p.page = (min(p.page, pages-1) + step) % pages
	p.version++
	return true
}

// HandleMouse turns pages by wheel.
func (p *Tensor) HandleMouse(_, _ int, m tea.MouseMsg) (bool, tea.Cmd) {
	switch m.Button {
	case tea.MouseButtonWheelUp:
		return p.turn(false), nil
	case tea.MouseButtonWheelDown:
		return p.turn(true), nil
	}
	return false, nil
}

// index finds out where the tensors are.
func (p *Tensor) index() {
	if !p.places.of(p.scene.State.Tensors) {
		p.places = newPlaces(p.scene.State.Tensors)
	}
}

// View draws the page.
func (p *Tensor) View() string {
	now := tensorDrawing{p.version, p.scene.Version, p.scene.Theme, p.scene.State, p.scene.Detail, p.w, p.h}
	if p.drawn != now || p.cached == "" {
		p.cached, p.drawn = p.draw(), now
	}
	return p.cached
}

func (p *Tensor) draw() string {
	th := p.scene.Theme
	t, ok := p.tensor()
	if !ok {
		return Block([]string{th.Dim.Render(Truncate("no tensor under the cursor", p.w))}, p.w, p.h)
	}
	g := p.grid()
	blocks := []placed{{rect{0, 0, p.w, g.top}, Block(p.header(t), p.w, g.top)}}
	taps := p.taps()
	for i := range g.cols * g.rows {
		part := min(p.page, g.pages-1)*g.cols*g.rows + i
		if part >= tensorParts {
			break
		}
		at := rect{i % g.cols * (g.cellW + tensorGapX), g.top + i/g.cols*(g.cellH+tensorGapY), g.cellW, g.cellH}
		if part == tensorParts-1 { // the rest of the line is its own
			at.w = p.w - at.x
		}
		blocks = append(blocks, placed{at, Block(strings.Split(p.part(part, taps, at.w, at.h), "\n"), at.w, at.h)})
	}
	return compose(p.w, p.h, blocks)
}

// header says what the tensor is.
func (p *Tensor) header(t *sessions.Tensor) []string {
	th := p.scene.Theme
	facts := fmt.Sprintf("%s  %d×%d  %s  %s", roleText(&t.Role), t.Rows, t.Cols, Clean(t.DType), Clean(t.File))
	names, ids := make([]string, len(p.scene.State.Variants)), make([]int, len(p.scene.State.Variants))
	for v := range names {
		names[v], ids[v] = Clean(p.scene.State.Variants[v].Name), v
	}
	if Width(th.variantLegend(names, ids, math.MaxInt)) > p.w {
		names = shortVariants(p.scene.State.Variants)
	}
	return []string{
		th.Title.Render(TruncateMiddle(Clean(t.Name), p.w)),
		th.Dim.Render(Truncate(facts, p.w)),
		th.variantLegend(names, ids, p.w),
		p.insteads(),
	}
}

// insteads say under which variants the tensor is not what was asked for, and why.
func (p *Tensor) insteads() string {
	s := p.scene
	var parts []string
	for v := range s.State.Variants {
		if text := instead(&s.State.Variants[v], s.Trade(v, s.Cursor)); text != "" {
			parts = append(parts, Clean(s.State.Variants[v].Name)+" "+text)
		}
	}
	if parts == nil {
		return ""
	}
	return s.Theme.stateGlyph(FellBack) + " " + s.Theme.Warn.Render(Truncate(strings.Join(parts, "; "), max(p.w-2, 0)))
}

var kindNames = map[topology.Kind]string{
	topology.Unknown: "unknown", topology.Embedding: "embedding", topology.Head: "head", topology.Norm: "norm",
	topology.Attention: "attention", topology.MLP: "mlp", topology.Expert: "routed expert", topology.SharedExpert: "shared expert",
	topology.Router: "router", topology.MTPExtra: "multi-token prediction", topology.Vision: "vision",
}

// roleText says in words what a tensor is in the model.
func roleText(r *topology.Role) string {
	parts := []string{kindNames[r.Kind]}
	if parts[0] == "" {
		parts[0] = "unknown"
	}
	if r.Expert >= 0 {
		parts[0] += fmt.Sprintf(" %d", r.Expert)
	}
	if r.Layer >= 0 {
		layer := fmt.Sprintf("layer %d", r.Layer)
		if r.MTP {
			layer += " (MTP)"
		}
		parts = append([]string{layer}, parts...)
	}
	if r.Projection != "" {
		parts = append(parts, Clean(r.Projection))
	}
	return strings.Join(parts, " · ")
}

// taps are the tap records that are there for the tensor under the cursor.
func (p *Tensor) taps() []tapOf {
	s := p.scene
	var out []tapOf
	if s.Detail == nil || s.Detail.Tensor != s.Cursor {
		return nil
	}
	for v, tap := range s.Detail.Taps {
		if tap != nil && v < len(s.State.Variants) {
			out = append(out, tapOf{tap, s.how(v)})
		}
	}
	return out
}

// part draws one of the parts in about h lines of w cells.
func (p *Tensor) part(part int, taps []tapOf, w, h int) string {
	s := p.scene
	if part == 0 {
		return tensorTable(s, s.Cursor, w, h)
	}
	if part == tensorParts-1 {
		if s.Detail == nil || s.Detail.Tensor != s.Cursor {
			return rowChart(s.Theme, &Detail{}, nil, -1, w, h)
		}
		return rowChart(s.Theme, s.Detail, s.State.Variants, s.Variant, w, h)
	}
	var c tensorChart
	switch part {
	case 1:
		c = scaleChart(taps, s.Variant)
	case 2:
		c = errorChart(taps)
	case 3:
		c = codeChart(taps, s.Variant)
	case 4:
		c = searchChart(taps, s.Variant)
	case 5:
		c = clipChart(taps)
	}
	if len(taps) == 0 {
		c.note = p.missing()
	}
	return c.render(s.Theme, s.Variant, p.log, w, h)
}

// missing says why there are no histograms.
func (p *Tensor) missing() string {
	s := p.scene
	measured := false
	for v := range s.State.Variants {
		r, ok := s.Record(v, s.Cursor)
		measured = measured || ok && !r.Failed
	}
	switch {
	case !measured:
		return "not measured yet"
	case s.Detail == nil || s.Detail.Tensor != s.Cursor:
		return "reading the tap record …"
	}
	for _, reason := range s.Detail.Errs {
		if reason != "" {
			return Clean(reason)
		}
	}
	return "no tap record"
}
