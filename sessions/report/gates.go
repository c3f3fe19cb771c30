package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"quantscope/analysis/gates"
	"quantscope/analysis/gates/grade"
	"quantscope/sessions"
)

// gatePart is what one run of gates says.
type gatePart struct {
	Title, Note string
	Checks      table // first: whether the rest can be believed
	Quiet       table // checks that say nothing against it
	Scores      table
	Pairs       table
	Arms        table
	Texts       table
	Failing     []failing
	More        string // what of them is not shown
}

// asked is a run of gates with its report.
type asked struct {
	run *sessions.GateRun
	*gates.Report
}

// gateParts are all runs that a session holds.
func (r *Report) gateParts() []gatePart {
	var out []gatePart
	for _, g := range r.state.Gates {
		a := asked{g, g.Analyze()}
		p := gatePart{Title: g.Setup.Suite, Note: a.note(), Scores: a.scores(), Pairs: a.pairs(), Arms: a.arms(), Texts: a.texts()}
		p.Checks, p.Quiet = a.checks()
		p.Failing, p.More = a.failing()
		out = append(out, p)
	}
	return out
}

func (a *asked) arm(i int) string {
	if i < 0 || i >= len(a.run.Setup.Arms) {
		return ""
	}
	return a.run.Setup.Arms[i].Label
}

// armCell names an arm, with its sign as variants have theirs.
func (a *asked) armCell(i int) td {
	c := td{Text: a.arm(i), Mark: sign(i), V: i % 8}
	switch role := a.run.Setup.Arms[i].Role; role {
	case gates.Baseline, gates.Placebo:
		c.Sub = string(role)
	}
	return c
}

// note says how the run stands and what was asked.
func (a *asked) note() string {
	s := a.run.Setup
	done, of := a.run.Answers()
	state := "Unfinished"
	if e := a.run.End; e != nil {
		state = capital(e.State)
		if e.Reason != "" {
			state += " (" + e.Reason + ")"
		}
	}
	text := fmt.Sprintf("%s: %s of %s answers, %s, suite sha256 %.12s.", state, thousands(int64(done)), thousands(int64(of)), counted(len(s.Probes), "probe", "probes"), s.SHA256)
	if len(a.run.Settings) > 0 {
		var words []string
		for k, v := range a.run.Settings {
			words = append(words, k+" "+v)
		}
		slices.Sort(words)
		text += " Asked with " + strings.Join(words, ", ") + "."
	}
	return text
}

// stateSigns stand beside the words of checks.
var stateSigns = map[gates.CheckState]string{gates.CheckPassed: "✓", gates.CheckFailed: "✗", gates.CheckUnknown: "?", gates.CheckIdle: "–"}

var stateOrder = []gates.CheckState{gates.CheckFailed, gates.CheckUnknown, gates.CheckPassed, gates.CheckIdle}

// checks are the doubts about the measurement: those that were right, or could not
// be settled, and the others. What is said alike of several arms is one line.
func (a *asked) checks() (loud, quiet table) {
	cols := []column{{Name: "check"}, {Name: "state"}, {Name: "arm"}, {Name: "what was found"}}
	loud = table{Caption: "Can the measurement be believed?", Fixed: true, Cols: cols}
	quiet = table{Caption: "Checks that passed, and what there is nothing to check of", Fixed: true, Cols: cols}
	list := slices.Clone(a.Checks)
	slices.SortStableFunc(list, func(x, y gates.Check) int {
		return cmp.Or(cmp.Compare(slices.Index(stateOrder, x.State), slices.Index(stateOrder, y.State)), cmp.Compare(slices.Index(gates.CheckIDs(), x.ID), slices.Index(gates.CheckIDs(), y.ID)))
	})
	for i := 0; i < len(list); {
		c := list[i]
		arms := []string{cmp.Or(a.arm(c.Arm), "all")}
		for i++; i < len(list) && list[i].ID == c.ID && list[i].State == c.State && list[i].Message == c.Message; i++ {
			arms = append(arms, cmp.Or(a.arm(list[i].Arm), "all"))
		}
		t := &quiet
		if c.State == gates.CheckFailed || c.State == gates.CheckUnknown {
			t = &loud
		}
		t.Rows = append(t.Rows, row{Cells: []td{{Text: c.ID}, {Text: stateSigns[c.State] + "\u00a0" + string(c.State)}, {Text: strings.Join(arms, ", ")}, {Text: capital(c.Message)}}})
	}
	loud.Note = "A check that could not be made is unknown, never passed."
	switch {
	case len(list) == 0:
		loud.Note = "Nothing was checked yet."
	case len(loud.Rows) == 0:
		loud.Note = "Every check that there was something for passed."
	}
	return loud, quiet
}

