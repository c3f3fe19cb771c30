package landscape

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// PaysFactor is how many times its share of the bytes an exemption list must
// hold of the error to be worth having: random tensors hold theirs once.
const PaysFactor = 1.25

// effectsNamed is how many effects the sentence names.
const effectsNamed = 4

// verdict says in a sentence what was found.
func (g *group) verdict() {
	r, v := g.report, &g.report.Verdict
	v.Effects = g.effects()
	v.ErrorShare, v.ByteShare = Undefined("nothing is worse than the rest"), Undefined("nothing is worse than the rest")
	if len(g.items) == 0 {
		v.Kind, v.Sentence = Unknown, "unknown: "+g.unmeasured()
		return
	}
	if r.MeanRel2.V == 0 {
		v.Kind, v.Sentence = Flat, fmt.Sprintf("flat: %s without any error", g.counted())
		return
	}
	worst := g.worstItems()
	held, bytes := g.shares(worst)
	v.Pays = g.pays(held, bytes, len(worst))
	what := fmt.Sprintf("the worst %s of %s (%s) %s %s of the error", number1000(len(worst)), g.counted(), percent(float64(len(worst))/float64(len(g.items))),
		plural(len(worst), "holds", "hold"), percent(held))
	if v.Pays {
		what += times(held, bytes)
	}
	switch {
	case len(v.Effects) > 0:
		v.Kind = Structured
		v.Sentence = "structured: " + g.found(v) + "; "
		list := g.protect()
		if n := len(list); n > 0 {
			off, onBytes := g.shares(list)
			v.ErrorShare, v.ByteShare = Exact(off), Exact(onBytes)
			v.Sentence += fmt.Sprintf("exempting the %s that %s worse could remove at most %s of the error for %s of the bytes",
				counted(n, "tensor"), plural(n, "is", "are"), percent(off), percent(onBytes))
			if g.pays(off, onBytes, n) {
				v.Pays = true
				v.Sentence += times(off, onBytes)
			}
		}
		switch same := slices.Sorted(slices.Values(worst)); {
		case len(list) == 0:
			v.Sentence += what
		case !slices.Equal(same, list): // a tail may be just the worst list
			v.Sentence += "; " + what
		}
		if !v.Pays {
			v.Sentence += ": real, but too little for an exemption list to pay"
		}
	case g.untested() != "":
		v.Kind = Unknown
		v.Sentence = fmt.Sprintf("unknown: %s; %s", g.untested(), what)
	default:
		v.Kind = Flat
		v.Sentence = "flat: " + what
		if v.Pays {
			v.Sentence += ": single tensors scatter that widely, and none is beyond the scatter of the others"
		} else {
			v.Sentence += ", so no exemption list can pay"
		}
	}
	v.Sentence += g.unnamed() + g.open()
}

// unmeasured says why there are no figures.
func (g *group) unmeasured() string {
	r := g.report
	switch {
	case r.Failed == r.Tensors:
		return counted(r.Tensors, "tensor") + " could not be measured"
	case r.LeftOut > 0:
		return counted(r.LeftOut, "tensor") + " measured, none with finite figures"
	}
	return "none of " + counted(r.Tensors, "tensor") + " measured"
}

// counted is how many tensors have figures.
func (g *group) counted() string { return counted(len(g.items), "tensor") }

