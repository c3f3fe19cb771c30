package gates

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/grade"
	"quantscope/analysis/gates/suite"
)

// An arm that is gone ends the run, and its last questions are asked again.
func TestGone(t *testing.T) {
	for _, many := range []int{1, 4} {
		f := good("base", nil)
		gone := func(n int, r chat.Request) error {
			var i int
			if _, err := fmt.Sscanf(last(r), "question %d", &i); err == nil && (i == 1 || i >= 10) {
				return &chat.Error{At: "http://there", Kind: chat.Absent, Reason: "connection refused"}
			}
			return nil
		}
		f.fail = gone
		var results []*Result
		s := asks(40, suite.Probe{Set: suite.Settings{Concurrency: many}})
		r, err := runs(t.Context(), s, arms(false, f), Options{Answered: func(r *Result) { results = append(results, r) }})
		var e *chat.Error
		if !errors.As(err, &e) || e.Kind != chat.Absent || !strings.HasPrefix(err.Error(), "arm0: ") || !strings.Contains(err.Error(), "connection refused") {
			t.Fatalf("%v", err)
		}
		if r == nil || len(r.Meters) != 0 || r.Row(0, 0).Of != len(results) {
			t.Errorf("the report of what came: %+v", r)
		}
		erred := 0
		for _, r := range results {
			if r.Answer.Error != "" {
				erred++
			}
		}
		if erred > 1+(many-1)*(goneAfter+many-2) { // an answer that is slow to come may come after some
			t.Errorf("%d answers that nobody gave are results; one, that others came after, is", erred)
		}
		f.fail = nil
		r, err = runs(t.Context(), s, arms(false, f), Options{Prior: results})
		if err != nil || r.Row(0, 0).Of != 40 || r.Row(0, 0).Erred != erred {
			t.Errorf("gone on with: %v, %+v", err, r.Row(0, 0))
		}
	}
}

// An answer that comes late, after the arm is taken to be gone, is a result, and makes
// none of those that found nobody.
func TestLateAnswerOfOneThatIsGone(t *testing.T) {
	s := asks(20, suite.Probe{Set: suite.Settings{Concurrency: 4}})
	setup := NewSetup(s, arms(false, good("base", nil)), Options{})
	a := &asking{run: &run{setup: setup, results: map[Key]*Result{}}}
	n := 0
	var err error
	for ; err == nil && n < 20; n++ {
		err = a.deliver(&Result{Case: n, Answer: grade.Answer{Error: "refused", Kind: chat.Absent}}, &s.Probes[0])
	}
	if err == nil || n != goneAfter+3 {
		t.Fatalf("gone after %d: %v", n, err)
	}
	for _, late := range []*Result{{Case: n}, {Case: n + 1, Answer: grade.Answer{Error: "refused", Kind: chat.Absent}}} {
		if err := a.deliver(late, &s.Probes[0]); err != nil {
			t.Error(err)
		}
	}
	if a.settle(); len(a.results) != 1 || a.results[Key{Case: n}] == nil {
		t.Errorf("%d results", len(a.results))
	}
}

func TestResume(t *testing.T) {
	s := asks(10, suite.Probe{Set: suite.Settings{Concurrency: 3}}, suite.Probe{Against: true})
	whole, err := runs(t.Context(), s, arms(true, good("base", nil), good("cand", nil)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, after := range []int{0, 1, 7, 10, 19, 20, 21, 33, 40, 59, 60} {
		ctx, cancel := context.WithCancel(t.Context())
		var prior []*Result
		var meters []*Meter
		seen := map[Key]bool{}
		base, cand := good("base", nil), good("cand", nil)
		o := Options{Metered: func(m *Meter) { meters = append(meters, m) }, Answered: func(r *Result) {
			if seen[r.Key()] {
				t.Errorf("%v is asked twice", r.Key())
			}
			seen[r.Key()] = true
			if prior = append(prior, r); len(prior) >= after {
				cancel()
			}
		}}
		if after == 0 {
			cancel()
		}
		_, err := runs(ctx, s, arms(true, base, cand), o)
		if after < 60 && !errors.Is(err, context.Canceled) {
			t.Fatalf("after %d: %v", after, err)
		}
		o.Prior, o.Meters = slices.Clone(prior), slices.Clone(meters)
		first := len(prior)
		r, err := runs(t.Context(), s, arms(true, base, cand), o)
		if err != nil {
			t.Fatal(err)
		}
		if first+len(prior[first:]) != 60 {
			t.Errorf("after %d: %d results", after, len(prior))
		}
		if fmt.Sprintf("%+v %+v", r.Rows, r.Pairs) != fmt.Sprintf("%+v %+v", whole.Rows, whole.Pairs) {
			t.Errorf("after %d the report differs", after)
		}
		cancel()
	}
}

// What an arm that is finished was asked is not asked again, nor is it opened.
func TestResumeOpensWhatIsMissing(t *testing.T) {
	s := asks(3, suite.Probe{})
	var results []*Result
	var meters []*Meter
	base := good("base", nil)
	o := Options{Answered: func(r *Result) { results = append(results, r) }, Metered: func(m *Meter) { meters = append(meters, m) }}
	if _, err := runs(t.Context(), s, arms(true, base, good("cand", nil)), o); err != nil {
		t.Fatal(err)
	}
	asked := base.asked
	kept := slices.DeleteFunc(slices.Clone(results), func(r *Result) bool { return r.Arm == 1 && r.Case == 2 })
	cand := good("cand", nil)
	r, err := runs(t.Context(), s, arms(true, base, cand), Options{Prior: kept, Meters: meters})
	if err != nil {
		t.Fatal(err)
	}
	if base.asked != asked {
		t.Errorf("the baseline was asked %d more", base.asked-asked)
	}
	if n := strings.Count(fmt.Sprint(cand.requests), "question 2"); n != 1 || strings.Contains(fmt.Sprint(cand.requests), "question 1 ") {
		t.Errorf("of the candidate question 2 alone was missing: %v", cand.requests)
	}
	if len(r.Meters) != 3 || r.Row(0, 1).Of != 3 {
		t.Errorf("%d meters, %+v", len(r.Meters), r.Row(0, 1))
	}
}

// Two answers that nobody gave at the end of one probe, and one at the beginning of
// the next, are three in a row; at the end of the arm they are results.
func TestGoneBetweenProbes(t *testing.T) {
	f := good("base", nil)
	gone := []string{"question 2 of probe0", "question 3 of probe0", "question 0 of probe1"}
	f.fail = func(_ int, r chat.Request) error {
		if slices.Contains(gone, last(r)) {
			return &chat.Error{At: "http://there", Kind: chat.Absent, Reason: "connection refused"}
		}
		return nil
	}
	s := asks(4, suite.Probe{}, suite.Probe{})
	n := 0
	_, err := runs(t.Context(), s, arms(false, f), Options{Answered: func(*Result) { n++ }})
	var e *chat.Error
	if !errors.As(err, &e) || n != 2 {
		t.Errorf("%v after %d results", err, n)
	}
	gone = []string{"question 2 of probe1", "question 3 of probe1"}
	r, err := runs(t.Context(), s, arms(false, f), Options{})
	if err != nil || r.Row(1, 0).Erred != 2 {
		t.Errorf("%v, %+v", err, r.Row(1, 0))
	}
}
