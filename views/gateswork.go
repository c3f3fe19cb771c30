package views

import "quantscope/analysis/gates"

// GatesWork is what the root and the Gates screen share: the root runs gates and
// computes reports in the background, the screen shows them and asks for more.
type GatesWork struct {
	At       int           // the run that is shown, -1 where there is none
	Report   *gates.Report // of the run that is shown, as far as it was computed; nil where there is none yet
	Stale    bool          // answers have come that Report does not have
	Off      string        // why no gates can be run here; "" where they can
	Running  bool          // a run of this process
	Runs     int           // which of the runs it is, -1 where that is not known yet
	Paused   bool          // of what runs
	Progress gates.Progress
	Err      string   // why the last one failed
	Ask      GatesAsk // taken by the root
	Plan     []string // sentences: what GatesRun would ask of whom
}

// GatesAsk is what the person wants of the root.
type GatesAsk uint8

// What can be asked for.
const (
	GatesNothing GatesAsk = iota
	GatesRun              // begin a run, or go on with the one that is shown
	GatesDialog           // choose suite and arms first
)

// askGates wants something of the root.
func (s *Scene) askGates(a GatesAsk) {
	s.Gates.Ask = a
	s.Touch()
}

// showGates shows another run.
func (s *Scene) showGates(at int) {
	if at != s.Gates.At && at >= 0 && at < len(s.State.Gates) {
		s.Gates.At = at
		s.Touch()
	}
}

// running says that the run of this process is the one with that index.
func (w *GatesWork) running(run int) bool { return w.Running && (w.Runs < 0 || w.Runs == run) }

// runOff is why no run can be begun; "" where one can.
func (w *GatesWork) runOff() string {
	if w.Off == "" && w.Running {
		return "gates are being run: X ends them"
	}
	return w.Off
}

// GatesStage says in words what a run of gates does.
func GatesStage(s string) string {
	switch s {
	case "":
		return "beginning"
	case "opening":
		return "opening the arm"
	case "checking":
		return "checking the measurement"
	case "asking":
		return "asking"
	case "log probabilities":
		return "asking for log probabilities"
	}
	return Clean(s)
}
