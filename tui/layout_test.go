package tui

import (
	"fmt"
	"strings"
	"testing"

	"quantscope/sessions"
)

// The rectangles of a layout cover each cell of the screen exactly once, at
// every size: they lie inside, no two overlap, and their areas add up.
func TestArrangeTiles(t *testing.T) {
	large := 0
	for w := -1; w <= 300; w++ {
		for h := -1; h <= 120; h++ {
			for screen := range Screen(11) {
				for focus := range paneCount + 1 {
					l := Arrange(w, h, screen, focus)
					if fault := tilingFault(l, w, h); fault != "" {
						t.Fatalf("%d×%d, screen %d, focus %d: %s", w, h, screen, focus, fault)
					}
					if !l.Small {
						large++
					}
				}
			}
		}
	}
	if large == 0 {
		t.Error("every size is called small")
	}
}

// tilingFault says what is wrong with a layout of w×h cells; "" where nothing is.
func tilingFault(l Layout, w, h int) string {
	if l.W != max(w, 0) || l.H != max(h, 0) {
		return fmt.Sprintf("its size is %d×%d", l.W, l.H)
	}
	if l.Small {
		if w >= MinWidth && h >= MinHeight || len(l.Panes) > 0 {
			return fmt.Sprintf("it is called small, with %d panes", len(l.Panes))
		}
		return ""
	}
	all := append([]Rect{l.Header, l.Tabs, l.Message, l.Footer}, l.Rules...)
	for _, p := range l.Panes {
		all = append(all, p.Rect)
		for _, in := range []Rect{p.Title, p.Body} {
			if in.W < 0 || in.H < 0 || in.H > 0 && (in.X < p.X || in.Y < p.Y || in.X+in.W > p.X+p.W || in.Y+in.H > p.Y+p.H) {
				return fmt.Sprintf("a part of pane %d leaves it: %+v of %+v", p.ID, in, p.Rect)
			}
		}
		if p.Body.H < 1 || p.Body.W < 1 {
			return fmt.Sprintf("pane %d has no body: %+v", p.ID, p)
		}
	}
	area := 0
	for i, r := range all {
		if r.W < 0 || r.H < 0 || r.X < 0 || r.Y < 0 || r.X+r.W > l.W || r.Y+r.H > l.H {
			return fmt.Sprintf("%+v is outside", r)
		}
		area += r.W * r.H
		for _, o := range all[:i] {
			if r.X < o.X+o.W && o.X < r.X+r.W && r.Y < o.Y+o.H && o.Y < r.Y+r.H {
				return fmt.Sprintf("%+v and %+v overlap", r, o)
			}
		}
	}
	if area != l.W*l.H {
		return fmt.Sprintf("%d of %d cells are covered", area, l.W*l.H)
	}
	return ""
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
