package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"quantscope/quant/checkpoint"
	"quantscope/quant/exchange"
	recipes "quantscope/quant/plan"
	"quantscope/quant/recipe"
	"quantscope/quant/topology"
	"quantscope/sessions"
	"quantscope/views"
)

// recipeFlags are those of recipe export and import.
type recipeFlags struct {
	recipe, format, out string
	force, json         bool
}

func newRecipe(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "recipe",
		Short: "Recipes in the words of other tools, out and in",
		Long: `recipe writes a recipe as another tool reads it, and reads what another tool has, over
the modules of a checkpoint. What is written was read back by that tool's own rules of
matching and gave the same assignment of schemes.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(fmt.Errorf("recipe %s: no such command (known: export, import, formats)", args[0]))
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error {
			return usage(errors.New("recipe takes a command: export, import, formats"))
		},
	}
	cmd.AddCommand(newRecipeExport(std), newRecipeImport(std), newRecipeFormats(std))
	return cmd
}

func formatNames() string {
	var names []string
	for _, f := range exchange.Formats() {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}

func (f *recipeFlags) bind(cmd *cobra.Command, what string) {
	fl := cmd.Flags()
	fl.StringVar(&f.format, "format", "", "format: "+formatNames())
	fl.StringVar(&f.out, "out", "", "file to write (default: standard output)")
	fl.BoolVar(&f.force, "force", false, "overwrite the file of --out")
	fl.BoolVar(&f.json, "json", false, "print one JSON document: "+what)
}

func newRecipeExport(std streams) *cobra.Command {
	f := recipeFlags{}
	cmd := &cobra.Command{
		Use:   "export CHECKPOINT --recipe RECIPE --format FORMAT",
		Short: "Write a recipe as another tool reads it",
		Long: `export resolves a recipe over a checkpoint and writes the assignment in another
tool's format. What that format cannot say is refused by name; what changes no module's
scheme (a method, activations) is noted on standard error.`,
		Example: `  quantscope recipe export demo --recipe mixed-nvfp4-fp8 --format llm-compressor --out recipe.yaml
  quantscope recipe export ./Qwen3-30B-A3B --recipe mine.yaml --format tensor-type-file --out types.txt`,
		Args: exactly(1, "recipe export takes one checkpoint: a folder, a file or demo"),
		RunE: func(cmd *cobra.Command, args []string) error { return exportRecipe(cmd, std, args[0], f) },
	}
	f.bind(cmd, "the text, notes and counts")
	cmd.Flags().StringVar(&f.recipe, "recipe", "", "recipe: a file, or built in: "+strings.Join(recipe.Builtins(), ", "))
	return cmd
}

func newRecipeImport(std streams) *cobra.Command {
	f := recipeFlags{}
	cmd := &cobra.Command{
		Use:   "import CHECKPOINT FILE --format FORMAT",
		Short: "Read another tool's recipe as one of quantscope",
		Long: `import reads another tool's file by that tool's rules of matching, over the modules of a
checkpoint, and writes the assignment as a recipe (docs/recipes.md). What is not understood
is an error with its place; what changes no module's scheme is noted on standard error.`,
		Example: `  quantscope recipe import ./Qwen3-30B-A3B recipe.yaml --format llm-compressor --out mine.yaml
  quantscope recipe import demo hf_quant_config.json --format modelopt`,
		Args: exactly(2, "recipe import takes a checkpoint and a file"),
		RunE: func(cmd *cobra.Command, args []string) error { return importRecipe(cmd, std, args[0], args[1], f) },
	}
	f.bind(cmd, "the recipe, notes and counts")
	return cmd
}

func newRecipeFormats(std streams) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "formats",
		Short: "List the formats that recipes are written in and read from",
		Args:  exactly(0, "recipe formats takes no argument"),
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return printJSON(std.out, struct {
					Formats []exchange.Format `json:"formats"`
				}{exchange.Formats()})
			}
			t := newReport(std.out)
			var rows [][]string
			for _, f := range exchange.Formats() {
				rows = append(rows, []string{f.Name, f.Tool, f.Help})
			}
			t.table([]string{"format", "tool", "what"}, rows)
			return t.err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}

// exchangeDocument is the --json output of recipe export and import.
type exchangeDocument struct {
	Checkpoint string           `json:"checkpoint"`
	Format     string           `json:"format"`
	File       string           `json:"file"` // as the tool calls it, or that was read
	Text       string           `json:"text"`
	Written    string           `json:"written,omitempty"`
	Schemes    []exchangeShare  `json:"schemes"`
	Kept       int              `json:"kept"` // matrices
	Notes      []exchange.Note  `json:"notes"`
	Modules    []exchangeModule `json:"modules"`
}

// exchangeShare is how many matrices a scheme stores.
type exchangeShare struct {
	Variant  string `json:"variant"`
	Matrices int    `json:"matrices"`
}

// exchangeModule is one matrix with what is asked for it.
type exchangeModule struct {
	Matrix string `json:"matrix"`
	Scheme string `json:"scheme"` // "" for the source's bytes
}

func (d *exchangeDocument) count(a *exchange.Assignment) {
	d.Schemes, d.Modules = []exchangeShare{}, []exchangeModule{}
	at := map[string]int{}
	for i, g := range a.Of {
		scheme := ""
		if g < 0 {
			d.Kept++
		} else {
			scheme = a.Groups[g].Scheme
			v := a.Groups[g].Variant()
			k, ok := at[v]
			if !ok {
				k = len(d.Schemes)
				at[v] = k
				d.Schemes = append(d.Schemes, exchangeShare{Variant: v})
			}
			d.Schemes[k].Matrices++
		}
		d.Modules = append(d.Modules, exchangeModule{a.Model.Matrices[i].Name, scheme})
	}
}

