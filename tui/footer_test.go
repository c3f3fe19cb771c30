package tui

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"quantscope/sessions"
	"quantscope/views"
)

// No name of a screen and no first variant is cut at any width that has panes,
// and where the data come from is always named.
func TestTabsAndVariantsAreWhole(t *testing.T) {
	one := demoState()
	one.Variants, one.Records = one.Variants[:1], one.Records[:1]
	for _, mode := range []sessions.Mode{sessions.Live, sessions.Saved, sessions.Follow} {
		for _, st := range []*sessions.State{one, demoState(), fiveVariants()} {
			for _, key := range []string{"1", "2", "3", "4", "7", "8"} {
				d := drive(t, newFakeFeed(mode, st, st), fixed(), MinWidth, MinHeight).Press(key)
				for w := MinWidth; w <= 110; w++ {
					d.Resize(w, MinHeight)
					line, spans := d.m.tabLine(w)
					line = ansi.Strip(line)
					tabs := views.Truncate(line, spans[len(spans)-1].to)
					if strings.Contains(strings.TrimSuffix(tabs, "…"), "…") || views.Width(line) > w {
						t.Errorf("screen %s, width %d: a tab is cut in %q", key, w, line)
					}
					if !strings.Contains(line, map[sessions.Mode]string{sessions.Live: "● live", sessions.Saved: "○ saved", sessions.Follow: "● following"}[mode]) {
						t.Errorf("screen %s, width %d: the source is not in %q", key, w, line)
					}
					if footer, _ := d.m.footerLine(w); !strings.Contains(ansi.Strip(footer), "nvfp4 ■") || strings.Contains(footer, "…") {
						t.Errorf("screen %s, width %d, %d variants: %q", key, w, len(st.Variants), ansi.Strip(footer))
					}
				}
			}
		}
	}
}

// fiveVariants is a session whose variants take much room.
func fiveVariants() *sessions.State {
	st := demoState()
	for _, name := range []string{"nvfp4+sweep", "nvfp4+4over6"} {
		st.Variants = append(st.Variants, sessions.Variant{ID: len(st.Variants), Name: name, Effective: name, Scheme: "nvfp4", BitsPerWeight: 4.5})
		st.Records = append(st.Records, make([]sessions.Record, len(st.Tensors)))
	}
	return st
}

// The footer names the keys that a pane cannot do without first, and the
// generic ones always, at the sizes of the design and with many variants.
func TestFooterNamesTheKeysOfThePane(t *testing.T) {
	for _, size := range []struct{ w, h int }{{60, 16}, {80, 24}, {120, 40}, {200, 60}} {
		for _, st := range []*sessions.State{demoState(), fiveVariants()} {
			for _, c := range []struct{ keys, first string }{
				{"1", "enter open"},
				{"1 tab", "tab pane"},
				{"1 tab tab", "tab pane"},
				{"2", "o view"},
				{"3", "o part"},
				{"4", "o view"},
				{"8", "f kinds"},
				{"1 enter", "←→ pages"},
			} {
				d := drive(t, newFakeFeed(sessions.Saved, st, st), fixed(), size.w, size.h)
				d.Press(strings.Fields(c.keys)...)
				key := ownHints[d.m.focus][0].key
				footer, spans := d.m.footerLine(size.w)
				if !d.m.works(key) { // a large screen has no other view and no other page
					if size.w < 100 {
						t.Errorf("%d×%d, %s: %s does nothing", size.w, size.h, c.keys, key)
					}
					if strings.Contains(footer, c.first) {
						t.Errorf("%d×%d, %s: %s does nothing and is named in %q", size.w, size.h, c.keys, key, footer)
					}
					continue
				}
				first := strings.Index(footer, c.first)
				if first < 0 {
					t.Errorf("%d×%d, %s: %q is not in %q", size.w, size.h, c.keys, c.first, footer)
					continue
				}
				for _, generic := range []string{": commands", "? help", "q quit"} {
					if at := strings.Index(footer, generic); at < first {
						t.Errorf("%d×%d, %s: %q is not before %q in %q", size.w, size.h, c.keys, c.first, generic, footer)
					}
				}
				for _, s := range spans {
					if s.key != "" && s.key != key && s.from < views.Width(footer[:first]) {
						t.Errorf("%d×%d, %s: %s is named before the pane's own in %q", size.w, size.h, c.keys, s.key, footer)
					}
				}
				fits(t, footer, size.w, 1)
			}
		}
	}
}

// A click on a key of the footer presses it, whoever it belongs to.
func TestFooterKeysOfThePaneAreClicked(t *testing.T) {
	d := drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), fixed(), 80, 24)
	d.Press("2")
	before := d.m.panes[PaneClipping].View()
	if d.ClickOn("o view"); d.m.panes[PaneClipping].View() == before {
		t.Error("a click on \"o view\" shows the same view")
	}
	d.Press("1").ClickOn("enter open").On(ScreenTensor)
}
