package gates

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/grade"
	"quantscope/analysis/gates/suite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRunAsksAll(t *testing.T) {
	base, cand := good("base", nil), good("cand", func(q string) bool { return q < "question 5" })
	s := asks(10, suite.Probe{Set: suite.Settings{Concurrency: 4}}, suite.Probe{Passes: 2, Set: suite.Settings{Seed: 7}})
	var order []string
	for i, f := range []*fake{base, cand} {
		f.closed = func() { order = append(order, fmt.Sprint("close ", i)) }
	}
	specs := arms(true, base, cand)
	for i := range specs {
		open := specs[i].Open
		specs[i].Open = func(ctx context.Context) (chat.Target, error) {
			order = append(order, "open "+specs[i].Label)
			return open(ctx)
		}
	}
	var begun *Setup
	var came []Key
	var last Progress
	r, err := runs(t.Context(), s, specs, Options{Begin: func(s *Setup) { begun = s },
		Answered: func(r *Result) { came = append(came, r.Key()) }, Progress: func(p Progress) { last = p }})
	if err != nil {
		t.Fatal(err)
	}
	if row := r.Row(0, 1); row.Passed != 5 || row.Of != 10 || row.All != 10 || row.OK {
		t.Errorf("candidate: %+v", row)
	}
	if row := r.Row(1, 0); row.Passed != 20 || !row.OK {
		t.Errorf("baseline: %+v", row)
	}
	if begun == nil || begun.Answers() != 90 || len(came) != 90 || last.Done != 90 || last.Of != 90 || last.Tokens == 0 {
		t.Errorf("%d results came, last progress %+v", len(came), last)
	}
	if want := "open arm0, close 0, open arm1, close 1, open again, close 0"; strings.Join(order, ", ") != want {
		t.Errorf("arms: %v, want %v: one open at a time, the baseline again last", order, want)
	}
	if !slices.IsSortedFunc(came, func(a, b Key) int { return a.Arm*2 + a.Probe - b.Arm*2 - b.Probe }) {
		t.Error("arms and probes do not come in order")
	}
	if base.most > 4 || base.most < 1 {
		t.Errorf("%d requests at once, 4 are allowed", base.most)
	}
	seeds := map[uint64]int{}
	for _, q := range base.requests {
		if strings.Contains(textOf(q), "probe1") {
			seeds[*q.Seed]++
		}
	}
	if !reflect.DeepEqual(seeds, map[uint64]int{7: 20, 8: 20}) {
		t.Errorf("seeds of two passes, asked twice: %v", seeds)
	}
}

// As many at once as a probe says, and the same report however many.
func TestConcurrencyChangesNothing(t *testing.T) {
	var reports []*Report
	for _, n := range []int{1, 3, 16} {
		base, cand := good("base", nil), good("cand", func(q string) bool { return strings.HasPrefix(q, "question 1") })
		r, err := runs(t.Context(), asks(20, suite.Probe{Passes: 2, Set: suite.Settings{Concurrency: n}}), arms(true, base, cand), Options{})
		if err != nil {
			t.Fatal(err)
		}
		r.Setup.Probes[0].Set.Concurrency = 0
		for _, m := range r.Meters {
			m.Seconds, m.Counted.At = 0, time.Time{}
		}
		reports = append(reports, r)
	}
	for _, r := range reports[1:] {
		if !reflect.DeepEqual(stripped(r), stripped(reports[0])) {
			t.Errorf("reports differ:\n%+v\n%+v", stripped(r), stripped(reports[0]))
		}
	}
}

// stripped is a report as text, NaN and all.
func stripped(r *Report) string {
	return fmt.Sprintf("%+v %+v %+v %+v", r.Rows, r.Pairs, r.Checks, r.Fails)
}

func TestManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := good("base", nil)
		slow := f.answer
		f.answer = func(r chat.Request) chat.Reply { time.Sleep(time.Second); return slow(r) }
		r, err := runs(t.Context(), asks(32, suite.Probe{Set: suite.Settings{Concurrency: 8}}), arms(false, f), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if f.most != 8 {
			t.Errorf("%d at once, want 8", f.most)
		}
		if got := r.Meters[0].Seconds; got != 4 {
			t.Errorf("32 answers of a second, 8 at once, took %v s by the clock", got)
		}
	})
}

