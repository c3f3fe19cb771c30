package gates

import (
	"fmt"
	"math"
	"strings"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/stats"
)

// worstNoise is the share of verdicts beyond which a baseline that differs from
// itself tells nothing of others.
const worstNoise = 0.2

// twice are the answers of the baseline and of the baseline again.
type twice struct {
	n, verdicts     int
	compared, texts int
}

func (c *checking) twice() (t twice, whole bool) {
	arm := c.Placebo()
	for _, r := range c.byArm[arm] {
		k := r.Key()
		k.Arm = c.Baseline()
		base := c.by[k]
		if base == nil || erred(base) || erred(r) {
			continue
		}
		t.n++
		if base.Verdict.Passed != r.Verdict.Passed {
			t.verdicts++
		}
		if c.Probes[r.Probe].Timed {
			continue // their prompts differ, by the nonce
		}
		t.compared++
		if !sameAnswer(&base.Answer.Replies, &r.Answer.Replies) {
			t.texts++
		}
	}
	return t, len(c.byArm[arm]) == c.Answers()/len(c.Arms)
}

func sameAnswer(a, b *[]chat.Reply) bool {
	if len(*a) != len(*b) {
		return false
	}
	for i := range *a {
		x, y := &(*a)[i], &(*b)[i]
		if x.Text != y.Text || len(x.ToolCalls) != len(y.ToolCalls) {
			return false
		}
		for k := range x.ToolCalls {
			if x.ToolCalls[k].Name != y.ToolCalls[k].Name || x.ToolCalls[k].Arguments != y.ToolCalls[k].Arguments {
				return false
			}
		}
	}
	return true
}

// placebo: how much the baseline differs from itself.
func (c *checking) placebo() {
	if c.Placebo() < 0 {
		c.add(CheckPlacebo, -1, CheckUnknown, nil, "there is no placebo, so how much the baseline differs from itself is not known")
		return
	}
	t, whole := c.twice()
	f := map[string]float64{"answers": float64(t.n), "verdicts": float64(t.verdicts), "compared": float64(t.compared), "texts": float64(t.texts)}
	if t.n == 0 || !whole {
		c.add(CheckPlacebo, -1, CheckUnknown, f, "the baseline was asked %d of %d answers again so far", len(c.byArm[c.Placebo()]), c.Answers()/len(c.Arms))
		return
	}
	low, high := stats.Wilson(t.verdicts, t.n, c.level)
	f["share"], f["low"], f["high"] = float64(t.verdicts)/float64(t.n), low, high
	text := fmt.Sprintf("the baseline differs from itself in %d of %d verdicts (%.1f to %.1f %%), and in the text of %d of %d answers", t.verdicts, t.n, 100*low, 100*high, t.texts, t.compared)
	if f["share"] > worstNoise {
		c.add(CheckPlacebo, -1, CheckFailed, f, "%s: nothing can be told against that", text)
		return
	}
	c.add(CheckPlacebo, -1, CheckPassed, f, "%s", text)
}

// again: the baseline was measured again after the candidates, as the same one, and
// did not drift.
func (c *checking) again() {
	arm := c.Placebo()
	if arm < 0 {
		c.add(CheckAgain, -1, CheckUnknown, nil, "the baseline was not measured again in this run")
		return
	}
	if base, again := c.meters[c.Baseline()], c.meters[arm]; base != nil && again != nil {
		if what, was, is := changedIdentity(base.Identity, again.Identity); what != "" {
			c.add(CheckAgain, -1, CheckFailed, nil, "the %s of the baseline is %q again, and was %q", what, is, was)
			return
		}
	}
	t, whole := c.twice()
	if t.n == 0 || !whole {
		c.add(CheckAgain, -1, CheckUnknown, nil, "the baseline was asked %d of %d answers again so far", len(c.byArm[arm]), c.Answers()/len(c.Arms))
		return
	}
	for i := range c.report.Pairs {
		p := &c.report.Pairs[i]
		if p.Arm != arm || p.Probe >= 0 {
			continue
		}
		n := p.Both + p.OnlyBase + p.OnlyArm + p.Neither
		f := map[string]float64{"answers": float64(n), "lost": float64(p.OnlyBase), "gained": float64(p.OnlyArm)}
		text := fmt.Sprintf("the baseline passed %d, and %d when it was asked again, of %d", p.Both+p.OnlyBase, p.Both+p.OnlyArm, n)
		if p.P <= 1-c.level {
			f["p"] = p.P
			c.add(CheckAgain, -1, CheckFailed, f, "%s (p %s): it drifts, so arms that were measured at different times do not compare", text, pText(p.P))
			return
		}
		c.add(CheckAgain, -1, CheckPassed, f, "%s", text)
	}
}

