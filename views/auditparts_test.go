package views

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"
	"github.com/muesli/termenv"
	"pgregory.net/rapid"

	"quantscope/analysis/census"
	"quantscope/analysis/lint"
	recipes "quantscope/quant/plan"
	"quantscope/sessions"
	"quantscope/views/viewstest"
)

var partSizes = []struct{ w, h int }{{78, 19}, {118, 31}, {198, 55}}

func TestAuditPartsGolden(t *testing.T) {
	for _, size := range partSizes {
		for part, key := range auditPartKeys[1:] {
			t.Run(fmt.Sprintf("%s-%dx%d", auditPartNames[part+1], size.w, size.h), func(t *testing.T) {
				p := NewAudit(partsScene(sceneOf(t, plannedState(t))))
				p.SetSize(size.w, size.h)
				hit(p, key)
				hit(p, "down")
				checkSize(t, p.View(), size.w, size.h)
				list := p.Title() + "\n" + p.View()
				hit(p, "up")
				hit(p, "enter")
				checkSize(t, p.View(), size.w, size.h)
				checkGolden(t, list+"\n\n"+p.View())
			})
		}
	}
	for _, c := range []struct {
		name, key string
		w, h      int
		do        func(*Scene)
	}{
		{"no-recipe", "P", 78, 12, func(s *Scene) { s.State = viewstest.Demo() }},
		{"no-recipe-wide", "F", 198, 40, func(s *Scene) { s.State = viewstest.Demo() }},
		{"as-requested", "F", 78, 12, func(s *Scene) { s.State.Log = nil }},
		{"nothing-ran", "F", 78, 12, func(s *Scene) { s.State = viewstest.Empty(viewstest.Demo().Tensors, "nvfp4") }},
		{"lint-clean", "f", 78, 12, func(s *Scene) { s.Audits.Subjects[0].Audit.Findings = nil }},
		{"no-audit", "f", 78, 12, func(s *Scene) { s.Audits.Subjects[0].Audit = nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := partsScene(sceneOf(t, plannedState(t)))
			c.do(s)
			p := NewAudit(s)
			p.SetSize(c.w, c.h)
			hit(p, c.key)
			checkSize(t, p.View(), c.w, c.h)
			checkGolden(t, p.Title()+"\n"+p.View())
		})
	}
	t.Run("colour", func(t *testing.T) {
		p := NewAudit(partsScene(sceneIn(t, plannedState(t), termenv.TrueColor)))
		p.SetSize(198, 50)
		hit(p, "P")
		checkGolden(t, p.View())
	})
}

// disabledOf is why a key does nothing.
func disabledOf(p *Audit, key string) string {
	for _, k := range p.Keys() {
		if slices.Contains(k.Keys, key) {
			return k.Disabled
		}
	}
	return "no such key"
}

// Enter opens a finding, and then shows its tensor on the map; what no tensor of
// the session is behind says so.
func TestAuditFindingLeadsToTheMap(t *testing.T) {
	for _, size := range partSizes {
		s := partsScene(sceneOf(t, plannedState(t)))
		p := NewAudit(s)
		p.SetSize(size.w, size.h)
		hit(p, "f")
		want := map[string]string{ // the tensor that is shown, or why there is none
			"globals-differ":       "layers.1.mlp.experts.3.up_proj",
			"structure":            "the session does not measure model.layers.9.mlp.router.weight",
			"tokenizer-truncation": "the finding is about a file, tokenizer.json, not about a tensor",
			"head-quantized":       "the session does not measure lm_head.weight",
			"mtp-lost":             "the finding is about the checkpoint as a whole, not about a tensor",
		}
		for range len(want) {
			item := p.item()
			if item == nil {
				t.Fatalf("%v: nothing is selected", size)
			}
			hit(p, "enter")
			text := ansi.Strip(p.View())
			if !strings.Contains(text, item.id) || !p.Opened() {
				t.Fatalf("%v: %s is not open:\n%s", size, item.id, text)
			}
			s.Audits.Ask = AskNothing
			off := disabledOf(p, "enter")
			if off == "" {
				hit(p, "enter")
				if name := s.State.Tensors[s.Cursor].Name; s.Audits.Ask != AskMap || !strings.HasPrefix(name, want[item.id]) {
					t.Errorf("%v: %s leads to %s, asks for %d", size, item.id, name, s.Audits.Ask)
				}
			} else if off != want[item.id] || hit(p, "enter") {
				t.Errorf("%v: %s: disabled %q, want %q", size, item.id, off, want[item.id])
			}
			delete(want, item.id)
			hit(p, "esc")
			hit(p, "down")
			p.View()
		}
		if len(want) != 0 {
			t.Errorf("%v: not seen: %v", size, want)
		}
	}
}

