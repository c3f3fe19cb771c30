package gates

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/grade"
	"quantscope/analysis/gates/suite"
)

// measuring is a suite of one probe that measures acceptance, over so many texts.
func measuring(texts int) *suite.Suite {
	p := suite.Probe{ID: "acceptance", Grader: "acceptance", Measure: true, Passes: 1, Need: 1, Set: suite.Settings{MaxTokens: 512, MayTruncate: true, Concurrency: 1}}
	for c := range texts {
		p.Cases = append(p.Cases, suite.Case{ID: fmt.Sprint(c), Prompt: fmt.Sprint("text ", c)})
	}
	return &suite.Suite{Name: "acc", Probes: []suite.Probe{p}}
}

// text is 512 tokens of which a draft stays with the probability that rate gives at
// each token.
func text(r *rand.Rand, k int, rate func(at int) float64) *chat.Drafts {
	d := &chat.Drafts{K: k}
	for at := 1; at < 512; {
		n := min(k, 512-at)
		kept := 0
		for kept < n && r.Float64() < rate(at+kept) {
			kept++
		}
		d.Note(n, kept)
		at += 1 + kept
	}
	return d
}

// even has the same chance everywhere.
func even(rate float64) func(int) float64 { return func(int) float64 { return rate } }

// drafted are the results of arms of which each has a text a case.
func draftedBy(arms int, placebo bool, texts int, of func(arm, c int) *chat.Drafts) (*Setup, []*Result) {
	s, results := table(measuring(texts), arms, placebo, func(Key) bool { return true })
	for _, r := range results {
		r.Answer = grade.Answer{Replies: []chat.Reply{{Text: fmt.Sprint(r.Case), CompletionTokens: 512, Finish: chat.FinishLength, Drafts: of(r.Arm, r.Case)}}}
	}
	return s, results
}

func acceptanceOf(t *testing.T, r *Report, arm int) *Acceptance {
	t.Helper()
	for i := range r.Acceptance {
		if r.Acceptance[i].Arm == arm {
			return &r.Acceptance[i]
		}
	}
	t.Fatalf("nothing is said of arm %d", arm)
	return nil
}

