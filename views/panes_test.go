package views

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/exp/golden"
	"github.com/muesli/termenv"
	"pgregory.net/rapid"

	"quantscope/kernels"
	"quantscope/sessions"
	"quantscope/views/viewstest"
)

// homePanes are the panes of the home screen.
var homePanes = map[string]func(*Scene) Pane{"map": NewMap, "detail": NewDetail, "worst": NewWorst}

// withDetail adds what the root fetches for the cursor.
func withDetail(sc *Scene) *Scene {
	d := &Detail{Tensor: sc.Cursor, Errs: make([]string, len(sc.State.Variants))}
	for v := range sc.State.Variants {
		var tap *kernels.Tap
		if _, ok := sc.Record(v, sc.Cursor); ok {
			tap = viewstest.Tap(sc.State, v, sc.Cursor)
		}
		d.Taps = append(d.Taps, tap)
	}
	sc.Detail = d
	return sc
}

func TestHomePanesGolden(t *testing.T) {
	sizes := map[string][][2]int{
		"map":    {{80, 18}, {68, 32}, {86, 56}, {40, 8}, {30, 4}},
		"detail": {{80, 2}, {50, 32}, {54, 56}, {40, 16}, {24, 8}},
		"worst":  {{80, 20}, {56, 56}, {40, 12}, {24, 5}},
	}
	for _, what := range []string{"demo", "partial", "big"} {
		for name, make := range homePanes {
			for _, size := range sizes[name] {
				t.Run(fmt.Sprintf("%s-%s-%dx%d", name, what, size[0], size[1]), func(t *testing.T) {
					var sc *Scene
					switch what {
					case "demo":
						sc = sceneFor(t, viewstest.Demo(), termenv.Ascii)
						sc.Variant, sc.Cursor = 1, 100
					case "partial":
						sc = sceneFor(t, viewstest.Partial(), termenv.Ascii)
						sc.Cursor = 20
					default:
						sc = sceneFor(t, viewstest.Big(43, 64, viewstest.Variants...), termenv.Ascii)
						sc.Cursor = 4000
						NewMap(sc).SetSize(86, 56)
					}
					p := make(withDetail(sc))
					p.SetSize(size[0], size[1])
					checkExact(t, p.View(), size[0], size[1])
					golden.RequireEqual(t, []byte(p.Title()+"\n"+p.View()))
				})
			}
		}
	}
}

var paneKeys = []string{"left", "right", "up", "down", "h", "j", "k", "l", "home", "end", "pgup", "pgdown", "g", "G", "s", "x", "z", "q"}

func keyMsg(key string) tea.KeyMsg {
	for k, name := range map[tea.KeyType]string{
		tea.KeyLeft: "left", tea.KeyRight: "right", tea.KeyUp: "up", tea.KeyDown: "down", tea.KeyHome: "home", tea.KeyEnd: "end",
		tea.KeyPgUp: "pgup", tea.KeyPgDown: "pgdown",
	} {
		if name == key {
			return tea.KeyMsg{Type: k}
		}
	}
	return tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(key)}
}