// scores is n of m for every probe and arm.
func (a *asked) scores() table {
	s := a.run.Setup
	t := table{Caption: "Answers that pass", Fixed: true, Cols: []column{{Name: "probe"}, {Name: "need", Num: true}}}
	for i, arm := range s.Arms {
		t.Cols = append(t.Cols, column{Name: arm.Label, Sub: cmp.Or(map[gates.Role]string{gates.Baseline: "baseline", gates.Placebo: "baseline again"}[arm.Role], fmt.Sprintf("arm %d", i)), Num: true})
	}
	rows := map[[2]int]*gates.Row{}
	for i := range a.Rows {
		rows[[2]int{a.Rows[i].Probe, a.Rows[i].Arm}] = &a.Rows[i]
	}
	sums := make([][2]int, len(s.Arms))
	group := ""
	for p := range s.Probes {
		probe := &s.Probes[p]
		line := row{Cells: []td{{Text: probe.ID, Sub: probe.About}, numeric(Share(probe.Need), probe.Need)}}
		if probe.Group != group {
			group = probe.Group
			line.Part = group
		}
		for i := range s.Arms {
			c := rows[[2]int{p, i}]
			if c == nil || c.Of == 0 {
				line.Cells = append(line.Cells, numeric(none, math.NaN()))
				continue
			}
			sums[i][0] += c.Passed
			sums[i][1] += c.Of
			line.Cells = append(line.Cells, score(c))
		}
		t.Rows = append(t.Rows, line)
	}
	all := row{Part: "all", Cells: []td{{Text: "sum"}, {}}}
	for i := range sums {
		c := numeric(none, math.NaN())
		if sums[i][1] > 0 {
			c = numeric(fmt.Sprintf("%d/%d", sums[i][0], sums[i][1]), float64(sums[i][0])/float64(sums[i][1]))
		}
		all.Cells = append(all.Cells, c)
	}
	t.Rows = append(t.Rows, all)
	t.Note = "Passed of answered, with the 95 % interval of the share below. ✓ reaches what the probe needs, ✗ does not, … is not over. An answer that is empty, cut off or did not come is no pass."
	return t
}

// score is the cell of a probe and an arm.
func score(c *gates.Row) td {
	sign := "✗"
	switch {
	case c.Of < c.All:
		sign = "…"
	case c.OK:
		sign = "✓"
	}
	out := numeric(fmt.Sprintf("%s %d/%d", sign, c.Passed, c.Of), float64(c.Passed)/float64(c.Of))
	parts := []string{fmt.Sprintf("[%s, %s]", fixed(c.Low, 2), fixed(c.High, 2))}
	for _, n := range []struct {
		count int
		word  string
	}{{c.Erred, "erred"}, {c.Empty, "empty"}, {c.Truncated, "truncated"}, {c.Malformed, "malformed"}, {c.Replacement, "with U+FFFD"}} {
		if n.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n.count, n.word))
		}
	}
	out.Sub = strings.Join(parts, ", ")
	return out
}

