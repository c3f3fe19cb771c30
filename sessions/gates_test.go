package sessions

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"quantscope/analysis/gates"
	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/grade"
)

// What a run of gates brings to the screen that began it, is what a fresh open
// finds, byte for byte, and what a replay shows, answer by answer, forward and back.
func TestGatesAreKept(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(4)
	runJob(t, job, path, "f1")
	feed := openFeed(t, path)
	st := feed.Snapshot()
	fake := newFakeGates()
	r := fake.on(feed, "bf16", "nvfp4")
	said := 0
	r.Report = func(*gates.Report) { said++ }
	ended := make(chan error, 1)
	go func() { ended <- feed.(Gater).Gates(t.Context(), r) }()
	until(t, feed, st, func() bool { return len(st.Gates) == 1 && st.Gates[0].End != nil })
	if err := <-ended; err != nil || said != 1 {
		t.Fatalf("reported %d times: %v", said, err)
	}
	g := st.Gates[0]
	if done, of := g.Answers(); done != 2*gateAnswers || of != 2*gateAnswers || g.End.State != string(RunFinished) || len(g.Meters) != 2 || g.Opened[1].Model != "nvfp4" {
		t.Errorf("%d of %d answers, %d meters, %+v", done, of, len(g.Meters), g.End)
	}
	for _, a := range g.Results {
		want := madeUpResult(a.Arm, a.Probe, a.Case, a.Pass)
		if diff := cmp.Diff(want, a, sameBits); diff != "" {
			t.Fatalf("an answer is not what came: %s", diff)
		}
	}
	if m := g.Meters[0]; !math.IsInf(m.Arm1.PPL, 1) || !math.IsNaN(m.Arm1.SE) || !math.IsNaN(m.Checks[0].Figures["rank"]) || !m.Counted.At.Equal(time.Unix(9, 0)) {
		t.Errorf("a meter is not what was told: %+v", m)
	}

	fresh := openState(t, path)
	fresh.Gates[0].AtUS = g.AtUS // a screen has the moment by its own clock
	if diff := cmp.Diff(st.Gates, fresh.Gates, sameFigures); diff != "" {
		t.Errorf("the session and what was told of it differ: %s", diff)
	}
	var lines []string
	for _, e := range fresh.Log {
		if e.Kind == EventAnswer {
			t.Error("an answer is a line of the log")
		}
		if e.Kind == EventArm || e.Kind == EventMeter || e.Kind == EventGates || e.Kind == EventGatesEnd {
			lines = append(lines, e.Message)
		}
	}
	want := []string{
		"gates of made up on bf16, nvfp4: 2 probes, 16 answers",
		"asking bf16: vllm 0.19.1, model bf16, 2 drafts a step", "bf16: 44 tokens in 2.0 s, 22.0 tokens/s, acceptance 60.0 % at length 2.20, 1 check failed",
		"asking nvfp4: vllm 0.19.1, model nvfp4, 2 drafts a step", "nvfp4: 44 tokens in 2.0 s, 22.0 tokens/s, acceptance 60.0 % at length 2.20, 1 check failed",
		"gates finished: 16 of 16 answers",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}

	p := play(t, path, MaxSpeed)
	p.p.Step(1 << 20)
	if !p.next() {
		t.Fatal("nothing is played")
	}
	diffStates(t, openState(t, path), p.st)
	p.p.Step(-4) // the end, a meter, two answers
	if !p.next() || len(p.st.Gates) != 1 || len(p.st.Gates[0].Results) != 14 || len(p.st.Gates[0].Meters) != 1 || p.st.Gates[0].End != nil {
		t.Errorf("four steps back: %+v", p.st.Gates)
	}
	p.p.Step(1)
	if !p.next() || len(p.st.Gates[0].Results) != 15 {
		t.Errorf("a step on: %d answers", len(p.st.Gates[0].Results))
	}
	p.p.Step(1 << 20)
	if !p.next() {
		t.Fatal("nothing is played")
	}
	diffStates(t, openState(t, path), p.st)

	// A run goes on with the session, and a joined state has the first one's.
	if end := runJob(t, job, path, "f1", "f2"); end.State != RunFinished || end.Done != 8 {
		t.Errorf("gone on with to %+v", end)
	}
	j, err := Join(openState(t, path), openState(t, path), "b")
	if err != nil || len(j.Gates) != 1 || len(j.Gates[0].Results) != 16 {
		t.Errorf("joined: %v", err)
	}
	if info, err := Inspect(path); err != nil || len(info.Gates) != 1 || len(info.Gates[0].Results) != 0 || info.Gates[0].Setup.Suite != "made up" {
		t.Errorf("%+v, %v", info.Gates, err)
	}
}