func TestHomePanesFitAnything(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sc := anyScene(t, rt)
		names := namesOfC41()
		for i := rapid.IntRange(0, 4).Draw(rt, "renamed"); i > 0 && i < len(sc.State.Tensors); i *= 2 {
			sc.State.Tensors[i].Name = names[i%len(names)]
			sc.State.Tensors[i].Role.Projection = []string{"", "up", "投影"}[i%3]
		}
		if rapid.Bool().Draw(rt, "no tensors") {
			sc.State.Tensors, sc.Cursor, sc.Filter = nil, -1, Filter{}
			for v := range sc.State.Records {
				sc.State.Records[v] = nil
			}
		}
		if rapid.Bool().Draw(rt, "no variants") {
			sc.State.Variants, sc.State.Records, sc.Variant = nil, nil, 0
		}
		panes := map[string]Pane{}
		for name, make := range homePanes {
			panes[name] = make(sc)
		}
		for range 6 {
			if sc.Cursor >= 0 && rapid.Bool().Draw(rt, "detail") {
				withDetail(sc)
			}
			w, h := rapid.IntRange(-1, 130).Draw(rt, "w"), rapid.IntRange(-1, 60).Draw(rt, "h")
			key := keyMsg(rapid.SampledFrom(paneKeys).Draw(rt, "key"))
			mouse := tea.MouseMsg{
				Button: tea.MouseButton(rapid.IntRange(0, 6).Draw(rt, "button")), Action: tea.MouseAction(rapid.IntRange(0, 2).Draw(rt, "action")),
			}
			x, y := rapid.IntRange(-1, 131).Draw(rt, "x"), rapid.IntRange(-1, 61).Draw(rt, "y")
			for _, name := range []string{"map", "detail", "worst"} {
				p := panes[name]
				p.SetSize(w, h)
				checkExact(rt, p.View(), w, h)
				p.HandleKey(key)
				p.HandleMouse(x, y, mouse)
				if strings.ContainsAny(p.Title(), "\n\x1b") {
					rt.Fatalf("title %q", p.Title())
				}
				checkExact(rt, p.View(), w, h)
				if sc.Cursor >= len(sc.State.Tensors) {
					rt.Fatalf("%s put the cursor on %d of %d", name, sc.Cursor, len(sc.State.Tensors))
				}
			}
		}
	})
}

