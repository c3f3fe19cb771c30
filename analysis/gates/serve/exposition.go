package serve

import (
	"math"
	"strconv"
	"strings"
)

// expositionType is the content type of Prometheus' text form, which exposition
// writes: https://prometheus.io/docs/instrumenting/exposition_formats.
const expositionType = "text/plain; version=0.0.4; charset=utf-8"

// Types of figures.
const (
	counterType   = "counter"
	gaugeType     = "gauge"
	histogramType = "histogram"
)

// family is a figure with all its labels.
type family struct {
	name, help, kind string
	samples          []sample
}

// sample is a line: what is added to the family's name, labels as name and value in
// turn, and the value.
type sample struct {
	suffix string
	labels []string
	value  float64
}

// labels are those of all figures: the model's name and, as vLLM has it, the engine's
// number.
type labels struct{ name string }

func (l labels) with(more ...string) []string {
	return append([]string{"engine", "0", "model_name", l.name}, more...)
}

func (l labels) count(v float64, more ...string) sample {
	return sample{labels: l.with(more...), value: v}
}

func (l labels) gauge(name, help string, v float64) family {
	return family{name, help, gaugeType, []sample{l.count(v)}}
}

// histogram writes buckets as Prometheus wants them: cumulative, the last without a
// bound.
func (l labels) histogram(name, help string, h *histogram) family {
	f := family{name: name, help: help, kind: histogramType}
	below := uint64(0)
	bucket := func(bound string, n uint64) {
		f.samples = append(f.samples, sample{"_bucket", l.with("le", bound), float64(n)})
	}
	for i, b := range h.bounds {
		below += h.counts[i]
		bucket(figure(b), below)
	}
	bucket("+Inf", h.total)
	f.samples = append(f.samples, sample{"_sum", l.with(), h.sum}, sample{"_count", l.with(), float64(h.total)})
	return f
}

// figure is a number as Go and Prometheus both read it.
func figure(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e15 { // counts without an exponent
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

var escaped = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// exposition is the text of families.
func exposition(families []family) []byte {
	var b strings.Builder
	for _, f := range families {
		b.WriteString("# HELP " + f.name + " " + f.help + "\n# TYPE " + f.name + " " + f.kind + "\n")
		for _, s := range f.samples {
			b.WriteString(f.name + s.suffix)
			for i := 0; i < len(s.labels); i += 2 {
				open := ","
				if i == 0 {
					open = "{"
				}
				b.WriteString(open + s.labels[i] + `="` + escaped.Replace(strings.ToValidUTF8(s.labels[i+1], "\uFFFD")) + `"`)
			}
			if len(s.labels) > 0 {
				b.WriteString("}")
			}
			b.WriteString(" " + figure(s.value) + "\n")
		}
	}
	return []byte(b.String())
}
