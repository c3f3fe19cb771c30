package sessions

import (
	"bytes"
	"compress/zlib"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/analysis/gates"
	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/grade"
	"quantscope/analysis/gates/suite"
)

// An answer without end does not fill the disk: what is kept of it says so.
func TestHugeAnswers(t *testing.T) {
	r := madeUpResult(1, 0, 2, 1)
	r.Answer.Replies[0].Text = strings.Repeat("\x01", maxAnswerJSON/6+1)
	e, err := newAnswerEvent(0, r)
	if err != nil {
		t.Fatal(err)
	}
	got := e.gate.Result
	if p := got.Answer.Replies[0]; len(p.Text) != maxAnswerText || p.Tokens != nil || len(e.payload) > 4*maxAnswerText || got.Key() != r.Key() || got.Verdict.Passed != r.Verdict.Passed ||
		!strings.HasSuffix(got.Verdict.Reason, "(kept shortened)") || got.Verdict.Marks != nil {
		t.Errorf("%d bytes in %d", len(got.Answer.Replies[0].Text), len(e.payload))
	}
	if len(r.Answer.Replies[0].Text) <= maxAnswerText || r.Verdict.Marks == nil {
		t.Error("recording changes the answer")
	}
	long := madeUpResult(1, 0, 2, 1) // a loop of a megabyte stays whole
	long.Answer.Replies[0].Text = strings.Repeat("no ", 1<<19)
	if e, err := newAnswerEvent(0, long); err != nil || e.gate.Result != long || len(e.payload) > 1<<17 {
		t.Errorf("%d bytes: %v", len(e.payload), err)
	}
}

func zipped(b []byte) []byte {
	var out bytes.Buffer
	w := zlib.NewWriter(&out)
	_, _ = w.Write(b) // to memory
	_ = w.Close()
	return out.Bytes()
}

// gatePayloads are the payloads of a run of gates by kind, whole ones and others.
func gatePayloads(f func(kind EventKind, payload []byte)) {
	setup := gates.NewSetup(gateSuite(), []gates.ArmSpec{{Label: "a", Role: gates.Baseline}}, gates.Options{})
	for _, d := range []struct {
		kind EventKind
		doc  *gateJSON
	}{
		{EventGates, &gateJSON{Message: "m", Setup: setup}}, {EventArm, &gateJSON{Identity: &chat.Identity{Model: "\xff"}}}, {EventAnswer, &gateJSON{Result: madeUpResult(0, 0, 1, 1)}},
		{EventMeter, &gateJSON{Meter: &gates.Meter{Seconds: 1, Checks: []gates.Check{{Figures: map[string]float64{"x": math.Inf(1)}}}}}}, {EventGatesEnd, &gateJSON{End: &gates.End{State: "finished"}}},
	} {
		e, err := newGateEvent(d.kind, d.doc)
		if err != nil {
			panic(err)
		}
		f(d.kind, e.payload)
		doc, _ := unpack(e.payload)
		f(d.kind, doc)
		f(d.kind, doc[:len(doc)/2])
		f(d.kind, zipped(doc)[:len(doc)/3])
		f(d.kind, bytes.ReplaceAll(doc, []byte("1"), []byte("-1")))
	}
	f(EventGates, []byte(`{"setup":{"arms":[{}],"probes":[{"passes":16777217,"cases":[{}]}]}}`))
	f(EventAnswer, []byte(`{"result":{},"raw":{"/result/answer/replies/0/text":"AA=="}}`))
	f(EventMeter, zipped([]byte(`{}`)))
	f(EventAnswer, nil)
}

