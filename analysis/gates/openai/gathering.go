package openai

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"quantscope/analysis/gates/chat"
)

// gathering puts an answer together from its pieces, or from the one that it is.
type gathering struct {
	a    *asked
	top  int // likeliest that were asked for of each token made
	ptop int // likewise of the prompt
	each func(chat.Delta)
	now  func() time.Duration

	r      chat.Reply
	text   joined
	reason joined
	calls  calls
	events int
	chosen bool // a choice came
	echoed bool // the prompt's tokens came as an echo
}

func newGathering(a *asked, r chat.Request, each func(chat.Delta), now func() time.Duration) *gathering {
	return &gathering{
		a: a, top: r.Logprobs, ptop: r.PromptLogprobs, each: each, now: now,
		r: chat.Reply{PromptTokens: -1, CompletionTokens: -1, CachedTokens: -1},
	}
}

func (g *gathering) finished() bool { return g.r.Finish != "" }

// finish ends an answer that is whole.
func (g *gathering) finish() { g.tell(chat.Delta{ToolCalls: g.calls.end()}) }

// cut ends an answer that is not: a call that was begun and not ended is kept as it
// is, and nobody is told of it as of a whole one.
func (g *gathering) cut() { g.calls.end() }

func (g *gathering) tell(d chat.Delta) {
	if g.each != nil && (d.Text != "" || d.Reasoning != "" || len(d.ToolCalls) > 0 || len(d.Tokens) > 0) {
		g.each(d)
	}
}

// reply is what was gathered.
func (g *gathering) reply() chat.Reply {
	r := g.r
	r.Text, r.Reasoning, r.ToolCalls = string(g.text.b), string(g.reason.b), g.calls.made
	if g.a.drop || g.a.echo && g.a.body["max_tokens"] == 0 {
		r.Text, r.Reasoning, r.ToolCalls, r.Tokens, r.Finish, r.CompletionTokens = "", "", nil, nil, "", 0
	}
	r.Invalid = invalid(r.Text) + invalid(r.Reasoning)
	for _, c := range r.ToolCalls {
		r.Invalid += invalid(c.Name) + invalid(c.Arguments)
	}
	return r
}

// take takes a whole answer, or an event of a stream.
func (g *gathering) take(n node, whole bool) error {
	g.events++
	if m := n.get("model").str(); m != "" {
		g.r.Model = m
	}
	if f := n.get("system_fingerprint").str(); f != "" {
		g.r.Fingerprint = f
	}
	g.usage(n.get("usage"))
	choices := n.get("choices")
	if choices.kind != list {
		if whole {
			return errors.New("no choice in it")
		}
		return nil
	}
	for _, c := range choices.list {
		if i := c.get("index"); i.kind == number && i.integer() != 0 {
			continue
		}
		if err := g.choice(c, n, whole); err != nil {
			return err
		}
		g.chosen = true
	}
	if whole && !g.chosen {
		return errors.New("no choice in it")
	}
	return nil
}

func (g *gathering) usage(u node) {
	if u.kind != object {
		return
	}
	set := func(to *int, n node) {
		if v := n.integer(); v >= 0 && v <= 1<<31-1 {
			*to = int(v)
		}
	}
	set(&g.r.PromptTokens, u.get("prompt_tokens"))
	set(&g.r.CompletionTokens, u.get("completion_tokens"))
	set(&g.r.CachedTokens, u.path("prompt_tokens_details", "cached_tokens"))
}

func (g *gathering) choice(c, n node, whole bool) error {
	m := c.get("message")
	if m.kind != object {
		m = c.get("delta")
	}
	plain := c.get("text")
	if whole && m.kind != object && plain.kind != text {
		return errors.New("an empty choice: neither a message nor a text")
	}
	if c.kind != object {
		return errors.New("a choice that is no object")
	}
	var d chat.Delta
	d.Text = content(m.get("content"))
	if plain.kind == text {
		d.Text = plain.text
	}
	for _, name := range []string{"reasoning_content", "reasoning"} {
		if d.Reasoning == "" {
			d.Reasoning = content(m.get(name))
		}
	}
	d.ToolCalls = g.calls.take(m.get("tool_calls"))
	if f := m.get("function_call"); f.kind == object {
		d.ToolCalls = append(d.ToolCalls, g.calls.old(f)...)
	}
	if err := g.tokens(&d, c, n); err != nil {
		return err
	}
	if f := c.get("finish_reason").str(); f != "" {
		g.r.Finish = ending(f)
	}
	// A token that is part of a character comes as an empty text; an empty text beside
	// a role, or a reason to end, is none.
	some := (m.get("content").kind == text && m.get("role").kind == absent || plain.kind == text) && c.get("finish_reason").str() == ""
	if g.r.First == 0 && !whole && (some || d.Text != "" || d.Reasoning != "" || len(d.Tokens) > 0 || g.calls.begun()) {
		g.r.First = g.now()
	}
	g.text.add(d.Text)
	g.reason.add(d.Reasoning)
	g.tell(d)
	return nil
}

// ending is a reason to end by the name that most servers use.
func ending(f string) string {
	switch f {
	case "function_call":
		return chat.FinishTools
	case "max_tokens", "model_length":
		return chat.FinishLength
	case "eos", "eos_token", "stop_sequence", "end_turn":
		return chat.FinishStop
	}
	return f
}

// content is a text, or the texts of a list of parts.
func content(n node) string {
	if n.kind != list {
		return n.str()
	}
	var b strings.Builder
	for _, p := range n.list {
		b.WriteString(p.str() + p.get("text").str())
	}
	return b.String()
}

// tokens takes the log probabilities of a choice, and its ids.
func (g *gathering) tokens(d *chat.Delta, c, n node) error {
	made, err := g.told(c.get("logprobs"))
	if err != nil {
		return fmt.Errorf("logprobs: %w", err)
	}
	ids, err := idList(c.get("token_ids"))
	if err != nil {
		return fmt.Errorf("token_ids: %w", err)
	}
	if g.a.echo && !g.echoed && made != nil {
		made = g.split(made, c)
	}
	switch {
	case ids == nil || g.a.echo:
	case made == nil && g.top > 0:
		for _, id := range ids {
			made = append(made, chat.Token{ID: id})
		}
	case len(ids) == len(made):
		for i := range made {
			made[i].ID = ids[i]
		}
	}
	for i := range made {
		own(&made[i], g.top)
	}
	d.Tokens = made
	g.r.Tokens = append(g.r.Tokens, made...)
	return g.promptTokens(c, n)
}

// split takes the prompt's tokens from the front of an echo.
func (g *gathering) split(ts []chat.Token, c node) []chat.Token {
	g.echoed = true
	made := 0
	if v, ok := g.a.body["max_tokens"].(int); ok && v > 0 {
		made = v
		if g.r.CompletionTokens >= 0 {
			made = g.r.CompletionTokens
		}
	}
	at := max(0, len(ts)-made)
	if g.r.PromptTokens >= 0 {
		at = min(len(ts), g.r.PromptTokens)
	}
	g.r.Prompt = slices.Clone(ts[:at])
	for i := range g.r.Prompt {
		own(&g.r.Prompt[i], g.ptop)
	}
	return ts[at:]
}
