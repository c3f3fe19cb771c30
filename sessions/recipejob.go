package sessions

import (
	"fmt"
	"slices"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/export"
	"quantscope/quant/method"
	recipes "quantscope/quant/plan"
	"quantscope/quant/recipe"
	"quantscope/quant/topology"
)

// resolvedRecipe is a recipe with its plan over a checkpoint.
type resolvedRecipe struct {
	run      RecipeRun // without Variant and Of
	variants []method.Variant
	of       map[string]int // group by the name of a matrix
}

// resolve plans the recipes of the options. One whose plan has errors is refused
// before any weight is read.
func (o *Options) resolve(ck *checkpoint.Checkpoint, model *topology.Model) ([]*resolvedRecipe, error) {
	var out []*resolvedRecipe
	for i := range o.Recipes {
		r, err := o.resolve1(ck, model, &o.Recipes[i])
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out, func(x *resolvedRecipe) bool { return x.run.Name == r.run.Name }) {
			return nil, &RecipeError{r.run.Name, fmt.Errorf("two recipes have this name")}
		}
		out = append(out, r)
	}
	return out, nil
}

func (o *Options) resolve1(ck *checkpoint.Checkpoint, model *topology.Model, src *RecipeSource) (*resolvedRecipe, error) {
	file, text, err := src.parse(model)
	if err != nil {
		return nil, err
	}
	layout := ""
	if o.Export != nil && !src.known {
		layout = o.Export.Layout
	}
	plan, err := recipes.New(ck, model, file, recipes.Options{Layout: layout})
	if err != nil {
		return nil, err
	}
	if err := plan.Err(); err != nil {
		return nil, &RecipeError{src.Name, err}
	}
	r := &resolvedRecipe{
		run: RecipeRun{Plan: plan, Name: src.Name, Text: text, SHA256: sumOf(text)},
		of:  make(map[string]int, len(plan.Selection)),
	}
	for g := range plan.Groups {
		name := plan.Groups[g].Variant
		v, err := o.groupVariant(src, g, name)
		if err != nil {
			return nil, err
		}
		if v.Calibrated() {
			return nil, &RecipeError{src.Name, fmt.Errorf("group %d: %s is calibrated, and groups of a recipe are not: measure it as a variant of its own", g+1, name)}
		}
		r.variants = append(r.variants, v)
		r.run.Schemes = append(r.run.Schemes, v.Name)
		how := variantOf(v)
		how.ID = g
		r.run.Groups = append(r.run.Groups, how)
	}
	for i := range plan.Selection {
		r.of[plan.Selection[i].Name] = plan.Of[i]
	}
	return r, nil
}

// groupVariant is the variant of a group under the convention that the session made
// it by, or that of the options.
func (o *Options) groupVariant(src *RecipeSource, g int, name string) (method.Variant, error) {
	if g >= len(src.conventions) {
		return o.variant(name)
	}
	v, err := method.Parse(name)
	if err != nil {
		return v, err
	}
	c, err := kernels.ConventionByName(src.conventions[g])
	if err != nil {
		return v, err
	}
	return v.WithConvention(c)
}

// targets are the matrices of a session: what a pattern selects, or what the recipes
// store. Recipes that store others than the pattern selects are refused by name.
func targets(model *topology.Model, pattern string, resolved []*resolvedRecipe) (recipe.Selection, error) {
	if len(resolved) == 0 {
		return recipe.Select(model, pattern)
	}
	if strings.TrimSpace(pattern) == "" {
		var sel recipe.Selection
		var names []string
		seen := map[string]bool{}
		for _, r := range resolved {
			names = append(names, RecipePrefix+r.run.Name)
			for _, m := range r.run.Plan.Selection {
				if !seen[m.Name] {
					seen[m.Name] = true
					sel.Matrices = append(sel.Matrices, m)
				}
			}
		}
		sel.Description = strings.Join(names, " + ")
		return sel, nil
	}
	sel, err := recipe.Select(model, pattern)
	if err != nil {
		return sel, err
	}
	selected := make(map[string]bool, len(sel.Matrices))
	for i := range sel.Matrices {
		selected[sel.Matrices[i].Name] = true
	}
	for _, r := range resolved {
		for i := range r.run.Plan.Selection {
			if name := r.run.Plan.Selection[i].Name; !selected[name] {
				return sel, &RecipeError{r.run.Name, fmt.Errorf("it stores %q, which is not among the targets %s", name, sel.Description)}
			}
		}
	}
	return sel, nil
}

// variantOf is a variant as sessions have it, without its ID.
func variantOf(v method.Variant) Variant {
	return Variant{
		Name: v.Name, Effective: v.Name, Scheme: v.Scheme, Convention: v.Spec.Convention.String(),
		BitsPerWeight: v.BitsPerWeight, Multipliers: v.Multipliers,
	}
}

// quantizer is the recipe over n of the matrices from one on.
func (r *resolvedRecipe) quantizer(whole *storedSource, first, n int, o Options) (*Quantizer, error) {
	run := r.run
	run.Of = make([]int, n)
	kinds := make([]string, len(whole.matrices))
	for i := range whole.matrices {
		g, ok := r.of[whole.matrices[i].Name]
		if !ok {
			g = -1
		} else {
			kinds[i] = r.run.Groups[g].Scheme + " " + r.run.Groups[g].Convention // as exports have it: whatever the method
		}
		if i >= first && i < first+n {
			run.Of[i-first] = g
		}
	}
	var shared *sharing
	if o.globals() == export.Shared {
		shared = newKindSharing(o.KernelSet, whole, first, kinds)
	}
	q := &Quantizer{Variant: r.variant(), recipe: &run}
	for _, v := range r.variants {
		is := variantOf(v)
		is.Name, is.Effective = q.Variant.Name, q.Variant.Name
		q.groups = append(q.groups, Quantizer{Variant: is, Codebook: v.NeedsMatrix(), Spec: &v.Spec, shared: shared})
	}
	return q, nil
}