// A group of the plan and a fallback list their tensors, which the map shows under
// the variant that they are of.
func TestAuditListsTensors(t *testing.T) {
	for _, c := range []struct {
		key   string
		downs int // to the item
		want  func(st *sessions.State, tensor int) bool
		count int
	}{
		{"P", 0, func(st *sessions.State, i int) bool { return st.Recipes[0].Of[i] == 0 }, 128},
		{"P", 1, func(st *sessions.State, i int) bool { return st.Recipes[0].Of[i] == 1 }, 64},
		{"P", 2, func(st *sessions.State, i int) bool { return st.Recipes[0].Of[i] == -1 }, 48},
		{"F", 0, func(st *sessions.State, i int) bool { return st.Tensors[i].Role.Projection == "down" }, 3},
	} {
		s := partsScene(sceneOf(t, plannedState(t)))
		s.Variant = 0
		p := NewAudit(s)
		p.SetSize(118, 31)
		hit(p, c.key)
		for range c.downs {
			hit(p, "down")
		}
		hit(p, "enter")
		item := p.item()
		if item == nil || len(item.tensors) != c.count {
			t.Fatalf("%s %d: %+v, want %d tensors", c.key, c.downs, item, c.count)
		}
		for _, i := range item.tensors {
			if !c.want(s.State, i) {
				t.Errorf("%s %d: lists %s", c.key, c.downs, s.State.Tensors[i].Name)
			}
		}
		for range 2 {
			hit(p, "down")
		}
		p.View()
		at := p.inside.selected
		hit(p, "enter")
		if s.Cursor != item.tensors[at] || at == 0 || s.Variant != 1 || s.Audits.Ask != AskMap {
			t.Errorf("%s %d: leads to tensor %d under variant %d, want %d", c.key, c.downs, s.Cursor, s.Variant, item.tensors[at])
		}
	}
}

// What ran is counted by share of parameters, of what was requested first.
func TestAuditCountsFallbacks(t *testing.T) {
	st := plannedState(t)
	p := NewAudit(partsScene(sceneOf(t, st)))
	rows, fell := p.effectiveRows()
	if fell != 1 || rows[0].Tensors != 3 || rows[0].Requested != "int4-g128+gptq" || rows[0].Effective != "int4-g128" {
		t.Fatalf("%d fell back: %+v", fell, rows)
	}
	if want := 3.0 / float64(len(st.Tensors)); rows[0].ShareParams < want*0.999 || rows[0].ShareParams > want*1.001 {
		t.Errorf("share %g, want %g", rows[0].ShareParams, want)
	}
	sum := 0.0
	for _, r := range rows {
		if r.variant == 1 {
			sum += r.ShareParams
		}
	}
	if sum < 0.999999 || sum > 1.000001 {
		t.Errorf("shares of the recipe's variant add up to %g", sum)
	}
	st.Log = nil
	st.LastSeq++
	if _, fell := p.effectiveRows(); fell != 0 {
		t.Errorf("%d fell back without an event", fell)
	}
}

// A scale is of its matrix, under the names that other classes give it as well.
func TestAuditFindsTensorsByName(t *testing.T) {
	var n auditNames
	n.update([]sessions.Tensor{
		{Name: "model.layers.0.mlp.up_proj.weight", Source: "model.layers.0.mlp.up_proj.weight"},
		{Name: "model.layers.1.mlp.experts.gate_up_proj[0].gate", Source: "model.layers.1.mlp.experts.gate_up_proj"},
	})
	for name, want := range map[string]int{
		"model.layers.0.mlp.up_proj.weight": 0, "model.layers.0.mlp.up_proj.weight_scale_2": 0, "layers.0.mlp.up_proj.weight_packed": 0,
		"model.language_model.layers.0.mlp.up_proj.weight": 0, "language_model.model.layers.0.mlp.up_proj.weight": 0,
		"model.layers.1.mlp.experts.gate_up_proj_scales": 1, "model.layers.1.mlp.experts.gate_up_proj_blocks": 1,
		"model.layers.0.mlp.down_proj.weight": -1, "model.layers.0.mlp": -1, "": -1, "up_proj": -1,
	} {
		if got := n.find(name); got != want {
			t.Errorf("%q is of tensor %d, want %d", name, got, want)
		}
	}
}

