package sessions

import (
	recipes "quantscope/quant/plan"
)

// followed makes a recipe of a fake job: tensor t is of group t mod 3, and where that
// is 2 it keeps the source's bytes.
func followed(job *Job) *Quantizer {
	text := "groups:\n  - scheme: f1\n    targets: [a]\n  - scheme: f2\n    targets: [b]\n"
	run := &RecipeRun{Name: "mix", Text: text, SHA256: sumOf(text), Schemes: []string{"f1", "f2"}, Plan: &recipes.Plan{
		Recipe: "mix", Findings: []recipes.Finding{{ID: "warned", Severity: recipes.Warning, Message: "look at it"}},
	}}
	q := &Quantizer{Variant: Variant{Name: "recipe:mix", Effective: "recipe:mix", Scheme: SchemeMixed, BitsPerWeight: 4.25}, recipe: run}
	parse := job.Parse
	for g, name := range run.Schemes {
		of, err := parse(name)
		if err != nil {
			panic(err)
		}
		how := of.Variant
		how.ID = g
		run.Groups = append(run.Groups, how)
		of.Variant.Name, of.Variant.Effective = q.Variant.Name, q.Variant.Name
		q.groups = append(q.groups, of)
	}
	for t := range job.Tensors {
		g := t % 3
		if g == 2 {
			g = -1
		}
		run.Of = append(run.Of, g)
	}
	job.recipes = []*Quantizer{q}
	job.Parse = func(name string) (Quantizer, error) {
		if name == q.Variant.Name {
			return *q, nil
		}
		return parse(name)
	}
	return q
}
