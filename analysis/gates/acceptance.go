package gates

import (
	"fmt"
	"math"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/stats"
)

// Acceptance is what drafting brought an arm over the answers of a probe that measures
// it, with intervals that are measured in the same run. Figures that are not there are
// NaN.
//
// Prompts are what intervals are over: what a model drafts well is a matter of what it
// writes, and of each prompt there is one greedy text. Within a text, stretches of so
// many tokens tell how much of that is chance: stats.NestedMean says how the two are
// put together. Difference is over the same prompts on both sides, stretch by stretch:
// until the texts part a stretch of one side is the same text as that of the other,
// and after that they are two texts, whose difference has the variance of both.
type Acceptance struct {
	Probe, Arm int
	K          int // most tokens drafted a step; -1: not told

	Prompts, AllPrompts int // answers that are whole and tell of drafts, of so many
	Tokens, AllTokens   int // of those, of so many that were to be made
	Drafts              int64
	Drafted, Accepted   int64

	Rate, RateLow, RateHigh       float64 // accepted over drafted tokens
	Length, LengthLow, LengthHigh float64 // tokens a draft brings, the main model's own included
	Delta, DeltaLow, DeltaHigh    float64 // of rates, arm − baseline; NaN of the baseline

	Noise   float64 // how far the placebo's rate is from the baseline's; NaN: not measured
	Verdict AcceptanceVerdict
	Text    string         // one sentence with the figures in it
	Blocks  [][]chat.Block // of each prompt in order; one of a prompt where steps are not told
	Size    int            // tokens of a block
}

// AcceptanceVerdict says how an arm's acceptance stands to the baseline's.
type AcceptanceVerdict string

// Verdicts on acceptance.
const (
	AcceptanceControl AcceptanceVerdict = "control"   // it is the baseline, which others are held against
	AcceptanceBelow   AcceptanceVerdict = "below"     // beyond the interval of the difference, and the placebo's own
	AcceptanceAlike   AcceptanceVerdict = "not apart" // from the baseline, by what this run can tell
	AcceptanceAbove   AcceptanceVerdict = "above"
	AcceptanceNoisy   AcceptanceVerdict = "noise not measured" // without a placebo nothing is told apart
	AcceptanceOtherK  AcceptanceVerdict = "other k"            // drafts of other lengths do not compare
	AcceptanceShort   AcceptanceVerdict = "too few tokens"     // answers are missing, or ended early
	AcceptanceUnknown AcceptanceVerdict = "unknown"            // nothing is drafted, or not told
)

// AcceptanceVerdicts lists them.
func AcceptanceVerdicts() []AcceptanceVerdict {
	return []AcceptanceVerdict{AcceptanceControl, AcceptanceBelow, AcceptanceAlike, AcceptanceAbove, AcceptanceNoisy, AcceptanceOtherK, AcceptanceShort, AcceptanceUnknown}
}

// acceptances are those of all arms on all probes that measure it.
func (a *analysis) acceptances() []Acceptance {
	var out []Acceptance
	for p := range a.Probes {
		if !a.Probes[p].Measure {
			continue
		}
		from := len(out)
		for arm := range a.Arms {
			out = append(out, a.acceptance(p, arm))
		}
		of := out[from:]
		noise := math.NaN()
		if i := a.Placebo(); i >= 0 {
			a.heldAgainst(&of[i], &of[a.Baseline()])
			noise = math.Abs(of[i].Delta)
		}
		for arm := range of {
			if arm != a.Baseline() && arm != a.Placebo() {
				a.heldAgainst(&of[arm], &of[a.Baseline()])
			}
			of[arm].Noise = noise
			a.acceptanceVerdict(&of[arm], &of[a.Baseline()])
		}
	}
	return out
}

