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
	ErrUnknown     = errors.New("unknown")          // a scheme or a method that does not exist
	ErrUnsupported = errors.New("has no quantizer") // a scheme that can only be stored and read
	ErrConflict    = errors.New("methods exclude each other")
	ErrDuplicate   = errors.New("named twice")
)

// Help is one line of a picker.
type Help struct {
	Name        string
	Description string
}

// scaleSearch is one way of choosing the block scales of nvfp4. A variant has
// one of them.
type scaleSearch struct {
	name        string
	method      kernels.NVFP4Method
	description string
}

var nvfp4Searches = []scaleSearch{
	{"rtn", kernels.NVFP4RTN, "round to nearest: the largest magnitude of a block goes to 6"},
	{"mse", kernels.NVFP4MSE, "the multiple of the largest magnitude, 0.7 to 1.5, with the least squared error; may clip"},
	{"mse_ge1", kernels.NVFP4MSEGE1, "the same from 1.0 to 1.5: clips nothing beyond the rounding of the scale"},
	{"sweep", kernels.NVFP4Sweep, "of all 126 block scales the one with the least squared error: the optimum, and slow"},
	{"4over6", kernels.NVFP4FourOverSix, "the largest magnitude goes to 6 or to 4, whichever has less error"},
}

// nvfp4Scheme is the one scheme with a quantizer.
const nvfp4Scheme = "nvfp4"

// Known lists the variants that can be had, with a line on each.
func Known() []Help {
	help := make([]Help, len(nvfp4Searches))
	for i, s := range nvfp4Searches {
		help[i] = Help{Name: variantName(nvfp4Scheme, s), Description: s.description}
	}
	return help
}

func knownNames() string {
	names := make([]string, 0, len(nvfp4Searches))
	for _, h := range Known() {
		names = append(names, h.Name)
	}
	return strings.Join(names, ", ")
}

// variantName is canonical: round to nearest is what a bare scheme means.
func variantName(scheme string, s scaleSearch) string {
	if s.method == kernels.NVFP4RTN {
		return scheme
	}
	return scheme + "+" + s.name
}

// Parse reads a variant name, scheme+method+method. Errors wrap one of this
// package's and name the variant and what is known.
func Parse(name string) (Variant, error) {
	scheme, methods, _ := strings.Cut(name, "+")
	format, err := kernels.FormatByName(scheme)
	if err != nil {
		return Variant{}, fmt.Errorf("variant %q: scheme %q: %w (known variants: %s)", name, scheme, ErrUnknown, knownNames())
	}
	if scheme != nvfp4Scheme {
		return Variant{}, fmt.Errorf("variant %q: scheme %q %w (known variants: %s)", name, scheme, ErrUnsupported, knownNames())
	}
	chosen := nvfp4Searches[0]
	if strings.Contains(name, "+") {
		if chosen, err = parseSearch(strings.Split(methods, "+")); err != nil {
			return Variant{}, fmt.Errorf("variant %q: %w", name, err)
		}
	}
	return Variant{
		Name:          variantName(scheme, chosen),
		Scheme:        scheme,
		Methods:       []string{chosen.name},
		BitsPerWeight: format.BitsPerWeight(),
		Multipliers:   chosen.method.Labels(),
		Spec:          kernels.Spec{Format: scheme, Convention: kernels.ModelOpt, Method: chosen.method.String()},
	}, nil
}

// parseSearch finds the one scale search among the methods.
func parseSearch(names []string) (scaleSearch, error) {
	var found []scaleSearch
	for _, n := range names {
		i := slices.IndexFunc(nvfp4Searches, func(s scaleSearch) bool { return s.name == n })
		if i < 0 {
			known := make([]string, len(nvfp4Searches))
			for i, s := range nvfp4Searches {
				known[i] = s.name
			}
			return scaleSearch{}, fmt.Errorf("method %q: %w (known for %s: %s)", n, ErrUnknown, nvfp4Scheme, strings.Join(known, ", "))
		}
		if slices.Contains(found, nvfp4Searches[i]) {
			return scaleSearch{}, fmt.Errorf("method %q: %w", n, ErrDuplicate)
		}
		found = append(found, nvfp4Searches[i])
	}
	if len(found) > 1 {
		return scaleSearch{}, fmt.Errorf("%w: %s and %s both choose the block scale", ErrConflict, found[0].name, found[1].name)
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
