package tui

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"quantscope/sessions"
)

// The rectangles of a layout cover each cell of the screen exactly once.
func TestArrangeTiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, h := rapid.IntRange(-1, 300).Draw(t, "w"), rapid.IntRange(-1, 120).Draw(t, "h")
		screen := Screen(rapid.IntRange(0, 10).Draw(t, "screen"))
		focus := PaneID(rapid.IntRange(0, int(paneCount)).Draw(t, "focus"))
		l := Arrange(w, h, screen, focus)
		if l.W != max(w, 0) || l.H != max(h, 0) {
			t.Fatalf("size %d×%d of %d×%d", l.W, l.H, w, h)
		}
		if l.Small {
			if w >= MinWidth && h >= MinHeight || len(l.Panes) > 0 {
				t.Fatalf("%d×%d is called small, with %d panes", w, h, len(l.Panes))
			}
			return
		}
		covered := make([]uint8, l.W*l.H)
		cover := func(what string, r Rect) {
			if r.W < 0 || r.H < 0 || r.X < 0 || r.Y < 0 || r.X+r.W > l.W || r.Y+r.H > l.H {
				t.Fatalf("%s is outside of %d×%d: %+v", what, w, h, r)
			}
			for y := r.Y; y < r.Y+r.H; y++ {
				for x := r.X; x < r.X+r.W; x++ {
					covered[y*l.W+x]++
				}
			}
		}
		cover("header", l.Header)
		cover("tabs", l.Tabs)
		cover("message", l.Message)
		cover("footer", l.Footer)
		for _, r := range l.Rules {
			cover("rule", r)
		}
		for _, p := range l.Panes {
			cover("pane", p.Rect)
			for what, in := range map[string]Rect{"title": p.Title, "body": p.Body} {
				if in.W < 0 || in.H < 0 || in.H > 0 && (in.X < p.X || in.Y < p.Y || in.X+in.W > p.X+p.W || in.Y+in.H > p.Y+p.H) {
					t.Fatalf("%s of pane %d leaves it: %+v of %+v", what, p.ID, in, p.Rect)
				}
			}
			if p.Body.H < 1 || p.Body.W < 1 {
				t.Fatalf("pane %d has no body: %+v", p.ID, p)
			}
		}
		for i, n := range covered {
			if n != 1 {
				t.Fatalf("cell (%d, %d) of %d×%d is covered %d times", i%l.W, i/l.W, w, h, n)
			}
		}
	})
}

// What stands beside each other at the sizes that the design names.
func TestArrangeColumns(t *testing.T) {
	for _, c := range []struct {
		w, h   int
		screen Screen
		focus  PaneID
		want   []PaneID
	}{
		{80, 24, ScreenMap, PaneMap, []PaneID{PaneMap, PaneDetail}},
		{80, 24, ScreenMap, PaneDetail, []PaneID{PaneDetail}},
		{80, 24, ScreenMap, PaneWorst, []PaneID{PaneWorst}},
		{120, 36, ScreenMap, PaneMap, []PaneID{PaneMap, PaneDetail}},
		{120, 36, ScreenMap, PaneWorst, []PaneID{PaneMap, PaneWorst}},
		{200, 60, ScreenMap, PaneMap, []PaneID{PaneMap, PaneDetail, PaneWorst}},
		{200, 60, ScreenLog, PaneLog, []PaneID{PaneLog}},
		{120, 36, ScreenCompare, PaneCompare, []PaneID{PaneCompare}},
		{59, 24, ScreenMap, PaneMap, nil},
		{80, 15, ScreenMap, PaneMap, nil},
	} {
		l := Arrange(c.w, c.h, c.screen, c.focus)
		var got []PaneID
		for _, p := range l.Panes {
			got = append(got, p.ID)
		}
		if len(got) != len(c.want) {
			t.Errorf("%d×%d %v: panes %v, want %v", c.w, c.h, c.screen, got, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%d×%d %v: panes %v, want %v", c.w, c.h, c.screen, got, c.want)
			}
		}
	}
	strip := Arrange(80, 24, ScreenMap, PaneMap).Panes[1]
	if strip.Body.H != 2 || strip.Title.H != 0 {
		t.Errorf("the detail under a narrow map is %+v, want two lines without a title", strip)
	}
}

// The header leaves out whole items where there is no room: half a number is a
// wrong one.
func TestHeaderDropsWholeItems(t *testing.T) {
	st := demoState()
	st.Meta.Summary = "glm4_moe · 5 MoE layers · 240 experts · 1234 tensors"
	st.Meta.SourceBytes = 57_300_000
	whole := st.Meta.Summary + " · 57.3 MB"
	d := drive(t, newFakeFeed(sessions.Saved, st, st), fixed(), 60, 24)
	last := 0
	for w := 60; w <= 160; w++ {
		d.Resize(w, 24)
		header, _ := d.m.headerLine(w)
		_, shown, ok := strings.Cut(header, "demo")
		if !ok {
			t.Fatalf("%d columns: no name in %q", w, header)
		}
		shown, _, _ = strings.Cut(shown, "✓")
		shown = strings.TrimSpace(shown)
		if shown != "" && shown != whole && !strings.HasPrefix(whole, shown+" · ") {
			t.Errorf("%d columns: the header says %q of %q", w, shown, whole)
		}
		if len(shown) < last {
			t.Errorf("%d columns: %q is shorter than on a narrower screen", w, shown)
		}
		last = len(shown)
	}
	if last != len(whole) {
		t.Errorf("on a wide screen %d bytes of %d are shown", last, len(whole))
	}
}
