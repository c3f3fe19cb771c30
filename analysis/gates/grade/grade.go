package grade

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/suite"
)

// turn is one reply with what it is held against.
type turn struct {
	i     int
	ask   string
	reply *chat.Reply
	want  *suite.Want // nil: none
	text  string      // that a reader sees: without reasoning that stands in it
	off   int         // where in reply.Text text begins
	cut   bool        // at the budget
	m     measure

	repeat float64 // share of text that a loop takes
	loop   [2]int  // where in text it is
}

// sheet is an answer while it is graded.
type sheet struct {
	p       *suite.Probe
	c       *suite.Case
	turns   []turn
	base    *Answer
	figures map[string]float64
	marks   []Mark
}

// finding is why an answer fails; the zero value is none.
type finding struct {
	fault  Fault
	reason string
}

func found(f Fault, format string, args ...any) finding {
	return finding{f, fmt.Sprintf(format, args...)}
}

// graders say what they found in a sheet, or of a pass what makes it one.
var graders = map[string]func(*sheet) (finding, string){
	"acceptance": (*sheet).acceptance, "budget": (*sheet).budget, "call": (*sheet).call, "callsites": (*sheet).callsites, "clean": (*sheet).clean,
	"coherence": (*sheet).coherence, "contains": (*sheet).contains, "edit": (*sheet).edit, "exact": (*sheet).exact,
	"json": (*sheet).json, "loop": (*sheet).loop, "needle": (*sheet).needle, "number": (*sheet).number,
	"same": (*sheet).same, "script": (*sheet).script,
}

// Grade holds an answer against what its case wants. base is the baseline's answer
// to the same case, for probes that ask for it; nil is none, and then such a probe's
// answers fail with that reason.
//
// Whatever the grader: an answer that did not come, an empty one, one with
// characters that are none (but for graders same and acceptance, and where the question
// has such itself), and one at its budget fail, and are told in this order.
func Grade(p *suite.Probe, c *suite.Case, a *Answer, base *Answer) Verdict {
	s := &sheet{p: p, c: c, base: base, figures: map[string]float64{}}
	f, pass := s.grade(a)
	v := Verdict{Passed: f.fault == "", Reason: f.reason, Fault: f.fault, Figures: s.figures, Marks: s.marks}
	if v.Passed {
		v.Reason = pass
	}
	return v
}

func (s *sheet) grade(a *Answer) (finding, string) {
	g, ok := graders[s.p.Grader]
	if !ok {
		return found(Erred, "unknown grader %q", s.p.Grader), ""
	}
	if a == nil {
		return found(Erred, "there is no answer"), ""
	}
	s.lay(a)
	s.measure()
	wanted := max(len(s.c.Turns), 1)
	switch {
	case a.Error != "":
		return found(Erred, "%s", oneLine(a.Error)), ""
	case len(a.Replies) < wanted:
		return found(Erred, "%d of %d turns were answered", len(a.Replies), wanted), ""
	}
	if f := s.common(); f.fault != "" {
		return f, ""
	}
	return g(s)
}

// lay puts replies beside what they are held against; more than were asked for are
// left out.
func (s *sheet) lay(a *Answer) {
	for i := range a.Replies {
		t := turn{i: i, reply: &a.Replies[i]}
		switch {
		case s.c.Prompt != "" && i == 0:
			t.ask, t.want = s.c.Prompt, s.c.Want
		case s.c.Prompt == "" && i < len(s.c.Turns):
			t.ask, t.want = s.c.Turns[i].User, s.c.Turns[i].Want
		default:
			continue
		}
		t.text, t.off = visible(t.reply.Text)
		t.cut = t.reply.Finish == chat.FinishLength || t.reply.Finish == "" && s.p.Set.MaxTokens > 0 && t.reply.CompletionTokens >= s.p.Set.MaxTokens
		s.turns = append(s.turns, t)
	}
}

// measure fills in the figures that every verdict has.
func (s *sheet) measure() {
	for _, name := range []string{"replacement", "cut", "control", "runes", "repeat", "malformed"} {
		s.figures[name] = 0
	}
	for i := range s.turns {
		t := &s.turns[i]
		t.m = measured(t.reply.Text, t.cut)
		more := measured(t.reply.Reasoning, t.cut).broken
		for _, c := range t.reply.ToolCalls {
			// A broken character may be written out in an argument's text.
			more += measured(c.Arguments, false).broken + measured(c.Name, false).broken + strings.Count(strings.ToLower(c.Arguments), `\ufffd`)
		}
		s.figures["replacement"] += float64(t.m.broken + more)
		s.figures["control"] += float64(t.m.control)
		s.figures["runes"] += float64(t.m.runes)
		t.repeat, t.loop = loopOf(t.text)
		s.figures["repeat"] = max(s.figures["repeat"], t.repeat)
		if t.m.cut {
			s.figures["cut"] = 1
		}
		if malformed(t.text) != "" {
			s.figures["malformed"] = 1
		}
		for _, at := range t.m.places {
			s.mark(i, at, Replacement)
		}
	}
}

