package grade

import (
	"strings"
	"testing"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/suite"
)

// TestCalls as servers give them, and as texts have them where servers do not.
func TestCalls(t *testing.T) {
	want := &suite.Want{Call: &suite.Call{Name: "book_table", Arguments: map[string]any{"city": "부산", "guests": 3.0}}}
	good := `{"guests": 3.0, "city": "\ubd80산"}`
	for _, c := range []struct {
		name  string
		text  string
		calls []chat.ToolCall
		fault Fault
	}{
		{"given", "", []chat.ToolCall{{Name: "book_table", Arguments: good}}, ""},
		{"given beside text", "I book it.", []chat.ToolCall{{Name: "book_table", Arguments: good}}, ""},
		{"hermes", `<tool_call>{"name": "book_table", "arguments": ` + good + `}</tool_call>`, nil, ""},
		{"glm", "<tool_call>book_table\n<arg_key>city</arg_key>\n<arg_value>부산</arg_value>\n<arg_key>guests</arg_key>\n<arg_value>3</arg_value>\n</tool_call>", nil, ""},
		{"mistral", `[TOOL_CALLS][{"name": "book_table", "arguments": ` + good + `}]`, nil, ""},
		{"llama", `{"name": "book_table", "parameters": ` + good + `}`, nil, ""},
		{"after reasoning", "<think>I could call <tool_call>.</think>" + `<tool_call>{"name": "book_table", "arguments": ` + good + `}</tool_call>`, nil, ""},
		{"none", "I would book a table.", nil, WrongAnswer},
		{"nothing", "", nil, Empty},
		{"other name", "", []chat.ToolCall{{Name: "book_tables", Arguments: good}}, WrongAnswer},
		{"text for a number", "", []chat.ToolCall{{Name: "book_table", Arguments: `{"guests": "3", "city": "부산"}`}}, WrongAnswer},
		{"one argument more", "", []chat.ToolCall{{Name: "book_table", Arguments: `{"guests": 3, "city": "부산", "x": 1}`}}, WrongAnswer},
		{"one less", "", []chat.ToolCall{{Name: "book_table", Arguments: `{"city": "부산"}`}}, WrongAnswer},
		{"two calls", "", []chat.ToolCall{{Name: "book_table", Arguments: good}, {Name: "book_table", Arguments: good}}, WrongAnswer},
		{"arguments cut", "", []chat.ToolCall{{Name: "book_table", Arguments: `{"guests": 3, "city": "부`}}, Malformed},
		{"arguments twice", "", []chat.ToolCall{{Name: "book_table", Arguments: good + good}}, Malformed},
		{"arguments a list", "", []chat.ToolCall{{Name: "book_table", Arguments: `[3]`}}, Malformed},
		{"arguments null", "", []chat.ToolCall{{Name: "book_table", Arguments: `null`}}, Malformed},
		{"hermes, no JSON", `<tool_call>{"name": "book_table", "arguments": {"city": "부산", "guests": }}</tool_call>`, nil, Malformed},
		{"hermes, not ended", `<tool_call>{"name": "book_table", "arguments": {"city": "부산`, nil, Malformed},
		{"broken character in an argument", "", []chat.ToolCall{{Name: "book_table", Arguments: `{"guests": 3, "city": "부` + "\ufffd" + `"}`}}, Replacement},
		{"broken character written out", "", []chat.ToolCall{{Name: "book_table", Arguments: `{"guests": 3, "city": "부\uFFFD"}`}}, Replacement},
	} {
		a := &Answer{Replies: []chat.Reply{{Text: c.text, ToolCalls: c.calls, Finish: chat.FinishTools}}}
		v := Grade(probe("call", nil), asked(want), a, nil)
		if v.Fault != c.fault || v.Passed != (c.fault == "") {
			t.Errorf("%s: %+v, want fault %q", c.name, v, c.fault)
		}
		if m := v.Figures["malformed"]; (m == 1) != (c.fault == Malformed) {
			t.Errorf("%s: malformed is %g", c.name, m)
		}
	}
	// A malformed call is counted whatever the grader.
	v := Grade(probe("contains", nil), asked(&suite.Want{Text: "부산"}), answer(`<tool_call>{"city": "부산"`), nil)
	if v.Figures["malformed"] != 1 || !v.Passed {
		t.Errorf("contains: %+v", v)
	}
	if v := Grade(probe("contains", nil), asked(&suite.Want{Text: "a"}), &Answer{Replies: []chat.Reply{{ToolCalls: []chat.ToolCall{{Name: "a"}}}}}, nil); v.Fault != Empty || !strings.Contains(v.Reason, "call") {
		t.Errorf("a call in place of an answer: %+v", v)
	}
}