// Tokens a second, and what is left, are of the answers of late.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := good("base", nil)
		f.answer = func(r chat.Request) chat.Reply {
			time.Sleep(2 * time.Second)
			return chat.Reply{Text: "answer to " + last(r), CompletionTokens: 30}
		}
		var at []Progress
		o := Options{Progress: func(p Progress) { at = append(at, p) }}
		if _, err := runs(t.Context(), asks(10, suite.Probe{}), arms(false, f), o); err != nil {
			t.Fatal(err)
		}
		p := at[len(at)-6]
		if p.Done != 5 || p.Of != 10 || p.PerSecond != 15 || p.ETA != 10*time.Second || p.Tokens != 150 {
			t.Errorf("half way: %+v", p)
		}
	})
}

func TestConversation(t *testing.T) {
	f := good("base", nil)
	n := 0
	f.answer = func(r chat.Request) chat.Reply { n++; return chat.Reply{Text: fmt.Sprintf("reply %d", n)} }
	s := asks(1, suite.Probe{Set: suite.Settings{System: "be kind", Stop: []string{"!"}, Template: map[string]any{"x": 1}}})
	s.Probes[0].Cases[0].Turns = []suite.Turn{{User: "one"}, {User: "two"}, {User: "three"}}
	s.Probes[0].Cases[0].Want = nil
	var got *Result
	if _, err := runs(t.Context(), s, arms(false, f), Options{Answered: func(r *Result) { got = r }}); err != nil {
		t.Fatal(err)
	}
	if len(got.Answer.Replies) != 3 {
		t.Fatalf("%d replies of three turns", len(got.Answer.Replies))
	}
	q := f.requests[len(f.requests)-1]
	first := got.Answer.Replies[0].Text
	want := []chat.Message{{Role: "system", Content: "be kind"}, {Role: "user", Content: "one"}, {Role: "assistant", Content: first},
		{Role: "user", Content: "two"}, {Role: "assistant", Content: got.Answer.Replies[1].Text}, {Role: "user", Content: "three"}}
	if !reflect.DeepEqual(q.Messages, want) {
		t.Errorf("the last turn went out as %+v", q.Messages)
	}
	if q.MaxTokens != 64 || q.Stop[0] != "!" || q.TemplateArgs["x"] != 1 || q.Stream {
		t.Errorf("settings went out as %+v", q)
	}
}

// Counters that began anew while an arm was asked, as of a server that was started
// again, tell nothing of it, and are left out with a word.
func TestCountersBeginAnew(t *testing.T) {
	f := good("base", nil)
	f.counts = true
	n := 0
	f.spoil = func(c *chat.Counters) {
		if n++; n%2 == 1 { // before: a server that made more than it says after
			c.Generated += 1 << 20
		}
	}
	var warned []string
	r, err := runs(t.Context(), asks(3, suite.Probe{}), arms(false, f), Options{Warn: func(s string) { warned = append(warned, s) }})
	if err != nil || n != 4 || len(r.Meters) != 1 || r.Meters[0].Counted != nil {
		t.Fatalf("told %d times: %+v, %v", n, r.Meters, err)
	}
	if len(warned) != 1 || !strings.Contains(warned[0], "began anew") {
		t.Errorf("%q", warned)
	}
	wants(t, r, CheckSpeed, 0, CheckUnknown, "does not count")
}

// A call of an earlier turn is in the history as the model made it.
func TestConversationWithCalls(t *testing.T) {
	f := good("base", nil)
	call := []chat.ToolCall{{Name: "look", Arguments: `{"at":"서울"}`}}
	f.answer = func(chat.Request) chat.Reply { return chat.Reply{Finish: chat.FinishTools, ToolCalls: call} }
	s := asks(1, suite.Probe{})
	s.Probes[0].Cases[0].Turns = []suite.Turn{{User: "one"}, {User: "two"}}
	s.Probes[0].Cases[0].Want = nil
	if _, err := runs(t.Context(), s, arms(false, f), Options{}); err != nil {
		t.Fatal(err)
	}
	want := []chat.Message{{Role: "user", Content: "one"}, {Role: "assistant", ToolCalls: call}, {Role: "user", Content: "two"}}
	if q := f.requests[len(f.requests)-1]; !reflect.DeepEqual(q.Messages, want) {
		t.Errorf("the last turn went out as %+v", q.Messages)
	}
}