// A clone is not changed with its original.
func TestGatesClone(t *testing.T) {
	st := openState(t, gateSession(t))
	c := st.Clone()
	again := *st.Gates[0].Results[3]
	again.Nonce = "another"
	st.Apply(Batch{
		GatesOpened: []GatesOpened{{Arm: 1, Identity: &chat.Identity{Model: "other"}}}, GatesAnswered: []GatesAnswered{{Result: &again}, {Run: 7, Result: &again}},
		GatesMetered: []GatesMetered{{Meter: &gates.Meter{Arm: 0, Tokens: 1}}},
	})
	g, old := st.Gates[0], c.Gates[0]
	if len(g.Results) != 16 || g.Results[15] != &again || g.Results[3] == old.Results[3] || g.End != nil || len(g.Meters) != 2 || g.Meters[1].Tokens != 1 || g.Opened[1].Model != "other" {
		t.Errorf("%d answers, %d meters", len(g.Results), len(g.Meters))
	}
	if len(old.Results) != 16 || old.Results[15].Arm != 1 || old.End == nil || old.Meters[0].Tokens != 44 || old.Opened[1].Model != "nvfp4" {
		t.Error("the clone has changed")
	}
}

// Gates that were broken off go on where they were; what did not come is asked again;
// a finished run is only reported; other settings make a run of their own.
func TestGatesGoOn(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(4)
	runJob(t, job, path, "f1")
	ctx, cancel := context.WithCancel(t.Context())
	broken := newFakeGates()
	broken.stop, broken.then = 11, func(ctx context.Context) error { cancel(); return ctx.Err() }
	broken.spoil = func(r *gates.Result) { // one that may pass, and one that is a verdict
		if r.Key() == (gates.Key{Arm: 0, Probe: 0, Case: 1, Pass: 1}) {
			erred(r, chat.Cut)
		}
		if r.Key() == (gates.Key{Arm: 0, Probe: 0, Case: 2, Pass: 1}) {
			erred(r, chat.Refused)
		}
	}
	feed := openFeed(t, path)
	if err := feed.(Gater).Gates(ctx, broken.on(feed, "bf16", "nvfp4")); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	g := openState(t, path).Gates
	if len(g) != 1 || len(g[0].Results) != 11 || g[0].End == nil || g[0].End.State != string(RunCancelled) || len(g[0].Meters) != 1 {
		t.Fatalf("%+v", g[0])
	}

	absent := newFakeGates()
	absent.stop, absent.then = 2, func(context.Context) error {
		return fmt.Errorf("nvfp4: %w", &chat.Error{At: "http://nvfp4", Kind: chat.Absent, Reason: "connection refused"})
	}
	err := gatesOn(t, openFeed(t, path), absent, "bf16", "nvfp4")
	var env *EnvError
	if !errors.As(err, &env) || !errors.As(err, new(*chat.Error)) || !strings.Contains(err.Error(), "http://nvfp4: connection refused") || strings.Contains(err.Error(), "\n") {
		t.Errorf("a server that is gone: %v", err)
	}
	if absent.prior != 10 || absent.priorMeters != 0 {
		t.Errorf("it begins with %d answers and %d meters", absent.prior, absent.priorMeters)
	}
	g = openState(t, path).Gates
	if len(g) != 1 || len(g[0].Results) != 12 || g[0].End.State != string(RunStopped) || !strings.Contains(g[0].End.Reason, "connection refused") {
		t.Fatalf("%d answers, %+v", len(g[0].Results), g[0].End)
	}

	rest := newFakeGates()
	if err := gatesOn(t, openFeed(t, path), rest, "bf16", "nvfp4"); err != nil || rest.prior != 12 || rest.asked != 4 {
		t.Fatalf("%d answers there, %d asked: %v", rest.prior, rest.asked, err)
	}
	st := openState(t, path)
	if g := st.Gates[0]; len(st.Gates) != 1 || len(g.Results) != 16 || g.End.State != string(RunFinished) || len(g.Meters) != 2 {
		t.Errorf("%d answers, %d meters, %+v", len(g.Results), len(g.Meters), g.End)
	}
	again := newFakeGates()
	feed = openFeed(t, path)
	r := again.on(feed, "bf16", "nvfp4")
	var rep *gates.Report
	r.Report = func(r *gates.Report) { rep = r }
	if err := feed.(Gater).Gates(t.Context(), r); err != nil || again.calls != 0 || rep == nil || len(rep.Rows) != 4 {
		t.Errorf("asked %d times more: %v", again.calls, err)
	}
	query(t, path, "select sum(replaced) || ' of ' || count(*) from answers", func(row []driver.Value) {
		if got := sqlText(row[0]); got != "1 of 17" {
			t.Errorf("replaced: %s", got)
		}
	})

	for what, change := range map[string]func(f *fakeGates, p *gateParties){
		"passes":   func(f *fakeGates, p *gateParties) { p.suite.Probes[0].Passes = 3 },
		"a probe":  func(f *fakeGates, p *gateParties) { p.suite.Probes = p.suite.Probes[:1] },
		"suite":    func(f *fakeGates, p *gateParties) { p.suite.SHA256 = "ef" },
		"settings": func(f *fakeGates, p *gateParties) { p.settings = map[string]string{GateSpeculate: "3"} },
		"arms":     func(f *fakeGates, p *gateParties) { p.arms = p.arms[:1] },
		"label":    func(f *fakeGates, p *gateParties) { p.arms[1].Label = "other" },
	} {
		other := newFakeGates()
		other.stop, other.then = 0, func(context.Context) error { return errors.New("enough") }
		feed := openFeed(t, path)
		r := other.on(feed, "bf16", "nvfp4")
		change(other, r.ready)
		if err := feed.(Gater).Gates(t.Context(), r); err == nil || other.prior != 0 {
			t.Errorf("other %s: goes on with %d answers: %v", what, other.prior, err)
		}
	}
	if n := len(openState(t, path).Gates); n != 7 {
		t.Errorf("%d runs", n)
	}
	moved := newFakeGates()
	moved.suite.Path, moved.suite.Text = "/elsewhere", nil
	if err := gatesOn(t, openFeed(t, path), moved, "bf16", "nvfp4"); err != nil || moved.calls != 0 {
		t.Errorf("where the suite's file lies matters: %v", err)
	}
}

