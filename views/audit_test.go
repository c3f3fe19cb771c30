package views

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"
	"github.com/muesli/termenv"
	"pgregory.net/rapid"

	"quantscope/analysis/census"
	"quantscope/sessions"
	"quantscope/views/viewstest"
)

func TestAuditGolden(t *testing.T) {
	for _, size := range paneSizes {
		t.Run(size.name, func(t *testing.T) {
			s := auditScene(sceneOf(t, viewstest.Demo()), madeUpCensus(5, 16, true), madeUpFindings())
			p := NewAudit(s)
			p.SetSize(size.w, size.h)
			checkSize(t, p.View(), size.w, size.h)
			layers := p.Title() + "\n" + p.View()
			for _, key := range []string{"g", "g", "enter", "g"} {
				p.HandleKey(keyNamed(key))
			}
			checkSize(t, p.View(), size.w, size.h)
			checkGolden(t, layers+"\n\n"+p.View())
		})
	}
	for _, c := range []struct {
		name string
		s    func(*Scene)
	}{
		{"clean", func(s *Scene) {
			r := &census.Report{Layout: "modelopt", Convention: "multiplier", Totals: census.Totals{Pairs: 80}}
			for l := range 5 {
				layer := census.Layer{Layer: l + 1, Set: "gate and up", Kind: "expert", Totals: census.Totals{Pairs: 16}}
				for e := range 16 {
					layer.Groups = append(layer.Groups, census.Group{Expert: e, Members: []census.Member{{Name: "g", Projection: "gate", Scale: 1, Ratio: 1}, {Name: "u", Projection: "up", Scale: 1, Ratio: 1}}})
				}
				r.Layers = append(r.Layers, layer)
			}
			auditScene(s, r, nil)
		}},
		{"no scales", func(s *Scene) {
			auditScene(s, nil, nil)
			s.Audits.At = 1
			s.Audits.Subjects[1].Audit = &sessions.Audit{Census: &census.Report{Note: "no second-level scales: nothing is quantized"}}
		}},
		{"running", func(s *Scene) {
			s.Audits = AuditWork{Running: true, Subjects: []AuditSubject{{Dir: "out", Path: "out", What: AuditExport}}, Progress: sessions.AuditProgress{Step: sessions.AuditLint}}
		}},
		{"proving", func(s *Scene) {
			auditScene(s, madeUpCensus(2, 4, false), nil)
			s.Audits.Running, s.Audits.Proving, s.Audits.Progress = true, true, sessions.AuditProgress{Step: sessions.AuditProof, Done: 30, Total: 80}
		}},
		{"error", func(s *Scene) {
			s.Audits = AuditWork{Subjects: []AuditSubject{{Dir: "out", Path: "out", What: AuditExport, Err: "checkpoint: out: no such file or directory"}}}
		}},
		{"off", func(s *Scene) { s.Audits = AuditWork{Off: "nothing can be audited from here"} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sceneOf(t, viewstest.Demo())
			c.s(s)
			p := NewAudit(s)
			p.SetSize(100, 20)
			checkSize(t, p.View(), 100, 20)
			checkGolden(t, p.Title()+"\n"+p.View())
		})
	}
	t.Run("colour", func(t *testing.T) {
		s := auditScene(sceneIn(t, viewstest.Demo(), termenv.TrueColor), madeUpCensus(3, 6, true), madeUpFindings())
		p := NewAudit(s)
		p.SetSize(100, 26)
		checkGolden(t, p.View())
	})
}

func TestAuditRatio(t *testing.T) {
	for r, want := range map[float64]string{
		1: "1", 1.25: "1.2500", 0.5: "0.5000", 1.0001: "1.000100", 1 + 1e-7: "1.000000100", 12.5: "12.50", 1234: "1.23k", 1e-3: "0.001", math.NaN(): "–", math.Inf(1): "–",
	} {
		if got := auditRatio(r); got != want {
			t.Errorf("%v: %q, want %q", r, got, want)
		}
	}
}

