package views

import (
	"quantscope/kernels"
	"quantscope/sessions"
)

// biasRows are whether errors have a sign, the codebook, and what a codebook that is
// symmetric around 0 would cost, where one of the variants has a codebook.
func (d *detailPane) biasRows(variants []int) []figure {
	s := d.scene
	if !s.coded(variants, s.Cursor) {
		return nil
	}
	row := func(label string, of func(r *sessions.Record, v int) string) figure {
		return figure{label, func(r *sessions.Record, v int) string {
			if r.Codebook == 0 {
				return "–"
			}
			return of(r, v)
		}}
	}
	signed := func(v float64) string { return number("%+.4f", v) }
	plain := func(v float64) string { return number("%.4f", v) }
	ofTap := func(of func(b *kernels.Bias) float64) func(*sessions.Record, int) string {
		return func(_ *sessions.Record, v int) string {
			if d := s.Detail; d != nil && d.Tensor == s.Cursor && v < len(d.Taps) && d.Taps[v] != nil && d.Taps[v].HasBias {
				if x := of(&d.Taps[v].Bias); isNumber(x) {
					return plain(x)
				}
			}
			return "–"
		}
	}
	var rows []figure
	if s.Metric.Name != "sign_bias" {
		rows = append(rows, row("sign bias", func(r *sessions.Record, _ int) string { return signed(r.Bias) }))
	}
	if s.Metric.Name != "row_bias" {
		rows = append(rows, row("row bias", func(r *sessions.Record, _ int) string { return plain(r.RowBias) }))
	}
	return append(rows,
		row("of a row", func(r *sessions.Record, _ int) string { return plain(r.RowBiasMax) }),
		row("codebook", func(r *sessions.Record, _ int) string { return minus(sessions.CodebookText(r.Codebook)) }),
		row("least rel2", ofTap(func(b *kernels.Bias) float64 { return b.L2 })),
		row("if ±a ±b", ofTap(func(b *kernels.Bias) float64 { return b.Sym })),
	)
}

// coded says that one of the variants has a codebook for a tensor.
func (s *Scene) coded(variants []int, tensor int) bool {
	for _, v := range variants {
		if r, ok := s.Record(v, tensor); ok && r.Codebook != 0 {
			return true
		}
	}
	return false
}

// codebookRow is the codebook under each variant of order, without steps between them.
func (s *Scene) codebookRow(order []int, tensor int) []string {
	row := []string{"codebook"}
	for i, v := range order {
		text := "–"
		if r, ok := s.Record(v, tensor); ok && r.Codebook != 0 {
			text = minus(sessions.CodebookText(r.Codebook))
		}
		if row = append(row, text); i > 0 {
			row = append(row, "")
		}
	}
	return row
}