// FuzzGatePayload: whatever a file holds is taken or refused; what is taken can be
// asked about.
func FuzzGatePayload(f *testing.F) {
	kinds := []EventKind{EventGates, EventArm, EventAnswer, EventMeter, EventGatesEnd}
	gatePayloads(func(kind EventKind, p []byte) {
		for i, k := range kinds {
			if k == kind {
				f.Add(uint8(i), p)
			}
		}
	})
	setup := gates.NewSetup(gateSuite(), []gates.ArmSpec{{Label: "a", Role: gates.Baseline}}, gates.Options{})
	f.Fuzz(func(t *testing.T, kind uint8, p []byte) {
		var book gateBook
		first := stored{Event: Event{Kind: EventGates}, gate: &gateJSON{Setup: setup}}
		st := &State{}
		if err := book.place(&first); err != nil {
			t.Fatal(err)
		}
		st.takeGates(&first)
		e := stored{Event: Event{Kind: kinds[int(kind)%len(kinds)], Variant: -1, Tensor: -1}, payload: p}
		if decodeEvent(&e) != nil || book.place(&e) != nil {
			return
		}
		st.takeGates(&e)
		for _, g := range st.Gates {
			if done, of := g.Answers(); done > of {
				t.Errorf("%d answers of %d", done, of)
			}
			if g.Setup.Answers() < 1000 {
				_ = g.Analyze()
			}
			_, _ = g.kept()
		}
	})
}

// Events that do not fit their run are left out and said, all others are read.
func TestGateDamage(t *testing.T) {
	whole := gateSession(t)
	result := func(change func(r *gates.Result)) *gateJSON {
		r := madeUpResult(0, 0, 0, 0)
		change(r)
		return &gateJSON{Result: r}
	}
	for what, d := range map[string]struct {
		kind EventKind
		doc  *gateJSON
	}{
		"a run that never began":  {EventAnswer, &gateJSON{Run: 1, Result: madeUpResult(0, 0, 0, 0)}},
		"a run that began twice":  {EventGates, &gateJSON{Setup: gates.NewSetup(gateSuite(), []gates.ArmSpec{{Label: "a"}}, gates.Options{})}},
		"no arm":                  {EventGates, &gateJSON{Run: 1, Setup: &gates.Setup{}}},
		"a negative pass":         {EventGates, &gateJSON{Run: 1, Setup: &gates.Setup{Arms: []gates.Arm{{}}, Probes: []suite.Probe{{Passes: -1}}}}},
		"too many answers":        {EventGates, &gateJSON{Run: 1, Setup: &gates.Setup{Arms: []gates.Arm{{}}, Probes: []suite.Probe{{Passes: maxAnswers, Cases: make([]suite.Case, 2)}}}}},
		"an arm there is not":     {EventAnswer, result(func(r *gates.Result) { r.Arm = 2 })},
		"a probe there is not":    {EventAnswer, result(func(r *gates.Result) { r.Probe = -1 })},
		"a case there is not":     {EventAnswer, result(func(r *gates.Result) { r.Case = 3 })},
		"a pass there is not":     {EventAnswer, result(func(r *gates.Result) { r.Pass = 2 })},
		"a mark nowhere":          {EventAnswer, result(func(r *gates.Result) { r.Verdict.Marks = []grade.Mark{{Turn: 1}} })},
		"a mark the wrong way":    {EventAnswer, result(func(r *gates.Result) { r.Verdict.Marks = []grade.Mark{{At: [2]int{3, 2}}} })},
		"an opened arm elsewhere": {EventArm, &gateJSON{Arm: 2, Identity: &chat.Identity{}}},
		"a meter of nobody":       {EventMeter, &gateJSON{Meter: &gates.Meter{Arm: -1}}},
		"a meter back in time":    {EventMeter, &gateJSON{Meter: &gates.Meter{Seconds: -1}}},
		"an unknown end":          {EventGatesEnd, &gateJSON{End: &gates.End{State: "over"}}},
		"nothing of what it says": {EventMeter, &gateJSON{End: &gates.End{State: "finished"}}},
	} {
		path := copySession(t, whole)
		before := openState(t, path)
		addEvent(t, path, d.kind, d.doc)
		st := openState(t, path)
		last := st.Log[len(st.Log)-1]
		if last.Kind != EventFinding || !strings.Contains(last.Message, "events left out: 1") || len(st.Gates) != 1 || len(st.Gates[0].Results) != len(before.Gates[0].Results) || st.Gates[0].End == nil {
			t.Errorf("%s: %+v", what, last)
		}
		if err := gatesOn(t, openFeed(t, path), newFakeGates(), "bf16", "nvfp4"); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "is damaged") {
			t.Errorf("%s: gone on with: %v", what, err)
		}
	}
	// Without its beginning a run is not there, and the one after it is.
	path := copySession(t, whole)
	if err := gatesOn(t, openFeed(t, path), newFakeGates(), "other"); err != nil {
		t.Fatal(err)
	}
	execSQL(t, path, "update events set crc = crc + 1 where seq = (select min(seq) from events where kind = 'gates')")
	st := openState(t, path)
	if len(st.Gates) != 1 || st.Gates[0].Setup.Arms[0].Label != "other" || len(st.Gates[0].Results) != gateAnswers {
		t.Errorf("%d runs", len(st.Gates))
	}
}

