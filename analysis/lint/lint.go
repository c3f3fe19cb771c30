// Package lint checks a checkpoint for defects that show in its headers and its
// scale tensors, before anybody serves it.
//
// Promises: a rule reads only what its docstring says; every finding names a
// file or a tensor, the reason with its count, and what to do; a rule that
// cannot decide says nothing.
package lint

import (
	"context"

	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// Rule is one check.
type Rule struct {
	ID, Help string
	check    func(context.Context, *checkpoint.Checkpoint, *topology.Model) ([]Finding, error)
}

// Rules lists the checks in the order in which they run.
func Rules() []Rule {
	return []Rule{
		{"layout", "files, index and headers agree", files},
		{"structure", "the tensors are those that the config declares", structure},
		{"scale-nonfinite", "no scale is NaN or infinite", scaleNonFinite},
		{"quantization", "the quantization config says what is stored, and where two say it they agree", declared},
		{"groups", "GPTQ's inputs are in groups that there are, and its zero points are what readers agree on", groups},
		{"globals-differ", "matrices that servers fuse have one second-level scale", globalsDiffer},
	}
}

// Run runs every rule. Findings are in the order of the rules, then of the files.
func Run(ctx context.Context, c *checkpoint.Checkpoint, m *topology.Model) ([]Finding, error) {
	out := []Finding{}
	for _, r := range Rules() {
		found, err := r.check(ctx, c, m)
		if err != nil {
			return out, err
		}
		for _, f := range found {
			f.ID, f.Rule = r.ID, r.ID
			out = append(out, f)
		}
	}
	return out, nil
}

// Failed says whether a gate over the findings fails.
func Failed(findings []Finding) bool {
	for _, f := range findings {
		if f.Severity == Error {
			return true
		}
	}
	return false
}

// files passes on what the reader noticed; it reads nothing.
func files(_ context.Context, c *checkpoint.Checkpoint, _ *topology.Model) ([]Finding, error) {
	var out []Finding
	for _, f := range c.Findings {
		out = append(out, Finding{
			Severity: Error, File: f.File, Tensor: f.Tensor, Message: f.Message,
			Fix: "write the index anew from the shards, or take the stray file away",
		})
	}
	return out, nil
}

// structure passes on what the names and shapes showed; it reads nothing. Without
// a config nothing is declared, so nothing can be missing: warnings then.
func structure(_ context.Context, c *checkpoint.Checkpoint, m *topology.Model) ([]Finding, error) {
	var out []Finding
	severity := Error
	if !m.Config.Present {
		severity = Warning
	}
	for _, f := range m.Findings {
		out = append(out, Finding{
			Severity: severity, File: fileOf(c, f.Tensor), Tensor: f.Tensor, Message: f.Message,
			Fix: "compare config.json with the source checkpoint's",
		})
	}
	for _, f := range m.Unresolved {
		out = append(out, Finding{
			Severity: Warning, File: fileOf(c, f.Tensor), Tensor: f.Tensor, Message: f.Message,
			Fix: "add the sizes that decide its layout to config.json",
		})
	}
	return out, nil
}

func fileOf(c *checkpoint.Checkpoint, tensor string) string {
	if t, ok := c.Lookup(tensor); ok {
		return c.Files[t.File].Name
	}
	return ""
}