// pairs hold arms against the baseline: all probes in sum, and each where answers
// differ.
func (a *asked) pairs() table {
	t := table{
		Caption: "Against the baseline", Fixed: true,
		Cols: []column{{Name: "arm"}, {Name: "probe"}, {Name: "only the baseline", Sub: "passes", Num: true}, {Name: "only the arm", Sub: "passes", Num: true},
			{Name: "difference", Sub: "of shares", Num: true}, {Name: "p", Sub: "McNemar, exact", Num: true}, {Name: "band", Sub: "that so many tell", Num: true}, {Name: "placebo", Sub: "discordant", Num: true}, {Name: "verdict"}},
	}
	same := 0
	for _, p := range a.Pairs {
		probe := "all"
		if p.Probe >= 0 {
			if p.OnlyArm+p.OnlyBase == 0 && !p.Better && !p.Worse {
				same++
				continue
			}
			probe = a.run.Setup.Probes[p.Probe].ID
		}
		chance := numeric(none, p.P)
		if !math.IsNaN(p.P) {
			chance.Text = Chance(p.P)
		}
		diff := numeric(none, p.Difference)
		if !math.IsNaN(p.Difference) {
			diff.Text, diff.Sub = fmt.Sprintf("%+.3f", p.Difference), fmt.Sprintf("[%s, %s]", fixed(p.Low, 3), fixed(p.High, 3))
		}
		band := numeric(none, p.Band)
		if !math.IsNaN(p.Band) {
			band.Text = fixed(p.Band, 3)
		}
		noise := td{Text: none}
		if p.Noise >= 0 {
			noise.Text = fmt.Sprint(p.Noise)
		}
		t.Rows = append(t.Rows, row{Cells: []td{a.armCell(p.Arm), {Text: probe}, count(int64(p.OnlyBase)), count(int64(p.OnlyArm)), diff, chance, band, noise, {Text: capital(p.Verdict)}}})
	}
	if same > 0 {
		t.Note = counted(same, "pair of arm and probe agrees", "pairs of arm and probe agree") + " on every answer."
	}
	return t
}

// arms are who answered, how fast, and what of drafts was accepted.
func (a *asked) arms() table {
	t := table{
		Caption: "Arms", Fixed: true,
		Cols: []column{{Name: "arm"}, {Name: "who answers"}, {Name: "model"}, {Name: "tokens", Num: true}, {Name: "tokens/s", Sub: "by the clock", Num: true},
			{Name: "acceptance", Sub: "of drafted tokens", Num: true}, {Name: "accepted length", Sub: "tokens a draft brings", Num: true}, {Name: "content"}},
		Note: "Acceptance stands beside accepted length and tokens/s, or not at all.",
	}
	meters := map[int]*gates.Meter{}
	for _, m := range a.run.Meters {
		meters[m.Arm] = m
	}
	for i := range a.run.Setup.Arms {
		who, model, content := td{Text: "not reached"}, td{Text: none}, td{Text: none}
		if i < len(a.run.Opened) && a.run.Opened[i] != nil {
			id := a.run.Opened[i]
			who = td{Text: strings.TrimSpace(cmp.Or(id.Engine, id.Kind) + " " + id.Version), Sub: a.run.Setup.Arms[i].Spec}
			model = td{Text: cmp.Or(id.Model, none), Sub: id.Effective}
			if id.Content != "" {
				content = td{Text: fmt.Sprintf("%.12s", id.Content), Code: true}
			}
		}
		cells := []td{a.armCell(i), who, model, numeric(none, math.NaN()), numeric(none, math.NaN()), numeric(none, math.NaN()), numeric(none, math.NaN()), content}
		if m := meters[i]; m != nil {
			cells[3] = count(m.Tokens)
			if m.Seconds > 0 {
				speed := float64(m.Tokens) / m.Seconds
				cells[4] = numeric(fixed(speed, 1), speed)
				if m.Counted != nil {
					if rate, length := m.Counted.Acceptance(); !math.IsNaN(rate) && !math.IsNaN(length) {
						cells[5], cells[6] = numeric(Share(rate), rate), numeric(fixed(length, 2), length)
					}
				}
			}
		}
		t.Rows = append(t.Rows, row{Cells: cells})
	}
	return t
}

