package bias

import "quantscope/analysis/yardstick"

// Setup is what is looked at, and how. It is stored with the session.
type Setup struct {
	Reference   yardstick.Party       `json:"reference"`
	Candidates  []yardstick.Party     `json:"candidates"`
	Corpora     []yardstick.CorpusRef `json:"corpora"`
	Chunks      []int                 `json:"chunks"` // by corpus
	Tokens      []int64               `json:"tokens"` // by corpus
	Positions   int64                 `json:"positions"`
	Hidden      int                   `json:"hidden"` // channels of the residual stream
	Layers      int                   `json:"layers"` // decoder layers
	MoE         []int                 `json:"moe,omitempty"`
	Vocab       int                   `json:"vocab"`       // tokens that predictions are compared over
	Draws       int                   `json:"draws"`       // random signs that a null of shifts is the mean of
	Seed        uint64                `json:"seed"`        // of those
	Activations string                `json:"activations"` // f32 or bf16
	KernelSet   string                `json:"kernel_set"`
	Program     string                `json:"program"`
	Notes       []string              `json:"notes,omitempty"`
}

// Parts of a layer whose bias is told.
const (
	Residual  = "residual"  // the stream after the layer; of Layer -1 the embeddings
	Attention = "attention" // what the attention adds to it
	MLP       = "mlp"       // what the MLP or the experts add to it
)

// Row is what one part of one layer does under one candidate. With x the
// reference's values, x̂ the candidate's, d = x̂−x over positions and channels.
type Row struct {
	Candidate int    `json:"candidate"` // of Setup.Candidates
	Layer     int    `json:"layer"`     // -1: the embeddings
	Part      string `json:"part"`
	Flow
}

// Flow are the figures of a part. Each is NaN where its denominator is 0.
type Flow struct {
	Positions int64   `json:"positions"` // that are finite in both
	NonFinite int64   `json:"nonfinite,omitempty"`
	Rel       float64 `json:"rel_l2"` // ‖d‖/‖x‖
	// Bias is Σd/Σ|x|, the sign bias: positive where values grow toward +∞.
	Bias float64 `json:"bias"`
	// Gain is Σ d·x / Σ x²: below 0 where the part fades.
	Gain float64 `json:"gain"`
	// Ref is Σx/Σ|x|, the lean of the reference itself: a part that fades as a whole has
	// a bias of Gain·Ref, whatever its weights lean to; see Rest.
	Ref float64 `json:"ref"`
	// Shift is ‖mean of d over positions‖²·n / Σ‖d‖²: the share of the squared error
	// that is the same at every position, which averaging does not remove. Null is what
	// it is expected to be for errors that are independent of position: that of the
	// same d with random signs by position, measured.
	Shift float64 `json:"shift"`
	Null  float64 `json:"shift_null"`
	// NullMax is the largest of the draws that Null is the mean of: a shift above it is
	// not one that came about by chance, with a risk of 1 in Setup.Draws + 1.
	NullMax float64 `json:"shift_null_max"`
}

// Rest is the bias without what fading or growing as a whole gives: Bias − Gain·Ref.
func (f *Flow) Rest() float64 { return f.Bias - f.Gain*f.Ref }

// Weights are the biases of all matrices in which a candidate differs from the
// reference, weighed alike; see kernels.Bias for a matrix.
type Weights struct {
	Candidate int      `json:"candidate"`
	Layer     int      `json:"layer"` // -1: all of them, those that are of no layer among them
	Tensors   int      `json:"tensors"`
	RelL2     float64  `json:"rel_l2"`        // over all elements
	Bias      float64  `json:"bias"`          // over all elements
	AbsBias   float64  `json:"abs_bias"`      // mean over matrices of |bias|
	AbsNull   float64  `json:"abs_bias_null"` // what AbsBias is expected to be of the same errors with random signs
	RowRMS    float64  `json:"row_rms"`       // root mean square over rows
	RowNull   float64  `json:"row_rms_null"`  // the same of RowRMS
	RowMax    float64  `json:"row_max"`
	Positive  float64  `json:"positive"`            // share of matrices with a bias above 0
	NonFinite int64    `json:"nonfinite,omitempty"` // elements that are not finite in either, and enter nothing
	Shapes    int      `json:"shapes,omitempty"`    // matrices that were not compared, because they have other shapes
	Books     []Book   `json:"codebooks,omitempty"`
	Tensor    []Tensor `json:"tensor,omitempty"` // matrix by matrix, in the order of the layers; of Layer -1
}

// Tensor is the bias of one matrix.
type Tensor struct {
	Name   string  `json:"name"`
	Layer  int     `json:"layer"`
	Expert int     `json:"expert"` // -1: none
	RelL2  float64 `json:"rel_l2"`
	Bias   float64 `json:"bias"`
	RowRMS float64 `json:"row_rms"`
	RowMax float64 `json:"row_max"`
}

// Book is a codebook, and how many matrices have it.
type Book struct {
	Values  []float32 `json:"values"`
	Tensors int       `json:"tensors"`
}

// Divergence is the mean KL(ref‖cand) of a candidate over the same positions, in
// nats, with its standard error, and how often first choices agree.
type Divergence struct {
	Candidate int     `json:"candidate"`
	Positions int64   `json:"positions"`
	NonFinite int64   `json:"nonfinite,omitempty"` // positions without a finite KL, which are not among them
	KL        float64 `json:"kl_mean"`
	StdErr    float64 `json:"kl_stderr"`
	Top1      float64 `json:"top1"`
	// Chunks is the mean by chunk, of all corpora in order, so that two candidates can
	// be compared text by text. NaN of one without a figure.
	Chunks []float64 `json:"kl_chunks,omitempty"`
}

// End ends a run.
type End struct {
	State  string `json:"state"` // finished, cancelled, stopped
	Reason string `json:"reason,omitempty"`
}
