package tui

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muesli/termenv"

	"quantscope/analysis/tier"
	"quantscope/sessions"
	"quantscope/views/viewstest"
)

// fakeTierer is a feed whose hot tiers a test makes up.
type fakeTierer struct {
	*fakeFeed
	asked []sessions.TierRequest
	run   func(context.Context, sessions.TierRequest) error
}

func (f *fakeTierer) Tier(ctx context.Context, r sessions.TierRequest) error {
	f.asked = append(f.asked, r)
	if f.run == nil {
		return nil
	}
	return f.run(ctx, r)
}

// Gates, Measure and Bias are what else could be begun.
func (f *fakeTierer) Gates(context.Context, sessions.GatesRequest) error     { return nil }
func (f *fakeTierer) Measure(context.Context, sessions.MeasureRequest) error { return nil }
func (f *fakeTierer) Bias(context.Context, sessions.BiasRequest) error       { return nil }

func tiererFeed(mode sessions.Mode, st *sessions.State) *fakeTierer {
	return &fakeTierer{fakeFeed: newFakeFeed(mode, st, st)}
}

// tieredState is the demo's session with a run of a hot tier in it.
func tieredState(trace int) *sessions.State {
	st := demoState()
	st.Tiers = []*sessions.TierRun{viewstest.Tier(1, 4, 16, 4096, trace)}
	return st
}

// windows gives windows of a run through the feed, as its writer does.
func (f *fakeTierer) windows(run int, ws ...*tier.Window) {
	b := sessions.Batch{Progress: sessions.Progress{State: sessions.RunFinished}}
	for _, w := range ws {
		b.TiersMoved = append(b.TiersMoved, sessions.TierMoved{Run: run, Window: w})
	}
	f.give(b)
}

// A hot tier by keys: t says that there is none, the palette asks, the map fills while
// windows come, space holds it, [ and ] change its pace, X ends it, a second one
// finishes and is walked through by budgets.
func TestScenarioTier(t *testing.T) {
	feed := tiererFeed(sessions.Live, demoState())
	whole := viewstest.Tier(1, 4, 16, 4096, 2)
	feed.run = func(context.Context, sessions.TierRequest) error {
		feed.give(sessions.Batch{Progress: sessions.Progress{State: sessions.RunFinished}, TiersBegun: []sessions.TierBegun{{Run: 0, AtUS: 1, Setup: whole.Setup}}})
		feed.windows(0, whole.Windows[:70]...)
		return nil
	}
	d := drive(t, feed, fixed(), 120, 40)
	d.Press("t").Says("no hot tier was run in this session")
	d.Press(":").Type("tier").Press("enter").Sees("Run a hot tier", "budgets", "0%, 10%, 25%, 50%, 100%", "hysteresis")
	d.Press("ctrl+u").Press("enter").Says("a budget is needed").Type("10%, 50%")
	d.Press("tab").Type("zipf:1.1").Press("tab", "tab", "ctrl+u").Type("nope").Press("enter").Says("cold: nope is no variant")
	d.Press("ctrl+u").Type("code2+sym").Press("tab", "ctrl+u").Type("0").Press("enter").Says("window: 0 is no number from 1").Press("ctrl+u").Type("64")

	d.Send(keyOf("enter")) // begun, and not run yet
	running := d.todo
	d.todo = nil
	d.WaitIdle().On(ScreenMap).Sees("▶ hot tier  beginning  20 a second").Press("<").Says("the hot tier begins: it has no budgets yet")
	d.Press("]").Says("the hot tier is run at 50 windows a second").Press("[", "[").Says("at 10 windows a second")
	d.Press(" ").Sees("‖ hot tier paused", "space go on")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.m.tier.hold.wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a held tier goes on: %v", err)
	}
	d.Press(" ", "6", "R").Says("a hot tier is being run: X on the map ends it").Press("5", "R").Says("a hot tier is being run").Press("D", "R").Says("a hot tier is being run").Press("1")
	d.Press(":").Type("tier: run").Press("enter").Says("a hot tier is being run").Press("esc")
	d.Press("q").Sees("Quit while a hot tier is run?").Press("esc")
	d.Press("X").Sees("End the hot tier?").Press("esc")
	d.todo = append(d.todo, running...)
	d.WaitIdle().Sees("hot tier · budget 10% · window 6/64 · prose, math", "coverage", "6/64", "hits")
	r := feed.asked[0]
	if o := r.Options; !slices.Equal(o.Budgets, []string{"10%", "50%"}) || o.Hot != "nvfp4" || o.Cold != "code2+sym" || o.Trace != tier.TraceMoves || o.Policy.Window != 64 || !slices.Equal(r.Workload, []string{"zipf:1.1"}) || r.Pace == nil || r.Pause == nil {
		t.Errorf("asked for %+v", r)
	}
	feed.windows(0, whole.Windows[70:]...)
	feed.give(sessions.Batch{Progress: sessions.Progress{State: sessions.RunFinished}, TiersEnded: []sessions.TierEnded{{Run: 0, End: whole.End}}})
	d.WaitIdle().Sees("budget 25% · window 64/64", "16/64 (25 %)", "hits by budget", "knee") // as a saved one: nearest to the knee
	d.Press("f").Says("nearest to the knee already")
	d.Press(">").Sees("budget 50% · window 64/64", "32/64 (50 %)").Press(">").Sees("budget 100%").Press("f").Sees("budget 25%")
	d.Press("tab", "tab").Sees("budgets and moves", "random", "coldest").Press("tab", "t").Misses("hot tier ·").Says("the map shows rel_l2").Press("t").Sees("budget 25%")
	d.Press("n").Says("the session has one run of a hot tier")
}

