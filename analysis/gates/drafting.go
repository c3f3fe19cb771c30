package gates

import (
	"context"
	"errors"

	"quantscope/analysis/gates/chat"
)

// drafting asks for an answer of which it is told what drafting brought: by the answer
// itself, or by the target's counters, looked at before and after it. Counters that
// counted other tokens than the answer's are no telling of it, which the run is warned
// of.
func (a *asking) drafting(ctx context.Context, r chat.Request) (chat.Reply, error) {
	before, countErr := a.t.Counters(ctx)
	reply, err := a.once(ctx, r)
	if err != nil || reply.Drafts != nil {
		return reply, err
	}
	label := a.setup.Arms[a.arm].Label
	if countErr == nil {
		var after chat.Counters
		if after, countErr = a.t.Counters(ctx); countErr == nil {
			d := after.Since(before)
			if why := foreign(&d, &reply); why != "" {
				a.warn("%s: what was drafted of an answer is not known: %s", label, why)
				return reply, nil
			}
			reply.Drafts = drafts(&d)
			return reply, nil
		}
	}
	if !errors.Is(countErr, chat.ErrNoCounters) {
		a.warn("%s: what was drafted of an answer is not known: counters: %v", label, countErr)
	}
	return reply, nil
}

// foreign says why counters over an answer are not of it alone; "" where they are.
func foreign(d *chat.Counters, reply *chat.Reply) string {
	switch {
	case reply.CompletionTokens < 0:
		return "the answer does not tell how many tokens it has"
	case d.Generated < 0:
		return "the server does not count the tokens that it makes"
	}
	// A server may or may not count the first or the end token.
	apart := float64(d.Generated - int64(reply.CompletionTokens))
	if bound := max(speedShare*float64(reply.CompletionTokens), 2); apart > bound || apart < -bound {
		return "its counters counted other tokens meanwhile than the answer's: somebody else asks it too"
	}
	return ""
}

// drafts are counters over an answer as what drafting brought; nil where it drafts and
// does not tell all of it.
func drafts(d *chat.Counters) *chat.Drafts {
	out := &chat.Drafts{K: d.Speculative, Drafts: d.Drafts, Drafted: d.Drafted, Accepted: d.Accepted}
	switch {
	case d.Speculative == 0:
		out.Drafts, out.Drafted, out.Accepted = 0, 0, 0
	case d.Drafts < 0 || d.Drafted < 0 || d.Accepted < 0:
		return nil
	}
	return out
}
