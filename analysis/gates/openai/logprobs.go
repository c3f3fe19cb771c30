package openai

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"quantscope/analysis/gates/chat"
)

// least is the lowest log probability that is kept: servers write it, or less, for a
// probability of zero, and JSON has no infinity.
const least = -9999

// told reads log probabilities of one of the forms that servers have: of chat
// completions ({content: [{token, logprob, bytes, top_logprobs}]}, which llama.cpp
// has everywhere and with ids), and of text completions ({tokens, token_logprobs,
// top_logprobs}).
func (g *gathering) told(n node) ([]chat.Token, error) {
	switch {
	case n.kind != object:
		return nil, nil
	case n.get("content").kind == list:
		return chatForm(n.get("content").list)
	case n.get("tokens").kind == list:
		return textForm(n)
	}
	return nil, nil
}

func chatForm(entries []node) ([]chat.Token, error) {
	var out []chat.Token
	for i, e := range entries {
		if e.kind != object {
			return nil, fmt.Errorf("token %d is no object", i)
		}
		t := token(e)
		tops := e.get("top_logprobs")
		if tops.kind == list {
			for _, a := range tops.list {
				if alt := token(a); alt.Known {
					t.Top = append(t.Top, chat.Alt{ID: alt.ID, Text: alt.Text, Logprob: alt.Logprob})
				}
			}
		}
		out = append(out, t)
	}
	return out, nil
}

func token(e node) chat.Token {
	t := chat.Token{ID: -1, Text: e.get("token").str()}
	asID(&t.ID, &t.Text)
	if b, ok := raw(e.get("bytes")); ok && (t.ID < 0 || !strings.HasPrefix(b, idPrefix)) {
		t.Text = b
	}
	if id, ok := id(e.get("id")); ok {
		t.ID = id
	}
	t.Logprob, t.Known = logprob(e.get("logprob"))
	return t
}

// raw is a text that is given as a list of bytes.
func raw(n node) (string, bool) {
	if n.kind != list {
		return "", false
	}
	b := make([]byte, len(n.list))
	for i, v := range n.list {
		c := v.integer()
		if c < 0 || c > 255 {
			return "", false
		}
		b[i] = byte(c)
	}
	return string(b), true
}

func id(n node) (int32, bool) {
	v := n.integer()
	return int32(v), n.kind == number && v >= 0 && v <= math.MaxInt32
}

// idPrefix is what vLLM writes before an id in place of a token's text.
const idPrefix = "token_id:"

// asID takes the id out of a text that stands for one.
func asID(to *int32, s *string) {
	if rest, ok := strings.CutPrefix(*s, idPrefix); ok {
		if v, err := strconv.ParseInt(rest, 10, 32); err == nil && v >= 0 {
			*to, *s = int32(v), ""
		}
	}
}

func logprob(n node) (float64, bool) {
	v := n.float()
	if math.IsNaN(v) || v > 0 && math.IsInf(v, 0) {
		return 0, false
	}
	return max(v, least), true
}

func textForm(n node) ([]chat.Token, error) {
	texts, probs, tops := n.get("tokens").list, n.get("token_logprobs"), n.get("top_logprobs")
	if probs.kind != list || len(probs.list) != len(texts) {
		return nil, fmt.Errorf("%d tokens and %d log probabilities", len(texts), len(probs.list))
	}
	if tops.kind == list && len(tops.list) != len(texts) {
		return nil, fmt.Errorf("%d tokens and %d lists of the likeliest", len(texts), len(tops.list))
	}
	out := make([]chat.Token, len(texts))
	for i := range texts {
		t := chat.Token{ID: -1, Text: texts[i].str()}
		asID(&t.ID, &t.Text)
		t.Logprob, t.Known = logprob(probs.list[i])
		if tops.kind == list {
			top := tops.list[i]
			for j, k := range top.keys {
				a := chat.Alt{ID: -1, Text: k}
				asID(&a.ID, &a.Text)
				var ok bool
				if a.Logprob, ok = logprob(top.list[j]); ok {
					t.Top = append(t.Top, a)
				}
			}
		}
		out[i] = t
	}
	return out, nil
}

