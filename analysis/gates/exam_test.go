package gates

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/suite"
)

// remembers is a server with a prefix cache: a prompt that came before is answered in
// a tenth of the time.
func remembers(f *fake, says bool) *fake {
	seen := map[string]bool{}
	n := 0
	f.answer = func(r chat.Request) chat.Reply {
		n++
		took := 40*time.Millisecond + time.Duration(n%5)*time.Millisecond
		reply := chat.Reply{Text: "answer to " + last(r), First: took}
		prompt := textOf(r)
		if seen[prompt] {
			reply.First = took / 10
			if says {
				reply.CachedTokens = len(prompt)
			}
		}
		seen[prompt] = true
		return reply
	}
	return f
}

func TestCachedTimings(t *testing.T) {
	s := asks(6, suite.Probe{Timed: true})
	wants(t, ran(t, s, arms(false, remembers(honest("base", 0), false))), CheckCached, 0, CheckFailed, "remembers prompts and does not say so")
	wants(t, ran(t, s, arms(false, remembers(honest("base", 0), true))), CheckCached, 0, CheckPassed, "says so")

	// It says so by its counters.
	counting := remembers(honest("base", 0), false)
	answer := counting.answer
	counting.counters.CacheQueries, counting.counters.CacheHits = 0, 0
	counting.answer = func(r chat.Request) chat.Reply {
		reply := answer(r)
		if reply.First < 20*time.Millisecond {
			counting.mu.Lock()
			counting.counters.CacheHits += 500
			counting.mu.Unlock()
		}
		return reply
	}
	wants(t, ran(t, s, arms(false, counting)), CheckCached, 0, CheckPassed, "says so")

	// It takes prompts for known though their nonce is new.
	blind := honest("base", 0)
	blind.answer = func(r chat.Request) chat.Reply {
		return chat.Reply{Text: "answer to " + last(r), First: time.Millisecond, CachedTokens: len(textOf(r)) - 16}
	}
	wants(t, ran(t, s, arms(false, blind)), CheckCached, 0, CheckFailed)

	// Timed answers themselves say that they were kept.
	late := honest("base", 0)
	late.answer = func(r chat.Request) chat.Reply {
		reply := chat.Reply{Text: "answer to " + last(r)}
		if strings.Contains(last(r), "question") {
			reply.CachedTokens, reply.PromptTokens = 1000, 0
		}
		return reply
	}
	wants(t, ran(t, s, arms(false, late)), CheckCached, 0, CheckFailed, "6 of 6 timed requests")

	// Times that only scatter are no cache.
	scatter := honest("base", 0)
	n := 0
	scatter.answer = func(r chat.Request) chat.Reply {
		n++
		return chat.Reply{Text: "answer to " + last(r), First: time.Duration(20+n*7%30) * time.Millisecond}
	}
	wants(t, ran(t, s, arms(false, scatter)), CheckCached, 0, CheckPassed, "does not remember")

	// Neither times nor counts are told.
	dark := honest("base", 0)
	dark.answer = func(r chat.Request) chat.Reply { return chat.Reply{Text: "answer to " + last(r), First: -1} }
	wants(t, ran(t, s, arms(false, dark)), CheckCached, 0, CheckUnknown)
	// Tokens a second are told without timed probes too.
	wants(t, ran(t, asks(6, suite.Probe{}), arms(false, remembers(honest("base", 0), false))), CheckCached, 0, CheckFailed)

	// A context that is too short for the prompt at first, and then not.
	tight := remembers(honest("base", 0), false)
	tight.fail = func(_ int, r chat.Request) error {
		if len(strings.Fields(textOf(r))) > 100 {
			return &chat.Error{At: "fake", Kind: chat.Refused, Reason: "too long"}
		}
		return nil
	}
	wants(t, ran(t, s, arms(false, tight)), CheckCached, 0, CheckFailed, "does not say so")
	tight.fail = func(_ int, r chat.Request) error {
		if len(strings.Fields(textOf(r))) > 20 {
			return &chat.Error{At: "fake", Kind: chat.Refused, Reason: "too long"}
		}
		return nil
	}
	wants(t, ran(t, s, arms(false, tight)), CheckCached, 0, CheckUnknown, "too long")
}

// A repeat that waits for others on a busy machine hides no cache, and times that
// scatter make none.
func TestBusyMachines(t *testing.T) {
	of := func(v ...int) (d []time.Duration) {
		for _, x := range v {
			d = append(d, time.Duration(x)*100*time.Microsecond)
		}
		return d
	}
	for _, c := range []struct {
		fresh, again []time.Duration
		want         CheckState
	}{
		{of(1500, 1400, 1600, 1550, 1500), of(10, 13, 12, 4000, 11), CheckFailed},
		{of(200, 210, 190, 205, 200), of(100, 102, 99, 98, 101), CheckFailed},
		{of(200, 600, 200, 550, 210), of(220, 210, 580, 200, 230), CheckPassed},
		{of(200, 210, 190, 205, 200), of(180, 185, 184, 181, 186), CheckPassed},
		{of(600, 610, 190, 605, 600), of(200, 210, 800, 190, 205), CheckPassed},
	} {
		l := look{fresh: c.fresh, again: c.again}
		if state, text, _ := l.judge(); state != c.want {
			t.Errorf("%v, again %v: %s: %s", c.fresh, c.again, state, text)
		}
	}
}