// A bar is symmetric in the logarithm: a half stands as far left of the middle
// as two right of it, and what is equal has the axis alone.
func TestAuditBar(t *testing.T) {
	th, err := NewTheme("", termenv.Ascii, true)
	if err != nil {
		t.Fatal(err)
	}
	limit := math.Log(4)
	for _, c := range []struct {
		lo, mean, hi, limit float64
		w                   int
		want                string
	}{
		{0.25, 1.4142135, 4, limit, 9, "━━━━│●━━━"},
		{0.5, 0.5, 1, limit, 9, "··●━│····"},
		{1, 2, 2, limit, 9, "····│━●··"},
		{1, 1, 1, limit, 9, "····│····"},
		{1, 1, 1, 0, 9, "····│····"},
		{0, 0, 0, limit, 9, "····│····"},
		{0.01, 1, 100, limit, 5, "━━●━━"},
		{1, 2, 4, limit, 2, "  "},
	} {
		if got := auditBar(th, c.lo, c.mean, c.hi, c.limit, c.w); got != c.want {
			t.Errorf("%v … %v over %v in %d: %q, want %q", c.lo, c.hi, c.limit, c.w, got, c.want)
		}
	}
	if got, want := auditAxis(limit, 21), "0.2500    1    4.0000"; got != want {
		t.Errorf("axis %q, want %q", got, want)
	}
	if got, want := auditAxis(limit, 9), "    1"; got != want {
		t.Errorf("narrow axis %q, want %q", got, want)
	}
}

// auditLines are the lines of the view that hold a text.
func auditLines(p *Audit, text string) (out []string) {
	for _, line := range strings.Split(ansi.Strip(p.View()), "\n") {
		if strings.Contains(line, text) {
			out = append(out, line)
		}
	}
	return out
}

func TestAuditSorts(t *testing.T) {
	r := madeUpCensus(5, 16, true)
	s := auditScene(sceneOf(t, viewstest.Demo()), r, nil)
	p := NewAudit(s)
	p.SetSize(118, 35)
	p.View()
	value := []func(i int) float64{
		nil,
		func(i int) float64 { return float64(r.Layers[i].Differing) },
		func(i int) float64 { return max(ratioApart(r.Layers[i].RatioMin), ratioApart(r.Layers[i].RatioMax)) },
		func(i int) float64 {
			if f := r.Layers[i].Proof; f != nil {
				return f.ServedWorst
			}
			return 0
		},
	}
	for order := 1; order < len(value); order++ {
		hit(p, "s")
		p.View()
		for k := 1; k < len(p.rows.layers); k++ {
			if value[order](p.rows.layers[k]) > value[order](p.rows.layers[k-1]) {
				t.Errorf("sorted by %s: row %d is larger than the one before", auditOrders[auditLayers][order], k)
			}
		}
		if len(p.rows.layers) != len(r.Layers) {
			t.Errorf("%d rows of %d layers", len(p.rows.layers), len(r.Layers))
		}
	}
	if hit(p, "s"); p.lists[auditLayers].order != 0 {
		t.Error("s does not come back to the order of the model")
	}
	// Without a proof nothing is sorted by its figures.
	s.Audits.Subjects[0].Audit.Census = madeUpCensus(5, 16, false)
	s.Touch()
	for range 3 {
		hit(p, "s")
	}
	if p.lists[auditLayers].order != 0 {
		t.Errorf("three times s lead to order %d of 3", p.lists[auditLayers].order)
	}
}

