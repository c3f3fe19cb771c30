package gates

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/suite"
	"quantscope/analysis/gates/through"
)

// saying is a fake's answer to texts that are given as ids.
func saying(ids ...string) Options {
	t := &Texts{Name: "test", SHA256: "00", Top: 5}
	for _, s := range ids {
		t.IDs = append(t.IDs, idsOf(s))
	}
	return Options{Texts: t}
}

func TestTexts(t *testing.T) {
	base, cand := honest("base", 0), honest("cand", 0)
	texts := []string{"some plain text of which tokens are characters", "and another one that is as plain as the first"}
	o := saying(texts...)
	var stages []string
	o.Progress = func(p Progress) {
		if len(stages) == 0 || stages[len(stages)-1] != p.Stage {
			stages = append(stages, p.Stage)
		}
	}
	r, err := runs(t.Context(), asks(2, suite.Probe{}), arms(true, base, cand), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Meters) != 3 {
		t.Fatalf("%d meters", len(r.Meters))
	}
	b, c, again := r.Meters[0], r.Meters[1], r.Meters[2]
	if b.Arm1 == nil || c.Arm1 == nil || b.Pair != nil || c.Pair == nil || again.Pair == nil {
		t.Fatalf("%+v", r.Meters)
	}
	// The mean by hand.
	var sum float64
	n := 0
	for _, s := range texts {
		ids := idsOf(s)
		for i := 1; i < len(ids); i++ {
			sum -= hashed("base")(ids[i], ids[:i])
			n++
		}
	}
	if b.Arm1.Positions != n || math.Abs(b.Arm1.NLL-sum/float64(n)) > 1e-12 {
		t.Errorf("%+v, want a mean of %v over %d", b.Arm1, sum/float64(n), n)
	}
	if !(c.Pair.KL > 0) || again.Pair.KL != 0 || again.Pair.DeltaNLL != 0 {
		t.Errorf("candidate %+v, baseline again %+v", c.Pair, again.Pair)
	}
	if got := strings.Join(stages, " "); strings.Count(got, "opening checking asking log probabilities") != 3 {
		t.Errorf("stages: %s", got)
	}
}

// Servers that do not tell are no error, and log probabilities that cannot be right
// fail their check.
func TestTextsThatAreNotTold(t *testing.T) {
	mute := honest("base", 0)
	mute.logprob = nil
	o := saying("some plain text of which tokens are characters")
	var warned []string
	o.Warn = func(s string) { warned = append(warned, s) }
	r, err := runs(t.Context(), asks(2, suite.Probe{}), arms(false, mute, honest("cand", 0)), o)
	if err != nil || r.Meters[0].Arm1 != nil || r.Meters[1].Arm1 == nil || r.Meters[1].Pair != nil {
		t.Errorf("%v: %+v", err, r.Meters)
	}
	if len(warned) != 1 || !strings.HasPrefix(warned[0], "arm0: log probabilities: ") {
		t.Errorf("warnings: %q", warned)
	}

	far := honest("base", 0)
	plain := far.logprob
	long := strings.Repeat("x", 40)
	far.logprob = func(id int32, before []int32) float64 {
		if id == 'x' {
			return 3 // of the texts alone
		}
		return plain(id, before)
	}
	r, err = runs(t.Context(), asks(2, suite.Probe{}), arms(false, far), saying(long))
	if err != nil {
		t.Fatal(err)
	}
	wants(t, r, CheckRank, 0, CheckFailed, "of the texts cannot be right")
}

// A run that goes on asks the baseline again for what results do not keep, once.
func TestTextsGoOn(t *testing.T) {
	s := asks(2, suite.Probe{})
	base := honest("base", 0)
	o := saying("some plain text of which tokens are characters")
	var results []*Result
	var meters []*Meter
	o.Answered, o.Metered = func(r *Result) { results = append(results, r) }, func(m *Meter) { meters = append(meters, m) }
	specs := arms(true, base, honest("cand", 0))
	gone := errors.New("away")
	open := specs[1].Open
	specs[1].Open = func(context.Context) (chat.Target, error) { return nil, gone }
	if _, err := runs(t.Context(), s, specs, o); !errors.Is(err, gone) {
		t.Fatal(err)
	}
	specs[1].Open = open
	o.Prior, o.Meters = results, meters
	o.Meters[0].Said = nil // as a session has it
	opened := 0
	first := specs[0].Open
	specs[0].Open = func(ctx context.Context) (chat.Target, error) { opened++; return first(ctx) }
	r, err := runs(t.Context(), s, specs, o)
	if err != nil {
		t.Fatal(err)
	}
	if opened != 1 || len(r.Meters) != 3 || r.Meters[1].Pair == nil || r.Meters[2].Pair == nil {
		t.Errorf("the baseline was opened %d times; %+v", opened, r.Meters)
	}
	var never *through.Said
	if r.Meters[0].Said != never {
		t.Error("an earlier meter was changed")
	}
}

// A server that takes no ids is asked with the texts themselves, where they are known.
func TestTextsAsWords(t *testing.T) {
	base := honest("base", 0)
	base.fail = func(_ int, r chat.Request) error {
		if r.Tokens != nil {
			return &chat.Error{At: "fake", Kind: chat.Refused, Reason: "ids", Err: chat.ErrUnsupported}
		}
		return nil
	}
	ids := honest("base", 0)
	o := saying("some plain text of which tokens are characters")
	for _, known := range []bool{false, true} {
		if known {
			o.Words = func(ids []int32) string {
				var b strings.Builder
				for _, id := range ids {
					b.WriteRune(id)
				}
				return b.String()
			}
		}
		r, err := runs(t.Context(), asks(2, suite.Probe{}), arms(false, ids, base), o)
		if err != nil {
			t.Fatal(err)
		}
		if said := r.Meters[1].Pair; (said != nil) != known || known && (said.KL != 0 || said.Positions != 45) {
			t.Errorf("words known %v: %+v", known, said)
		}
	}
}
