package suite

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Grader is what the schema knows of a grader; package grade does the grading.
type Grader struct {
	Name    string
	About   string // one sentence, for docs/suites.md
	Args    []Arg
	Against bool   // holds answers against the baseline's
	Measure bool   // is asked for what drafting brings: greedy, one at a time, on past end tokens
	Wants   string // which fields of a want count, for docs
	// needs says what a want lacks, "" for nothing. nil: a case needs no want.
	needs func(w *Want) string
	turns int // that a case has at least
}

// Arg is an argument of a grader or a generator.
type Arg struct {
	Name    string
	Kind    ArgKind
	Default any // nil: none
	About   string
	Among   []string // of Words: what each may be; of Text likewise
}

// ArgKind is what an argument holds.
type ArgKind string

// Kinds of arguments.
const (
	Flag  ArgKind = "true or false"
	Share ArgKind = "a share from 0 to 1"
	Count ArgKind = "a whole number from 0"
	Text  ArgKind = "text"
	Words ArgKind = "a list of words"
)

var (
	foldArg   = Arg{"fold", Flag, false, "ignore case", nil}
	repeatArg = Arg{"repeat", Share, 0.5, "share of the answer that one block, said again and again, may take", nil}
)

// Graders lists them by name.
func Graders() []Grader {
	return []Grader{
		{Name: "acceptance", About: "As many tokens as max_tokens says, on past end tokens, of which the server tells how many drafted ones were accepted: what they say is not graded, rates and lengths stand beside the probes with their intervals. Greedy, one pass, one at a time.", Wants: "nothing", Args: []Arg{{"block", Count, 64.0, "tokens of the stretches by which noise is measured", nil}}, Measure: true},
		{Name: "budget", About: "An answer under a hard budget: what stands outside of reasoning must be there and be right; reasoning alone is a failure.", Wants: "text (a number, else contained), any, all, absent", Args: []Arg{foldArg}, needs: needsContent},
		{Name: "call", About: "Exactly one tool call: its name, and arguments that are equal as JSON. Servers give it parsed; else it is taken from the text in any known style.", Wants: "call", needs: func(w *Want) string { return lacks(w.Call == nil, "call") }},
		{Name: "callsites", About: "The set of functions that call one: those named in the answer, of all that the code has.", Wants: "all (the right ones), absent (the other functions), text (what is said where there are none)", Args: []Arg{{"recall", Share, 1.0, "share of the right ones that must be named", nil}, {"precision", Share, 1.0, "share of those named that must be right", nil}}, needs: func(w *Want) string { return lacks(len(w.All) == 0 && strings.TrimSpace(w.Text) == "", "all or text") }},
		{Name: "clean", About: "Any answer without characters that are none and without control characters.", Wants: "min_runes, max_runes"},
		{Name: "coherence", About: "A conversation: each turn's own want, no collapse of length, no answer that says an earlier one again, no loops, and as many tokens in all as the suite asks for.", Wants: "of each turn: text, any, all, absent, script, min_runes, max_runes", Args: []Arg{{"collapse", Share, 0.1, "share of the median length of the first half's answers that the later half's median must have", nil}, {"bleed", Count, 12.0, "words in a row that an answer may not share with an earlier one", nil}, repeatArg, {"tokens", Count, 0.0, "that all answers together must have", nil}, foldArg}, turns: 2},
		{Name: "contains", About: "Words that the answer has, and words that it has not.", Wants: "text, any, all, absent", Args: []Arg{foldArg}, needs: needsContent},
		{Name: "edit", About: "Code that was changed: equal to what is wanted but for blanks and fences, or with and without the lines that tell.", Wants: "text (the whole), all, absent (lines)", needs: func(w *Want) string { return lacks(w.Text == "" && len(w.All) == 0, "text or all") }},
		{Name: "exact", About: "The text itself, but for white space around it.", Wants: "text", Args: []Arg{foldArg}, needs: needsText},
		{Name: "json", About: "A JSON object with keys, and values where they are said.", Wants: "all (keys), call (arguments: values)", needs: func(w *Want) string { return lacks(len(w.All) == 0 && w.Call == nil, "all or call") }},
		{Name: "loop", About: "An answer that does not say the same over and over.", Wants: "min_runes, max_runes", Args: []Arg{{"repeat", Share, 0.3, "share of the answer that one block, said again and again, may take", nil}}},
		{Name: "needle", About: "A passphrase that stood somewhere in the context.", Wants: "text", needs: needsText},
		{Name: "number", About: "The last \\boxed{} or the last number of the answer, by value.", Wants: "text (a number)", needs: func(w *Want) string {
			return lacks(!strings.ContainsFunc(w.Text, unicode.IsDigit), "text with a number")
		}},
		{Name: "same", About: "What the baseline answered, byte for byte.", Wants: "nothing", Against: true},
		{Name: "script", About: "Text in a script: enough letters of it, long enough, no loops, and no character that is none.", Wants: "script, min_runes, max_runes, any, all, absent", Args: []Arg{{"share", Share, 0.5, "of letters that must be of the script", nil}, repeatArg}, needs: func(w *Want) string { return lacks(w.Script == "" || w.MinRunes == 0, "script and min_runes") }},
	}
}