// Drilling down follows the cursor of all screens, and comes back.
func TestAuditDrillsDown(t *testing.T) {
	s := auditScene(sceneOf(t, viewstest.Demo()), madeUpCensus(5, 16, true), madeUpFindings())
	p := NewAudit(s)
	p.SetSize(118, 35)
	for !strings.HasPrefix(auditWhere(&p.report().Layers[p.layer]), "L1 experts") {
		if !hit(p, "down") {
			t.Fatal("the first layer of experts is not reached")
		}
		p.View()
	}
	if !hit(p, "enter") || len(auditLines(p, "up/gate")) < 8 {
		t.Fatalf("no pairs:\n%s", p.View())
	}
	hit(p, "g")
	at := s.State.Tensors[s.Cursor].Role
	if want := p.rows.pairs[p.lists[auditPairs].selected].group.Expert; at.Layer != 1 || at.Expert != want || at.Projection != "up" {
		t.Errorf("the cursor stands on %+v, the selection on expert %d", at, want)
	}
	if hit(p, "enter") {
		t.Error("enter on a pair is not left to the root, which opens the tensor")
	}
	before := len(p.rows.pairs)
	hit(p, "d")
	p.View()
	if n := len(p.rows.pairs); n == 0 || n >= before {
		t.Errorf("d leaves %d pairs of %d", n, before)
	}
	for _, pair := range p.rows.pairs {
		if !pair.differs() || pair.proof == nil || pair.proof.Member != pair.other().Name {
			t.Errorf("%+v is listed with proof %+v", pair.other(), pair.proof)
		}
	}
	if !hit(p, "esc") || p.level != auditLayers {
		t.Error("esc does not lead back")
	}
	if hit(p, "esc") {
		t.Error("esc at the top is not left to the root")
	}
}

// A proof that comes in while the person looks at pairs leaves them there; another
// checkpoint begins at its first layer.
func TestAuditStaysWhereItIs(t *testing.T) {
	s := auditScene(sceneOf(t, viewstest.Demo()), madeUpCensus(5, 16, false), nil)
	p := NewAudit(s)
	p.SetSize(118, 35)
	p.View()
	for range 3 {
		hit(p, "down")
	}
	hit(p, "enter")
	p.View()
	hit(p, "down")
	layer, pair := p.layer, p.lists[auditPairs].selected
	if layer == 0 || pair == 0 {
		t.Fatalf("layer %d, pair %d", layer, pair)
	}
	s.Audits.Shown().Audit.Census = madeUpCensus(5, 16, true)
	s.Touch()
	if text := p.View(); p.level != auditPairs || p.layer != layer || p.lists[auditPairs].selected != pair || !strings.Contains(text, "served") {
		t.Errorf("a proof leads from pair %d of layer %d to %d of %d, level %d:\n%s", pair, layer, p.lists[auditPairs].selected, p.layer, p.level, text)
	}
	hit(p, "esc")
	if p.View(); p.rows.layers[p.lists[auditLayers].selected] != layer {
		t.Error("esc leads to another layer")
	}
	s.Audits.Subjects = append(s.Audits.Subjects, AuditSubject{What: AuditFolder, Path: "other", Audit: &sessions.Audit{Census: madeUpCensus(5, 16, true)}})
	s.Audits.At = len(s.Audits.Subjects) - 1
	s.Touch()
	if p.View(); p.level != auditLayers || p.lists[auditLayers].selected != 0 {
		t.Errorf("another checkpoint begins at row %d", p.lists[auditLayers].selected)
	}
}

