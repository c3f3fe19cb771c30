package gates

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/suite"
)

// checkOf is a check of a report.
func checkOf(t *testing.T, r *Report, id string, arm int) Check {
	t.Helper()
	for _, c := range r.Checks {
		if c.ID == id && c.Arm == arm {
			return c
		}
	}
	t.Fatalf("there is no check %s of arm %d: %+v", id, arm, r.Checks)
	return Check{}
}

// wants a check in a state, with words in its message.
func wants(t *testing.T, r *Report, id string, arm int, state CheckState, words ...string) {
	t.Helper()
	c := checkOf(t, r, id, arm)
	if c.State != state {
		t.Errorf("%s of arm %d is %s, want %s: %s", id, arm, c.State, state, c.Message)
	}
	for _, w := range words {
		if !strings.Contains(c.Message, w) {
			t.Errorf("%s of arm %d says %q, without %q", id, arm, c.Message, w)
		}
	}
	failed := false
	for _, f := range r.Fails {
		failed = failed || f.Kind == FailCheck && f.Arm == arm && strings.HasPrefix(f.Message, id+": ")
	}
	if failed != (state == CheckFailed) {
		t.Errorf("%s of arm %d is %s, and among the reasons that shut the gates: %v", id, arm, c.State, failed)
	}
}

