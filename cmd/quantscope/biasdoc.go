package main

import (
	"quantscope/analysis/bias"
	"quantscope/analysis/candidate"
	"quantscope/analysis/yardstick"
	"quantscope/sessions"
)

// biasDocument is a look at biases as one document. Figures that are not finite are
// strings.
type biasDocument struct {
	Session     string          `json:"session"`
	Reference   yardstick.Party `json:"reference"`
	Activations string          `json:"activations"`
	KernelSet   string          `json:"kernel_set"`
	Program     string          `json:"program"`
	Corpora     []measureCorpus `json:"corpora"`
	Positions   int64           `json:"positions"`
	Layers      int             `json:"layers"`
	Hidden      int             `json:"hidden"`
	MoE         []int           `json:"moe"`
	Vocab       int             `json:"vocab"`
	Draws       int             `json:"draws"`
	Seed        uint64          `json:"seed"`
	Notes       []string        `json:"notes"`
	Candidates  []biasRow       `json:"candidates"` // the floor last
	Pairs       []biasPair      `json:"pairs"`
	Verdicts    []string        `json:"verdicts"`
}

// biasRow is a candidate.
type biasRow struct {
	Candidate     string               `json:"candidate"`
	Spec          string               `json:"spec"`
	Kind          candidate.Kind       `json:"kind"`
	Path          string               `json:"path"`
	Identity      string               `json:"identity"`
	Content       string               `json:"content,omitempty"`
	Floor         bool                 `json:"floor"`
	Effective     string               `json:"effective"`
	BitsPerWeight sessions.Figure      `json:"bits_per_weight"`
	Bytes         int64                `json:"bytes"`
	Fallbacks     []candidate.Fallback `json:"fallbacks"`
	Weights       *biasWeights         `json:"weights"`
	Stream        *biasFlow            `json:"stream"` // after the last layer
	Divergence    *biasDivergence      `json:"divergence"`
	Depth         []biasLayer          `json:"depth"`
	Tensors       []biasTensor         `json:"tensors"`
}

// biasWeights are the biases of matrices.
type biasWeights struct {
	Tensors   int             `json:"tensors"`
	RelL2     sessions.Figure `json:"rel_l2"`
	Bias      sessions.Figure `json:"bias"`
	AbsBias   sessions.Figure `json:"abs_bias"`
	AbsNull   sessions.Figure `json:"abs_bias_null"`
	RowRMS    sessions.Figure `json:"row_rms"`
	RowNull   sessions.Figure `json:"row_rms_null"`
	RowMax    sessions.Figure `json:"row_max"`
	Positive  sessions.Figure `json:"positive"`
	NonFinite int64           `json:"nonfinite"`
	Shapes    int             `json:"other_shapes"`
	Books     []bias.Book     `json:"codebooks"`
}

// biasFlow is a part of a layer, or the stream after it.
type biasFlow struct {
	Positions int64           `json:"positions"`
	NonFinite int64           `json:"nonfinite"`
	RelL2     sessions.Figure `json:"rel_l2"`
	Bias      sessions.Figure `json:"bias"`
	Gain      sessions.Figure `json:"gain"`
	Ref       sessions.Figure `json:"ref"`
	Rest      sessions.Figure `json:"rest"`
	Shift     sessions.Figure `json:"shift"`
	Null      sessions.Figure `json:"shift_null"`
	NullMax   sessions.Figure `json:"shift_null_max"`
}

// biasDivergence is how far predictions are.
type biasDivergence struct {
	Positions int64             `json:"positions"`
	NonFinite int64             `json:"nonfinite"`
	KL        sessions.Figure   `json:"kl_mean"`
	StdErr    sessions.Figure   `json:"kl_stderr"`
	Top1      sessions.Figure   `json:"top1"`
	Chunks    []sessions.Figure `json:"kl_chunks"`
}

// biasLayer is a layer of a candidate; −1 are the embeddings.
type biasLayer struct {
	Layer     int          `json:"layer"`
	Weights   *biasWeights `json:"weights,omitempty"`
	Attention *biasFlow    `json:"attention,omitempty"`
	MLP       *biasFlow    `json:"mlp,omitempty"`
	Residual  *biasFlow    `json:"residual,omitempty"`
}

// biasTensor is one matrix.
type biasTensor struct {
	Name   string          `json:"name"`
	Layer  int             `json:"layer"`
	Expert int             `json:"expert"`
	RelL2  sessions.Figure `json:"rel_l2"`
	Bias   sessions.Figure `json:"bias"`
	RowRMS sessions.Figure `json:"row_rms"`
	RowMax sessions.Figure `json:"row_max"`
}

// biasPair is what holds between two candidates of about equal weight error.
type biasPair struct {
	A        string          `json:"a"`
	B        string          `json:"b"`
	RelA     sessions.Figure `json:"rel_l2_a"`
	RelB     sessions.Figure `json:"rel_l2_b"`
	AbsA     sessions.Figure `json:"abs_bias_a"`
	AbsB     sessions.Figure `json:"abs_bias_b"`
	Layers   int             `json:"layers"`
	BiasA    int             `json:"bias_a"`
	BiasB    int             `json:"bias_b"`
	ShiftA   int             `json:"shift_a"`
	ShiftB   int             `json:"shift_b"`
	DKL      sessions.Figure `json:"delta_kl"`
	Low      sessions.Figure `json:"low"`
	High     sessions.Figure `json:"high"`
	Chunks   int             `json:"chunks"`
	Sentence string          `json:"sentence"`
}

