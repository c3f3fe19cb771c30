package local

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"time"

	"quantscope/analysis/gates/chat"
)

// handOut gives what is new of an answer to whoever asked.
func (e *Engine) handOut(a *answer) {
	d := chat.Delta{Text: a.said.next()}
	d.Tokens = a.newTokens()
	if d.Text != "" || len(d.Tokens) > 0 {
		a.out.put(d)
	}
}

// newTokens are those that were not handed out.
func (a *answer) newTokens() []chat.Token {
	t := a.tokens[a.told:]
	a.told = len(a.tokens)
	return t
}

// finish hands out the rest of an answer, and the whole of it.
func (e *Engine) finish(a *answer) {
	w := &a.said
	if !w.stopped && w.decode(true) {
		a.finish = chat.FinishStop
	}
	r := &chat.Reply{
		Text: w.text, Finish: a.finish, PromptTokens: len(a.prompt), CompletionTokens: len(a.made), CachedTokens: a.cached,
		Tokens: a.tokens, Prompt: a.asked, Model: e.c.Label, First: a.first, Total: time.Since(a.begun),
	}
	if e.module != nil {
		d := a.drafted // a copy, so that the reply does not hold the answer's caches
		d.K = e.o.Speculate
		r.Drafts = &d
	}
	if e.o.Fault == CountEmpty {
		r.Text, w.text, w.sent = "", "", 0
	}
	if w.tools {
		r.Text, r.ToolCalls = e.style.CallsOf(w.text, a.r.Tools)
		for i := range r.ToolCalls {
			if r.ToolCalls[i].ID == "" {
				r.ToolCalls[i].ID = callID(a.prompt, i)
			}
		}
		if len(r.ToolCalls) > 0 && a.finish == chat.FinishStop {
			r.Finish = chat.FinishTools
		}
	}
	d := chat.Delta{ToolCalls: r.ToolCalls, Tokens: a.newTokens()}
	if sent := w.text[:w.sent]; strings.HasPrefix(r.Text, sent) {
		d.Text = r.Text[len(sent):]
	}
	if d.Text != "" || len(d.Tokens) > 0 || len(d.ToolCalls) > 0 {
		a.out.put(d)
	}
	a.out.end(r, nil)
}

// callID names a call of an answer: the same answer to the same prompt has the same.
func callID(prompt []int32, i int) string {
	h := sha256.New()
	var b [4]byte
	for _, id := range prompt {
		binary.LittleEndian.PutUint32(b[:], uint32(id))
		h.Write(b[:])
	}
	fmt.Fprint(h, i)
	return "call_" + hex.EncodeToString(h.Sum(nil))[:24]
}

func finite(v float32) bool { return !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) }
