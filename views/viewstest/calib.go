package viewstest

import (
	"fmt"
	"math"

	"quantscope/analysis/calibrate"
	"quantscope/quant/topology"
	"quantscope/sessions"
)

// Calibrated is Demo with an int4 variant, a calibrated one of the same scheme and
// its calibration, all measured. Three experts had no token, and a few had fewer
// than their down projections have columns.
func Calibrated() *sessions.State {
	s := Empty(Experts(1, 4, 1, 16), "int4-g128", "int4-g128+gptq", "nvfp4")
	s.Meta = Demo().Meta
	for _, v := range []int{1, 2} { // it may not be known yet under its own name
		s.Variants[v].Scheme = []string{"", "int4-g128", "nvfp4"}[v]
		s.Variants[v].BitsPerWeight = []float64{0, 4.25, 4.5}[v]
	}
	for v := range s.Variants {
		for t := range s.Tensors {
			Measure(s, v, t)
		}
	}
	s.Progress.State = sessions.RunFinished
	setup, units := Calibration(s, 1)
	c := &sessions.Calibration{Setup: setup, Units: units}
	c.End = CalibrationEnd(s, units)
	s.Calibrations = []*sessions.Calibration{c}
	return s
}

// Calibration is a made-up calibration of a variant over all layers of a session.
func Calibration(s *sessions.State, variant int) (sessions.CalibrationSetup, []sessions.CalibUnit) {
	const tokens, topK = 98_304, 2
	setup := sessions.CalibrationSetup{
		Variant: variant, Corpus: "demo calibration", CorpusSHA: "5f1c", Chunks: 192, Tokens: tokens, Damp: 0.01, Inputs: "sequential",
		Rank: calibrate.RankBound{Tokens: tokens}, Program: "test", KernelSet: "ref",
	}
	var units []sessions.CalibUnit
	experts := max(s.Meta.Experts, 1)
	for t := range s.Tensors {
		r := &s.Tensors[t].Role
		name := fmt.Sprintf("layer %d", r.Layer)
		switch {
		case r.MTP:
			name = fmt.Sprintf("mtp %d", r.Layer)
		case r.Kind == topology.Head:
			name = "head"
		}
		if n := len(units); n == 0 || units[n-1].Unit != name {
			setup.Units = append(setup.Units, name)
			u := sessions.CalibUnit{Unit: name, Seconds: 0.7}
			if r.Kind == topology.Expert {
				u.Counts = []calibrate.Counts{routed(r.Layer, r.MTP, experts, tokens, topK)}
			}
			units = append(units, u)
		}
		u := &units[len(units)-1]
		if r.Kind == topology.Expert && setup.Rank.Experts == 0 {
			inner := s.Tensors[t].Cols
			setup.Rank = calibrate.RankBound{Inner: inner, Experts: experts, TopK: topK, Tokens: tokens, Need: int64(inner * experts / topK)}
		}
		u.Matrices = append(u.Matrices, sessions.CalibMatrix{Tensor: t, Trade: trade(s, variant, t, u.Counts, tokens)})
	}
	for _, u := range units {
		for _, m := range u.Matrices {
			setup.ParamsOfAll += int64(s.Tensors[m.Tensor].Rows * s.Tensors[m.Tensor].Cols)
		}
	}
	return setup, units
}

// CalibrationEnd is how such a calibration ends.
func CalibrationEnd(s *sessions.State, units []sessions.CalibUnit) *sessions.CalibrateEnd {
	end := &sessions.CalibrateEnd{State: sessions.RunFinished}
	for _, u := range units {
		for _, m := range u.Matrices {
			params := int64(s.Tensors[m.Tensor].Rows * s.Tensors[m.Tensor].Cols)
			end.Params += params
			if m.Why != "" {
				end.FellBack += params
				continue
			}
			end.Calibrated++
			end.Changed += m.Changed
		}
	}
	return end
}

// routed is how the tokens of a layer reach its experts: some get many, a few
// hardly any.
func routed(layer int, mtp bool, experts int, tokens int64, topK int) calibrate.Counts {
	c := calibrate.Counts{Layer: layer, MTP: mtp, Tokens: tokens, TopK: topK, Expert: make([]int64, experts)}
	for e := range c.Expert {
		u := unit(1000*layer + e)
		c.Expert[e] = int64(float64(tokens) * float64(topK) / float64(experts) * math.Exp(1.2*u-8*u*u*u*u))
		switch (layer*7 + e*5) % 43 {
		case 11:
			c.Expert[e] = 0
		case 3, 29:
			c.Expert[e] = 40 + int64(60*u)
		}
	}
	return c
}

// trade is what calibration did to a tensor.
func trade(s *sessions.State, variant, tensor int, counts []calibrate.Counts, tokens int64) calibrate.Trade {
	t := &s.Tensors[tensor]
	u := unit(7*tensor + 1)
	base := RecordOf(s, 0, tensor).Rel2
	tr := calibrate.Trade{
		Effective: s.Variants[variant].Plain(), Input: fmt.Sprintf("layer %d router", t.Role.Layer), Tokens: tokens, N: t.Cols, Rank: t.Cols,
		Cond: calibrate.Float(900 + 5000*u), DampShare: calibrate.Float(0.004 + 0.01*u), Codes: int64(t.Rows * t.Cols),
		BaseRel2: calibrate.Float(base), BaseOut2: calibrate.Float(base * (0.9 + 0.3*u)),
	}
	gain := 0.45 + 0.2*u
	if t.Role.Kind == topology.Expert && t.Role.Projection == "down" && len(counts) > 0 {
		tr.Input, tr.Tokens = t.Name, counts[0].Expert[t.Role.Expert]
		switch n := tr.Tokens; {
		case n == 0:
			tr.Effective, tr.Why = s.Variants[0].Plain(), "no token of the calibration text was routed to it"
			tr.Rank, tr.Cond, tr.DampShare = 0, calibrate.Float(math.NaN()), calibrate.Float(math.NaN())
			tr.Rel2, tr.Out2, tr.BaseOut2 = tr.BaseRel2, calibrate.Float(math.NaN()), calibrate.Float(math.NaN())
			return tr
		case n < int64(t.Cols):
			tr.Rank, tr.Cond, tr.DampShare = int(n)-1, 1e4, calibrate.Float(1-float64(n-1)/float64(t.Cols))
			gain = 0.9 + 0.15*u
		}
	}
	tr.Rel2, tr.Out2 = tr.BaseRel2*calibrate.Float(1.02+0.08*u), tr.BaseOut2*calibrate.Float(gain)
	tr.Changed = int64(float64(tr.Codes) * (0.3 + 0.1*u))
	return tr
}
