package gates

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/grade"
	"quantscope/analysis/gates/suite"
	"quantscope/analysis/stats"
)

// table is a setup with results: pass says what an arm's answer to a case is worth.
func table(s *suite.Suite, arms int, placebo bool, pass func(Key) bool) (*Setup, []*Result) {
	specs := []ArmSpec{{Label: "base", Role: Baseline}}
	for i := 1; i < arms; i++ {
		specs = append(specs, ArmSpec{Label: fmt.Sprint("arm", i), Role: Candidate})
	}
	if placebo {
		specs = append(specs, ArmSpec{Label: "again", Role: Placebo})
	}
	setup := NewSetup(s, specs, Options{})
	var out []*Result
	for arm := range specs {
		for p := range s.Probes {
			for c := range s.Probes[p].Cases {
				for n := range s.Probes[p].Passes {
					k := Key{arm, p, c, n}
					r := &Result{Arm: arm, Probe: p, Case: c, Pass: n, Answer: grade.Answer{Replies: []chat.Reply{{Text: fmt.Sprint(k), CompletionTokens: 5, Finish: chat.FinishStop}}}}
					if r.Verdict.Passed = pass(k); !r.Verdict.Passed {
						r.Verdict.Fault = grade.WrongAnswer
					}
					out = append(out, r)
				}
			}
		}
	}
	return setup, out
}

func pairOf(t *testing.T, r *Report, probe, arm int) Pair {
	t.Helper()
	for _, p := range r.Pairs {
		if p.Probe == probe && p.Arm == arm {
			return p
		}
	}
	t.Fatalf("there is no pair of probe %d and arm %d", probe, arm)
	return Pair{}
}

func kinds(r *Report, kind FailKind) (out []Fail) {
	for _, f := range r.Fails {
		if f.Kind == kind {
			out = append(out, f)
		}
	}
	return out
}

func TestPairCounts(t *testing.T) {
	// Of 40 cases the arm loses 12 and wins 1; the placebo differs in 2.
	setup, results := table(asks(40, suite.Probe{}), 2, true, func(k Key) bool {
		switch k.Arm {
		case 1:
			return k.Case >= 12 && k.Case != 30
		case 2:
			return k.Case > 1 && k.Case != 39
		}
		return k.Case != 39
	})
	results[40+39].Verdict.Passed = true // arm 1 passes what the baseline does not
	r := Analyze(setup, results, nil, 0)
	p := pairOf(t, r, 0, 1)
	if p.OnlyBase != 13 || p.OnlyArm != 1 || p.Both != 26 || p.Neither != 0 || p.Cases != 40 || p.Noise != 2 {
		t.Fatalf("%+v", p)
	}
	if want, _ := stats.McNemar(13, 1); p.P != want || p.Adjusted != want {
		t.Errorf("p %v, adjusted %v, want %v", p.P, p.Adjusted, want)
	}
	if d, low, high := stats.PairedShares(26, 13, 1, 0, 0.95); p.Difference != d || p.Low != low || p.High != high {
		t.Errorf("difference %v (%v to %v), want %v (%v to %v)", p.Difference, p.Low, p.High, d, low, high)
	}
	if want := stats.McNemarDetectable(40, 14.0/40, 0.05, 0.8); math.Abs(p.Band-want) > 1e-6 {
		t.Errorf("band %v, want %v", p.Band, want)
	}
	if !p.Worse || p.Better || !strings.HasPrefix(p.Verdict, "worse: 27 of 40 against 39 of 40, -0.300 (") || !strings.Contains(p.Verdict, "differs from itself in 2 answers, this in 14") {
		t.Errorf("%+v", p)
	}
	if sum := pairOf(t, r, -1, 1); !strings.HasSuffix(sum.Verdict, fmt.Sprintf("40 cases tell a difference from %.3f up, and 0.05 takes %d", sum.Band, sum.CasesFor(0.05, 0))) {
		t.Errorf("in sum: %s", sum.Verdict)
	}
	if f := kinds(r, FailRegression); len(f) != 2 || f[0].Arm != 1 || f[0].Probe != 0 || f[1].Probe != -1 {
		t.Errorf("%+v", f)
	}
	again := pairOf(t, r, 0, 2)
	if again.Noise != -1 || again.Worse || again.OnlyBase != 2 {
		t.Errorf("placebo: %+v", again)
	}
}

