package views

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/muesli/termenv"
	"pgregory.net/rapid"

	"quantscope/quant/topology"
	"quantscope/sessions"
	"quantscope/views/viewstest"
)

func TestTensorGolden(t *testing.T) {
	for _, size := range paneSizes {
		t.Run(size.name, func(t *testing.T) {
			s := sceneOf(t, varied())
			s.Detail = detailOf(s)
			p := NewTensor(s)
			p.SetSize(size.w, size.h)
			checkSize(t, p.View(), size.w, size.h)
			checkGolden(t, p.Title()+"\n"+p.View())
		})
	}
	t.Run("80x24 pages", func(t *testing.T) {
		s := sceneOf(t, varied())
		s.Detail = detailOf(s)
		p := NewTensor(s)
		p.SetSize(80, 19)
		var b strings.Builder
		for range tensorParts {
			b.WriteString(p.Title() + "\n" + p.View() + "\n")
			hit(p, "right")
		}
		checkGolden(t, b.String())
	})
	t.Run("120x40 without checkpoint", func(t *testing.T) {
		s := sceneOf(t, viewstest.Partial())
		s.Detail = detailOf(s)
		s.Detail.Rows = nil
		s.Detail.RowErr = "checkpoint: /data/demo was here when the session was recorded: no such folder"
		p := NewTensor(s)
		p.SetSize(120, 35)
		view := p.View()
		hit(p, "right")
		checkGolden(t, view+"\n"+p.View())
	})
	t.Run("colour", func(t *testing.T) {
		s := sceneIn(t, varied(), termenv.TrueColor)
		s.Detail = detailOf(s)
		p := NewTensor(s)
		p.SetSize(120, 32)
		checkGolden(t, p.View())
	})
}

// Each variant that stands in the table of a tensor has its steps, heads stand
// over the right edges of their numbers, and variants without room are counted.
func TestTensorTable(t *testing.T) {
	state := viewstest.Empty(viewstest.Experts(0, 1, 0, 4), "nvfp4", "nvfp4+mse", "nvfp4+mse_ge1", "nvfp4+sweep", "int4-g128")
	for v := range state.Variants {
		viewstest.Measure(state, v, 0)
	}
	for _, c := range []struct{ variants, w, hidden int }{{3, 78, 0}, {3, 58, 0}, {3, 65, 0}, {5, 58, 2}, {5, 78, 1}, {5, 110, 0}, {2, 40, 0}} {
		s := sceneOf(t, state)
		some := *state
		some.Variants, some.Records = state.Variants[:c.variants], state.Records[:c.variants]
		s.State, s.Cursor, s.Baseline, s.Variant = &some, 0, 0, 1
		lines := strings.Split(tensorTable(s, 0, c.w, 14), "\n")
		head := []rune(lines[0])
		shown, steps := 0, strings.Count(lines[0], "change")
		for v := range some.Variants {
			shown += strings.Count(lines[0], s.Theme.VariantMark(v))
		}
		if shown != c.variants-c.hidden || steps != shown-1 || strings.Contains(lines[0], "not shown") != (c.hidden > 0) {
			t.Errorf("%d variants in %d cells: %d shown with %d steps, want %d hidden\n%s", c.variants, c.w, shown, steps, c.hidden, strings.Join(lines, "\n"))
		}
		if text := notShown(c.hidden); c.hidden > 0 && !strings.HasPrefix(lines[0], text) {
			t.Errorf("%q is not said: %q", text, lines[0])
		}
		var edges []int
		for x := range head {
			if slices.Contains(variantMarks, string(head[x])) || head[x] == 'e' && head[x-1] == 'g' && head[x+1] == ' ' {
				edges = append(edges, x)
			}
		}
		for _, line := range lines[1:12] { // rel_l2 to the global scale
			r := []rune(line)
			for _, x := range edges {
				if r[x] == ' ' || x+1 < len(r) && r[x+1] != ' ' {
					t.Errorf("%d variants in %d cells: no number ends at column %d\n%s\n%s", c.variants, c.w, x, lines[0], line)
				}
			}
		}
	}
}