func TestAgainstBaseline(t *testing.T) {
	base, cand := good("base", nil), good("cand", nil)
	base.answer = func(r chat.Request) chat.Reply { return chat.Reply{Text: "of the baseline: " + last(r)} }
	cand.answer = func(r chat.Request) chat.Reply {
		if strings.Contains(last(r), "question 2 ") {
			return chat.Reply{Text: "something else"}
		}
		return base.answer(r)
	}
	r, err := runs(t.Context(), asks(5, suite.Probe{Against: true}), arms(false, base, cand), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := r.Row(0, 0).Passed, r.Row(0, 1).Passed; a != 5 || b != 4 {
		t.Errorf("baseline %d of 5 against itself, candidate %d", a, b)
	}
}

// Errors of answers are results, with what came until then.
func TestErrorsAreResults(t *testing.T) {
	f := good("base", nil)
	f.fail = func(n int, r chat.Request) error {
		switch {
		case strings.HasPrefix(last(r), "question 1 "):
			return &chat.Error{At: "fake", Kind: chat.Status, Code: 500, Reason: "no"}
		case strings.HasPrefix(last(r), "question 2 "):
			return errors.New("odd")
		}
		return nil
	}
	r, err := runs(t.Context(), asks(4, suite.Probe{}), arms(false, f), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if row := r.Row(0, 0); row.Erred != 2 || row.Passed != 2 || row.Of != 4 {
		t.Errorf("%+v", row)
	}
	var errs []Fail
	for _, f := range r.Fails {
		if f.Kind == FailError {
			errs = append(errs, f)
		}
	}
	if len(errs) != 1 || !strings.Contains(errs[0].Message, "2 of 4 answers of arm0 did not come: fake: no") {
		t.Errorf("fails: %+v", r.Fails)
	}
}

func TestTooSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := good("base", nil)
		var got *Result
		s := asks(1, suite.Probe{})
		slow := &slowTarget{f}
		specs := []ArmSpec{{Label: "slow", Role: Baseline, Open: func(context.Context) (chat.Target, error) { return slow, nil }}}
		if _, err := runs(t.Context(), s, specs, Options{Timeout: time.Minute, Answered: func(r *Result) { got = r }}); err != nil {
			t.Fatal(err)
		}
		if got.Answer.Kind != chat.Timeout || got.Verdict.Fault != grade.Erred || !strings.Contains(got.Answer.Error, "1m0s") {
			t.Errorf("%+v", got)
		}
	})
}

// slowTarget never answers.
type slowTarget struct{ *fake }

func (s *slowTarget) Ask(ctx context.Context, _ chat.Request, _ func(chat.Delta)) (chat.Reply, error) {
	<-ctx.Done()
	return chat.Reply{Text: "half"}, ctx.Err()
}

func TestCancelIsAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	slow := &slowTarget{good("base", nil)}
	specs := []ArmSpec{{Label: "slow", Role: Baseline, Open: func(context.Context) (chat.Target, error) { return slow, nil }}}
	go cancel()
	r, err := runs(ctx, asks(1, suite.Probe{}), specs, Options{Answered: func(*Result) { t.Error("a result came") }})
	if !errors.Is(err, context.Canceled) || r == nil || r.Row(0, 0).Of != 0 {
		t.Errorf("%v, %+v", err, r)
	}
}