// Asked for again is what may come another time, and no verdict.
func TestAskedAgain(t *testing.T) {
	for kind, want := range map[chat.Kind]bool{
		chat.Absent: true, chat.Timeout: true, chat.Status: true, chat.Cut: true,
		chat.Malformed: false, chat.Wrong: false, chat.Refused: false, chat.Internal: false, "": false,
	} {
		r := madeUpResult(0, 0, 0, 0)
		erred(r, kind)
		if again(r) != want {
			t.Errorf("%q is asked for again: %v", kind, !want)
		}
		if r.Verdict.Fault = grade.WrongAnswer; again(r) {
			t.Errorf("a verdict on %q is asked for again", kind)
		}
	}
}

// What was held against an answer of the baseline that did not come is asked for again
// with it: that it differs from nothing is no verdict on the candidate.
func TestHeldAgainstNothing(t *testing.T) {
	suite := gateSuite()
	suite.Probes[1].Against = true
	g := &GateRun{Setup: gates.NewSetup(suite, []gates.ArmSpec{{Label: "a", Role: gates.Baseline}, {Label: "b", Role: gates.Candidate}}, gates.Options{})}
	for arm := range 2 {
		for probe := range 2 {
			for c := range 2 {
				g.Results = append(g.Results, madeUpResult(arm, probe, c, 0))
			}
		}
		g.Meters = append(g.Meters, &gates.Meter{Arm: arm})
	}
	if results, meters := g.kept(); len(results) != 8 || len(meters) != 2 {
		t.Fatalf("%d answers and %d meters are kept", len(results), len(meters))
	}
	erred(g.Results[0], chat.Timeout) // of a probe that holds nothing against it
	erred(g.Results[2], chat.Cut)
	results, meters := g.kept()
	for _, r := range results {
		if k := r.Key(); k.Arm == 0 && k.Case == 0 || k == (gates.Key{Arm: 1, Probe: 1}) {
			t.Errorf("%+v is kept", k)
		}
	}
	if len(results) != 5 || len(meters) != 0 {
		t.Errorf("%d answers and %d meters are kept", len(results), len(meters))
	}
}

