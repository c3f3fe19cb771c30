package main

import (
	"quantscope/analysis/calibrate"
	"quantscope/quant/topology"
)

// calibrationDocument is what calibrate and calibrate info print with --json.
type calibrationDocument struct {
	File     string             `json:"file"`
	Kind     string             `json:"kind"` // calibration, imatrix
	Identity string             `json:"identity"`
	Source   string             `json:"source"`
	Family   string             `json:"family"`
	Through  string             `json:"through"`
	Hessians bool               `json:"hessians"`
	Program  string             `json:"program"`
	Corpus   calibrationCorpus  `json:"corpus"`
	Inputs   int                `json:"inputs"`
	Measured int                `json:"measured"`
	Columns  int                `json:"columns"` // of the widest
	Rank     calibrationRank    `json:"rank"`
	Experts  calibrate.Spread   `json:"experts"`
	Layers   []calibrationLayer `json:"layers"`
	Imatrix  string             `json:"imatrix,omitempty"`
	Unnamed  []unnamedInput     `json:"unnamed,omitempty"`
	Notes    []string           `json:"notes"`
}

type calibrationCorpus struct {
	Name      string `json:"name"`
	Source    string `json:"source"`
	SHA256    string `json:"sha256"`
	Tokenizer string `json:"tokenizer"`
	Chunks    int    `json:"chunks"`
	Tokens    int64  `json:"tokens"`
}

type calibrationRank struct {
	calibrate.RankBound
	Met bool `json:"met"`
}

// calibrationLayer are the tokens that the experts of a layer were given.
type calibrationLayer struct {
	Layer     int     `json:"layer"`
	MTP       bool    `json:"mtp"`
	Tokens    int64   `json:"tokens"`
	TopK      int     `json:"topK"`
	Columns   int     `json:"columns"` // of a down projection
	Inactive  []int   `json:"inactive"`
	Deficient []int   `json:"deficient"` // given some tokens, but fewer than columns
	Expert    []int64 `json:"expert"`
}

type unnamedInput struct {
	Map    string `json:"map"`
	Layers int    `json:"layers"`
	Reason string `json:"reason"`
}

// calibrationOf sums a file up.
func calibrationOf(f *calibrate.File) calibrationDocument {
	h := f.Header
	d := calibrationDocument{
		File: f.Path(), Kind: "calibration", Identity: f.Identity(), Source: h.Source, Family: h.Family, Through: h.Through, Hessians: h.Hessians, Program: h.Program,
		Corpus: calibrationCorpus(h.Corpus), Notes: append([]string{}, f.Notes()...), Layers: []calibrationLayer{},
	}
	if h.Imatrix != "" {
		d.Kind = "imatrix"
	}
	columns := map[int]int{} // of experts' down projections, by layer
	for _, u := range f.Units() {
		for _, in := range u.Inputs {
			d.Inputs++
			d.Columns = max(d.Columns, in.N)
			if f.Has(in.At, false) {
				d.Measured++
			}
			if in.At.Kind == topology.Expert {
				columns[in.At.Layer] = in.N
			}
		}
	}
	most := 0
	for _, c := range h.Counts {
		inner := columns[c.Layer]
		most = max(most, inner)
		d.Layers = append(d.Layers, calibrationLayer{
			Layer: c.Layer, MTP: c.MTP, Tokens: c.Tokens, TopK: c.TopK, Columns: inner,
			Inactive: orNone(c.Inactive()), Deficient: orNone(c.Deficient(inner)), Expert: c.Expert,
		})
		if k := int64(max(c.TopK, 1)); inner > 0 {
			if need := (int64(inner)*int64(len(c.Expert)) + k - 1) / k; need > d.Rank.Need {
				d.Rank.RankBound = calibrate.RankBound{Inner: inner, Experts: len(c.Expert), TopK: c.TopK, Tokens: h.Corpus.Tokens, Need: need}
			}
		}
	}
	d.Rank.Tokens = h.Corpus.Tokens
	d.Rank.Met = d.Rank.RankBound.Met()
	d.Experts = calibrate.SpreadOf(h.Counts, most)
	return d
}

// orNone is a list that is not null in JSON.
func orNone(list []int) []int { return append([]int{}, list...) }