// biasOf makes the document of a report.
func biasOf(session string, r *bias.Report) *biasDocument {
	s := r.Setup
	d := &biasDocument{
		Session: session, Reference: s.Reference, Activations: s.Activations, KernelSet: s.KernelSet, Program: s.Program,
		Corpora: []measureCorpus{}, Positions: s.Positions, Layers: s.Layers, Hidden: s.Hidden, MoE: append([]int{}, s.MoE...), Vocab: s.Vocab,
		Draws: s.Draws, Seed: s.Seed, Notes: append([]string{}, s.Notes...), Candidates: []biasRow{}, Pairs: []biasPair{}, Verdicts: append([]string{}, r.Verdicts...),
	}
	for i, c := range s.Corpora {
		m := measureCorpus{Name: c.Name, Source: c.Source, SHA256: c.SHA256, Tokenizer: c.Tokenizer, BOS: c.BOS, Chunking: c.Chunking}
		if i < len(s.Chunks) && i < len(s.Tokens) {
			m.Chunks, m.Tokens = s.Chunks[i], int(s.Tokens[i])
		}
		d.Corpora = append(d.Corpora, m)
	}
	for c := range s.Candidates {
		d.Candidates = append(d.Candidates, biasRowOf(r, c))
	}
	f := func(v float64) sessions.Figure { return sessions.Figure(v) }
	for i := range r.Pairs {
		p := &r.Pairs[i]
		d.Pairs = append(d.Pairs, biasPair{
			A: s.Candidates[p.A].Label, B: s.Candidates[p.B].Label, RelA: f(p.RelA), RelB: f(p.RelB), AbsA: f(p.AbsA), AbsB: f(p.AbsB),
			Layers: p.Layers, BiasA: p.BiasA, BiasB: p.BiasB, ShiftA: p.ShiftA, ShiftB: p.ShiftB,
			DKL: f(p.DKL), Low: f(p.Low), High: f(p.High), Chunks: p.Chunks, Sentence: r.Sentence(p),
		})
	}
	return d
}

func biasRowOf(r *bias.Report, c int) biasRow {
	p := &r.Setup.Candidates[c]
	row := biasRow{
		Candidate: p.Label, Spec: p.Spec, Kind: p.Kind, Path: p.Path, Identity: p.Identity, Content: p.Content, Floor: p.Floor, Effective: p.Effective,
		BitsPerWeight: sessions.Figure(p.BitsPerWeight), Bytes: p.Bytes, Fallbacks: append([]candidate.Fallback{}, p.Fallbacks...),
		Weights: biasWeightsOf(r.Total(c)), Stream: biasFlowOf(r.Last(c)), Depth: []biasLayer{}, Tensors: []biasTensor{},
	}
	if d := r.DivergenceOf(c); d != nil {
		row.Divergence = &biasDivergence{
			Positions: d.Positions, NonFinite: d.NonFinite, KL: sessions.Figure(d.KL), StdErr: sessions.Figure(d.StdErr), Top1: sessions.Figure(d.Top1),
			Chunks: []sessions.Figure{},
		}
		for _, v := range d.Chunks {
			row.Divergence.Chunks = append(row.Divergence.Chunks, sessions.Figure(v))
		}
	}
	for l := -1; l < r.Setup.Layers; l++ {
		at := biasLayer{Layer: l, Attention: biasFlowOf(r.Row(c, l, bias.Attention)), MLP: biasFlowOf(r.Row(c, l, bias.MLP)), Residual: biasFlowOf(r.Row(c, l, bias.Residual))}
		if l >= 0 {
			at.Weights = biasWeightsOf(r.WeightsOf(c, l))
		}
		if at.Residual != nil {
			row.Depth = append(row.Depth, at)
		}
	}
	if w := r.Total(c); w != nil {
		for _, t := range w.Tensor {
			row.Tensors = append(row.Tensors, biasTensor{
				t.Name, t.Layer, t.Expert, sessions.Figure(t.RelL2), sessions.Figure(t.Bias), sessions.Figure(t.RowRMS), sessions.Figure(t.RowMax),
			})
		}
	}
	return row
}

func biasWeightsOf(w *bias.Weights) *biasWeights {
	if w == nil {
		return nil
	}
	f := func(v float64) sessions.Figure { return sessions.Figure(v) }
	return &biasWeights{
		Tensors: w.Tensors, RelL2: f(w.RelL2), Bias: f(w.Bias), AbsBias: f(w.AbsBias), AbsNull: f(w.AbsNull), RowRMS: f(w.RowRMS), RowNull: f(w.RowNull), RowMax: f(w.RowMax), Positive: f(w.Positive),
		NonFinite: w.NonFinite, Shapes: w.Shapes, Books: append([]bias.Book{}, w.Books...),
	}
}

func biasFlowOf(row *bias.Row) *biasFlow {
	if row == nil {
		return nil
	}
	f := func(v float64) sessions.Figure { return sessions.Figure(v) }
	return &biasFlow{
		Positions: row.Positions, NonFinite: row.NonFinite, RelL2: f(row.Rel), Bias: f(row.Bias), Gain: f(row.Gain), Ref: f(row.Ref), Rest: f(row.Rest()),
		Shift: f(row.Shift), Null: f(row.Null), NullMax: f(row.NullMax),
	}
}
