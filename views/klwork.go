package views

import "quantscope/analysis/yardstick"

// KLWork is what the root and the KL screen share: the root starts measurements
// and computes reports in the background, the screen shows them and asks for more.
type KLWork struct {
	At       int               // the yard that is shown, -1 where there is none
	Report   *yardstick.Report // of the yard that is shown, as far as it was computed; nil where there is none yet
	Stale    bool              // chunks have come that Report does not have
	Off      string            // why nothing can be measured here; "" where it can
	Running  bool              // a measurement of this process
	Runs     int               // which of the yards it is, -1 where that is not known yet
	Paused   bool              // of what runs
	Progress yardstick.Progress
	Err      string   // why the last one failed
	Ask      KLAsk    // taken by the root
	Specs    []string // what KLMeasure measures; none: the session's variants
	Plan     []string // sentences: what KLMeasure would measure, and how long about

	// Compared is how the two sides of the Compare screen stand to each other in
	// the newest measurement that has both; nil where there is none.
	Compared *KLCompared
}

// KLCompared is two variants in one measurement.
type KLCompared struct {
	A, B     string // names
	KLA, KLB float64
	Pair     yardstick.Pair // B against A
}

// of is the comparison of two variants, nil where it is not there.
func (w *KLWork) of(a, b string) *KLCompared {
	if c := w.Compared; c != nil && c.A == a && c.B == b {
		return c
	}
	return nil
}

// KLAsk is what the person wants of the root.
type KLAsk uint8

// What can be asked for.
const (
	KLNothing KLAsk = iota
	KLMeasure       // begin a measurement
	KLDialog        // choose candidates and corpora first
)

// askKL wants something of the root.
func (s *Scene) askKL(a KLAsk) {
	s.KL.Ask = a
	s.Touch()
}

// showYard shows another measurement.
func (s *Scene) showYard(at int) {
	if at != s.KL.At && at >= 0 && at < len(s.State.Yards) {
		s.KL.At = at
		s.Touch()
	}
}

// running says that the measurement of this process is that of a yard.
func (w *KLWork) running(yard int) bool { return w.Running && (w.Runs < 0 || w.Runs == yard) }

// measureOff is why no measurement can be begun; "" where one can.
func (w *KLWork) measureOff() string {
	if w.Off == "" && w.Running {
		return "a measurement is under way: X ends it"
	}
	return w.Off
}

// Thousands writes a count with a comma every three digits.
func Thousands(n int64) string { return thousands(n) }
