package yardstick

import "quantscope/analysis/yardstick/kld"

// Report is what a measurement says, as far as it has come.
type Report struct {
	Setup      *Setup
	Positions  int64    // scored so far
	Of         int64    // of the whole measurement
	Results    []Result // by candidate
	Pairs      []Pair   // candidates compared, each with its baseline and with the best
	Gates      []Gate
	Attributed []Attribution
	Probes     []Probe // empty where none was asked for
	Sane       *Sanity // nil until it was looked at
	// Base are llama-perplexity's statistics by candidate, where the reference is a
	// file of its; nil for a candidate with another number of logits, and where a part
	// was scored before.
	Base []*kld.Statistics
}

// Result is one candidate over all corpora, and its parts.
type Result struct {
	Candidate int
	All       Summary
	Corpora   []Summary // by corpus of the setup
	Buckets   []Summary // by confidence of the reference
	Classes   []Summary // by class of the token that is to be predicted
	ByPlace   []Summary // by position in the chunk, in at most 32 equal bins
	Worst     []Place   // positions of the largest KL, largest first, at most 64; one a distinct position
	Histogram Histogram // of log10 KL
}

// Summary are the figures of a set of positions. Figures that are not defined
// are NaN and Why says so; fields of standard errors are over chunks, so that
// neighbours in a text do not count as independent.
type Summary struct {
	Name      string  // all, the corpus, the bucket, the class
	Positions int64   // with a figure
	NaN       int64   // not a number: failed, in no figure
	Infinite  int64   // KL = +Inf: in the median and the percentiles, not in the mean
	Chunks    int     // that they come from
	KL, KLErr float64 // mean and its standard error
	Median    float64
	P90, P99  float64
	P999, Max float64
	Reverse   float64 // mean KL(cand‖ref)
	RevErr    float64
	Top1      float64 // share of positions with the reference's first choice
	Top1Err   float64
	NLL       float64 // mean
	RefNLL    float64
	DNLL      float64 // NLL − RefNLL, paired
	DNLLErr   float64
	PPL       float64 // e^NLL
	RefPPL    float64
	PPLErr    float64
	RMSdP     float64 // √mean (q−p)² of the next token's probability
	Why       string  // why figures are missing; "" where none is
}

// Place is a position and what was said there.
type Place struct {
	Corpus, Chunk, At int // At predicts token At+1
	KL                float64
	Target, Ref, Cand int32
	MaxP              float64
}

// Histogram counts positions by log10 KL: bins of 0.25 from −9 to +2; what is
// below, 0 included, and above is in the first and last.
type Histogram struct {
	Counts   [44]int64
	Infinite int64
}

// HistogramFrom is where the first bin begins, HistogramStep how wide each is.
const (
	HistogramFrom = -9.0
	HistogramStep = 0.25
)

// Pair compares two candidates position by position: bootstrap over chunks.
type Pair struct {
	A, B              int     // indices of candidates
	DKL, Low, High    float64 // mean KL of B − A with its 95 % interval
	DNLL, NLow, NHigh float64
	P                 float64 // two-sided, by the same resamples
	Chunks            int
	Left              int64  // positions left out: a figure of one side is not finite
	Wins              int    // chunks whose mean KL is lower under B
	Equal             bool   // every row is equal, bit for bit
	Why               string // why figures are missing
}

// Gate is a check with a verdict.
type Gate struct {
	Name    string // fidelity, determinism, magnitude, finite, tokenizer, kl-ceiling
	Of      int    // candidate, -1 for the measurement
	Passed  bool
	Message string // with the figures
}

// Attribution is how the rows derived from a candidate add up: the KL of the
// whole beside the sum of its parts.
type Attribution struct {
	Of         int // candidate
	Rows       []int
	Whole, Sum float64
	Low, High  float64 // 95 % interval of Sum/Whole, bootstrap over chunks
	Message    string
}

// Probe is the error of one linear map's output on real inputs,
// ‖(Ŵ−W)x‖/‖Wx‖, beside that of its weights.
type Probe struct {
	Candidate, Layer int
	Name             string // layer 3 expert down
	Tensors          int
	Output, Weight   float64 // over all of them, by energy
	Rows             int64   // inputs
}

// Sanity is whether the measurement can be believed: the same pass twice gives
// the same bits, and weights that were changed give other numbers.
type Sanity struct {
	Deterministic bool
	Norms         []float64 // root mean square of the reference's residual stream: the embeddings, then after each layer
	Grows         bool      // one of them is above that of the embeddings
	Moved         bool      // a change of the weights moved the logits
	// Same are the candidates whose KL is 0 everywhere because their weights are
	// the reference's, value for value.
	Same []int
	// NonFinite says by candidate where its hidden states first were not finite: its
	// layer, corpus, chunk and position; "" where they never were.
	NonFinite []string
	Message   string
}
