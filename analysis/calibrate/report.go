package calibrate

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"quantscope/analysis/model"
	"quantscope/quant/method"
	"quantscope/quant/topology"
)

// ErrFidelity is wrapped where a calibrated arm is its baseline, code for code.
var ErrFidelity = errors.New("calibration changed nothing")

// Gate is ErrFidelity with the figures where nothing changed, nil else. Whatever
// the reason is, such codes are not those of the variant that was asked for. The
// caller names the variant.
func (o *Outcome) Gate() error {
	switch {
	case o.Calibrated == 0:
		return fmt.Errorf("%w: none of %d matrices was calibrated", ErrFidelity, o.Matrices)
	case o.Changed == 0:
		return fmt.Errorf("%w: %d of %d codes and parameters of %d calibrated matrices are not those of %s%s", ErrFidelity, o.Changed, o.Codes, o.Calibrated, o.Baseline, o.booksOnly())
	}
	return nil
}

// FellBackShare is the share of parameters in matrices that fell back.
func (o *Outcome) FellBackShare() float64 {
	if o.Params == 0 {
		return 0
	}
	return float64(o.FellBack) / float64(o.Params)
}

// sum makes the outcome of what all matrices came to.
func (r *running) sum() {
	o := r.out
	o.Variant, o.Baseline, o.Matrices = r.s.Variant.Name, r.base.Name, len(r.targets)
	slices.SortFunc(r.seen, func(a, b outcomeOf) int { return a.target - b.target })
	var ties []string
	raised, firstRaised := 0, ""
	for i := range r.seen {
		t, trade := &r.targets[r.seen[i].target], &r.seen[i].trade
		o.Params += t.params
		switch {
		case trade.Chosen:
			o.Chosen++
		case trade.Why != "":
			o.Fallbacks = append(o.Fallbacks, Fallback{t.index, trade.Effective, trade.Why})
			o.FellBack += t.params
		default:
			o.Calibrated++
			o.Codes += trade.Codes
			o.Changed += trade.Changed
			if trade.Changed == 0 && (trade.Rank > 1 || trade.Rank < 0 && trade.Tokens > 1) {
				ties = append(ties, t.name)
			}
		}
		if r.seen[i].raised > 0 {
			if raised++; raised == 1 {
				firstRaised = t.name
			}
		}
	}
	o.trades(r)
	o.Experts = r.spread()
	if !o.Rank.Met() && r.downs() > 0 {
		o.warn("%s", o.Rank.Text())
	}
	if e := &o.Experts; e.Inactive > 0 {
		o.warn("%d of %d experts were given no token: their down projections stay at %s", e.Inactive, e.Experts, o.Baseline)
	}
	if e := &o.Experts; e.Deficient > 0 && r.s.Variant.NeedsHessian() {
		o.warn("%d of %d experts were given fewer tokens than their down projections have columns: their Hessians are singular, and damping decides what the tokens do not", e.Deficient, e.Experts)
	}
	if len(ties) > 0 && o.Changed > 0 {
		o.warn("%d calibrated matrices are %s, code for code, though text reached them: %s%s", len(ties), o.Baseline, some(ties), o.booksOnly())
	}
	if raised > 0 {
		o.warn("the damping of %d matrices was raised, because the rounding of their Hessians outweighs it; the first is %s", raised, firstRaised)
	}
}

// booksOnly says what stands behind a tie of a variant that calibration chooses nothing
// for but the codebook of each matrix, of which there are few: the same one may be best
// however errors are weighed.
func (o *Outcome) booksOnly() string {
	v, err := method.Parse(o.Variant)
	if err != nil || !v.NeedsMatrix() || v.NeedsHessian() {
		return ""
	}
	return "; imatrix chooses nothing but the codebook of a matrix, and weighed or not the same one is best there"
}

// mostNames is how many names a line has room for.
const mostNames = 4

// some are the first of a list of names.
func some(names []string) string {
	if len(names) > mostNames {
		return fmt.Sprintf("%s and %d others", strings.Join(names[:mostNames], ", "), len(names)-mostNames)
	}
	return strings.Join(names, ", ")
}

func (o *Outcome) warn(format string, args ...any) {
	o.Warnings = append(o.Warnings, fmt.Sprintf(format, args...))
}

// Text is the bound in a sentence.
func (r RankBound) Text() string {
	if r.Experts == 0 {
		return "no routed experts: every Hessian is over all tokens"
	}
	word := "met"
	if !r.Met() {
		word = fmt.Sprintf("not met: evenly chosen experts are given %d tokens each, and their down projections have %d columns", r.Tokens*int64(r.TopK)/int64(r.Experts), r.Inner)
	}
	return fmt.Sprintf("rank bound: %d tokens, and experts of %d inner channels, %d of %d a token, need %d: %s", r.Tokens, r.Inner, r.TopK, r.Experts, r.Need, word)
}

// downs counts routed experts' down projections that are calibrated.
func (r *running) downs() int {
	n := 0
	for i := range r.seen {
		if t := &r.targets[r.seen[i].target]; t.expert && !r.seen[i].trade.Chosen {
			n++
		}
	}
	return n
}

