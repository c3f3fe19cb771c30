package views

import (
	"math"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/muesli/termenv"
	"pgregory.net/rapid"

	"quantscope/analysis/stats"
	"quantscope/analysis/yardstick"
	"quantscope/sessions"
	"quantscope/views/viewstest"
)

func TestCompareGolden(t *testing.T) {
	for _, size := range paneSizes {
		t.Run(size.name, func(t *testing.T) {
			s := sceneOf(t, varied())
			s.Variant = 2
			p := NewCompare(s)
			p.SetSize(size.w, size.h)
			checkSize(t, p.View(), size.w, size.h)
			checkGolden(t, p.Title()+"\n"+p.View())
		})
	}
	t.Run("80x24 parts", func(t *testing.T) {
		s := sceneOf(t, firstDone(varied(), 100))
		s.Variant = 2
		p := NewCompare(s)
		p.SetSize(80, 19)
		var b strings.Builder
		for range compareCycle {
			b.WriteString(p.View() + "\n")
			hit(p, "o")
		}
		checkGolden(t, b.String())
	})
	t.Run("120x40 deep", func(t *testing.T) {
		s := sceneOf(t, varied())
		s.Metric, _ = MetricByName("deep")
		p := NewCompare(s)
		p.SetSize(120, 35)
		checkGolden(t, p.View())
	})
	t.Run("colour", func(t *testing.T) {
		s := sceneIn(t, varied(), termenv.TrueColor)
		s.Variant = 2
		p := NewCompare(s)
		p.SetSize(100, 26)
		checkGolden(t, p.View())
	})
}

// The two sides of a measurement of KL stand in the table and in the sentence, and
// where the screen is small in the line of the outcome.
func TestCompareKL(t *testing.T) {
	s := sceneOf(t, varied())
	s.Variant = 2
	p := NewCompare(s)
	for _, c := range []struct {
		pair              yardstick.Pair
		table, line, sent string
	}{
		{yardstick.Pair{B: 1, DKL: -0.0041, Low: -0.0045, High: -0.0037, Chunks: 72}, "0.0227 → 0.0186 ±0.0004", "KL 0.0227 → 0.0186", "KL to the reference falls 0.0227 → 0.0186 ±0.0004."},
		{yardstick.Pair{B: 1, DKL: -0.0041, Low: -0.0245, High: 0.0163, Chunks: 2}, "0.0227 → 0.0186 ±0.0204", "KL 0.0227 → 0.0186", "KL to the reference cannot be told apart: 0.0227 → 0.0186 ±0.0204."},
		{yardstick.Pair{B: 1, Equal: true, Chunks: 72}, "0.0227 → 0.0186, equal", "KL 0.0227 → 0.0186", "KL to the reference is the same in every position."},
		{yardstick.Pair{B: 1, DKL: -0.0041, Low: math.NaN(), High: math.NaN(), Chunks: 1}, "0.0227 → 0.0186", "KL 0.0227 → 0.0186", "KL to the reference cannot be told apart: 0.0227 → 0.0186."},
	} {
		s.KL.Compared = &KLCompared{A: "nvfp4", B: "nvfp4+mse_ge1", KLA: 0.0227, KLB: 0.0186, Pair: c.pair}
		s.Touch()
		p.SetSize(198, 55)
		view := p.View()
		if !strings.Contains(view, "KL, 95 %") || !strings.Contains(view, c.table) || !strings.Contains(view, c.sent) {
			t.Errorf("neither %q nor %q:\n%s", c.table, c.sent, view)
		}
		p.SetSize(98, 20)
		if view := p.View(); !strings.Contains(view, c.line) {
			t.Errorf("no %q:\n%s", c.line, view)
		}
	}
	// Of other variants nothing is said.
	s.SetVariant(1)
	for _, size := range [][2]int{{198, 55}, {98, 20}} {
		p.SetSize(size[0], size[1])
		if view := p.View(); strings.Contains(view, "KL") {
			t.Errorf("KL of two others:\n%s", view)
		}
	}
}

