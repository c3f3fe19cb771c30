package views

import (
	"math"

	"quantscope/analysis/calibrate"
	"quantscope/sessions"
)

// Metric is a figure of a tensor under a variant that can colour a map and rank
// tensors: of its record, or of what calibration did to it.
type Metric struct {
	Name   string // rel_l2
	Help   string // one line
	Format string // of fmt, for one value
	// Of is the value; NaN where the record has none. It is nil for figures of
	// calibration.
	Of func(r *sessions.Record) float64
	// Worse is +1 where a larger value is worse, -1 where a smaller one is, 0 for
	// figures that are neither.
	Worse int
	// Log says that colours follow the logarithm; values are positive.
	Log bool
	// Diverging says that values lie around 0 and that what counts is how far they are
	// from it.
	Diverging bool
	// codebook says that formats without a codebook have no such figure.
	codebook bool

	// trade is the value of what calibration did, of a tensor that was given so
	// many tokens; NaN where it has none.
	trade func(tr *calibrate.Trade, tokens int64) float64
}

// Calibrated says whether the figure is one of calibration, which other variants
// have not.
func (m Metric) Calibrated() bool { return m.trade != nil }

// Metrics lists what a map can be coloured by, the default first.
func Metrics() []Metric { return metrics }

// formats write the value of each metric.
var formats = map[string]string{
	"rel_l2": "%.4f", "rel2": "%.5f", "cos": "%.5f", "sqnr": "%.2f", "max_err": "%.3g", "deep": "%.4f", "shallow": "%.4f",
	"deep_l2": "%.5f", "clamped": "%.4f", "amax": "%.3g", "global": "%.3g", "sign_bias": "%+.4f", "row_bias": "%.4f",
}

var metrics = func() []Metric {
	var list []Metric
	for _, m := range sessions.Metrics() {
		list = append(list, Metric{Name: m.Name, Help: m.Help, Format: formats[m.Name], Of: m.Of, Worse: m.Worse, Diverging: m.Diverging,
			codebook: m.Name == "sign_bias" || m.Name == "row_bias"})
	}
	return append(list, tradeMetrics...)
}()

// loud is a value turned so that larger ones are worse, or at least louder.
func (m *Metric) loud(v float64) float64 {
	switch {
	case m.Diverging:
		return math.Abs(v)
	case m.Worse < 0:
		return -v
	}
	return v
}

// metricTokens is the metric that has glyphs for experts without tokens.
const metricTokens = "tokens"

// tradeMetrics are figures of calibration.
var tradeMetrics = []Metric{
	{Name: metricTokens, Help: "calibration tokens that the expert was given, or the matrix saw", Format: "%.0f", Worse: -1, Log: true,
		trade: func(_ *calibrate.Trade, tokens int64) float64 { return float64(tokens) }},
	{Name: "out2", Help: "output error on the calibration text, tr((W−Q)H(W−Q)ᵀ)/tr(WHWᵀ)", Format: "%.5f", Worse: 1,
		trade: func(tr *calibrate.Trade, _ int64) float64 { return float64(tr.Out2) }},
	{Name: "out_ratio", Help: "output error over the baseline's: below 1 it has helped", Format: "%.3f", Worse: 1,
		trade: func(tr *calibrate.Trade, _ int64) float64 { return quotient(float64(tr.Out2), float64(tr.BaseOut2)) }},
	{Name: "changed", Help: "share of codes and parameters that are not the baseline's", Format: "%.4f",
		trade: func(tr *calibrate.Trade, _ int64) float64 { return share(tr.Changed, tr.Codes) }},
	{Name: "damping", Help: "share of the solution that is damping: near 1 the text says nothing", Format: "%.4f", Worse: 1,
		trade: func(tr *calibrate.Trade, _ int64) float64 { return float64(tr.DampShare) }},
}

// figure is the value of a trade metric, NaN without a trade.
func (v *variantTrades) figure(m Metric, t *sessions.Tensor, tensor int) float64 {
	tr := v.of(tensor)
	if tr == nil || m.Name != metricTokens && fellBack(tr) {
		return math.NaN()
	}
	tokens, _ := v.tokens(t, tr)
	return m.trade(tr, tokens)
}

// quotient is a/b, NaN where that is not defined.
func quotient(a, b float64) float64 {
	if b == 0 {
		return math.NaN()
	}
	return a / b
}

func share(n, of int64) float64 {
	if of == 0 {
		return math.NaN()
	}
	return float64(n) / float64(of)
}

// MetricByName finds a metric.
func MetricByName(name string) (Metric, bool) {
	for _, m := range metrics {
		if m.Name == name {
			return m, true
		}
	}
	return Metric{}, false
}