// acceptance takes together what drafting brought an arm.
func (a *analysis) acceptance(probe, arm int) Acceptance {
	p := &a.Probes[probe]
	nan := math.NaN()
	out := Acceptance{Probe: probe, Arm: arm, K: -1, AllPrompts: len(p.Cases), AllTokens: len(p.Cases) * p.Set.MaxTokens,
		Rate: nan, RateLow: nan, RateHigh: nan, Length: nan, LengthLow: nan, LengthHigh: nan, Delta: nan, DeltaLow: nan, DeltaHigh: nan, Noise: nan,
		Blocks: make([][]chat.Block, len(p.Cases)), Size: p.Block()}
	if m := a.meters[arm]; m != nil {
		out.K = m.drafts()
	}
	for c := range p.Cases {
		r := a.by[Key{arm, probe, c, 0}]
		if r == nil || erred(r) || len(r.Answer.Replies) != 1 {
			continue
		}
		reply := &r.Answer.Replies[0]
		d := reply.Drafts
		if d == nil || !d.Whole() {
			continue
		}
		if out.K < 0 || d.K >= 0 {
			out.K = d.K
		}
		made := reply.CompletionTokens
		if made < p.Set.MaxTokens || d.Drafted == 0 {
			out.Tokens += max(made, 0)
			continue // a rate over fewer tokens is one of another text
		}
		out.Prompts++
		out.Tokens += made
		out.Drafts, out.Drafted, out.Accepted = out.Drafts+d.Drafts, out.Drafted+d.Drafted, out.Accepted+d.Accepted
		if out.Blocks[c] = d.Blocks(made, out.Size); out.Blocks[c] == nil {
			out.Blocks[c] = []chat.Block{{Drafts: d.Drafts, Drafted: d.Drafted, Accepted: d.Accepted}}
		}
	}
	if out.Drafted == 0 {
		return out
	}
	out.Rate = float64(out.Accepted) / float64(out.Drafted)
	out.Length = 1 + float64(out.Accepted)/float64(out.Drafts)
	n := stats.NestedMean(scores(out.Blocks, ofDrafted, nil), a.level)
	out.RateLow, out.RateHigh = max(out.Rate+n.Low, 0), min(out.Rate+n.High, 1)
	n = stats.NestedMean(scores(out.Blocks, ofDrafts, nil), a.level)
	out.LengthLow, out.LengthHigh = max(out.Length+n.Low, 1), out.Length+n.High
	if out.K > 0 {
		out.LengthHigh = min(out.LengthHigh, 1+float64(out.K))
	}
	return out
}

// What accepted tokens are a share of: drafted ones for a rate, drafts for a length.
func ofDrafted(b *chat.Block) int64 { return b.Drafted }
func ofDrafts(b *chat.Block) int64  { return b.Drafts }

// scores are what each block adds to a share of sums: the share's error is their mean,
// to first order (Cochran, Sampling Techniques, 6.4). Blocks of prompts that are not
// with is, where it is given, are left out.
func scores(blocks [][]chat.Block, by func(*chat.Block) int64, is func(prompt int) bool) [][]float64 {
	n, accepted, of := 0, 0.0, 0.0
	for c, list := range blocks {
		if is != nil && !is(c) {
			continue
		}
		n += len(list)
		for i := range list {
			accepted += float64(list[i].Accepted)
			of += float64(by(&list[i]))
		}
	}
	out := make([][]float64, len(blocks))
	for c, list := range blocks {
		if is != nil && !is(c) {
			continue
		}
		for i := range list {
			out[c] = append(out[c], (float64(list[i].Accepted)-accepted/of*float64(by(&list[i])))/(of/float64(n)))
		}
	}
	return out
}

// heldAgainst sets the difference of an arm to the baseline, over prompts that both
// answered whole.
func (a *analysis) heldAgainst(x, base *Acceptance) {
	both := func(c int) bool { return len(x.Blocks[c]) > 0 && len(base.Blocks[c]) > 0 }
	mine, theirs := alike(x.Blocks, base.Blocks)
	one, ok1 := pooled(mine, both)
	other, ok2 := pooled(theirs, both)
	if !ok1 || !ok2 {
		return
	}
	x.Delta = one - other
	p, q := scores(mine, ofDrafted, both), scores(theirs, ofDrafted, both)
	for c := range p {
		for i := range p[c] {
			p[c][i] -= q[c][i]
		}
	}
	n := stats.NestedMean(p, a.level)
	x.DeltaLow, x.DeltaHigh = max(x.Delta+n.Low, -1), min(x.Delta+n.High, 1)
}

// alike gives prompts of both sides equally many blocks: where one side tells only
// sums, the other's are summed.
func alike(a, b [][]chat.Block) (x, y [][]chat.Block) {
	whole := true
	for c := range a {
		whole = whole && (len(a[c]) == 0 || len(b[c]) == 0 || len(a[c]) == len(b[c]))
	}
	if whole {
		return a, b
	}
	return summed(a), summed(b)
}

