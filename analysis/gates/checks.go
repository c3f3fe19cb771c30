package gates

import (
	"fmt"
	"math"
	"slices"
)

// checks are the doubts about the measurement, in the order of CheckIDs and of arms.
// An arm that is not asked yet has none.
func (a *analysis) checks(r *Report) []Check {
	c := &checking{analysis: a, report: r}
	c.nonce()
	c.placebo()
	c.again()
	for arm := range a.Arms {
		if a.meters[arm] == nil && len(a.byArm[arm]) == 0 {
			continue
		}
		c.arm = arm
		c.changed()
		c.ofArm(CheckDeterminism)
		c.model()
		c.empty()
		c.cap()
		c.ofArm(CheckRank)
		c.cached()
		c.speed()
		c.matchedK()
		c.acceptance()
	}
	order := CheckIDs()
	slices.SortStableFunc(c.out, func(x, y Check) int {
		if d := slices.Index(order, x.ID) - slices.Index(order, y.ID); d != 0 {
			return d
		}
		return x.Arm - y.Arm
	})
	return c.out
}

// checking is the checks of a report while they are made.
type checking struct {
	*analysis
	report *Report
	arm    int // that is checked; of the whole run -1 is told
	out    []Check
}

func (c *checking) add(id string, arm int, state CheckState, figures map[string]float64, format string, args ...any) {
	c.out = append(c.out, newCheck(id, arm, state, figures, format, args...))
}

// newCheck leaves out figures that are not there, since checks are written as JSON.
func newCheck(id string, arm int, state CheckState, figures map[string]float64, format string, args ...any) Check {
	for k, v := range figures {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			delete(figures, k)
		}
	}
	return Check{ID: id, Arm: arm, State: state, Message: fmt.Sprintf(format, args...), Figures: figures}
}

// say adds a check of the arm.
func (c *checking) say(id string, state CheckState, figures map[string]float64, format string, args ...any) {
	c.add(id, c.arm, state, figures, format, args...)
}

// asked is a check that was put to the arm itself; one that failed, where there are
// several.
func (c *checking) asked(id string) (found Check, ok bool) {
	if m := c.meters[c.arm]; m != nil {
		for _, k := range m.Checks {
			if k.ID == id && (!ok || k.State == CheckFailed) {
				found, ok = k, true
			}
		}
	}
	return found, ok
}

// ofArm adds a check that was put to the arm itself, and says where it was not.
func (c *checking) ofArm(id string) {
	k, ok := c.asked(id)
	switch {
	case ok:
		c.out = append(c.out, k)
	case c.meters[c.arm] == nil:
		c.say(id, CheckUnknown, nil, "the arm is not through yet")
	default:
		c.say(id, CheckUnknown, nil, "the arm was not asked")
	}
}

// nonce: each timed request had one that no other had.
func (c *checking) nonce() {
	if !c.timed() {
		c.add(CheckNonce, -1, CheckIdle, nil, "no probe is timed")
		return
	}
	seen := map[string]int{}
	requests, without, twice := 0, 0, 0
	for _, of := range c.byArm {
		for _, r := range of {
			if !c.Probes[r.Probe].Timed {
				continue
			}
			n := len(r.Answer.Replies)
			requests += n
			own := noncesOf(r)
			without += max(0, n-len(own))
			for _, v := range own {
				if seen[v]++; seen[v] > 1 {
					twice++
				}
			}
		}
	}
	f := map[string]float64{"requests": float64(requests), "without": float64(without), "twice": float64(twice)}
	switch {
	case requests == 0:
		c.add(CheckNonce, -1, CheckUnknown, f, "no timed request was answered yet")
	case without > 0 || twice > 0:
		c.add(CheckNonce, -1, CheckFailed, f, "of %d timed requests %d had no nonce and %d one that was used before: what they took may be remembered, not computed", requests, without, twice)
	default:
		c.add(CheckNonce, -1, CheckPassed, f, "each of %d timed requests had a nonce of its own", requests)
	}
}

// cached: timed prompts were computed. What answers say goes before what the arm
// showed when it was looked at.
func (c *checking) cached() {
	requests, kept := 0, 0
	for _, r := range c.byArm[c.arm] {
		if !c.Probes[r.Probe].Timed {
			continue
		}
		for i := range r.Answer.Replies {
			requests++
			if p := &r.Answer.Replies[i]; remembered(p.CachedTokens, p.PromptTokens) {
				kept++
			}
		}
	}
	if kept > 0 {
		c.say(CheckCached, CheckFailed, map[string]float64{"requests": float64(requests), "kept": float64(kept)},
			"of %d of %d timed requests the server says that it had kept more than a quarter of the prompt", kept, requests)
		return
	}
	c.ofArm(CheckCached)
}

// empty: outputs have something in them, and not all the same.
func (c *checking) empty() {
	replies, empty, clean := 0, 0, 0
	texts := map[string]bool{}
	questions := map[item]bool{}
	for _, r := range c.byArm[c.arm] {
		if erred(r) {
			continue
		}
		questions[item{c.root(r.Probe), r.Case}] = true
		for i := range r.Answer.Replies {
			p := &r.Answer.Replies[i]
			replies++
			text := p.Text + p.Reasoning
			for _, call := range p.ToolCalls {
				text += "\x00" + call.Name + "\x00" + call.Arguments
			}
			texts[text] = true
			if blank(p) {
				empty++
				if r.Verdict.Passed {
					clean++
				}
			}
		}
	}
	f := map[string]float64{"replies": float64(replies), "empty": float64(empty), "passed": float64(clean), "different": float64(len(texts))}
	switch {
	case replies == 0:
		c.say(CheckEmpty, CheckUnknown, f, "no answer came yet")
	case clean > 0:
		c.say(CheckEmpty, CheckFailed, f, "%d of %d empty replies are in answers that were counted as passed", clean, empty)
	case float64(empty) > worstEmpty*float64(replies):
		c.say(CheckEmpty, CheckFailed, f, "%d of %d replies are empty or white space: it does not answer", empty, replies)
	case len(texts) == 1 && len(questions) >= leastCompared:
		c.say(CheckEmpty, CheckFailed, f, "all %d replies to %d different questions are the same text", replies, len(questions))
	default:
		c.say(CheckEmpty, CheckPassed, f, "%d of %d replies are empty, and none of those passed; %d are different", empty, replies, len(texts))
	}
}

// worstEmpty is the share of empty replies beyond which an arm does not answer.
const worstEmpty = 0.1
