package method

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"quantscope/kernels"
)

// Errors that callers tell apart.
var (
	ErrUnknown     = errors.New("unknown")          // a scheme, a method or a convention that does not exist
	ErrUnsupported = errors.New("has no quantizer") // a scheme that can only be stored and read
	ErrConflict    = errors.New("methods exclude each other")
	ErrDuplicate   = errors.New("named twice")
)

// rtn is what a bare scheme means.
const rtn = "rtn"

// Parse reads a variant name, scheme+method+method. Errors wrap one of this
// package's and name the variant and what is known. The convention is the
// format's first.
func Parse(name string) (Variant, error) {
	scheme, methods, composed := strings.Cut(name, "+")
	format, err := kernels.FormatByName(scheme)
	if err != nil {
		return Variant{}, fmt.Errorf("variant %q: scheme %q: %w (known variants: %s)", name, scheme, ErrUnknown, knownNames())
	}
	if len(kernels.Methods(scheme)) == 0 {
		return Variant{}, fmt.Errorf("variant %q: scheme %q %w (known variants: %s)", name, scheme, ErrUnsupported, knownNames())
	}
	chosen := rtn
	if composed {
		if chosen, err = parseMethod(scheme, strings.Split(methods, "+")); err != nil {
			return Variant{}, fmt.Errorf("variant %q: %w", name, err)
		}
	}
	return Variant{
		Name:          variantName(scheme, chosen),
		Scheme:        scheme,
		Methods:       []string{chosen},
		BitsPerWeight: format.BitsPerWeight(),
		Multipliers:   kernels.MultiplierLabels(scheme, chosen),
		Spec:          kernels.Spec{Format: scheme, Convention: kernels.Conventions(scheme)[0], Method: chosen},
	}, nil
}

// parseMethod finds the one method that chooses scales among the names.
func parseMethod(scheme string, names []string) (string, error) {
	known := kernels.Methods(scheme)
	var found []string
	for _, n := range names {
		if !slices.Contains(known, n) {
			return "", fmt.Errorf("method %q: %w (known for %s: %s)", n, ErrUnknown, scheme, strings.Join(known, ", "))
		}
		if slices.Contains(found, n) {
			return "", fmt.Errorf("method %q: %w", n, ErrDuplicate)
		}
		found = append(found, n)
	}
	if len(found) > 1 {
		return "", fmt.Errorf("%w: %s and %s both choose the block scale", ErrConflict, found[0], found[1])
	}
	return found[0], nil
}

// ParseList reads a comma-separated list of variant names; a variant that
// appears twice, under whatever name, is refused.
func ParseList(comma string) ([]Variant, error) {
	var list []Variant
	for name := range strings.SplitSeq(comma, ",") {
		name = strings.TrimSpace(name)
		if name == "" {
			return nil, fmt.Errorf("variants %q: an empty name: %w (known variants: %s)", comma, ErrUnknown, knownNames())
		}
		v, err := Parse(name)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(list, func(w Variant) bool { return w.Name == v.Name }) {
			return nil, fmt.Errorf("variants %q: %q: %w", comma, v.Name, ErrDuplicate)
		}
		list = append(list, v)
	}
	return list, nil
}
