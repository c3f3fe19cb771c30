package sessions

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantscope/analysis/bias"
	"quantscope/analysis/tier"
)

// What a look at biases brings to the screen that began it, is what a fresh open finds,
// bit for bit, and what a replay shows, row by row, forward and back.
func TestBiasesAreKept(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(4)
	runJob(t, job, path, "f1")
	feed := openFeed(t, path)
	st := feed.Snapshot()
	r := newFakeLooks().biasRequest(feed)
	said := 0
	r.Report = func(rep *bias.Report) {
		if said++; len(rep.Rows) != 20 || len(rep.Weights) != 8 || len(rep.Divergences) != 2 {
			t.Errorf("the report has %d rows", len(rep.Rows))
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- feed.(Biaser).Bias(t.Context(), r) }()
	until(t, feed, st, func() bool { return len(st.Biases) == 1 && st.Biases[0].End != nil })
	if err := <-ended; err != nil || said != 1 {
		t.Fatalf("reported %d times: %v", said, err)
	}
	b := st.Biases[0]
	want := &BiasRun{Setup: biasSetup(), AtUS: b.AtUS, End: &bias.End{State: string(RunFinished)}}
	for _, f := range madeUpFound() {
		want.add(f)
	}
	if diff := cmp.Diff(want, b, sameBits); diff != "" {
		t.Errorf("what came is not what was found: %s", diff)
	}
	fresh := openState(t, path)
	fresh.Biases[0].AtUS = b.AtUS // a screen has the moment by its own clock
	if diff := cmp.Diff(st.Biases, fresh.Biases, sameFigures); diff != "" {
		t.Errorf("the session and what was told of it differ: %s", diff)
	}
	var lines []string
	for _, e := range fresh.Log {
		switch e.Kind {
		case EventBiasFound:
			t.Error("a row is a line of the log")
		case EventBias, EventBiasEnd:
			lines = append(lines, e.Message)
		}
	}
	if diff := cmp.Diff([]string{"biases of code2+l2, code2+sym against demo over prose, code: 1024 positions, 3 layers", "biases finished: 20 rows"}, lines); diff != "" {
		t.Error(diff)
	}

	p := play(t, path, MaxSpeed)
	p.p.Step(1 << 20)
	if !p.next() {
		t.Fatal("nothing is played")
	}
	diffStates(t, openState(t, path), p.st)
	p.p.Step(-4) // the end, two divergences, a row
	if !p.next() || len(p.st.Biases) != 1 || len(p.st.Biases[0].Rows) != 19 || len(p.st.Biases[0].Divergences) != 0 || p.st.Biases[0].End != nil {
		t.Errorf("four steps back: %+v", p.st.Biases)
	}
	p.p.Step(1 << 20)
	if !p.next() {
		t.Fatal("nothing is played")
	}
	diffStates(t, openState(t, path), p.st)
	if err := p.p.(Biaser).Bias(t.Context(), BiasRequest{}); err == nil || !strings.Contains(err.Error(), "open the session itself") {
		t.Errorf("a replay looks: %v", err)
	}

	// The same look again is one of its own; a run goes on with the session; a joined
	// state has the first one's.
	if err := biasOn(t, openFeed(t, path), newFakeLooks()); err != nil {
		t.Fatal(err)
	}
	if st := openState(t, path); len(st.Biases) != 2 || len(st.Biases[1].Rows) != 20 || st.Biases[1].End == nil {
		t.Errorf("%d looks", len(st.Biases))
	}
	if end := runJob(t, job, path, "f1", "f2"); end.State != RunFinished || end.Done != 8 {
		t.Errorf("gone on with to %+v", end)
	}
	j, err := Join(openState(t, path), openState(t, path), "b")
	if err != nil || len(j.Biases) != 2 || len(j.Biases[0].Rows) != 20 {
		t.Errorf("joined: %v", err)
	}
	if info, err := Inspect(path); err != nil || len(info.Biases) != 2 || len(info.Biases[0].Rows) != 0 || info.Biases[0].Setup.Layers != 3 {
		t.Errorf("%+v, %v", info.Biases, err)
	}
}

// Windows arrive whole and in order, live and saved; a replay steps from window to
// window, each with its moves.
func TestTiersAreKept(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(4)
	runJob(t, job, path, "f1")
	feed := openFeed(t, path)
	st := feed.Snapshot()
	r := newFakeLooks().tierRequest(feed)
	said := 0
	r.Report = func(s *tier.Setup, end *tier.End) {
		if said++; len(end.Results) != 2 || s.Model != "demo" {
			t.Errorf("%d results", len(end.Results))
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- feed.(Tierer).Tier(t.Context(), r) }()
	until(t, feed, st, func() bool { return len(st.Tiers) == 1 && st.Tiers[0].End != nil })
	if err := <-ended; err != nil || said != 1 {
		t.Fatalf("reported %d times: %v", said, err)
	}
	run := st.Tiers[0]
	end := tierEnd(tierSetup())
	end.State = string(RunFinished)
	want := &TierRun{Setup: tierSetup(), AtUS: run.AtUS, End: end}
	for b := range 2 {
		for i := range tierWindows {
			want.Windows = append(want.Windows, madeUpWindow(b, i))
		}
	}
	if diff := cmp.Diff(want, run, sameBits); diff != "" {
		t.Errorf("what came is not what happened: %s", diff)
	}
	fresh := openState(t, path)
	fresh.Tiers[0].AtUS = run.AtUS
	if diff := cmp.Diff(st.Tiers, fresh.Tiers, sameFigures); diff != "" {
		t.Errorf("the session and what was told of it differ: %s", diff)
	}
	var lines []string
	for _, e := range fresh.Log {
		switch e.Kind {
		case EventWindow, EventMoves:
			t.Error("a window is a line of the log")
		case EventTier, EventTierEnd:
			lines = append(lines, e.Message)
		}
	}
	if diff := cmp.Diff([]string{"hot tier of nvfp4 over code2+sym, budgets 25%, 50%: 40 tokens in windows of 8 over calib, routed by demo", "hot tier finished: 10 windows: it breathes"}, lines); diff != "" {
		t.Error(diff)
	}
	counts := map[string]int64{}
	query(t, path, "select kind, count(*) from events where kind in ('window', 'moves') group by kind", func(row []driver.Value) { counts[row[0].(string)] = row[1].(int64) })
	if counts["window"] != 2 || counts["moves"] != 8 {
		t.Errorf("events: %v", counts)
	}

	p := play(t, path, MaxSpeed)
	p.p.Step(1 << 20)
	if !p.next() {
		t.Fatal("nothing is played")
	}
	diffStates(t, openState(t, path), p.st)
	for back := range 4 {
		p.p.Step(-1)
		if !p.next() {
			t.Fatal("no step back")
		}
		ws := p.st.Tiers[0].Windows
		if len(ws) != 10-back || p.st.Tiers[0].End != nil || len(ws[len(ws)-1].Moves) != 2 {
			t.Errorf("%d steps back: %d windows", back+1, len(ws))
		}
	}
	p.p.Step(1 << 20)
	if !p.next() {
		t.Fatal("nothing is played")
	}
	diffStates(t, openState(t, path), p.st)
	if err := p.p.(Tierer).Tier(t.Context(), TierRequest{}); err == nil || !strings.Contains(err.Error(), "open the session itself") {
		t.Errorf("a replay runs a tier: %v", err)
	}
	if err := tierOn(t, openFeed(t, path), newFakeLooks()); err != nil {
		t.Fatal(err)
	}
	if st := openState(t, path); len(st.Tiers) != 2 || len(st.Tiers[1].Windows) != 10 {
		t.Errorf("%d runs", len(st.Tiers))
	}
	j, err := Join(openState(t, path), openState(t, path), "b")
	if err != nil || len(j.Tiers) != 2 || len(j.Tiers[0].Windows) != 10 {
		t.Errorf("joined: %v", err)
	}
	if info, err := Inspect(path); err != nil || len(info.Tiers) != 2 || len(info.Tiers[0].Windows) != 0 || info.Tiers[0].End == nil {
		t.Errorf("%+v, %v", info.Tiers, err)
	}
}

// Runs that are cancelled, or stop, end with their state and reason, and what was told
// stays.
func TestLooksEndEarly(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(4)
	runJob(t, job, path, "f1")
	ctx, cancel := context.WithCancel(t.Context())
	f := newFakeLooks()
	f.stop, f.then = 7, func(ctx context.Context) error { cancel(); return ctx.Err() }
	feed := openFeed(t, path)
	if err := feed.(Biaser).Bias(ctx, f.biasRequest(feed)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	f.then = func(context.Context) error { return errors.New("layer 2: a weight\nis odd") }
	if err := biasOn(t, openFeed(t, path), f); err == nil || !strings.Contains(err.Error(), "layer 2") {
		t.Fatal(err)
	}
	if err := tierOn(t, openFeed(t, path), f); err == nil || !strings.Contains(err.Error(), "layer 2") {
		t.Fatal(err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	f.then = func(ctx context.Context) error { cancel(); return ctx.Err() }
	feed = openFeed(t, path)
	if err := feed.(Tierer).Tier(ctx, f.tierRequest(feed)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	st := openState(t, path)
	if len(st.Biases) != 2 || len(st.Tiers) != 2 {
		t.Fatalf("%d looks, %d tiers", len(st.Biases), len(st.Tiers))
	}
	for i, state := range []RunState{RunCancelled, RunStopped} {
		b, tr := st.Biases[i], st.Tiers[1-i]
		if b.End == nil || b.End.State != string(state) || len(b.Weights) != 7 || (b.End.Reason != "") != (state == RunStopped) || strings.Contains(b.End.Reason, "\n") {
			t.Errorf("%s: %+v", state, b.End)
		}
		if tr.End == nil || tr.End.State != string(state) || len(tr.Windows) != 7 || (tr.End.Reason != "") != (state == RunStopped) || len(tr.End.Results) != 0 {
			t.Errorf("%s: %+v", state, tr.End)
		}
	}
	if _, ok := st.TierMap("25%"); ok {
		t.Error("a run that did not finish has maps")
	}
}

// A clone is not changed with its original.
func TestLooksClone(t *testing.T) {
	st := openState(t, lookSession(t))
	c := st.Clone()
	st.Apply(Batch{
		BiasesFound: []BiasFound{{Row: &bias.Row{}}, {Run: 7, Row: &bias.Row{}}}, BiasesEnded: []BiasEnded{{End: &bias.End{State: "stopped"}}},
		TiersMoved: []TierMoved{{Window: madeUpWindow(1, 9)}, {Run: -1, Window: madeUpWindow(0, 0)}}, TiersEnded: []TierEnded{{End: &tier.End{State: "stopped"}}},
	})
	if len(st.Biases[0].Rows) != 21 || st.Biases[0].End.State != "stopped" || len(st.Tiers[0].Windows) != 11 || st.Tiers[0].End.State != "stopped" {
		t.Error("a batch is not applied")
	}
	if len(c.Biases[0].Rows) != 20 || c.Biases[0].End.State != "finished" || len(c.Tiers[0].Windows) != 10 || c.Tiers[0].End.State != "finished" {
		t.Error("the clone has changed")
	}
}
