package views

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/muesli/termenv"
	"pgregory.net/rapid"

	"quantscope/analysis/landscape"
	"quantscope/sessions"
	"quantscope/views/viewstest"
)

func TestLandscapeGolden(t *testing.T) {
	for _, size := range paneSizes {
		t.Run(size.name, func(t *testing.T) {
			p := handLandscape(sceneOf(t, varied()))
			p.SetSize(size.w, size.h)
			checkSize(t, p.View(), size.w, size.h)
			checkGolden(t, p.Title()+"\n"+p.View())
		})
	}
	t.Run("80x24 parts", func(t *testing.T) {
		p := handLandscape(sceneOf(t, varied()))
		p.SetSize(80, 19)
		var b strings.Builder
		for range landParts {
			b.WriteString(landPartNames[p.part] + "\n" + p.View() + "\n")
			hit(p, "o")
		}
		checkGolden(t, b.String())
	})
	t.Run("120x40 prices as errors", func(t *testing.T) {
		p := handLandscape(sceneOf(t, varied()))
		p.SetSize(120, 35)
		hit(p, "y")
		hit(p, "s")
		checkGolden(t, p.View())
	})
	t.Run("colour", func(t *testing.T) {
		p := handLandscape(sceneIn(t, varied(), termenv.TrueColor))
		p.SetSize(118, 35)
		checkGolden(t, p.View())
	})
}

// What has too little to say says why, calmly, and never NaN.
func TestLandscapeOfLittle(t *testing.T) {
	one := viewstest.Empty(viewstest.Experts(3, 1, 0, 1), "nvfp4")
	for i := range one.Tensors {
		viewstest.Measure(one, 0, i)
	}
	dense := viewstest.Empty(viewstest.Dense(3), "nvfp4", "nvfp4+mse")
	odd := viewstest.Demo()
	for v := range dense.Variants {
		for i := range dense.Tensors {
			viewstest.Measure(dense, v, i)
		}
	}
	for v := range odd.Variants {
		for i := range odd.Tensors {
			odd.Records[v][i].Rel2, odd.Records[v][i].RelL2, odd.Records[v][i].Cos = math.NaN(), math.NaN(), math.NaN()
		}
	}
	for _, c := range []struct {
		name  string
		state *sessions.State
		want  []string
	}{
		{"no variant", viewstest.Empty(viewstest.Experts(0, 2, 0, 2)), []string{"no variant is measured yet"}},
		{"no tensors", viewstest.Empty(nil, "nvfp4"), []string{"the session has no matrices"}},
		{"no records", viewstest.Empty(viewstest.Experts(0, 2, 0, 2), "nvfp4"), nil},
		{"one tensor of each", one, nil},
		{"dense", dense, []string{"have no experts"}},
		{"NaN records", odd, nil},
		{"part of a run", viewstest.Partial(), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := realLandscape(t, sceneOf(t, c.state))
			var all strings.Builder
			for _, size := range paneSizes[:3] {
				p.SetSize(size.w, size.h)
				for range landParts {
					view := p.View()
					checkSize(t, view, size.w, size.h)
					for _, odd := range []string{"NaN", "Inf", "%!"} {
						if strings.Contains(view, odd) {
							t.Errorf("%s: %q in\n%s", size.name, odd, view)
						}
					}
					all.WriteString(view)
					hit(p, "o")
				}
			}
			for _, want := range c.want {
				if !strings.Contains(all.String(), want) {
					t.Errorf("%q is nowhere", want)
				}
			}
			p.part = landFigures
			p.SetSize(80, 19)
			checkGolden(t, p.Title()+"\n"+p.View())
		})
	}
}

