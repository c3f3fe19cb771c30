package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"quantscope/analysis/landscape"
	"quantscope/quant/method"
	"quantscope/quant/recipe"
	"quantscope/sessions"
)

// priceFlags are the flags of price.
type priceFlags struct {
	base, protect, by, budget, arms, objective string
	recipe, with                               string
	repeats                                    int
	seed                                       uint64
	force, json                                bool
}

func newPrice(std streams) *cobra.Command {
	var f priceFlags
	cmd := &cobra.Command{
		Use:   "price SESSION",
		Short: "What exemption lists would buy, and the best assignment within a budget",
		Long: `price follows lists of exempted tensors, worst first by several figures, from
none to all: the mean error against the size, beside controls at the same bytes
that know nothing of the errors. With --budget it assigns a variant, or the
source's weights, to every tensor so that the mean error is least, says how far
from the optimum that can be, and shows it beside controls of its own. All of it
comes from the session's records; no weight is read. --recipe writes the answer
as a recipe, --with-recipe prices one.`,
		Example: `  quantscope price run.qscope
  quantscope price run.qscope --budget 4.6bpw --recipe best.yaml
  quantscope price run.qscope --base nvfp4 --protect nvfp4+mse --by layer
  quantscope price run.qscope --with-recipe mine.yaml`,
		Args: exactly(1, "price takes one session file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := price(cmd.Context(), args[0], f)
			if err != nil {
				return err
			}
			if f.json {
				return printJSON(std.out, d)
			}
			return printPrice(std.out, d)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.base, "base", "", "variant of what is not exempted (default: the session's first)")
	fl.StringVar(&f.protect, "protect", sessions.SourceArm, "what exempted tensors are stored as: source, or a variant")
	fl.StringVar(&f.by, "by", "tensor", "what is decided on together: "+strings.Join(landscape.Granularities(), ", "))
	fl.StringVar(&f.budget, "budget", "", "size to stay within, over all targets: 4.6bpw, 12GiB, 3.4MB")
	fl.StringVar(&f.arms, "arms", "", "variants that may be assigned, separated by commas, source among them (default: all, and source)")
	fl.StringVar(&f.objective, "objective", "mean", "what --budget minimises: the mean of rel2 over tensors, or the squared error weighted by the weights (mean, weighted)")
	fl.StringVar(&f.recipe, "recipe", "", "file to write the answer to, as a recipe")
	fl.StringVar(&f.with, "with-recipe", "", "recipe to price by the session's records")
	fl.IntVar(&f.repeats, "repeats", landscape.UsualRepeats, "random controls")
	fl.Uint64Var(&f.seed, "seed", 0, "seed of the random controls")
	fl.BoolVar(&f.force, "force", false, "overwrite the file of --recipe")
	fl.BoolVar(&f.json, "json", false, "print one JSON document")
	return cmd
}

// priceDocument is the --json output of price.
type priceDocument struct {
	Session    string             `json:"session"`
	Checkpoint string             `json:"checkpoint"`
	Identity   string             `json:"identity"`
	Targets    string             `json:"targets"`
	Part       string             `json:"part,omitempty"`
	State      sessions.RunState  `json:"state"`
	Tensors    int                `json:"tensors"`
	Elements   int64              `json:"elements"`
	Done       int64              `json:"done"`
	Total      int64              `json:"total"`
	Pricing    *landscape.Pricing `json:"pricing"`
	Range      *priceRange        `json:"range"`
	Answer     *priceAnswer       `json:"answer,omitempty"`
	Recipe     *recipeWritten     `json:"recipe,omitempty"`
	WithRecipe *recipePriced      `json:"with_recipe,omitempty"`

	summary string
}

// priceRange is between which sizes a budget can be.
type priceRange struct {
	Least     int64   `json:"least"`
	Most      int64   `json:"most"`
	LeastBits float64 `json:"least_bits_per_weight"`
	MostBits  float64 `json:"most_bits_per_weight"`
}

type priceAnswer struct {
	landscape.Assignment
	Arms     []armCount        `json:"arms"`
	Controls []landscape.Curve `json:"controls"`
	Beats    bool              `json:"beats"`
	Sentence string            `json:"sentence"`
}

// armCount says how many tensors have an arm.
type armCount struct {
	Arm     string `json:"arm"`
	Tensors int    `json:"tensors"`
}

type recipeWritten struct {
	Path     string `json:"path"`
	Bytes    int64  `json:"bytes"`
	Groups   int    `json:"groups"`
	Patterns int    `json:"patterns"`
}

type recipePriced struct {
	Path string `json:"path"`
	Name string `json:"name"`
	landscape.RecipePrice
	Arms    []armCount   `json:"arms"`
	Notes   []string     `json:"notes"`
	AtBytes *priceAnswer `json:"best_at_bytes,omitempty"` // what the solver finds within the same bytes
}

// maxRepeats bounds the random controls: each is held until the last has come.
const maxRepeats = 10_000

// check refuses flags that do not go together.
func (f *priceFlags) check() error {
	switch {
	case f.recipe != "" && f.budget == "":
		return usage(errors.New("--recipe writes the answer to a budget, so it needs --budget"))
	case f.force && f.recipe == "":
		return usage(errors.New("--force goes with --recipe"))
	case f.repeats < 2:
		return usage(fmt.Errorf("--repeats %d: a spread takes two or more", f.repeats))
	case f.arms != "" && f.budget == "" && f.with == "":
		return usage(errors.New("--arms says what the answer to a budget may assign, so it needs --budget or --with-recipe"))
	case f.objective != "mean" && f.budget == "" && f.with == "":
		return usage(errors.New("--objective says what the answer to a budget minimises, so it needs --budget or --with-recipe"))
	case f.repeats > maxRepeats:
		return usage(fmt.Errorf("--repeats %d: at most %d; percentiles do not move any more", f.repeats, maxRepeats))
	}
	return nil
}

// price does what the flags ask for.
func price(ctx context.Context, path string, f priceFlags) (*priceDocument, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	by, err := landscape.ParseGranularity(f.by)
	if err != nil {
		return nil, usage(fmt.Errorf("--by: %w", err))
	}
	objective, err := landscape.ParseObjective(f.objective)
	if err != nil {
		return nil, usage(fmt.Errorf("--objective: %w", err))
	}
	var asked *recipe.File // read before anything else takes time
	if f.with != "" {
		if asked, err = readRecipe(f.with); err != nil {
			return nil, err
		}
	}
	if err := present(path); err != nil {
		return nil, err
	}
	st, err := savedState(path)
	if err != nil {
		return nil, err
	}
	if len(st.Variants) == 0 || len(st.Tensors) == 0 {
		return nil, badInput(fmt.Errorf("%s: holds no variant that was measured, so there is nothing to price", path))
	}
	t := st.Table()
	d := &priceDocument{
		Session: path, Checkpoint: st.Meta.SourcePath, Identity: st.Meta.SourceIdentity, Targets: st.Meta.Targets, Part: st.Meta.Part.String(),
		State: st.Progress.State, Tensors: len(t.Items), Done: st.Progress.Done, Total: st.Progress.Total, summary: st.Meta.Summary,
	}
	o := landscape.PriceOptions{By: by, Repeats: f.repeats, Seed: f.seed}
	if o.Base, err = armOf(t, path, "--base", cmpOr(f.base, t.Arms[0].Name)); err != nil {
		return nil, err
	}
	if o.Protect, err = armOf(t, path, "--protect", f.protect); err != nil {
		return nil, err
	}
	if o.Base == o.Protect {
		return nil, usage(fmt.Errorf("--base and --protect are both %s: an exemption would change nothing", t.Arms[o.Base].Name))
	}
	var arms []int
	if f.arms != "" {
		for name := range strings.SplitSeq(f.arms, ",") {
			a, err := armOf(t, path, "--arms", strings.TrimSpace(name))
			if err != nil {
				return nil, err
			}
			arms = append(arms, a)
		}
	}
	if d.Pricing, err = landscape.Price(ctx, t, o); err != nil {
		return nil, priceError(path, err)
	}
	s, err := landscape.NewSolverWith(t, landscape.SolverOptions{Arms: arms, By: by, Objective: objective})
	if err != nil {
		return nil, priceError(path, err)
	}
	d.Elements = s.Elements()
	least, most := s.Range()
	d.Range = &priceRange{least, most, bitsOf(least, d.Elements), bitsOf(most, d.Elements)}
	if f.budget != "" {
		budget, err := landscape.ParseBudget(f.budget, d.Elements)
		if err != nil {
			return nil, usage(fmt.Errorf("--budget: %w", err))
		}
		if d.Answer, err = answer(s, t, budget, f); err != nil {
			return nil, err
		}
	}
	if asked != nil {
		if d.WithRecipe, err = priceRecipe(s, t, st, asked, f); err != nil {
			return nil, err
		}
	}
	if f.recipe != "" {
		if d.Recipe, err = writeRecipe(ctx, t, st, path, d.Answer, f); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func cmpOr(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

func bitsOf(bytes, elements int64) float64 { return 8 * float64(bytes) / float64(max(elements, 1)) }

// priceError says of a table without figures that the session is at fault.
func priceError(path string, err error) error {
	if errors.Is(err, landscape.ErrNoFigures) {
		return badInput(fmt.Errorf("%s: %w", path, err))
	}
	return err
}

// armOf finds an arm by the name of a variant, in any of its forms.
func armOf(t *landscape.Table, path, flag, name string) (int, error) {
	if a := t.Arm(canonicalVariant(name)); a >= 0 {
		return a, nil
	}
	var known []string
	for _, a := range t.Arms {
		known = append(known, a.Name)
	}
	return 0, usage(fmt.Errorf("%s %q is not in %s (it has: %s)", flag, name, path, strings.Join(known, ", ")))
}

// canonicalVariant is a variant's name as sessions have it; one that is not
// known stays as it is.
func canonicalVariant(name string) string {
	if v, err := method.Parse(name); err == nil {
		return v.Name
	}
	return name
}

// answer solves a budget and sets the answer beside its controls.
func answer(s *landscape.Solver, t *landscape.Table, budget int64, f priceFlags) (*priceAnswer, error) {
	a, err := s.Solve(budget)
	if err != nil {
		return nil, usage(err)
	}
	out := &priceAnswer{Assignment: a, Arms: armCounts(t, a.Counts), Controls: s.Controls(a, f.repeats, f.seed)}
	out.Sentence, out.Beats = landscape.Beats(a, out.Controls)
	return out, nil
}

func armCounts(t *landscape.Table, counts []int) []armCount {
	out := []armCount{}
	for k, n := range counts {
		if n > 0 {
			out = append(out, armCount{t.Arms[k].Name, n})
		}
	}
	return out
}
