package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"quantscope/quant/export"
	"quantscope/quant/method"
	recipes "quantscope/quant/plan"
	"quantscope/quant/recipe"
	"quantscope/quant/topology"
	"quantscope/sessions"
)

// planFlags are the flags of plan.
type planFlags struct {
	recipe, variant, targets string
	bandwidth, kvTokens      string
	write                    string
	force, list, json        bool
	accept                   []string
	options                  recipes.Options
}

func newPlan(std streams) *cobra.Command {
	f := planFlags{}
	cmd := &cobra.Command{
		Use:   "plan CHECKPOINT",
		Short: "Prove a recipe before anything is spent: targets, sizes, memory; exit 1 when it is wrong",
		Long: `plan reads headers and says what a recipe would do: which matrices each pattern
matches, which are in two groups or in none, whether all routed experts are
taken, what is about to be quantized that rarely is, sizes in files and in the
memory of one device, and what a decoded token reads. No weight is read.

The recipe is a file (docs/recipes.md), a built-in one (--list), or one variant
over --targets, as quantize takes them. Findings of severity error make it exit
1; --accept ID makes one of them a warning.

CHECKPOINT is a folder or a file of safetensors in floating point, or demo.
GGUF files are not planned for: inspect shows their types.`,
		Example: `  quantscope plan demo --recipe mixed-nvfp4-fp8 --layout compressed-tensors
  quantscope plan ./Qwen3-30B-A3B --recipe moe-nvfp4 --ranks 2 --kv-tokens 65536 --kv-format fp8 --bandwidth 1.8TB/s
  quantscope plan ./GLM-4.5-Air --variant nvfp4+mse --targets '*.experts.*' --write air.yaml
  quantscope plan --list`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.list {
				return exactly(0, "plan --list takes no checkpoint")(cmd, args)
			}
			return exactly(1, "plan takes one checkpoint: a folder, a file or demo")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.list {
				return listRecipes(std, f.json)
			}
			return planCheckpoint(cmd, std, args[0], f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.recipe, "recipe", "", "recipe: a file, or built in: "+strings.Join(recipe.Builtins(), ", "))
	fl.StringVar(&f.variant, "variant", "", "in place of a recipe: one variant, such as nvfp4+mse")
	fl.StringVar(&f.targets, "targets", "", "with --variant: matrices to quantize, GLOB or re:REGEXP, separated by commas (default: routed experts, else attention and MLP)")
	fl.StringVar(&f.options.Layout, "layout", "", "layout that will be written, which sizes then are of: "+strings.Join(export.Layouts(), ", "))
	fl.IntVar(&f.options.Ranks, "ranks", 1, "devices of tensor parallelism")
	fl.StringVar(&f.kvTokens, "kv-tokens", "", "tokens whose keys and values are kept, of all sequences together, such as 65536 or 64k")
	fl.StringVar(&f.options.KVFormat, "kv-format", "bf16", "of keys and values: bf16, f16, fp8")
	fl.StringVar(&f.bandwidth, "bandwidth", "", "memory bandwidth of a device, such as 1.8TB/s, for the ceiling of decoding")
	fl.StringVar(&f.options.Loader, "loader", "", "class that a server loads it as (default: the config's); all for everything that is stored")
	fl.StringSliceVar(&f.accept, "accept", nil, "ids of findings that are no errors here")
	fl.StringVar(&f.write, "write", "", "write the recipe to a file, with the checkpoint's identity; comments of a recipe file stay")
	fl.BoolVar(&f.force, "force", false, "overwrite the file of --write")
	fl.BoolVar(&f.list, "list", false, "list the built-in recipes and what they follow")
	fl.BoolVar(&f.json, "json", false, "print one JSON document")
	_ = cmd.RegisterFlagCompletionFunc("recipe", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return recipe.Builtins(), cobra.ShellCompDirectiveDefault
	})
	return cmd
}

// planDocument is the --json output of plan.
type planDocument struct {
	*recipes.Plan
	OK      bool   `json:"ok"`
	Written string `json:"written,omitempty"` // file of --write
}

