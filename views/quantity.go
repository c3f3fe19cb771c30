package views

import "fmt"

// label is a metric's name where figures are listed, with its unit: one quantity
// has one name and one unit in every table.
func (m Metric) label() string {
	switch m.Name {
	case "sqnr":
		return "SQNR dB"
	case "max_err":
		return "max error"
	case "deep_l2":
		return "deep L2 %"
	case "deep", "shallow", "clamped", "changed", "damping":
		return m.Name + " %"
	case "out2":
		return "out error²"
	case "out_ratio":
		return "out/baseline"
	case "global":
		return "global scale"
	case "sign_bias":
		return "sign bias"
	case "row_bias":
		return "row bias"
	}
	return m.Name
}

// figure is a value as it stands beside the label: shares in per cent.
func (m Metric) figure(v float64) string {
	switch m.Name {
	case "deep", "shallow", "clamped", "deep_l2", "changed", "damping":
		return percent(v)
	case "max_err", "amax":
		return compact(v)
	case "global":
		if isNumber(v) {
			return number("%.2e", v)
		}
	}
	return m.text(v)
}

// text is a value in the metric's own unit and format.
func (m Metric) text(v float64) string {
	if m.Name == "global" && !isNumber(v) {
		return "–" // the format has none
	}
	if (m.Calibrated() || m.codebook) && !isNumber(v) {
		return "–"
	}
	if m.Name == metricTokens {
		return thousands(int64(v))
	}
	return number(m.Format, v)
}

// number writes a value in a format of fmt, with the minus of the screen.
func number(format string, v float64) string { return minus(fmt.Sprintf(format, v)) }
