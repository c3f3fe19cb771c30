package gates

import "fmt"

// fails are the reasons for which the gates are shut. Those of a probe that cannot be
// met any more are there before its last answer.
func (a *analysis) fails(r *Report) []Fail {
	var out []Fail
	for _, c := range r.Checks {
		if c.State == CheckFailed {
			out = append(out, Fail{FailCheck, -1, c.Arm, c.ID + ": " + c.Message})
		}
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		if a.Arms[row.Arm].Role == Placebo {
			continue // it says how noisy the baseline is, which has a row of its own
		}
		p := &a.Probes[row.Probe]
		if need := needed(p); row.Passed+row.All-row.Of < need {
			out = append(out, Fail{FailNeed, row.Probe, row.Arm,
				fmt.Sprintf("%s: %s passes %d of %d, needs %d of %d", p.ID, a.Arms[row.Arm].Label, row.Passed, row.Of, need, row.All)})
		}
	}
	for i := range r.Pairs {
		if p := &r.Pairs[i]; p.Worse && a.Arms[p.Arm].Role == Candidate {
			out = append(out, Fail{FailRegression, p.Probe, p.Arm, fmt.Sprintf("%s: %s is %s", a.probeName(p.Probe), a.Arms[p.Arm].Label, p.Verdict)})
		}
	}
	for i := range r.Acceptance {
		if x := &r.Acceptance[i]; x.Verdict == AcceptanceBelow && a.Arms[x.Arm].Role == Candidate {
			out = append(out, Fail{FailRegression, x.Probe, x.Arm, fmt.Sprintf("%s: %s is %s", a.probeName(x.Probe), a.Arms[x.Arm].Label, x.Text)})
		}
	}
	for i := range r.Rows {
		if row := &r.Rows[i]; row.Erred > 0 {
			out = append(out, Fail{FailError, row.Probe, row.Arm,
				fmt.Sprintf("%s: %d of %d answers of %s did not come: %s", a.Probes[row.Probe].ID, row.Erred, row.Of, a.Arms[row.Arm].Label, a.firstError(row))})
		}
	}
	return out
}

func (a *analysis) probeName(probe int) string {
	if probe < 0 {
		return "all probes"
	}
	return a.Probes[probe].ID
}

func (a *analysis) firstError(row *Row) string {
	for _, r := range a.byArm[row.Arm] {
		if r.Probe == row.Probe && erred(r) {
			if r.Answer.Error != "" {
				return r.Answer.Error
			}
			return r.Verdict.Reason
		}
	}
	return ""
}
