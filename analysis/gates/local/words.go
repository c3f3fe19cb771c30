package local

import (
	"strings"
	"unicode/utf8"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/template"
)

// words turns the tokens of an answer into text as they come. A character that is
// not whole yet is held back, and so is what may become a stop string or, where
// tools were given, a tool call.
type words struct {
	e     *Engine
	ids   []int32 // shown ones: some of the prompt's before them, so that spaces come out right
	from  int     // where the window of ids begins that is decoded
	read  int     // ids of it whose text is known
	text  string
	sent  int // bytes of text that were handed out
	stops []string
	tools bool

	stopped bool // a stop string ended it
}

// window is how many tokens of the prompt text is decoded with, as vLLM does.
const window = 5

func (e *Engine) newWords(prompt []int32, r *chat.Request) words {
	w := words{e: e, stops: r.Stop, tools: len(r.Tools) > 0 && e.style != template.NoCalls}
	for _, id := range prompt[max(len(prompt)-window, 0):] {
		if e.shown(id) {
			w.ids = append(w.ids, id)
		}
	}
	w.read = len(w.ids)
	if strings.HasSuffix(e.tok.Decode(w.ids, false), string(utf8.RuneError)) {
		w.ids, w.read = nil, 0 // a character that the prompt leaves open is not the answer's
	}
	return w
}

// shown says whether a token is part of a text: special ones are not, unless tool
// calls are written with them.
func (e *Engine) shown(id int32) bool { return !e.tok.Special(id) || e.marks[id] }

// add takes a token and says whether a stop string ended the text.
func (w *words) add(id int32) (stopped bool) {
	if !w.e.shown(id) {
		return false
	}
	w.ids = append(w.ids, id)
	return w.decode(false)
}

// decode adds what is known now to the text: with all, characters that will not
// become whole as well.
func (w *words) decode(all bool) (stopped bool) {
	before := w.e.tok.Decode(w.ids[w.from:w.read], false)
	now := w.e.tok.Decode(w.ids[w.from:], false)
	if !all && strings.HasSuffix(now, string(utf8.RuneError)) || len(now) <= len(before) || !strings.HasPrefix(now, before) {
		return false
	}
	was := len(w.text)
	w.text += now[len(before):]
	w.from, w.read = w.read, len(w.ids)
	return w.cut(was)
}

// cut ends the text before the first stop string that what is new completed.
func (w *words) cut(was int) bool {
	at := -1
	for _, s := range w.stops {
		start := max(was-len(s)+1, 0)
		if i := strings.Index(w.text[start:], s); i >= 0 && (at < 0 || start+i < at) {
			at = start + i
		}
	}
	if at < 0 {
		return false
	}
	w.text = w.text[:at]
	w.sent, w.stopped = min(w.sent, at), true
	return true
}

// next is text that can be handed out.
func (w *words) next() string {
	safe := len(w.text)
	for _, s := range w.stops {
		safe = min(safe, holds(w.text, s))
	}
	if w.tools {
		mark := beginMark(w.e.style)
		if mark == "" {
			return ""
		}
		if i := strings.Index(w.text, mark); i >= 0 {
			safe = min(safe, i)
		}
		safe = min(safe, holds(w.text, mark))
	}
	if safe <= w.sent {
		return ""
	}
	s := w.text[w.sent:safe]
	w.sent = safe
	return s
}

// holds is where the end of a text begins that may become s, its length where none
// does.
func holds(text, s string) int {
	for n := min(len(s)-1, len(text)); n > 0; n-- {
		if strings.HasSuffix(text, s[:n]) {
			return len(text) - n
		}
	}
	return len(text)
}

// beginMark is what a call begins with, "" where it may begin with anything.
func beginMark(s template.Style) string {
	switch s {
	case template.Hermes, template.GLM, template.QwenCode:
		return "<tool_call>"
	case template.Mistral:
		return "[TOOL_CALLS]"
	}
	return ""
}