func namesOfC41() []string {
	names := make([]string, 0, len(wideNames))
	for name := range wideNames {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func TestNamesInPanes(t *testing.T) {
	names := namesOfC41()
	tensors := viewstest.Dense(2)[:len(names)]
	for i, name := range names {
		tensors[i].Name, tensors[i].Role.Projection = name, ""
	}
	s := viewstest.Empty(tensors, "nvfp4")
	for i := range tensors {
		viewstest.Measure(s, 0, i)
	}
	viewstest.Fail(s, 0, 1, "👨‍👩‍👧.weight: "+strings.Repeat("模型", 60))
	for _, p := range profiles {
		sc := sceneFor(t, s, p)
		for i := range tensors {
			sc.SetCursor(i)
			withDetail(sc)
			for _, make := range homePanes {
				pane := make(sc)
				for _, w := range []int{20, 40, 80, 200} {
					pane.SetSize(w, 24)
					checkExact(t, pane.View(), w, 24)
				}
			}
		}
	}
}

func TestMapHuntsTheWorst(t *testing.T) {
	sc := sceneFor(t, viewstest.Demo(), termenv.Ascii)
	sc.Cursor = 100
	m := NewMap(sc)
	m.SetSize(80, 24)
	want := ranked(sc, 0)
	for i, key := range []string{"g", "g", "g", "G"} {
		at := []int{0, 1, 2, 1}[i]
		if handled, _ := m.HandleKey(keyMsg(key)); !handled || sc.Cursor != want[at] {
			t.Fatalf("%s number %d goes to %d, want %d", key, i, sc.Cursor, want[at])
		}
	}
	m.HandleKey(keyMsg("down"))
	m.HandleKey(keyMsg("g")) // the hunt begins again where the cursor was moved by hand
	if sc.Cursor != want[0] {
		t.Errorf("g goes to %d, want %d", sc.Cursor, want[0])
	}
	sc.SetMetric(Metrics()[2]) // cos: smaller is worse
	m.HandleKey(keyMsg("down"))
	m.HandleKey(keyMsg("g"))
	if want := ranked(sc, 0)[0]; sc.Cursor != want {
		t.Errorf("by cos g goes to %d, want %d", sc.Cursor, want)
	}
}

func TestMapFollowsTheRun(t *testing.T) {
	full := viewstest.Demo()
	s := viewstest.Empty(full.Tensors, viewstest.Variants...)
	sc := sceneFor(t, s, termenv.TrueColor)
	m := NewMap(sc).(*Map)
	m.SetSize(80, 24)
	empty := m.View()
	batch := func(ids ...int) {
		b := sessions.Batch{Progress: sessions.Progress{State: sessions.RunRunning}}
		for _, id := range ids {
			r := full.Records[0][id]
			r.Seq = s.LastSeq + int64(len(b.Records)) + 1
			b.Records = append(b.Records, r)
			b.LastSeq = r.Seq
		}
		s.Apply(b)
		m.Apply(b)
	}
	batch(0, 1, 2)
	if m.View() == empty {
		t.Fatal("the first records are not drawn")
	}
	if !slices.Equal(m.heat.fresh, []int{2, 1, 0}) {
		t.Errorf("the newest cells are %v", m.heat.fresh)
	}
	batch(3)
	m.View()
	if !slices.Equal(m.heat.fresh, []int{3}) {
		t.Errorf("the newest cells are %v", m.heat.fresh)
	}
	end := sessions.Batch{Progress: sessions.Progress{State: sessions.RunFinished}, LastSeq: s.LastSeq + 1}
	s.Apply(end)
	m.Apply(end)
	m.View()
	if len(m.heat.fresh) != 0 {
		t.Errorf("cells %v stay bright after the end", m.heat.fresh)
	}
	before := m.heat.Version()
	m.View()
	if m.heat.Version() != before {
		t.Error("drawing again draws anew")
	}
}

func TestMapScaleSpansWhatIsShown(t *testing.T) {
	sc := sceneFor(t, viewstest.Demo(), termenv.Ascii)
	m := NewMap(sc).(*Map)
	m.SetSize(120, 30)
	m.View()
	own := m.heat.scale
	sc.SetLockScale(true)
	m.View()
	if all := m.heat.scale; all.Lo >= own.Lo || all.Hi > own.Hi || all.Count != 3*own.Count {
		t.Errorf("locked %+v, own %+v", all, own)
	}
	if !strings.Contains(m.Title(), "one scale") {
		t.Errorf("title %q", m.Title())
	}
	sc.SetLockScale(false)
	sc.SetProjection("up")
	m.View()
	if up := m.heat.scale; up.Count != 80 {
		t.Errorf("the scale of one projection is made of %d values", up.Count)
	}
	f, err := NewFilter(`layers\.1\.`, sc.State.Tensors)
	if err != nil {
		t.Fatal(err)
	}
	sc.SetFilter(f)
	m.View()
	if up := m.heat.scale; up.Count != 16 {
		t.Errorf("the scale of one layer's projection is made of %d values", up.Count)
	}
}

func TestMapTitles(t *testing.T) {
	sc := sceneFor(t, viewstest.Big(43, 288, "nvfp4"), termenv.TrueColor)
	m := NewMap(sc)
	for _, c := range []struct {
		w, h  int
		metr  int
		proj  string
		title string
	}{
		{1000, 50, 0, "", "rel_l2 · nvfp4 · gate, up, down"},
		{300, 50, 0, "", "rel_l2 · nvfp4 · max over gate, up, down"},
		{100, 50, 2, "", "cos · nvfp4 · min over gate, up, down × 3 experts"},
		{300, 50, 0, "up", "rel_l2 · nvfp4 · up"},
		{150, 12, 0, "up", "rel_l2 · nvfp4 · up · max over 2 experts × 3 layers"},
	} {
		m.SetSize(c.w, c.h)
		sc.SetMetric(Metrics()[c.metr])
		sc.SetProjection(c.proj)
		if got := m.Title(); got != c.title {
			t.Errorf("%d×%d: %q, want %q", c.w, c.h, got, c.title)
		}
	}
}

func TestMapMouse(t *testing.T) {
	sc := sceneFor(t, viewstest.Demo(), termenv.Ascii)
	m := NewMap(sc)
	m.SetSize(80, 8) // one line a layer, three cells an expert
	if handled, _ := m.HandleMouse(3+4*7+1, 3, tea.MouseMsg{Action: tea.MouseActionMotion}); !handled || ShortName(&sc.State.Tensors[sc.Cursor]) != "L3 e7 up" {
		t.Errorf("hovering selects %d", sc.Cursor)
	}
	if handled, _ := m.HandleMouse(3, 1, tea.MouseMsg{Action: tea.MouseActionPress, Button: tea.MouseButtonLeft}); !handled || sc.Cursor != 0 {
		t.Errorf("a click selects %d", sc.Cursor)
	}
	if handled, _ := m.HandleMouse(0, 0, tea.MouseMsg{Action: tea.MouseActionPress, Button: tea.MouseButtonLeft}); handled {
		t.Error("a click on the header does something")
	}
}

func TestWorstListsEverythingInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sc := anyScene(t, rt)
		sc.Cursor = -1
		p := NewWorst(sc).(*worstPane)
		p.SetSize(60, rapid.IntRange(2, 12).Draw(rt, "h"))
		p.View()
		states := sc.States(sc.Variant)
		var want []int
		for _, st := range []CellState{Failed, NotFinite} {
			for id := range states {
				if states[id] == st && sc.Shown(id) {
					want = append(want, id)
				}
			}
		}
		want = append(want, ranked(sc, sc.Variant)...)
		p.HandleKey(keyMsg("down"))
		for i, id := range want {
			if sc.Cursor != id {
				rt.Fatalf("place %d is %d, want %d", i, sc.Cursor, id)
			}
			if at := p.rank.placeOf(sc, id); at != i {
				rt.Fatalf("tensor %d says it has place %d, want %d", id, at, i)
			}
			p.HandleKey(keyMsg("down"))
			p.View()
			if at := p.rank.placeOf(sc, sc.Cursor); at < p.offset || at >= p.offset+p.rows() {
				rt.Fatalf("place %d is out of sight: %d lines from %d", at, p.rows(), p.offset)
			}
		}
	})
}

