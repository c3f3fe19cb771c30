package kld

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// ErrIncomplete is wrapped by the error about an output that ends before its last
// line, Same top p.
var ErrIncomplete = errors.New("the statistics are not complete")

// Printed is what llama-perplexity printed of a comparison.
type Printed struct {
	Lines   []PrintedLine
	Running []RunningLine
}

// PrintedLine is one line of the final block. Err is NaN where none is printed.
type PrintedLine struct {
	Block      string // Perplexity, KL divergence, Token probability
	Key        string // as printed, blanks made one: Mean PPL(Q), 99.9% KLD, RMS Δp
	Value, Err float64
}

// RunningLine is one after a chunk. Figures that a build did not print are NaN;
// shares are in percent.
type RunningLine struct {
	Chunk                             int
	PPL, LogRatio, KL, RMSdP, SameTop Figure
}

// Find is the first line with a key.
func (p *Printed) Find(key string) (PrintedLine, bool) {
	for _, l := range p.Lines {
		if l.Key == key {
			return l, true
		}
	}
	return PrintedLine{}, false
}

var (
	blockTitle = regexp.MustCompile(`^=+ (.+?)[ -]statistics =+$`)
	number     = `[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|nan|inf)`
	finalLine  = regexp.MustCompile(`^(.+?)\s*:\s*(` + number + `)\s*%?(?:\s*(?:±|\+/-)\s*(` + number + `)\s*%?)?$`)
	numbers    = regexp.MustCompile(number)
	runningRow = regexp.MustCompile(`^\s*\d+\s+` + number + `(?:[\s±%]+` + number + `)+[\s%]*$`)
)

// maxLine bounds a line of an output.
const maxLine = 1 << 20

// ParseStatistics reads what llama-perplexity printed: other lines are passed
// over, and keys that a build does not print are not there. Some builds print
// 99.0% twice, where the second is the 95th percentile: it is read as that. An
// output without its last line is refused: some runs end without an error and
// without it.
func ParseStatistics(r io.Reader) (*Printed, error) {
	p := &Printed{}
	in := bufio.NewScanner(r)
	in.Buffer(nil, maxLine)
	block, whole := "", false
	for in.Scan() {
		text := strings.TrimSpace(in.Text())
		if m := blockTitle.FindStringSubmatch(text); m != nil {
			block = m[1]
			continue
		}
		if block == "" {
			if row, ok := parseRunning(text); ok {
				p.Running = append(p.Running, row)
			}
			continue
		}
		m := finalLine.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		l := PrintedLine{Block: block, Key: strings.Join(strings.Fields(m[1]), " "), Value: value(m[2]), Err: math.NaN()}
		if m[3] != "" {
			l.Err = value(m[3])
		}
		if _, twice := p.Find(l.Key); twice && strings.HasPrefix(l.Key, "99.0%") {
			l.Key = "95.0%" + l.Key[len("99.0%"):]
		}
		p.Lines = append(p.Lines, l)
		whole = whole || l.Key == "Same top p"
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("kld: statistics: %w", err)
	}
	if !whole {
		return nil, fmt.Errorf("kld: %w: there is no line Same top p", ErrIncomplete)
	}
	return p, nil
}

// parseRunning reads a running row: chunk and five figures with uncertainties, or
// the seven numbers of early builds: chunk, perplexity, ratio ±, divergence ±, share.
func parseRunning(text string) (RunningLine, bool) {
	if !runningRow.MatchString(text) {
		return RunningLine{}, false
	}
	var n []float64
	for _, t := range numbers.FindAllString(text, -1) {
		n = append(n, value(t))
	}
	nan := math.NaN()
	switch len(n) {
	case 11:
		f := func(i int) Figure { return Figure{n[i], n[i+1]} }
		return RunningLine{int(n[0]), f(1), f(3), f(5), f(7), f(9)}, true
	case 7:
		return RunningLine{int(n[0]), Figure{n[1], nan}, Figure{n[2], n[3]}, Figure{n[4], n[5]}, Figure{nan, nan}, Figure{100 * n[6], nan}}, true
	}
	return RunningLine{}, false
}

// value reads a number as printf writes it.
func value(t string) float64 {
	if strings.HasSuffix(t, "nan") {
		return math.NaN()
	}
	v, _ := strconv.ParseFloat(t, 64) // the pattern admits nothing else; overflow is ±Inf
	return v
}
