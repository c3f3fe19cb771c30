package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"quantscope/quant/demo"
	"quantscope/sessions"
)

// version is the program's version; sessions and receipts carry it.
const version = "0.1.0"

// defaultVariants are what the workbench measures when nothing is asked for.
const defaultVariants = "nvfp4,nvfp4+mse,nvfp4+mse_ge1"

func newRoot(std streams) *cobra.Command {
	run := runFlags{}
	screen := screenFlags{}
	var with string
	root := &cobra.Command{
		Use:   "quantscope [CHECKPOINT | SESSION]",
		Short: "A workbench for people who quantize language-model checkpoints",
		Long: `quantscope opens a checkpoint, quantizes it in the background and shows, live,
where it loses precision. CHECKPOINT is a folder or file of safetensors, or
"demo" for the embedded model; SESSION is a saved run (*.qscope). With nothing
named it opens the demo. Without a terminal it prints the same as plain text.`,
		Example: `  quantscope                      the embedded demo
  quantscope ./Qwen3-30B-A3B      a checkpoint on disk
  quantscope run.qscope           a saved session
  quantscope run.qscope --with other.qscope   two sessions of one source, compared`,
		Args:          oneSubject,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,

		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return emptyFlags(cmd) },

		SuggestionsMinimumDistance: 2,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"demo\tthe embedded model"}, cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			what := "demo"
			if len(args) == 1 {
				what = args[0]
			}
			for _, name := range []string{"variant", "recipe", "targets", "session", "threads", "mem"} {
				if cmd.Flags().Changed(name) {
					run.given = append(run.given, name)
				}
			}
			run.calib.note(cmd)
			run.recipe.note(cmd)
			run.given = append(run.given, run.calib.given...)
			if with != "" {
				return workbenchOfTwo(cmd.Context(), std, what, with, run, screen)
			}
			return workbench(cmd.Context(), std, what, run, screen)
		},
	}
	run.bind(root, defaultVariants)
	screen.bind(root)
	root.Flags().StringVar(&with, "with", "", "a second session of the same source: its variants stand beside the first one's")
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(
		newInspect(std), newQuantize(std), newReplay(std), newSessions(std), newCompare(std), newAnalyze(std),
		newLint(std), newCensus(std), newVerify(std), newPrice(std), newCheckPair(std), newSynth(std), newBench(std), newBakeoff(std), newPlan(std), newMeasure(std), newCorpus(std), newCalibrate(std), newMend(std), newRecipe(std), newConvert(std), newServe(std), newGates(std), newTier(std), newBias(std),
	)
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Args = cobra.ArbitraryArgs
			c.RunE = func(*cobra.Command, []string) error {
				return usage(errors.New("completion takes a shell: bash, fish, powershell or zsh"))
			}
		}
	}
	return root
}

// workbench opens a checkpoint or a session on screen, or as plain text where
// there is no terminal.
func workbench(ctx context.Context, std streams, what string, run runFlags, screen screenFlags) error {
	if err := screen.check(); err != nil {
		return err
	}
	saved := false
	if what != "demo" {
		err := present(what)
		if err != nil {
			return err
		}
		if saved, err = sessions.IsSession(what); err != nil {
			return badInput(err)
		}
	}
	if saved {
		if err := run.checkSaved(what); err != nil {
			return err
		}
	}
	plain := run.json || !std.terminal // one document is asked for, or nobody sits here
	switch {
	case saved && plain:
		return printSession(std, what, run.json)
	case saved:
		return showSaved(ctx, std, what, func() (sessions.Feed, error) { return sessions.OpenSession(what) }, screen)
	case plain:
		if !run.json {
			run.notice = "no interactive terminal: measuring, then a plain report"
		}
		return quantize(ctx, std, what, run)
	}
	o, err := run.options(what)
	if err != nil {
		return err
	}
	feed, err := sessions.Start(ctx, o)
	if err != nil {
		return recipeError(err)
	}
	return show(ctx, std, feed, screen)
}

// present refuses a path where nothing is, in the words that a person expects.
func present(path string) error {
	_, err := os.Stat(path)
	var cause *os.PathError
	switch {
	case errors.As(err, &cause) && errors.Is(err, fs.ErrPermission):
		return environment(fmt.Errorf("%s: %w", path, cause.Err))
	case errors.As(err, &cause) && path == demo.Label && errors.Is(err, fs.ErrNotExist): // checkpoints are looked for elsewhere
		return badInput(fmt.Errorf("%s: %w; the embedded model is a checkpoint, of which quantize demo --session FILE makes a session", path, cause.Err))
	case errors.As(err, &cause):
		return badInput(fmt.Errorf("%s: %w", path, cause.Err))
	case err != nil:
		return badInput(fmt.Errorf("%s: %w", path, err))
	}
	return nil
}
