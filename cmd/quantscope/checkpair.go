package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"quantscope/analysis"
)

func newCheckPair(std streams) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check-pair REL COS",
		Short: "Can a published relative error and cosine belong together?",
		Long: `check-pair takes a relative l2 error ‖w−q‖/‖w‖ and a cosine as somebody printed
them and checks them against rel² = 1 + r² − 2·r·cos, which holds for any w and
q with r = ‖q‖/‖w‖; for a sound quantizer rel² ≈ 2(1−cos). The digits given say
how far each figure was rounded. Exit 1 when they cannot belong together.`,
		Example: "  quantscope check-pair 0.0951 0.99549",
		Args:    exactly(2, "check-pair takes two figures: REL and COS"),
		RunE: func(cmd *cobra.Command, args []string) error {
			rel, err := analysis.ParseFigure(args[0])
			if err != nil {
				return usage(fmt.Errorf("REL: %w", err))
			}
			cos, err := analysis.ParseFigure(args[1])
			if err != nil {
				return usage(fmt.Errorf("COS: %w", err))
			}
			pair, err := analysis.CheckPair(rel, cos)
			if err != nil {
				return usage(err)
			}
			if asJSON {
				err = printJSON(std.out, pair)
			} else {
				err = printPair(std, pair)
			}
			if err == nil && pair.Verdict != analysis.PairConsistent {
				return checkFailed(errSaid)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}

func printPair(std streams, p analysis.Pair) error {
	t := newReport(std.out)
	t.line("rel_l2 %g and cos %g: %s", p.RelL2, p.Cos, p.Verdict)
	t.line("  rel2            %.6g", p.Rel2)
	t.line("  2(1−cos)        %.6g   (rel_l2 %.4g)", p.Expected2, p.ExpectedL)
	t.line("  possible rel2   %.6g and up; %.6g where the error is uncorrelated with the source", p.Lower2, p.Upper2)
	if p.NormRatio != nil {
		t.line("  needs ‖q‖/‖w‖   %.5f", *p.NormRatio)
	} else {
		t.line("  needs ‖q‖/‖w‖   none makes it true")
	}
	if p.Hint != "" {
		t.line("  %s", p.Hint)
	}
	return t.err
}
