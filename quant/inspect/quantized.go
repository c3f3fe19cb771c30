package inspect

import "quantscope/quant/layout"

// AddLayout adds how quantized modules are stored and read, what the config says
// beside that, and what cannot be read.
func (r *Report) AddLayout(l *layout.Layout) {
	r.Quantized, r.Notes = l.Kinds(), append([]string{}, l.Notes...)
	for _, f := range l.Findings {
		switch f.ID {
		case layout.UnknownForm, layout.Incomplete, layout.Mislabelled:
			r.Findings = append(r.Findings, Finding{f.File, f.Tensor, f.Message})
		}
	}
}