// texts are log probabilities through the arms.
func (a *asked) texts() table {
	s := a.run.Setup
	if s.Texts == nil {
		return table{}
	}
	t := table{
		Caption: "Log probabilities of " + s.Texts.Name,
		Cols: []column{{Name: "arm"}, {Name: "positions", Num: true}, {Name: "perplexity", Num: true}, {Name: "median rank", Sub: "of the next token", Num: true}, {Name: "seen", Sub: "by the likeliest", Num: true},
			{Name: "KL, at least", Sub: "nats, a lower bound", Num: true}, {Name: "top-1", Sub: "as the baseline", Num: true}},
		Note: fmt.Sprintf("Of the %d likeliest tokens at each position. The KL is a lower bound: tokens that both told, and the rest as one. It is never to be held against KL over the whole vocabulary. sha256 %.12s.", s.Texts.Top, s.Texts.SHA256),
	}
	for _, m := range a.run.Meters {
		x := m.Arm1
		if x == nil {
			continue
		}
		figure := func(v float64, write func(float64) string) td {
			if math.IsNaN(v) {
				return numeric(none, v)
			}
			return numeric(write(v), v)
		}
		cells := []td{a.armCell(m.Arm), count(int64(x.Positions)), figure(x.PPL, Places(3)), figure(x.MedianRank, Places(1)), figure(x.Seen, Share), numeric(none, math.NaN()), numeric(none, math.NaN())}
		if p := m.Pair; p != nil {
			cells[5], cells[6] = nats(p.KL), figure(p.Top1, Share)
			cells[5].Text = "≥ " + cells[5].Text
			if !math.IsNaN(p.SE) {
				cells[5].Sub = "±" + nats(p.SE).Text
			}
		}
		t.Rows = append(t.Rows, row{Cells: cells})
	}
	return t
}

// Bounds of what is shown of failing answers.
const (
	mostFailing = 40
	mostShown   = 1500 // characters of a text
)

// failing is an answer that does not pass, beside the baseline's.
type failing struct {
	Arm, Mark            string
	V                    int
	Probe, Case          string
	Fault, Reason        string
	Prompt, Output, Base []piece
	BaseSays             string // "" where there is none to compare with
}

// failing are the answers that do not pass: first those that the baseline does.
func (a *asked) failing() ([]failing, string) {
	s := a.run.Setup
	by := map[gates.Key]*gates.Result{}
	var list []*gates.Result
	for _, r := range a.run.Results {
		by[r.Key()] = r
		if !r.Verdict.Passed {
			list = append(list, r)
		}
	}
	base := func(r *gates.Result) *gates.Result {
		k := r.Key()
		if k.Arm == s.Baseline() {
			return nil
		}
		k.Arm = s.Baseline()
		return by[k]
	}
	lost := func(r *gates.Result) int {
		switch b := base(r); {
		case r.Arm == s.Baseline(), r.Arm == s.Placebo():
			return 2
		case b != nil && b.Verdict.Passed:
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(x, y *gates.Result) int {
		return cmp.Or(cmp.Compare(lost(x), lost(y)), cmp.Compare(x.Probe, y.Probe), cmp.Compare(x.Case, y.Case), cmp.Compare(x.Pass, y.Pass), cmp.Compare(x.Arm, y.Arm))
	})
	more := ""
	if n := len(list) - mostFailing; n > 0 {
		more = counted(n, "failing answer is", "failing answers are") + " in the session and not here."
		list = list[:mostFailing]
	}
	var out []failing
	for _, r := range list {
		p := &s.Probes[r.Probe]
		f := failing{Arm: a.arm(r.Arm), Mark: sign(r.Arm), V: r.Arm % 8, Probe: p.ID, Case: p.Cases[r.Case].ID, Fault: string(r.Verdict.Fault), Reason: oneLine(r.Verdict.Reason), Prompt: visible(promptOf(s, r)), Output: visible(outputOf(&r.Answer))}
		if p.Passes > 1 {
			f.Case += fmt.Sprintf(", pass %d", r.Pass+1)
		}
		if b := base(r); b != nil {
			f.BaseSays, f.Base = "the baseline fails too", visible(outputOf(&b.Answer))
			if b.Verdict.Passed {
				f.BaseSays = "the baseline passes"
			}
		}
		out = append(out, f)
	}
	return out, more
}

// promptOf is what was asked last.
func promptOf(s *gates.Setup, r *gates.Result) string {
	c := &s.Probes[r.Probe].Cases[r.Case]
	if c.Prompt != "" || len(c.Turns) == 0 {
		return c.Prompt
	}
	return c.Turns[min(max(len(r.Answer.Replies)-1, 0), len(c.Turns)-1)].User
}

// outputOf is what came last.
func outputOf(a *grade.Answer) string {
	if len(a.Replies) == 0 {
		return a.Error
	}
	r := &a.Replies[len(a.Replies)-1]
	text := r.Text
	for _, c := range r.ToolCalls {
		if text != "" {
			text += "\n"
		}
		text += c.Name + " " + c.Arguments
	}
	if a.Error != "" {
		text += "\n" + a.Error
	}
	return text
}
