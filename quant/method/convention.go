package method

import (
	"fmt"
	"slices"
	"strings"

	"quantscope/kernels"
)

// ParseConvention finds whose arithmetic is meant: modelopt, modelopt-static,
// ct32, ct, own or deepseek. Which of them a scheme knows is WithConvention's to
// say.
func ParseConvention(name string) (kernels.Convention, error) {
	c, err := kernels.ConventionByName(name)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return c, nil
}

// WithConvention is the variant with another arithmetic. One that the scheme
// does not know is refused with those that it does.
func (v Variant) WithConvention(c kernels.Convention) (Variant, error) {
	known := kernels.Conventions(v.Scheme)
	if !slices.Contains(known, c) {
		names := make([]string, len(known))
		for i, k := range known {
			names[i] = k.String()
		}
		return Variant{}, fmt.Errorf("variant %q: convention %v: %w (known for %s: %s)", v.Name, c, ErrUnknown, v.Scheme, strings.Join(names, ", "))
	}
	v.Spec.Convention = c
	return v, nil
}