// Each verdict, from results that bring it about.
func TestAcceptanceVerdicts(t *testing.T) {
	fresh := func(arm, c int) *rand.Rand { return rand.New(rand.NewPCG(uint64(arm%3), uint64(c))) }
	rates := func(of ...float64) func(arm, c int) *chat.Drafts {
		return func(arm, c int) *chat.Drafts { return text(fresh(0, c), 1, even(of[arm])) }
	}
	for _, c := range []struct {
		name    string
		placebo bool
		of      func(arm, c int) *chat.Drafts
		spoil   func(s *Setup, r *Result)
		want    AcceptanceVerdict
		says    string
		fails   bool
	}{
		{"below", true, rates(0.8, 0.5, 0.8), nil, AcceptanceBelow, "below: ", true},
		{"above", true, rates(0.5, 0.8, 0.5), nil, AcceptanceAbove, "above: ", false},
		{"the same", true, rates(0.8, 0.8, 0.8), nil, AcceptanceAlike, "+0.0 points to the baseline (+0.0 to +0.0)", false},
		{"no placebo", false, rates(0.8, 0.5), nil, AcceptanceNoisy, "noise not measured", false},
		{"a placebo as far away", true, rates(0.8, 0.5, 0.5), nil, AcceptanceAlike, "not told apart", false},
		{"a placebo as far above", true, rates(0.5, 0.8, 0.8), nil, AcceptanceAlike, "not told apart", false},
		{"other k", true, func(arm, c int) *chat.Drafts { return text(fresh(0, c), 1+arm%2, even(0.7)) }, nil, AcceptanceOtherK, "2 tokens are drafted a step and 1 by the baseline", false},
		{"ended early", true, rates(0.8, 0.5, 0.8), func(_ *Setup, r *Result) {
			if r.Arm == 1 && r.Case == 2 {
				r.Answer.Replies[0].CompletionTokens = 300
			}
		}, AcceptanceShort, "1324 of 1536 tokens in 2 of 3", false},
		{"not told", true, rates(0.8, 0.5, 0.8), func(_ *Setup, r *Result) {
			if r.Arm == 1 {
				r.Answer.Replies[0].Drafts = nil
			}
		}, AcceptanceUnknown, "not told", false},
		{"no module", true, rates(0.8, 0.5, 0.8), func(_ *Setup, r *Result) {
			if r.Arm == 1 {
				r.Answer.Replies[0].Drafts = &chat.Drafts{}
			}
		}, AcceptanceUnknown, "it drafts nothing", false},
		{"impossible", true, rates(0.8, 0.5, 0.8), func(_ *Setup, r *Result) {
			if r.Arm == 1 {
				r.Answer.Replies[0].Drafts.Accepted = 5000
			}
		}, AcceptanceUnknown, "not told", false},
		{"a baseline that is not whole", true, rates(0.8, 0.5, 0.8), func(_ *Setup, r *Result) {
			if r.Arm == 0 && r.Case == 0 {
				r.Answer.Replies[0].CompletionTokens = 9
			}
		}, AcceptanceUnknown, "no whole figures", false},
		{"sums alone", true, rates(0.95, 0.3, 0.95), func(_ *Setup, r *Result) {
			if r.Arm == 1 {
				r.Answer.Replies[0].Drafts.BySteps = nil
			}
		}, AcceptanceBelow, "below: ", true},
		{"sums alone of the baseline", true, rates(0.95, 0.3, 0.95), func(_ *Setup, r *Result) {
			if r.Arm == 0 {
				r.Answer.Replies[0].Drafts.BySteps = nil
			}
		}, AcceptanceBelow, "below: ", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, results := draftedBy(2, c.placebo, 3, c.of)
			for _, r := range results {
				if c.spoil != nil {
					c.spoil(s, r)
				}
			}
			r := Analyze(s, results, nil, 0)
			x := acceptanceOf(t, r, 1)
			if x.Verdict != c.want || !strings.Contains(x.Text, c.says) || strings.Contains(x.Text, "NaN") {
				t.Errorf("%s: %s, want %s with %q", x.Verdict, x.Text, c.want, c.says)
			}
			if got := len(kinds(r, FailRegression)) > 0; got != c.fails {
				t.Errorf("shuts the gates: %v", got)
			}
			if x.Verdict == AcceptanceUnknown && x.Drafted == 0 && (!math.IsNaN(x.Rate) || !math.IsNaN(x.Length)) {
				t.Errorf("what is not known is told as %v, %v", x.Rate, x.Length)
			}
			if base := acceptanceOf(t, r, 0); base.Prompts == 3 && base.Verdict != AcceptanceControl {
				t.Errorf("the baseline is %s", base.Verdict)
			}
		})
	}
}

// The figures of two texts by hand: 512 tokens in stretches of 64.
func TestAcceptanceFigures(t *testing.T) {
	all := func(kept int) *chat.Drafts {
		d := &chat.Drafts{K: 1}
		for at := 1; at < 512; at += 1 + kept {
			d.Note(1, kept)
		}
		return d
	}
	s, results := draftedBy(1, false, 2, func(_, c int) *chat.Drafts { return all(c) })
	x := acceptanceOf(t, Analyze(s, results, nil, 0), 0)
	// 511 drafts of which none stays, and 256 of which all do (the last token is a draft's).
	if x.Drafts != 511+256 || x.Accepted != 256 || x.Rate != 256.0/767 || math.Abs(x.Length-1-256.0/767) > 1e-12 || x.Tokens != 1024 || !x.Told() {
		t.Errorf("%+v", x)
	}
	if len(x.Blocks[0]) != 8 || x.Blocks[0][0] != (chat.Block{Drafts: 63, Drafted: 63}) || x.Blocks[1][3] != (chat.Block{Drafts: 32, Drafted: 32, Accepted: 32}) {
		t.Errorf("%+v", x.Blocks)
	}
	if x.RateLow != 0 || x.RateHigh != 1 || x.LengthLow != 1 || x.LengthHigh != 2 {
		t.Errorf("two texts that have nothing in common tell nothing: %v to %v", x.RateLow, x.RateHigh)
	}
}

