package grade

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/suite"
)

// TestCommon: what holds whatever the grader.
func TestCommon(t *testing.T) {
	w := &suite.Want{Text: "4"}
	cut := chat.Reply{Text: "4", Finish: chat.FinishLength, CompletionTokens: 1000}
	for _, c := range []struct {
		name   string
		answer *Answer
		may    bool
		fault  Fault
		says   string
	}{
		{"no answer", nil, false, Erred, "no answer"},
		{"an error", &Answer{Error: "http://x: too\nslow", Kind: chat.Timeout}, false, Erred, "http://x: too slow"},
		{"an error after text", &Answer{Replies: []chat.Reply{{Text: "4"}}, Error: "cut"}, false, Erred, "cut"},
		{"no reply", &Answer{}, false, Erred, "0 of 1"},
		{"empty", answer(""), false, Empty, "empty"},
		{"white", answer(" \n\t"), false, Empty, "empty"},
		{"zero width", answer("\u200b\u2060\ufeff"), false, Empty, "empty"},
		{"reasoning beside", &Answer{Replies: []chat.Reply{{Reasoning: "2+2", Finish: chat.FinishStop}}}, false, Empty, "reasoning"},
		{"reasoning at the cap", &Answer{Replies: []chat.Reply{{Reasoning: "2+2", Finish: chat.FinishLength}}}, true, Empty, "budget of 1000"},
		{"reasoning in the text at the cap", &Answer{Replies: []chat.Reply{{Text: "<think>4", Finish: chat.FinishLength}}}, true, Empty, "budget of 1000"},
		{"cut", &Answer{Replies: []chat.Reply{cut}}, false, Truncated, "budget"},
		{"cut and allowed", &Answer{Replies: []chat.Reply{cut}}, true, "", ""},
		{"not told, at the budget", &Answer{Replies: []chat.Reply{{Text: "4", CompletionTokens: 1000}}}, false, Truncated, "budget"},
		{"filtered", &Answer{Replies: []chat.Reply{{Text: "4", Finish: "content_filter"}}}, false, Truncated, `"content_filter"`},
		{"aborted where cuts are allowed", &Answer{Replies: []chat.Reply{{Text: "4", Finish: "abort"}}}, true, Truncated, `"abort"`},
		{"not told, before the budget", &Answer{Replies: []chat.Reply{{Text: "4", CompletionTokens: 9}}}, false, "", ""},
		{"broken", answer("4 \ufffd"), false, Replacement, "at byte 2"},
		{"broken in reasoning", &Answer{Replies: []chat.Reply{{Text: "4", Reasoning: "\xff", Finish: chat.FinishStop}}}, false, Replacement, "reasoning"},
		{"cut in a character", &Answer{Replies: []chat.Reply{{Text: "4 \xed\x95", Finish: chat.FinishLength}}}, true, "", ""},
		{"cut in a character, as servers write it", &Answer{Replies: []chat.Reply{{Text: "4 \ufffd", Finish: chat.FinishLength}}}, true, "", ""},
		{"the same before the end", &Answer{Replies: []chat.Reply{{Text: "\ufffd 4", Finish: chat.FinishLength}}}, true, Replacement, "none"},
		{"NUL", answer("4\x00"), false, Replacement, "control"},
		{"more replies than turns", answer("4", ""), false, "", ""},
	} {
		p := probe("number", nil)
		p.Set.MayTruncate = c.may
		v := Grade(p, asked(w), c.answer, nil)
		if v.Fault != c.fault || v.Passed != (c.fault == "") || !strings.Contains(v.Reason, c.says) {
			t.Errorf("%s: %+v, want %q and %q", c.name, v, c.fault, c.says)
		}
	}
	// A question that has such a character itself may be answered with one.
	c := &suite.Case{Turns: []suite.Turn{{User: "What is \ufffd called?", Want: &suite.Want{Text: "replacement"}}}}
	if v := Grade(probe("contains", nil), c, answer("\ufffd is the replacement character."), nil); !v.Passed || v.Figures["replacement"] != 1 {
		t.Errorf("asked for: %+v", v)
	}
	if v := Grade(probe("exactly", nil), asked(w), answer("4"), nil); v.Fault != Erred || !strings.Contains(v.Reason, "exactly") {
		t.Errorf("unknown grader: %+v", v)
	}
}

