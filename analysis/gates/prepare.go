package gates

import (
	"errors"
	"fmt"
	"math"
	"time"

	"quantscope/analysis/gates/suite"
)

// ErrSetup is wrapped by errors about arms or earlier results that do not make a run.
var ErrSetup = errors.New("gates")

// usualTimeout is how long an answer may take where nothing else is said.
const usualTimeout = 5 * time.Minute

// usualLevel is that of intervals and tests where nothing else is said.
const usualLevel = 0.95

// NewSetup is the setup that Run would begin with.
func NewSetup(s *suite.Suite, arms []ArmSpec, o Options) *Setup {
	out := &Setup{
		Suite: s.Name, Path: s.Path, SHA256: s.SHA256, Text: string(s.Text), Probes: s.Probes,
		Texts: o.Texts, Program: o.Program, Set: o.Set.Name, Timeout: o.timeout(),
	}
	for _, a := range arms {
		out.Arms = append(out.Arms, Arm{Label: a.Label, Spec: a.Spec, Role: a.Role})
	}
	return out
}

func (o *Options) timeout() time.Duration {
	if o.Timeout <= 0 {
		return usualTimeout
	}
	return o.Timeout
}

func levelOr(level float64) float64 {
	if !(level > 0 && level < 1) {
		return usualLevel
	}
	return level
}

// check refuses arms that are no run: the baseline is first, a placebo last, labels
// tell arms apart.
func (s *Setup) check() error {
	if len(s.Arms) == 0 {
		return fmt.Errorf("%w: there is no arm to ask", ErrSetup)
	}
	if len(s.Probes) == 0 {
		return fmt.Errorf("%w: suite %q has no probe to ask", ErrSetup, s.Suite)
	}
	seen := map[string]bool{}
	for i, a := range s.Arms {
		if seen[a.Label] {
			return fmt.Errorf("%w: two arms have the label %q", ErrSetup, a.Label)
		}
		seen[a.Label] = true
		var fits bool
		switch a.Role {
		case Baseline:
			fits = i == 0
		case Candidate:
			fits = i > 0
		case Placebo:
			fits = i > 0 && i == len(s.Arms)-1
		}
		if !fits {
			return fmt.Errorf("%w: arm %d, %q, cannot be a %s: the baseline is first, candidates follow, a placebo is last", ErrSetup, i, a.Label, a.Role)
		}
	}
	return nil
}

// holds says whether the setup asks for what a key names.
func (s *Setup) holds(k Key) bool {
	if k.Arm < 0 || k.Arm >= len(s.Arms) || k.Probe < 0 || k.Probe >= len(s.Probes) {
		return false
	}
	p := &s.Probes[k.Probe]
	return k.Case >= 0 && k.Case < len(p.Cases) && k.Pass >= 0 && k.Pass < p.Passes
}

// timed says whether any probe is.
func (s *Setup) timed() bool {
	for i := range s.Probes {
		if s.Probes[i].Timed {
			return true
		}
	}
	return false
}

// needed is how many answers of a probe must pass. The small allowance keeps a need
// of 0.9 of 10 at 9, whatever 0.9·10 is in binary.
func needed(p *suite.Probe) int { return int(math.Ceil(p.Need*float64(p.Answers()) - 1e-9)) }
