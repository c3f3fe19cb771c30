// Package lint checks a checkpoint for defects that show in its headers, its
// scale tensors and the files beside them, before anybody serves it.
//
// Promises: a rule reads only what its comment says; every finding has a stable
// id and names a file or a tensor, the reason with its count, what a server does
// with it, and what to do; a rule that cannot decide says nothing. The table of
// kinds (Kinds) is the documentation; memory is bounded by the names of the
// checkpoint, whatever the number of findings.
package lint

import (
	"context"
	"errors"
	"slices"

	"quantscope/analysis/lint/logs"
	"quantscope/quant/checkpoint"
	"quantscope/quant/gguf"
	"quantscope/quant/layout"
	"quantscope/quant/recipe"
	"quantscope/quant/topology"
)

// Input is what is linted: one of a checkpoint with its model, a GGUF file and a
// folder without weights, and what it is held against.
type Input struct {
	Checkpoint *checkpoint.Checkpoint
	Model      *topology.Model
	GGUF       *gguf.File
	Folder     string

	From      *checkpoint.Checkpoint // the source, nil for none
	FromModel *topology.Model
	Recipe    *recipe.File   // what was asked for, nil for none
	Logs      []*logs.Report // of the tools that made it
	Weights   bool           // read weights as well

	Layout layout.Options
	Ignore []string // ids of findings that are left out
	Most   int      // findings of a kind that are listed; 0 for DefaultMost, below 0 for all
}

// DefaultMost is how many findings of a kind are listed.
const DefaultMost = 100

// Report is what a lint found.
type Report struct {
	Findings  []Finding `json:"findings"`
	Effective []Share   `json:"requested_effective"`
	Rules     int       `json:"rules"` // that ran
	Tensors   int       `json:"tensors"`
}

// Rule is one check.
type Rule struct {
	ID, Help string
	check    func(*run) error
}

// Rules lists the checks of checkpoints in the order in which they run.
func Rules() []Rule {
	return []Rule{
		{ruleFiles, "files, index and headers agree", (*run).files},
		{ruleStructure, "the tensors are those that the config declares, under the names that its class expects", (*run).structure},
		{ruleScales, "no scale is NaN, infinite, zero or all ones; input scales are there where they are needed", (*run).scales},
		{ruleQuantization, "the quantization config says what is stored, and where two say it they agree", (*run).declared},
		{ruleGroups, "GPTQ's inputs are in groups that there are, and its zero points are what readers agree on", (*run).groups},
		{ruleGlobals, "matrices that servers fuse have one second-level scale", (*run).globals},
		{ruleKept, "routers, embeddings, tied heads and towers are not quantized", (*run).kept},
		{ruleSide, "processors and towers are there together", (*run).side},
		{ruleTokenizer, "tokenizer and chat template are those of the source, without truncation or padding", (*run).tokenizer},
		{ruleSource, "what the source has is there (--from)", (*run).source},
		{ruleWeights, "plain weights are finite, and tied copies equal (--weights)", (*run).weights},
		{ruleEffective, "what is stored is what was asked for (--recipe)", (*run).effective},
		{ruleLog, "logs have no fallbacks and nothing skipped (--log)", (*run).logs},
	}
}

// ggufRules are the checks of GGUF files.
func ggufRules() []Rule {
	return []Rule{
		{ruleGGUF, "types are those of general.file_type; blocks, tokenizer and importance are whole", (*run).gguf},
		{ruleWeights, "values are finite (--weights)", (*run).ggufWeights},
		{ruleEffective, "what is stored is what was asked for (--recipe)", (*run).ggufEffective},
		{ruleLog, "logs have no fallbacks and nothing skipped (--log)", (*run).logs},
	}
}

// folderRules are the checks of a folder without weights.
func folderRules() []Rule {
	return []Rule{
		{ruleTokenizer, "tokenizer and chat template", (*run).folder},
		{ruleLog, "logs have no fallbacks and nothing skipped (--log)", (*run).logs},
	}
}

