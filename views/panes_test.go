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