// TestReplacement counts as Python's decode with errors="replace" does; the counts
// and places are its.
func TestReplacement(t *testing.T) {
	for text, want := range map[string]int{
		"한": 0, "\xed\x95": 1, "\xed\x95x": 1, "\xed": 1, "\xff\xfe": 2, "\xf0\x9f\x98": 1, "\xf0\x9f": 1, "\xf0\x8f": 2,
		"\xe0\x80": 2, "\xed\xa0\x80": 3, "\xf4\x90\x80\x80": 4, "\xc0\xaf": 2, "a\x80b": 1, "\xe2\x82\xe2\x82\xac": 1, "\xf1\x80\x80\xe1\x80\xc2": 3, "\xf4\x8f\xbf": 1, "\xe0\xa0": 1, "\xc2": 1,
	} {
		if m := measured(text, false); m.broken != want || len(m.places) != want {
			t.Errorf("%x: %d, want %d", text, m.broken, want)
		}
	}
}

// TestLoops finds the block, its share and its place.
func TestLoops(t *testing.T) {
	for _, c := range []struct {
		text  string
		share float64
		at    string
	}{
		{"", 0, ""},
		{"111111", 0, ""},
		{"abc abc abc ", 0, ""}, // 12 runes are too few
		{strings.Repeat("He said it twice, and no more than that. ", 2), 0, ""},
		{"x" + strings.Repeat("abcd ", 10), 50. / 51, strings.Repeat("abcd ", 10)},
		{"한국의 " + strings.Repeat("사람은 ", 8) + "!!", 33. / 38, " " + strings.Repeat("사람은 ", 8)},
		{strings.Repeat("-", 40) + strings.Repeat("word ", 2), 0.8, strings.Repeat("-", 40)},
		{"one two three four five six seven eight nine ten", 0, ""},
		{"\xff" + strings.Repeat("abcd ", 10), 50. / 51, strings.Repeat("abcd ", 10)},
	} {
		share, at := loopOf(c.text)
		if share != c.share || c.text[at[0]:at[1]] != c.at {
			t.Errorf("%q: %g at %v, want %g", c.text, share, at, c.share)
		}
	}
	var long strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&long, "%d ", i*i)
	}
	long.WriteString(strings.Repeat("again ", 5000))
	if share, at := loopOf(long.String()); share < 0.4 || at[1] != long.Len() {
		t.Errorf("long: %g at %v of %d", share, at, long.Len())
	}
}

// TestSame tells the place of the first difference, and how both go on.
func TestSame(t *testing.T) {
	p := probe("same", nil)
	base := answer("모든 사람은 자유롭다")
	for _, c := range []struct {
		text, says string
		share      float64
	}{
		{"모든 사람은 자유롭다", "baseline's text", 1},
		{"모든 사람이 자유롭다", `from character 5 (byte 13): "이 자유롭다", the baseline "은 자유롭다"`, 13. / 29},
		{"모든 사람은 자유롭다.", `the baseline ""`, 29. / 30},
		{"모든", `the baseline " 사람은`, 6. / 29},
	} {
		v := Grade(p, asked(nil), answer(c.text), base)
		if v.Passed != (c.share == 1) || !strings.Contains(v.Reason, c.says) || v.Figures["same"] != c.share {
			t.Errorf("%s: %+v, want %q and %g", c.text, v, c.says, c.share)
		}
	}
	for name, base := range map[string]*Answer{"no answer": nil, "has no answer": {Error: "gone"}, "0 of 1": {}} {
		if v := Grade(p, asked(nil), answer("a"), base); v.Passed || v.Fault != Different || !strings.Contains(v.Reason, name) {
			t.Errorf("%s: %+v", name, v)
		}
	}
	if v := Grade(p, asked(nil), answer("\ufffd"), answer("\ufffd")); !v.Passed || v.Figures["replacement"] != 1 {
		t.Errorf("what the baseline has too: %+v", v)
	}
	if v := Grade(p, asked(nil), answer(""), answer("")); v.Fault != Empty {
		t.Errorf("both empty: %+v", v)
	}
}

