package gates

import (
	"fmt"
	"slices"
	"strings"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/grade"
)

// blank says that a reply has nothing in it that anybody sees.
func blank(p *chat.Reply) bool {
	return len(p.ToolCalls) == 0 && grade.Blank(p.Text)
}

// Bounds of answers that end at their budget and say that they ended by themselves.
const (
	// capPile: so many different texts are more than chance brings to one length.
	capPile = 3
	// capNear: lengths below the budget that show how many chance does bring there.
	capNear = 4
	// capTimes as many as at each of those lengths are a pile.
	capTimes = 3
)

// cap: answers that were cut off are told as such and are no passes.
func (c *checking) cap() {
	var told, counted, silent, over, cut, passed int
	stop, near := map[string]bool{}, map[string]bool{} // texts: the same one comes again in passes and in sibling probes
	for _, r := range c.byArm[c.arm] {
		budget := c.Probes[r.Probe].Set.MaxTokens
		for i := range r.Answer.Replies {
			p := &r.Answer.Replies[i]
			if r.Answer.Error != "" && i == len(r.Answer.Replies)-1 {
				continue // it did not come whole
			}
			told++
			n := p.CompletionTokens
			if n >= 0 {
				counted++
			}
			if p.Finish == "" {
				silent++
			}
			if n > budget {
				over++
			}
			if p.Finish == chat.FinishLength {
				cut++
				if r.Verdict.Passed && !c.Probes[r.Probe].Set.MayTruncate {
					passed++
				}
			}
			if p.Finish == chat.FinishStop && n == budget {
				stop[p.Text] = true
			}
			if p.Finish == chat.FinishStop && n < budget && n >= budget-capNear {
				near[p.Text] = true
			}
		}
	}
	f := map[string]float64{"replies": float64(told), "truncated": float64(cut), "passed": float64(passed), "over": float64(over), "stop_at_budget": float64(len(stop)), "stop_near": float64(len(near))}
	switch {
	case told == 0:
		c.say(CheckCap, CheckUnknown, f, "no answer came yet")
	case passed > 0:
		c.say(CheckCap, CheckFailed, f, "%d replies that were cut off at their budget are in answers that were counted as passed", passed)
	case over > 0:
		c.say(CheckCap, CheckFailed, f, "%d of %d replies are longer than their budget", over, told)
	case len(stop) >= capPile && len(stop)*capNear > capTimes*len(near):
		c.say(CheckCap, CheckFailed, f, "%d different replies end exactly at their budget and say that they ended by themselves, %d at the %d lengths before it: they are cut off and not told as such", len(stop), len(near), capNear)
	case counted < told:
		c.say(CheckCap, CheckUnknown, f, "of %d of %d replies the number of tokens is not told, so whether they were cut off is not seen", told-counted, told)
	case silent > 0:
		c.say(CheckCap, CheckUnknown, f, "how they ended is not told of %d of %d replies", silent, told)
	default:
		c.say(CheckCap, CheckPassed, f, "%d of %d replies were cut off at their budget and told as such; none of those counts as passed unless its probe allows it", cut, told)
	}
}

// model: answers name the model that was asked, and always the same server.
func (c *checking) model() {
	if k, ok := c.asked(CheckModel); ok && k.State == CheckFailed {
		c.out = append(c.out, k)
		return
	}
	names, prints := map[string]bool{}, map[string]bool{}
	for _, r := range c.byArm[c.arm] {
		for i := range r.Answer.Replies {
			if n := r.Answer.Replies[i].Model; n != "" {
				names[n] = true
			}
			if n := r.Answer.Replies[i].Fingerprint; n != "" {
				prints[n] = true
			}
		}
		if r.Answer.Kind == chat.Wrong {
			c.say(CheckModel, CheckFailed, nil, "another model answered: %s", r.Answer.Error)
			return
		}
	}
	m := c.meters[c.arm]
	got := sorted(names)
	switch {
	case len(prints) > 1:
		c.say(CheckModel, CheckFailed, nil, "answers have %d system fingerprints, %s: the server changed while it was asked", len(prints), strings.Join(sorted(prints), ", "))
	case len(names) > 1:
		c.say(CheckModel, CheckFailed, nil, "answers name %d models, %s", len(names), strings.Join(got, ", "))
	case len(names) == 0:
		c.say(CheckModel, CheckUnknown, nil, "answers name no model")
	case m == nil:
		c.say(CheckModel, CheckUnknown, nil, "the arm is not through yet; answers name %s so far", got[0])
	case m.Identity.Model == "":
		c.say(CheckModel, CheckUnknown, nil, "answers name %s, and the server does not say what it serves", got[0])
	case got[0] != m.Identity.Model:
		c.say(CheckModel, CheckFailed, nil, "answers name %s, and %s was asked", got[0], m.Identity.Model)
	default:
		c.say(CheckModel, CheckPassed, nil, "all answers name %s, the model that was asked", got[0])
	}
}

func sorted(set map[string]bool) []string {
	out := make([]string, 0, len(set))
	for k := range set {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// speed: tokens by the server's counters and by the answers are the same.
func (c *checking) speed() {
	m := c.meters[c.arm]
	switch {
	case m == nil:
		c.say(CheckSpeed, CheckUnknown, nil, "the arm is not through yet")
		return
	case m.Counted == nil || m.Counted.Generated < 0:
		c.say(CheckSpeed, CheckUnknown, nil, "the server does not count tokens, so its answers' own counts stand alone")
		return
	}
	replies, silent, failed := 0, 0, 0
	for _, r := range c.byArm[c.arm] {
		if erred(r) {
			failed++
		}
		for i := range r.Answer.Replies {
			replies++
			if r.Answer.Replies[i].CompletionTokens < 0 {
				silent++
			}
		}
	}
	// A server may or may not count the end token of each answer.
	bound := max(speedShare*float64(m.Tokens), float64(replies))
	apart := float64(m.Counted.Generated - m.Tokens)
	f := map[string]float64{"counted": float64(m.Counted.Generated), "answers": float64(m.Tokens), "bound": bound}
	text := fmt.Sprintf("the server counted %d tokens, the answers %d", m.Counted.Generated, m.Tokens)
	switch {
	case silent > 0:
		c.say(CheckSpeed, CheckUnknown, f, "%s, and %d of %d replies do not tell", text, silent, replies)
	case apart >= -bound && apart <= bound:
		c.say(CheckSpeed, CheckPassed, f, "%s, within %.0f", text, bound)
	case apart > 0 && failed > 0:
		c.say(CheckSpeed, CheckUnknown, f, "%s, and %d answers did not come whole, whose tokens it may have counted", text, failed)
	case apart > 0:
		c.say(CheckSpeed, CheckFailed, f, "%s, more than %.0f apart: somebody else was served as well, or answers tell too few", text, bound)
	default:
		c.say(CheckSpeed, CheckFailed, f, "%s, more than %.0f apart: answers tell tokens that were not made, or were remembered", text, bound)
	}
}

// speedShare is how far tokens counted and told may be apart.
const speedShare = 0.02