// What went wrong is said, and the map says it too.
func TestTierFails(t *testing.T) {
	feed := tiererFeed(sessions.Saved, demoState())
	feed.run = func(context.Context, sessions.TierRequest) error { return errors.New("tier: a budget of −1 bytes") }
	d := drive(t, feed, fixed(), 120, 40)
	d.Press(":").Type("tier: run").Press("enter", "enter").Says("✗ tier: a budget of −1 bytes").Sees("no hot tier was run in this session", "R runs one")
	if d.m.scene.Tier.Running {
		t.Error("it still runs")
	}
}

// A replay shows the tier as it was at any moment, also backwards, and runs none.
func TestTierReplay(t *testing.T) {
	whole := tieredState(2)
	run := whole.Tiers[0]
	at := func(n int) *sessions.State {
		st := demoState()
		st.Tiers = []*sessions.TierRun{viewstest.TierUntil(run, n)}
		return st
	}
	p := newFakePlay(whole)
	p.start = at(0)
	d := drive(t, p, fixed(), 120, 40)
	d.Press("t").Sees("budget 0% · window 0/64", "no window yet")
	picture := map[int]string{}
	for _, n := range []int{10, 100, 150, 320, 150, 100, 10, 319, 0, 150} {
		p.give(sessions.Batch{Reset: at(n), Progress: sessions.Progress{State: sessions.RunFinished}})
		screen := strings.Join(strings.Split(d.WaitIdle().Screen(), "\n")[3:], "\n")
		if old, seen := picture[n]; seen && old != screen {
			t.Errorf("after %d windows the screen was\n%s\nand is\n%s", n, old, screen)
		}
		picture[n] = screen
		d.Misses("the moves lead to")
	}
	d.Press("R").Says("a hot tier cannot be run in a replay: r leaves it")
}

// At trace level 1 the map says why it knows layers alone.
func TestTierWithoutMoves(t *testing.T) {
	st := tieredState(1)
	d := drive(t, tiererFeed(sessions.Saved, st), fixed(), 120, 40)
	d.Press("t").Sees("hot experts of a layer, not which", "trace 1", "of 16 experts of its layer are hot" /* of the cursor's */).Misses("▲ promoted")
}