func TestWorstNamesTheReason(t *testing.T) {
	sc := sceneFor(t, viewstest.Partial(), termenv.Ascii)
	p := NewWorst(sc)
	p.SetSize(140, 10)
	lines := strings.Split(p.View(), "\n")
	if !strings.Contains(lines[1], "! ") || !strings.Contains(lines[1], "L1 e6 down  model.safetensors: read at byte 4096: unexpected end of file") {
		t.Errorf("the first line is %q", lines[1])
	}
	if !strings.Contains(lines[2], "× ") || !strings.Contains(lines[2], "not finite") {
		t.Errorf("the second line is %q", lines[2])
	}
	handled, _ := p.HandleMouse(4, 1, tea.MouseMsg{Action: tea.MouseActionPress, Button: tea.MouseButtonLeft})
	if !handled || sc.Cursor != 20 {
		t.Errorf("a click selects %d", sc.Cursor)
	}
	p.HandleMouse(4, 1, tea.MouseMsg{Button: tea.MouseButtonWheelDown, Action: tea.MouseActionPress})
	if got := strings.Split(p.View(), "\n")[1]; strings.Contains(got, "! ") || sc.Cursor != 20 {
		t.Errorf("the wheel leaves %q at the top and the cursor on %d", got, sc.Cursor)
	}
}

func TestDetailWithoutHistograms(t *testing.T) {
	sc := sceneFor(t, viewstest.Demo(), termenv.Ascii)
	sc.Cursor = 5
	p := NewDetail(sc)
	p.SetSize(60, 40)
	if !strings.Contains(p.View(), "histograms …") {
		t.Error("nothing says that histograms are on their way")
	}
	sc.Detail = &Detail{Tensor: 5, Taps: make([]*kernels.Tap, 3), Errs: []string{"session file: disk gone\x07", "", ""}}
	if got := p.View(); !strings.Contains(got, "nvfp4: session file: disk gone␇") {
		t.Errorf("nothing says why there are none:\n%s", got)
	}
	sc.Detail = &Detail{Tensor: 6} // of the tensor before
	if !strings.Contains(p.View(), "histograms …") {
		t.Error("the histograms of another tensor are shown")
	}
	sc.SetCursor(5)
	sc.Cursor = -1
	sc.Touch()
	if got := strings.TrimSpace(p.View()); got != "no tensor under the cursor" {
		t.Errorf("%q", got)
	}
}

