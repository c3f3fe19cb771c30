package gates

import (
	"cmp"
	"slices"

	"quantscope/analysis/gates/grade"
	"quantscope/analysis/stats"
)

// Analyze says what results mean, of a run that goes on as well: rows then say how
// many of their answers are there. level is that of intervals and, as 1 − level, of
// tests; 0 is 0.95. Results that the setup does not ask for are left out. The same
// results in any order give the same report.
func Analyze(s *Setup, results []*Result, meters []*Meter, level float64) *Report {
	a := newAnalysis(s, results, meters, level)
	r := &Report{Setup: s, Meters: a.ordered()}
	r.Rows = a.rows()
	r.Pairs = a.pairs()
	r.Acceptance = a.acceptances()
	r.Checks = a.checks(r)
	r.Fails = a.fails(r)
	return r
}

// analysis is a report while it is made.
type analysis struct {
	*Setup
	level  float64
	by     map[Key]*Result
	byArm  [][]*Result // in the order of keys
	meters []*Meter    // of each arm; nil where it is not done
}

func newAnalysis(s *Setup, results []*Result, meters []*Meter, level float64) *analysis {
	a := &analysis{Setup: s, level: levelOr(level), by: make(map[Key]*Result, len(results)),
		byArm: make([][]*Result, len(s.Arms)), meters: make([]*Meter, len(s.Arms))}
	for _, r := range results {
		if k := r.Key(); s.holds(k) && a.by[k] == nil {
			a.by[k] = r
			a.byArm[k.Arm] = append(a.byArm[k.Arm], r)
		}
	}
	for _, of := range a.byArm {
		slices.SortFunc(of, func(x, y *Result) int {
			return cmp.Or(cmp.Compare(x.Probe, y.Probe), cmp.Compare(x.Pass, y.Pass), cmp.Compare(x.Case, y.Case))
		})
	}
	for _, m := range meters {
		if m.Arm >= 0 && m.Arm < len(s.Arms) {
			a.meters[m.Arm] = m
		}
	}
	return a
}

// ordered are the meters that are there, arm after arm.
func (a *analysis) ordered() []*Meter {
	return slices.DeleteFunc(slices.Clone(a.meters), func(m *Meter) bool { return m == nil })
}

// rows are those of all probes and arms. Their intervals are Wilson's at every share:
// at 0 and at 1 he gives the end itself on that side and differs from the exact
// interval by less than a hundredth from ten answers on, and elsewhere his covers
// what it says on average where the exact one covers more. They are of answers as if
// each were drawn alone.
func (a *analysis) rows() []Row {
	out := make([]Row, 0, len(a.Probes)*len(a.Arms))
	for p := range a.Probes {
		for arm := range a.Arms {
			out = append(out, Row{Probe: p, Arm: arm, All: a.Probes[p].Answers()})
		}
	}
	for _, of := range a.byArm {
		for _, r := range of {
			out[r.Probe*len(a.Arms)+r.Arm].add(r, a.Probes[r.Probe].Timed)
		}
	}
	for i := range out {
		row := &out[i]
		row.Low, row.High = 0, 1 // nothing is known of no answers
		if row.Of > 0 {
			row.Low, row.High = stats.Wilson(row.Passed, row.Of, a.level)
		}
		row.OK = row.Of == row.All && row.Passed >= needed(&a.Probes[row.Probe])
	}
	return out
}

func (row *Row) add(r *Result, timed bool) {
	row.Of++
	if r.Verdict.Passed {
		row.Passed++
	}
	switch r.Verdict.Fault {
	case grade.Erred:
		row.Erred++
	case grade.Empty:
		row.Empty++
	case grade.Truncated:
		row.Truncated++
	case grade.Malformed:
		row.Malformed++
	}
	if n := int(r.Verdict.Figures["replacement"]); n > 0 {
		row.Replacement++
		row.Events += n
	}
	for i := range r.Answer.Replies {
		reply := &r.Answer.Replies[i]
		row.Tokens += int64(max(0, reply.CompletionTokens))
		if timed {
			row.Seconds += reply.Total.Seconds()
		}
	}
}

// erred says that an answer did not come, whatever its grader made of that.
func erred(r *Result) bool { return r.Answer.Error != "" || r.Verdict.Fault == grade.Erred }
