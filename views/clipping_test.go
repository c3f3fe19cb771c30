package views

import (
	"strings"
	"testing"

	"github.com/muesli/termenv"
	"pgregory.net/rapid"

	"quantscope/sessions"
	"quantscope/views/viewstest"
)

func TestClippingGolden(t *testing.T) {
	for _, size := range paneSizes {
		t.Run(size.name, func(t *testing.T) {
			p := NewClipping(sceneOf(t, varied()))
			p.SetSize(size.w, size.h)
			checkSize(t, p.View(), size.w, size.h)
			checkGolden(t, p.Title()+"\n"+p.View())
		})
	}
	for _, view := range []struct{ name, keys string }{{"80x24 places", "o"}, {"80x24 tensor", "oo"}, {"80x24 log", "l"}} {
		t.Run(view.name, func(t *testing.T) {
			p := NewClipping(sceneOf(t, firstDone(varied(), 100)))
			p.SetSize(80, 19)
			for _, k := range view.keys {
				hit(p, string(k))
			}
			checkGolden(t, p.Title()+"\n"+p.View())
		})
	}
	t.Run("colour", func(t *testing.T) {
		p := NewClipping(sceneIn(t, varied(), termenv.TrueColor))
		p.SetSize(100, 26)
		checkGolden(t, p.Title()+"\n"+p.View())
	})
}