// Run runs every rule that needs the checkpoint alone. Findings are in the order
// of the rules, then of the files.
func Run(ctx context.Context, c *checkpoint.Checkpoint, m *topology.Model) ([]Finding, error) {
	r, err := Check(ctx, Input{Checkpoint: c, Model: m})
	return r.Findings, err
}

// Check runs every rule for the input. After an error the report has what was
// found before it.
func Check(ctx context.Context, in Input) (*Report, error) {
	if in.Most == 0 {
		in.Most = DefaultMost
	}
	r := &run{ctx: ctx, Input: in, rep: &Report{Findings: []Finding{}, Effective: []Share{}}, listed: map[string]int{}, first: map[string]int{}}
	rules := Rules()
	switch {
	case in.GGUF != nil:
		rules, r.rep.Tensors = ggufRules(), len(in.GGUF.Tensors)
	case in.Checkpoint == nil:
		rules = folderRules()
	default:
		r.rep.Tensors = len(in.Checkpoint.Tensors)
		if err := r.open(); err != nil {
			return r.rep, err
		}
	}
	for _, rule := range rules {
		r.rule = rule.ID
		if err := rule.check(r); err != nil {
			return r.rep, err
		}
		r.rep.Rules++
	}
	return r.rep, nil
}

// run is the work of one Check.
type run struct {
	ctx context.Context
	Input
	rep *Report

	lay   *layout.Layout // nil where the quantization config is not readable
	quant quantization
	bad   error // why it is not

	at   map[string]int // of the model's tensors by name; made when it is asked for
	raw  []byte         // memory that is used again
	vals []float32

	rule          string
	listed, first map[string]int // by id: findings listed, and the first one's index
}

// open reads what several rules need.
func (r *run) open() error {
	var err error
	if r.lay, err = layout.OpenWith(r.Checkpoint, r.Model, r.Layout); err != nil {
		var file *checkpoint.FileError
		if !errors.As(err, &file) {
			return err
		}
		r.bad = file
	}
	r.quant = readQuantization(r.Checkpoint)
	return r.ctx.Err()
}

// add adds a finding; what it does not say itself is its kind's.
func (r *run) add(id string, f Finding) {
	if slices.Contains(r.Ignore, id) {
		return
	}
	if r.listed[id] == r.Most {
		r.rep.Findings[r.first[id]].More++
		return
	}
	k := KindOf(id)
	f.ID, f.Rule, f.Explanation, f.Server = id, k.Rule, k.Explanation, k.Server
	if f.Severity == "" {
		f.Severity = k.Severity
	}
	if f.Fix == "" {
		f.Fix = k.Fix
	}
	if f.Mend == "" {
		f.Mend = k.Mend
	}
	if r.listed[id] == 0 {
		r.first[id] = len(r.rep.Findings)
	}
	r.listed[id]++
	r.rep.Findings = append(r.rep.Findings, f)
}

// tensor adds a finding about a stored tensor.
func (r *run) tensor(id string, t *checkpoint.Tensor, f Finding) {
	f.File, f.Tensor = r.Checkpoint.Files[t.File].Name, t.Name
	r.add(id, f)
}

// fileOf is the file of a tensor by its name, "" for one that is not stored.
func (r *run) fileOf(tensor string) string {
	if t, ok := r.Checkpoint.Lookup(tensor); ok {
		return r.Checkpoint.Files[t.File].Name
	}
	return ""
}

// rank orders severities.
func (s Severity) rank() int { return slices.Index([]Severity{Note, Warning, Error}, s) }

// Severities lists them, the mildest first.
func Severities() []Severity { return []Severity{Note, Warning, Error} }

// Failed says whether a gate over the findings fails.
func Failed(findings []Finding) bool { return FailedAt(findings, Error) }

// FailedAt says whether there is a finding as severe as at, or more so.
func FailedAt(findings []Finding, at Severity) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Severity.rank() >= at.rank() })
}