func ran(t *testing.T, s *suite.Suite, specs []ArmSpec) *Report {
	t.Helper()
	r, err := runs(t.Context(), s, specs, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// An honest measurement fails no check, and says of each what it found.
func TestHonest(t *testing.T) {
	s := asks(20, suite.Probe{Timed: true, Set: suite.Settings{Concurrency: 4, MaxTokens: 100}})
	r := ran(t, s, arms(true, honest("base", 3), honest("cand", 3)))
	for _, c := range r.Checks {
		if c.State != CheckPassed {
			t.Errorf("%s of arm %d is %s: %s", c.ID, c.Arm, c.State, c.Message)
		}
		if c.Message == "" || strings.Contains(c.Message, "NaN") || strings.Contains(c.Message, "%!") {
			t.Errorf("%s of arm %d says %q", c.ID, c.Arm, c.Message)
		}
	}
	if len(r.Fails) > 0 {
		t.Errorf("the gates are shut: %+v", r.Fails)
	}
	for _, id := range CheckIDs() {
		found := false
		for _, c := range r.Checks {
			found = found || c.ID == id
		}
		if !found {
			t.Errorf("there is no check %s", id)
		}
	}
	if _, err := json.Marshal(r.Checks); err != nil {
		t.Error(err)
	}
}

// honest is a good server of its own weights that drafts k tokens.
func honest(model string, k int) *fake {
	f := good(model, nil)
	f.id.Speculative = k
	f.id.Content = "sha256 of " + model
	f.drafts = k
	return f
}

func TestUnchangedBaseline(t *testing.T) {
	s := asks(8, suite.Probe{})
	base := honest("base", 0)
	same := honest("base", 0)
	same.id.Content, same.id.Model = "", "renamed"
	same.id.Spec = "another"
	wants(t, ran(t, s, arms(true, base, same)), CheckChanged, 1, CheckFailed, "did not land", "to the last digit", "8 of 8 answers")

	same.id.Content = "sha256 of base"
	wants(t, ran(t, s, arms(true, base, same)), CheckChanged, 1, CheckFailed, "the weights are the baseline's")

	same.id.Speculative, same.drafts = 4, 4
	wants(t, ran(t, s, arms(true, base, same)), CheckChanged, 1, CheckIdle, "on purpose", "4 instead of 0 drafted tokens")

	// Nothing but texts: it cannot be told.
	mute := honest("base", 0)
	mute.logprob, mute.id.Content = nil, ""
	wants(t, ran(t, s, arms(true, mute, mute)), CheckChanged, 1, CheckUnknown, "not told")

	// One token of one answer is another's: it is another model.
	other := honest("base", 0)
	other.id.Content = ""
	other.answer = func(r chat.Request) chat.Reply {
		text := "answer to " + last(r)
		if strings.HasPrefix(last(r), "question 3") {
			text += "."
		}
		return chat.Reply{Text: text}
	}
	wants(t, ran(t, s, arms(true, base, other)), CheckChanged, 1, CheckPassed, "but only 7 of 8")
	wants(t, ran(t, s, arms(false, base, other)), CheckChanged, 1, CheckFailed, "did not land") // the baseline's own spread is not known

	// Log probabilities move by less than the baseline's do from one asking to the next.
	shaky, near := jitters(0.02), honest("base", 0)
	near.logprob = func(id int32, before []int32) float64 { return hashed("base")(id, before) - 0.008 }
	near.id.Content = ""
	wants(t, ran(t, s, arms(true, shaky, near)), CheckChanged, 1, CheckUnknown, "whether the change landed is not seen")
	near.logprob = func(id int32, before []int32) float64 { return hashed("base")(id, before) - 0.2 }
	wants(t, ran(t, s, arms(true, shaky, near)), CheckChanged, 1, CheckPassed, "nats from its own")

	// Other texts to the fixed questions, from the baseline as well.
	odd := honest("base", 0)
	odd.answer = varying()
	wants(t, ran(t, s, arms(true, odd, near)), CheckChanged, 1, CheckUnknown, "neither are the baseline's own")
}

func TestPlaceboAndAgain(t *testing.T) {
	s := asks(40, suite.Probe{})
	base, cand := honest("base", 0), honest("cand", 0)
	r := ran(t, s, arms(false, base, cand))
	wants(t, r, CheckPlacebo, -1, CheckUnknown, "no placebo")
	wants(t, r, CheckAgain, -1, CheckUnknown, "not measured again")

	// The baseline is worse the second time, always the same way.
	second := map[string]int{}
	base.answer = func(r chat.Request) chat.Reply {
		if second[last(r)]++; second[last(r)] > 1 && strings.HasPrefix(last(r), "question 1") {
			return chat.Reply{Text: "tired of " + last(r)}
		}
		return chat.Reply{Text: "answer to " + last(r)}
	}
	r = ran(t, s, arms(true, base, cand))
	wants(t, r, CheckAgain, -1, CheckFailed, "passed 40, and 29 when it was asked again, of 40", "drifts")
	wants(t, r, CheckPlacebo, -1, CheckFailed, "11 of 40 verdicts")

	// It flips both ways: noise, no drift.
	flips := honest("base", 0)
	asked := map[string]int{}
	flips.answer = func(r chat.Request) chat.Reply {
		q := last(r)
		asked[q]++
		n := 0
		fmt.Sscanf(q, "question %d", &n)
		if n < 6 && asked[q] == n%2+1 {
			return chat.Reply{Text: "no idea of " + q}
		}
		return chat.Reply{Text: "answer to " + q}
	}
	r = ran(t, s, arms(true, flips, cand))
	wants(t, r, CheckAgain, -1, CheckPassed, "passed 37, and 37")
	wants(t, r, CheckPlacebo, -1, CheckPassed, "6 of 40 verdicts (7.1 to 29.1 %)")

	// Another server stands where the baseline stood.
	specs := arms(true, honest("base", 0), cand)
	moved := honest("base", 0)
	moved.id.Content = "sha256 of another"
	specs[2].Open = opened(moved)
	wants(t, ran(t, s, specs), CheckAgain, -1, CheckFailed, "content", "sha256 of another")
}

// Half of a run says so, and fails nothing yet.
func TestHalfOfARun(t *testing.T) {
	s := asks(10, suite.Probe{})
	var results []*Result
	whole, err := runs(t.Context(), s, arms(true, honest("base", 0), honest("cand", 0)), Options{Answered: func(r *Result) { results = append(results, r) }})
	if err != nil {
		t.Fatal(err)
	}
	r := Analyze(whole.Setup, results[:25], whole.Meters[:2], 0)
	wants(t, r, CheckPlacebo, -1, CheckUnknown, "5 of 10")
	wants(t, r, CheckAgain, -1, CheckUnknown, "5 of 10")
	wants(t, r, CheckDeterminism, 2, CheckUnknown, "not through yet")
	r = Analyze(whole.Setup, results[:5], nil, 0)
	for _, c := range r.Checks {
		if c.State == CheckPassed && c.ID != CheckEmpty && c.ID != CheckCap {
			t.Errorf("%s of arm %d has passed before the arm was through: %s", c.ID, c.Arm, c.Message)
		}
		if c.Arm > 0 {
			t.Errorf("%s of arm %d, which was not asked yet", c.ID, c.Arm)
		}
	}
	if len(r.Fails) != 0 {
		t.Errorf("half of a run has failed: %+v", r.Fails)
	}
	if r = Analyze(whole.Setup, nil, nil, 0); len(r.Fails) != 0 || len(r.Rows) != 3 || r.Rows[0].OK || r.Rows[0].Low != 0 || r.Rows[0].High != 1 {
		t.Errorf("a run without answers: %+v", r)
	}
}

func TestNonces(t *testing.T) {
	s := asks(4, suite.Probe{Timed: true})
	var results []*Result
	r, err := runs(t.Context(), s, arms(false, honest("base", 0)), Options{Answered: func(r *Result) { results = append(results, r) }})
	if err != nil {
		t.Fatal(err)
	}
	wants(t, r, CheckNonce, -1, CheckPassed, "each of 4")
	results[2].Nonce = results[1].Nonce
	wants(t, Analyze(r.Setup, results, r.Meters, 0), CheckNonce, -1, CheckFailed, "0 had no nonce and 1 one that was used before")
	results[2].Nonce = ""
	wants(t, Analyze(r.Setup, results, r.Meters, 0), CheckNonce, -1, CheckFailed, "1 had no nonce")
	wants(t, ran(t, asks(4, suite.Probe{}), arms(false, honest("base", 0))), CheckNonce, -1, CheckIdle)
}

func TestMatchedK(t *testing.T) {
	s := asks(4, suite.Probe{})
	wants(t, ran(t, s, arms(false, honest("base", 2), honest("cand", 4))), CheckMatchedK, 1, CheckFailed, "4 tokens", "2 by the baseline")
	wants(t, ran(t, s, arms(false, honest("base", 0), honest("cand", 4))), CheckMatchedK, 1, CheckFailed)
	wants(t, ran(t, s, arms(false, honest("base", 3), honest("cand", 3))), CheckMatchedK, 1, CheckPassed)
	wants(t, ran(t, s, arms(false, honest("base", 0), honest("cand", 0))), CheckMatchedK, 1, CheckIdle)
	dark := honest("cand", -1)
	dark.counts = false
	wants(t, ran(t, s, arms(false, honest("base", 3), dark)), CheckMatchedK, 1, CheckUnknown, "untold here, 3 by the baseline")
}

func TestAcceptance(t *testing.T) {
	s := asks(4, suite.Probe{})
	r := ran(t, s, arms(false, honest("base", 3)))
	wants(t, r, CheckAcceptance, 0, CheckPassed, "50.0 % were accepted, 2.50 tokens a step", "tokens/s")
	if sp, ok := r.Meters[0].Speculation(); !ok || sp.Acceptance != 0.5 || sp.Length != 2.5 || !(sp.Rate > 0) {
		t.Errorf("%+v, %v", sp, ok)
	}
	wants(t, ran(t, s, arms(false, honest("base", 0))), CheckAcceptance, 0, CheckIdle)
	for what, spoil := range map[string]func(*chat.Counters){
		"the number of drafts": func(c *chat.Counters) { c.Drafts = -1 },
		"accepted tokens":      func(c *chat.Counters) { c.Accepted, c.ByPosition = -1, nil },
		"drafted tokens":       func(c *chat.Counters) { c.Drafted = -1 },
	} {
		f := honest("base", 3)
		f.spoil = spoil
		r := ran(t, s, arms(false, f))
		wants(t, r, CheckAcceptance, 0, CheckUnknown, "not shown", what)
		if _, ok := r.Meters[0].Speculation(); ok {
			t.Errorf("without %s acceptance is shown", what)
		}
	}
	for what, spoil := range map[string]func(*chat.Counters){
		"are accepted of":   func(c *chat.Counters) { c.Accepted, c.ByPosition = c.Drafted*2, nil },
		"are drafted in":    func(c *chat.Counters) { c.Drafted, c.ByPosition = c.Drafted*2, nil },
		"and 12 by place":   func(c *chat.Counters) { c.Accepted -= c.Accepted / 3 },
		"at the one before": func(c *chat.Counters) { x := c.Accepted / 3; c.ByPosition = []int64{0, x, 2 * x} },
	} {
		f := honest("base", 3)
		f.spoil = spoil
		wants(t, ran(t, s, arms(false, f)), CheckAcceptance, 0, CheckFailed, what)
	}
}

func TestFiguresAreNumbers(t *testing.T) {
	c := newCheck(CheckRank, 0, CheckUnknown, map[string]float64{"a": math.NaN(), "b": math.Inf(1), "c": 1}, "x")
	if len(c.Figures) != 1 || c.Figures["c"] != 1 {
		t.Errorf("%v", c.Figures)
	}
}
