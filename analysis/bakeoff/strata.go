package bakeoff

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Kind says what a stratum is of.
type Kind string

// Kinds of strata.
const (
	Worst      Kind = "worst"      // the tensors with the largest rel2 under the base variant
	Random     Kind = "random"     // any
	Layer      Kind = "layer"      // of one layer, by its number in the checkpoint
	Projection Kind = "projection" // of one projection: down, q, …
	Expert     Kind = "expert"     // of one expert index, over all layers
)

// All is the N of a stratum that takes all there is.
const All = -1

// Spec asks for a stratum.
type Spec struct {
	Kind  Kind
	Level string // which layer, projection or expert; "" for worst and random
	N     int    // how many tensors, or All
}

// Name is the stratum without its size: worst, random, layer 45, down, expert 17.
func (s Spec) Name() string {
	switch s.Kind {
	case Layer, Expert:
		return string(s.Kind) + " " + s.Level
	case Projection:
		return s.Level
	}
	return string(s.Kind)
}

// String is the spec as ParseStrata reads it.
func (s Spec) String() string {
	size := "all"
	if s.N != All {
		size = strconv.Itoa(s.N)
	}
	if s.Level == "" {
		return fmt.Sprintf("%s=%s", s.Kind, size)
	}
	return fmt.Sprintf("%s=%s=%s", s.Kind, s.Level, size)
}

// Label is a list of specs as ParseStrata reads it.
func Label(specs []Spec) string {
	parts := make([]string, len(specs))
	for i, s := range specs {
		parts[i] = s.String()
	}
	return strings.Join(parts, ",")
}

// forms says what ParseStrata takes.
const forms = "known: worst=K, random=K, layer=N=K, projection=NAME=K, expert=N=K; K may be all"

// maxStrata is more strata than anybody reads.
const maxStrata = 64

// ParseStrata reads strata such as worst=372,random=400,layer=45=100,expert=17=all.
func ParseStrata(text string) ([]Spec, error) {
	var specs []Spec
	seen := map[string]bool{}
	for _, part := range strings.Split(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		s, err := parseStratum(part)
		if err != nil {
			return nil, fmt.Errorf("stratum %q: %w", part, err)
		}
		if seen[s.Name()] {
			return nil, fmt.Errorf("stratum %q: %s is there already", part, s.Name())
		}
		seen[s.Name()] = true
		specs = append(specs, s)
	}
	switch {
	case len(specs) == 0:
		return nil, errors.New("no stratum (" + forms + ")")
	case len(specs) > maxStrata:
		return nil, fmt.Errorf("%d strata, at most %d", len(specs), maxStrata)
	}
	return specs, nil
}

func parseStratum(part string) (Spec, error) {
	fields := strings.Split(part, "=")
	for i := range fields {
		fields[i] = strings.TrimSpace(fields[i])
	}
	s := Spec{Kind: Kind(fields[0])}
	switch want := s.fields(); {
	case want == 0:
		return s, errors.New("not known (" + forms + ")")
	case len(fields) != want && want == 2:
		return s, fmt.Errorf("not of the form %s=K", s.Kind)
	case len(fields) != want:
		return s, fmt.Errorf("not of the form %s=WHICH=K", s.Kind)
	case want == 3:
		s.Level = fields[1]
	}
	if s.Kind == Layer || s.Kind == Expert {
		n, err := strconv.Atoi(s.Level)
		if err != nil || n < 0 {
			return s, fmt.Errorf("%q is no number of %s %s", s.Level, article(s.Kind), s.Kind)
		}
		s.Level = strconv.Itoa(n)
	}
	if s.Kind == Projection && s.Level == "" {
		return s, errors.New("which projection?")
	}
	size := fields[len(fields)-1]
	if size == "all" {
		s.N = All
		return s, nil
	}
	n, err := strconv.Atoi(size)
	if err != nil || n < 1 {
		return s, fmt.Errorf("%q is no number of tensors from 1 on, nor all", size)
	}
	s.N = n
	return s, nil
}

// fields is of how many parts a kind's form is, 0 for one that is not known.
func (s Spec) fields() int {
	switch s.Kind {
	case Worst, Random:
		return 2
	case Layer, Projection, Expert:
		return 3
	}
	return 0
}

func article(k Kind) string {
	if k == Expert {
		return "an"
	}
	return "a"
}
