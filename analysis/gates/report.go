package gates

// Report is what a run says.
type Report struct {
	Setup      *Setup
	Checks     []Check      // of the measurement itself, first
	Rows       []Row        // probe after probe, arm after arm
	Pairs      []Pair       // arms against the baseline: each probe, and last all in sum (Probe -1)
	Acceptance []Acceptance // of probes that measure it, probe after probe, arm after arm
	Meters     []*Meter
	Fails      []Fail
}

// Row is what an arm answered to a probe.
type Row struct {
	Probe, Arm  int
	Passed, Of  int // answers graded so far
	All         int // that there will be
	Low, High   float64
	OK          bool // enough passed; false while answers are missing
	Erred       int
	Empty       int
	Truncated   int
	Replacement int     // answers with characters that are none
	Events      int     // such characters in all
	Malformed   int     // calls
	Tokens      int64   // made
	Seconds     float64 // of answers, where the probe is timed
}

// Row is that of a probe and an arm.
func (r *Report) Row(probe, arm int) *Row {
	for i := range r.Rows {
		if r.Rows[i].Probe == probe && r.Rows[i].Arm == arm {
			return &r.Rows[i]
		}
	}
	return nil
}

// Pair is an arm against the baseline on the answers of both.
type Pair struct {
	Probe, Arm    int // Probe -1: all but those that ask for the baseline's own answers, and that measure acceptance
	Both, Neither int
	OnlyBase      int     // the baseline passes, the arm does not
	OnlyArm       int     // the other way round
	Cases         int     // of those answers: passes of one case are one item to the test, and so is a case that sibling probes share
	Fewer, More   int     // of Cases: that the arm passes fewer times, and more, than the baseline
	P             float64 // McNemar's exact test over cases, two-sided; NaN without discordant ones
	Adjusted      float64 // P by Holm over the probes of the arm; of all in sum, and of a probe that asks for the baseline's own answers, P itself
	Difference    float64 // of shares of answers that pass, arm − baseline
	Low, High     float64 // its interval (Newcombe), as of so many cases
	Band          float64 // smallest difference of shares that so many cases tell at this level with power 0.8; NaN: none
	Noise         int     // discordant answers of the placebo on the same probe; -1 without a placebo
	Verdict       string  // one sentence with the figures in it
	Better, Worse bool    // beyond the test and the placebo; of own answers neither, since the baseline cannot fail them
}

// CheckState says what became of a check.
type CheckState string

// States of a check.
const (
	CheckPassed  CheckState = "passed"
	CheckFailed  CheckState = "failed"
	CheckUnknown CheckState = "unknown" // could not be made: the server does not tell
	CheckIdle    CheckState = "idle"    // there is nothing to check
)

// IDs of checks of the measurement itself.
const (
	CheckNonce       = "nonce"       // each timed request had one of its own
	CheckCached      = "cached"      // timed prompts were computed, not remembered
	CheckPlacebo     = "placebo"     // the baseline twice: how much it differs from itself
	CheckAgain       = "again"       // the baseline was measured again in this run
	CheckChanged     = "changed"     // the arm is not the baseline under another name
	CheckRank        = "rank"        // log probabilities: the true next token's median rank
	CheckMatchedK    = "matched-k"   // arms that are compared draft equally many tokens
	CheckAcceptance  = "acceptance"  // acceptance is told with accepted length and tokens/s, or not at all
	CheckCap         = "cap"         // answers at the budget are counted as truncated
	CheckEmpty       = "empty"       // outputs have something in them
	CheckDeterminism = "determinism" // the same question twice, and how far apart the answers are
	CheckModel       = "model"       // answers name the model that was asked
	CheckSpeed       = "speed"       // tokens by the server's counters and by the answers agree
)

// CheckIDs lists them in the order in which they are told: first whether timings and
// differences can be believed, then whether answers can.
func CheckIDs() []string {
	return []string{CheckChanged, CheckPlacebo, CheckAgain, CheckDeterminism, CheckModel, CheckEmpty, CheckCap,
		CheckRank, CheckNonce, CheckCached, CheckSpeed, CheckMatchedK, CheckAcceptance}
}

// Check is one doubt about the measurement, and what became of it.
type Check struct {
	ID      string             `json:"id"`
	Arm     int                `json:"arm"` // -1: of the whole run
	State   CheckState         `json:"state"`
	Message string             `json:"message"` // one sentence with the figures in it
	Figures map[string]float64 `json:"figures,omitempty"`
}

// Fail is a reason for which the gates are shut.
type Fail struct {
	Kind    FailKind `json:"kind"`
	Probe   int      `json:"probe"` // -1
	Arm     int      `json:"arm"`   // -1
	Message string   `json:"message"`
}

// FailKind is what --fail-on goes by.
type FailKind string

// Kinds of failures.
const (
	FailNeed       FailKind = "need"       // an arm passes fewer than a probe needs; the baseline too
	FailRegression FailKind = "regression" // an arm is worse than the baseline, or accepts fewer drafts, beyond test and placebo
	FailCheck      FailKind = "check"      // the measurement cannot be believed
	FailError      FailKind = "error"      // answers did not come
)

// FailKinds lists them.
func FailKinds() []FailKind { return []FailKind{FailNeed, FailRegression, FailCheck, FailError} }