// What the person wants of the root is asked for once, or the key says why not.
func TestAuditAsks(t *testing.T) {
	s := auditScene(sceneOf(t, viewstest.Demo()), madeUpCensus(2, 4, false), madeUpFindings())
	p := NewAudit(s)
	p.SetSize(118, 35)
	for _, c := range []struct {
		name, key string
		do        func()
		want      AuditAsk
		disabled  string
	}{
		{"proof", "p", func() {}, AskProof, ""},
		{"folder", "o", func() {}, AskFolder, ""},
		{"again", "R", func() {}, AskAgain, ""},
		{"stop", "esc", func() { s.Audits.Running = true }, AskStop, ""},
		{"proof while one runs", "p", func() {}, AskNothing, "an audit is under way: esc stops it"},
		{"again while one runs", "R", func() {}, AskNothing, "an audit is under way: esc stops it"},
		{"proof of the source", "p", func() { s.Audits.Running = false; s.Audits.Subjects[0].Dir = "" }, AskNothing, "the session's own checkpoint is what a proof compares with: o names a checkpoint and its master"},
		{"proof of the source against another", "p", func() { s.Audits.Subjects[0].Master = "/other" }, AskProof, ""},
		{"proof of what is equal", "p", func() { s.Audits.Subjects[0].Audit.Census.Differing = 0 }, AskNothing, "there is nothing to prove: all scales are equal, so a server changes nothing"},
		{"next that differs of what is equal", "g", func() {}, AskNothing, "all pairs are equal"},
		{"other checkpoint", "n", func() { s.Audits.Subjects = s.Audits.Subjects[:1] }, AskNothing, "there is one checkpoint: o names another"},
		{"proof before a census", "p", func() { s.Audits.Subjects[0].Audit = nil }, AskNothing, "there is no census yet"},
		{"anything where it cannot be had", "o", func() { s.Audits.Off = "not here" }, AskNothing, "not here"},
	} {
		c.do()
		s.Audits.Ask = AskNothing
		s.Touch()
		disabled := ""
		for _, k := range p.Keys() {
			for _, name := range k.Keys {
				if name == c.key {
					disabled = k.Disabled
				}
			}
		}
		if disabled != c.disabled {
			t.Errorf("%s: disabled %q, want %q", c.name, disabled, c.disabled)
		}
		if disabled == "" {
			hit(p, c.key)
		}
		if s.Audits.Ask != c.want {
			t.Errorf("%s: asks for %d, want %d", c.name, s.Audits.Ask, c.want)
		}
	}
}

// Each change of what is seen makes a new picture, and nothing else does.
func TestAuditRedraws(t *testing.T) {
	s := auditScene(sceneOf(t, viewstest.Demo()), madeUpCensus(5, 16, true), madeUpFindings())
	p := NewAudit(s)
	p.SetSize(118, 35)
	th, err := NewTheme("", termenv.TrueColor, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		do     func()
		redraw bool
	}{
		{"down", func() { hit(p, "down") }, true},
		{"up at the top twice", func() { hit(p, "up"); hit(p, "up") }, true},
		{"up at the top", func() { hit(p, "up") }, false},
		{"sort", func() { hit(p, "s") }, true},
		{"enter", func() { hit(p, "enter") }, true},
		{"only", func() { hit(p, "d") }, true},
		{"end", func() { hit(p, "end") }, true},
		{"end at the end", func() { hit(p, "end") }, false},
		{"home", func() { hit(p, "home") }, true},
		{"page", func() { hit(p, "pgdown") }, true},
		{"esc", func() { hit(p, "esc") }, true},
		{"findings", func() { hit(p, "f") }, true},
		{"the last of them", func() { p.SetSize(78, 10); p.View(); hit(p, "end") }, true},
		{"the first of them", func() { hit(p, "home") }, true},
		{"the first of them again", func() { hit(p, "home") }, false},
		{"findings, back", func() { hit(p, "esc"); p.SetSize(118, 35) }, true},
		{"an answer", func() { s.Audits.Subjects[0].Audit = &sessions.Audit{Census: madeUpCensus(3, 16, false)}; s.Touch() }, true},
		{"what runs", func() { s.Audits.Running = true; s.Touch() }, true},
		{"its progress", func() {
			s.Audits.Progress = sessions.AuditProgress{Step: sessions.AuditProof, Done: 1, Total: 2}
			s.Touch()
		}, true},
		{"another subject", func() { s.showAudit(1) }, true},
		{"the same subject", func() { s.showAudit(1) }, false},
		{"a batch", func() { p.Apply(sessions.Batch{}) }, false},
		{"theme", func() { s.Theme = th }, true},
		{"size", func() { p.SetSize(100, 20) }, true},
	} {
		before := p.View()
		c.do()
		if redrawn := p.View() != before; redrawn != c.redraw {
			t.Errorf("%s: redrawn %v", c.name, redrawn)
		}
	}
}

