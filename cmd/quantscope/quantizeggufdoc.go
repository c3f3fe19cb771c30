package main

import (
	"math"

	"quantscope/quant/ggufmake"
	"quantscope/sessions"
)

// ggufDocument is the --json output of quantize --layout gguf.
type ggufDocument struct {
	Checkpoint string              `json:"checkpoint"`
	Identity   string              `json:"identity"`
	Layout     string              `json:"layout"`
	Out        string              `json:"out"`
	State      string              `json:"state"` // written, dry run, refused
	Bytes      int64               `json:"bytes"`
	Seconds    float64             `json:"seconds"`
	Program    string              `json:"program"`
	Arch       string              `json:"architecture"`
	Variants   []ggufVariant       `json:"variants"`
	Types      []ggufmake.Share    `json:"types"`
	Tensors    []ggufTensor        `json:"tensors"`
	Fallbacks  []ggufmake.Fallback `json:"fallbacks"`
	Unweighted []string            `json:"unweighted"`
	Findings   []ggufmake.Finding  `json:"findings"`
}

// ggufVariant is what the round trip did to the tensors that are quantized.
type ggufVariant struct {
	Variant       string          `json:"variant"`
	Effective     string          `json:"effective"`
	Tensors       int             `json:"tensors"`
	BitsPerWeight sessions.Figure `json:"bits_per_weight"` // of them
	MeanRel2      sessions.Figure `json:"mean_rel2"`
	MeanRelL2     sessions.Figure `json:"mean_rel_l2"`
	MeanWeighted  sessions.Figure `json:"mean_weighted_rel_l2"`
	WorstTensor   string          `json:"worst_tensor"`
	WorstRelL2    sessions.Figure `json:"worst_rel_l2"`
	WorstOverMean sessions.Figure `json:"worst_over_mean"`
}

// ggufTensor is one tensor of the file.
type ggufTensor struct {
	Tensor    string          `json:"tensor"`
	From      string          `json:"from"`
	Requested string          `json:"requested"`
	Effective string          `json:"effective"`
	Kept      string          `json:"kept,omitempty"` // why it is not quantized
	Params    int64           `json:"params"`
	Bytes     int64           `json:"bytes"`
	RelL2     sessions.Figure `json:"rel_l2"`
	Weighted  sessions.Figure `json:"weighted_rel_l2"` // NaN where nothing is weighted
}

func (d *ggufDocument) weighted() bool {
	return len(d.Variants) > 0 && !math.IsNaN(float64(d.Variants[0].MeanWeighted))
}

// ggufDocumentOf says what a plan is, and where it was written, what it did.
func ggufDocumentOf(p *ggufmake.Plan, out string, errs []ggufmake.Error, seconds float64) *ggufDocument {
	d := &ggufDocument{
		Checkpoint: p.Source.Path, Identity: p.Source.Identity, Layout: ggufLayout, Out: out, State: "dry run", Bytes: p.Size, Seconds: seconds, Program: version,
		Arch: p.Source.Arch, Types: p.Types(), Tensors: []ggufTensor{}, Fallbacks: append([]ggufmake.Fallback{}, p.Fallbacks...),
		Unweighted: append([]string{}, p.Unweighted...), Findings: append([]ggufmake.Finding{}, p.Source.Findings...),
	}
	switch {
	case errs != nil:
		d.State = "written"
	case p.Size == 0:
		d.State = "refused"
	}
	v := ggufVariant{Variant: ggufmake.VariantName(p.Request.Type, p.Request.Importance), WorstRelL2: -1}
	v.Effective = v.Variant
	if len(p.Fallbacks) > 0 {
		v.Effective = "mixed"
	}
	var params, bytes int64
	var rel2, rel, weighted float64
	n := 0
	for i := range p.Targets {
		t := &p.Targets[i]
		row := ggufTensor{
			Tensor: t.Name, From: t.From, Requested: ggufmake.VariantName(t.Requested, false), Effective: ggufmake.VariantName(t.Effective, t.Weighted()),
			Kept: t.Kept, Params: t.Params(), Bytes: t.Bytes, RelL2: sessions.Figure(math.NaN()), Weighted: sessions.Figure(math.NaN()),
		}
		if errs != nil {
			row.RelL2, row.Weighted = sessions.Figure(errs[i].RelL2), sessions.Figure(errs[i].Weighted)
		}
		d.Tensors = append(d.Tensors, row)
		if t.Kept != "" {
			continue
		}
		v.Tensors++
		params += t.Params()
		bytes += t.Bytes
		if errs == nil {
			continue
		}
		rel2 += errs[i].Rel2
		rel += errs[i].RelL2
		if !math.IsNaN(errs[i].Weighted) {
			weighted += errs[i].Weighted
			n++
		}
		if sessions.Figure(errs[i].RelL2) > v.WorstRelL2 {
			v.WorstTensor, v.WorstRelL2 = t.Name, sessions.Figure(errs[i].RelL2)
		}
	}
	v.BitsPerWeight = sessions.Figure(8 * float64(bytes) / float64(params))
	mean := func(sum float64, of int) sessions.Figure { return sessions.Figure(sum / float64(of)) } // NaN of none
	v.MeanRel2, v.MeanRelL2, v.MeanWeighted = mean(rel2, v.Tensors), mean(rel, v.Tensors), mean(weighted, n)
	if errs == nil {
		nan := sessions.Figure(math.NaN())
		v.MeanRel2, v.MeanRelL2, v.WorstRelL2 = nan, nan, nan
	}
	v.WorstOverMean = v.WorstRelL2 / v.MeanRelL2
	d.Variants = append(d.Variants, v)
	return d
}