func TestArrangeCompare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, h := rapid.IntRange(-1, 300).Draw(t, "w"), rapid.IntRange(-1, 120).Draw(t, "h")
		l := arrangeCompare(w, h, rapid.IntRange(0, 100).Draw(t, "rows"), comparePart(rapid.IntRange(0, int(compareCycle)-1).Draw(t, "part")), rapid.Bool().Draw(t, "places"))
		rects := append([]rect{l.head, l.cursor}, l.parts[:]...)
		for i, a := range rects {
			if a.w < 0 || a.h < 0 {
				t.Fatalf("%d×%d: part %d has size %d×%d", w, h, i, a.w, a.h)
			}
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

func TestSigned(t *testing.T) {
	for v, want := range map[float64]string{-21.04: "−21.0", 3: "+3.0", 0: "0.0", -0.04: "0.0", 0.04: "0.0", math.Inf(1): "–", math.NaN(): "–"} {
		if got := signed("%+.1f", v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}

func TestPValue(t *testing.T) {
	for log10, want := range map[float64]string{
		0: "1.0000", math.Log10(0.0128): "0.0128", -40.4: "4e−41", math.Log10(9.96e-12): "1e−11", -6046.4: "4e−6047", -3.5: "3e−4", math.NaN(): "–",
	} {
		if got := pValue(log10); got != want {
			t.Errorf("%v: %q, want %q", log10, got, want)
		}
	}
}

// A cell that stands for several tensors says so, on each of the maps, and which of
// their changes B − A shows.
func TestCompareSaysWhatACellStandsFor(t *testing.T) {
	s := sceneOf(t, varied())
	s.Variant = 2
	p := newCompare(s)
	for _, size := range [][2]int{{118, 35}, {198, 55}, {78, 19}} {
		p.SetSize(size[0], size[1])
		for range compareCycle {
			l := p.layout()
			for i, part := range []comparePart{compareA, compareB, compareDiff} {
				r := l.parts[part]
				if r.empty() {
					continue
				}
				view := p.View() // sizes the maps
				words, short := p.maps[i].Over()
				line := []rune(strings.Split(view, "\n")[r.y])
				title := string(line[r.x:min(r.x+r.w, len(line))])
				if words == "" && size[0] == 118 {
					t.Fatalf("%d×%d: a cell of %s is one tensor: the test shows nothing", size[0], size[1], comparePartNames[part])
				}
				if said := strings.Contains(title, words) || strings.Contains(title, short); !said && (l.small || part == compareDiff) {
					t.Errorf("%d×%d: %q says neither %q nor %q", size[0], size[1], title, words, short)
				}
				if !l.small && !strings.Contains(p.Title(), words) {
					t.Errorf("%d×%d: title %q does not say %q", size[0], size[1], p.Title(), words)
				}
			}
			hit(p, "o")
		}
	}
	p.SetSize(118, 35)
	s.SetProjection("gate")
	p.View()
	if words, _ := p.maps[2].Over(); words != "" || strings.Contains(p.Title(), "over") {
		t.Errorf("one projection: %q in %q", words, p.Title())
	}
	// The change for the worse wins, though the one for the better is larger.
	s.SetProjection("")
	at := s.Cursor
	bucket := p.maps[2].Bucket(at)
	if len(bucket) < 2 {
		p.View()
		bucket = p.maps[2].Bucket(at)
	}
	worst := math.Inf(-1)
	for _, k := range bucket {
		worst = max(worst, p.pairs.changes[k])
	}
	row, col := p.maps[2].cellOf(at)
	if got := p.maps[2].cells[row*len(p.maps[2].layout.cols)+col].value; len(bucket) < 2 || got != worst {
		t.Errorf("the cell of %d tensors shows %v, want %v", len(bucket), got, worst)
	}
}

func TestCompareSentence(t *testing.T) {
	a, b := &sessions.Variant{Name: "nvfp4"}, &sessions.Variant{Name: "nvfp4+mse"}
	o := &comparison{
		by:   stats.Paired{N: 240, Wins: 236, Losses: 4},
		rel2: stats.Paired{N: 240, SumA: 2, SumB: 1.58}, missing: 1200,
	}
	if got, want := compareSentence(a, b, o, "rel_l2"), "nvfp4+mse lowers mean rel2 by 21.0 % against nvfp4; by rel_l2 it is better on 236 of 240 tensors and worse on 4; 1,200 not measured yet."; got != want {
		t.Errorf(" got %s\nwant %s", got, want)
	}
	same := &comparison{by: stats.Paired{N: 240, Ties: 240}, rel2: stats.Paired{N: 240, SumA: 2, SumB: 2}}
	if got, want := compareSentence(a, b, same, "rel_l2"), "nvfp4+mse has the mean rel2 of nvfp4; by rel_l2 none of 240 tensors differs."; got != want {
		t.Errorf(" got %s\nwant %s", got, want)
	}
	if got, want := compareSentence(a, b, &comparison{}, "rel_l2"), "nvfp4+mse against nvfp4: no tensor is measured under both yet."; got != want {
		t.Errorf(" got %s\nwant %s", got, want)
	}
	if got, want := compareSentence(a, b, &comparison{total: 240}, "tokens"), "nvfp4+mse against nvfp4: no tensor has tokens under both."; got != want {
		t.Errorf(" got %s\nwant %s", got, want)
	}
}

func TestCompareSaysWhatIsMissing(t *testing.T) {
	s := sceneOf(t, firstDone(varied(), 180))
	s.State.Records[1][3].RelL2 = math.NaN()
	p := NewCompare(s)
	p.SetSize(120, 35)
	if got := p.Title(); !strings.Contains(got, "n = 179 of 240 pairs so far") {
		t.Errorf("title %q", got)
	}
	view := p.View()
	for _, want := range []string{"not measured yet", "no finite figure"} {
		if !strings.Contains(view, want) {
			t.Errorf("%q is not on the screen", want)
		}
	}
	s.Baseline = 1
	s.Touch()
	if view := p.View(); !strings.Contains(view, "A and B are both nvfp4+mse") {
		t.Errorf("one variant against itself: %q", view)
	}
}

func TestCompareSwaps(t *testing.T) {
	s := sceneOf(t, varied())
	p := newCompare(s)
	p.SetSize(120, 35)
	p.View()
	before := p.pairs.outcome
	if !hit(p, "x") || s.Baseline != 1 || s.Variant != 0 {
		t.Fatalf("baseline %d, variant %d", s.Baseline, s.Variant)
	}
	p.View()
	after := p.pairs.outcome
	if after.by.Wins != before.by.Losses || after.by.Losses != before.by.Wins || after.test.Plus != before.test.Minus || len(after.worst) == 0 {
		t.Errorf("before %+v, after %+v", before.by, after.by)
	}
}

func TestCompareGoesThroughRegressions(t *testing.T) {
	s := sceneOf(t, varied())
	s.Variant = 2
	p := newCompare(s)
	p.SetSize(120, 35)
	p.View()
	list := p.pairs.outcome.worst
	if len(list) < 3 {
		t.Fatalf("%d regressions", len(list))
	}
	for i := range list {
		if i > 0 && list[i].change > list[i-1].change {
			t.Errorf("regression %d is worse than the one before", i)
		}
		if hit(p, "g"); s.Cursor != list[i].tensor {
			t.Errorf("g number %d: tensor %d, want %d", i, s.Cursor, list[i].tensor)
		}
	}
	if hit(p, "g"); s.Cursor != list[0].tensor {
		t.Error("g does not begin again")
	}
	s.SetVariant(1) // wins everywhere
	p.View()
	if hit(p, "g") {
		t.Error("g without regressions did something")
	}
}

// TestCompareMouse clicks what the arrows reach, on each of the three maps.
func TestCompareMouse(t *testing.T) {
	s := sceneOf(t, varied())
	p := newCompare(s)
	p.SetSize(120, 35)
	p.View()
	click := tea.MouseMsg{Action: tea.MouseActionPress, Button: tea.MouseButtonLeft}
	for _, part := range []comparePart{compareA, compareB, compareDiff} {
		r := p.layout().parts[part]
		found := map[int]bool{}
		for y := range r.h {
			for x := range r.w {
				if handled, _ := p.HandleMouse(r.x+x, r.y+y, click); handled {
					found[s.State.Tensors[s.Cursor].Role.Layer] = true
				}
			}
		}
		if len(found) != 5 {
			t.Errorf("%s: clicks reach layers %v", comparePartNames[part], found)
		}
	}
	s.SetVariant(2)
	p.View()
	r := p.layout().parts[compareWorst]
	if handled, _ := p.HandleMouse(r.x+3, r.y+2, click); !handled || s.Cursor != p.pairs.outcome.worst[0].tensor {
		t.Errorf("a click on the worst regression goes to tensor %d", s.Cursor)
	}
}

func TestCompareMovesTheCursorOnAllMaps(t *testing.T) {
	s := sceneOf(t, varied())
	p := newCompare(s)
	p.SetSize(120, 35)
	p.View()
	before := s.Cursor
	if hit(p, "down"); s.Cursor == before {
		t.Error("the cursor stays")
	}
	p.View()
	for i, m := range p.maps {
		if m.Cursor() != s.Cursor {
			t.Errorf("map %d: cursor %d, want %d", i, m.Cursor(), s.Cursor)
		}
	}
}

func TestCompareRedraws(t *testing.T) {
	state := firstDone(varied(), 100)
	s := sceneOf(t, state)
	s.Variant, s.Cursor = 2, 5
	p := newCompare(s)
	p.SetSize(80, 19)
	late := varied()
	th, err := NewTheme("", termenv.TrueColor, true)
	if err != nil {
		t.Fatal(err)
	}
	m, _ := MetricByName("cos")
	f, err := NewFilter("gate", state.Tensors)
	if err != nil {
		t.Fatal(err)
	}
	apply := func(b sessions.Batch) { state.Apply(b); p.Apply(b) }
	for _, c := range []struct {
		name   string
		do     func()
		redraw bool
	}{
		{"records of B alone", func() { apply(sessions.Batch{Records: late.Records[2][100:140]}) }, false},
		{"records of A", func() { apply(sessions.Batch{Records: late.Records[0][100:140]}) }, true},
		{"records of neither", func() { apply(sessions.Batch{Records: late.Records[1][100:140]}) }, false},
		{"metric", func() { s.SetMetric(m) }, true},
		{"filter", func() { s.SetFilter(f) }, true},
		{"cursor", func() { s.SetCursor(7) }, true},
		{"x", func() { hit(p, "x") }, true},
		{"o", func() { hit(p, "o") }, true},
		{"theme", func() { s.Theme = th }, true},
		{"size", func() { p.SetSize(70, 18) }, true},
		{"reset", func() { apply(sessions.Batch{Reset: viewstest.Empty(state.Tensors, "nvfp4", "nvfp4+mse", "c")}) }, true},
	} {
		before := p.View()
		c.do()
		if redrawn := p.View() != before; redrawn != c.redraw {
			t.Errorf("%s: redrawn %v", c.name, redrawn)
		}
	}
}

func TestCompareFitsAnySize(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := randomScene(rt, t)
		exercise(rt, s, NewCompare(s))
	})
}

func BenchmarkCompareFrame(b *testing.B) { benchmarkFrames(b, NewCompare) }
