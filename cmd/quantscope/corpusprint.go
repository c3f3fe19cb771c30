package main

import (
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"quantscope/analysis/corpus"
)

// corpusDocument is a corpus as JSON.
type corpusDocument struct {
	Name      string           `json:"name"`
	Path      string           `json:"path"`
	SHA256    string           `json:"sha256"`
	Tokenizer string           `json:"tokenizer"`
	BOS       string           `json:"bos"`
	Begin     *int32           `json:"begin"`
	Chunking  string           `json:"chunking"`
	Chunks    int              `json:"chunks"`
	Tokens    int64            `json:"tokens"`
	Positions int64            `json:"positions"`
	LeftOver  int              `json:"left_over"`
	Calib     bool             `json:"calibration"`
	Texts     []corpus.Text    `json:"texts"`
	Findings  []corpus.Finding `json:"findings"`
	Notes     []string         `json:"notes"`
}

func printCorpus(std streams, c *corpus.Corpus, path string, notes []string, asJSON bool) error {
	if asJSON {
		d := corpusDocument{
			Name: c.Name, Path: path, SHA256: hex.EncodeToString(c.SHA256[:]), Tokenizer: c.Tokenizer, BOS: c.BOS, Chunking: c.Chunking,
			Chunks: len(c.Chunks), Tokens: c.Tokens(), Positions: c.Positions(), LeftOver: c.LeftOver, Calib: c.Calib,
			Texts: append([]corpus.Text{}, c.Texts...), Findings: append([]corpus.Finding{}, c.Findings...), Notes: append([]string{}, notes...),
		}
		if c.Begin >= 0 {
			d.Begin = &c.Begin
		}
		return printJSON(std.out, d)
	}
	t := newReport(std.out)
	t.line("%s: %d tokens, %d predictions", c.Name, c.Tokens(), c.Positions())
	t.line("  chunks     %s", c.Chunking)
	t.line("  sha256     %x", c.SHA256)
	if c.Tokenizer != "" {
		t.line("  tokenizer  %s", c.Tokenizer)
	} else {
		t.line("  tokenizer  not known: the file holds ids and does not say whose")
	}
	rule := map[string]string{
		corpus.BOSNone: "none", corpus.BOSEach: "the first token of every chunk", corpus.BOSText: "before every text",
		corpus.BOSReplace: "in place of the first token of every chunk", corpus.BOSAsIs: "as the ids have it; the file does not say",
	}[c.BOS]
	if c.Begin >= 0 && c.BOS != corpus.BOSNone {
		rule += fmt.Sprintf(", id %d", c.Begin)
	}
	t.line("  begin      %s", rule)
	if c.Calib {
		t.line("  for        calibration")
	}
	for _, x := range c.Texts {
		t.line("  text       %s, %d bytes, sha256 %.12s", x.Name, x.Bytes, x.SHA256)
	}
	for _, f := range c.Findings {
		t.line("  finding    %s: %s", f.ID, f.Message)
	}
	for _, n := range notes {
		t.line("  note       %s", n)
	}
	t.line("  file       %s", path)
	return t.err
}

// overlapDocument is what an evaluation corpus shares with the calibration.
type overlapDocument struct {
	Eval          string `json:"eval"`
	Calib         string `json:"calib"`
	Window        int    `json:"window"`
	Windows       int    `json:"windows"`
	Shared        int    `json:"shared"`
	Longest       int    `json:"longest"`
	WholeChunks   int    `json:"whole_chunks"`
	Every         uint64 `json:"one_in"`
	Dull          int    `json:"dull"`
	Short         int    `json:"short_chunks"`
	EvalChunk     int    `json:"eval_chunk"`
	EvalPosition  int    `json:"eval_position"`
	CalibChunk    int    `json:"calib_chunk"`
	CalibPosition int    `json:"calib_position"`
	Refused       bool   `json:"refused"`
	Message       string `json:"message"`
}

func newCorpusCheck(std streams) *cobra.Command {
	var model, calib string
	var o corpus.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check CORPUS… --calib CORPUS",
		Short: "Look for text that evaluation and calibration share; exit 1 where a passage is",
		Long: fmt.Sprintf(`check looks for %d tokens in a row that stand in an evaluation corpus and in the
calibration. Shared phrases are counted and told; a passage of %d tokens, a whole
chunk, or a fifth of the evaluation is refused.`, corpus.Window, corpus.Passage),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(errors.New("corpus check takes one evaluation corpus or more"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if calib == "" {
				return usage(errors.New("--calib is wanted: the corpus of the calibration"))
			}
			var err error
			if model != "" {
				if o.Tokenizer, err = corpus.OpenTokenizer(model); err != nil {
					return corpusError(err)
				}
			}
			own, err := corpus.DemoTokenizer()
			if err != nil {
				return err
			}
			var sides [2][]*corpus.Corpus
			for i, names := range [][]string{args, {calib}} {
				for _, name := range names {
					as := o
					if model == "" && corpus.Embedded(name) {
						as.Tokenizer, as.Chunk = own, 0
					}
					some, err := corpus.Load(cmd.Context(), name, as)
					if err != nil {
						return corpusError(err)
					}
					sides[i] = append(sides[i], some...)
				}
			}
			return checkCorpora(std, sides[0], sides[1], asJSON)
		},
	}
	cmd.Flags().StringVar(&calib, "calib", "", "corpus of the calibration")
	cmd.Flags().StringVar(&model, "tokenizer", "", "whose tokenizer makes ids of texts: a checkpoint, a GGUF file, a tokenizer.json or demo")
	cmd.Flags().IntVar(&o.Chunk, "chunk", 0, "tokens of a chunk of a text (0: 512)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}

func checkCorpora(std streams, evals, calibs []*corpus.Corpus, asJSON bool) error {
	docs := []overlapDocument{}
	refused := false
	t := newReport(std.out)
	for _, e := range evals {
		for _, c := range calibs {
			r, err := corpus.Overlap(e, c)
			if err != nil {
				return corpusError(err)
			}
			refused = refused || r.Refused()
			verdict := "good"
			if r.Refused() {
				verdict = "refused"
			}
			docs = append(docs, overlapDocument{
				r.Eval, r.Calib, corpus.Window, r.Windows, r.Shared, r.Longest, r.Whole, r.Every, r.Dull, r.Short,
				r.EvalChunk, r.EvalPosition, r.CalibChunk, r.CalibPosition, r.Refused(), r.String(),
			})
			if !asJSON {
				t.line("%-8s %s", verdict, r)
			}
		}
	}
	if asJSON {
		t.err = printJSON(std.out, struct {
			Overlaps []overlapDocument `json:"overlaps"`
			Refused  bool              `json:"refused"`
		}{docs, refused})
	}
	if t.err == nil && refused {
		return checkFailed(errSaid)
	}
	return t.err
}
