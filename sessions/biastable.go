package sessions

import (
	"context"
	"strconv"
	"strings"

	"quantscope/analysis/bias"
	"quantscope/kernels"
)

// putBias writes what an event says of biases.
func (in *inserts) putBias(ctx context.Context, e *stored) error {
	d := e.bias
	switch {
	case d.Setup != nil:
		return in.putBiasRun(ctx, e.Seq, d)
	case d.Weights != nil:
		return in.putBiasWeights(ctx, e.Seq, d)
	case d.Row != nil:
		r := d.Row
		_, err := in.biasRow.ExecContext(ctx, d.Run, r.Candidate, r.Layer, r.Part, e.Seq, r.Positions, r.NonFinite, r.Rel, r.Bias, r.Gain, r.Ref, r.Shift, r.Null, r.NullMax)
		return err
	case d.Divergence != nil:
		v := d.Divergence
		_, err := in.biasKL.ExecContext(ctx, d.Run, v.Candidate, e.Seq, v.Positions, v.KL, v.StdErr, v.Top1)
		return err
	}
	_, err := in.biasEnd.ExecContext(ctx, d.End.State, orNothing(d.End.Reason), d.Run)
	return err
}

// putBiasRun writes whose biases are looked at.
func (in *inserts) putBiasRun(ctx context.Context, seq int64, d *biasJSON) error {
	s := d.Setup
	var corpora []string
	for _, c := range s.Corpora {
		corpora = append(corpora, c.Name)
	}
	if _, err := in.biasRun.ExecContext(ctx, d.Run, seq, string(RunRunning), s.Reference.Label, s.Reference.Identity, s.Activations, s.Layers, s.Hidden, s.Positions,
		strings.Join(corpora, ", "), s.KernelSet, s.Program); err != nil {
		return err
	}
	for i, c := range s.Candidates {
		if _, err := in.biasParty.ExecContext(ctx, d.Run, i, c.Label, c.Spec, string(c.Kind), c.Identity, c.Effective, c.BitsPerWeight); err != nil {
			return err
		}
	}
	return nil
}

// putBiasWeights writes the biases of a candidate's weights, and matrix by matrix.
func (in *inserts) putBiasWeights(ctx context.Context, seq int64, d *biasJSON) error {
	w := d.Weights
	if _, err := in.biasWeights.ExecContext(ctx, d.Run, w.Candidate, w.Layer, seq, w.Tensors, w.RelL2, w.Bias, w.AbsBias, w.AbsNull, w.RowRMS, w.RowNull, w.RowMax, w.Positive,
		orNothing(booksText(w.Books))); err != nil {
		return err
	}
	for i := range w.Tensor {
		t := &w.Tensor[i]
		if _, err := in.biasTensor.ExecContext(ctx, d.Run, w.Candidate, i, t.Name, orNull(t.Layer), orNull(t.Expert), t.RelL2, t.Bias, t.RowRMS, t.RowMax); err != nil {
			return err
		}
	}
	return nil
}

// booksText lists codebooks with how many matrices have them: -6 -1 0 3: 12.
func booksText(books []bias.Book) string {
	var parts []string
	for _, b := range books {
		parts = append(parts, valuesText(b.Values)+": "+strconv.Itoa(b.Tensors))
	}
	return strings.Join(parts, "; ")
}

// CodebookText lists the values of a codebook, ascending: -6 -1 0 3; "" of none.
func CodebookText(mask uint16) string { return valuesText(kernels.Codebook(mask)) }

func valuesText(values []float32) string {
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = strconv.FormatFloat(float64(v), 'g', -1, 32)
	}
	return strings.Join(parts, " ")
}