// What it takes to tell the difference that was seen is about what the band says of as
// many cases, and a smaller one takes more. Answers are no cases: asked five times each,
// the same cases tell no more.
func TestCasesFor(t *testing.T) {
	p := Pair{Cases: 100, Fewer: 16, More: 4}
	n := p.CasesFor(band(100, 20, 0.95), 0)
	if n < 95 || n > 105 {
		t.Errorf("what 100 cases tell takes %d", n)
	}
	if m := p.CasesFor(0.05, 0.95); m < 4*n {
		t.Errorf("a difference of 0.05 takes %d, the larger one %d", m, n)
	}
	if (&Pair{}).CasesFor(0.05, 0) != -1 || p.CasesFor(0, 0) != -1 {
		t.Error("nothing takes no number of cases")
	}
	setup, results := table(asks(100, suite.Probe{Passes: 5}), 2, false, func(k Key) bool { return k.Arm == 0 || k.Case >= 10 || k.Pass > 0 })
	sum := pairOf(t, Analyze(setup, results, nil, 0), -1, 1)
	if sum.Fewer != 10 || sum.More != 0 || sum.OnlyBase != 10 {
		t.Fatalf("%+v", sum)
	}
	if m := sum.CasesFor(0.05, 0); sum.Band <= 0.05 || m <= sum.Cases {
		t.Errorf("%d cases tell a difference from %.3f up, and 0.05 takes %d", sum.Cases, sum.Band, m)
	}
}

// What is the baseline's answer is no test of which answers better: the baseline
// cannot fail it, so six other texts would be six losses. Neither an arm is worse by
// them, nor the baseline drifts.
func TestOwnAnswersAreNoTest(t *testing.T) {
	s := asks(25, suite.Probe{ID: "a"}, suite.Probe{ID: "a/same", Like: "a", Against: true, Need: 0.2})
	setup, results := table(s, 2, true, func(k Key) bool {
		return k.Probe == 0 || k.Arm == 0 || k.Arm == 1 && k.Case >= 12 || k.Arm == 2 && k.Case >= 7
	})
	r := Analyze(setup, results, nil, 0)
	p := pairOf(t, r, 1, 1)
	if p.OnlyBase != 12 || p.Worse || p.Noise != 7 || !strings.HasPrefix(p.Verdict, "other answers than the baseline's in 12 of 25, its own again in 7") {
		t.Errorf("%+v", p)
	}
	if sum := pairOf(t, r, -1, 1); sum.Both != 25 || sum.OnlyBase != 0 || sum.Cases != 25 || sum.Noise != 0 || sum.Worse {
		t.Errorf("in sum: %+v", sum)
	}
	for _, c := range r.Checks {
		if c.ID == CheckAgain && (c.State != CheckPassed || c.Message != "the baseline passed 25, and 25 when it was asked again, of 25") {
			t.Errorf("%+v", c)
		}
	}
	if f := kinds(r, FailRegression); len(f) != 0 {
		t.Errorf("%+v", f)
	}
	// It is no test among the others either: six lost of ten are told beside it.
	s = asks(10, suite.Probe{ID: "a"}, suite.Probe{ID: "a/same", Like: "a", Against: true})
	setup, results = table(s, 2, false, func(k Key) bool { return k.Arm == 0 || k.Case >= 6 })
	if p := pairOf(t, Analyze(setup, results, nil, 0), 0, 1); !p.Worse || p.Adjusted != p.P {
		t.Errorf("%+v", p)
	}
}