// realLandscape is the pane with what the analysis says of a state.
func realLandscape(t testing.TB, s *Scene) *Landscape {
	t.Helper()
	ctx := context.Background()
	for i := range s.State.Tensors { // as checkpoints spell it: by it the source has a size
		s.State.Tensors[i].DType = "BF16"
	}
	p := NewLandscape(s)
	p.Stamp()
	for p.TakePiece() {
	}
	tab := p.Table()()
	why := func(err error) string {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	for v := range s.State.Variants {
		r, err := landscape.Analyze(ctx, tab, v)
		p.SetReport(v, r, why(err))
	}
	if len(s.State.Variants) > 0 {
		c, err := landscape.Price(ctx, tab, landscape.PriceOptions{Base: s.Variant, Protect: p.Protect(), Repeats: 5})
		p.SetPricing(c, why(err))
	}
	solver, err := landscape.NewSolver(tab, nil)
	if err != nil {
		p.SetRange(0, 0, 0, err.Error())
		return p
	}
	least, most := solver.Range()
	p.SetRange(least, most, solver.Elements(), "")
	budget, _ := p.Budget()
	a, err := solver.Solve(budget)
	if err != nil {
		t.Fatal(err)
	}
	answer := &LandscapeAnswer{Budget: budget, Assignment: a, Controls: solver.Controls(a, 5, 1)}
	for i := range tab.Arms {
		answer.Arms = append(answer.Arms, tab.Arms[i].Name)
	}
	answer.Verdict, answer.Beats = landscape.Beats(a, answer.Controls)
	p.SetAnswer(answer, "")
	return p
}

// The table of pieces is that of the whole state, whatever changed in between.
func TestPiecesMakeTheTable(t *testing.T) {
	state := viewstest.Big(20, 70, "nvfp4", "nvfp4+mse")
	if len(state.Tensors) < 2*landPiece {
		t.Fatalf("%d tensors are one piece", len(state.Tensors))
	}
	s := sceneOf(t, state)
	p := NewLandscape(s)
	take := func() *landscape.Table {
		p.Stamp()
		if p.Table() != nil {
			t.Error("a table without pieces")
		}
		for p.TakePiece() {
		}
		return p.Table()()
	}
	same := cmp.Options{cmpopts.EquateNaNs()}
	if diff := cmp.Diff(state.Table(), take(), same); diff != "" {
		t.Error(diff)
	}
	before := p.Stamp()
	b := sessions.Batch{Records: []sessions.Record{state.Records[0][5], state.Records[1][len(state.Tensors)-1]}}
	for i := range b.Records {
		b.Records[i].Seq += 1_000_000
		b.Records[i].Rel2 *= 3
	}
	state.Apply(b)
	p.Apply(b)
	if p.Stamp() == before {
		t.Error("records do not change the stamp")
	}
	if diff := cmp.Diff(state.Table(), take(), same); diff != "" {
		t.Error(diff)
	}
	for i := range b.Records {
		if k := b.Records[i].Tensor / landPiece; p.pieces.made[k] == nil {
			t.Errorf("piece %d is missing", k)
		}
	}
}

func TestArrangeLandscape(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, h := rapid.IntRange(-1, 300).Draw(t, "w"), rapid.IntRange(-1, 120).Draw(t, "h")
		lines := func(name string) int { return rapid.IntRange(0, 90).Draw(t, name) }
		n := landSizes{
			head: rapid.IntRange(0, 6).Draw(t, "head"), figures: lines("figures"), projections: lines("projections"), neighbours: lines("neighbours"),
			selectors: lines("selectors"), clamps: lines("clamps"), layers: lines("layers"), experts: lines("experts"), tail: lines("tail"), budget: lines("budget"),
		}
		only := landPart(rapid.IntRange(0, int(landParts)-1).Draw(t, "part"))
		l := arrangeLandscape(w, h, n, only)
		rects := append([]rect{l.head}, l.parts[:]...)
		for i, a := range rects {
			if a.empty() {
				continue
			}
			if a.x < 0 || a.y < 0 || a.x+a.w > w || a.y+a.h > h {
				t.Fatalf("%d×%d: part %d sticks out: %+v", w, h, i, a)
			}
			for j, b := range rects[:i] {
				if !b.empty() && a.x < b.x+b.w && b.x < a.x+a.w && a.y < b.y+b.h && b.y < a.y+a.h {
					t.Fatalf("%d×%d: parts %d and %d overlap: %+v %+v", w, h, j, i, b, a)
				}
			}
		}
	})
}

// Rows put the cursor on their worst tensor, and the row that the cursor is in
// is the marked one, whoever moved it.
func TestLandscapeRowsMoveTheCursor(t *testing.T) {
	s := sceneOf(t, varied())
	p := handLandscape(s)
	p.SetSize(118, 35)
	for _, c := range []struct {
		part landPart
		of   func(r *sessions.Tensor) int
		n    int
	}{
		{landLayers, func(r *sessions.Tensor) int { return r.Role.Layer }, 5},
		{landExperts, func(r *sessions.Tensor) int { return r.Role.Expert }, 16},
		{landProjections, func(r *sessions.Tensor) int { return slices.Index(viewstest.Projections, r.Role.Projection) }, 3},
	} {
		p.part = c.part
		for range 20 {
			hit(p, "up")
		}
		var seen []int
		for range c.n {
			at := c.of(&s.State.Tensors[s.Cursor])
			seen = append(seen, at)
			worst := s.State.Records[s.Variant][s.Cursor].Rel2
			for i := range s.State.Tensors {
				if c.of(&s.State.Tensors[i]) == at && s.State.Records[s.Variant][i].Rel2 > worst {
					t.Fatalf("%s: tensor %d is worse than %d", landPartNames[c.part], i, s.Cursor)
				}
			}
			hit(p, "down")
		}
		if !slices.IsSorted(seen) || len(slices.Compact(seen)) != c.n {
			t.Errorf("%s: went to %v", landPartNames[c.part], seen)
		}
	}
	p.part = landLayers
	s.SetCursor(3 * 48) // the first tensor of L4
	if at := p.rowOfCursor(p.rowsOf(landLayers)); at != 3 {
		t.Errorf("row %d is marked, want 3", at)
	}
	hit(p, "s") // largest effect first
	if rows := p.rowsOf(landLayers); rows[0].level.Name != "L3" {
		t.Errorf("the largest effect is %s", rows[0].level.Name)
	}
}

