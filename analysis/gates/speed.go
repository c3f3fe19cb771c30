package gates

import "math"

// Rate is how many tokens a second the arm made by the clock over its answers, which
// holds the time of prompts and of whatever ran at once. NaN where nothing was made.
func (m *Meter) Rate() float64 {
	if m.Tokens <= 0 || !(m.Seconds > 0) {
		return math.NaN()
	}
	return float64(m.Tokens) / m.Seconds
}

// Speculation is what drafts brought over an arm.
type Speculation struct {
	K          int     // tokens a draft; -1: not told
	Acceptance float64 // accepted over drafted tokens
	Length     float64 // mean tokens that a step brought, the main model's own included
	Rate       float64 // tokens a second
}

// Speculation is not ok where nothing was drafted, and where one of its three
// figures is not known: acceptance alone says nothing of speed.
func (m *Meter) Speculation() (s Speculation, ok bool) {
	if m.Counted == nil {
		return s, false
	}
	s.K, s.Rate = m.Counted.Speculative, m.Rate()
	if s.K < 0 {
		s.K = m.Identity.Speculative
	}
	s.Acceptance, s.Length = m.Counted.Acceptance()
	return s, !math.IsNaN(s.Acceptance) && !math.IsNaN(s.Length) && !math.IsNaN(s.Rate)
}
