package views

import (
	"strconv"
	"strings"

	"quantscope/quant/topology"
	"quantscope/sessions"
)

// ShortName says which tensor it is in as few cells as the map's axes allow:
// L3 e7 up, L0 q; where the role says too little it is the whole name.
func ShortName(t *sessions.Tensor) string {
	r := &t.Role
	if r.Layer < 0 || r.Projection == "" {
		return Clean(t.Name)
	}
	layer := "L"
	switch {
	case r.MTP:
		layer = "M"
	case r.Kind == topology.Vision:
		layer = "V"
	}
	name := layer + strconv.Itoa(r.Layer)
	switch r.Kind {
	case topology.Expert:
		if r.Expert >= 0 {
			name += " e" + strconv.Itoa(r.Expert)
		}
	case topology.SharedExpert:
		name += " shared"
	}
	return name + " " + Clean(r.Projection)
}

// ShortVariants is shortVariants for other packages.
func ShortVariants(variants []sessions.Variant) []string { return shortVariants(variants) }

// shortVariants are the names of variants at the heads of columns: the first
// one whole, others without a scheme that they share with it (nvfp4, +mse,
// +mse_ge1).
func shortVariants(variants []sessions.Variant) []string {
	out := make([]string, len(variants))
	for i, v := range variants {
		out[i] = Clean(v.Name)
		if i > 0 && v.Scheme != "" && v.Scheme == variants[0].Scheme {
			if rest, ok := strings.CutPrefix(v.Name, v.Scheme); ok && rest != "" {
				out[i] = Clean(rest)
			}
		}
	}
	return out
}

// shortWords are words of variant names and what stands for them where there is
// little room, in the order in which they give way.
var shortWords = [][2]string{{"channel", "chan"}, {"block", "b"}, {"range", "rng"}, {"int4-", ""}, {"-sym", "-s"}, {"+rng", "+r"}, {"mse_ge1", "ge1"}, {"code2-mxfp4", "c2mx"}, {"imatrix", "imx"}}

// shortenVariant writes the name of a variant in w cells: whole, with words
// shortened, or cut in the middle.
func shortenVariant(name string, w int) string {
	for _, word := range shortWords {
		if Width(name) <= w {
			return name
		}
		name = strings.Replace(name, word[0], word[1], 1)
	}
	return TruncateMiddle(name, w)
}
