package sessions

import (
	"math"

	"quantscope/analysis/calibrate"
)

// Trades are what calibration did to some matrices, as means over those that were
// calibrated and have finite figures. A mean of nothing is NaN.
type Trades struct {
	Matrices   int `json:"matrices"`
	Calibrated int `json:"calibrated"`
	FellBack   int `json:"fell_back"` // matrices that are not what was asked for
	Chosen     int `json:"chosen"`    // matrices that were left at the baseline since that was asked for

	Out2      Figure `json:"out2"` // mean relative output error
	BaseOut2  Figure `json:"base_out2"`
	Rel2      Figure `json:"rel2"` // mean relative weight error
	BaseRel2  Figure `json:"base_rel2"`
	DampShare Figure `json:"damp_share"`

	Codes   int64 `json:"codes"`   // of calibrated matrices
	Changed int64 `json:"changed"` // codes and group parameters of these that are not the baseline's
}

// FellBack says whether a matrix is something other than was asked for.
func (m *CalibMatrix) FellBack() bool { return m.Why != "" && !m.Chosen }

// Calibrated says whether a matrix was made by what was asked for.
func (m *CalibMatrix) Calibrated() bool { return m.Why == "" && !m.Chosen }

// TradesOf sums matrices up.
func TradesOf(list []CalibMatrix) Trades {
	t := Trades{Matrices: len(list)}
	var out, baseOut, rel, baseRel, damp mean
	for i := range list {
		m := &list[i]
		switch {
		case m.Chosen:
			t.Chosen++
		case m.FellBack():
			t.FellBack++
		default:
			t.Calibrated++
			t.Codes += m.Codes
			t.Changed += m.Changed
			out.add(float64(m.Out2))
			baseOut.add(float64(m.BaseOut2))
			rel.add(float64(m.Rel2))
			baseRel.add(float64(m.BaseRel2))
			damp.add(float64(m.DampShare))
		}
	}
	t.Out2, t.BaseOut2 = Figure(out.value()), Figure(baseOut.value())
	t.Rel2, t.BaseRel2 = Figure(rel.value()), Figure(baseRel.value())
	t.DampShare = Figure(damp.value())
	return t
}

// Trades are those of all tensors under a variant, by tensor, the newest of each;
// nil where there is none. What is returned is not to be changed.
func (s *State) Trades(variant int) []*CalibMatrix {
	var out []*CalibMatrix
	for _, c := range s.Calibrations {
		if c.Setup.Variant != variant {
			continue
		}
		if out == nil {
			out = make([]*CalibMatrix, len(s.Tensors))
		}
		for u := range c.Units {
			for i := range c.Units[u].Matrices {
				if m := &c.Units[u].Matrices[i]; m.Tensor >= 0 && m.Tensor < len(out) {
					out[m.Tensor] = m
				}
			}
		}
	}
	return out
}

// calibrationOf is the newest calibration of a variant and its index; nil, -1
// where there is none.
func (s *State) calibrationOf(variant int) (int, *Calibration) {
	for i := len(s.Calibrations) - 1; i >= 0; i-- {
		if s.Calibrations[i].Setup.Variant == variant {
			return i, s.Calibrations[i]
		}
	}
	return -1, nil
}

// CalibrationSummary is the newest calibration of a variant in figures; false where
// it has none.
func (s *State) CalibrationSummary(variant int) (CalibrationSummary, bool) {
	_, c := s.calibrationOf(variant)
	if c == nil || variant < 0 || variant >= len(s.Variants) {
		return CalibrationSummary{}, false
	}
	return c.Summary(s.Variants[variant].Name), true
}

// CalibrationSummary is one calibrated run of a variant in figures.
type CalibrationSummary struct {
	Variant       string              `json:"variant"`
	State         RunState            `json:"state"`
	Reason        string              `json:"reason,omitempty"`
	Corpus        string              `json:"corpus"`
	SHA256        string              `json:"sha256"`
	Chunks        int                 `json:"chunks"`
	Tokens        int64               `json:"tokens"`
	Inputs        string              `json:"inputs"`
	Damp          float64             `json:"damp"`
	Only          []string            `json:"only,omitempty"`
	Codes         string              `json:"codes"`
	Units         int                 `json:"units"`
	UnitsDone     int                 `json:"units_done"`
	UnitsAgain    int                 `json:"units_read_back"`
	Seconds       float64             `json:"seconds"` // that units took
	Trades        Trades              `json:"trades"`
	OutRatio      Figure              `json:"out_ratio"`    // of the mean output error to the baseline's
	WeightRatio   Figure              `json:"weight_ratio"` // of the mean weight error to the baseline's
	Calibrated    int                 `json:"calibrated"`   // matrices
	Changed       int64               `json:"changed"`      // codes and group parameters of these that are not the baseline's
	Params        int64               `json:"params"`
	FellBackShare Figure              `json:"fell_back_share"` // of the parameters
	Gate          string              `json:"gate"`            // passed, failed: why, or "" where the run did not end
	GateFailed    bool                `json:"gate_failed"`
	Rank          calibrate.RankBound `json:"rank_bound"`
	RankMet       bool                `json:"rank_met"`
	Routed        *RoutedTokens       `json:"tokens_per_expert,omitempty"`
	Warnings      []string            `json:"warnings,omitempty"`
}

// RoutedTokens are the tokens that experts were given, over all layers with some.
type RoutedTokens struct {
	Experts  int     `json:"experts"`
	Min      int64   `json:"min"`
	Median   float64 `json:"median"`
	Max      int64   `json:"max"`
	Inactive int     `json:"inactive"` // experts that were given none
}

// Counts are those of all units, in order.
func (c *Calibration) Counts() []calibrate.Counts {
	var out []calibrate.Counts
	for i := range c.Units {
		out = append(out, c.Units[i].Counts...)
	}
	return out
}

// Summary is the calibration in figures. variant is what tables call its variant.
func (c *Calibration) Summary(variant string) CalibrationSummary {
	s := CalibrationSummary{
		Variant: variant, State: RunRunning, Corpus: c.Setup.Corpus, SHA256: c.Setup.CorpusSHA, Chunks: c.Setup.Chunks, Tokens: c.Setup.Tokens,
		Inputs: c.Setup.Inputs, Damp: c.Setup.Damp, Only: c.Setup.Only, Codes: c.Setup.Codes, Units: len(c.Setup.Units), UnitsDone: len(c.Units),
		Params: c.Setup.ParamsOfAll, Rank: c.Setup.Rank, RankMet: c.Setup.Rank.Met(), FellBackShare: Figure(math.NaN()),
	}
	var all []CalibMatrix
	for i := range c.Units {
		u := &c.Units[i]
		all = append(all, u.Matrices...)
		s.Seconds += u.Seconds
		if u.Again {
			s.UnitsAgain++
		}
	}
	s.Trades = TradesOf(all)
	s.Calibrated, s.Changed = s.Trades.Calibrated, s.Trades.Changed
	s.OutRatio, s.WeightRatio = s.Trades.Out2/s.Trades.BaseOut2, s.Trades.Rel2/s.Trades.BaseRel2
	s.Routed = routedTokens(c.Counts())
	if e := c.End; e != nil {
		s.State, s.Reason, s.Warnings = e.State, e.Reason, e.Warnings
		if e.Params > 0 {
			s.FellBackShare = Figure(float64(e.FellBack) / float64(e.Params))
		}
		switch {
		case e.Gate != "":
			s.Gate, s.GateFailed = "failed: "+e.Gate, true
		case e.State == RunFinished:
			s.Gate = "passed"
		}
	}
	return s
}
