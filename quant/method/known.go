package method

import (
	"strings"

	"quantscope/kernels"
)

// Help is one line of a picker.
type Help struct {
	Name        string
	Description string
}

// schemes are those with a quantizer, in the order in which they are offered:
// the 4-bit floats, then the usual int4, then FP8, then int4 with other groups.
var schemes = []string{
	"nvfp4", "mxfp4", "int4-g128", "int4-g128-sym", "fp8", "fp8-channel", "fp8-block128",
	"int4-g64", "int4-g64-sym", "int4-g32", "int4-g32-sym", "int4-channel", "int4-channel-sym",
}

// descriptions say what a method does; what a bare scheme is, the table of
// formats says, but for nvfp4, where the choice of the scale is what differs.
var descriptions = map[string]string{
	"nvfp4":         "round to nearest: the largest magnitude of a block goes to 6",
	"nvfp4+mse":     "the multiple of the largest magnitude, 0.7 to 1.5, with the least squared error; may clip",
	"nvfp4+mse_ge1": "the same from 1.0 to 1.5: clips nothing beyond the rounding of the scale",
	"nvfp4+sweep":   "of all 126 block scales the one with the least squared error: the optimum, and slow",
	"nvfp4+4over6":  "the largest magnitude goes to 6 or to 4, whichever has less error",
}

// rangeDescription is the method range, whose name comes with every int4 scheme.
const rangeDescription = "; of 33 ranges from all of it to 0.6 the one with the least error to the power of 2.4"

// Known lists the variants that can be had, with a line on each.
func Known() []Help {
	var help []Help
	for _, scheme := range schemes {
		for _, m := range kernels.Methods(scheme) {
			h := Help{Name: variantName(scheme, m)}
			if h.Description = descriptions[h.Name]; h.Description == "" {
				if f, err := kernels.FormatByName(scheme); err == nil {
					h.Description = f.Description
				}
				if m == "range" {
					h.Description += rangeDescription
				}
			}
			help = append(help, h)
		}
	}
	return help
}

func knownNames() string {
	known := Known()
	names := make([]string, len(known))
	for i, h := range known {
		names[i] = h.Name
	}
	return strings.Join(names, ", ")
}

// variantName is canonical: round to nearest is what a bare scheme means.
func variantName(scheme, method string) string {
	if method == rtn {
		return scheme
	}
	return scheme + "+" + method
}