// Answers of two servers are never mixed under one arm.
func TestAnotherServerIsRefused(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(4)
	runJob(t, job, path, "f1")
	first := newFakeGates()
	first.stop, first.then = 3, func(context.Context) error { return errors.New("enough") }
	if err := gatesOn(t, openFeed(t, path), first, "bf16", "nvfp4"); err == nil {
		t.Fatal("no error")
	}
	for what, change := range map[string]struct {
		id       chat.Identity
		was, now string
	}{
		"model":               {chat.Identity{Model: "other", Engine: "vllm", Version: "0.19.1", Speculative: 2, MaxTokens: -1}, "bf16", "other"},
		"engine":              {chat.Identity{Model: "bf16", Version: "0.19.1", Speculative: 2, MaxTokens: -1}, "vllm", "none"},
		"version":             {chat.Identity{Model: "bf16", Engine: "vllm", Version: "0.20", Speculative: 2, MaxTokens: -1}, "0.19.1", "0.20"},
		"model of arm ":       {chat.Identity{Kind: "server", Model: "other", Engine: "vllm", Version: "0.19.1", Speculative: 2, MaxTokens: -1}, "bf16", "other"},
		"content":             {chat.Identity{Model: "bf16", Engine: "vllm", Version: "0.19.1", Content: "abc", Speculative: 2, MaxTokens: -1}, "none", "abc"},
		"drafts a step":       {chat.Identity{Model: "bf16", Engine: "vllm", Version: "0.19.1", MaxTokens: -1}, "2", "0"},
		"longest context":     {chat.Identity{Model: "bf16", Engine: "vllm", Version: "0.19.1", Speculative: 2, MaxTokens: 99}, "none", "99"},
		"what is presented":   {chat.Identity{Model: "bf16", Engine: "vllm", Version: "0.19.1", Effective: "int4", Speculative: 2, MaxTokens: -1}, "none", "int4"},
		"fingerprint of arm ": {chat.Identity{Model: "bf16", Engine: "vllm", Version: "0.19.1", Fingerprint: "fp", Speculative: 2, MaxTokens: -1}, "none", "fp"},
	} {
		f := newFakeGates()
		f.ids["bf16"] = change.id
		err := gatesOn(t, openFeed(t, path), f, "bf16", "nvfp4")
		var set *SettingsError
		if !errors.As(err, &set) || set.Old != change.was || set.New != change.now || !strings.Contains(set.Setting, what) || !strings.Contains(set.Setting, "arm bf16 (http://bf16") || f.asked != 0 {
			t.Errorf("%s: %v", what, err)
		}
		if wrong := (*chat.Error)(nil); errors.As(err, &wrong) != (change.id.Kind == "server") || wrong != nil && wrong.Kind != chat.Wrong {
			t.Errorf("%s: kind of %v", what, err)
		}
	}
	// Of an arm that was not asked yet, anybody may answer.
	f := newFakeGates()
	f.ids["nvfp4"] = chat.Identity{Model: "new"}
	if err := gatesOn(t, openFeed(t, path), f, "bf16", "nvfp4"); err != nil || f.prior != 3 {
		t.Errorf("%d answers there: %v", f.prior, err)
	}
	if g := openState(t, path).Gates[0]; len(g.Results) != 16 || g.Opened[1].Model != "new" {
		t.Errorf("%d answers", len(g.Results))
	}
}

