package suite

import (
	"errors"
	"strings"
	"testing"
)

const head = "name: t\nprobes:\n"

func parsed(t *testing.T, text string) *Suite {
	t.Helper()
	s, err := Parse("t.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestWritten reads a suite with everything that can be written, and siblings take
// what they do not say from the probe that they are like.
func TestWritten(t *testing.T) {
	s := parsed(t, `
name: everything
about: A test.
defaults: {passes: 1, need: 0.9, settings: {max_tokens: 50, seed: 7, stop: END}}
tools:
  - {name: look, description: Looks., parameters: {type: object, properties: {at: {type: string}}}}
probes:
  - id: facts
    group: knowledge
    about: Facts.
    grader: contains
    args: {fold: true}
    timed: true
    tools: [look]
    settings: {max_tokens: 20, top_p: 0.9, top_k: 5, system: Be brief., stream: true, may_truncate: true, template: {thinking: false, n: 3}}
    cases:
      - {ask: "Capital of Korea?", want: {any: [Seoul, 서울], absent: Busan}}
      - {id: talk, tokens: 90, depth: 0.5, turns: [{ask: One.}, {ask: "Two?", want: 2}]}
      - {prompt: "The capital is", want: {text: Seoul, min_runes: 1, max_runes: 9}}
      - {ask: Look, want: {text: x, call: {name: look, arguments: {at: 부산, n: 3}}}}
    also:
      - {id: many, passes: 3, settings: {temperature: 0.7, concurrency: 4}}
      - {id: same, grader: same, about: The same., need: 1}
`)
	if len(s.Probes) != 3 || s.Name != "everything" || len(s.SHA256) != 64 {
		t.Fatalf("%d probes of %s, %s", len(s.Probes), s.Name, s.SHA256)
	}
	p, many, same := &s.Probes[0], &s.Probes[1], &s.Probes[2]
	if p.Need != 0.9 || p.Set.MaxTokens != 20 || p.Set.Seed != 7 || p.Set.TopP != 0.9 || p.Set.TopK != 5 || p.Set.System != "Be brief." || p.Set.Template["n"] != 3.0 || !p.Timed || !p.Set.MayTruncate || p.Set.Stop[0] != "END" || p.Group != "knowledge" {
		t.Errorf("facts: %+v", p)
	}
	if many.ID != "facts/many" || many.Like != "facts" || many.Passes != 3 || many.Answers() != 12 || many.Set.Concurrency != 4 || many.Set.MaxTokens != 20 || many.Args["fold"] != true || many.Need != 0.9 || p.Set.Concurrency != 1 {
		t.Errorf("many: %+v", many)
	}
	if same.Grader != "same" || !same.Against || same.Args != nil || same.Need != 1 || many.Against {
		t.Errorf("same: %+v", same)
	}
	c := p.Cases
	if c[0].ID != "0" || c[1].ID != "talk" || c[1].Turns[1].Want.Text != "2" || c[1].Depth != 0.5 || c[2].Want.MaxRunes != 9 || c[2].Turns != nil || c[3].Turns[0].Want.Call.Arguments["n"] != 3.0 || c[0].Turns[0].Want.Absent[0] != "Busan" {
		t.Errorf("cases: %+v", c)
	}
	if len(c[0].Tools) != 1 || string(c[0].Tools[0].Parameters) != `{"properties":{"at":{"type":"string"}},"type":"object"}` {
		t.Errorf("tools: %+v", c[0].Tools)
	}
}

// TestRefused: each line of a suite that cannot be taken is named, with what is known.
func TestRefused(t *testing.T) {
	probe := func(lines string) string { return head + "  - id: a\n    about: A.\n" + lines }
	exact := "    grader: exact\n"
	one := "    cases: [{ask: q, want: w}]\n"
	for name, c := range map[string]struct {
		text string
		line int
		says string
	}{
		"empty":              {"", 0, "is empty"},
		"comment alone":      {"# nothing\n", 0, "is empty"},
		"no YAML":            {"name: [\n", 0, "did not find"},
		"not UTF-8":          {"name: \xff", 0, "UTF-8"},
		"list":               {"- a", 1, "want a mapping"},
		"no probes":          {"name: t\nprobes: []\n", 1, "no probes"},
		"two documents":      {head + "  - {}\n---\nname: b\n", 0, "second document"},
		"alias":              {"name: t\nabout: &a x\nprobes: []\n", 2, "anchors"},
		"name":               {"name: A b\nprobes: [{}]", 1, "small letters"},
		"suite field":        {"name: t\nprobe: []\n", 2, `unknown field "probe"; known are about, defaults, name, probes, tools`},
		"probe field":        {probe("    grade: exact\n"), 5, `unknown field "grade"; known are about, also, args`},
		"field twice":        {probe("    about: B.\n"), 5, "twice"},
		"settings field":     {probe("    settings: {max_token: 3}\n"), 5, "known are concurrency, max_tokens"},
		"grader":             {probe("    grader: exactly\n" + one), 3, `unknown grader "exactly"; known are acceptance, budget, call,`},
		"no grader":          {probe(one), 3, `unknown grader ""`},
		"grader's argument":  {probe(exact + "    args: {folded: true}\n" + one), 3, `unknown argument "folded"; known are fold`},
		"argument's kind":    {probe(exact + "    args: {fold: 1}\n" + one), 3, "fold: is 1, want true or false"},
		"acceptance sampled": {probe("    grader: acceptance\n    settings: {temperature: 0.5}\n    cases: [{ask: q}]\n"), 3, "asks greedily, once, one at a time"},
		"acceptance at once": {probe("    grader: acceptance\n    settings: {concurrency: 2}\n    cases: [{ask: q}]\n"), 3, "concurrency 2"},
		"acceptance stops":   {probe("    grader: acceptance\n    settings: {stop: END}\n    cases: [{ask: q}]\n"), 3, "has no stop"},
		"acceptance blocks":  {probe("    grader: acceptance\n    args: {block: 8}\n    cases: [{ask: q}]\n"), 3, "block: is 8, want 16 or more"},
		"acceptance turns":   {probe("    grader: acceptance\n    cases: [{turns: [{ask: q}, {ask: r}]}]\n"), 3, "one question in a case"},
		"generator":          {probe(exact + "    make: {generator: sums}\n"), 6, `unknown generator "sums"; known are arithmetic, callsites`},
		"generator's kinds":  {probe("    grader: number\n    make: {generator: arithmetic, args: {kinds: [sums]}}\n"), 6, `unknown "sums"; known are sum,`},
		"lengths":            {probe("    grader: number\n    make: {generator: arithmetic, lengths: [3]}\n"), 6, "does not go by lengths"},
		"huge":               {probe("    grader: needle\n    make: {generator: needle, n: 1000, lengths: [4000000]}\n"), 6, "bytes, more than there may be"},
		"many":               {probe("    grader: needle\n    make: {generator: needle, n: 200000, lengths: [1, 2]}\n"), 6, "400000 cases"},
		"keep falls":         {probe("    grader: number\n    make: {generator: arithmetic, n: 9, keep: \"3,1\"}\n"), 6, "rise"},
		"keep beyond":        {probe("    grader: number\n    make: {generator: arithmetic, n: 9, keep: \"3-9\"}\n"), 6, "no case 9"},
		"need":               {probe(exact + "    need: 0\n" + one), 6, "without an answer"},
		"need above":         {probe(exact + "    need: 1.5\n" + one), 6, "want 0 to 1"},
		"passes":             {probe(exact + "    passes: 3\n" + one), 3, "the same again"},
		"sibling's passes":   {probe(exact + "    settings: {temperature: 0.5}\n    passes: 3\n" + one + "    also:\n      - {id: greedy, about: B., settings: {temperature: 0}}\n"), 10, "the same again"},
		"max_tokens":         {probe(exact + "    settings: {max_tokens: 0}\n" + one), 6, "want 1 to"},
		"tokens not whole":   {probe(exact + "    settings: {max_tokens: 1.5}\n" + one), 6, "whole number"},
		"no cases":           {probe(exact + "    cases: []\n"), 3, "no cases"},
		"cases twice":        {probe(exact + one + "    from: a.jsonl\n"), 3, "has 2 of"},
		"no want":            {probe(exact + "    cases: [{ask: q}]\n"), 3, "nothing to hold an answer against"},
		"want's field":       {probe("    grader: call\n" + one), 3, "case 0: turn 1: grader call wants call"},
		"vacuous contains":   {probe("    grader: contains\n    cases: [{ask: q, want: {absent: [x]}}]\n"), 3, "wants text, any or all"},
		"blank any":          {probe("    grader: contains\n    cases: [{ask: q, want: {any: [x, \"\"]}}]\n"), 3, `"" is no word`},
		"blank all":          {probe("    grader: contains\n    cases: [{ask: q, want: {all: [\" \"]}}]\n"), 3, `" " is no word`},
		"blank absent":       {probe("    grader: contains\n    cases: [{ask: q, want: {any: [x], absent: [\"\\n\"]}}]\n"), 3, "is no word"},
		"blank text":         {probe("    grader: contains\n    cases: [{ask: q, want: \" \"}]\n"), 3, "wants text, any or all"},
		"blank call sites":   {probe("    grader: callsites\n    cases: [{ask: q, want: {absent: [x], text: \" \"}}]\n"), 3, "wants all or text"},
		"script":             {probe("    grader: script\n    cases: [{ask: q, want: {script: Klingon, min_runes: 3}}]\n"), 3, `unknown script "Klingon"; known are Chinese, Emoji`},
		"script without min": {probe("    grader: script\n    cases: [{ask: q, want: {script: Hangul}}]\n"), 3, "script and min_runes"},
		"one turn":           {probe("    grader: coherence\n" + one), 3, "2 turns or more"},
		"asks nothing":       {probe(exact + "    cases: [{turns: [{ask: \" \"}]}]\n"), 6, "asks nothing"},
		"tool":               {probe(exact + "    tools: [look]\n" + one), 3, `unknown tool "look"`},
		"twice the id":       {probe(exact+one) + "  - {id: a, about: A., grader: exact, cases: [{ask: q, want: w}]}\n", 7, "there already"},
		"id with a slash":    {head + "  - {id: a/b, about: A., grader: exact, cases: [{ask: q, want: w}]}\n", 3, "under also"},
		"sibling":            {probe(exact + one + "    also: [{id: a, cases: []}]\n"), 7, `unknown field "cases"`},
		"no about":           {head + "  - {id: a, grader: exact, cases: [{ask: q, want: w}]}\n", 3, "no about"},
		"no files here":      {probe(exact + "    from: a.jsonl\n"), 3, "not read here"},
		"NaN":                {probe(exact + "    need: .nan\n" + one), 6, "want a number"},
	} {
		_, err := Parse("t.yaml", []byte(c.text), nil)
		var e *Error
		if !errors.As(err, &e) || !errors.Is(err, ErrSuite) {
			t.Errorf("%s: %v is no *Error", name, err)
			continue
		}
		if !strings.Contains(e.Reason, c.says) || c.line != 0 && e.Line != c.line || strings.ContainsAny(e.Error(), "\n") {
			t.Errorf("%s: %v, want line %d and %q", name, err, c.line, c.says)
		}
	}
}

// FuzzParse: no text makes it panic, and what it takes, it takes again as the same.
func FuzzParse(f *testing.F) {
	for _, name := range Names() {
		text, err := builtin.ReadFile("data/" + name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text[:min(len(text), 3000)]))
	}
	f.Add(head + "  - {id: a, about: A., grader: needle, make: {generator: needle, n: 2, lengths: [30], depths: [0, 1]}, also: [{id: b, need: .5}]}\n")
	f.Add(head + "  - {id: a, about: A., grader: exact, from: x, tools: [], args: {fold: true}}\n")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Count(text, "0") > 40 {
			return // large numbers of cases take long and show nothing else
		}
		a, err := Parse("f.yaml", []byte(text), nil)
		if err != nil {
			return
		}
		b, err := Parse("f.yaml", []byte(text), nil)
		if err != nil || a.SHA256 != b.SHA256 {
			t.Errorf("read again: %v", err)
		}
	})
}
