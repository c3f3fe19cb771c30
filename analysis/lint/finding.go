package lint

// Severity says what a finding means for a gate.
type Severity string

// Severities.
const (
	Error   Severity = "error"   // the gate fails
	Warning Severity = "warning" // worth a look; the gate passes
	Note    Severity = "note"    // to be known; nothing is wrong
)

// Finding is one defect.
type Finding struct {
	ID       string   `json:"id"` // stable: what suppressions and documentation name
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"`
	File     string   `json:"file"`
	Tensor   string   `json:"tensor"`
	Message  string   `json:"message"`
	Fix      string   `json:"fix"`

	Explanation string     `json:"explanation,omitempty"` // why it matters
	Server      string     `json:"server,omitempty"`      // what a server does with it
	Evidence    []Evidence `json:"evidence,omitempty"`    // the figures and names behind it
	Mend        string     `json:"mend,omitempty"`        // the step of mend that repairs it, "" for none
	More        int        `json:"more,omitempty"`        // findings like it that are not listed
	Line        int        `json:"line,omitempty"`        // of the file, for texts and logs; 0 for none
}

// Evidence is a thing that was looked at and what it was.
type Evidence struct {
	What  string `json:"what"`
	Value string `json:"value"`
}