// While a run quantizes gates wait; a measurement and gates take turns; closing the
// feed ends them.
func TestLiveGatesWait(t *testing.T) {
	path := sessionPath(t)
	job, src := fakeJob(6)
	held := make(chan struct{})
	src.read = func(i int) error {
		if i > 2 {
			<-held
		}
		return nil
	}
	l, err := StartJob(t.Context(), job, Options{Session: path, Variants: []string{"f1"}, Threads: 1, Program: "test"})
	if err != nil {
		t.Fatal(err)
	}
	st := l.Snapshot()
	fake := newFakeGates()
	r := fake.on(l, "bf16")
	waits := make(chan struct{}, 64)
	r.Progress = func(p gates.Progress) {
		if p.Stage == StageWaiting {
			waits <- struct{}{}
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- l.Gates(t.Context(), r) }()
	<-waits
	if fake.calls != 0 {
		t.Error("they begin while a run goes on")
	}
	measured := &fakeMeasure{setup: madeUpSetup("nvfp4")}
	if err := l.Measure(t.Context(), measured.on(l)); !errors.Is(err, ErrMeasuring) {
		t.Errorf("a measurement beside gates: %v", err)
	}
	if err := l.Gates(t.Context(), fake.on(l, "bf16")); !errors.Is(err, ErrMeasuring) {
		t.Errorf("gates beside gates: %v", err)
	}
	close(held)
	until(t, l, st, func() bool { return len(st.Gates) == 1 && st.Gates[0].End != nil })
	if err := <-ended; err != nil || st.Progress.State != RunFinished || len(st.Gates[0].Results) != gateAnswers {
		t.Errorf("%v, %+v", err, st.Progress)
	}

	begun := make(chan struct{})
	endless := newFakeGates()
	endless.stop, endless.then = 1, func(ctx context.Context) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}
	go func() { ended <- l.Gates(t.Context(), endless.on(l, "other")) }()
	<-begun
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("closing the feed does not end them")
	}
	fresh := openState(t, path)
	if len(fresh.Gates) != 2 || len(fresh.Gates[1].Results) != 1 || fresh.Gates[1].End == nil {
		t.Errorf("%+v", fresh.Gates)
	}
}

// A replay runs no gates, and neither does a session of a part of a checkpoint.
func TestNoGatesThere(t *testing.T) {
	p, err := OpenReplay(gateSession(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.(Gater).Gates(t.Context(), GatesRequest{}); err == nil || !strings.Contains(err.Error(), "a replay runs no gates") {
		t.Errorf("%v", err)
	}
	path := sessionPath(t)
	job, _ := fakeJob(4)
	job.part = &partJSON{K: 1, Of: 2, Whole: 8}
	runJob(t, job, path, "f1")
	if err := gatesOn(t, openFeed(t, path), newFakeGates(), "bf16"); err == nil || !strings.Contains(err.Error(), "part of a checkpoint") {
		t.Errorf("%v", err)
	}
}

// The tables say what the answers say, and are made anew where they do not.
func TestGateTables(t *testing.T) {
	path := gateSession(t)
	before := dumpTables(t, path)
	st := openState(t, path)
	rows := map[string]string{}
	for _, r := range st.Gates[0].Analyze().Rows {
		rows[fmt.Sprint(r.Probe, r.Arm)] = fmt.Sprint(r.Passed, r.Of, r.All, r.Tokens)
	}
	n := 0
	query(t, path, "select probe, arm, passed, answers, of, tokens, broken, replacement, erred from v_gates", func(row []driver.Value) {
		n++
		if got, want := fmt.Sprint(row[2], row[3], row[4], row[5]), rows[fmt.Sprint(row[0], row[1])]; got != want {
			t.Errorf("probe %v of arm %v: %s in the view, %s in the report", row[0], row[1], got, want)
		}
		if row[6] != row[3] || row[7] != 3*row[3].(int64) || row[8] != int64(0) {
			t.Errorf("broken, replacement, erred: %v", row[6:])
		}
	})
	if n != 4 {
		t.Errorf("%d rows", n)
	}
	query(t, path, "select label, engine, speculative, max_tokens, tokens_per_s, acceptance, accepted_length, ppl, generated, steps from meters m join arms a on a.run = m.run and a.id = m.arm where m.arm = 1", func(row []driver.Value) {
		if got := fmt.Sprint(row); got != "[nvfp4 vllm 2 <nil> 22 0.6 2.2 +Inf 44 <nil>]" {
			t.Errorf("the meter: %s", got)
		}
	})
	for _, spoil := range []string{"delete from answers where arm = 1", "drop table gate_runs", "delete from cases", "delete from arms", "delete from probes where id = 1",
		"insert into answers select seq + 1000, run, arm, probe, case_id, pass, replaced, passed, fault, reason, error, turns, finish, prompt_tokens, completion_tokens, cached_tokens, replacement, invalid, retries, first_seconds, seconds, text from answers"} {
		p := copySession(t, path)
		execSQL(t, p, spoil)
		f := openFeed(t, p)
		done := newFakeGates()
		if err := gatesOn(t, f, done, "bf16", "nvfp4"); err != nil || done.calls != 0 {
			t.Errorf("%s: %v", spoil, err)
		}
		if after := dumpTables(t, p); after != before {
			t.Errorf("after %q the tables are\n%s\nnot\n%s", spoil, after, before)
		}
	}
}