func planCheckpoint(cmd *cobra.Command, std streams, path string, f planFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	var asked sessions.RecipeSource
	if f.recipe != "" {
		var err error
		asked, err = sessions.OpenRecipe(f.recipe)
		switch {
		case errors.Is(err, sessions.ErrRecipe):
			return usage(fmt.Errorf("--recipe: %w", err))
		case err != nil:
			return recipeError(err)
		}
	}
	if strings.HasSuffix(strings.ToLower(path), ".gguf") {
		return badInput(fmt.Errorf("%s: plan is for checkpoints of safetensors in floating point, and this is GGUF: inspect shows its types; plan the checkpoint that it was made from", path))
	}
	c, m, err := openModel(path)
	if err != nil {
		return err
	}
	defer c.Close()
	file, err := f.file(m, asked)
	if err != nil {
		return err
	}
	p, err := recipes.New(c, m, file, f.options)
	if err != nil {
		return err
	}
	doc := planDocument{Plan: p, OK: p.Err() == nil}
	if f.write != "" {
		if err := f.writeRecipe(cmd, file, asked, p.Identity); err != nil {
			return err
		}
		doc.Written = f.write
	}
	if f.json {
		err = printJSON(std.out, doc)
	} else {
		err = printPlan(std, doc, f)
	}
	if err == nil && !doc.OK {
		err = checkFailed(p.Err())
	}
	return err
}

// check checks the flags and completes the options.
func (f *planFlags) check() error {
	switch {
	case f.recipe == "" && f.variant == "":
		return usage(fmt.Errorf("plan needs --recipe (a file, or built in: %s), or --variant", strings.Join(recipe.Builtins(), ", ")))
	case f.recipe != "" && f.variant != "":
		return usage(errors.New("--recipe and --variant exclude each other: a recipe says how its groups are stored"))
	case f.targets != "" && f.variant == "":
		return usage(errors.New("--targets goes with --variant: a recipe names its own"))
	case f.force && f.write == "":
		return usage(errors.New("--force goes with --write"))
	case f.options.Ranks < 1:
		return usage(fmt.Errorf("--ranks %d: at least one is needed", f.options.Ranks))
	}
	f.options.Accept = f.accept
	if f.kvTokens != "" {
		n, err := parseTokens(f.kvTokens)
		if err != nil {
			return usage(fmt.Errorf("--kv-tokens: %w", err))
		}
		f.options.KVTokens = n
	}
	if f.bandwidth != "" {
		n, err := parseBytes(strings.TrimSuffix(f.bandwidth, "/s"))
		if err != nil {
			return usage(fmt.Errorf("--bandwidth %q is none such as 1.8TB/s or 900GB/s", f.bandwidth))
		}
		f.options.Bandwidth = float64(n)
	}
	return nil
}

// parseTokens reads a count: 65536, 64k (thousands), 64Ki (of 1024), 1M, 1Mi.
func parseTokens(s string) (int64, error) {
	n, err := parseBytes(strings.Replace(s, "k", "K", 1) + "B")
	if err != nil {
		return 0, fmt.Errorf("%q is not a count such as 65536, 64k or 64Ki", s)
	}
	return n, nil
}

// file is the recipe that is planned.
func (f *planFlags) file(m *topology.Model, asked sessions.RecipeSource) (*recipe.File, error) {
	switch {
	case f.variant != "":
		v, err := method.Parse(f.variant)
		if err != nil {
			return nil, usage(err)
		}
		methods := v.Methods
		if v.Name == v.Scheme {
			methods = nil
		}
		return recipe.FromTargets(m, f.targets, v.Scheme, methods)
	case asked.Builtin:
		return recipe.Builtin(asked.Name, m)
	}
	file, err := recipe.ParseFile([]byte(asked.Text), asked.File, nil)
	if err != nil {
		return nil, recipeError(err)
	}
	if file.Name == "" {
		file.Name = asked.Name
	}
	return file, nil
}

// writeRecipe writes what was planned: whole or not at all, and over another file
// only with --force.
func (f *planFlags) writeRecipe(cmd *cobra.Command, file *recipe.File, asked sessions.RecipeSource, identity string) error {
	var text []byte
	var err error
	if asked.Text != "" {
		text, err = recipe.WithSource([]byte(asked.Text), identity)
	} else {
		written := *file
		written.Source = identity
		text, err = written.Encode()
	}
	if err != nil {
		return err
	}
	err = sessions.WriteFile(cmd.Context(), "", f.write, f.force, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
	if errors.Is(err, fs.ErrExist) {
		return usage(fmt.Errorf("%s is there already; --force overwrites it", f.write))
	}
	return err
}

// listRecipes prints what is built in.
func listRecipes(std streams, asJSON bool) error {
	table := recipe.BuiltinTable()
	if asJSON {
		return printJSON(std.out, struct {
			Recipes  []recipe.BuiltinInfo `json:"recipes"`
			Findings []recipes.Kind       `json:"findings"`
		}{table, recipes.Kinds()})
	}
	t := newReport(std.out)
	for _, b := range table {
		t.line("%s", b.Name)
		t.line("  %s", b.Summary)
		for _, url := range strings.Fields(b.Origin) {
			t.line("  follows %s", url)
		}
	}
	return t.err
}