// The screens of a hot tier, running and finished, at each size.
func TestTierGolden(t *testing.T) {
	for _, size := range goldenSizes {
		for _, c := range []struct {
			name string
			st   func() *sessions.State
		}{
			{"tier", func() *sessions.State { return tieredState(2) }},
			{"tier-running", func() *sessions.State {
				st := tieredState(2)
				st.Tiers[0] = viewstest.TierUntil(st.Tiers[0], 168)
				return st
			}},
			{"tier-layers", func() *sessions.State { return tieredState(1) }},
			{"tier-alone", func() *sessions.State { // a session that has nothing else
				st := &sessions.State{Meta: demoState().Meta, Tiers: tieredState(2).Tiers}
				st.Progress.State = sessions.RunIdle
				return st
			}},
		} {
			t.Run(c.name+"/"+size.name, func(t *testing.T) {
				d := drive(t, tiererFeed(sessions.Saved, c.st()), fixed(), size.w, size.h)
				if !d.m.scene.Tier.On {
					d.Press("t")
				}
				d.Press("right", "down")
				fits(t, d.Screen(), size.w, size.h)
				golden(t, c.name+"-"+size.name, d.Screen())
			})
		}
	}
	d := drive(t, tiererFeed(sessions.Saved, demoState()), fixed(), 80, 24)
	d.Press(":").Type("tier: run").Press("enter")
	golden(t, "tier-form-80x24", d.Screen())
	for _, c := range []struct {
		name    string
		profile termenv.Profile
		dark    bool
	}{{"light", termenv.TrueColor, false}, {"256", termenv.ANSI256, true}, {"16", termenv.ANSI, true}} {
		o := fixed()
		o.Profile, o.Dark = &c.profile, &c.dark
		d := drive(t, tiererFeed(sessions.Saved, tieredState(2)), o, 120, 36)
		golden(t, "tier-theme-"+c.name, d.Press("t").m.View())
	}
}

// goldenSizes are the sizes of pictures.
var goldenSizes = []struct {
	name string
	w, h int
}{{"80x24", 80, 24}, {"120x36", 120, 36}, {"200x60", 200, 60}}

// Any keys at any size leave a frame that fits.
func TestTierKeysFit(t *testing.T) {
	keys := []string{"t", "<", ">", "f", "n", "N", "left", "right", "up", "down", "home", "end", "pgup", "pgdown", "tab", "shift+tab", "R", "esc", "enter", "m", "p", "g", "1", "5", "D", "T"}
	for i, size := range [][2]int{{60, 16}, {80, 24}, {110, 30}, {168, 40}, {230, 70}} {
		for _, trace := range []int{1, 2} {
			d := drive(t, tiererFeed(sessions.Saved, tieredState(trace)), fixed(), size[0], size[1])
			d.Press("t")
			seed := uint32(i*7 + trace)
			for range 60 {
				seed = seed*1664525 + 1013904223
				d.Press(keys[int(seed>>8)%len(keys)])
				fits(t, d.m.View(), size[0], size[1])
			}
		}
	}
}

// A pacer holds to its rate, and to the new one at once where it is changed.
func TestPacer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(2)
		begun := time.Now()
		for range 4 {
			if err := p.wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begun); took != 2*time.Second {
			t.Errorf("four steps at two a second took %v", took)
		}
		done := make(chan time.Duration)
		begun = time.Now()
		go func() { _ = p.wait(t.Context()); done <- time.Since(begun) }()
		synctest.Wait()
		for range len(paces) {
			p.change(1)
		}
		if took := <-done; took != 0 || p.words() != "full speed" {
			t.Errorf("a step that waits takes %v after the pace was given up, %s", took, p.words())
		}
		if rate := p.change(-1); rate != 200 {
			t.Errorf("one slower than full speed is %g", rate)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := newPacer(1).wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("a wait that is cancelled: %v", err)
		}
	})
}

