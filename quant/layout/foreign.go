package layout

import "strings"

// foreign names ways of storing weights that are not read, by the names of their
// tensors; "" for others.
func (o *opener) foreign(g *group) string {
	stored := func(name string) bool {
		_, ok := o.ck.Lookup(name)
		return ok
	}
	has := func(suffix string) bool { return stored(g.name + suffix) }
	switch {
	case has(".weight.quant_state.bitsandbytes__nf4"), has(".weight.quant_state.bitsandbytes__fp4"):
		kind := "NF4"
		if has(".weight.quant_state.bitsandbytes__fp4") {
			kind = "FP4"
		}
		return "bitsandbytes' " + kind + " (weight with absmax, quant_map and quant_state)"
	case has(".SCB"), has(".weight.SCB"):
		return "bitsandbytes' int8 (weight with SCB)"
	case has(".weight.absmax"):
		return "bitsandbytes' 4-bit codes (weight with absmax)"
	case strings.HasSuffix(g.name, ".W_q"):
		return "HQQ's (W_q with meta)"
	case strings.HasSuffix(g.name, ".codebooks"), strings.HasSuffix(g.name, ".codes") && stored(strings.TrimSuffix(g.name, ".codes")+".codebooks"):
		return "AQLM's (codes with codebooks)"
	case strings.HasSuffix(g.name, ".Qidxs"):
		return "QuIP#'s (Qidxs)"
	}
	return ""
}
