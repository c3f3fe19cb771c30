package views

import (
	"slices"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/muesli/termenv"

	"quantscope/sessions"
	"quantscope/views/viewstest"
)

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

// The scale is locked by the root's key, on every screen; the map has none of its
// own for it.
func TestMapLeavesTheScaleToTheRoot(t *testing.T) {
	sc := sceneFor(t, viewstest.Demo(), termenv.Ascii)
	m := NewMap(sc)
	m.SetSize(80, 24)
	for _, key := range []string{"s", "L"} {
		if handled, _ := m.HandleKey(keyMsg(key)); handled || sc.LockScale {
			t.Errorf("%s: handled %v, locked %v", key, handled, sc.LockScale)
		}
	}
	for _, k := range m.Keys() {
		if slices.Contains(k.Keys, "s") || slices.Contains(k.Keys, "L") {
			t.Errorf("the map lists %q", k.Label)
		}
	}
}