func TestClipSentence(t *testing.T) {
	of := func(name string, deep, shallow int64) clipFigure {
		return clipFigure{name: name, sum: clipSum{tensors: 4, blocks: 1000, deep: deep, shallow: shallow, mass: 2, deepMass: float64(deep) / 5000}}
	}
	for _, c := range []struct {
		name   string
		shown  clipFigure
		others []clipFigure
		total  int
		want   string
	}{
		{"deep", of("nvfp4+mse", 151, 300), []clipFigure{of("nvfp4", 0, 412), of("nvfp4+mse_ge1", 0, 274)}, 4,
			"nvfp4+mse clips 15.1 % of blocks deeper than the rounding of a scale can explain (1.5 % of the L2 mass); nvfp4 and nvfp4+mse_ge1 none."},
		{"shallow", of("nvfp4", 0, 412), []clipFigure{of("nvfp4+mse", 151, 300), of("nvfp4+mse_ge1", 0, 274)}, 4,
			"nvfp4 clips no block deeper than the rounding of a scale can explain, and 41.2 % within it; nvfp4+mse 15.1 % deeper; nvfp4+mse_ge1 none deeper."},
		{"not measured", clipFigure{name: "nvfp4"}, nil, 4, "nvfp4 has no block measured yet."},
		{"others not measured", of("nvfp4", 0, 1), []clipFigure{{name: "nvfp4+mse"}}, 4,
			"nvfp4 clips no block deeper than the rounding of a scale can explain, and 0.1 % within it."},
		{"filter hides all", clipFigure{name: "nvfp4"}, nil, 0, "No tensor is shown: the filter or the projection hides all of them."},
	} {
		if got := clipSentence(c.shown, c.others, c.total); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
	if got := clipNote(&clipSum{tensors: 3, failed: 1}, 4); got != "3 of 4 tensors measured, 1 failed" {
		t.Errorf("note %q", got)
	}
	if got := clipNote(&clipSum{tensors: 3, blocks: 100, subnormal: 2}, 4); got != "3 of 4 tensors measured so far; 2.0 % clipped under a subnormal scale, which rounds coarser, count as neither" {
		t.Errorf("note %q", got)
	}
}

func TestPercent(t *testing.T) {
	for share, want := range map[float64]string{0: "0", 1: "100.00", 0.1512: "15.12", 0.00001: "<0.01", 0.00005: "0.01", -0.01: "-1.00"} {
		if got := percent(share); got != want {
			t.Errorf("%v: %q, want %q", share, got, want)
		}
	}
	for share, want := range map[float64]string{0: "0 %", 0.151: "15.1 %", 0.0004: "<0.1 %"} {
		if got := roughPercent(share); got != want {
			t.Errorf("%v: %q, want %q", share, got, want)
		}
	}
}

// TestClippingCountsWhatIsShown checks figures on the screen against the
// state, with a filter and a projection.
func TestClippingCountsWhatIsShown(t *testing.T) {
	state := varied()
	s := sceneOf(t, state)
	p := NewClipping(s)
	p.SetSize(200, 55)
	f, err := NewFilter("experts.1[0-5]", state.Tensors)
	if err != nil {
		t.Fatal(err)
	}
	s.SetFilter(f)
	s.SetProjection("down")
	sum, total := addUp(state, f, 1, func(t *sessions.Tensor) bool { return t.Role.Projection == "down" })
	view := p.View()
	for _, want := range []string{percent(sum.blockShare(sum.deep)), percent(sum.massShare(sum.deepMass)), "30 of 30", "all 30 tensors measured"} {
		if total != 30 || !strings.Contains(view, want) {
			t.Errorf("%q is not on the screen (%d tensors)", want, total)
		}
	}
	if !strings.Contains(p.Title(), "down") || !strings.Contains(p.Title(), "filter experts.1[0-5]") {
		t.Errorf("title %q", p.Title())
	}
}

func TestClippingMovesTheCursor(t *testing.T) {
	s := sceneOf(t, varied())
	p := NewClipping(s)
	p.SetSize(120, 35)
	at := func() string { return ShortName(&s.State.Tensors[s.Cursor]) }
	for _, step := range []struct{ key, want string }{
		{"down", "L4 e1 up"}, {"k", "L3 e1 up"}, {"right", "L3 e2 up"}, {"left", "L3 e1 up"}, {"n", "L3 e1 down"}, {"N", "L3 e1 up"},
	} {
		if !hit(p, step.key) || at() != step.want {
			t.Errorf("after %s: %s, want %s", step.key, at(), step.want)
		}
	}
	s.SetProjection("gate")
	if hit(p, "n"); at() != "L3 e2 gate" {
		t.Errorf("after n among gates: %s", at())
	}
	for range 20 {
		hit(p, "up")
	}
	if at() != "L1 e2 gate" {
		t.Errorf("at the edge: %s", at())
	}
}

func TestClippingRedraws(t *testing.T) {
	state := firstDone(varied(), 100)
	s := sceneOf(t, state)
	p := newClipping(s)
	p.SetSize(80, 19)
	late := varied()
	th, err := NewTheme("", termenv.TrueColor, true)
	if err != nil {
		t.Fatal(err)
	}
	f, err := NewFilter("experts.3", state.Tensors)
	if err != nil {
		t.Fatal(err)
	}
	apply := func(b sessions.Batch) { state.Apply(b); p.Apply(b) }
	for _, c := range []struct {
		name   string
		do     func()
		redraw bool
	}{
		{"records", func() { apply(sessions.Batch{Records: late.Records[1][100:140]}) }, true},
		{"only progress", func() { apply(sessions.Batch{Progress: sessions.Progress{Done: 7}}) }, false},
		{"variant", func() { s.SetVariant(0) }, true},
		{"filter", func() { s.SetFilter(f) }, true},
		{"projection", func() { s.SetProjection("up") }, true},
		{"l", func() { hit(p, "l") }, true},
		{"c, not on the screen", func() { hit(p, "c") }, false},
		{"o", func() { hit(p, "o") }, true},
		{"c", func() { hit(p, "c") }, true},
		{"theme", func() { s.Theme = th }, true},
		{"size", func() { p.SetSize(90, 19) }, true},
		{"reset", func() { apply(sessions.Batch{Reset: viewstest.Empty(state.Tensors, "nvfp4")}); s.Variant = 0 }, true},
	} {
		before := p.View()
		c.do()
		if redrawn := p.View() != before; redrawn != c.redraw {
			t.Errorf("%s: redrawn %v", c.name, redrawn)
		}
	}
}

// randomScene is a scene over any state, however odd.
func randomScene(rt *rapid.T, t testing.TB) *Scene {
	var tensors []sessions.Tensor
	switch rapid.IntRange(0, 3).Draw(rt, "model") {
	case 0:
		tensors = viewstest.Experts(0, 2, 1, rapid.IntRange(1, 9).Draw(rt, "experts"))
	case 1:
		tensors = viewstest.Dense(3)
	case 2:
		tensors = viewstest.Mixed(3, 4)
	}
	names := []string{"nvfp4", "nvfp4+mse", "nvfp4+mse_ge1", "int4-g128+range", "a very long name of a variant\x1b[31m"}
	state := viewstest.Empty(tensors, names[:rapid.IntRange(0, len(names)).Draw(rt, "variants")]...)
	if n := len(state.Variants); n > 3 {
		state.Variants[3].Scheme = "int4-g128"
		state.Variants[n-1].Multipliers = nil
	}
	seed := noise(rapid.Uint64().Draw(rt, "seed"))
	share := rapid.Float64Range(0, 1).Draw(rt, "measured")
	for v := range state.Records {
		for i := range state.Records[v] {
			if seed.next() < share {
				state.Records[v][i] = anyRecord(&seed, v, i)
			}
		}
	}
	profile := rapid.SampledFrom([]termenv.Profile{termenv.Ascii, termenv.ANSI, termenv.TrueColor}).Draw(rt, "profile")
	s := sceneIn(t, state, profile)
	s.Variant = rapid.IntRange(-1, len(state.Variants)).Draw(rt, "variant")
	s.Baseline = rapid.IntRange(-1, len(state.Variants)).Draw(rt, "baseline")
	s.Cursor = rapid.IntRange(-1, len(tensors)).Draw(rt, "cursor")
	s.Projection = rapid.SampledFrom([]string{"", "up", "q", "nowhere"}).Draw(rt, "projection")
	s.Metric = rapid.SampledFrom(Metrics()).Draw(rt, "metric")
	f, err := NewFilter(rapid.SampledFrom([]string{"", "experts", "!mlp", "nothing"}).Draw(rt, "filter"), tensors)
	if err != nil {
		rt.Fatal(err)
	}
	s.Filter = f
	return s
}

// exercise presses keys and draws in any size, with news in between.
func exercise(rt *rapid.T, s *Scene, p Pane) {
	seed := noise(rapid.Uint64().Draw(rt, "news"))
	var keys []string
	for _, k := range p.Keys() {
		keys = append(keys, k.Keys...)
	}
	for range rapid.IntRange(1, 5).Draw(rt, "steps") {
		w, h := viewstest.Size(300).Draw(rt, "w"), viewstest.Size(120).Draw(rt, "h")
		p.SetSize(w, h)
		checkSize(rt, p.View(), w, h)
		if strings.ContainsRune(p.Title(), 0x1b) {
			rt.Errorf("escape in title %q", p.Title())
		}
		hit(p, rapid.SampledFrom(keys).Draw(rt, "key"))
		checkSize(rt, p.View(), w, h)
		if len(s.State.Variants) > 0 && len(s.State.Tensors) > 0 {
			r := anyRecord(&seed, rapid.IntRange(0, len(s.State.Variants)-1).Draw(rt, "v"), rapid.IntRange(0, len(s.State.Tensors)-1).Draw(rt, "t"))
			b := sessions.Batch{Records: []sessions.Record{r}}
			if rapid.IntRange(0, 9).Draw(rt, "reset") == 0 {
				b = sessions.Batch{Reset: viewstest.Partial()}
			}
			s.State.Apply(b)
			p.Apply(b)
			checkSize(rt, p.View(), w, h)
		}
	}
}

func TestClippingFitsAnySize(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := randomScene(rt, t)
		exercise(rt, s, NewClipping(s))
	})
}

