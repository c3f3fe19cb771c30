package grade

import (
	"strings"
	"testing"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/suite"
)

// An answer of all tokens passes whatever it says; one of fewer does not, and what was
// drafted is told and not graded.
func TestAcceptance(t *testing.T) {
	p := probe("acceptance", nil)
	p.Measure, p.Set.MayTruncate = true, true
	c := &suite.Case{ID: "0", Prompt: "x"}
	for name, k := range map[string]struct {
		reply chat.Reply
		fault Fault
		says  string
	}{
		"all":         {chat.Reply{CompletionTokens: 1000, Drafts: &chat.Drafts{K: 1, Drafts: 500, Drafted: 500, Accepted: 400}}, "", "400 of 500 drafted ones accepted"},
		"not told":    {chat.Reply{CompletionTokens: 1000}, "", "not told"},
		"none":        {chat.Reply{CompletionTokens: 1000, Drafts: &chat.Drafts{}}, "", "none of them drafted"},
		"early":       {chat.Reply{CompletionTokens: 999, Drafts: &chat.Drafts{K: 1, Drafts: 500, Drafted: 500, Accepted: 400}}, WrongAnswer, "999 of 1000 tokens"},
		"not counted": {chat.Reply{CompletionTokens: -1}, WrongAnswer, "how many tokens it has is not told"},
	} {
		k.reply.Text, k.reply.Finish = "w\x01rds \ufffd words", chat.FinishLength
		if v := Grade(p, c, &Answer{Replies: []chat.Reply{k.reply}}, nil); v.Fault != k.fault || v.Passed != (k.fault == "") || !strings.Contains(v.Reason, k.says) {
			t.Errorf("%s: %+v, want %q and %q", name, v, k.fault, k.says)
		}
	}
	if v := Grade(p, c, &Answer{Replies: []chat.Reply{{Text: " ", Finish: chat.FinishLength, CompletionTokens: 1000}}}, nil); v.Fault != Empty {
		t.Errorf("an empty answer: %+v", v)
	}
}