func lacks(yes bool, what string) string {
	if yes {
		return what
	}
	return ""
}

func needsText(w *Want) string { return lacks(strings.TrimSpace(w.Text) == "", "text") }

func needsContent(w *Want) string {
	return lacks(strings.TrimSpace(w.Text) == "" && len(w.Any) == 0 && len(w.All) == 0, "text, any or all")
}

// grader finds one by name.
func grader(name string) (*Grader, error) {
	all := Graders()
	for i := range all {
		if all[i].Name == name {
			return &all[i], nil
		}
	}
	var known []string
	for i := range all {
		known = append(known, all[i].Name)
	}
	return nil, fmt.Errorf("unknown grader %q; known are %s", name, list(known))
}

// checkArgs refuses arguments that args does not have, and fills in none.
func checkArgs(given map[string]any, args []Arg) error {
	for name, v := range given {
		i := slices.IndexFunc(args, func(a Arg) bool { return a.Name == name })
		if i < 0 {
			var known []string
			for _, a := range args {
				known = append(known, a.Name)
			}
			if known == nil {
				return fmt.Errorf("unknown argument %q; there are none", name)
			}
			return fmt.Errorf("unknown argument %q; known are %s", name, list(known))
		}
		if err := args[i].check(v); err != nil {
			return err
		}
	}
	return nil
}

func (a *Arg) check(v any) error {
	ok := false
	switch a.Kind {
	case Flag:
		_, ok = v.(bool)
	case Share:
		f, is := v.(float64)
		ok = is && f >= 0 && f <= 1
	case Count:
		f, is := v.(float64)
		ok = is && f >= 0 && f <= 1e9 && f == float64(int64(f))
	case Text:
		s, is := v.(string)
		if is && a.Among != nil && !slices.Contains(a.Among, s) {
			return fmt.Errorf("%s: unknown %q; known are %s", a.Name, s, list(a.Among))
		}
		ok = is
	case Words:
		l, is := v.([]any)
		ok = is && len(l) > 0
		for _, w := range l {
			s, is := w.(string)
			if ok = ok && is; is && a.Among != nil && !slices.Contains(a.Among, s) {
				return fmt.Errorf("%s: unknown %q; known are %s", a.Name, s, list(a.Among))
			}
		}
	}
	if !ok {
		return fmt.Errorf("%s: is %v, want %s", a.Name, v, a.Kind)
	}
	return nil
}

// Arg is the value of a probe's argument, its default where it has none.
func (p *Probe) Arg(name string) any {
	if v, ok := p.Args[name]; ok {
		return v
	}
	g, err := grader(p.Grader)
	if err != nil {
		return nil
	}
	for _, a := range g.Args {
		if a.Name == name {
			return a.Default
		}
	}
	return nil
}