func TestLandscapeMouse(t *testing.T) {
	s := sceneOf(t, varied())
	p := handLandscape(s)
	click := tea.MouseMsg{Action: tea.MouseActionPress, Button: tea.MouseButtonLeft}
	drag := tea.MouseMsg{Action: tea.MouseActionMotion, Button: tea.MouseButtonLeft}
	for _, size := range [][2]int{{118, 35}, {198, 55}} {
		p.SetSize(size[0], size[1])
		p.View()
		r := p.layout().parts[landLayers]
		found := map[int]bool{}
		for y := range r.h {
			if handled, _ := p.HandleMouse(r.x+4, r.y+y, click); handled {
				found[s.State.Tensors[s.Cursor].Role.Layer] = true
			}
			p.View()
		}
		if len(found) != 5 {
			t.Errorf("%v: clicks reach layers %v", size, found)
		}
		bar := p.sliderRect(p.layout())
		p.HandleMouse(bar.x, bar.y, click)
		if b, _ := p.Budget(); b != p.slider.least {
			t.Errorf("%v: a click on the left end asks for %d, want %d", size, b, p.slider.least)
		}
		last := int64(0)
		for x := range bar.w {
			p.HandleMouse(bar.x+x, bar.y, drag)
			b, _ := p.Budget()
			if b < last {
				t.Fatalf("%v: dragging to the right goes down from %d to %d", size, last, b)
			}
			if at := p.slider.place(b, bar.w); at != x {
				t.Errorf("%v: dragged to cell %d, the mark is in %d", size, x, at)
			}
			last = b
		}
		if last != p.slider.most {
			t.Errorf("%v: the right end asks for %d, want %d", size, last, p.slider.most)
		}
		if p.Answered() {
			t.Error("the old answer is taken for one to the new budget")
		}
		if view := p.View(); !strings.Contains(view, "solving") {
			t.Error("nothing says that a budget is being solved")
		}
	}
}

// The slider stays within its ends, goes on with each step until it is there,
// and comes back.
func TestSlider(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		elements := rapid.Int64Range(1, 1<<40).Draw(t, "elements")
		least := rapid.Int64Range(0, 2*elements).Draw(t, "least")
		s := landSlider{}
		s.setRange(least, least+rapid.Int64Range(0, 2*elements).Draw(t, "span"), elements)
		if !s.ready() {
			return
		}
		version := uint64(0)
		for range 3 {
			for range 1000 {
				before := s.budget
				if s.move(1, &version); s.budget < before {
					t.Fatalf("up goes from %d to %d", before, s.budget)
				}
			}
			if s.budget != s.most {
				t.Fatalf("1000 steps end at %d of %d … %d", s.budget, s.least, s.most)
			}
			for range 100 {
				before := s.budget
				if s.move(-coarse, &version); s.budget > before {
					t.Fatalf("down goes from %d to %d", before, s.budget)
				}
			}
			if s.budget != s.least {
				t.Fatalf("100 coarse steps end at %d of %d … %d", s.budget, s.least, s.most)
			}
		}
	})
}

func TestRoundStep(t *testing.T) {
	for x, want := range map[float64]float64{0.0575: 0.1, 0.05: 0.05, 0.011: 0.02, 0.3: 0.5, 7: 10, 0: 0, -1: 0, math.NaN(): 0} {
		if got := roundStep(x); math.Abs(got-want) > 1e-12 {
			t.Errorf("%v: %v, want %v", x, got, want)
		}
	}
}

