package main

import (
	"slices"
	"testing"

	"quantscope/analysis/candidate"
	"quantscope/analysis/gates"
	"quantscope/analysis/gates/local"
	"quantscope/analysis/gates/suite"
	"quantscope/kernels"
)

// asked runs probes of the demo suite on the embedded model and on a candidate.
func asked(t *testing.T, probes []string, specs []string, faults []local.Fault) (*suite.Suite, *gates.Report, []*gates.Result) {
	t.Helper()
	s, err := suite.Open("demo")
	if err != nil {
		t.Fatal(err)
	}
	if probes != nil {
		s.Probes = slices.DeleteFunc(s.Probes, func(p suite.Probe) bool { return !slices.Contains(probes, p.ID) })
		if len(s.Probes) != len(probes) {
			t.Fatalf("%d of %d probes are there", len(s.Probes), len(probes))
		}
	}
	sets := kernels.Available()
	o := candidate.Options{Set: sets[len(sets)-1], Targets: "linear"}
	ref, err := candidate.Open(t.Context(), "demo", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ref.Close() })
	arms := []gates.ArmSpec{{Label: "bf16", Spec: "demo", Role: gates.Baseline, Open: opened(ref, o.Set, local.NoFault)}}
	for i, spec := range specs {
		c, err := candidate.Parse(t.Context(), ref, spec, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		arms = append(arms, gates.ArmSpec{Label: spec + string(faults[i]), Spec: spec, Role: gates.Candidate, Open: opened(c, o.Set, faults[i])})
	}
	var results []*gates.Result
	r, err := gates.Run(t.Context(), s, arms, gates.Options{Set: o.Set, Answered: func(r *gates.Result) { results = append(results, r) }})
	if err != nil {
		t.Fatal(err)
	}
	return s, r, results
}

// TestDemo: the embedded model passes every answer of the demo suite.
func TestDemo(t *testing.T) {
	s, r, results := asked(t, nil, nil, nil)
	for i := range s.Probes {
		if row := r.Row(i, 0); row.Passed != row.Of || row.Of != s.Probes[i].Answers() || !row.OK || row.Replacement+row.Malformed+row.Empty > 0 {
			t.Errorf("%s: %d of %d pass", s.Probes[i].ID, row.Passed, row.Of)
		}
	}
	for _, a := range results {
		if !a.Verdict.Passed {
			t.Errorf("%s %s: %s", s.Probes[a.Probe].ID, s.Probes[a.Probe].Cases[a.Case].ID, a.Verdict.Reason)
		}
	}
}

// TestFusedScale: with the first half's second-level scale for both of what servers
// fuse, there are broken characters where the same weights give none, and probes fail
// that pass.
func TestFusedScale(t *testing.T) {
	const clean, fault = 1, 2
	s, r, _ := asked(t, []string{"tools", "arithmetic", "repeat", "budget"}, []string{"nvfp4", "nvfp4"}, []local.Fault{local.NoFault, local.FusedScale})
	broken := [3]int{}
	for i := range s.Probes {
		a, b := r.Row(i, clean), r.Row(i, fault)
		broken[clean] += a.Replacement + a.Malformed
		broken[fault] += b.Replacement + b.Malformed
		if b.OK || 10*b.Passed > 8*a.Passed {
			t.Errorf("%s: %d of %d pass, with the fault %d", s.Probes[i].ID, a.Passed, a.Of, b.Passed)
		}
		if s.Probes[i].ID == "tools" && !a.OK {
			t.Errorf("tools: %d of %d pass without a fault", a.Passed, a.Of)
		}
		t.Logf("%s: %d and %d of %d pass", s.Probes[i].ID, a.Passed, b.Passed, a.Of)
	}
	if broken[clean] != 0 || broken[fault] == 0 {
		t.Errorf("%d answers with broken characters or calls, with the fault %d", broken[clean], broken[fault])
	}
	t.Log("broken:", broken)
}
