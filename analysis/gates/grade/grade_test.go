package grade

import (
	"strings"
	"testing"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/suite"
)

// answer is one turn after another, ended by the model itself.
func answer(texts ...string) *Answer {
	a := &Answer{}
	for _, t := range texts {
		a.Replies = append(a.Replies, chat.Reply{Text: t, Finish: chat.FinishStop, CompletionTokens: len(t)/4 + 1})
	}
	return a
}

func asked(w *suite.Want) *suite.Case {
	return &suite.Case{ID: "0", Turns: []suite.Turn{{User: "?", Want: w}}}
}

func probe(grader string, args map[string]any) *suite.Probe {
	return &suite.Probe{ID: "p", Grader: grader, Args: args, Passes: 1, Need: 1, Set: suite.Settings{MaxTokens: 1000}}
}

// TestTables: every grader of the schema is there, and no other.
func TestTables(t *testing.T) {
	n := 0
	for _, g := range suite.Graders() {
		if n++; graders[g.Name] == nil {
			t.Errorf("%s has no function", g.Name)
		}
	}
	if n != len(graders) {
		t.Errorf("%d functions, %d graders in the schema", len(graders), n)
	}
}

// TestVerdicts of texts that were made up, grader by grader.
func TestVerdicts(t *testing.T) {
	code := "func a(n int) int {\n\tif n > 3 {\n\t\treturn 3\n\t}\n\treturn n\n}"
	for _, c := range []struct {
		name, grader string
		args         map[string]any
		want         *suite.Want
		text         string
		fault        Fault // "": passes
	}{
		{"exact", "exact", nil, &suite.Want{Text: "Paris"}, " Paris\n", ""},
		{"exact case", "exact", nil, &suite.Want{Text: "Paris"}, "paris", WrongAnswer},
		{"exact folded", "exact", map[string]any{"fold": true}, &suite.Want{Text: "Paris"}, "paris", ""},
		{"exact after reasoning", "exact", nil, &suite.Want{Text: "Paris"}, "<think>Lyon? no.</think>\n\nParis", ""},
		{"reasoning alone", "exact", nil, &suite.Want{Text: "Paris"}, "<think>Paris", Empty},
		{"contains", "contains", nil, &suite.Want{All: []string{"42", "서울"}, Any: []string{"x", "y"}, Absent: []string{"error"}}, "42 y 서울입니다", ""},
		{"contains within a number", "contains", nil, &suite.Want{Text: "42"}, "it is 142 or 420", WrongAnswer},
		{"contains none of any", "contains", nil, &suite.Want{Any: []string{"x", "y"}}, "z", WrongAnswer},
		{"contains what it must not", "contains", nil, &suite.Want{Text: "a", Absent: []string{"b"}}, "a b", WrongAnswer},
		{"needle", "needle", nil, &suite.Want{Text: "bado 17 temi"}, "The passphrase is **Bado  17\ntemi**.", ""},
		{"needle number", "needle", nil, &suite.Want{Text: "bado 17 temi"}, "bado 71 temi", WrongAnswer},
		{"callsites", "callsites", nil, &suite.Want{All: []string{"fooKey", "bar"}, Absent: []string{"foo"}}, "`fooKey`, bar.", ""},
		{"callsites one missing", "callsites", nil, &suite.Want{All: []string{"fooKey", "bar"}, Absent: []string{"foo"}}, "fooKey", WrongAnswer},
		{"callsites half is enough", "callsites", map[string]any{"recall": 0.5}, &suite.Want{All: []string{"fooKey", "bar"}, Absent: []string{"foo"}}, "fooKey", ""},
		{"callsites one too many", "callsites", nil, &suite.Want{All: []string{"bar"}, Absent: []string{"foo"}}, "bar, foo", WrongAnswer},
		{"callsites none right, content with none", "callsites", map[string]any{"recall": 0.0, "precision": 0.0}, &suite.Want{All: []string{"bar"}, Absent: []string{"foo"}}, "foo", WrongAnswer},
		{"callsites none", "callsites", nil, &suite.Want{Text: "none", Absent: []string{"foo"}}, "None.", ""},
		{"edit in a fence", "edit", nil, &suite.Want{Text: code}, "Here:\n```go\n" + strings.ReplaceAll(code, "\t", "    ") + "\n```\nDone.", ""},
		{"edit one line off", "edit", nil, &suite.Want{Text: code}, strings.Replace(code, "> 3", "< 3", 1), WrongAnswer},
		{"edit cut short", "edit", nil, &suite.Want{Text: code}, code[:40], WrongAnswer},
		{"edit goes on", "edit", nil, &suite.Want{Text: code}, code + "\nfunc b() {}", WrongAnswer},
		{"edit lines", "edit", nil, &suite.Want{All: []string{"return n"}, Absent: []string{"panic"}}, code, ""},
		{"edit line left", "edit", nil, &suite.Want{All: []string{"return n"}, Absent: []string{"return 3"}}, code, WrongAnswer},
		{"script", "script", nil, &suite.Want{Script: "Korean", MinRunes: 5}, "모든 사람은 자유롭다.", ""},
		{"script other", "script", nil, &suite.Want{Script: "Korean", MinRunes: 5}, "All human beings are free.", WrongScript},
		{"script mixed", "script", nil, &suite.Want{Script: "Korean", MinRunes: 5}, "자유롭다 and free", WrongScript},
		{"script mixed is enough", "script", map[string]any{"share": 0.3}, &suite.Want{Script: "Korean", MinRunes: 5}, "자유롭다 and free", ""},
		{"script short", "script", nil, &suite.Want{Script: "Korean", MinRunes: 50}, "모든 사람은 자유롭다.", WrongAnswer},
		{"script broken", "script", nil, &suite.Want{Script: "Korean", MinRunes: 5}, "모든 사\ufffd람은 자유롭다.", Replacement},
		{"script invalid", "script", nil, &suite.Want{Script: "Korean", MinRunes: 5}, "모든 사\xea\xb0람은 자유롭다.", Replacement},
		{"script loop", "script", nil, &suite.Want{Script: "Korean", MinRunes: 5}, strings.Repeat("자유롭다 ", 20), Loop},
		{"kana is Japanese", "script", nil, &suite.Want{Script: "Japanese", MinRunes: 5}, "日本の首都は東京です。", ""},
		{"Han alone is not Japanese", "script", nil, &suite.Want{Script: "Japanese", MinRunes: 5}, "人人生而自由平等", WrongScript},
		{"kana is not Chinese", "script", nil, &suite.Want{Script: "Chinese", MinRunes: 5}, "日本の首都は東京です。", WrongScript},
		{"emoji", "script", nil, &suite.Want{Script: "Emoji", MinRunes: 3}, "🎉🎂🎈❤️🇰🇷", ""},
		{"no emoji", "script", nil, &suite.Want{Script: "Emoji", MinRunes: 3}, "party cake balloon", WrongScript},
		{"switching", "script", nil, &suite.Want{Script: "Hangul+Latin", MinRunes: 3}, "나무 means tree, 바다 means sea", ""},
		{"switching in one", "script", nil, &suite.Want{Script: "Hangul+Latin", MinRunes: 3}, "a tree and the sea", WrongScript},
		{"loop", "loop", nil, nil, "He said: " + strings.Repeat("and then ", 30), Loop},
		{"no loop", "loop", nil, nil, "One thing, and then another, and so on to the end.", ""},
		{"clean", "clean", nil, nil, "tab\tand\nline", ""},
		{"control", "clean", nil, nil, "a\x00b", Replacement},
		{"any grader sees broken characters", "number", nil, &suite.Want{Text: "4"}, "4\ufffd", Replacement},
		{"json", "json", nil, &suite.Want{All: []string{"a"}}, "```json\n{\"a\": 1}\n```", ""},
		{"json key", "json", nil, &suite.Want{All: []string{"b"}}, "{\"a\": 1}", WrongAnswer},
		{"json value", "json", nil, &suite.Want{Call: &suite.Call{Arguments: map[string]any{"a": 2.0}}}, "{\"a\": 1}", WrongAnswer},
		{"json cut", "json", nil, &suite.Want{All: []string{"a"}}, "{\"a\": ", Malformed},
		{"white space", "clean", nil, nil, " \n\u200b\u3000", Empty},
		{"budget", "budget", nil, &suite.Want{Text: "12"}, "<think>3*4</think>12", ""},
		{"budget words", "budget", nil, &suite.Want{Any: []string{"twelve"}}, "twelve", ""},
	} {
		v := Grade(probe(c.grader, c.args), asked(c.want), answer(c.text), nil)
		if v.Fault != c.fault || v.Passed != (c.fault == "") || v.Reason == "" || strings.Contains(v.Reason, "\n") {
			t.Errorf("%s: %+v, want fault %q", c.name, v, c.fault)
		}
	}
}