// The filter of the findings leaves what matches, and a broken one is refused.
func TestAuditFiltersFindings(t *testing.T) {
	p := NewAudit(partsScene(sceneOf(t, plannedState(t))))
	p.SetSize(118, 31)
	hit(p, "f")
	for text, want := range map[string]int{"": 5, "error": 2, "!error": 3, "GLOBALS": 0, "layers.9": 1, "mtp": 1} {
		if err := p.SetFilterText(text); err != nil {
			t.Fatal(err)
		}
		if n, of := p.FilterCount(); n != want || of != 5 {
			t.Errorf("%q leaves %d of %d, want %d of 5", text, n, of, want)
		}
		checkSize(t, p.View(), 118, 31)
	}
	_ = p.SetFilterText("error")
	if err := p.SetFilterText("("); err == nil || p.FilterText() != "error" {
		t.Errorf("a broken filter: %v, left with %q", err, p.FilterText())
	}
	if hit(p, "esc"); p.FilterText() != "" || p.part != auditFindings {
		t.Errorf("esc leaves %q in part %d", p.FilterText(), p.part)
	}
	if hit(p, "esc"); p.part != auditCensus {
		t.Error("esc does not lead to the census")
	}
}

func TestAuditSortsFindings(t *testing.T) {
	p := NewAudit(partsScene(sceneOf(t, plannedState(t))))
	p.SetSize(118, 31)
	hit(p, "f")
	for order, want := range []string{"globals-differ tokenizer-truncation structure mtp-lost head-quantized", "globals-differ mtp-lost head-quantized structure tokenizer-truncation", "globals-differ head-quantized mtp-lost structure tokenizer-truncation", "globals-differ structure tokenizer-truncation head-quantized mtp-lost"} {
		_, items, _ := p.shown()
		var ids []string
		for i := range items {
			ids = append(ids, items[i].id)
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("sorted by %s: %s, want %s", findingOrders[order], got, want)
		}
		hit(p, "s")
	}
	if p.order != 0 {
		t.Error("s does not come back")
	}
}

// A click on a part, on a row and on a tensor does what it says at any size.
func TestAuditPartsMouse(t *testing.T) {
	press := tea.MouseMsg{Action: tea.MouseActionPress, Button: tea.MouseButtonLeft}
	for _, size := range partSizes {
		s := partsScene(sceneOf(t, plannedState(t)))
		p := NewAudit(s)
		p.SetSize(size.w, size.h)
		clickOn := func(text string) {
			t.Helper()
			for y, line := range strings.Split(ansi.Strip(p.View()), "\n") {
				if i := strings.Index(line, text); i >= 0 {
					p.HandleMouse(Width(line[:i]), y, press)
					return
				}
			}
			t.Fatalf("%v: %q is not there:\n%s", size, text, p.View())
		}
		clickOn("plan 1 error")
		if p.part != auditPlan {
			t.Fatalf("%v: a click on plan shows part %d", size, p.part)
		}
		clickOn("group 2   int4")
		if item := p.item(); item == nil || !strings.HasPrefix(item.title, "group 2") {
			t.Errorf("%v: a click on group 2 selects %+v", size, item)
		}
		if size.w < auditWideW { // the tensors may be out of sight
			hit(p, "enter")
			for range 6 {
				hit(p, "down")
			}
		}
		clickOn("L1 e2 down")
		hit(p, "enter")
		if name := ShortName(&s.State.Tensors[s.Cursor]); name != "L1 e2 down" || s.Audits.Ask != AskMap {
			t.Errorf("%v: leads to %s", size, name)
		}
		hit(p, "esc")
		clickOn("findings 5")
		clickOn("mtp-lost")
		if item := p.item(); item == nil || item.id != "mtp-lost" || p.opened {
			t.Errorf("%v: a click selects %+v", size, item)
		}
		hit(p, "P")
		before := p.View()
		l := p.partsLayout().lists[auditPlan]
		p.HandleMouse(l.x+3, l.y+5, tea.MouseMsg{Button: tea.MouseButtonWheelDown, Action: tea.MouseActionPress})
		if d, _, h := p.shown(); len(d.lines) > d.room(h) && p.View() == before {
			t.Errorf("%v: the wheel scrolls nothing", size)
		}
	}
}

