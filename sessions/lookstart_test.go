package sessions

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/analysis/bias"
	"quantscope/analysis/candidate"
	"quantscope/analysis/tier"
	"quantscope/analysis/yardstick"
	"quantscope/kernels"
)

func preparedTier(t *testing.T, path string, r TierRequest) *PreparedTier {
	t.Helper()
	p, err := PrepareTier(t.Context(), path, r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// tierOptions run a tier of the demo at three budgets.
func tierOptions() tier.Options {
	return tier.Options{Hot: "nvfp4", Cold: "code2+sym", Budgets: []string{"0%", "25%", "100%"}, Trace: tier.TraceMoves, Seed: 7, Policy: tier.Policy{Window: 64, Decay: 0.5, Hysteresis: 0.1, Stay: 1}}
}

// A tier is run on the demo: recorded from its forward pass, in a session of its own
// that can be quantized in, and its maps are candidates of that session: nothing hot is
// the two-bit variant, everything hot the four-bit one, to the last digit of KL.
func TestTierOfTheDemo(t *testing.T) {
	path := sessionPath(t)
	routes := filepath.Join(t.TempDir(), "calib.routes")
	var stages []string
	p := preparedTier(t, path, TierRequest{Checkpoint: "demo", Chunks: 2, Record: routes, Options: tierOptions(), Program: "test",
		Progress: func(at tier.Progress) {
			if n := len(stages); n == 0 || stages[n-1] != at.Stage {
				stages = append(stages, at.Stage)
			}
		}})
	if !p.Made || p.Path != path {
		t.Errorf("%+v", p)
	}
	if err := p.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	st := openState(t, path)
	run := st.Tiers[0]
	if run.End == nil || run.End.State != string(RunFinished) || len(run.End.Results) != 3 || len(run.Windows) == 0 || run.Setup.Workload.Kind != tier.Recorded || run.Setup.Workload.Name != "calib" || run.Setup.Routed != "demo" || len(st.Tensors) == 0 {
		t.Fatalf("%+v", run.End)
	}
	moved := false
	for _, w := range run.Windows {
		moved = moved || len(w.Moves) > 0
	}
	if !moved || len(stages) < 2 || stages[0] != "opening" {
		t.Errorf("moves: %v, stages %v", moved, stages)
	}
	if text, ok := st.TierMap("25%"); !ok || !strings.Contains(text, tier.MapFormat) {
		t.Errorf("map: %.80s", text)
	}

	// The trace again, as a run of its own: the same windows.
	again := preparedTier(t, path, TierRequest{Workload: []string{routes}, Options: tierOptions()})
	if again.Made {
		t.Error("another session is made")
	}
	if err := again.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	st = openState(t, path)
	if len(st.Tiers) != 2 || len(st.Tiers[1].Windows) != len(run.Windows) {
		t.Fatalf("%d runs", len(st.Tiers))
	}
	for i, w := range run.Windows {
		if x := st.Tiers[1].Windows[i]; x.Hits != w.Hits || x.Churn != w.Churn || len(x.Moves) != len(w.Moves) {
			t.Fatalf("window %d: %+v, recorded %+v", i, x, w)
		}
	}

	m, err := PrepareMeasure(t.Context(), path, MeasureRequest{Checkpoint: "demo", Candidates: []string{"code2+sym", "none=tier:0/0%", "some=tier:25%", "random=tier:1/25%#random", "all=tier:100%", "nvfp4"}, Corpora: []string{"prose"}, Chunk: 128, Chunks: 1, NoFloor: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var rep *yardstick.Report
	m.r.Report = func(r *yardstick.Report) { rep = r }
	if err := m.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	kl := map[string]float64{}
	for i, c := range rep.Setup.Candidates {
		kl[c.Label] = rep.Results[i].All.KL
	}
	if kl["none"] != kl["code2+sym"] || kl["all"] != kl["nvfp4"] || !(kl["some"] < kl["none"] && kl["some"] > kl["all"]) || math.IsNaN(kl["random"]) {
		t.Errorf("KL: %v", kl)
	}
}

// A look at biases of the demo is recorded as it comes, and reported.
func TestBiasOfTheDemo(t *testing.T) {
	path := sessionPath(t)
	var rep *bias.Report
	p, err := PrepareBias(t.Context(), path, BiasRequest{Checkpoint: "demo", Candidates: []string{"code2", "code2+sym"}, Corpora: []string{"prose"}, Chunk: 64, Chunks: 1, Program: "test", Report: func(r *bias.Report) { rep = r }})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := openState(t, path).Biases[0]
	if rep == nil || b.End == nil || b.End.State != string(RunFinished) || len(b.Rows) != len(rep.Rows) || len(b.Rows) == 0 || len(b.Divergences) == 0 || len(b.Weights) == 0 {
		t.Fatalf("%d rows, %d weights, %d divergences, %+v", len(b.Rows), len(b.Weights), len(b.Divergences), b.End)
	}
	if got := b.Analyze(); len(got.Verdicts) != len(rep.Verdicts) || got.Verdicts[0] != rep.Verdicts[0] {
		t.Errorf("%q, then %q", got.Verdicts, rep.Verdicts)
	}
}

// What cannot be run is refused before anything is computed, in a line, and leaves no
// session behind.
func TestLooksRefused(t *testing.T) {
	exists := filepath.Join(t.TempDir(), "there.routes")
	if err := os.WriteFile(exists, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	options := func(change func(o *tier.Options)) tier.Options {
		o := tierOptions()
		change(&o)
		return o
	}
	zipf := []string{"zipf:1"}
	for says, r := range map[string]TierRequest{
		"there.routes":          {Checkpoint: "demo", Record: exists, Workload: zipf, Options: tierOptions()},
		"/nowhere":              {Checkpoint: "/nowhere", Options: tierOptions()},
		"unheard":               {Checkpoint: "demo", Routed: "unheard", Options: tierOptions()},
		"no variant is named":   {Checkpoint: "demo", Options: options(func(o *tier.Options) { o.Cold = "" })},
		"0 are named":           {Checkpoint: "demo", Options: options(func(o *tier.Options) { o.Budgets = nil })},
		"budget":                {Checkpoint: "demo", Options: options(func(o *tier.Options) { o.Budgets = []string{"many"} })},
		"trace level 3":         {Checkpoint: "demo", Options: options(func(o *tier.Options) { o.Trace = 3 })},
		"a window of -1 tokens": {Checkpoint: "demo", Options: options(func(o *tier.Options) { o.Policy.Window = -1 })},
		"zipf:x":                {Checkpoint: "demo", Workload: []string{"zipf:x"}, Options: tierOptions()},
		"stands alone":          {Checkpoint: "demo", Workload: []string{"zipf:1", "calib"}, Options: tierOptions()},
		"/nowhere.txt":          {Checkpoint: "demo", Workload: []string{"/nowhere.txt"}, Options: tierOptions()},
		"holds no such map":     {Checkpoint: "demo", Routed: "tier:25%", Options: tierOptions()},
	} {
		path := sessionPath(t)
		_, err := PrepareTier(t.Context(), path, r)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", says, err)
		}
		if infos, errs := List(filepath.Dir(path)); len(infos)+len(errs) > 0 {
			t.Errorf("%s: a session is left", says)
		}
	}
	for says, r := range map[string]BiasRequest{
		"no candidate is named":      {Checkpoint: "demo"},
		"/nowhere":                   {Checkpoint: "/nowhere", Candidates: []string{"nvfp4"}},
		"unheard":                    {Checkpoint: "demo", Candidates: []string{"unheard"}},
		"two candidates are called":  {Checkpoint: "demo", Candidates: []string{"nvfp4", "nvfp4"}},
		"/nowhere.txt":               {Checkpoint: "demo", Candidates: []string{"nvfp4"}, Corpora: []string{"/nowhere.txt"}},
		"the session holds no such ": {Checkpoint: "demo", Candidates: []string{"tier:0/25%"}},
	} {
		path := sessionPath(t)
		_, err := PrepareBias(t.Context(), path, r)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", says, err)
		}
		if infos, errs := List(filepath.Dir(path)); len(infos)+len(errs) > 0 {
			t.Errorf("%s: a session is left", says)
		}
	}
	served := prepared(t, sessionPath(t), GatesRequest{Servers: []string{"http://127.0.0.1:1"}, Suite: smallSuite(t)})
	if _, err := PrepareTier(t.Context(), served.Path, TierRequest{Checkpoint: "demo", Workload: zipf, Options: tierOptions()}); err == nil || !strings.Contains(err.Error(), "served models") {
		t.Errorf("a tier of served models: %v", err)
	}
	if err := openFeed(t, served.Path).(Biaser).Bias(t.Context(), BiasRequest{Candidates: []string{"nvfp4"}}); err == nil || !strings.Contains(err.Error(), "served models") {
		t.Errorf("biases of served models: %v", err)
	}
	other := sessionPath(t)
	job, _ := fakeJob(2)
	runJob(t, job, other, "f1")
	if _, err := PrepareTier(t.Context(), other, TierRequest{Checkpoint: "demo", Workload: zipf, Options: tierOptions()}); err == nil || !strings.Contains(err.Error(), "another checkpoint than the session's") {
		t.Errorf("a tier of another checkpoint: %v", err)
	}
}

// One thing at a time: a look, a tier, a measurement and gates take turns; none of them
// goes into a session of a part.
func TestLooksTakeTurns(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(4)
	runJob(t, job, path, "f1")
	feed := openFeed(t, path)
	f := newFakeLooks()
	inside, leave := make(chan struct{}), make(chan struct{})
	f.tells = func(n int) {
		if n == 3 {
			close(inside)
			<-leave
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- feed.(Tierer).Tier(t.Context(), f.tierRequest(feed)) }()
	<-inside
	for what, err := range map[string]error{
		"bias":    feed.(Biaser).Bias(t.Context(), BiasRequest{}),
		"tier":    feed.(Tierer).Tier(t.Context(), TierRequest{}),
		"gates":   feed.(Gater).Gates(t.Context(), GatesRequest{}),
		"measure": feed.(Measurer).Measure(t.Context(), MeasureRequest{}),
	} {
		if !errors.Is(err, ErrMeasuring) {
			t.Errorf("%s beside a tier: %v", what, err)
		}
	}
	if err := openFeed(t, path).(Biaser).Bias(t.Context(), BiasRequest{}); !errors.As(err, new(*BusyError)) {
		t.Errorf("another feed writes too: %v", err)
	}
	close(leave)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}

	// Beside a run that quantizes it waits; the end of the workbench ends it.
	job, _ = fakeJob(30)
	let, entered := gated(job)
	live, err := StartJob(t.Context(), job, Options{Session: sessionPath(t), Variants: []string{"f1"}, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	<-entered
	f = newFakeLooks()
	r := f.biasRequest(live)
	waits := make(chan struct{}, 1)
	r.Progress = func(at bias.Progress) {
		if at.Stage == StageWaiting {
			select {
			case waits <- struct{}{}:
			default:
			}
		}
	}
	go func() { ended <- live.Bias(t.Context(), r) }()
	<-waits
	if f.calls != 0 {
		t.Error("it looks while a run quantizes")
	}
	close(let)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := live.Close(); err != nil {
		t.Fatal(err)
	}
	st := openState(t, live.Path())
	if len(st.Biases) != 1 || len(st.Biases[0].Rows) != 20 || st.Progress.Done != 30 {
		t.Errorf("%d looks, %+v", len(st.Biases), st.Progress)
	}

	part := sessionPath(t)
	l, err := Start(t.Context(), Options{Checkpoint: "demo", Session: part, Variants: []string{"nvfp4"}, Targets: "*layers.1.*experts.0.*", Part: Part{1, 1}, KernelSet: kernels.Best()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	liveErr := l.Tier(t.Context(), TierRequest{})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{liveErr, openFeed(t, part).(Biaser).Bias(t.Context(), BiasRequest{})} {
		if err == nil || !strings.Contains(err.Error(), "a part of a checkpoint") {
			t.Errorf("in a session of a part: %v", err)
		}
	}
}

// Maps are found by run and label, by the label of the newest run that has one, and with
// a control behind it.
func TestTierMapNames(t *testing.T) {
	path := lookSession(t)
	feed := openFeed(t, path)
	f := newFakeLooks()
	r := f.tierRequest(feed)
	feed.(*savedFeed).looks.tier = func(ctx context.Context, s *tier.Setup, tr *tier.Trace, o tier.Options, sink tier.Sink) (*tier.End, error) {
		end, err := f.tier(ctx, s, tr, o, sink)
		if err == nil {
			end.Results[0].Map.HotBytes = 160 // another than the first run's
		}
		return end, err
	}
	if err := feed.(Tierer).Tier(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	f = newFakeLooks()
	f.stop, f.then = 3, func(context.Context) error { return errors.New("enough") }
	_ = tierOn(t, openFeed(t, path), f) // the newest has no maps
	st := openState(t, path)
	has, err := storedHeld(t.Context(), path)
	if err != nil || len(st.Tiers) != 3 {
		t.Fatal(err)
	}
	for name, how := range map[string]string{
		"25%": tier.Managed, "1/25%": tier.Managed, "0/50%": tier.Managed, "50%#random": "random", "0/25%#coldest": "coldest",
		"75%": "", "2/25%": "", "3/25%": "", "-1/25%": "", "01/25%": "", "25%#warm": "", "": "", "/": "", "25%/1": "",
	} {
		text, ok := st.TierMap(name)
		same, found := has.tier(name)
		if ok != (how != "") || ok != found || text != same {
			t.Errorf("%q: %v, %v", name, ok, found)
			continue
		}
		if !ok {
			continue
		}
		m, err := tier.ParseMap(name, []byte(text))
		if err != nil || m.How != how || !strings.Contains(name, m.Budget.Label) {
			t.Errorf("%q: %+v, %v", name, m, err)
		}
		if newer := name == "25%" || name == "1/25%"; err == nil && (m.HotBytes == 160) != newer {
			t.Errorf("%q is a map of another run", name)
		}
	}
	want := "25% 25%#random 25%#coldest 50% 50%#random 50%#coldest 0/25% 0/25%#random 0/25%#coldest 0/50% 0/50%#random 0/50%#coldest"
	if got := strings.Join(st.TierMaps(), " "); got != want {
		t.Errorf("names: %s", got)
	}
	var o candidate.Options
	o.Tier = has.tier
	if _, ok := o.Tier("1/25%"); !ok {
		t.Error("a candidate does not find it")
	}
}