// maxMarks bounds what a verdict points at.
const maxMarks = 64

// mark points at bytes of a reply's text.
func (s *sheet) mark(turn int, at [2]int, f Fault) {
	if len(s.marks) < maxMarks {
		s.marks = append(s.marks, Mark{turn, at, f})
	}
}

// endings are reasons to end that are no fault, where the budget is looked at as well.
// content_filter, abort, error and whatever else there is broke an answer off.
var endings = []string{"", chat.FinishStop, chat.FinishTools, chat.FinishLength}

// common are the rules of all graders.
func (s *sheet) common() finding {
	asked := false
	for i := range s.turns {
		t := &s.turns[i]
		asked = asked || strings.ContainsRune(t.ask, utf8.RuneError)
		calls := s.p.Grader == "call" && len(t.reply.ToolCalls) > 0
		if calls || !blank(t.text) {
			continue
		}
		switch {
		case t.cut && (t.reply.Reasoning != "" || !blank(t.reply.Text)):
			return found(Empty, "%sreasoning took the budget of %d tokens, and there is no answer", s.at(i), s.p.Set.MaxTokens)
		case t.cut:
			return found(Empty, "%snothing at the budget of %d tokens", s.at(i), s.p.Set.MaxTokens)
		case len(t.reply.ToolCalls) > 0:
			return found(Empty, "%sa call of %s in place of an answer", s.at(i), quote(t.reply.ToolCalls[0].Name))
		case t.reply.Reasoning != "" || !blank(t.reply.Text):
			return found(Empty, "%sreasoning, and no answer", s.at(i))
		}
		return found(Empty, "%sthe answer is empty", s.at(i))
	}
	asIs := s.p.Grader == "same" || s.p.Grader == "acceptance" // whatever it says
	if n := s.figures["replacement"]; n > 0 && !asked && !asIs {
		return found(Replacement, "%s%s", counted(int(n), "character that is none", "characters that are none"), s.firstMark())
	}
	if n := s.figures["control"]; n > 0 && !asIs {
		return found(Replacement, "%s%s", counted(int(n), "control character", "control characters"), s.firstMark())
	}
	for i := range s.turns {
		if f := s.turns[i].reply.Finish; !slices.Contains(endings, f) {
			return found(Truncated, "%sbroken off, as its end is %s: %s", s.at(i), quote(f), tail(s.turns[i].text))
		}
		if s.turns[i].cut && !s.p.Set.MayTruncate {
			return found(Truncated, "%scut at the budget of %d tokens: %s", s.at(i), s.p.Set.MaxTokens, tail(s.turns[i].text))
		}
	}
	return finding{}
}

// firstMark says where to look.
func (s *sheet) firstMark() string {
	if len(s.marks) == 0 {
		return " in reasoning or calls"
	}
	m := s.marks[0]
	return fmt.Sprintf(", the first %sat byte %d: %s", s.at(m.Turn), m.At[0], around(s.turns[m.Turn].reply.Text, m.At[0]))
}

// at names a turn where there are several.
func (s *sheet) at(i int) string {
	if len(s.c.Turns) < 2 {
		return ""
	}
	return fmt.Sprintf("turn %d: ", i+1)
}

// each grades the turns that have a want; the last pass is told.
func (s *sheet) each(f func(t *turn) (finding, string)) (finding, string) {
	pass, any := "", false
	for i := range s.turns {
		t := &s.turns[i]
		if t.want == nil {
			continue
		}
		bad, good := f(t)
		if bad.fault != "" {
			bad.reason = s.at(i) + bad.reason
			return bad, ""
		}
		pass, any = s.at(i)+good, true
	}
	if !any {
		return found(Erred, "the case wants nothing that %s grades", s.p.Grader), ""
	}
	return finding{}, pass
}

func (s *sheet) flag(name string) bool { b, _ := s.p.Arg(name).(bool); return b }

func (s *sheet) num(name string) float64 { f, _ := s.p.Arg(name).(float64); return f }
