package bias

import (
	"math"

	"quantscope/analysis/stats"
)

// Report is all that a run found, computed from what sinks were given.
type Report struct {
	Setup       *Setup        `json:"setup"`
	Weights     []*Weights    `json:"weights"`
	Rows        []*Row        `json:"rows"`
	Divergences []*Divergence `json:"divergences"`
	Pairs       []Pair        `json:"pairs"`    // of candidates of about equal weight error, in order
	Verdicts    []string      `json:"verdicts"` // a sentence a candidate with its figures, then what holds between candidates of about equal error

	rows map[rowKey]*Row
}

type rowKey struct {
	candidate, layer int
	part             string
}

// Equal is how far two weight errors may be apart, as a share of the larger, to count
// as about equal.
const Equal = 0.05

// Level of the intervals of paired differences.
const Level = 0.95

// Pair is what two candidates of about equal weight error differ in. Figures of the
// stream are those after layers in which both have them.
type Pair struct {
	A      int     `json:"a"` // candidates
	B      int     `json:"b"`
	RelA   float64 `json:"rel_l2_a"` // of their weights
	RelB   float64 `json:"rel_l2_b"`
	AbsA   float64 `json:"abs_bias_a"` // mean |bias| of a matrix
	AbsB   float64 `json:"abs_bias_b"`
	Layers int     `json:"layers"`     // that both have figures of
	BiasA  int     `json:"bias_a"`     // layers after which the stream's |bias| is larger under A
	BiasB  int     `json:"bias_b"`     // under B
	ShiftA int     `json:"shift_a"`    // the same of the shift
	ShiftB int     `json:"shift_b"`    //
	LastA  Flow    `json:"last_a"`     // of the stream after the last layer
	LastB  Flow    `json:"last_b"`     //
	DKL    float64 `json:"dkl"`        // KL of B minus that of A: the mean over chunks
	Low    float64 `json:"dkl_low"`    // and its 95 % interval, NaN of fewer than two chunks
	High   float64 `json:"dkl_high"`   //
	Chunks int     `json:"dkl_chunks"` //
}

// Analyze makes a report of what was found so far.
func Analyze(s *Setup, weights []*Weights, rows []*Row, divergences []*Divergence) *Report {
	r := &Report{Setup: s, Weights: weights, Rows: rows, Divergences: divergences, rows: map[rowKey]*Row{}}
	for _, row := range rows {
		r.rows[rowKey{row.Candidate, row.Layer, row.Part}] = row
	}
	for a := range s.Candidates {
		for b := a + 1; b < len(s.Candidates); b++ {
			if p, ok := r.pair(a, b); ok {
				r.Pairs = append(r.Pairs, p)
			}
		}
	}
	for c := range s.Candidates {
		if text := r.verdict(c); text != "" {
			r.Verdicts = append(r.Verdicts, text)
		}
	}
	for i := range r.Pairs {
		r.Verdicts = append(r.Verdicts, r.Sentence(&r.Pairs[i]))
	}
	return r
}

// Total are the weights of all matrices of a candidate, nil where they are not there
// yet.
func (r *Report) Total(candidate int) *Weights { return r.WeightsOf(candidate, -1) }

// WeightsOf are those of a layer; nil where there are none.
func (r *Report) WeightsOf(candidate, layer int) *Weights {
	for _, w := range r.Weights {
		if w.Candidate == candidate && w.Layer == layer {
			return w
		}
	}
	return nil
}

// Row is a part of a layer under a candidate, nil where it is not there.
func (r *Report) Row(candidate, layer int, part string) *Row {
	return r.rows[rowKey{candidate, layer, part}]
}

// Last is the stream of a candidate after the last layer, nil where the run did not
// come so far.
func (r *Report) Last(candidate int) *Row { return r.Row(candidate, r.Setup.Layers-1, Residual) }

// DivergenceOf is that of a candidate, nil where it is not there.
func (r *Report) DivergenceOf(candidate int) *Divergence {
	for _, d := range r.Divergences {
		if d.Candidate == candidate {
			return d
		}
	}
	return nil
}

// pair compares two candidates; false where their weight errors are not about equal.
func (r *Report) pair(a, b int) (Pair, bool) {
	wa, wb := r.Total(a), r.Total(b)
	nan := math.NaN()
	p := Pair{A: a, B: b, DKL: nan, Low: nan, High: nan}
	if wa == nil || wb == nil || wa.Tensors == 0 || wb.Tensors == 0 || !(math.Abs(wa.RelL2-wb.RelL2) <= Equal*max(wa.RelL2, wb.RelL2)) {
		return p, false
	}
	p.RelA, p.RelB, p.AbsA, p.AbsB = wa.RelL2, wb.RelL2, wa.AbsBias, wb.AbsBias
	for l := range r.Setup.Layers {
		x, y := r.Row(a, l, Residual), r.Row(b, l, Residual)
		if x == nil || y == nil || !(math.Abs(x.Bias)+math.Abs(y.Bias) > 0) {
			continue
		}
		p.Layers++
		p.BiasA, p.BiasB = counted(p.BiasA, p.BiasB, math.Abs(x.Bias), math.Abs(y.Bias))
		p.ShiftA, p.ShiftB = counted(p.ShiftA, p.ShiftB, x.Shift, y.Shift)
		p.LastA, p.LastB = x.Flow, y.Flow
	}
	p.kl(r.DivergenceOf(a), r.DivergenceOf(b))
	return p, true
}

// counted adds one to the side whose figure is larger.
func counted(a, b int, x, y float64) (int, int) {
	switch {
	case x > y:
		a++
	case y > x:
		b++
	}
	return a, b
}

// kl compares divergences chunk by chunk.
func (p *Pair) kl(a, b *Divergence) {
	if a == nil || b == nil || len(a.Chunks) != len(b.Chunks) {
		return
	}
	var x, y []float64
	var sum float64
	for i, v := range a.Chunks {
		if w := b.Chunks[i]; finite(v) && finite(w) {
			x, y = append(x, v), append(y, w)
			sum += w - v
		}
	}
	if p.Chunks = len(x); p.Chunks == 0 {
		return
	}
	p.DKL = sum / float64(len(x))
	if len(x) > 1 {
		p.DKL, p.Low, p.High = stats.MeanChange(x, y, false, Level)
	}
}

// Apart says whether the pair's divergences are told apart.
func (p *Pair) Apart() bool { return p.Low > 0 || p.High < 0 }

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