// A difference that the test finds is none where the baseline differs from itself as
// much.
func TestWithinNoise(t *testing.T) {
	setup, results := table(asks(40, suite.Probe{}), 2, true, func(k Key) bool {
		return k.Arm == 0 && k.Case%2 == 0 || k.Arm == 1 && k.Case >= 20 && k.Case%2 == 0 || k.Arm == 2 && (k.Case%2 == 0) != (k.Case < 10)
	})
	p := pairOf(t, Analyze(setup, results, nil, 0), 0, 1)
	if p.P > 0.05 || p.Noise != 10 || p.OnlyBase != 10 || p.Worse || !strings.HasPrefix(p.Verdict, "within noise") {
		t.Errorf("%+v", p)
	}
	setup, results = table(asks(40, suite.Probe{}), 2, false, func(k Key) bool { return k.Arm == 0 || k.Case >= 10 })
	if p := pairOf(t, Analyze(setup, results, nil, 0), 0, 1); !p.Worse || p.Noise != -1 {
		t.Errorf("without a placebo: %+v", p)
	}
}

// Five passes of one case, and the same case of a sibling probe, are one item: a
// model that is wrong on four cases of many is not told from chance by asking again.
func TestPassesAreNoItems(t *testing.T) {
	s := asks(20, suite.Probe{ID: "a", Passes: 5}, suite.Probe{ID: "a/sampled", Like: "a", Passes: 5})
	setup, results := table(s, 2, false, func(k Key) bool { return k.Arm == 0 || k.Case >= 4 })
	r := Analyze(setup, results, nil, 0)
	p := pairOf(t, r, 0, 1)
	want, _ := stats.McNemar(4, 0)
	if p.OnlyBase != 20 || p.Cases != 20 || p.P != want || p.Worse {
		t.Errorf("a probe: %+v, want p %v", p, want)
	}
	if _, low, high := stats.PairedShares(16, 4, 0, 0, 0.95); math.Abs(p.Low-low) > 1e-12 || math.Abs(p.High-high) > 1e-12 {
		t.Errorf("interval %v to %v, want that of 20 cases, %v to %v", p.Low, p.High, low, high)
	}
	if p := pairOf(t, r, -1, 1); p.Cases != 20 || p.P != want || p.OnlyBase != 40 {
		t.Errorf("all: %+v", p)
	}
}

// Of twenty probes one is always found at 5 %; not after adjusting.
func TestManyProbes(t *testing.T) {
	probes := make([]suite.Probe, 20)
	s := asks(10, probes...)
	setup, results := table(s, 2, false, func(k Key) bool { return k.Arm == 0 || k.Probe != 3 || k.Case >= 6 })
	p := pairOf(t, Analyze(setup, results, nil, 0), 3, 1)
	if want, _ := stats.McNemar(6, 0); p.P != want || want > 0.05 {
		t.Errorf("%+v", p)
	}
	// Only probes with discordant answers are tests.
	if !p.Worse {
		t.Errorf("one test among twenty probes: %+v", p)
	}
	setup, results = table(s, 2, false, func(k Key) bool { return k.Arm == 0 || k.Probe == 3 && k.Case >= 6 || k.Probe != 3 && k.Case > 0 })
	if p = pairOf(t, Analyze(setup, results, nil, 0), 3, 1); p.Worse || p.Adjusted < 0.6 || !strings.Contains(p.Verdict, "over all probes") {
		t.Errorf("one of twenty tests: %+v", p)
	}
}

