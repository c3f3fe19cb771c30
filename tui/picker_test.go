package tui

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"quantscope/quant/method"
	"quantscope/sessions"
)

// everyVariant offers all that can be had.
func everyVariant() Options {
	o := fixed()
	o.Known = nil
	for _, h := range method.Known() {
		o.Known = append(o.Known, Known{Name: h.Name, Help: h.Description, Calibrated: h.Calibrated})
	}
	return o
}

// The variants of the session stand before those that can be added, which stand
// by kind of format; every one is offered once.
func TestVariantsAreOfferedByFormat(t *testing.T) {
	d := drive(t, newFakeRun(demoState()), everyVariant(), 120, 90)
	d.Press("v").Sees("in this session", "NVFP4: ", "MXFP4: ", "FP8: ", "int4: ", "fp8-block128               8.002 bits")
	d.Misses("others", " more ─")
	screen := d.Screen()
	order := []string{"in this session", "nvfp4+mse_ge1 ", "NVFP4: ", "nvfp4+sweep ", "MXFP4: ", "mxfp4 ", "FP8: ", "fp8-channel ", "int4: ", "int4-g128+range ", "int4-channel-sym+range "}
	last := 0
	for _, text := range order {
		at := strings.Index(screen[last:], text)
		if at < 0 {
			t.Fatalf("%q does not stand behind what is before it\n%s", text, screen)
		}
		last += at
	}
	p := d.m.dialog.(*picker)
	var names []string
	for _, it := range p.items {
		names = append(names, it.name)
	}
	slices.Sort(names)
	if n := len(method.Known()); len(slices.Compact(names)) != n || len(p.items) != n {
		t.Errorf("%d items of %d names, want %d", len(p.items), len(names), n)
	}
}

// What is typed searches, a blank marks, and marks outlast the search.
func TestVariantsAreSearched(t *testing.T) {
	run := newFakeRun(demoState())
	d := drive(t, run, everyVariant(), 80, 24)
	d.Press("v").Type("sym+r").Sees("int4-g128-sym+range").Misses("in this session", "nvfp4+sweep", "fp8")
	d.Press("home", " ").Sees("Variants · 1 marked")
	d.Press("backspace", "backspace", "backspace", "backspace", "backspace").Sees("in this session")
	d.Type("jkq").Sees("nothing is called that").Press(" ", "enter").Sees("› jkq")
	d.Press("backspace", "backspace", "backspace").Type("fp8-b").Press(" ").Sees("Variants · 2 marked").Press("enter")
	// What the session has comes before what fits better and would have to be measured.
	d.Press("v").Type("fp8")
	if got := d.m.dialog.(*picker).item().name; got != "fp8-block128" {
		t.Errorf("%s is found first, not fp8-block128 of the session", got)
	}
	d.Press("esc")
	slices.Sort(run.added)
	if got := strings.Join(run.added, " "); !strings.HasPrefix(got, "fp8-block128 int4-") || len(run.added) != 2 {
		t.Errorf("added %q", got)
	}
}

// Methods compose in more ways than are listed: a name that is typed in full is
// offered, once, in its canonical form, and stays while it is marked.
func TestComposedVariantsAreOffered(t *testing.T) {
	run := newFakeRun(demoState())
	d := drive(t, run, everyVariant(), 80, 24)
	n := len(method.Known())
	d.Press("v").Type("int4-g128+gptq+range").Sees("[ ] int4-g128+range+gptq", "4.25 bits", "GPTQ over the parameters that int4-g128+range chooses")
	d.Press(" ").Sees("Variants · 1 marked")
	for range len("int4-g128+gptq+range") {
		d.Press("backspace")
	}
	d.Press("end").Sees("as typed", "[x] int4-g128+range+gptq")
	for _, text := range []string{"nvfp4+mse_ge1", "nvfp4+gptq", "nvfp4+rtn", "nvfp4+mse_ge1+gptq+ac"} { // in the session, listed, another name of what is there, not whole
		d.Type(text)
		if p := d.m.dialog.(*picker); len(p.items) != n+1 {
			t.Errorf("%s: %d items, want %d", text, len(p.items), n+1)
		}
		for range len(text) {
			d.Press("backspace")
		}
	}
	d.Type("nvfp4+mse_ge1+gptq+act").Press(" ", "enter")
	slices.Sort(run.added)
	if got := strings.Join(run.added, " "); got != "int4-g128+range+gptq nvfp4+mse_ge1+gptq+act" {
		t.Errorf("added %q", got)
	}
}

