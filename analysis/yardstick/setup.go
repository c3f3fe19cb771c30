package yardstick

import "quantscope/analysis/candidate"

// Setup is what is measured, and how: with it and the chunks' rows every figure
// can be computed again. It is stored with the session.
type Setup struct {
	Reference  Party       `json:"reference"`
	Candidates []Party     `json:"candidates"`
	Corpora    []CorpusRef `json:"corpora"`

	Activations string `json:"activations"` // f32 or bf16
	Positions   string `json:"positions"`   // all: every prediction; half: the second half of each chunk, as llama.cpp scores
	Keep        string `json:"keep,omitempty"`
	Targets     string `json:"targets,omitempty"`
	KernelSet   string `json:"kernel_set"`
	Program     string `json:"program"`
	VocabRef    int    `json:"vocab"` // tokens that are compared; both sides are renormalised over them

	// Texts are what the tokens of the corpora stand for, so that a session can be
	// read without the checkpoint.
	Texts map[int32]string `json:"texts,omitempty"`
	// Special are the tokens of the corpora that are special: no text that a person
	// wrote. The class of the others follows from their texts.
	Special []int32 `json:"special,omitempty"`

	Ceiling float64  `json:"ceiling,omitempty"` // of a candidate's mean KL, in nats, for the gate of that name; 0: none
	Seed    uint64   `json:"seed"`              // of the bootstrap
	Notes   []string `json:"notes,omitempty"`   // what was done to make the parties comparable
}

// Party is the reference or a candidate.
type Party struct {
	Label         string               `json:"label"`
	Spec          string               `json:"spec"`
	Path          string               `json:"path"`
	Kind          candidate.Kind       `json:"kind"`
	Identity      string               `json:"identity"`
	Content       string               `json:"content,omitempty"` // SHA-256 over what decides its weights; "" where it is not known
	TokenizerID   string               `json:"tokenizer,omitempty"`
	BitsPerWeight float64              `json:"bits_per_weight"`
	Bytes         int64                `json:"bytes"`
	Effective     string               `json:"effective"`
	Schemes       []candidate.Share    `json:"schemes,omitempty"`
	Fallbacks     []candidate.Fallback `json:"fallbacks,omitempty"`
	Findings      []candidate.Finding  `json:"findings,omitempty"`
	Floor         bool                 `json:"floor,omitempty"`          // the reference's own weights with bf16 activations: the ruler's floor
	Baseline      int                  `json:"baseline"`                 // index of its round-to-nearest baseline, -1 where there is none
	Of            int                  `json:"of"`                       // a row of attribution: the candidate that it is derived from, -1 else
	Vocab         int                  `json:"vocab"`                    // columns of its logits
	Calibrated    string               `json:"calibrated,omitempty"`     // on what, in a line; "" of one that was not
	Added         bool                 `json:"added,omitempty"`          // as the baseline of a calibrated candidate, where nobody asked for it
	Part          string               `json:"part,omitempty"`           // of a row of attribution: the group that alone is the candidate's; such rows are summed
	Derived       string               `json:"derived,omitempty"`        // what was done to that: keep REGEX, head from LABEL, body from LABEL
	Tokenizer     string               `json:"tokenizer_note,omitempty"` // how its tokenizer differs from the reference's; "" where it does not
}

// CorpusRef is a corpus as a setup names it.
type CorpusRef struct {
	Name      string `json:"name"`
	Source    string `json:"source"`
	SHA256    string `json:"sha256"`
	Tokenizer string `json:"tokenizer,omitempty"`
	BOS       string `json:"bos,omitempty"`
	Chunking  string `json:"chunking,omitempty"`
	// Incomparable is why perplexities on it are not to be held beside others'.
	Incomparable string    `json:"incomparable,omitempty"`
	IDs          [][]int32 `json:"-"` // by chunk; stored apart
}

// Chunk are the scores of one chunk under all candidates: row i is of the
// position First+i, which predicts token First+i+1.
type Chunk struct {
	Corpus, Index int // of Setup.Corpora, of its chunks
	First         int
	Ref           []RefRow
	Rows          [][]Row          // by candidate
	Texts         map[int32]string // of tokens that are in no corpus and were somebody's first choice
}

// RefRow is what the reference says at one position.
type RefRow struct {
	NLL  float64 // −ln p of the next token
	MaxP float32 // probability of its first choice
	Top  int32   // first choice
}

// Row is what a candidate says there. KL, Reverse and NLL are NaN where its
// logits hold a NaN or +Inf, and KL is +Inf where it excludes what the reference
// allows.
type Row struct {
	KL, Reverse, NLL float64 // KL(ref‖cand), KL(cand‖ref), −ln q of the next token
	Top              int32
}

// Positions64 is how many positions the whole measurement scores.
func (s *Setup) Positions64() int64 {
	var n int64
	for _, c := range s.Corpora {
		for _, k := range c.IDs {
			n += int64(Scored(len(k), s.half()))
		}
	}
	return n
}

func (s *Setup) half() bool { return s.Positions == "half" }

// Scored is how many positions of a chunk of n tokens are scored: all but the
// last, or those from the middle on.
func Scored(n int, half bool) int {
	if n < 2 {
		return 0
	}
	if half {
		return max(n-1-n/2, 0)
	}
	return n - 1
}