// Answers that did not come say nothing of the model.
func TestErrorsAreNotCompared(t *testing.T) {
	setup, results := table(asks(20, suite.Probe{}), 2, false, func(Key) bool { return true })
	for _, r := range results[20:32] {
		r.Verdict = grade.Verdict{Fault: grade.Erred}
		r.Answer.Error = "connection reset"
	}
	r := Analyze(setup, results, nil, 0)
	if p := pairOf(t, r, 0, 1); p.Both != 8 || p.Cases != 8 || p.Worse || !strings.HasPrefix(p.Verdict, "the same verdict on all answers: 8 of 8") {
		t.Errorf("%+v", p)
	}
	if f := kinds(r, FailError); len(f) != 1 || !strings.Contains(f[0].Message, "12 of 20 answers of arm1 did not come: connection reset") {
		t.Errorf("%+v", f)
	}
	if len(kinds(r, FailNeed)) != 1 {
		t.Errorf("answers that did not come pass no gate: %+v", r.Fails)
	}
}

func TestNeed(t *testing.T) {
	for _, c := range []struct {
		need   float64
		passes int
		all    int
		ok     bool
	}{{1, 10, 10, true}, {1, 9, 10, false}, {0.9, 9, 10, true}, {0.9, 8, 10, false}, {0.7, 7, 10, true}, {0.29, 29, 100, true}, {0.29, 28, 100, false}, {0.001, 0, 10, false}} {
		setup, results := table(asks(c.all, suite.Probe{Need: c.need}), 1, false, func(k Key) bool { return k.Case < c.passes })
		r := Analyze(setup, results, nil, 0)
		if r.Rows[0].OK != c.ok || (len(kinds(r, FailNeed)) == 0) != c.ok {
			t.Errorf("%+v: %+v %+v", c, r.Rows[0], r.Fails)
		}
	}
	// Half of the answers, and those that are missing cannot save it.
	setup, results := table(asks(10, suite.Probe{Need: 0.8}), 1, false, func(k Key) bool { return k.Case >= 3 })
	if r := Analyze(setup, results[:5], nil, 0); len(kinds(r, FailNeed)) != 1 {
		t.Errorf("three of ten are lost, eight are needed: %+v", r.Fails)
	}
	if r := Analyze(setup, results[3:], nil, 0); r.Rows[0].Passed != 7 || r.Rows[0].OK {
		t.Errorf("answers are missing: %+v", r.Rows[0])
	}
	setup.Probes[0].Need = 0.7
	if r := Analyze(setup, results[3:], nil, 0); r.Rows[0].OK || len(r.Fails) > 0 {
		t.Errorf("enough have passed, and answers are missing: %+v", r.Rows[0])
	}
	setup.Probes[0].Need = 0.8
	if r := Analyze(setup, results[1:6], nil, 0); len(kinds(r, FailNeed)) != 0 || r.Rows[0].OK {
		t.Errorf("two of ten are lost, eight are needed: %+v", r.Fails)
	}
}

// The placebo says how noisy the baseline is; it shuts no gate of its own.
func TestPlaceboNeedsNothing(t *testing.T) {
	setup, results := table(asks(10, suite.Probe{}), 2, true, func(k Key) bool { return k.Arm != 2 || k.Case > 0 })
	r := Analyze(setup, results, nil, 0)
	if f := kinds(r, FailNeed); r.Rows[2].OK || len(f) != 0 {
		t.Errorf("%+v, %+v", r.Rows[2], f)
	}
}

