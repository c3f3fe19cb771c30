package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"quantscope/analysis/corpus"
	"quantscope/quant/checkpoint"
)

func newCorpus(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "corpus",
		Short: "Make, check and compare texts as token ids",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(fmt.Errorf("corpus knows no %q: build, info, check", args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCorpusBuild(std), newCorpusInfo(std), newCorpusCheck(std))
	return cmd
}

// corpusError gives an error about a corpus its exit code: the file is at fault,
// unless the system is.
func corpusError(err error) error {
	var coded *exitError
	switch {
	case err == nil, errors.As(err, &coded), errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, fs.ErrPermission):
		return environment(err)
	}
	return badInput(err)
}

func newCorpusBuild(std streams) *cobra.Command {
	var o corpus.Options
	var model, out, name string
	var force, asJSON bool
	cmd := &cobra.Command{
		Use:   "build TEXT…",
		Short: "Encode texts and cut them into chunks, as a file that says how",
		Long: `build encodes each TEXT (a UTF-8 file, or .jsonl with "text" on each line) with the
tokenizer of a model, puts the ids one after the other, cuts chunks and writes
them with their SHA-256, the tokenizer's identity and the rules. A begin token:
  each      every chunk begins with one (the default where the tokenizer adds one)
  none      no chunk has one (the default where it adds none)
  text      one stands before every text
  replace   the first token of every chunk is replaced by one, as llama-perplexity does
            where the tokenizer adds one`,
		Example: `  quantscope corpus build wiki.txt --tokenizer ./Qwen3-0.6B --chunk 512 --out wiki.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(errors.New("corpus build takes one text or more"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case model == "":
				return usage(errors.New("--tokenizer is wanted: the checkpoint, GGUF file or tokenizer.json whose ids the corpus gets"))
			case out == "":
				return usage(errors.New("--out is wanted: the file to write"))
			case o.Chunk < 2:
				return usage(fmt.Errorf("--chunk %d: a chunk has 2 tokens or more", o.Chunk))
			case o.Chunks < 0 || o.Stride < 0:
				return usage(errors.New("--chunks and --stride are 0 or more"))
			}
			if err := o.CheckRule(); err != nil {
				return usage(err)
			}
			if _, err := os.Lstat(out); err == nil && !force {
				return usage(fmt.Errorf("%s exists; --force overwrites it", out))
			}
			if name == "" {
				name = strings.TrimSuffix(filepath.Base(out), filepath.Ext(out))
			}
			return corpusError(buildCorpus(cmd.Context(), std, args, model, name, out, o, asJSON))
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&model, "tokenizer", "", "whose tokenizer: a checkpoint, a GGUF file, a tokenizer.json or demo")
	fl.IntVar(&o.Chunk, "chunk", corpus.DefaultChunk, "tokens of a chunk, begin token included")
	fl.IntVar(&o.Chunks, "chunks", 0, "at most so many chunks (0: all)")
	fl.IntVar(&o.Stride, "stride", 0, "tokens from the start of one chunk to that of the next (0: no token in two chunks)")
	fl.StringVar(&o.BOS, "bos", "", "rule of the begin token: each, none, text, replace (default: the tokenizer's own)")
	fl.BoolVar(&o.Calib, "calib", false, "the corpus is for calibration: measuring on its text is refused")
	fl.StringVar(&name, "name", "", "what tables call it (default: the name of the file)")
	fl.StringVar(&out, "out", "", "file to write")
	fl.BoolVar(&force, "force", false, "overwrite the file")
	fl.BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}

func buildCorpus(ctx context.Context, std streams, texts []string, model, name, out string, o corpus.Options, asJSON bool) error {
	tok, err := corpus.OpenTokenizer(model)
	if err != nil {
		return err
	}
	docs, err := corpus.Documents(texts)
	if err != nil {
		return err
	}
	o.Tokenizer = tok
	c, err := corpus.Build(ctx, name, strings.Join(texts, ", "), docs, o)
	if err != nil {
		return err
	}
	data, err := c.Encode()
	if err != nil {
		return err
	}
	if err := checkpoint.AtomicWriteFile(out, data); err != nil {
		return environment(err)
	}
	return printCorpus(std, c, out, tok.Notes(), asJSON)
}

func newCorpusInfo(std streams) *cobra.Command {
	var model string
	var o corpus.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "info CORPUS",
		Short: "Say what a corpus holds, and verify what its file says of itself",
		Args:  exactly(1, "corpus info takes one corpus: a file, or the name of an embedded one"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			var notes []string
			if model != "" {
				if o.Tokenizer, err = corpus.OpenTokenizer(model); err != nil {
					return corpusError(err)
				}
				notes = o.Tokenizer.Notes()
			} else if corpus.Embedded(args[0]) {
				if o.Tokenizer, err = corpus.DemoTokenizer(); err != nil {
					return err
				}
			}
			all, err := corpus.Load(cmd.Context(), args[0], o)
			if err != nil {
				return corpusError(err)
			}
			failed := false
			for _, c := range all {
				if err := printCorpus(std, c, args[0], notes, asJSON); err != nil {
					return err
				}
				failed = failed || c.Incomparable() != ""
			}
			if failed {
				return checkFailed(errSaid)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&model, "tokenizer", "", "whose tokenizer the ids are held against, or make ids of a text: a checkpoint, a GGUF file, a tokenizer.json or demo")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document a corpus")
	return cmd
}
