package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"quantscope/analysis/lint"
	"quantscope/analysis/lint/logs"
	"quantscope/analysis/lint/sarif"
	"quantscope/quant/checkpoint"
	"quantscope/quant/demo"
	"quantscope/quant/gguf"
	"quantscope/quant/recipe"
	"quantscope/quant/topology"
	"quantscope/views"
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

// lintFlags are the flags of lint.
type lintFlags struct {
	from, recipe, sarif, failOn string
	logs, ignore                []string
	most                        int
	json, rules, weights        bool
	reading                     readingFlags
}

func newLint(std streams) *cobra.Command {
	var f lintFlags
	cmd := &cobra.Command{
		Use:   "lint CHECKPOINT",
		Short: "Check a checkpoint for defects before it is served; exit 1 when there are",
		Example: `  quantscope lint ./Model-NVFP4
  quantscope lint ./Model-NVFP4 --from ./Model --log quantize.log
  quantscope lint model-Q4_K_M.gguf --log llama-quantize.log
  quantscope lint ./Model-NVFP4 --sarif lint.sarif --fail-on warning --ignore head-quantized
  quantscope lint --rules`,
		Args: func(_ *cobra.Command, args []string) error {
			if f.rules && len(args) == 0 {
				return nil
			}
			if len(args) != 1 {
				return usage(errors.New("lint takes one checkpoint: a folder, a file of safetensors or GGUF, or demo"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.rules {
				return printKinds(std, f.json)
			}
			return lintCheckpoint(cmd.Context(), std, args[0], f)
		},
	}
	var rules []string
	for _, r := range lint.Rules() {
		rules = append(rules, "  "+r.ID+": "+r.Help)
	}
	cmd.Long = `lint reads headers, scale tensors and the files beside the weights, never weights
(but with --weights), and checks:
` + strings.Join(rules, "\n") + `
  gguf: of a GGUF file, types by share of parameters, blocks, tokenizer, importance
Every finding has an id, which --ignore takes and docs/lint.md explains.`
	fl := cmd.Flags()
	fl.BoolVar(&f.json, "json", false, "print one JSON document")
	fl.StringVar(&f.sarif, "sarif", "", "write SARIF 2.1.0 to FILE, - for standard output")
	fl.StringVar(&f.from, "from", "", "the source checkpoint: tokenizer, template, side files, config and modules are held against it")
	fl.StringArrayVar(&f.logs, "log", nil, "a log of the tool that made the checkpoint, or of the server that loaded it; several may be given")
	fl.StringVar(&f.recipe, "recipe", "", "the recipe that was asked for: what is stored is held against it")
	fl.StringVar(&f.failOn, "fail-on", string(lint.Error), "exit 1 when there is a finding as severe as this: error, warning, note, never")
	fl.StringSliceVar(&f.ignore, "ignore", nil, "ids of findings to leave out, separated by commas")
	fl.IntVar(&f.most, "most", lint.DefaultMost, "findings of one kind that are listed, 0 for all")
	fl.BoolVar(&f.weights, "weights", false, "read plain weights too: NaN, infinity, tied copies")
	f.reading.bind(cmd)
	fl.BoolVar(&f.rules, "rules", false, "list the kinds of findings and end")
	return cmd
}

// check refuses flags that say nothing.
func (f *lintFlags) check() error {
	known := []string{string(lint.Error), string(lint.Warning), string(lint.Note), "never"}
	if !slices.Contains(known, f.failOn) {
		return usage(fmt.Errorf("--fail-on %q is none of %s", f.failOn, strings.Join(known, ", ")))
	}
	if err := lint.CheckIDs(f.ignore); err != nil {
		return usage(fmt.Errorf("--ignore: %w", err))
	}
	if f.most < 0 {
		return usage(fmt.Errorf("--most %d: 0 or more", f.most))
	}
	if f.json && f.sarif == "-" {
		return usage(errors.New("--json and --sarif - both write to standard output"))
	}
	return sarifPlace(f.sarif)
}

// input opens everything that is linted. close closes it.
func (f *lintFlags) input(ctx context.Context, path string) (in lint.Input, done func(), err error) {
	var closers []io.Closer
	done = func() {
		for _, c := range closers {
			_ = c.Close()
		}
	}
	fail := func(err error) (lint.Input, func(), error) {
		done()
		return in, func() {}, err
	}
	in.Ignore, in.Weights, in.Most = f.ignore, f.weights, f.most
	if in.Layout, err = f.reading.options(); err != nil {
		return fail(err)
	}
	if f.most == 0 {
		in.Most = -1
	}
	switch kind, err := lintKind(path); {
	case err != nil:
		return fail(err)
	case kind == kindGGUF:
		if in.GGUF, err = gguf.OpenWith(path, gguf.Options{Blocks: gguf.Blocks(in.Layout.GGUFBlocks)}); err != nil {
			return fail(err)
		}
		closers = append(closers, in.GGUF)
	case kind == kindTexts:
		in.Folder = path
	default:
		if in.Checkpoint, in.Model, err = openModel(path); err != nil {
			return fail(err)
		}
		closers = append(closers, in.Checkpoint)
	}
	if f.from != "" {
		if in.Checkpoint == nil {
			return fail(usage(errors.New("--from is for checkpoints of safetensors")))
		}
		if in.From, in.FromModel, err = openModel(f.from); err != nil {
			return fail(err)
		}
		closers = append(closers, in.From)
	}
	if f.recipe != "" {
		text, err := recipeText(f.recipe)
		if errors.Is(err, fs.ErrNotExist) && slices.Contains(recipe.Builtins(), f.recipe) {
			err = badInput(fmt.Errorf("%w; %s is built in, and plan SOURCE --recipe %s --write FILE makes a file of it", err, f.recipe, f.recipe))
		}
		if err != nil {
			return fail(err)
		}
		if in.Recipe, err = recipe.ParseFile(text, f.recipe, nil); err != nil {
			return fail(badInput(err))
		}
	}
	for _, name := range f.logs {
		if err := present(name); err != nil {
			return fail(err)
		}
		log, err := logs.Open(ctx, name)
		if err != nil {
			return fail(err)
		}
		in.Logs = append(in.Logs, log)
	}
	return in, done, nil
}

// Kinds of what is linted.
const (
	kindCheckpoint = iota
	kindGGUF
	kindTexts // a folder with a tokenizer and no weights
)

// lintKind tells a GGUF file by its first bytes, and a folder without weights by
// its files.
func lintKind(path string) (int, error) {
	if path == "demo" {
		return kindCheckpoint, nil
	}
	if err := present(path); err != nil {
		return 0, err
	}
	entries, err := os.ReadDir(path)
	if err != nil { // a file
		return fileKind(path)
	}
	texts := false
	for _, e := range entries {
		name := e.Name()
		for _, end := range []string{".safetensors", ".index.json", ".gguf", ".bin", ".pt", ".pth"} {
			if strings.HasSuffix(name, end) {
				return kindCheckpoint, nil
			}
		}
		texts = texts || name == "tokenizer.json" || name == "tokenizer_config.json" || name == "tokens.jsonl"
	}
	if texts {
		return kindTexts, nil
	}
	return kindCheckpoint, nil
}

func fileKind(path string) (int, error) {
	f, _, err := checkpoint.OpenRegular(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var magic [4]byte
	if _, err := io.ReadFull(f, magic[:]); err == nil && string(magic[:]) == "GGUF" || strings.HasSuffix(path, ".gguf") {
		return kindGGUF, nil
	}
	return kindCheckpoint, nil
}

func lintCheckpoint(ctx context.Context, std streams, path string, f lintFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	in, done, err := f.input(ctx, path)
	if err != nil {
		return err
	}
	defer done()
	rep, err := lint.Check(ctx, in)
	if err != nil {
		return err
	}
	failed := f.failOn != "never" && lint.FailedAt(rep.Findings, lint.Severity(f.failOn))
	if f.sarif != "" {
		if err := writeSARIF(std, path, in, rep, f, failed); err != nil {
			return err
		}
	}
	switch {
	case f.sarif == "-":
	case f.json:
		err = printJSON(std.out, lintDocument(path, f, in, rep, failed))
	default:
		err = printLint(std, path, rep)
	}
	if err == nil && failed {
		return checkFailed(errSaid)
	}
	return err
}

// writeSARIF writes the document, beside first, so that no half of one is left.
func writeSARIF(std streams, path string, in lint.Input, rep *lint.Report, f lintFlags, failed bool) error {
	run := sarif.Run{Tool: version, Findings: rep.Findings, Failed: failed}
	switch {
	case in.Checkpoint != nil:
		if dir, ok := in.Checkpoint.Folder(); ok {
			run.Folder = dir
		}
	case in.Folder != "":
		run.Folder = path
	}
	if run.Folder != "" {
		if abs, err := filepath.Abs(run.Folder); err == nil {
			run.Folder = abs
		}
	}
	var out bytes.Buffer
	if err := sarif.Write(&out, run); err != nil {
		return err
	}
	if f.sarif == "-" {
		_, err := std.out.Write(out.Bytes())
		return err
	}
	if err := writeWhole(f.sarif, out.Bytes()); err != nil {
		return environment(checkpoint.SystemError(f.sarif, err))
	}
	return nil
}

// printLint prints what a person reads.
func printLint(std streams, path string, rep *lint.Report) error {
	t := newReport(std.out)
	for i := range rep.Findings {
		f := &rep.Findings[i]
		t.line("%s  %s  %s", f.Severity, f.ID, views.Clean(strings.TrimSpace(strings.Join([]string{f.File, f.Tensor, f.Message}, " "))))
		t.line("         server: %s", views.Clean(f.Server))
		fix := "fix: " + f.Fix
		if f.Mend != "" {
			fix += " (quantscope mend: " + f.Mend + ")"
		}
		t.line("         %s", views.Clean(fix))
		if f.More > 0 {
			t.line("         %d more like it (--most 0 lists all)", f.More)
		}
	}
	if len(rep.Effective) > 0 {
		t.line("")
		var rows [][]string
		for _, s := range rep.Effective {
			mark := ""
			if s.Differs {
				mark = "differs, as " + s.First
			}
			rows = append(rows, []string{views.Clean(s.By), views.Clean(s.Requested), views.Clean(s.Effective), fmt.Sprint(s.Tensors), millions(s.Params), fmt.Sprintf("%.2f %%", 100*s.Share), views.Clean(mark)})
		}
		t.table([]string{"asked by", "requested", "effective", ">matrices", ">params", ">share", ""}, rows)
		t.line("")
	}
	t.line("%s: %s by %d rules over %s", views.Clean(path), severities(rep.Findings), rep.Rules, counted(rep.Tensors, "tensor", "tensors"))
	return t.err
}

// severities counts findings.
func severities(findings []lint.Finding) string {
	n, total := map[lint.Severity]int{}, 0
	for i := range findings {
		n[findings[i].Severity] += 1 + findings[i].More
		total += 1 + findings[i].More
	}
	var parts []string
	for _, s := range []lint.Severity{lint.Error, lint.Warning, lint.Note} {
		if n[s] > 0 {
			parts = append(parts, counted(n[s], string(s), string(s)+"s"))
		}
	}
	out := counted(total, "finding", "findings")
	if len(parts) > 0 {
		out += " (" + strings.Join(parts, ", ") + ")"
	}
	return out
}