func TestPause(t *testing.T) {
	f := good("base", nil)
	held := 0
	_, err := runs(t.Context(), asks(3, suite.Probe{Set: suite.Settings{Concurrency: 2}}), arms(false, f), Options{Pause: func(context.Context) error { held++; return nil }, Timeout: time.Minute})
	if err != nil || held != f.asked {
		t.Errorf("%v: %d requests, %d of them waited for the person", err, f.asked, held)
	}
	stop := errors.New("enough")
	var mu sync.Mutex
	n := 0
	_, err = runs(t.Context(), asks(30, suite.Probe{Set: suite.Settings{Concurrency: 2}}), arms(false, f), Options{Pause: func(context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if n++; n > 20 {
			return stop
		}
		return nil
	}})
	if !errors.Is(err, stop) {
		t.Errorf("a pause that ends the run: %v", err)
	}
}

func TestAbsentAtItsTurn(t *testing.T) {
	gone := &chat.Error{At: "http://there", Kind: chat.Absent, Reason: "connection refused"}
	specs := arms(false, good("base", nil), good("cand", nil))
	specs[1].Open = func(context.Context) (chat.Target, error) { return nil, gone }
	r, err := runs(t.Context(), asks(2, suite.Probe{}), specs, Options{})
	if !errors.Is(err, gone) || err.Error() != "arm1: http://there: connection refused" {
		t.Errorf("%v", err)
	}
	if r == nil || r.Row(0, 0).Of != 2 {
		t.Errorf("what the baseline answered is lost: %+v", r)
	}
}

func TestTimedRequestsHaveNonces(t *testing.T) {
	f := good("base", nil)
	s := asks(6, suite.Probe{Timed: true, Passes: 2, Set: suite.Settings{Concurrency: 3, System: "be kind"}})
	s.Probes[0].Cases[0].Turns = append(s.Probes[0].Cases[0].Turns, suite.Turn{User: "and then?"})
	var results []*Result
	if _, err := runs(t.Context(), s, arms(true, f), Options{Answered: func(r *Result) { results = append(results, r) }}); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range results {
		own := noncesOf(r)
		if len(own) != len(r.Answer.Replies) {
			t.Errorf("%d nonces of %d requests", len(own), len(r.Answer.Replies))
		}
		for _, n := range own {
			if seen[n] || len(n) != 16 {
				t.Errorf("nonce %q is used twice, or short", n)
			}
			seen[n] = true
			if !slices.ContainsFunc(f.requests, func(q chat.Request) bool {
				return q.Stream && len(q.Messages) > 1 && q.Messages[0].Content == n+"\nbe kind"
			}) {
				t.Errorf("nonce %s is not before the text of a streamed request", n)
			}
		}
	}
	if len(seen) != 28 {
		t.Errorf("%d nonces of 28 requests", len(seen))
	}
}

func TestSetupIsRefused(t *testing.T) {
	f := good("base", nil)
	for want, specs := range map[string][]ArmSpec{
		"there is no arm to ask":            {},
		`two arms have the label "a"`:       {{Label: "a", Role: Baseline, Open: opened(f)}, {Label: "a", Role: Candidate, Open: opened(f)}},
		`arm 0, "a", cannot be a candidate`: {{Label: "a", Role: Candidate, Open: opened(f)}},
		`arm 1, "b", cannot be a baseline`:  {{Label: "a", Role: Baseline, Open: opened(f)}, {Label: "b", Role: Baseline, Open: opened(f)}},
		`arm 1, "b", cannot be a placebo`:   {{Label: "a", Role: Baseline, Open: opened(f)}, {Label: "b", Role: Placebo, Open: opened(f)}, {Label: "c", Role: Candidate, Open: opened(f)}},
	} {
		_, err := runs(t.Context(), asks(1, suite.Probe{}), specs, Options{})
		if !errors.Is(err, ErrSetup) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := runs(t.Context(), &suite.Suite{Name: "none"}, arms(false, f), Options{}); !errors.Is(err, ErrSetup) {
		t.Errorf("a suite without probes: %v", err)
	}
	for _, k := range []Key{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}, {-1, 0, 0, 0}} {
		if _, err := runs(t.Context(), asks(1, suite.Probe{}), arms(false, f), Options{Prior: []*Result{{Arm: k.Arm, Probe: k.Probe, Case: k.Case, Pass: k.Pass}}}); !errors.Is(err, ErrSetup) {
			t.Errorf("an earlier result %v: %v", k, err)
		}
	}
}