// TestCoherence of seven turns, of which one goes wrong.
func TestCoherence(t *testing.T) {
	c := &suite.Case{ID: "0"}
	var texts []string
	for i := range 7 {
		c.Turns = append(c.Turns, suite.Turn{User: "?", Want: &suite.Want{Text: fmt.Sprint(i + 100)}})
		texts = append(texts, fmt.Sprintf("The answer to question %d is %d, as far as anyone in house %d of street %d can tell.", i, i+100, i*7+1, i*31+5))
	}
	for _, one := range []struct {
		name  string
		args  map[string]any
		spoil func(texts []string)
		fault Fault
	}{
		{"good", nil, func([]string) {}, ""},
		{"wrong", nil, func(s []string) { s[3] = strings.ReplaceAll(s[3], "103", "104") }, WrongAnswer},
		{"empty", nil, func(s []string) { s[5] = "\n" }, Empty},
		{"collapse", nil, func(s []string) {
			for i := 3; i < 7; i++ {
				s[i] = fmt.Sprint(i + 100)
			}
		}, Collapse},
		{"bleeding", nil, func(s []string) { s[6] = s[2] + " 106" }, Bleeding},
		{"bleeding allowed", map[string]any{"bleed": 0.0}, func(s []string) { s[6] = s[2] + " 106" }, ""},
		{"loop", nil, func(s []string) { s[4] += strings.Repeat(" and on", 80) }, Loop},
		{"broken", nil, func(s []string) { s[4] += "\ufffd" }, Replacement},
		{"too little in all", map[string]any{"tokens": 2000.0}, func([]string) {}, Collapse},
	} {
		said := append([]string{}, texts...)
		one.spoil(said)
		v := Grade(probe("coherence", one.args), c, answer(said...), nil)
		if v.Fault != one.fault {
			t.Errorf("%s: %+v, want %q", one.name, v, one.fault)
		}
	}
	// Scripts without spaces bleed as well.
	c.Turns = []suite.Turn{{User: "?"}, {User: "?"}}
	if v := Grade(probe("coherence", nil), c, answer("日本の首都は東京です。とても大きい。", "はい、日本の首都は東京です。とても広い。"), nil); v.Fault != Bleeding || len(v.Marks) != 1 {
		t.Errorf("Japanese: %+v", v)
	}
}

// FuzzGrade: whatever comes, no grader panics, an empty answer and one at its budget
// fail, and the same has the same verdict.
func FuzzGrade(f *testing.F) {
	for _, s := range []string{"", "42", "\\boxed{\\frac{1}{2}}", "<tool_call>{\"name\": \"a\", \"arguments\": {}}</tool_call>", "```go\nfunc a() {}\n```", "한국어 \xed\x95", "<think>a</think>b", strings.Repeat("ab ", 50), "{\"a\": 1}", "1e999", "1,234.5e-9", "\\boxed{{}", "[TOOL_CALLS][", "\u200b"} {
		f.Add(s, "42", uint8(0))
		f.Add(s, s, uint8(3))
	}
	f.Fuzz(func(t *testing.T, text, want string, how uint8) {
		for name := range graders {
			p := probe(name, nil)
			p.Set.MayTruncate = how&1 != 0
			w := &suite.Want{Text: want, All: []string{want}, Script: "Korean", MinRunes: 1, Call: &suite.Call{Name: want, Arguments: map[string]any{want: want}}}
			a := answer(text, want)
			if how&2 != 0 {
				a.Replies[0].Finish = chat.FinishLength
			}
			if how&4 != 0 {
				a.Replies[0].ToolCalls = []chat.ToolCall{{Name: text, Arguments: want}}
			}
			c := asked(w)
			if name == "coherence" {
				c.Turns = append(c.Turns, suite.Turn{User: want, Want: w})
			}
			v := Grade(p, c, a, a)
			if w := Grade(p, c, a, a); fmt.Sprint(v) != fmt.Sprint(w) {
				t.Fatalf("%s: %+v, then %+v", name, v, w)
			}
			if v.Passed && (blank(text) && !(name == "call" && how&4 != 0) || how&3 == 2) || v.Passed != (v.Fault == "") || v.Reason == "" || strings.Contains(v.Reason, "\n") || !utf8.ValidString(v.Reason) {
				t.Errorf("%s of %q: %+v", name, text, v)
			}
			for _, m := range v.Marks {
				if m.Turn < 0 || m.Turn >= len(a.Replies) || m.At[0] < 0 || m.At[1] > len(a.Replies[m.Turn].Text) || m.At[0] > m.At[1] {
					t.Errorf("%s of %q: mark %+v", name, text, m)
				}
			}
			for k, x := range v.Figures {
				if x != x || x < 0 {
					t.Errorf("%s of %q: %s is %g", name, text, k, x)
				}
			}
		}
	})
}
