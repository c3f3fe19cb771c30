package ggufmake

import (
	"bufio"
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"quantscope/kernels"
)

// Override gives tensors whose names a regular expression matches, anywhere in
// them, another type. The first one that matches counts, as in llama-quantize.
type Override struct {
	Text string
	Type kernels.GGUFType
	re   *regexp.Regexp
}

// ParseOverride reads REGEXP=TYPE. Names of tensors are in lower case, so the
// expression is taken so, as llama-quantize takes it.
func ParseOverride(text string) (Override, error) {
	at := strings.LastIndexByte(text, '=')
	if at <= 0 {
		return Override{}, fmt.Errorf("%q is not REGEXP=TYPE", text)
	}
	pattern := strings.ToLower(text[:at])
	re, err := regexp.Compile(pattern)
	if err != nil {
		return Override{}, fmt.Errorf("%q: %w", text, err)
	}
	t, err := ParseType(text[at+1:])
	if err != nil {
		return Override{}, fmt.Errorf("%q: %w", text, err)
	}
	return Override{Text: text, Type: t, re: re}, nil
}

// ParseOverrides reads a --tensor-type-file of llama-quantize: entries between
// blanks. A line that begins with # is none, which that program does not know.
func ParseOverrides(data []byte) ([]Override, error) {
	var list []Override
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		if strings.HasPrefix(strings.TrimSpace(lines.Text()), "#") {
			continue
		}
		for _, word := range strings.Fields(lines.Text()) {
			o, err := ParseOverride(word)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
			list = append(list, o)
		}
	}
	return list, lines.Err()
}