// own sorts the likeliest of a token, keeps as many as were asked for, and finds the
// token's rank among them where the server did not say it.
func own(t *chat.Token, top int) {
	slices.SortStableFunc(t.Top, func(a, b chat.Alt) int {
		switch {
		case a.Logprob > b.Logprob:
			return -1
		case a.Logprob < b.Logprob:
			return 1
		}
		return 0
	})
	if t.Known && t.Rank == 0 && len(t.Top) > 0 {
		above := 0
		for above < len(t.Top) && t.Top[above].Logprob > t.Logprob {
			above++
		}
		if above < min(len(t.Top), max(top, 1)) {
			t.Rank = above + 1
		}
	}
	if len(t.Top) > top {
		t.Top = t.Top[:top]
	}
	if t.ID < 0 {
		return
	}
	for i := range t.Top {
		if a := &t.Top[i]; a.ID < 0 && a.Text == t.Text && a.Logprob == t.Logprob {
			a.ID = t.ID
		}
	}
}

// promptTokens takes vLLM's prompt_logprobs: for each token of the prompt but the
// first an object from ids to {logprob, rank, decoded_token}, the true one among
// them, and first.
func (g *gathering) promptTokens(c, n node) error {
	if g.ptop == 0 || g.a.echo {
		return nil
	}
	field := func(name string) node {
		if f := c.get(name); f.kind != absent && f.kind != null {
			return f
		}
		return n.get(name)
	}
	ps := field("prompt_logprobs")
	if ps.kind != list {
		return errors.New("no prompt_logprobs, which were asked for")
	}
	ids, err := idList(field("prompt_token_ids"))
	if err != nil {
		return fmt.Errorf("prompt_token_ids: %w", err)
	}
	if ids == nil {
		ids = g.a.ids
	}
	if ids != nil && len(ids) != len(ps.list) {
		return fmt.Errorf("%d tokens in the prompt and %d prompt_logprobs", len(ids), len(ps.list))
	}
	g.r.Prompt = make([]chat.Token, len(ps.list))
	for i, p := range ps.list {
		t := &g.r.Prompt[i]
		t.ID = -1
		if ids != nil {
			t.ID = ids[i]
		}
		if err := place(t, p); err != nil {
			return fmt.Errorf("prompt_logprobs %d: %w", i, err)
		}
		own(t, g.ptop)
	}
	return nil
}

// place reads what is told of one place of a prompt.
func place(t *chat.Token, p node) error {
	if p.kind == null {
		return nil
	}
	if p.kind != object {
		return errors.New("no object")
	}
	for j, k := range p.keys {
		v, err := strconv.ParseInt(k, 10, 32)
		if err != nil || v < 0 {
			return fmt.Errorf("%q is no token's id", line(k))
		}
		e := p.list[j]
		lp, ok := logprob(e.get("logprob"))
		if t.ID < 0 && j == 0 {
			t.ID = int32(v)
		}
		if int32(v) == t.ID {
			t.Text, t.Logprob, t.Known = e.get("decoded_token").str(), lp, ok
			if r := e.get("rank").integer(); r > 0 && r <= math.MaxInt32 {
				t.Rank = int(r)
			}
		}
		if ok {
			t.Top = append(t.Top, chat.Alt{ID: int32(v), Text: e.get("decoded_token").str(), Logprob: lp})
		}
	}
	if !t.Known {
		return fmt.Errorf("%w: nothing of the true token %d", chat.ErrOtherTokens, t.ID)
	}
	return nil
}

func idList(n node) ([]int32, error) {
	if n.kind != list {
		return nil, nil
	}
	out := make([]int32, len(n.list))
	for i, v := range n.list {
		var ok bool
		if out[i], ok = id(v); !ok {
			return nil, fmt.Errorf("%d is no token's id", i)
		}
	}
	return out, nil
}