// A click selects the row that is drawn there.
func TestAuditMouse(t *testing.T) {
	for _, size := range [][2]int{{78, 19}, {118, 35}, {198, 55}} {
		s := auditScene(sceneOf(t, viewstest.Demo()), madeUpCensus(5, 16, true), madeUpFindings())
		p := NewAudit(s)
		p.SetSize(size[0], size[1])
		for _, level := range []auditLevel{auditLayers, auditPairs} {
			if level == auditPairs && p.layout().beside.empty() {
				hit(p, "enter")
			}
			seen := 0
			lines := strings.Split(ansi.Strip(p.View()), "\n")
			for y, line := range lines {
				for x := range []rune(line) {
					l, row, ok := p.rowAt(x, y)
					if !ok || l != level {
						continue
					}
					want := ""
					if level == auditPairs {
						want = p.rows.pairs[row].other().Projection + "/"
					} else {
						want = auditWhere(&p.report().Layers[p.rows.layers[row]])
					}
					if !strings.Contains(line, want) {
						t.Fatalf("%v: row %d of level %d at %d, %d: %q holds no %q", size, row, level, x, y, line, want)
					}
					seen++
					p.HandleMouse(x, y, tea.MouseMsg{Action: tea.MouseActionPress, Button: tea.MouseButtonLeft})
					if p.level != level || p.lists[level].selected != row {
						t.Fatalf("%v: a click at %d, %d selects row %d of level %d, want %d of %d", size, x, y, p.lists[p.level].selected, p.level, row, level)
					}
					break
				}
			}
			if seen == 0 {
				t.Errorf("%v: no row of level %d can be clicked", size, level)
			}
		}
	}
}

func TestAuditFitsAnySize(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := randomScene(rt, t)
		r := madeUpCensus(rapid.IntRange(0, 6).Draw(rt, "layers"), rapid.IntRange(1, 40).Draw(rt, "experts"), rapid.Bool().Draw(rt, "proof"))
		if rapid.Bool().Draw(rt, "odd") && len(r.Layers) > 0 {
			l := &r.Layers[0]
			l.RatioMin, l.RatioMax, l.Set = 1e-30, math.MaxFloat64, strings.Repeat("模型", 30)
			l.Groups[0].Members[0].Name = "👨‍👩‍👧\x1b[31m" + strings.Repeat("x", 300)
			r.Left = []census.LeftOut{{Name: "a\nb", Reason: strings.Repeat("why ", 90)}}
		}
		auditScene(s, r, madeUpFindings())
		if rapid.Bool().Draw(rt, "none") {
			s.Audits.Subjects[0].Audit, s.Audits.Subjects[0].Err = nil, strings.Repeat("broken ", rapid.IntRange(0, 60).Draw(rt, "words"))
		}
		s.Audits.Running = rapid.Bool().Draw(rt, "running")
		exercise(rt, s, NewAudit(s))
	})
}

// BenchmarkAuditFrame is a frame of the screen over 12,384 pairs while the
// selection moves through the pairs of a layer and through the layers.
func BenchmarkAuditFrame(b *testing.B) {
	for _, key := range []string{"down", "s"} {
		b.Run(fmt.Sprintf("12384/%s", key), func(b *testing.B) {
			s := auditScene(sceneIn(b, big(), termenv.TrueColor), madeUpCensus(43, 288, true), madeUpFindings())
			p := NewAudit(s)
			p.SetSize(198, 55)
			p.View()
			var frames []time.Duration
			for b.Loop() {
				t0 := time.Now()
				if !hit(p, key) {
					b.Fatal(key + " does nothing")
				}
				p.View()
				frames = append(frames, time.Since(t0))
			}
			slices.Sort(frames)
			b.ReportMetric(float64(frames[len(frames)*99/100].Microseconds()), "p99-µs")
		})
	}
}
