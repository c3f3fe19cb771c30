package openai

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxSamples bounds how many are read.
const maxSamples = 1 << 20

// sample is one line of a text in Prometheus' form.
type sample struct {
	labels map[string]string
	value  float64
}

// readSamples reads a text in Prometheus' form: lines of a name, labels in braces, a
// value, and a time that nobody here wants. Comments, which say of what type a metric
// is, are passed over: what is asked for is known by name. A histogram is there as
// its _bucket, _sum and _count.
func readSamples(data []byte) (map[string][]sample, error) {
	out := map[string][]sample{}
	n := 0
	for l := range strings.SplitSeq(string(data), "\n") {
		n++
		l = strings.TrimSpace(l)
		if l == "" || l[0] == '#' {
			continue
		}
		if n > maxSamples {
			return nil, fmt.Errorf("more than %d lines", maxSamples)
		}
		name, s, err := readSample(l)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		out[name] = append(out[name], s)
	}
	return out, nil
}

func readSample(l string) (string, sample, error) {
	end := strings.IndexAny(l, "{ \t")
	if end <= 0 {
		return "", sample{}, errors.New("no name and value")
	}
	name, rest := l[:end], l[end:]
	var s sample
	if rest[0] == '{' {
		var err error
		if s.labels, rest, err = readLabels(rest[1:]); err != nil {
			return "", s, err
		}
	}
	fields := strings.Fields(rest)
	if len(fields) == 0 || len(fields) > 2 {
		return "", s, errors.New("no value")
	}
	var err error
	if s.value, err = strconv.ParseFloat(fields[0], 64); err != nil && !errors.Is(err, strconv.ErrRange) {
		return "", s, errors.New("a value that is no number")
	}
	return name, s, nil
}

// readLabels reads name="value" pairs up to the closing brace, and gives what is
// behind it.
func readLabels(s string) (map[string]string, string, error) {
	labels := map[string]string{}
	for {
		s = strings.TrimLeft(s, " \t,")
		if rest, ok := strings.CutPrefix(s, "}"); ok {
			return labels, rest, nil
		}
		name, rest, ok := strings.Cut(s, "=")
		rest = strings.TrimLeft(rest, " \t")
		if !ok || !strings.HasPrefix(rest, `"`) {
			return nil, "", errors.New("a label without a value")
		}
		var b strings.Builder
		i := 1
		for ; i < len(rest) && rest[i] != '"'; i++ {
			c := rest[i]
			if c == '\\' && i+1 < len(rest) {
				i++
				if c = rest[i]; c == 'n' {
					c = '\n'
				}
			}
			b.WriteByte(c)
		}
		if i >= len(rest) {
			return nil, "", errors.New("a label without an end")
		}
		labels[strings.TrimSpace(name)] = b.String()
		s = rest[i+1:]
	}
}