func TestRows(t *testing.T) {
	setup, results := table(asks(10, suite.Probe{Timed: true}), 1, false, func(Key) bool { return true })
	results[0].Verdict = grade.Verdict{Fault: grade.Empty}
	results[1].Verdict = grade.Verdict{Fault: grade.Truncated}
	results[2].Verdict = grade.Verdict{Fault: grade.Malformed}
	results[3].Verdict = grade.Verdict{Fault: grade.Replacement, Figures: map[string]float64{"replacement": 3}}
	results[4].Verdict.Figures = map[string]float64{"replacement": 1}
	results[5].Answer.Replies[0].CompletionTokens = -1
	results[6].Answer.Replies[0].Total = 2e9
	low, high := stats.Wilson(6, 10, 0.9)
	want := Row{Passed: 6, Of: 10, All: 10, Low: low, High: high, Empty: 1, Truncated: 1, Malformed: 1, Replacement: 2, Events: 4, Tokens: 45, Seconds: 2}
	if got := Analyze(setup, results, nil, 0.9).Rows[0]; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Any results in any order, some missing: no panic, counts add up, and the order
// does not matter.
func TestAnalyzeProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := asks(rapid.IntRange(1, 6).Draw(t, "cases"), suite.Probe{ID: "a", Passes: rapid.IntRange(1, 3).Draw(t, "passes"), Timed: rapid.Bool().Draw(t, "timed")}, suite.Probe{ID: "b", Like: "a", Need: 0.5})
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		setup, results := table(s, rapid.IntRange(1, 3).Draw(t, "arms"), rapid.Bool().Draw(t, "placebo"), func(Key) bool { return rng.IntN(2) == 0 })
		for _, r := range results {
			switch rng.IntN(6) {
			case 0:
				r.Verdict, r.Answer = grade.Verdict{Fault: grade.Erred}, grade.Answer{Error: "gone"}
			case 1:
				r.Answer.Replies[0] = chat.Reply{CompletionTokens: 64, Finish: chat.FinishLength, CachedTokens: 500}
			}
		}
		results = results[:rng.IntN(len(results)+1)]
		var meters []*Meter
		for arm := range setup.Arms {
			if rng.IntN(2) == 0 {
				meters = append(meters, &Meter{Arm: arm, Counted: &chat.Counters{Drafted: rng.Int64N(5), Accepted: rng.Int64N(5), Drafts: rng.Int64N(3)}})
			}
		}
		r := Analyze(setup, results, meters, 0)
		mixed := slices.Clone(results)
		rng.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		if a, b := stripped(r), stripped(Analyze(setup, mixed, meters, 0)); a != b {
			t.Fatalf("in another order the report differs:\n%s\n%s", a, b)
		}
		of := 0
		for _, row := range r.Rows {
			of += row.Of
			if row.Passed > row.Of || row.Of > row.All || !(row.Low >= 0 && row.Low <= row.High && row.High <= 1) {
				t.Fatalf("%+v", row)
			}
		}
		if of != len(results) {
			t.Fatalf("%d answers in rows of %d", of, len(results))
		}
		for _, p := range r.Pairs {
			if p.Worse && p.Better || p.Verdict == "" || strings.Contains(p.Verdict, "%!") || p.Probe >= 0 && p.Adjusted < p.P {
				t.Fatalf("%+v", p)
			}
		}
		for _, c := range r.Checks {
			if c.Message == "" || strings.Contains(c.Message, "%!") || strings.Contains(c.Message, "NaN") {
				t.Fatalf("%+v", c)
			}
		}
	})
}

// What is not of the setup is left out.
func TestForeignResults(t *testing.T) {
	setup, results := table(asks(3, suite.Probe{}), 1, false, func(Key) bool { return true })
	clean := Analyze(setup, results, nil, 0)
	more := append(results, &Result{Arm: 5}, &Result{Probe: 9}, &Result{Case: 7}, &Result{Pass: 3}, results[0])
	if got := Analyze(setup, more, []*Meter{{Arm: 9}, {Arm: -1}}, 0); !reflect.DeepEqual(got.Rows, clean.Rows) || len(got.Meters) != 0 {
		t.Errorf("%+v", got.Rows)
	}
}

func BenchmarkAnalyze(b *testing.B) {
	probes := make([]suite.Probe, 25)
	setup, results := table(asks(33, probes...), 5, true, func(k Key) bool { return (k.Case*7+k.Arm*k.Probe)%5 > 0 })
	for b.Loop() {
		Analyze(setup, results, nil, 0)
	}
	b.ReportMetric(float64(len(results)), "answers")
}