// addEvent appends an event about gates to a session, with a sum that is right.
func addEvent(t *testing.T, path string, kind EventKind, d *gateJSON) {
	t.Helper()
	e, err := newGateEvent(kind, d)
	if err != nil {
		t.Fatal(err)
	}
	seq := openState(t, path).LastSeq + 1
	crc := eventSum(seq, 1<<40, -1, -1, string(kind), e.payload)
	execSQL(t, path, fmt.Sprintf("insert into events values (%d, %d, '%s', -1, -1, x'%x', %d)", seq, int64(1)<<40, kind, e.payload, crc))
}

// A payload that unpacks to more than any run holds is refused before it fills the
// memory.
func TestGateBomb(t *testing.T) {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	zeros := make([]byte, 1<<20)
	for range maxGateJSON>>20 + 1 {
		if _, err := w.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	e := stored{Event: Event{Kind: EventAnswer}, payload: b.Bytes()}
	if err := decodeEvent(&e); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("%v", err)
	}
}

func init() {
	childVerbs["gates"] = func(path string) error { return childGates(path, childPasses, nil) }
	childVerbs["gateshold"] = func(what string) error { // after a number of answers, then the path
		var after int
		if _, err := fmt.Sscanf(what, "%d ", &after); err != nil {
			return err
		}
		_, path, _ := strings.Cut(what, " ")
		n := 0
		return childGates(path, childPasses, func(*gates.Result) {
			if n++; n > after {
				_, _ = os.Stdin.Read(make([]byte, 1)) // until the parent lets go
			}
		})
	}
}

// childGates runs gates of many answers, and prints how many are shown.
func childGates(path string, passes int, each func(*gates.Result)) error {
	f, err := OpenSession(path)
	if err != nil {
		return err
	}
	fake := manyGates(passes)
	fake.spoil = each
	r := fake.on(f, "bf16", "nvfp4")
	ended := make(chan error, 1)
	go func() { ended <- f.(Gater).Gates(context.Background(), r) }()
	st := f.Snapshot()
	for {
		if len(st.Gates) > 0 {
			fmt.Println("done", len(st.Gates[0].Results))
			if st.Gates[0].End != nil {
				break
			}
		}
		select {
		case err := <-ended:
			return err
		default:
		}
		ctx, cancel := context.WithCancel(context.Background())
		b, err := f.Next(ctx, 0)
		cancel()
		if err != nil {
			return err
		}
		st.Apply(b)
	}
	return errors.Join(<-ended, f.Close())
}

const (
	childPasses  = 100
	childAnswers = 4 * childPasses // of each arm
)

// manyGates asks 4 cases so many times.
func manyGates(passes int) *fakeGates {
	f := newFakeGates()
	f.suite.Probes = f.suite.Probes[:1]
	f.suite.Probes[0].Passes, f.suite.Probes[0].Cases = passes, make([]suite.Case, 4)
	return f
}

