package method

import (
	"slices"
	"strings"

	"quantscope/kernels"
)

// Help is one line of a picker.
type Help struct {
	Name        string
	Description string
	Calibrated  bool // it reads what goes into a matrix: calibration text is needed
}

// schemes are those with a quantizer, in the order in which they are offered:
// the 4-bit floats, then the usual int4, then FP8, then int4 with other groups.
var schemes = []string{
	"nvfp4", "mxfp4", "int4-g128", "int4-g128-sym", "fp8", "fp8-channel", "fp8-block128",
	"int4-g64", "int4-g64-sym", "int4-g32", "int4-g32-sym", "int4-channel", "int4-channel-sym",
	"code2", "code2-mxfp4",
}

// descriptions say what a method does; what a bare scheme is, the table of
// formats says, but for nvfp4, where the choice of the scale is what differs.
var descriptions = map[string]string{
	"nvfp4":         "round to nearest: the largest magnitude of a block goes to 6",
	"nvfp4+mse":     "the multiple of the largest magnitude, 0.7 to 1.5, with the least squared error; may clip",
	"nvfp4+mse_ge1": "the same from 1.0 to 1.5: clips nothing beyond the rounding of the scale",
	"nvfp4+sweep":   "of all 126 block scales the one with the least squared error: the optimum, and slow",
	"nvfp4+4over6":  "the largest magnitude goes to 6 or to 4, whichever has less error",
	"nvfp4+imatrix": "of all 126 block scales the one with the least error weighed by the inputs' second moments",
	"code2":         "two bits: the four of NVFP4's code values that have the least squared error in the tensor; +book:-4:-1:1:4 names four",
	"code2-mxfp4":   "the same with MXFP4's scales: 2.25 bits",
	"mxfp4+imatrix": "the power of two with the least error weighed by the inputs' second moments",
}

// What methods whose names come with more than one scheme do.
const (
	rangeDescription   = "of 33 ranges, all of a group or row to 0.6 of it, the one with the least error to the power of 2.4"
	imatrixDescription = "the range of a group or row with the least error weighed by the inputs' second moments"
	symDescription     = "the same with the best ±a, ±b"
	asymDescription    = "a control: of codebooks that are not their own mirror image, one with sym's error and as much sign bias as there is"
	mirrorDescription  = "its control: the values of asym with their signs turned"
	codebookImatrix    = "the same, errors weighed by the inputs' second moments"
	gptqDescription    = "the inputs' Hessian moves each weight's error on to those that come after it; goes with every method that chooses a scale or a codebook"
	actDescription     = "the same, columns with the largest inputs first; groups stay where they are"
)

// Known lists the variants that can be had, with a line on each: every scheme
// with all that choose its parameters, then imatrix with codebooks that are no
// controls and gptq once a scheme, though they go with each of them. Codebooks that
// are named, book:A:B:C:D, are too many to list: the line of code2 tells of them.
func Known() []Help {
	var help []Help
	for _, scheme := range schemes {
		for _, m := range choosers(scheme) {
			h := Help{Name: variantName(scheme, m), Calibrated: m == imatrix}
			if h.Description = descriptions[h.Name]; h.Description == "" {
				if f, err := kernels.FormatByName(scheme); err == nil {
					h.Description = f.Description
				}
				switch m {
				case "range":
					h.Description = rangeDescription
				case "sym":
					h.Description = symDescription
				case "asym":
					h.Description = asymDescription
				case "mirror":
					h.Description = mirrorDescription
				case imatrix:
					h.Description = imatrixDescription
				}
			}
			help = append(help, h)
		}
		if whole(scheme) {
			for _, m := range choosers(scheme)[:2] { // controls go with it too
				help = append(help, Help{Name: variantName(scheme, m) + "+" + imatrix, Description: codebookImatrix, Calibrated: true})
			}
		}
		if movesErrors(scheme) {
			help = append(help,
				Help{Name: variantName(scheme, gptq), Description: gptqDescription, Calibrated: true},
				Help{Name: variantName(scheme, gptq) + "+" + act, Description: actDescription, Calibrated: true})
		}
	}
	return help
}

// Plain lists the known variants that are made from weights alone.
func Plain() []Help {
	return slices.DeleteFunc(Known(), func(h Help) bool { return h.Calibrated })
}

// knownNames says in one line what Known lists in many.
func knownNames() string {
	var text strings.Builder
	var moving []string
	for _, scheme := range schemes {
		if text.Len() > 0 {
			text.WriteString(", ")
		}
		text.WriteString(scheme)
		if more := choosers(scheme)[1:]; len(more) > 0 {
			if whole(scheme) {
				more = append(more, bookUsage)
			}
			text.WriteString("[+" + strings.Join(more, "|+") + "]")
		}
		if whole(scheme) {
			text.WriteString("[+" + imatrix + "]")
		}
		if kind, _, _ := strings.Cut(scheme, "-"); movesErrors(scheme) && !slices.Contains(moving, kind) {
			moving = append(moving, kind)
		}
	}
	text.WriteString("; +gptq or +gptq+act behind those of " + strings.Join(moving, ", "))
	return text.String()
}

// variantName is canonical: the first method is what a bare scheme means.
func variantName(scheme, method string) string {
	if method == chooser(scheme) {
		return scheme
	}
	return scheme + "+" + method
}
