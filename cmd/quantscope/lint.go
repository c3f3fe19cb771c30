package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"quantscope/analysis/lint"
	"quantscope/quant/checkpoint"
	"quantscope/quant/demo"
	"quantscope/quant/topology"
)

// openModel opens a checkpoint by path, or the embedded one, and finds out what
// its tensors are.
func openModel(path string) (*checkpoint.Checkpoint, *topology.Model, error) {
	open := checkpoint.Open
	if path == "demo" {
		open = func(string) (*checkpoint.Checkpoint, error) { return demo.Open() }
	}
	if path != "demo" {
		if err := present(path); err != nil {
			return nil, nil, err
		}
	}
	c, err := open(path)
	if err != nil {
		return nil, nil, err
	}
	m, err := topology.FromCheckpoint(c)
	if err != nil {
		_ = c.Close()
		return nil, nil, badInput(err)
	}
	return c, m, nil
}

func newLint(std streams) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "lint CHECKPOINT",
		Short: "Check headers and scale tensors for defects; exit 1 when there are",
		Args:  exactly(1, "lint takes one checkpoint: a folder, a file or demo"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return lintCheckpoint(cmd.Context(), std, args[0], asJSON)
		},
	}
	var rules []string
	for _, r := range lint.Rules() {
		rules = append(rules, "  "+r.ID+": "+r.Help)
	}
	cmd.Long = "lint reads headers and scale tensors, never weights, and checks:\n" + strings.Join(rules, "\n")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}

func lintCheckpoint(ctx context.Context, std streams, path string, asJSON bool) error {
	c, m, err := openModel(path)
	if err != nil {
		return err
	}
	defer c.Close()
	findings, err := lint.Run(ctx, c, m)
	if err != nil {
		return err
	}
	if asJSON {
		err = printJSON(std.out, struct {
			Path     string         `json:"path"`
			Rules    int            `json:"rules"`
			Findings []lint.Finding `json:"findings"`
		}{path, len(lint.Rules()), findings})
	} else {
		t := newReport(std.out)
		for _, f := range findings {
			t.line("%s  %s  %s", f.Severity, f.ID, strings.TrimSpace(strings.Join([]string{f.File, f.Tensor, f.Message}, " ")))
			t.line("         %s", f.Fix)
		}
		t.line("%s: %s by %d rules over %s", path, counted(len(findings), "finding", "findings"), len(lint.Rules()), counted(len(c.Tensors), "tensor", "tensors"))
		err = t.err
	}
	if err == nil && lint.Failed(findings) {
		return checkFailed(errSaid)
	}
	return err
}