// sizeRow is a row with a size; a help may end with the word as well.
var sizeRow = regexp.MustCompile(`\d bits  \w`)

// The list scrolls with its headings, says what is out of sight, and the help of
// the variant under the cursor is whole.
func TestVariantsScroll(t *testing.T) {
	known := method.Known()
	for _, size := range [][2]int{{80, 24}, {120, 36}, {200, 60}, {80, 16}, {60, 16}} {
		d := drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), everyVariant(), size[0], size[1])
		d.Press("v")
		p := d.m.dialog.(*picker)
		for step := range 2 * len(p.items) { // down to the last and back up
			i, way := min(step, 2*len(p.items)-1-step), "down"
			if step >= len(p.items)-1 {
				way = "up"
			}
			it := p.item()
			d.Sees("❯")
			fits(t, d.m.View(), size[0], size[1])
			lines := strings.Split(d.Screen(), "\n")
			at := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "❯") })
			if !strings.Contains(lines[at], it.name) {
				t.Fatalf("%v: item %d, %s, is not under the cursor: %s", size, i, it.name, lines[at])
			}
			if (i == 0 || p.items[i-1].group != it.group) && !strings.Contains(lines[at-1], it.group) {
				t.Errorf("%v: %s stands under %q, not its heading", size, it.name, lines[at-1])
			}
			before, behind := p.hidden()
			shown := 0
			for _, l := range lines {
				if sizeRow.MatchString(l) {
					shown++
				}
			}
			if before+behind+shown != len(known) {
				t.Errorf("%v: %d before, %d shown, %d behind of %d\n%s", size, before, shown, behind, len(known), d.Screen())
			}
			if size[1] >= 24 {
				note := p.note(d.m, d.m.dialogRect().W)[1:]
				d.Sees(ansi.Strip(note[0]))
				if ansi.Strip(strings.Join(note, " ")) != it.help {
					t.Errorf("%v: the help of %s is cut\n%s", size, it.name, d.Screen())
				}
			}
			if step != len(p.items)-1 {
				d.Press(way)
			}
		}
	}
}

// A click on a heading does nothing, one on an item moves there.
func TestVariantsAreClicked(t *testing.T) {
	d := drive(t, newFakeRun(demoState()), everyVariant(), 120, 40)
	d.Press("v")
	p := d.m.dialog.(*picker)
	d.ClickOn("FP8: ")
	if p.at != 0 || d.m.dialog == nil {
		t.Errorf("a heading moved the cursor to %d", p.at)
	}
	d.ClickOn("fp8-block128")
	if got := p.item().name; got != "fp8-block128" {
		t.Errorf("on %s after a click on fp8-block128", got)
	}
	if fmt.Sprint(p.title()) != "Variants" {
		t.Errorf("title %q without marks", p.title())
	}
}

// textless is a run whose session has no text to calibrate on.
type textless struct{ *fakeRun }

func (textless) NoCalibration() string { return "the session has no calibration text" }

// Calibrated variants are offered like others; where there is no text to calibrate
// on they say so and are not added.
func TestVariantsThatNeedCalibration(t *testing.T) {
	for _, has := range []bool{true, false} {
		run := newFakeRun(demoState())
		var feed sessions.Feed = run
		if !has {
			feed = textless{run}
		}
		d := drive(t, feed, everyVariant(), 120, 40)
		d.Press("v").Type("int4-g128+gptq").Press("home", "enter")
		if added := len(run.added) == 1 && run.added[0] == "int4-g128+gptq"; added != has {
			t.Errorf("with a text %v: added %v", has, run.added)
		}
		if !has {
			d.Sees("no calibration text").Press("backspace", "backspace", "backspace", "backspace", "backspace", "enter")
			if len(run.added) != 1 || run.added[0] != "int4-g128" {
				t.Errorf("added %v, want the variant that needs no text", run.added)
			}
		}
	}
}
