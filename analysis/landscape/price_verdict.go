package landscape

import "fmt"

// worthwhile is the share of the error without exemptions below which an
// advantage over the controls is called too little to pay.
const worthwhile = 0.01

// Comparison is a list against its controls at equal bytes.
type Comparison struct {
	List  string `json:"list"`
	Beats bool   `json:"beats"` // somewhere, by more than the spread of the random ones
	Worse bool   `json:"worse"` // nowhere better, and somewhere worse than random by more than its spread
	Pays  bool   `json:"pays"`  // beats, and the most it gains is 1 % of the error without exemptions or more
	// From and To are the sizes between which it beats them (there may be gaps),
	// At that of the largest advantage, or disadvantage; 0 where there is neither.
	From float64 `json:"from_bits_per_weight"`
	To   float64 `json:"to_bits_per_weight"`
	At   float64 `json:"at_bits_per_weight"`
	// At that size: the mean rel2 of the list, and of the best control with the
	// span of the random one; Gain is the difference over the mean without
	// exemptions.
	MeanRel2 float64 `json:"mean_rel2"`
	Control  string  `json:"control"`
	Against  float64 `json:"control_mean_rel2"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	Gain     float64 `json:"gain"`
	Sentence string  `json:"sentence"`
}

// compare holds a list against the controls wherever the random one has a
// point. To be better means to be below the best of them by more than the span
// of the random one, and by more than rounding.
func (p *pricer) compare(name string, list *path, random []Point, uniform, reversed *path) Comparison {
	out := Comparison{List: name}
	worst := Comparison{List: name}
	total := float64(list.total())
	for j := 1; j < len(random)-1; j++ {
		c := share(j) * total
		bytes, _, mean := list.at(c)
		_, _, u := uniform.at(c)
		_, _, r := reversed.at(c)
		at := Comparison{
			List: name, At: 8 * bytes / float64(max(p.elements, 1)), MeanRel2: mean,
			Control: "random", Against: random[j].MeanRel2, Low: random[j].Low, High: random[j].High,
		}
		slack := random[j].High - random[j].Low + 1e-12*p.none
		if mean-random[j].MeanRel2 > slack && random[j].MeanRel2-mean < worst.Gain*p.none {
			worst = at
			worst.Gain, worst.Worse = (random[j].MeanRel2-mean)/p.none, true
		}
		if u < at.Against {
			at.Control, at.Against = "uniform", u
		}
		if r < at.Against {
			at.Control, at.Against = "reversed", r
		}
		margin := at.Against - mean
		if !(margin > slack) {
			continue
		}
		from := at.At
		if out.Beats {
			from = out.From
		}
		if at.Gain = margin / p.none; at.Gain > out.Gain {
			out = at
		}
		out.Beats, out.From, out.To = true, from, 8*bytes/float64(max(p.elements, 1))
	}
	if out.From > out.To {
		out.From, out.To = out.To, out.From
	}
	switch {
	case out.Beats:
		out.Pays = out.Gain >= worthwhile
		end := ""
		if !out.Pays {
			end = ", too little to pay"
		}
		out.Sentence = fmt.Sprintf("%s: beats the controls by more than their spread between %.4g and %.4g bits per weight; at best, at %.4g, its mean rel2 is %.5g and that of %s %.5g (random %.5g to %.5g): %.3g %% of the error without exemptions%s",
			name, out.From, out.To, out.At, out.MeanRel2, out.Control, out.Against, out.Low, out.High, 100*out.Gain, end)
	case worst.Worse:
		out = worst
		out.Sentence = fmt.Sprintf("%s: never beats the controls by more than their spread; at worst, at %.4g bits per weight, its mean rel2 is %.5g and that of random %.5g (%.5g to %.5g)",
			name, out.At, out.MeanRel2, out.Against, out.Low, out.High)
	default:
		out.Sentence = name + ": never beats the controls by more than their spread"
	}
	return out
}
