package kld

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// MinCount is the least number of positions that the final block is printed for.
const MinCount = 100

// ErrTooFew is wrapped by the error of Print for fewer positions than MinCount,
// for which the original prints nothing.
var ErrTooFew = errors.New("too few positions for statistics")

// RunningHeader stands above the running lines.
const RunningHeader = "chunk             PPL               ln(PPL(Q)/PPL(base))          KL Divergence              Δp RMS            Same top p"

// fixed is C's %W.Pf: a value that is not a number has the sign that x86 gives
// it where arithmetic makes one.
func fixed(v float64, width, digits int) string {
	t := strconv.FormatFloat(v, 'f', digits, 64)
	switch {
	case math.IsNaN(v):
		t = "-nan"
	case math.IsInf(v, 1):
		t = "inf"
	case math.IsInf(v, -1):
		t = "-inf"
	}
	return strings.Repeat(" ", max(width-len(t), 0)) + t
}

func (f Figure) text(width, digits, errWidth int) string {
	return fixed(f.Value, width, digits) + " ± " + fixed(f.Err, errWidth, digits)
}

func (f Figure) percent() Figure { return Figure{100 * f.Value, 100 * f.Err} }

// Running is the line after a chunk; chunk counts from 1.
func (s *Statistics) Running(chunk int) string {
	return fmt.Sprintf("%4d    %s    %s    %s    %s %%    %s %%", chunk,
		s.PPL().text(9, 4, 9), s.LogRatio().text(10, 5, 10), s.KL().text(10, 5, 10),
		s.RMSdP().percent().text(6, 3, 6), s.SameTop().percent().text(6, 3, 6))
}

// percentile is a line of a block.
type percentile struct {
	name string
	of   func(order) float64
}

func at(name string, f float32) percentile {
	return percentile{name, func(o order) float64 { return o.at(f) }}
}

var (
	highest = percentile{"Maximum", order.most}
	middle  = percentile{"Median ", order.median}
	lowest  = percentile{"Minimum", order.least}

	klLines = []percentile{highest, at("99.9%  ", .999), at("99.0%  ", .99), at("95.0%  ", .95), at("90.0%  ", .9),
		middle, at("10.0%  ", .1), at(" 5.0%  ", .05), at(" 1.0%  ", .01), at(" 0.1%  ", .001), lowest}
	dpLines = []percentile{highest, at("99.9%  ", .999), at("99.0%  ", .99), at("95.0%  ", .95), at("90.0%  ", .9),
		at("75.0%  ", .75), middle, at("25.0%  ", .25), at("10.0%  ", .1), at(" 5.0%  ", .05), at(" 1.0%  ", .01), at(" 0.1%  ", .001), lowest}
)

// Print writes the final block, with the original's keys and digits. Below
// MinCount positions it writes nothing. A line about positions that were left
// out, which the original has not, ends it where there are some.
func (s *Statistics) Print(w io.Writer) error {
	if s.Count < MinCount {
		return fmt.Errorf("kld: %w: %d, want %d", ErrTooFew, s.Count, MinCount)
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("====== Perplexity statistics ======")
	line("Mean PPL(Q)                   : %s", s.PPL().text(10, 6, 10))
	line("Mean PPL(base)                : %s", s.PPLBase().text(10, 6, 10))
	line("Cor(ln(PPL(Q)), ln(PPL(base))): %s%%", fixed(100*s.Correlation(), 6, 2))
	line("Mean ln(PPL(Q)/PPL(base))     : %s", s.LogRatio().text(10, 6, 10))
	line("Mean PPL(Q)/PPL(base)         : %s", s.Ratio().text(10, 6, 10))
	line("Mean PPL(Q)-PPL(base)         : %s", s.Difference().text(10, 6, 10))
	line("")
	line("====== KL divergence statistics ======")
	line("Mean    KLD: %s", s.KL().text(10, 6, 10))
	o := sorted(s.kls)
	for _, p := range klLines {
		line("%s KLD: %s", p.name, fixed(p.of(o), 10, 6))
	}
	line("")
	line("====== Token probability statistics ======")
	line("Mean    Δp: %s %%", s.DP().percent().text(6, 3, 5))
	o = sorted(s.dps)
	for _, p := range dpLines {
		line("%s Δp: %s%%", p.name, fixed(100*p.of(o), 6, 3))
	}
	line("RMS Δp    : %s %%", s.RMSdP().percent().text(6, 3, 5))
	line("Same top p: %s %%", s.SameTop().percent().text(6, 3, 5))
	if s.NaN > 0 {
		line("Left out  : %d positions whose logits are not numbers", s.NaN)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
