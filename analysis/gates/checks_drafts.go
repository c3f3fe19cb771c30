package gates

import (
	"fmt"
	"strings"
)

// drafts is how many tokens an arm drafts a step; -1: not told.
func (m *Meter) drafts() int {
	if c := m.Counted; c != nil {
		switch {
		case c.Speculative >= 0:
			return c.Speculative
		case len(c.ByPosition) > 0:
			return len(c.ByPosition)
		}
	}
	return m.Identity.Speculative
}

// matchedK: arms whose acceptance and rates stand side by side draft alike.
func (c *checking) matchedK() {
	if c.Arms[c.arm].Role == Baseline {
		return
	}
	base, m := c.meters[c.Baseline()], c.meters[c.arm]
	if base == nil || m == nil {
		c.say(CheckMatchedK, CheckUnknown, nil, "the arm is not through yet")
		return
	}
	k, other := m.drafts(), base.drafts()
	f := map[string]float64{"drafted": float64(k), "baseline": float64(other)}
	switch {
	case k < 0 || other < 0:
		c.say(CheckMatchedK, CheckUnknown, nil, "how many tokens are drafted a step is not told: %s here, %s by the baseline", drafted(k), drafted(other))
	case k != other:
		c.say(CheckMatchedK, CheckFailed, f, "%d tokens are drafted a step, and %d by the baseline: acceptance and tokens a second do not compare", k, other)
	case k == 0:
		c.say(CheckMatchedK, CheckIdle, f, "no tokens are drafted, here and by the baseline")
	default:
		c.say(CheckMatchedK, CheckPassed, f, "%d tokens are drafted a step, as by the baseline", k)
	}
}

func drafted(k int) string {
	if k < 0 {
		return "untold"
	}
	return fmt.Sprint(k)
}

// acceptance: what is told of drafts is whole, and fits together.
func (c *checking) acceptance() {
	m := c.meters[c.arm]
	if m == nil {
		c.say(CheckAcceptance, CheckUnknown, nil, "the arm is not through yet")
		return
	}
	for i := range c.report.Acceptance {
		if x := &c.report.Acceptance[i]; x.Arm == c.arm && x.Verdict == AcceptanceUnknown && !x.Told() {
			c.say(CheckAcceptance, CheckUnknown, nil, "the suite measures it and it is not known of this arm: %s", x.Text)
			return
		}
	}
	if m.drafts() == 0 || m.Counted != nil && m.Counted.Drafted == 0 {
		c.say(CheckAcceptance, CheckIdle, nil, "no tokens are drafted")
		return
	}
	if m.Counted == nil {
		c.say(CheckAcceptance, CheckUnknown, nil, "the server tells no counters, so acceptance is not shown")
		return
	}
	n := m.Counted
	if why := m.impossible(); why != "" {
		c.say(CheckAcceptance, CheckFailed, nil, "counters of drafts do not fit together: %s", why)
		return
	}
	s, ok := m.Speculation()
	if !ok {
		var not []string
		for _, part := range []struct {
			name string
			have bool
		}{
			{"drafted tokens", n.Drafted > 0}, {"accepted tokens", n.Accepted >= 0}, {"the number of drafts", n.Drafts > 0}, {"tokens a second", m.Rate() > 0},
		} {
			if !part.have {
				not = append(not, part.name)
			}
		}
		c.say(CheckAcceptance, CheckUnknown, nil, "acceptance is not shown, as there is no telling without %s", strings.Join(not, ", "))
		return
	}
	c.say(CheckAcceptance, CheckPassed, map[string]float64{"acceptance": s.Acceptance, "accepted_length": s.Length, "tokens_per_s": s.Rate},
		"of %d drafted tokens %.1f %% were accepted, %.2f tokens a step, %.1f tokens/s", n.Drafted, 100*s.Acceptance, s.Length, s.Rate)
}

// impossible says what in counters of drafts cannot be; "" where all can.
func (m *Meter) impossible() string {
	n := m.Counted
	if n.Drafted >= 0 && n.Accepted > n.Drafted {
		return fmt.Sprintf("%d tokens are accepted of %d", n.Accepted, n.Drafted)
	}
	if k := m.drafts(); k > 0 && n.Drafts >= 0 && n.Drafted > int64(k)*n.Drafts {
		return fmt.Sprintf("%d tokens are drafted in %d drafts of %d", n.Drafted, n.Drafts, k)
	}
	var sum int64
	for i, v := range n.ByPosition {
		sum += v
		if i > 0 && v > n.ByPosition[i-1] {
			return fmt.Sprintf("%d tokens are accepted at place %d and %d at the one before, without which they cannot be", v, i+1, n.ByPosition[i-1])
		}
	}
	if len(n.ByPosition) > 0 && n.Accepted >= 0 && sum != n.Accepted {
		return fmt.Sprintf("%d tokens are accepted, and %d by place", n.Accepted, sum)
	}
	return ""
}