func exportRecipe(cmd *cobra.Command, std streams, path string, f recipeFlags) error {
	if f.recipe == "" {
		return usage(fmt.Errorf("recipe export needs --recipe: a file, or built in: %s", strings.Join(recipe.Builtins(), ", ")))
	}
	if err := f.check(); err != nil {
		return err
	}
	asked, err := sessions.OpenRecipe(f.recipe)
	switch {
	case errors.Is(err, sessions.ErrRecipe):
		return usage(fmt.Errorf("--recipe: %w", err))
	case err != nil:
		return badInput(err)
	}
	ck, m, err := openModel(path)
	if err != nil {
		return err
	}
	defer ck.Close()
	a, err := assignmentOf(ck, m, asked)
	if err != nil {
		return err
	}
	doc, err := exchange.Export(f.format, a)
	if err != nil {
		return exchangeError(err)
	}
	d := exchangeDocument{Checkpoint: path, Format: f.format, File: doc.Name, Text: string(doc.Data), Notes: doc.Notes}
	d.count(a)
	return f.finish(cmd, std, &d)
}

// assignmentOf plans a recipe, which must be without errors.
func assignmentOf(ck *checkpoint.Checkpoint, m *topology.Model, asked sessions.RecipeSource) (*exchange.Assignment, error) {
	var file *recipe.File
	var err error
	if asked.Builtin {
		file, err = recipe.Builtin(asked.Name, m)
	} else {
		file, err = recipe.ParseFile([]byte(asked.Text), asked.File, nil)
	}
	if err != nil {
		return nil, badInput(err)
	}
	p, err := recipes.New(ck, m, file, recipes.Options{})
	if err == nil {
		err = p.Err()
	}
	if err != nil {
		return nil, badInput(err)
	}
	return exchange.FromPlan(p, file, m)
}

func importRecipe(cmd *cobra.Command, std streams, path, from string, f recipeFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	if err := present(from); err != nil {
		return err
	}
	text, err := readForeign(from)
	if err != nil {
		return err
	}
	ck, m, err := openModel(path)
	if err != nil {
		return err
	}
	defer ck.Close()
	a, notes, err := exchange.Import(f.format, text, m)
	if err != nil {
		if errors.Is(err, exchange.ErrFormat) {
			return usage(err)
		}
		return badInput(fmt.Errorf("%s: %w", from, err))
	}
	file, err := a.Recipe()
	if err != nil {
		return badInput(err)
	}
	file.Name = strings.TrimSuffix(filepath.Base(from), filepath.Ext(from))
	file.Source = ck.Identity().String()
	encoded, err := file.Encode()
	if err != nil {
		return badInput(err)
	}
	d := exchangeDocument{Checkpoint: path, Format: f.format, File: from, Text: string(encoded), Notes: notes}
	d.count(a)
	return f.finish(cmd, std, &d)
}

// maxForeign is far above what lists of all modules of the largest models take.
const maxForeign = 256 << 20

// readForeign reads a file of another tool.
func readForeign(path string) ([]byte, error) {
	f, info, err := checkpoint.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size() > maxForeign {
		return nil, badInput(fmt.Errorf("%s: %d bytes, more than %d", path, info.Size(), maxForeign))
	}
	text, err := io.ReadAll(io.LimitReader(f, maxForeign))
	if err != nil {
		return nil, checkpoint.SystemError(path, err)
	}
	return text, nil
}

func (f *recipeFlags) check() error {
	switch {
	case f.format == "":
		return usage(fmt.Errorf("--format names whose words: %s", formatNames()))
	case !strings.Contains(", "+formatNames()+", ", ", "+f.format+", "):
		return usage(fmt.Errorf("format %q: %w (known: %s)", f.format, exchange.ErrFormat, formatNames()))
	case f.force && f.out == "":
		return usage(errors.New("--force goes with --out"))
	}
	return nil
}

// finish writes the text and says what goes with it.
func (f *recipeFlags) finish(cmd *cobra.Command, std streams, d *exchangeDocument) error {
	if d.Notes == nil {
		d.Notes = []exchange.Note{}
	}
	if f.out != "" {
		err := sessions.WriteFile(cmd.Context(), "", f.out, f.force, func(w io.Writer) error {
			_, err := io.WriteString(w, d.Text)
			return err
		})
		if errors.Is(err, fs.ErrExist) || errors.Is(err, os.ErrExist) {
			return usage(fmt.Errorf("%s is there already; --force overwrites it", f.out))
		}
		if err != nil {
			return err
		}
		d.Written = f.out
	}
	if f.json {
		return printJSON(std.out, d)
	}
	if f.out == "" {
		if _, err := io.WriteString(std.out, d.Text); err != nil {
			return err
		}
	}
	t := newReport(std.err)
	for _, s := range d.Schemes {
		t.line("%-24s %s", s.Variant, counted(s.Matrices, "matrix", "matrices"))
	}
	t.line("%-24s %s", "kept", counted(d.Kept, "matrix", "matrices"))
	for i, n := range d.Notes {
		const most = 20
		if i == most {
			t.line("note  … %d more: --json has all", len(d.Notes)-most)
			break
		}
		t.line("note  %s", views.Clean(strings.TrimSpace(n.Place+": "+n.Text)))
	}
	return t.err
}

// exchangeError gives an error its exit code.
func exchangeError(err error) error {
	if errors.Is(err, exchange.ErrFormat) {
		return usage(err)
	}
	return badInput(err)
}