// Against the random control that control saves nothing anywhere, and a list
// saves what it says, of the error without exemptions: no more at the end, where
// there is next to no error left.
func TestPricesAgainstTheControl(t *testing.T) {
	c := handPricing("nvfp4")
	lo, hi := priceSpan(c)
	lines := priceLines(c, lo, hi)
	standAgainst(lines, lines[priceAgainst(c)].mean, 0.009)
	for i, v := range lines[priceAgainst(c)].mean {
		if isNumber(v) && math.Abs(v) > 1e-9 {
			t.Fatalf("sample %d: the control is %v %% off itself", i, v)
		}
	}
	mid := chartSamples / 2
	f := float64(mid) / float64(chartSamples-1)
	if want := 6 * (1 - f) * math.Sin(math.Pi*f); math.Abs(lines[0].mean[mid]-want) > 0.01 {
		t.Errorf("rel2 saves %v %% in the middle, want %v", lines[0].mean[mid], want)
	}
	if last := lines[0].mean[chartSamples-1]; math.Abs(last) > 1e-9 {
		t.Errorf("rel2 saves %v %% where everything is exempted", last)
	}
	for k, v := range lines[priceAgainst(c)].low {
		if high := lines[priceAgainst(c)].high[k]; v > high {
			t.Fatalf("sample %d: the control's spread is from %v to %v", k, v, high)
		}
	}
}

func TestLandscapeKeysSayWhy(t *testing.T) {
	why := func(p *Landscape, key string) string {
		for _, k := range p.Keys() {
			if slices.Contains(k.Keys, key) {
				return k.Disabled
			}
		}
		t.Fatalf("%q is no key", key)
		return ""
	}
	empty := NewLandscape(sceneOf(t, viewstest.Empty(viewstest.Experts(0, 2, 0, 2), "nvfp4")))
	empty.SetSize(118, 35)
	for _, key := range []string{"<", ">", "H", "L", "w", "up", "c", "x", "y", "s"} {
		if why(empty, key) == "" {
			t.Errorf("%q works without anything measured", key)
		}
		if handled := hit(empty, key); handled && key != "s" {
			t.Errorf("%q did something", key)
		}
	}
	full := handLandscape(sceneOf(t, varied()))
	full.SetSize(118, 35)
	for _, key := range []string{"<", ">", "H", "L", "w", "up", "x", "y", "s", "o", "u"} {
		if reason := why(full, key); reason != "" {
			t.Errorf("%q: %s", key, reason)
		}
		if !hit(full, key) {
			t.Errorf("%q did nothing", key)
		}
	}
	if why(full, "c") == "" {
		t.Error("c works with one kind of matrices")
	}
}

// A key that changes what is not on the screen shows it.
func TestLandscapeShowsWhatKeysChange(t *testing.T) {
	for key, part := range map[string]string{"u": "budget", "x": "prices", "y": "prices", ">": "budget"} {
		p := handLandscape(sceneOf(t, varied()))
		p.SetSize(78, 20)
		if strings.Contains(p.View(), part+"  ") {
			t.Fatalf("%s are on the screen", part)
		}
		if !hit(p, key) || !strings.Contains(p.View(), part+"  ") {
			t.Errorf("%q shows no %s:\n%s", key, part, p.View())
		}
		at := p.part
		if hit(p, key); p.part != at {
			t.Errorf("%q once more shows another part", key)
		}
	}
	p := handLandscape(sceneOf(t, varied()))
	p.SetSize(78, 20)
	hit(p, "y")
	if hit(p, "u"); !strings.Contains(p.View(), "prices  ") {
		t.Error("u leaves the prices, which it changes too")
	}
}

func TestLandscapeRedraws(t *testing.T) {
	state := varied()
	s := sceneOf(t, state)
	p := handLandscape(s)
	p.SetSize(80, 19)
	th := themeIn(t, "", termenv.TrueColor)
	budget, _ := p.Budget()
	for _, c := range []struct {
		name   string
		do     func()
		redraw bool
	}{
		{"records", func() { p.Apply(sessions.Batch{Records: state.Records[1][:40]}) }, false},
		{"the same busy", func() { p.SetBusy(false) }, false},
		{"part", func() { hit(p, "o") }, true},
		{"row", func() { hit(p, "down") }, true},
		{"order", func() { hit(p, "s") }, true},
		{"variant", func() { s.SetVariant(2) }, true},
		{"report", func() {
			r := handReport(state, 2)
			r.Groups[0].Layers[0].N = 7
			r.Groups[0].Verdict.Sentence = "x"
			p.SetReport(2, r, "")
		}, true},
		{"budget", func() { hit(p, ">") }, true},
		{"answer", func() {
			a := handAnswer(state, budget+5)
			a.Assignment.Error /= 2
			p.SetAnswer(a, "")
		}, true},
		{"no answer", func() { p.SetAnswer(nil, "it cannot be solved") }, true},
		{"range", func() { p.SetRange(1, 1<<20, 1<<18, "") }, true},
		{"prices", func() { hit(p, "O"); p.View(); p.SetPricing(nil, "no prices") }, true},
		{"granularity", func() { hit(p, "u"); hit(p, "o"); p.View(); hit(p, "u") }, true},
		{"theme", func() { s.Theme = th }, true},
		{"size", func() { p.SetSize(70, 18) }, true},
		{"reset to other tensors", func() {
			b := sessions.Batch{Reset: viewstest.Empty(viewstest.Dense(1), "nvfp4", "nvfp4+mse", "c")}
			state.Apply(b)
			p.Apply(b)
		}, true},
	} {
		before := p.View()
		c.do()
		if redrawn := p.View() != before; redrawn != c.redraw {
			t.Errorf("%s: redrawn %v", c.name, redrawn)
		}
	}
}