func TestRoleText(t *testing.T) {
	for want, role := range map[string]topology.Role{
		"layer 3 · routed expert 7 · up":         {Kind: topology.Expert, Layer: 3, Expert: 7, Projection: "up"},
		"layer 5 (MTP) · routed expert 0 · down": {Kind: topology.Expert, Layer: 5, Expert: 0, Projection: "down", MTP: true},
		"head":                    {Kind: topology.Head, Layer: -1, Expert: -1},
		"layer 0 · attention · q": {Kind: topology.Attention, Expert: -1, Projection: "q"},
		"layer 0 · unknown":       {Kind: 99, Expert: -1},
	} {
		if got := roleText(&role); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestTensorSaysWhyThereIsNothing(t *testing.T) {
	s := sceneOf(t, viewstest.Partial())
	p := newTensor(s)
	p.SetSize(120, 35)
	for _, c := range []struct {
		name   string
		cursor int
		detail *Detail
		want   string
	}{
		{"on its way", 100, nil, "reading the tap record …"},
		{"of another tensor", 100, &Detail{Tensor: 3}, "reading the tap record …"},
		{"broken", 100, &Detail{Tensor: 100, Errs: []string{"", "session.qscope: event 7: not a tap"}}, "session.qscope: event 7: not a tap"},
		{"failed", 20, &Detail{Tensor: 20}, "failed"},
	} {
		s.Cursor, s.Detail = c.cursor, c.detail
		s.Touch()
		if view := p.View(); !strings.Contains(view, c.want) {
			t.Errorf("%s: %q is not on the screen\n%s", c.name, c.want, view)
		}
	}
	s.State.Records[0][239] = sessions.Record{}
	s.Cursor, s.Detail = 239, nil
	s.Touch()
	if view := p.View(); !strings.Contains(view, "not measured yet") {
		t.Errorf("not measured: %s", view)
	}
}

func TestArrangeTensor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, h := rapid.IntRange(-1, 300).Draw(t, "w"), rapid.IntRange(-1, 120).Draw(t, "h")
		g := arrangeTensor(w, h)
		if g.cols < 1 || g.rows < 1 || g.pages < 1 || g.pages*g.cols*g.rows < tensorParts || (g.pages-1)*g.cols*g.rows >= tensorParts {
			t.Fatalf("%d×%d: %+v", w, h, g)
		}
		if g.cellW < 0 || g.cellH < 0 || g.cols*(g.cellW+tensorGapX)-tensorGapX > max(w, 0) && g.cellW > 0 || g.top+g.rows*(g.cellH+tensorGapY)-tensorGapY > max(h, 0) && g.cellH > 0 {
			t.Fatalf("%d×%d: parts stick out: %+v", w, h, g)
		}
	})
}

func TestTensorPages(t *testing.T) {
	s := sceneOf(t, varied())
	s.Detail = detailOf(s)
	p := newTensor(s)
	p.SetSize(80, 19)
	seen := map[string]bool{}
	for range 7 {
		seen[p.View()] = true
		hit(p, "right")
	}
	if len(seen) != 7 || p.page != 0 {
		t.Errorf("%d different pages, then page %d", len(seen), p.page)
	}
	if hit(p, "left"); p.page != 6 {
		t.Errorf("page %d before the first", p.page)
	}
	if p.SetSize(200, 55); hit(p, "right") || p.page != 0 {
		t.Errorf("page %d where everything fits", p.page)
	}
}

func TestTensorKeysMoveTheCursor(t *testing.T) {
	s := sceneOf(t, varied())
	p := newTensor(s)
	p.SetSize(120, 35)
	at := func() string { return ShortName(&s.State.Tensors[s.Cursor]) }
	for _, step := range []struct{ key, want string }{{"n", "L3 e1 down"}, {"N", "L3 e1 up"}, {"down", "L4 e1 up"}, {"up", "L3 e1 up"}} {
		if !hit(p, step.key) || at() != step.want {
			t.Errorf("after %s: %s, want %s", step.key, at(), step.want)
		}
	}
}

func TestTensorRedraws(t *testing.T) {
	state := firstDone(varied(), 100)
	s := sceneOf(t, state)
	s.Cursor = 99
	s.Detail = detailOf(s)
	p := newTensor(s)
	p.SetSize(120, 35)
	late := varied()
	other := detailOf(s)
	other.Taps[0] = nil
	th, err := NewTheme("", termenv.TrueColor, true)
	if err != nil {
		t.Fatal(err)
	}
	apply := func(b sessions.Batch) { state.Apply(b); p.Apply(b) }
	for _, c := range []struct {
		name   string
		do     func()
		redraw bool
	}{
		{"another tensor's record", func() { apply(sessions.Batch{Records: late.Records[1][120:121]}) }, false},
		{"its record", func() {
			r := late.Records[1][99]
			r.Seq, r.RelL2 = math.MaxInt64, 0.5
			apply(sessions.Batch{Records: []sessions.Record{r}})
		}, true},
		{"detail", func() { s.Detail = other }, true},
		{"l", func() { hit(p, "l") }, true},
		{"page", func() { hit(p, "right") }, true},
		{"cursor", func() { s.SetCursor(5) }, true},
		{"theme", func() { s.Theme = th }, true},
		{"size", func() { p.SetSize(70, 18) }, true},
		{"reset", func() { apply(sessions.Batch{Reset: viewstest.Empty(viewstest.Experts(0, 1, 0, 4), "nvfp4")}) }, true},
	} {
		before := p.View()
		c.do()
		if redrawn := p.View() != before; redrawn != c.redraw {
			t.Errorf("%s: redrawn %v", c.name, redrawn)
		}
	}
}

func TestTensorFitsAnySize(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := randomScene(rt, t)
		if c := s.Cursor; c >= 0 && c < len(s.State.Tensors) && rapid.Bool().Draw(rt, "detail") {
			s.Detail = detailOf(s)
			for _, rows := range s.Detail.Rows {
				rows[rapid.IntRange(0, len(rows)-1).Draw(rt, "row")] = rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), 0, -1, math.MaxFloat64}).Draw(rt, "value")
			}
			if rapid.Bool().Draw(rt, "rows missing") {
				s.Detail.Rows, s.Detail.RowErr = nil, rapid.String().Draw(rt, "reason")
			}
		}
		exercise(rt, s, NewTensor(s))
	})
}
