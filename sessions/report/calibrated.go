package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// calibrated are the tables of calibrated variants: what each traded, and the tokens
// of experts.
func (r *Report) calibrated() []table {
	traded := table{
		Caption: "Output error for weight error",
		Cols: []column{
			{Name: "variant"}, {Name: "matrices", Sub: "calibrated", Num: true}, {Name: "output error", Sub: "mean, relative", Num: true}, {Name: "of baseline", Sub: "output error", Num: true},
			{Name: "weight error", Sub: "mean, relative", Num: true}, {Name: "of baseline", Sub: "weight error", Num: true}, {Name: "changed", Sub: "codes", Num: true},
			{Name: "fell back", Sub: "parameters", Num: true}, {Name: "damping", Sub: "share of the solution", Num: true}, {Name: "gate"},
		},
	}
	var out []table
	var notes []string
	for _, v := range r.Variants {
		s, ok := r.state.CalibrationSummary(v.ID)
		if !ok {
			continue
		}
		t := s.Trades
		out2, rel2 := trade(float64(t.Out2), float64(t.BaseOut2)), trade(float64(t.Rel2), float64(t.BaseRel2))
		gate := cmp.Or(s.Gate, string(s.State))
		traded.Rows = append(traded.Rows, row{Cells: []td{
			{Text: s.Variant}, numeric(thousands(int64(t.Calibrated)), float64(t.Calibrated)), out2, shareOf(float64(s.OutRatio)), rel2, shareOf(float64(s.WeightRatio)),
			shareOf(float64(t.Changed) / float64(t.Codes)), shareOf(float64(s.FellBackShare)), shareOf(float64(t.DampShare)), {Text: gate},
		}})
		note := fmt.Sprintf("%s: %s tokens of %s (sha256 %.12s), %d of %d units.", s.Variant, thousands(s.Tokens), s.Corpus, s.SHA256, s.UnitsDone, s.Units)
		if k := s.Rank; k.Experts > 0 && !s.RankMet {
			note += fmt.Sprintf(" Too few for full rank: %s are needed (%d·%d/%d).", thousands(k.Need), k.Inner, k.Experts, k.TopK)
		}
		notes = append(notes, note)
		if tokens, ok := r.tokens(v.ID, s.Variant); ok {
			out = append(out, tokens)
		}
	}
	if len(traded.Rows) == 0 {
		return nil
	}
	traded.Note = "Means over the matrices that were calibrated; below each figure that of the baseline, the same variant without calibration. " + strings.Join(notes, " ")
	return append([]table{traded}, out...)
}

// trade is an error with the baseline's below it.
func trade(x, base float64) td {
	c := numeric(none, x)
	if !math.IsNaN(x) {
		c.Text = fmt.Sprintf("%.4g", x)
	}
	if !math.IsNaN(base) {
		c.Sub = fmt.Sprintf("%.4g", base)
	}
	return c
}

func shareOf(x float64) td {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return numeric(none, math.NaN())
	}
	return numeric(Share(x), x)
}

// tokens are those that the experts of each layer were given under a variant's
// calibration.
func (r *Report) tokens(id int, variant string) (table, bool) {
	t := table{
		Caption: "Tokens of experts, " + variant,
		Note:    "How many tokens of the calibration text each expert was given: its down projection is calibrated on these alone.",
		Fixed:   true,
		Cols: []column{
			{Name: "layer"}, {Name: "experts", Num: true}, {Name: "min", Num: true}, {Name: "median", Num: true}, {Name: "max", Num: true}, {Name: "inactive"},
		},
	}
	for _, c := range r.state.Calibrations {
		if c.Setup.Variant != id {
			continue
		}
		t.Rows = nil // of the newest
		for _, n := range c.Counts() {
			if len(n.Expert) == 0 {
				continue
			}
			sorted := slices.Sorted(slices.Values(n.Expert))
			var idle []string
			for x, k := range n.Expert {
				if k == 0 {
					idle = append(idle, fmt.Sprint(x))
				}
			}
			name := fmt.Sprintf("L%d", n.Layer)
			if n.MTP {
				name = fmt.Sprintf("M%d", n.Layer)
			}
			half := float64(sorted[(len(sorted)-1)/2]+sorted[len(sorted)/2]) / 2
			t.Rows = append(t.Rows, row{Cells: []td{
				{Text: name}, numeric(fmt.Sprint(len(sorted)), float64(len(sorted))), count(sorted[0]), numeric(fmt.Sprintf("%.0f", half), half), count(sorted[len(sorted)-1]),
				{Text: cmp.Or(inWords(idle), none)},
			}})
		}
	}
	return t, len(t.Rows) > 0
}

func count(n int64) td { return numeric(thousands(n), float64(n)) }

// inWords lists experts, the first few of many.
func inWords(list []string) string {
	const most = 12
	if len(list) > most {
		return strings.Join(list[:most], ", ") + fmt.Sprintf(" and %d more", len(list)-most)
	}
	return strings.Join(list, ", ")
}