// open says what is not in the figures.
func (g *group) open() string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{g.report.Pending, "not measured yet"}, {g.report.Failed, "failed"}, {g.report.LeftOut, "without finite figures"}} {
		if p.n > 0 {
			parts = append(parts, number1000(p.n)+" "+p.what)
		}
	}
	if parts == nil {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// untested says why nothing could have been found.
func (g *group) untested() string {
	if why := g.report.Tail.Why; why != "" && why != whyConstant {
		return counted(len(g.items), "tensor") + ": " + why
	}
	return ""
}

// worstItems are the worst 1 % by rel2, as indices into the group.
func (g *group) worstItems() []int { return largest(g.y, g.report.WorstCount) }

// shares are what tensors, by index into the group, hold of Σrel2 and of the
// bytes; of the weights where bytes are not known.
func (g *group) shares(list []int) (held, bytes float64) {
	size := func(k int) float64 {
		i := g.items[k]
		return float64(g.table.Items[i].Elements())
	}
	if !slices.ContainsFunc(g.items, func(i int) bool { return i >= len(g.arm.Bytes) || g.arm.Bytes[i] < 0 }) {
		size = func(k int) float64 { return float64(g.arm.Bytes[g.items[k]]) }
	}
	allHeld, all := 0.0, 0.0
	for k, y := range g.y {
		allHeld += y
		all += size(k)
	}
	for _, k := range list {
		held += g.y[k]
		bytes += size(k)
	}
	if !(all > 0) {
		return held / allHeld, float64(len(list)) / float64(len(g.y))
	}
	return held / allHeld, bytes / all
}

// effects are what was found, the largest first.
func (g *group) effects() []Effect {
	out := []Effect{}
	for _, f := range []struct {
		kind   string
		levels []Level
	}{{"layer", g.report.Layers}, {"expert", g.report.Experts}, {"projection", g.report.Projections}} {
		for i := range f.levels {
			if l := &f.levels[i]; l.Kind == LevelShift {
				out = append(out, Effect{Kind: f.kind, Name: l.Name, Ratio: l.Ratio, P: l.P})
			}
		}
	}
	if t := &g.report.Tail; t.Count > 0 {
		out = append(out, Effect{Kind: "tail", Name: fmt.Sprintf("%s of %s", number1000(t.Count), g.counted()), Ratio: t.Ratio, P: t.P})
	}
	slices.SortStableFunc(out, func(a, b Effect) int {
		return cmp.Compare(math.Abs(math.Log(b.Ratio.V)), math.Abs(math.Log(a.Ratio.V)))
	})
	return out
}

// found names the largest effects.
func (g *group) found(v *Verdict) string {
	var names []string
	for _, e := range v.Effects[:min(effectsNamed, len(v.Effects))] {
		names = append(names, fmt.Sprintf("%s %s", e.Name, ratioText(e.Ratio)))
	}
	if n := len(v.Effects) - len(names); n > 0 {
		names = append(names, number1000(n)+" more")
	}
	last := len(names) - 1
	if last == 0 {
		if v.Effects[0].Kind == "tail" && g.report.Tail.Count > 1 {
			return names[0] + " stand out"
		}
		return names[0] + " stands out"
	}
	return strings.Join(names[:last], ", ") + " and " + names[last] + " stand out"
}

// protect lists what was found worse than the rest, levels and the tail, as
// rising indices into the group.
func (g *group) protect() (list []int) {
	in := map[int]bool{}
	for _, levels := range [][]Level{g.report.Layers, g.report.Experts, g.report.Projections} {
		for _, l := range levels {
			if l.Kind == LevelShift && l.Ratio.V > 1 {
				for _, i := range l.Members {
					in[i] = true
				}
			}
		}
	}
	for _, i := range g.report.Tail.Items {
		in[i] = true
	}
	for k, i := range g.items {
		if in[i] {
			list = append(list, k)
		}
	}
	return list
}

// pays says whether n tensors hold enough more of the error than of the bytes,
// and than of the number: in a mean over tensors small ones count as much as
// large ones, so that cheap is not the same as bad.
func (g *group) pays(held, bytes float64, n int) bool {
	return held >= PaysFactor*max(bytes, float64(n)/float64(len(g.items)))
}

// times says how a list stands to random ones of as many bytes.
func times(held, bytes float64) string {
	return fmt.Sprintf(", %.2g times what random tensors of those bytes would", held/bytes)
}

// unnamed says what differs and is not named: too little, or for the better.
func (g *group) unnamed() string {
	var parts []string
	largest := 0.0
	for _, f := range []struct {
		word   string
		levels []Level
	}{{"layer", g.report.Layers}, {"expert", g.report.Experts}, {"projection", g.report.Projections}} {
		n := 0
		for i := range f.levels {
			if l := &f.levels[i]; l.differs() && !l.named() {
				n++
				largest = max(largest, math.Abs(l.Ratio.V-1))
			}
		}
		if n > 0 {
			parts = append(parts, counted(n, f.word))
		}
	}
	better := ""
	if n := g.report.Tail.Better; n > 0 {
		better = fmt.Sprintf("; %s %s less error than the rest", counted(n, "tensor"), plural(n, "has", "have"))
	}
	if parts == nil {
		return better
	}
	return better + fmt.Sprintf("; differences of up to %s (%s) are real and too small to matter", percent(largest), strings.Join(parts, ", "))
}

// ratioText is ×1.06 [1.05, 1.07].
func ratioText(v Value) string {
	if !v.HasInterval() || v.V >= 1000 {
		return fmt.Sprintf("×%.3g", v.V)
	}
	digits := 2
	if v.High-v.Low < 0.02 {
		digits = 3
	}
	return fmt.Sprintf("×%.*f [%.*f, %.*f]", digits, v.V, digits, v.Low, digits, v.High)
}

// percent has two digits behind the point below 10 %, one above, none for all.
func percent(x float64) string {
	digits := 2
	switch {
	case x >= 0.9995:
		digits = 0
	case x >= 0.1:
		digits = 1
	}
	return strconv.FormatFloat(100*x, 'f', digits, 64) + " %"
}

func plural(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

func counted(n int, word string) string { return number1000(n) + " " + plural(n, word, word+"s") }

// number1000 has commas between thousands.
func number1000(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
