package gates

import (
	"context"
	"time"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/grade"
	"quantscope/analysis/gates/suite"
	"quantscope/analysis/gates/through"
	"quantscope/kernels"
)

// Role is what an arm is there for.
type Role string

// Roles of arms.
const (
	Baseline  Role = "baseline"
	Candidate Role = "candidate"
	Placebo   Role = "placebo" // the baseline again, after the candidates
)

// ArmSpec is an arm that is to be measured.
type ArmSpec struct {
	Label string
	Spec  string // URL of a server, or as package candidate parses it
	Role  Role
	// Open reaches it. It is called when the arm's turn comes, and what it gives is
	// closed after it.
	Open func(ctx context.Context) (chat.Target, error)
}

// Arm is an arm as it was found.
type Arm struct {
	Label string `json:"label"`
	Spec  string `json:"spec"`
	Role  Role   `json:"role"`
}

// Setup is what a run asks of whom. It is not changed once made.
type Setup struct {
	Suite   string        `json:"suite"` // name
	Path    string        `json:"path"`
	SHA256  string        `json:"sha256"`
	Text    string        `json:"text"` // of the suite
	Probes  []suite.Probe `json:"probes"`
	Arms    []Arm         `json:"arms"` // baseline first, candidates, placebo last
	Texts   *Texts        `json:"texts,omitempty"`
	Program string        `json:"program"`
	Set     string        `json:"kernel_set"`
	Timeout time.Duration `json:"timeout_ns"`
}

// Texts are what log probabilities are asked for.
type Texts struct {
	Name   string    `json:"name"`
	SHA256 string    `json:"sha256"`
	IDs    [][]int32 `json:"ids"`
	Top    int       `json:"top"`
}

// Baseline is the index of the arm that others are held against.
func (s *Setup) Baseline() int { return 0 }

// Placebo is the index of the arm that is the baseline again, -1 where there is
// none.
func (s *Setup) Placebo() int {
	for i, a := range s.Arms {
		if a.Role == Placebo {
			return i
		}
	}
	return -1
}

// Answers is how many answers a whole run takes.
func (s *Setup) Answers() int {
	n := 0
	for i := range s.Probes {
		n += s.Probes[i].Answers()
	}
	return n * len(s.Arms)
}

// Result is one answer and its verdict. It is not changed once made.
type Result struct {
	Arm     int           `json:"arm"`
	Probe   int           `json:"probe"`
	Case    int           `json:"case"`
	Pass    int           `json:"pass"` // from 0
	Seed    uint64        `json:"seed"`
	Nonce   string        `json:"nonce,omitempty"`
	Answer  grade.Answer  `json:"answer"`
	Verdict grade.Verdict `json:"verdict"`
}

// Key names a result within its run.
type Key struct{ Arm, Probe, Case, Pass int }

// Key names the result.
func (r *Result) Key() Key { return Key{r.Arm, r.Probe, r.Case, r.Pass} }

// Meter is what an arm told of itself around its answers.
type Meter struct {
	Arm      int            `json:"arm"`
	Identity chat.Identity  `json:"identity"`
	Print    Fingerprint    `json:"fingerprint"`
	Counted  *chat.Counters `json:"counted,omitempty"` // over the run; nil where nothing was told
	Seconds  float64        `json:"seconds"`           // of the arm's answers by the clock
	Tokens   int64          `json:"tokens"`            // that were made, by the answers themselves
	Said     *through.Said  `json:"-"`
	Arm1     *through.Arm   `json:"through,omitempty"`
	Pair     *through.Pair  `json:"through_pair,omitempty"` // against the baseline
	Checks   []Check        `json:"checks,omitempty"`       // that need the arm itself: nonce, cached timings, determinism, rank
}

// Fingerprint is what an arm answers to fixed questions: what tells two arms apart
// when their names do not.
type Fingerprint struct {
	Text     string    `json:"text"`               // SHA-256 of greedy answers
	Logprobs []float64 `json:"logprobs,omitempty"` // of their tokens; none where they are not told
}

// End ends a run.
type End struct {
	State  string `json:"state"` // finished, cancelled, stopped
	Reason string `json:"reason,omitempty"`
}

// Progress is how far a run is.
type Progress struct {
	Stage      string        // opening, checking, asking, log probabilities
	Arm, Probe int           // -1 where it is about none
	Done, Of   int           // answers of the whole run
	Tokens     int64         // made in this process so far
	PerSecond  float64       // tokens, of late; 0: not known
	ETA        time.Duration // 0: not known
}

// Options of a run.
type Options struct {
	Texts *Texts // log probabilities are asked for as well; nil: none
	// Words is the text of ids, for servers that take texts and no ids; nil: those tell
	// no log probabilities of Texts.
	Words   func(ids []int32) string
	Timeout time.Duration // of an answer; 0: 5 minutes
	Level   float64       // of intervals; 0: 0.95
	Program string
	Set     kernels.Set

	Prior  []*Result // that an earlier run of the same setup brought
	Meters []*Meter  // likewise, of arms that it finished

	Begin    func(*Setup)                // before the first answer; may be nil
	Answered func(*Result)               // as results come; from one goroutine at a time; may be nil
	Metered  func(*Meter)                // at the end of each arm; may be nil
	Progress func(Progress)              // from any goroutine; may be nil
	Pause    func(context.Context) error // asked before each request; waits while the person holds the run; may be nil
	Warn     func(string)                // may be nil
}