func TestWrongLogprobs(t *testing.T) {
	s := asks(2, suite.Probe{})
	shifted := honest("base", 3)
	shifted.shiftGen = true
	wants(t, ran(t, s, arms(false, shifted)), CheckRank, 0, CheckFailed, "shifted by one")

	random := honest("base", 3)
	random.madeUp = func(i int) float64 { return -float64(i%9) - 0.5 }
	wants(t, ran(t, s, arms(false, random)), CheckRank, 0, CheckFailed, "not those of the tokens")

	// A place that tells of other tokens than its own is no silence.
	others := honest("base", 0)
	others.fail = func(_ int, r chat.Request) error {
		if r.PromptLogprobs > 0 {
			return &chat.Error{At: "fake", Kind: chat.Malformed, Reason: "the answer", Err: fmt.Errorf("%w: nothing of the true token 80", chat.ErrOtherTokens)}
		}
		return nil
	}
	wants(t, ran(t, s, arms(false, others)), CheckRank, 0, CheckFailed, "nothing of the true token 80")

	far := honest("base", 0)
	far.rank = 300
	wants(t, ran(t, s, arms(false, far)), CheckRank, 0, CheckFailed, "median rank 300")
	far.rank = 17
	wants(t, ran(t, s, arms(false, far)), CheckRank, 0, CheckFailed, "median rank 17 on a well-known text, beyond 16")
	far.rank = 16
	wants(t, ran(t, s, arms(false, far)), CheckRank, 0, CheckPassed)

	heavy := honest("base", 0)
	heavy.top = func(t chat.Token) []chat.Alt {
		return []chat.Alt{{ID: t.ID, Text: t.Text, Logprob: t.Logprob}, {ID: 7, Text: "\a", Logprob: -0.001}}
	}
	wants(t, ran(t, s, arms(false, heavy)), CheckRank, 0, CheckFailed, "sum to more than 1")

	mute := honest("base", 0)
	mute.logprob = nil
	wants(t, ran(t, s, arms(false, mute)), CheckRank, 0, CheckUnknown, "not told")
}

func TestDeterminism(t *testing.T) {
	s := asks(2, suite.Probe{})
	wants(t, ran(t, s, arms(false, honest("base", 0))), CheckDeterminism, 0, CheckPassed, "same answer", "0 nats")
	r := ran(t, s, arms(false, jitters(0.02)))
	wants(t, r, CheckDeterminism, 0, CheckPassed, "same answer")
	if d := checkOf(t, r, CheckDeterminism, 0).Figures["logprob_difference"]; !(d > 0 && d <= 0.02) {
		t.Errorf("log probabilities that move by up to 0.02 move by %v", d)
	}

	other := honest("base", 0)
	other.answer = varying()
	wants(t, ran(t, s, arms(false, other)), CheckDeterminism, 0, CheckFailed, "1 of 4", "rounding does not explain")
	other.logprob = func(id int32, before []int32) float64 { return -1 - 1e-3*hashed("base")(id, before) }
	wants(t, ran(t, s, arms(false, other)), CheckDeterminism, 0, CheckPassed, "where rounding decides")
	other.logprob = nil
	wants(t, ran(t, s, arms(false, other)), CheckDeterminism, 0, CheckUnknown, "cannot be seen")

	zero := honest("base", 0)
	zero.logprob = func(int32, []int32) float64 { return 0 }
	wants(t, ran(t, s, arms(false, zero)), CheckDeterminism, 0, CheckFailed, "exactly 0")
	stuck := honest("base", 0)
	stuck.answer = func(chat.Request) chat.Reply { return chat.Reply{Text: "fine."} }
	stuck.logprob = func(id int32, _ []int32) float64 { return -float64(id%5) / 10 }
	wants(t, ran(t, s, arms(false, stuck)), CheckDeterminism, 0, CheckFailed, "to the last digit")
}

// jitters is a baseline whose log probabilities move from one asking to the next.
func jitters(by float64) *fake {
	f := honest("base", 0)
	n := 0
	f.logprob = func(id int32, before []int32) float64 {
		n++
		return hashed("base")(id, before) - by*float64(n%7)/7
	}
	return f
}

// varying answers something else each time.
func varying() func(chat.Request) chat.Reply {
	n := 0
	return func(r chat.Request) chat.Reply {
		n++
		return chat.Reply{Text: fmt.Sprintf("answer to %s for the %d. time", last(r), n)}
	}
}

// A head that a template puts before every conversation is not the prompt.
func TestRemembered(t *testing.T) {
	for _, c := range []struct {
		cached, prompt int
		want           bool
	}{{-1, 100, false}, {0, 100, false}, {cachedHead, 70, false}, {cachedHead + 1, 70, true}, {cachedHead + 1, 1000, false}, {251, 1000, true}, {250, 1000, false}, {cachedHead + 1, -1, true}} {
		if got := remembered(c.cached, c.prompt); got != c.want {
			t.Errorf("%d of %d: %v", c.cached, c.prompt, got)
		}
	}
}