// Every line of a plan can be reached by keys, and every item on the way.
func TestAuditPlanIsReadWhole(t *testing.T) {
	for _, keys := range [][2]string{{"down", "up"}, {"pgdown", "pgup"}} {
		p := NewAudit(partsScene(sceneOf(t, plannedState(t))))
		p.SetSize(78, 19)
		hit(p, "P")
		d, items, _ := p.shown()
		var lines []string
		for _, line := range d.lines {
			lines = append(lines, strings.TrimSpace(ansi.Strip(line.text)))
		}
		seen, picked := map[string]bool{}, map[int]bool{}
		walk := func(key string) {
			for range 200 {
				for _, line := range strings.Split(ansi.Strip(p.View()), "\n") {
					seen[strings.TrimSpace(strings.Replace(line, "▸", " ", 1))] = true
				}
				picked[p.pages[auditPlan].selected] = true
				hit(p, key)
			}
		}
		walk(keys[0])
		for _, line := range lines {
			if !seen[line] {
				t.Errorf("%s: never seen: %q", keys[0], line)
			}
		}
		walk(keys[1])
		if p.pages[auditPlan] != (auditPager{}) {
			t.Errorf("%s does not lead back: %+v", keys[1], p.pages[auditPlan])
		}
		if keys[0] == "down" && len(picked) != len(items) {
			t.Errorf("%d of %d items can be selected", len(picked), len(items))
		}
	}
}

func TestAuditPartsFitAnySize(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := randomScene(rt, t)
		if rapid.Bool().Draw(rt, "recipe") {
			s = sceneIn(t, plannedState(t), rapid.SampledFrom([]termenv.Profile{termenv.Ascii, termenv.TrueColor}).Draw(rt, "profile"))
			if rapid.Bool().Draw(rt, "odd") {
				pl := s.State.Recipes[0].Plan
				pl.Groups[0].Targets[0].Pattern = strings.Repeat("模型👨‍👩‍👧\x1b[31m", 40)
				pl.Findings[0].Message, pl.Findings[1].Tensor = strings.Repeat("why ", 90), "a\nb"
				pl.SchemeShares = append(pl.SchemeShares, recipes.Share{Scheme: "x", ShareParams: -3}, recipes.Share{Scheme: "y", ShareParams: 7})
			}
		}
		findings := explained()
		if rapid.Bool().Draw(rt, "odd finding") {
			findings[0].Explanation, findings[1].Tensor, findings[2].File = strings.Repeat("长", 200), strings.Repeat("x", 300)+"\x1b[0m", ""
			findings[3].Severity = lint.Severity("\x1bodd")
		}
		auditScene(s, madeUpCensus(2, 3, false), findings)
		if rapid.Bool().Draw(rt, "left out") {
			s.Audits.Subjects[0].Audit.Census.Left = []census.LeftOut{{Name: "a\nb", Reason: strings.Repeat("why ", 90)}}
		}
		p := NewAudit(s)
		for range rapid.IntRange(1, 4).Draw(rt, "moves") {
			p.SetSize(viewstest.Size(300).Draw(rt, "width"), viewstest.Size(100).Draw(rt, "height"))
			hit(p, rapid.SampledFrom([]string{"c", "f", "P", "F", "tab", "enter", "down", "pgdown", "end", "s"}).Draw(rt, "part"))
			p.HandleMouse(rapid.IntRange(0, 300).Draw(rt, "x"), rapid.IntRange(0, 100).Draw(rt, "y"), tea.MouseMsg{
				Action: tea.MouseActionPress, Button: rapid.SampledFrom([]tea.MouseButton{tea.MouseButtonLeft, tea.MouseButtonWheelDown, tea.MouseButtonWheelUp}).Draw(rt, "button"),
			})
		}
		exercise(rt, s, p)
	})
}

// BenchmarkAuditPartsFrame is a frame of each part beside the others over 37,152
// tensors, while the selection moves.
func BenchmarkAuditPartsFrame(b *testing.B) {
	for _, part := range auditPartNames[1:] {
		b.Run("37152/"+part, func(b *testing.B) {
			s := partsScene(sceneIn(b, big(), termenv.TrueColor))
			p := NewAudit(s)
			p.SetSize(198, 55)
			hit(p, auditPartKeys[slices.Index(auditPartNames[:], part)])
			hit(p, "enter")
			p.View()
			var frames []time.Duration
			for i := 0; b.Loop(); i++ {
				t0 := time.Now()
				s.Touch() // as a batch does
				hit(p, []string{"down", "up"}[i/50%2])
				p.View()
				frames = append(frames, time.Since(t0))
			}
			slices.Sort(frames)
			b.ReportMetric(float64(frames[len(frames)*99/100].Microseconds()), "p99-µs")
		})
	}
}