func TestCodesAreOrderedByValue(t *testing.T) {
	tap := &kernels.Tap{}
	for i := range tap.Codes {
		tap.Codes[i] = int64(i + 1)
	}
	if got, want := codeBins(tap, "nvfp4"), []float64{16, 15, 14, 13, 12, 11, 10, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := codeBins(tap, "int4-g128"); got[0] != 1 || len(got) != 16 {
		t.Errorf("%v", got)
	}
}

func TestKeysOfPanesWork(t *testing.T) {
	sc := sceneFor(t, viewstest.Demo(), termenv.Ascii)
	sc.Cursor = 100
	for name, make := range homePanes {
		p := make(sc)
		p.SetSize(80, 24)
		for _, k := range p.Keys() {
			for _, key := range k.Keys {
				if handled, _ := p.HandleKey(keyMsg(key)); !handled {
					t.Errorf("%s lists %q and does not know it", name, key)
				}
			}
		}
		if handled, _ := p.HandleKey(keyMsg("q")); handled {
			t.Errorf("%s takes a key that it does not list", name)
		}
	}
	empty := sceneFor(t, viewstest.Empty(viewstest.Dense(1), "nvfp4"), termenv.Ascii)
	for _, k := range NewMap(empty).Keys() {
		if (k.Disabled != "") != (slices.Contains(k.Keys, "g") || slices.Contains(k.Keys, "G")) {
			t.Errorf("%v: disabled %q", k.Keys, k.Disabled)
		}
	}
}

// BenchmarkHome is a frame of the home screen at 200×60 while a run over
// 37,152 tensors goes on: a batch of 64 records is taken in and three panes are
// drawn. The 99th percentile is what a person feels; its budget is 16 ms.
func BenchmarkHome(b *testing.B) {
	for _, moving := range []bool{false, true} {
		b.Run(fmt.Sprintf("37152x4/moving=%v", moving), func(b *testing.B) {
			s := viewstest.Big(43, 288, append(slices.Clone(viewstest.Variants), "nvfp4+sweep")...)
			sc := sceneFor(b, s, termenv.TrueColor)
			sc.Cursor = 5000
			withDetail(sc)
			m, d, w := NewMap(sc), NewDetail(sc), NewWorst(sc)
			m.SetSize(100, 56)
			d.SetSize(46, 56)
			w.SetSize(50, 56)
			panes := []Pane{m, d, w}
			for _, p := range panes {
				p.View()
			}
			b.ReportAllocs()
			var frames []time.Duration
			next := 0
			for b.Loop() {
				batch := sessions.Batch{Progress: sessions.Progress{State: sessions.RunRunning}, LastSeq: s.LastSeq}
				for range 64 {
					r := s.Records[0][next%len(s.Tensors)]
					batch.LastSeq++
					r.Seq = batch.LastSeq
					r.RelL2 *= 1 + 0.01*math.Sin(float64(next))
					batch.Records = append(batch.Records, r)
					next++
				}
				t0 := time.Now()
				s.Apply(batch)
				for _, p := range panes {
					p.Apply(batch)
				}
				if moving {
					m.HandleKey(keyMsg("right"))
				}
				for _, p := range panes {
					p.View()
				}
				frames = append(frames, time.Since(t0))
			}
			slices.Sort(frames)
			b.ReportMetric(float64(frames[len(frames)*99/100].Microseconds()), "p99-µs")
		})
	}
}
