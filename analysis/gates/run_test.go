package gates

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"quantscope/analysis/gates/suite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRunAsksAll(t *testing.T) {
	base, cand := good("base", nil), good("cand", func(q string) bool { return q < "question 5" })
	s := asks(10, suite.Probe{Set: suite.Settings{Concurrency: 4}}, suite.Probe{Passes: 2})
	r, err := runs(context.Background(), s, arms(true, base, cand), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if row := r.Row(0, 1); row.Passed != 5 || row.Of != 10 || row.All != 10 || row.OK {
		t.Errorf("candidate: %+v", row)
	}
	if row := r.Row(1, 0); row.Passed != 20 || !row.OK {
		t.Errorf("baseline: %+v", row)
	}
	for _, p := range r.Pairs {
		t.Log(p.Probe, p.Arm, p.Verdict)
	}
	for _, p := range r.Fails {
		t.Log(p)
	}
}