// variant is the recipe as one variant: of one scheme where all its groups are.
func (r *resolvedRecipe) variant() Variant {
	name := RecipePrefix + r.run.Name
	v := Variant{Name: name, Effective: name}
	for i, g := range r.run.Groups {
		if i == 0 {
			v.Scheme, v.Convention, v.Multipliers = g.Scheme, g.Convention, g.Multipliers
		}
		if g.Scheme != v.Scheme {
			v.Scheme = SchemeMixed
		}
		if g.Convention != v.Convention {
			v.Convention = ""
		}
		if !slices.Equal(g.Multipliers, v.Multipliers) {
			v.Multipliers = nil
		}
	}
	var bytes, params int64
	for i, m := range r.run.Plan.Selection {
		bytes += r.variants[r.run.Plan.Of[i]].Bytes(m.Rows, m.Cols)
		params += int64(m.Rows) * int64(m.Cols)
	}
	if params > 0 {
		v.BitsPerWeight = 8 * float64(bytes) / float64(params)
	}
	return v
}

// parse makes a quantizer of a variant's name, that of a recipe included.
func (j *Job) parse(name string, o Options) (Quantizer, error) {
	if of, ok := strings.CutPrefix(name, RecipePrefix); ok {
		for _, q := range j.recipes {
			if q.recipe.Name == of {
				return *q, nil
			}
		}
		return Quantizer{}, fmt.Errorf("variant %s: %w: it is not among those that are given", name, ErrRecipe)
	}
	return parseVariant(name, o)
}

// pick limits the recipes to some of the tensors.
func (j *Job) pick(tensors []int) {
	for _, q := range j.recipes {
		run := *q.recipe
		run.Of = make([]int, len(tensors))
		for i, t := range tensors {
			run.Of[i] = q.recipe.Of[t]
		}
		q.recipe = &run
		for g := range q.groups {
			if s := q.groups[g].shared; s != nil {
				s.picks = tensors
			}
		}
	}
}

// as is the recipe as a variant of a session follows it.
func (r *RecipeRun) as(variant int) *RecipeRun {
	run := *r
	run.Variant = variant
	return &run
}

// checkRecipes compares the recipes that a session follows with those that it is to
// be gone on with.
func checkRecipes(path string, st *State, job *Job) error {
	for _, q := range job.recipes {
		was, is := st.recipeByName(q.recipe.Name), q.recipe
		if was == nil {
			continue
		}
		if was.SHA256 != is.SHA256 {
			return &SettingsError{path, "recipe " + is.Name, "sha256 " + was.SHA256, "sha256 " + is.SHA256}
		}
		if a, b := len(was.Groups), len(is.Groups); a != b {
			return &SettingsError{path, "number of groups of recipe " + is.Name, fmt.Sprint(a), fmt.Sprint(b)}
		}
		for g := range is.Groups {
			if a, b := definition(was.Groups[g]), definition(is.Groups[g]); a != b {
				return &SettingsError{path, fmt.Sprintf("definition of group %d of recipe %s", g+1, is.Name), a, b}
			}
		}
		if len(was.Of) == len(is.Of) {
			for t := range was.Of {
				if a, b := was.Of[t], is.Of[t]; a != b {
					return &SettingsError{path, fmt.Sprintf("group of tensor %q in recipe %s", st.Tensors[t].Name, is.Name), fmt.Sprint(a + 1), fmt.Sprint(b + 1)}
				}
			}
		}
	}
	return nil
}

// planMixed plans what a recipe wants written.
func planMixed(ck *checkpoint.Checkpoint, model *topology.Model, job *Job, resolved []*resolvedRecipe, o Options) (*exporting, error) {
	asked := o.asked()[0].Name
	i := slices.IndexFunc(resolved, func(r *resolvedRecipe) bool { return r.run.Name == asked })
	r := resolved[i]
	settings := export.Settings{Layout: o.Export.Layout, Globals: o.globals(), Recipe: export.Recipe{Name: r.run.Name, SHA256: r.run.SHA256}}
	plan, err := export.NewMixedPlan(ck, model, r.run.Plan.Selection, r.variants, r.run.Plan.Of, settings)
	if err != nil {
		return nil, err
	}
	at := make(map[string]int, len(r.run.Plan.Selection))
	for i := range r.run.Plan.Selection {
		at[r.run.Plan.Selection[i].Name] = i
	}
	x := &exporting{plan: plan, o: *o.Export, variant: RecipePrefix + asked, part: o.Part, matrices: make([]int, len(job.Tensors))}
	for t := range job.Tensors {
		x.matrices[t] = -1
		if m, ok := at[job.Tensors[t].Name]; ok {
			x.matrices[t] = m
		}
	}
	return x, nil
}

// keptError says that a tensor has no record since a recipe keeps it.
func keptError(session, variant, tensor string) error {
	return fmt.Errorf("sessions: %s: %s keeps tensor %q as the source has it: %w", session, variant, tensor, ErrNotMeasured)
}

// settingCompat is whose arithmetic a variant of a session was made by, as options
// say it. Groups of a recipe have their own.
func settingCompat(settings map[string]string, v Variant) string {
	if strings.HasPrefix(v.Name, RecipePrefix) {
		return ""
	}
	return v.convention()
}