// changed: the arm is not the baseline under another name.
func (c *checking) changed() {
	if c.Arms[c.arm].Role != Candidate {
		return
	}
	base, m := c.meters[c.Baseline()], c.meters[c.arm]
	if base == nil || m == nil {
		c.say(CheckChanged, CheckUnknown, nil, "the arm is not through yet")
		return
	}
	answers, same := 0, 0
	for _, r := range c.byArm[c.arm] {
		k := r.Key()
		k.Arm = c.Baseline()
		if b := c.by[k]; b != nil && !erred(b) && !erred(r) && !c.Probes[r.Probe].Timed {
			answers++
			if sameAnswer(&b.Answer.Replies, &r.Answer.Replies) {
				same++
			}
		}
	}
	f := map[string]float64{"answers": float64(answers), "same": float64(same)}
	texts := fmt.Sprintf("%d of %d answers are the baseline's to the letter", same, answers)
	noise, noisy := c.printNoise()
	apart, known := base.Print.apart(&m.Print)
	if known {
		f["logprob_difference"] = apart
	}
	sameWeights := base.Identity.Content != "" && base.Identity.Content == m.Identity.Content
	asked := otherSettings(&base.Identity, &m.Identity)
	switch {
	case base.Print.Text == "" || m.Print.Text == "":
		c.say(CheckChanged, CheckUnknown, f, "fixed questions were not answered by both; %s", texts)
	case base.Print.Text != m.Print.Text:
		c.changedText(f, texts)
	case known && apart > 0 && (!noisy || apart > noise):
		c.say(CheckChanged, CheckPassed, f, "answers to fixed questions are the baseline's, with log probabilities up to %.2g nats from its own%s; %s", apart, noiseText(noise, noisy), texts)
	case known && apart > 0:
		c.say(CheckChanged, CheckUnknown, f, "answers to fixed questions are the baseline's, with log probabilities up to %.2g nats from its own%s, so whether the change landed is not seen; %s", apart, noiseText(noise, noisy), texts)
	case same < answers && !c.differsFromItself():
		c.say(CheckChanged, CheckPassed, f, "answers to fixed questions are the baseline's, but only %s", texts)
	case sameWeights && asked != "":
		c.say(CheckChanged, CheckIdle, f, "the weights are the baseline's on purpose, with %s; answers to fixed questions are its own; %s", asked, texts)
	case sameWeights:
		c.say(CheckChanged, CheckFailed, f, "the change did not land: the weights are the baseline's, with the same settings; %s", texts)
	case known:
		c.say(CheckChanged, CheckFailed, f, "the change did not land: answers to fixed questions and all %d log probabilities in them equal the baseline's to the last digit; %s", len(m.Print.Logprobs), texts)
	default:
		c.say(CheckChanged, CheckUnknown, f, "answers to fixed questions equal the baseline's, and log probabilities are not told: whether the change landed is not seen; %s", texts)
	}
}

// changedText judges an arm whose answers to fixed questions are others.
func (c *checking) changedText(f map[string]float64, texts string) {
	if p := c.Placebo(); p >= 0 && c.meters[p] != nil && c.meters[p].Print.Text != c.meters[c.Baseline()].Print.Text {
		c.say(CheckChanged, CheckUnknown, f, "answers to fixed questions are not the baseline's, but neither are the baseline's own when it is asked again; %s", texts)
		return
	}
	c.say(CheckChanged, CheckPassed, f, "answers to fixed questions are not the baseline's; %s", texts)
}

// differsFromItself says whether the baseline's answers did when it was asked again,
// or may, as it was not.
func (c *checking) differsFromItself() bool {
	if c.Placebo() < 0 {
		return true
	}
	t, _ := c.twice()
	return t.texts > 0
}

// printNoise is how far the baseline's log probabilities are from its own.
func (c *checking) printNoise() (nats float64, known bool) {
	if p := c.Placebo(); p >= 0 && c.meters[p] != nil {
		return c.meters[c.Baseline()].Print.apart(&c.meters[p].Print)
	}
	return 0, false
}

func noiseText(noise float64, known bool) string {
	if !known {
		return ""
	}
	return fmt.Sprintf(" (the baseline's again: %.2g)", noise)
}

// apart is the largest difference of log probabilities; where texts are others,
// tokens do not face one another, and it is infinite. It is not known where either
// tells none.
func (p *Fingerprint) apart(q *Fingerprint) (nats float64, known bool) {
	if len(p.Logprobs) == 0 || len(q.Logprobs) == 0 {
		return 0, false
	}
	if p.Text != q.Text || len(p.Logprobs) != len(q.Logprobs) {
		return math.Inf(1), true
	}
	for i := range p.Logprobs {
		nats = max(nats, math.Abs(p.Logprobs[i]-q.Logprobs[i]))
	}
	return nats, true
}

// otherSettings says in what two identities of the same weights differ on purpose.
func otherSettings(a, b *chat.Identity) string {
	var out []string
	if a.Speculative != b.Speculative {
		out = append(out, fmt.Sprintf("%s instead of %s drafted tokens", count(b.Speculative), count(a.Speculative)))
	}
	keys := map[string]bool{}
	for k := range a.Settings {
		keys[k] = true
	}
	for k := range b.Settings {
		keys[k] = true
	}
	for _, k := range sorted(keys) {
		if a.Settings[k] != b.Settings[k] {
			out = append(out, fmt.Sprintf("%s %q instead of %q", k, b.Settings[k], a.Settings[k]))
		}
	}
	return strings.Join(out, ", ")
}

func count(n int) string {
	if n < 0 {
		return "an untold number of"
	}
	return fmt.Sprint(n)
}