func TestLandscapeFitsAnySize(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := randomScene(rt, t)
		var p *Landscape
		if rapid.Bool().Draw(rt, "analysed") && len(s.State.Tensors) > 0 {
			p = realLandscape(t, s)
		} else {
			p = NewLandscape(s)
		}
		p.SetBusy(rapid.Bool().Draw(rt, "busy"))
		if rapid.Bool().Draw(rt, "refused") {
			p.SetAnswer(nil, "a long reason why there is no answer "+strings.Repeat("模型", 40)+"\x1b[31m")
		}
		p.part = landPart(rapid.IntRange(0, int(landParts)-1).Draw(rt, "part"))
		exercise(rt, s, p)
	})
}

func BenchmarkLandscapeFrame(b *testing.B) {
	benchmarkFrames(b, func(s *Scene) Pane {
		p := NewLandscape(s)
		p.Stamp()
		for v := range s.State.Variants {
			p.SetReport(v, handReport(s.State, v), "")
		}
		p.SetPricing(handPricing("nvfp4"), "")
		p.SetRange(1<<27, 1<<29, 1<<28, "")
		p.SetAnswer(handAnswer(s.State, 1<<28), "")
		return p
	})
}

// BenchmarkLandscapeSlider is a frame in which the slider moves: the whole
// screen is drawn anew.
func BenchmarkLandscapeSlider(b *testing.B) {
	s := sceneIn(b, big(), termenv.TrueColor)
	p := handLandscape(s)
	p.SetSize(200, 55)
	var took []time.Duration
	for b.Loop() {
		begun := time.Now()
		if p.slider.budget == p.slider.most {
			p.slider.budget = p.slider.least
		}
		hit(p, ">")
		p.View()
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// The spread is of what the report counts: its mean, the least of the worst
// hundredth, and no record that failed or is not finite; a newer report is
// looked at anew.
func TestLandscapeSpread(t *testing.T) {
	s := varied()
	p := handLandscape(sceneOf(t, s))
	v := p.scene.Variant
	s.Records[v][3].Failed, s.Records[v][4].Rel2 = true, math.NaN()
	s.Records[v][5].Rel2, s.Records[v][6].Rel2, s.Records[v][7].Rel2 = 0.3, 0.2, 0.1
	p.SetReport(v, handReport(s, v), "")
	e := p.errorsOf(p.group())
	if len(e.values) != 238 || !slices.IsSorted(e.values) || e.values[237] != 0.3 {
		t.Fatalf("%d errors, the largest %v", len(e.values), e.values[len(e.values)-1])
	}
	sum := 0.0
	for _, x := range e.values {
		sum += x
	}
	if e.worst != 0.2 || math.Abs(e.mean-sum/238) > 1e-12 {
		t.Errorf("the worst two of 238 begin at %v, the mean is %v, want 0.2 and %v", e.worst, e.mean, sum/238)
	}
	s.Records[v][5].Rel2 = 0.4
	if e := p.errorsOf(p.group()); e.values[237] != 0.3 {
		t.Error("errors are gathered again for the same report")
	}
	p.SetReport(v, handReport(s, v), "")
	if e := p.errorsOf(p.group()); e.values[237] != 0.4 {
		t.Error("a newer report does not show")
	}
	for i := range s.Records[v] {
		s.Records[v][i].Failed, s.Records[v][i].Rel2 = false, 0.01
	}
	p.SetReport(v, handReport(s, v), "")
	if text := p.drawSpread(p.group(), 60, 12); !strings.Contains(text, "all errors are 0.01000") {
		t.Errorf("equal errors: %s", text)
	}
}
