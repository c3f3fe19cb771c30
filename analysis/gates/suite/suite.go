package suite

import "quantscope/analysis/gates/chat"

// Suite is a set of probes. It is not changed once read.
type Suite struct {
	Name   string
	About  string
	Path   string // of the file, or the name of a built-in one
	Text   []byte // as it was read
	SHA256 string // over Text, the files that it names and the cases that came of them, in hex
	Probes []Probe
}

// Probe is one question that a suite has, in many cases.
type Probe struct {
	ID      string         `json:"id"`    // unique in its suite: arithmetic, facts/sampled
	Group   string         `json:"group"` // what kind of behaviour: arithmetic, needle, tools, …
	About   string         `json:"about"` // one sentence: what it asks and why
	Grader  string         `json:"grader"`
	Args    map[string]any `json:"args,omitempty"`    // of the grader, checked when the suite is read
	Passes  int            `json:"passes"`            // how often each case is asked; the seed differs in each
	Need    float64        `json:"need"`              // share of its answers that must pass, in (0, 1]
	Like    string         `json:"like,omitempty"`    // ID of the probe whose cases these are, at other settings: sampled against greedy, many at once against one
	Against bool           `json:"against"`           // the grader holds answers against those of the baseline
	Measure bool           `json:"measure,omitempty"` // drafting is measured: answers go on past end tokens
	Timed   bool           `json:"timed"`             // its requests are timed, so each has a nonce of its own before its text
	Set     Settings       `json:"settings"`
	Cases   []Case         `json:"cases"`
}

// Settings of a probe's requests.
type Settings struct {
	MaxTokens   int            `json:"max_tokens"`
	Temperature float64        `json:"temperature"`
	TopP        float64        `json:"top_p,omitempty"`
	TopK        int            `json:"top_k,omitempty"`
	Seed        uint64         `json:"seed"`        // of the first pass; each further one adds 1
	Concurrency int            `json:"concurrency"` // requests at the same time
	Stop        []string       `json:"stop,omitempty"`
	Stream      bool           `json:"stream"`
	System      string         `json:"system,omitempty"`
	Template    map[string]any `json:"template,omitempty"` // arguments of the chat template
	MayTruncate bool           `json:"may_truncate"`       // an answer that ends at MaxTokens can pass: of long texts and loops
}

// Case is one conversation: each turn's question goes out with all before it and
// what the model answered to them.
type Case struct {
	ID     string      `json:"id"` // unique in its probe
	Turns  []Turn      `json:"turns,omitempty"`
	Prompt string      `json:"prompt,omitempty"` // completed as it is, without chat template, in place of turns
	Want   *Want       `json:"want,omitempty"`   // of Prompt
	Tools  []chat.Tool `json:"tools,omitempty"`
	Tokens int         `json:"tokens,omitempty"` // about how long the context is, where the probe goes by that
	Depth  float64     `json:"depth,omitempty"`  // where in it the needle is, 0 to 1
}

// Turn is one question.
type Turn struct {
	User string `json:"user"`
	Want *Want  `json:"want,omitempty"` // nil: the grader of the whole says
}

// Want is what an answer is held against. Which fields count is the grader's.
type Want struct {
	Text     string   `json:"text,omitempty" yaml:"text"`     // exactly, or a number, or a passphrase
	Any      []string `json:"any,omitempty" yaml:"any"`       // one of these
	All      []string `json:"all,omitempty" yaml:"all"`       // each of these, such as call sites
	Absent   []string `json:"absent,omitempty" yaml:"absent"` // none of these
	Call     *Call    `json:"call,omitempty" yaml:"call"`     // a tool call
	Script   string   `json:"script,omitempty" yaml:"script"` // that letters are of: a Unicode script, or a name of Scripts; A+B: both
	MinRunes int      `json:"min_runes,omitempty" yaml:"min_runes"`
	MaxRunes int      `json:"max_runes,omitempty" yaml:"max_runes"`
}

// Call is a tool call that is wanted.
type Call struct {
	Name      string         `json:"name" yaml:"name"`
	Arguments map[string]any `json:"arguments" yaml:"arguments"`
}

// Block is how many tokens a stretch of an answer has by which noise is measured, of
// a probe with Measure.
func (p *Probe) Block() int { return max(p.block(), leastBlock) }

func (p *Probe) block() int {
	n, _ := p.Arg("block").(float64)
	return int(n)
}

// leastBlock tokens hold a few drafts whatever their length.
const leastBlock = 16

// Answers is how many answers of one arm a probe takes: cases × passes.
func (p *Probe) Answers() int { return len(p.Cases) * p.Passes }
