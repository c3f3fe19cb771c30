package verify

import (
	"slices"

	"quantscope/kernels"
	"quantscope/quant/layout"
	"quantscope/quant/method"
)

// Recipes is a Session whose variants may follow recipes. Its methods may be called
// from any goroutine.
type Recipes interface {
	Session
	// Recipe is the recipe that a variant follows, by its name and its text's SHA-256;
	// ok is false for a variant that follows none.
	Recipe(variant string) (name, sha256 string, ok bool)
	// How is the scheme with its methods by which a variant made a matrix; ok is false
	// where it keeps the source's bytes, or the session does not have the matrix.
	How(variant, matrix string) (how string, ok bool)
}

// RecipeDiffers is the problem of an export whose receipt names another recipe, or
// another group of a matrix, than the session has.
const RecipeDiffers = "recipe-differs"

// Group is the modules of an export that its receipt says to be made alike.
type Group struct {
	Variant    string `json:"variant"`
	Convention string `json:"convention"`
	Modules    int    `json:"modules"`
	Reproduced int    `json:"reproduced"` // made again, equal bit for bit
}

// statement is what is said of how modules were made.
type statement struct {
	variant    method.Variant // its Name is "" where nothing is said
	from       string
	convention string // "" where it is not said
}

// mixture says whether the receipt is a recipe's, or tells several ways, and nobody
// says another one.
func (r *run) mixture() bool {
	is := &r.layout.Receipt
	return (len(is.Groups) > 0 || is.Recipe != "") && (r.Variant == "" || r.Variant == is.Variant)
}

// receiptOf is what the receipt of a mixture says of a module. A recipe whose groups
// are all one variant has no groups in it.
func (r *run) receiptOf(module string) (layout.Receipt, bool) {
	is, ok := r.layout.Receipt.Of(module)
	if len(r.layout.Receipt.Groups) == 0 && len(kernels.Methods(is.Format)) > 0 {
		is.Variant = variantOf(kernels.Spec{Format: is.Format, Method: is.Method})
	}
	return is, ok
}

// assign gives every module its family: modules that are stored alike, and by the
// receipt of a mixture were made alike. What the receipt says against the tensors is
// a problem, and such modules are then held against what makes them.
func (r *run) assign() map[string]statement {
	said := map[string]statement{}
	mixture := r.mixture()
	if mixture {
		r.rep.Recipe, r.rep.RecipeSHA256 = r.layout.Receipt.Recipe, r.layout.Receipt.RecipeSHA256
	}
	unknown := map[string]bool{}
	for i := range r.jobs {
		j := &r.jobs[i]
		if j.module == nil {
			continue
		}
		j.family = family(j.module)
		if !mixture {
			continue
		}
		rec, ok := r.receiptOf(j.module.Name)
		switch {
		case !ok:
			r.problem(layout.Contradicts, r.layout.File, j.out.Name, "is quantized, and none of the groups of the receipt has it, or several have")
			continue
		case !fits(rec.Format, j.module):
			r.problem(layout.Contradicts, r.layout.File, j.out.Name, "is stored as %s, and the receipt says that it was made as %s", j.module.Spec.Format, rec.Variant)
			continue
		}
		v, err := method.Parse(rec.Variant)
		if err != nil || v.Scheme != rec.Format {
			if !unknown[rec.Variant] {
				unknown[rec.Variant] = true
				r.note("the receipt names the variant %q, which is not known here as one of %s", rec.Variant, rec.Format)
			}
			continue
		}
		j.family += " " + v.Name + " " + rec.Convention
		said[j.family] = statement{v, "config", rec.Convention}
	}
	return said
}

// recipes holds the recipe of a mixture against that of the session.
func (r *run) recipes() {
	known, ok := r.Session.(Recipes)
	if !ok || !r.mixture() {
		return
	}
	name, sum, ok := known.Recipe(r.recorded)
	is := r.layout.Receipt
	switch {
	case !ok:
		return
	case name != is.Recipe:
		r.problem(RecipeDiffers, r.layout.File, "", "the receipt's recipe is %q, the session's %q", is.Recipe, name)
	case sum != is.RecipeSHA256:
		r.problem(RecipeDiffers, r.layout.File, "", "the receipt's recipe %s has the sha256 %s, the session's %s", name, is.RecipeSHA256, sum)
	}
	for i := range r.jobs {
		j := &r.jobs[i]
		if j.module == nil {
			continue
		}
		how, quantized := known.How(r.recorded, j.matrix.Name)
		rec, ok := r.receiptOf(j.module.Name)
		switch {
		case !ok: // said
		case !quantized:
			r.problem(RecipeDiffers, r.layout.File, j.out.Name, "the receipt says that it was made as %s, and the session's recipe keeps it", rec.Variant)
		case how != rec.Variant:
			r.problem(RecipeDiffers, r.layout.File, j.out.Name, "the receipt says that it was made as %s, the session made it as %s", rec.Variant, how)
		}
	}
}

// grouped counts the modules of the groups of a mixture.
func (r *run) grouped() {
	if !r.mixture() {
		return
	}
	for i := range r.jobs {
		j := &r.jobs[i]
		if j.module == nil {
			continue
		}
		rec, ok := r.receiptOf(j.module.Name)
		if !ok {
			continue
		}
		k := slices.IndexFunc(r.rep.Groups, func(g Group) bool { return g.Variant == rec.Variant && g.Convention == rec.Convention })
		if k < 0 {
			k = len(r.rep.Groups)
			r.rep.Groups = append(r.rep.Groups, Group{Variant: rec.Variant, Convention: rec.Convention})
		}
		if r.rep.Groups[k].Modules++; r.sums.measured[i].reproduced {
			r.rep.Groups[k].Reproduced++
		}
	}
}
