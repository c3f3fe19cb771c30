package views

import (
	"strconv"
	"strings"

	"quantscope/analysis/bias"
)

// BiasWork is what the root and the bias pane share: the root starts looks in the
// background, the pane shows them and asks for more.
type BiasWork struct {
	At       int    // the run that is shown, -1 where there is none
	Off      string // why nothing can be looked at here; "" where it can
	Running  bool   // a run of this process
	Runs     int    // which of the runs it is, -1 where that is not known yet
	Paused   bool   // of what runs
	Progress bias.Progress
	Err      string   // why the last one failed
	Ask      BiasAsk  // taken by the root
	Plan     []string // sentences: what BiasRun would look at
}

// BiasAsk is what the person wants of the root.
type BiasAsk uint8

// What can be asked for.
const (
	BiasNothing BiasAsk = iota
	BiasRun             // begin a run
	BiasDialog          // choose candidates and corpora first
)

// askBias wants something of the root.
func (s *Scene) askBias(a BiasAsk) {
	s.Bias.Ask = a
	s.Touch()
}

// showBias shows another run.
func (s *Scene) showBias(at int) {
	if at != s.Bias.At && at >= 0 && at < len(s.State.Biases) {
		s.Bias.At = at
		s.Touch()
	}
}

// running says that the run of this process is the one with that index.
func (w *BiasWork) running(run int) bool { return w.Running && (w.Runs < 0 || w.Runs == run) }

// runOff is why no run can be begun; "" where one can.
func (w *BiasWork) runOff() string {
	if w.Off == "" && w.Running {
		return "biases are being looked at: X ends it"
	}
	return w.Off
}

// BiasStage says in words what a run does.
func BiasStage(s string) string {
	switch s {
	case "":
		return "beginning"
	case "weights":
		return "comparing weights"
	case "passing":
		return "taking text through the layers"
	case "heads":
		return "comparing predictions"
	}
	return Clean(s)
}

// BiasBooks lists codebooks in a line, with how many matrices have each: −4 −1 1.5 4
// ×104.
func BiasBooks(books []bias.Book) string {
	var b strings.Builder
	for i, k := range books {
		if i > 0 {
			b.WriteString(", ")
		}
		for j, v := range k.Values {
			if j > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(minus(strconv.FormatFloat(float64(v), 'g', -1, 32)))
		}
		b.WriteString(" ×" + thousands(k.Tensors))
	}
	return b.String()
}