// BenchmarkTier is a frame in which windows arrive and experts move: 43 layers of 256
// experts at 200×60, with a hundred thousand windows before, ten thousand under -short; and a seek back.
func BenchmarkTier(b *testing.B) {
	windows := 100_000
	if testing.Short() {
		windows = 10_000
	}
	most := windows / 10 * 9
	run := bigTier(43, 256, windows, 24)
	o := fixed()
	profile := termenv.TrueColor
	o.Profile = &profile
	st := viewstest.Big(43, 256, "nvfp4")
	st.Tiers = []*sessions.TierRun{viewstest.TierUntil(run, most)}
	start := func() *Model {
		m := New(newFakeFeed(sessions.Live, st, st.Clone()), o)
		m.findTiers()
		m.showTierMap(true)
		return m
	}
	b.Run("frame", func(b *testing.B) {
		m := start()
		defer m.end()
		settleTier(m)
		at := most
		var took []time.Duration
		for b.Loop() {
			if at+8 > len(run.Windows) {
				at = most
				reset := st.Clone()
				m.Update(batchMsg{src: m.src, batch: sessions.Batch{Reset: reset}})
				_ = m.View()
			}
			batch := sessions.Batch{Progress: sessions.Progress{State: sessions.RunFinished}}
			for _, w := range run.Windows[at : at+8] {
				batch.TiersMoved = append(batch.TiersMoved, sessions.TierMoved{Window: w})
			}
			at += 8
			begun := time.Now()
			m.Update(batchMsg{src: m.src, batch: batch})
			frameBytes = len(m.View())
			took = append(took, time.Since(begun))
		}
		report(b, took)
	})
	b.Run("seek", func(b *testing.B) {
		m := start()
		defer m.end()
		settleTier(m)
		var took []time.Duration
		for i := 0; b.Loop(); i++ {
			part := st.Clone()
			part.Tiers = []*sessions.TierRun{viewstest.TierUntil(run, windows/1000*[]int{890, 401, 703, 123, 900}[i%5])}
			begun := time.Now()
			m.Update(batchMsg{src: m.src, batch: sessions.Batch{Reset: part}})
			frameBytes = len(m.View())
			took = append(took, time.Since(begun))
		}
		report(b, took)
	})
}

// settleTier gives a model its size and draws.
func settleTier(m *Model) {
	m.Update(keyOf("1"))
	m.resize(200, 60)
	m.stale = true
	frameBytes = len(m.View())
}

// bigTier is a run of one budget with so many windows of so many moves.
func bigTier(layers, experts, windows, moves int) *sessions.TierRun {
	s := &tier.Setup{
		Shape: tier.Shape{Experts: experts, TopK: 8}, Hot: "nvfp4", Cold: "code2+sym", Policy: tier.DefaultPolicy(), Trace: tier.TraceMoves,
		Budgets:  []tier.Budget{{Label: "25%", Bytes: int64(layers*experts) * 7000, Share: 0.25}},
		Workload: tier.WorkloadRef{Name: "zipf:1.1", Kind: "zipf", Tokens: windows * 256},
	}
	for l := range layers {
		s.Shape.Layers = append(s.Shape.Layers, l)
		s.Shape.Hot, s.Shape.Cold = append(s.Shape.Hot, 28_000), append(s.Shape.Cold, 16_000)
	}
	r := &sessions.TierRun{Setup: s, AtUS: 1}
	seed := uint32(1)
	for i := range windows {
		w := &tier.Window{Index: i, First: 256 * i, Tokens: 256, Pairs: 256 * 8 * int64(layers), Hits: int64(256 * 4 * layers), Hot: layers * experts / 4, PerLayer: make([]int, layers)}
		for l := range w.PerLayer {
			w.PerLayer[l] = experts / 4
		}
		for k := range moves {
			seed = seed*1664525 + 1013904223
			w.Moves = append(w.Moves, tier.Move{Layer: int(seed>>8) % layers, Expert: int(seed>>16) % experts, Up: k%2 == 0, Score: float64(seed>>8) / (1 << 24)})
		}
		r.Windows = append(r.Windows, w)
	}
	return r
}
