package gates

import (
	"context"

	"quantscope/analysis/gates/chat"
)

// exam puts to an arm the questions that doubt its answers, before it is asked any
// probe. What goes wrong with them makes a check unknown, never passed.
type exam struct {
	*run
	t    chat.Target
	m    *Meter
	form form
}

// all asks them all. Its error is the end of the run.
func (e *exam) all(ctx context.Context) error {
	for _, ask := range []func(context.Context) error{e.print, e.rank, e.cached} {
		if err := ask(ctx); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// once asks within the time that an answer may take. err is of the answer, stop of
// the run.
func (e *exam) once(ctx context.Context, r chat.Request) (reply chat.Reply, err, stop error) {
	if e.o.Pause != nil {
		if stop := e.o.Pause(ctx); stop != nil {
			return reply, nil, stop
		}
	}
	reply, err = within(ctx, e.o.timeout(), e.t, r)
	return reply, err, ctx.Err()
}

// add records a check of the arm.
func (e *exam) add(id string, state CheckState, figures map[string]float64, format string, args ...any) {
	e.m.Checks = append(e.m.Checks, newCheck(id, e.m.Arm, state, figures, format, args...))
}

// after looks, when the arm is through, whether the same one answers as before.
func (e *exam) after(ctx context.Context) {
	id, err := e.t.Identity(ctx)
	if err != nil {
		e.add(CheckModel, CheckUnknown, nil, "who answers could not be asked again at the end: %v", err)
		return
	}
	if what, was, is := changedIdentity(e.m.Identity, id); what != "" {
		e.add(CheckModel, CheckFailed, nil, "the %s changed while it was asked, from %q to %q", what, was, is)
	}
}

// changedIdentity is the first thing in which two identities of one target differ.
func changedIdentity(a, b chat.Identity) (what, was, is string) {
	for _, f := range [][3]string{
		{"model", a.Model, b.Model}, {"engine", a.Engine, b.Engine}, {"version", a.Version, b.Version},
		{"content", a.Content, b.Content}, {"fingerprint", a.Fingerprint, b.Fingerprint},
	} {
		if f[1] != f[2] {
			return f[0], f[1], f[2]
		}
	}
	return "", "", ""
}

// form is how an arm is asked: in a conversation or as text to complete, and
// whether it tells log probabilities.
type form struct{ plain, mute bool }

// request is a greedy question in this form.
func (f form) request(text string, tokens int) chat.Request {
	r := chat.Request{MaxTokens: tokens}
	if f.plain {
		r.Prompt = text
	} else {
		r.Messages = []chat.Message{{Role: chat.User, Content: text}}
	}
	if !f.mute {
		r.Logprobs = 1
	}
	return r
}

// forms are tried in this order: log probabilities tell more than a chat template.
func forms() []form { return []form{{}, {plain: true}, {mute: true}, {plain: true, mute: true}} }