// TestGatesKilledAndResumed kills the process that runs gates, at several moments,
// and lets another finish: every answer is there once and as it came.
func TestGatesKilledAndResumed(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(4)
	runJob(t, job, path, "f1")
	before := 0
	for i := range 6 {
		const most = 120
		p := startChild(t, fmt.Sprintf("gateshold %d %s", most, path))
		if !p.until(before + 40 + 13*i) {
			t.Fatalf("kill %d: the child ended early", i)
		}
		if i%2 == 1 { // what came is there soon, though nothing follows
			f := openFeed(t, path)
			st := f.Snapshot()
			until(t, f, st, func() bool { return len(st.Gates) == 1 && len(st.Gates[0].Results) == before+most })
		}
		if err := p.kill(); err == nil {
			t.Fatalf("kill %d: the child was not killed", i)
		}
		st := openState(t, path)
		n := 0
		if len(st.Gates) > 0 {
			n = len(st.Gates[0].Results)
			if st.Gates[0].End != nil {
				t.Errorf("kill %d: %+v", i, st.Gates[0].End)
			}
		}
		if n < before {
			t.Fatalf("kill %d: of %d answers %d are left", i, before, n)
		}
		t.Logf("kill %d: %d recorded", i, n)
		before = n
	}
	if before < 360 {
		t.Errorf("%d answers survived", before)
	}
	if out, err := startChild(t, "gates "+path).output(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	st := openState(t, path)
	g := st.Gates[0]
	if len(st.Gates) != 1 || len(g.Results) != 2*childAnswers || g.End == nil || g.End.State != string(RunFinished) {
		t.Fatalf("%d answers, %+v", len(g.Results), g.End)
	}
	rows := 0
	query(t, path, "select count(*) from answers where not replaced union all select count(*) from events where kind = 'answer'", func(row []driver.Value) {
		rows++
		if row[0] != int64(2*childAnswers) {
			t.Errorf("%v answers", row[0])
		}
	})
	if rows != 2 {
		t.Errorf("%d rows", rows)
	}
}

// A reader alongside sees answers as they come, and in the end what the file holds.
func TestGatesAreFollowed(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(4)
	runJob(t, job, path, "f1")
	p := startChild(t, fmt.Sprintf("gateshold %d %s", 120, path))
	if !p.until(100) {
		t.Fatal("the child asks nothing")
	}
	f := openFeed(t, path)
	if f.Mode() != Follow {
		t.Errorf("mode %v", f.Mode())
	}
	st := f.Snapshot()
	until(t, f, st, func() bool { return len(st.Gates) == 1 && len(st.Gates[0].Results) >= 120 })
	if err := f.(Gater).Gates(t.Context(), newFakeGates().on(f, "bf16")); !errors.As(err, new(*BusyError)) {
		t.Errorf("gates in a session that another process writes: %v", err)
	}
	if _, err := p.stdin.Write(make([]byte, 4*childAnswers)); err != nil { // lets it go
		t.Fatal(err)
	}
	until(t, f, st, func() bool { return st.Gates[0].End != nil })
	if out, err := p.output(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	fresh := openState(t, path)
	st.Progress = fresh.Progress
	diffStates(t, fresh, st)
}

// TestFormat5IsRead: a session of before there were gates opens as it is, and the
// first gates bring it to the present format with every record as it was.
func TestFormat5IsRead(t *testing.T) {
	data, err := os.ReadFile("testdata/format5.qscope")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "old.qscope")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	before := openState(t, path)
	digest, err := Digest(t.Context(), path)
	if err != nil || before.Progress.Done != 10 || len(before.Recipes) != 1 || len(before.Yards) != 1 || len(before.Gates) != 0 {
		t.Fatalf("%+v, %v", before.Progress, err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, data) {
		t.Error("opening changes it")
	}
	if err := gatesOn(t, openFeed(t, path), newFakeGates(), "bf16"); err != nil {
		t.Fatal(err)
	}
	st := openState(t, path)
	if len(st.Gates) != 1 || len(st.Gates[0].Results) != gateAnswers {
		t.Errorf("%d runs", len(st.Gates))
	}
	st.Gates, st.Log, st.LastSeq, st.LastUS = nil, st.Log[:len(before.Log)], before.LastSeq, before.LastUS
	diffStates(t, before, st)
	if now, err := Digest(t.Context(), path); err != nil || now != digest {
		t.Errorf("digest %s, before %s: %v", now, digest, err)
	}
	query(t, path, "select user_version || ' ' || (select count(*) from taps) || ' ' || (select count(*) from recipes) || ' ' || (select count(*) from answers) from pragma_user_version", func(row []driver.Value) {
		if got := sqlText(row[0]); got != "7 10 1 8" {
			t.Errorf("format, taps, recipes, answers: %s", got)
		}
	})
}
