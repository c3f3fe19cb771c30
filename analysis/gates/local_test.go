package gates

import (
	"context"
	"slices"
	"testing"

	"quantscope/analysis/candidate"
	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/local"
	"quantscope/analysis/gates/suite"
	"quantscope/kernels"
	"quantscope/quant/demo"
)

// demoArm is the embedded model as an arm.
func demoArm(t *testing.T, label string, role Role, spec string, o local.Options) ArmSpec {
	return ArmSpec{Label: label, Spec: spec, Role: role, Open: func(ctx context.Context) (chat.Target, error) {
		c, err := candidate.Open(ctx, spec, candidate.Options{Set: kernels.Best()})
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { c.Close() })
		o.Set = kernels.Best()
		return local.New(ctx, c, o)
	}}
}

// facts are questions that the embedded model was taught.
func facts(timed bool) *suite.Suite {
	s := &suite.Suite{Name: "facts"}
	p := suite.Probe{ID: "facts", Grader: "contains", Passes: 1, Need: 0.5, Timed: timed, Set: suite.Settings{MaxTokens: 64, Concurrency: 4}}
	for _, q := range [][2]string{{"What do roots do?", "plant"}, {"What is a desert?", "rain"}, {"What is 12+7?", "19"}, {"What is 31+8?", "39"},
		{"日本の首都はどこですか。", "東京"}, {"한국의 수도는 어디입니까?", "서울"}, {"Why do ships float?", "water"}, {"What is bread made of?", "flour"}} {
		p.Cases = append(p.Cases, suite.Case{ID: q[0], Turns: []suite.Turn{{User: q[0], Want: &suite.Want{Text: q[1]}}}})
	}
	s.Probes = []suite.Probe{p}
	return s
}

// The embedded model is measured honestly by all checks that a single arm has, and
// each thing that is made wrong on purpose is found by the check for it, and by no other.
func TestFaultsOfTheEngine(t *testing.T) {
	for _, c := range []struct {
		name  string
		o     local.Options
		timed bool
		fails string
	}{
		{"none", local.Options{}, true, ""},
		{"drafts", local.Options{Speculate: 3}, false, ""},
		{"prefix cache that is told", local.Options{PrefixCache: true}, true, ""},
		{"prefix cache", local.Options{Fault: local.CachedTimes}, true, CheckCached},
		{"prefix cache beside drafts", local.Options{Fault: local.CachedTimes, Speculate: 2}, false, CheckCached},
		{"log probabilities", local.Options{Fault: local.BadLogprobs, Speculate: 3}, false, CheckRank},
		{"empty", local.Options{Fault: local.CountEmpty}, false, CheckEmpty},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r *Report
			for try := 0; r == nil || try < 3 && seenCached(r) != (c.fails == CheckCached); try++ { // times are of a machine that is busy with other tests
				var err error
				if r, err = Run(t.Context(), facts(c.timed), []ArmSpec{demoArm(t, "demo", Baseline, demo.Label, c.o)}, Options{}); err != nil {
					t.Fatal(err)
				}
			}
			for _, k := range r.Checks {
				if (k.State == CheckFailed) != (k.ID == c.fails) {
					t.Errorf("%s is %s: %s", k.ID, k.State, k.Message)
				}
			}
			if c.fails != "" {
				wants(t, r, c.fails, 0, CheckFailed)
			}
			if c.fails == "" && !c.timed && r.Row(0, 0).Passed < 7 {
				t.Errorf("facts: %+v", r.Row(0, 0))
			}
			if c.o.PrefixCache {
				wants(t, r, CheckCached, 0, CheckPassed, "says so")
			}
			if c.o.Speculate > 0 {
				wants(t, r, CheckAcceptance, 0, CheckPassed, "tokens/s")
			}
		})
	}
}

// seenCached says that the look for remembered prompts failed.
func seenCached(r *Report) bool {
	return slices.ContainsFunc(r.Checks, func(k Check) bool { return k.ID == CheckCached && k.State == CheckFailed })
}