func summed(blocks [][]chat.Block) [][]chat.Block {
	out := make([][]chat.Block, len(blocks))
	for c, list := range blocks {
		if len(list) == 0 {
			continue
		}
		var sum chat.Block
		for _, b := range list {
			sum.Drafts, sum.Drafted, sum.Accepted = sum.Drafts+b.Drafts, sum.Drafted+b.Drafted, sum.Accepted+b.Accepted
		}
		out[c] = []chat.Block{sum}
	}
	return out
}

// pooled is the rate over the prompts that is names; not ok where nothing is drafted.
func pooled(blocks [][]chat.Block, is func(int) bool) (rate float64, ok bool) {
	accepted, drafted := int64(0), int64(0)
	for c, list := range blocks {
		if !is(c) {
			continue
		}
		for _, b := range list {
			accepted, drafted = accepted+b.Accepted, drafted+b.Drafted
		}
	}
	return float64(accepted) / float64(drafted), drafted > 0
}

// acceptanceVerdict says what the figures are worth, in this order: whether there are
// any, whether they are of all tokens, whether they compare, and whether they differ.
func (a *analysis) acceptanceVerdict(x, base *Acceptance) {
	say := func(v AcceptanceVerdict, format string, args ...any) {
		x.Verdict, x.Text = v, fmt.Sprintf(format, args...)
	}
	figures := fmt.Sprintf("%d of %d drafted tokens accepted, %.1f %% (%.1f to %.1f), %.2f tokens a step (%.2f to %.2f)",
		x.Accepted, x.Drafted, 100*x.Rate, 100*x.RateLow, 100*x.RateHigh, x.Length, x.LengthLow, x.LengthHigh)
	differs := fmt.Sprintf("%+.1f points to the baseline (%+.1f to %+.1f)", 100*x.Delta, 100*x.DeltaLow, 100*x.DeltaHigh)
	asked, erred := a.askedOf(x)
	switch {
	case asked == 0:
		say(AcceptanceUnknown, "not asked yet")
	case x.K == 0:
		say(AcceptanceUnknown, "acceptance is unknown: it drafts nothing")
	case x.Drafted == 0 && x.Tokens == 0 && erred < asked:
		say(AcceptanceUnknown, "acceptance is unknown: what was drafted is not told of these answers")
	case x.Prompts < x.AllPrompts:
		say(AcceptanceShort, "%d of %d tokens in %d of %d whole answers: too few to hold against anything", x.Tokens, x.AllTokens, x.Prompts, x.AllPrompts)
	case x.Arm == a.Baseline():
		say(AcceptanceControl, "%s", figures)
	case base.Prompts < base.AllPrompts:
		say(AcceptanceUnknown, "%s; the baseline has no whole figures to hold it against", figures)
	case x.K != base.K:
		say(AcceptanceOtherK, "%s; %s tokens are drafted a step and %s by the baseline: rates do not compare", figures, drafted(x.K), drafted(base.K))
	case math.IsNaN(x.DeltaLow):
		say(AcceptanceNoisy, "%s; %+.1f points to the baseline, and one prompt tells no noise", figures, 100*x.Delta)
	case math.IsNaN(x.Noise):
		say(AcceptanceNoisy, "%s; %s; noise not measured, as there is no placebo", figures, differs)
	case x.DeltaHigh < -x.Noise:
		say(AcceptanceBelow, "below: %s; %s; the baseline differs from itself by %.1f", figures, differs, 100*x.Noise)
	case x.DeltaLow > x.Noise:
		say(AcceptanceAbove, "above: %s; %s; the baseline differs from itself by %.1f", figures, differs, 100*x.Noise)
	default:
		say(AcceptanceAlike, "not told apart: %s; %s; the baseline differs from itself by %.1f", figures, differs, 100*x.Noise)
	}
}

// askedOf is how many answers there are, and how many of those did not come.
func (a *analysis) askedOf(x *Acceptance) (asked, failed int) {
	for c := range a.Probes[x.Probe].Cases {
		if r := a.by[Key{x.Arm, x.Probe, c, 0}]; r != nil {
			asked++
			if erred(r) {
				failed++
			}
		}
	}
	return asked, failed
}

// Told says that there are figures of all tokens.
func (x *Acceptance) Told() bool { return x.Prompts > 0 && x.Prompts == x.AllPrompts }