// benchmarkFrames measures a frame of a running session: a batch of records
// arrives and the pane is drawn, 37,152 tensors under four variants.
func benchmarkFrames(b *testing.B, make func(*Scene) Pane) {
	full := big()
	start := func() (*Scene, Pane) {
		s := sceneIn(b, firstDone(full.Clone(), 20_000), termenv.TrueColor)
		p := make(s)
		p.SetSize(200, 55)
		p.View()
		return s, p
	}
	s, p := start()
	next := 20_000
	b.ReportAllocs()
	for b.Loop() {
		if next+40 > len(full.Tensors) {
			b.StopTimer()
			s, p = start()
			next = 20_000
			b.StartTimer()
		}
		var batch sessions.Batch
		for v := range full.Records {
			batch.Records = append(batch.Records, full.Records[v][next:next+40]...)
		}
		next += 40
		s.State.Apply(batch)
		p.Apply(batch)
		p.View()
	}
}

func BenchmarkClippingFrame(b *testing.B) { benchmarkFrames(b, NewClipping) }

// BenchmarkClippingRebuild is what a change of the filter costs.
func BenchmarkClippingRebuild(b *testing.B) {
	state := big()
	var s clipSums
	for b.Loop() {
		s.rebuild(state, Filter{})
	}
}

// Every layer and variant is in the table of places, or counted.
func TestClippingCountsWhatItHidesOfPlaces(t *testing.T) {
	state := viewstest.Big(43, 4, "nvfp4", "nvfp4+mse", "nvfp4+mse_ge1", "nvfp4+sweep", "int4-g128")
	s := sceneOf(t, state)
	p := newClipping(s)
	p.SetSize(118, 34)
	p.View()
	layers := p.sums.places.layers()
	for _, cursor := range []int{0, len(state.Tensors) / 2, len(state.Tensors) - 1} {
		s.SetCursor(cursor)
		for _, w := range []int{30, 60} {
			view := p.places(p.rows(), 0, w, 14)
			const shown = 14 - 3 // title, head and the line that counts
			want := moreText(1 + len(p.sums.places.projections) + layers - shown)
			if !strings.Contains(view, want) || !strings.Contains(view, "▸") {
				t.Errorf("%d of %d layers and the rest, and no %q\n%s", shown, layers, want, view)
			}
			if strings.Contains(view, "not shown") != (w == 30) {
				t.Errorf("%d cells: variants\n%s", w, view)
			}
		}
	}
}