// spread is how tokens were shared out among the experts that were looked at.
func (r *running) spread() Spread {
	columns := 0
	for _, layers := range [][]model.Layer{r.s.Reference.Arch.Layers, r.s.Reference.Arch.MTP} {
		for i := range layers {
			if m := layers[i].MoE; m != nil {
				columns = max(columns, m.Inner)
			}
		}
	}
	return SpreadOf(r.counts, columns)
}

// Means are figures of all calibrated matrices of a kind.
type Means struct {
	Matrices  int     `json:"matrices"`
	Out2      Float   `json:"out2"`      // mean output error
	BaseOut2  Float   `json:"baseOut2"`  // of the baseline
	Rel2      Float   `json:"rel2"`      // mean weight error
	BaseRel2  Float   `json:"baseRel2"`  // of the baseline
	Tokens    float64 `json:"tokens"`    // median that inputs were measured on
	Columns   float64 `json:"columns"`   // median
	Deficient int     `json:"deficient"` // of a rank below their columns
	DampShare Float   `json:"dampShare"` // median
}

// MeansOf sums trades up. Those that are not calibrated are left out, and figures
// that are undefined of the mean that they would be in.
func MeansOf(trades []Trade) Means {
	var m Means
	var tokens, columns, damp []float64
	sums := [...]*Float{&m.Out2, &m.BaseOut2, &m.Rel2, &m.BaseRel2}
	var counts [len(sums)]int
	for i := range trades {
		t := &trades[i]
		if t.Chosen || t.Why != "" {
			continue
		}
		m.Matrices++
		for k, v := range [...]Float{t.Out2, t.BaseOut2, t.Rel2, t.BaseRel2} {
			if !math.IsNaN(float64(v)) {
				*sums[k] += v
				counts[k]++
			}
		}
		tokens, columns = append(tokens, float64(t.Tokens)), append(columns, float64(t.N))
		if t.Rank >= 0 {
			damp = append(damp, float64(t.DampShare))
			if t.Rank < t.N {
				m.Deficient++
			}
		}
	}
	for k, n := range counts {
		*sums[k] /= Float(n) // none is undefined
	}
	m.Tokens, m.Columns, m.DampShare = median(tokens), median(columns), Float(median(damp))
	return m
}

// median is NaN of nothing.
func median(list []float64) float64 {
	if len(list) == 0 {
		return math.NaN()
	}
	slices.Sort(list)
	n := len(list)
	return (list[(n-1)/2] + list[n/2]) / 2
}

// trades sums up by kind: downs of experts, whose text is what was routed to them,
// and all others.
func (o *Outcome) trades(r *running) {
	var all, downs, rest []Trade
	for i := range r.seen {
		s := &r.seen[i]
		all = append(all, s.trade)
		if t := &r.targets[s.target]; t.at.Kind == topology.Expert && t.at.Projection == "down" {
			downs = append(downs, s.trade)
		} else {
			rest = append(rest, s.trade)
		}
	}
	o.All, o.Downs, o.Others = MeansOf(all), MeansOf(downs), MeansOf(rest)
}

// Lines say what came of a run, a fact a line.
func (o *Outcome) Lines() []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	add("%s: %d of %d matrices calibrated, %d of %d codes changed (%s)", o.Variant, o.Calibrated, o.Matrices, o.Changed, o.Codes, percent(o.Changed, o.Codes))
	if o.Chosen > 0 {
		add("%d matrices stay at %s as asked", o.Chosen, o.Baseline)
	}
	if m := &o.All; m.Matrices > 0 {
		add("output error %s → %s of the outputs, weight error %s → %s of the weights (means of squares, baseline → calibrated)", figure(m.BaseOut2), figure(m.Out2), figure(m.BaseRel2), figure(m.Rel2))
	}
	if e := &o.Experts; e.Experts > 0 {
		add("tokens of an expert: %d least, %g median, %d most; %d of %d experts inactive, %d given fewer tokens than columns", e.Min, e.Median, e.Max, e.Inactive, e.Experts, e.Deficient)
		add("%s", o.Rank.Text())
	}
	if m := &o.Downs; m.Matrices > 0 && !math.IsNaN(float64(m.DampShare)) {
		add("damping is %.1f %% of the solution of experts' down projections (median), %d of %d are of full rank", 100*m.DampShare, m.Matrices-m.Deficient, m.Matrices)
	}
	if n := len(o.Fallbacks); n > 0 {
		add("%d of %d matrices fell back, %s of the parameters:", n, o.Matrices, percent(o.FellBack, o.Params))
		out = append(out, o.reasons()...)
	}
	for _, w := range o.Warnings {
		add("warning: %s", w)
	}
	return out
}

// reasons counts fallbacks by their reasons.
func (o *Outcome) reasons() []string {
	type group struct {
		as, why string
	}
	var order []group
	n := map[group]int{}
	for _, f := range o.Fallbacks {
		g := group{f.Effective, f.Reason}
		if n[g]++; n[g] == 1 {
			order = append(order, g)
		}
	}
	var out []string
	for _, g := range order {
		out = append(out, fmt.Sprintf("  %d are %s: %s", n[g], g.as, g.why))
	}
	return out
}

func percent(n, of int64) string {
	if of == 0 {
		return "0 %"
	}
	return fmt.Sprintf("%.3g %%", 100*float64(n)/float64(of))
}

func figure(f Float) string { return fmt.Sprintf("%.3g", float64(f)) }
