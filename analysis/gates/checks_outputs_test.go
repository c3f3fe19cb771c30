package gates

import (
	"fmt"
	"strings"
	"testing"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/grade"
	"quantscope/analysis/gates/suite"
)

// truncating always ends at the budget; finish is how it says that it ended.
func truncating(finish string, at func(n int) int) *fake {
	f := honest("base", 0)
	n := 0
	f.answer = func(r chat.Request) chat.Reply {
		n++
		return chat.Reply{Text: "answer to " + last(r), Finish: finish, CompletionTokens: at(n)}
	}
	return f
}

func TestTruncatedCountedAsPassed(t *testing.T) {
	s := asks(12, suite.Probe{})
	wants(t, ran(t, s, arms(false, truncating(chat.FinishLength, func(int) int { return 64 }))), CheckCap, 0, CheckFailed, "12 replies that were cut off")
	wants(t, ran(t, s, arms(false, truncating(chat.FinishStop, func(int) int { return 64 }))), CheckCap, 0, CheckFailed, "12 different replies end exactly at their budget and say that they ended by themselves")
	wants(t, ran(t, s, arms(false, truncating(chat.FinishStop, func(int) int { return 65 }))), CheckCap, 0, CheckFailed, "longer than their budget")
	// Answers of all lengths end at the budget now and then.
	wants(t, ran(t, s, arms(false, truncating(chat.FinishStop, func(n int) int { return 59 + n%6 }))), CheckCap, 0, CheckPassed)
	wants(t, ran(t, s, arms(false, truncating(chat.FinishStop, func(n int) int { return -1 }))), CheckCap, 0, CheckUnknown, "number of tokens is not told")

	long := asks(12, suite.Probe{Set: suite.Settings{MayTruncate: true}})
	wants(t, ran(t, long, arms(false, truncating(chat.FinishLength, func(int) int { return 64 }))), CheckCap, 0, CheckPassed, "12 of 12 replies were cut off")
}

func TestEmptyCountedAsClean(t *testing.T) {
	s := asks(12, suite.Probe{})
	blankly := honest("base", 0)
	blankly.answer = func(r chat.Request) chat.Reply { return chat.Reply{Text: " \n", Finish: chat.FinishStop} }
	wants(t, ran(t, s, arms(false, blankly)), CheckEmpty, 0, CheckFailed, "12 of 12 replies are empty")

	// Nothing is nothing as graders see it: characters without a width, and reasoning.
	for _, text := range []string{"\u200b\u200b", "\u3164", "<think>\nSo it is four.\n</think>\n", "<think>\nSo"} {
		unseen := honest("base", 0)
		unseen.answer = func(r chat.Request) chat.Reply {
			if strings.Contains(last(r), "question 1") { // 1, 10 and 11
				return chat.Reply{Text: text, Finish: chat.FinishStop}
			}
			return chat.Reply{Text: "answer to " + last(r), Finish: chat.FinishStop}
		}
		wants(t, ran(t, s, arms(false, unseen)), CheckEmpty, 0, CheckFailed, "3 of 12 replies are empty")
	}

	// A grader that finds nothing wrong in nothing.
	setup := NewSetup(s, arms(false, blankly), Options{})
	clean := []*Result{{Verdict: grade.Verdict{Passed: true}, Answer: grade.Answer{Replies: []chat.Reply{{Finish: chat.FinishStop}}}}}
	wants(t, Analyze(setup, clean, nil, 0), CheckEmpty, 0, CheckFailed, "counted as passed")

	stuck := honest("base", 0)
	stuck.answer = func(r chat.Request) chat.Reply { return chat.Reply{Text: "I am fine."} }
	wants(t, ran(t, s, arms(false, stuck)), CheckEmpty, 0, CheckFailed, "12 different questions are the same text")

	calls := honest("base", 0)
	calls.answer = func(r chat.Request) chat.Reply {
		return chat.Reply{Finish: chat.FinishTools, ToolCalls: []chat.ToolCall{{Name: "f", Arguments: last(r)}}}
	}
	wants(t, ran(t, s, arms(false, calls)), CheckEmpty, 0, CheckPassed, "12 are different")
}

func TestModel(t *testing.T) {
	s := asks(4, suite.Probe{})
	names := func(name func(n int) string) *fake {
		f := honest("base", 0)
		n := 0
		f.answer = func(r chat.Request) chat.Reply {
			n++
			return chat.Reply{Text: "answer to " + last(r), Model: name(n)}
		}
		return f
	}
	wants(t, ran(t, s, arms(false, names(func(int) string { return "other" }))), CheckModel, 0, CheckFailed, "name other, and base was asked")
	wants(t, ran(t, s, arms(false, names(func(n int) string { return fmt.Sprint("m", n%2) }))), CheckModel, 0, CheckFailed, "2 models")
	silent := honest("", 0)
	wants(t, ran(t, s, arms(false, silent)), CheckModel, 0, CheckUnknown)

	// A client that sees another model's name gives an error in place of the answer.
	odd := honest("base", 0)
	odd.fail = func(_ int, r chat.Request) error {
		if strings.Contains(last(r), "question 1") {
			return &chat.Error{At: "http://there", Kind: chat.Wrong, Reason: "answers are of other, and base was asked"}
		}
		return nil
	}
	wants(t, ran(t, s, arms(false, odd)), CheckModel, 0, CheckFailed, "another model answered: ")

	prints := honest("base", 0)
	n := 0
	prints.answer = func(r chat.Request) chat.Reply {
		n++
		return chat.Reply{Text: "answer to " + last(r), Fingerprint: fmt.Sprint("fp", n/20)}
	}
	wants(t, ran(t, asks(40, suite.Probe{}), arms(false, prints)), CheckModel, 0, CheckFailed, "system fingerprints")

	swapped := honest("base", 0)
	swapped.answer = func(r chat.Request) chat.Reply {
		swapped.mu.Lock()
		defer swapped.mu.Unlock()
		swapped.id.Content = "sha256 of another"
		return chat.Reply{Text: "answer to " + last(r)}
	}
	wants(t, ran(t, s, arms(false, swapped)), CheckModel, 0, CheckFailed, "content changed while it was asked")
}

func TestSpeed(t *testing.T) {
	s := asks(10, suite.Probe{})
	wants(t, ran(t, s, arms(false, honest("base", 0))), CheckSpeed, 0, CheckPassed)
	busy := honest("base", 0)
	busy.spoil = func(c *chat.Counters) { c.Generated *= 2 }
	wants(t, ran(t, s, arms(false, busy)), CheckSpeed, 0, CheckFailed, "somebody else")
	lazy := honest("base", 0)
	lazy.spoil = func(c *chat.Counters) { c.Generated /= 4 }
	wants(t, ran(t, s, arms(false, lazy)), CheckSpeed, 0, CheckFailed, "not made, or were remembered")
	// A tenth more is not the end tokens of answers.
	tenth := honest("base", 0)
	tenth.spoil = func(c *chat.Counters) { c.Generated += c.Generated / 10 }
	wants(t, ran(t, s, arms(false, tenth)), CheckSpeed, 0, CheckFailed, "somebody else")
	dark := honest("base", 0)
	dark.counts = false
	wants(t, ran(t, s, arms(false, dark)), CheckSpeed, 0, CheckUnknown)
	quiet := truncating(chat.FinishStop, func(int) int { return -1 })
	wants(t, ran(t, s, arms(false, quiet)), CheckSpeed, 0, CheckUnknown, "do not tell")
}