// Intervals of rates and differences cover the truth as often as they say, where texts
// differ among themselves, where stretches of one text hang together, and where neither
// does. Texts of the two arms are drawn each for itself, as greedy texts that have
// parted.
func TestAcceptanceCoverage(t *testing.T) {
	const trials = 300
	for _, c := range []struct {
		name          string
		between, turn float64 // spread of texts' rates; that of regimes within one, 128 tokens long
		texts         int
	}{
		{"neither", 0, 0, 3}, {"texts differ", 0.12, 0, 3}, {"regimes", 0, 0.2, 3}, {"both", 0.08, 0.15, 3}, {"many texts", 0.1, 0.1, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(11, 3))
			one := func(mean float64) *chat.Drafts {
				rate := mean + c.between*(2*r.Float64()-1)
				var turns [4]float64
				for i := range turns {
					turns[i] = c.turn * (2*r.Float64() - 1)
				}
				return text(r, 1, func(at int) float64 { return rate + turns[min(at/128, 3)] })
			}
			// The truth is of many texts: long stretches of few tokens a step weigh more.
			truth := func(mean float64) float64 {
				accepted, drafted := int64(0), int64(0)
				for range 4000 {
					d := one(mean)
					accepted, drafted = accepted+d.Accepted, drafted+d.Drafted
				}
				return float64(accepted) / float64(drafted)
			}
			base, cand := truth(0.7), truth(0.6)
			rates, deltas := 0, 0
			for range trials {
				s, results := draftedBy(2, false, c.texts, func(arm, _ int) *chat.Drafts { return one([]float64{0.7, 0.6}[arm]) })
				rep := Analyze(s, results, nil, 0)
				x := acceptanceOf(t, rep, 1)
				if x.RateLow <= cand && cand <= x.RateHigh {
					rates++
				}
				if x.DeltaLow <= cand-base && cand-base <= x.DeltaHigh {
					deltas++
				}
			}
			t.Logf("rate covered %d of %d, difference %d", rates, trials, deltas)
			for what, n := range map[string]int{"rate": rates, "difference": deltas} {
				if low := 0.95 - 3.1*math.Sqrt(0.95*0.05/trials); float64(n)/trials < low {
					t.Errorf("%s covered in %d of %d", what, n, trials)
				}
			}
		})
	}
}

// A target that tells no drafts with its answers is asked for its counters around each;
// counters of other tokens than the answer's tell nothing of it.
func TestAcceptanceByCounters(t *testing.T) {
	server := func(drafts int, foreign bool) *fake {
		f := good("m", nil)
		f.drafts, f.counts = drafts, true
		n := int64(0)
		f.answer = func(chat.Request) chat.Reply {
			if foreign {
				n += 700
			}
			return chat.Reply{Text: "words", Finish: chat.FinishLength, CompletionTokens: 512}
		}
		f.spoil = func(c *chat.Counters) { c.Generated += n }
		return f
	}
	ask := func(f *fake) (*Report, []string) {
		var warned []string
		s := measuring(3)
		r := &run{o: Options{Warn: func(w string) { warned = append(warned, w) }}, setup: NewSetup(s, arms(true, f), Options{}), specs: arms(true, f), grade: grade.Grade, ask: nil}
		rep, err := r.do(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return rep, warned
	}
	f := server(2, false)
	rep, warned := ask(f)
	if x := acceptanceOf(t, rep, 0); x.K != 2 || x.Drafts != 6 || x.Drafted != 12 || x.Accepted != 6 || x.Verdict != AcceptanceControl || len(warned) > 0 {
		t.Errorf("%+v, warned %q", x, warned)
	}
	for _, r := range f.requests {
		if r.Prompt != "" && strings.HasPrefix(r.Prompt, "text ") && !r.IgnoreEOS {
			t.Error("an answer may end before its budget")
		}
	}
	rep, warned = ask(server(2, true))
	if x := acceptanceOf(t, rep, 0); x.Verdict != AcceptanceUnknown || !math.IsNaN(x.Rate) || !strings.Contains(strings.Join(warned, "\n"), "somebody else asks it too") {
		t.Errorf("counters of others: %s, warned %q", x.Text, warned)
	}
	rep, _ = ask(server(0, false))
	if x := acceptanceOf(t, rep, 0); x.Verdict != AcceptanceUnknown || x.K != 0 || !strings.Contains(x.Text, "drafts nothing") {
		t.Errorf("nothing drafted: %s", x.Text)
	}
	wants(t, rep, CheckAcceptance, 0, CheckUnknown, "not known of this arm")
	mute := server(2, false)
	mute.counts = false
	rep, _ = ask(mute)
	if x := acceptanceOf(t, rep, 0); x.Verdict != AcceptanceUnknown || !math.IsNaN(x.Rate) {
		t.Errorf("no counters: %+v", x)
	}
	wants(t, rep, CheckAcceptance, 0, CheckUnknown, "not known of this arm")
}
