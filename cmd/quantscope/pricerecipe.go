package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"quantscope/analysis/landscape"
	"quantscope/quant/checkpoint"
	"quantscope/quant/method"
	"quantscope/quant/recipe"
	"quantscope/sessions"
)

// maxRecipe is more than a recipe may have, so that a wrong file is not read whole.
const maxRecipe = 64<<20 + 1

// recipeText reads a recipe's file, and no more of a wrong one than a recipe may have.
func recipeText(path string) ([]byte, error) {
	if err := present(path); err != nil {
		return nil, err
	}
	file, _, err := checkpoint.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxRecipe))
	if err != nil {
		return nil, badInput(err)
	}
	return data, nil
}

func readRecipe(path string) (*recipe.File, error) {
	data, err := recipeText(path)
	if err != nil {
		return nil, err
	}
	f, err := recipe.ParseFile(data, path, func(scheme string, methods []string) error {
		_, err := method.Parse((&recipe.Group{Scheme: scheme, Methods: methods}).Variant())
		return err
	})
	if err != nil {
		return nil, badInput(err)
	}
	return f, nil
}

// priceRecipe prices a recipe, beside the best answer of as many bytes.
func priceRecipe(s *landscape.Solver, t *landscape.Table, st *sessions.State, file *recipe.File, f priceFlags) (*recipePriced, error) {
	p, err := landscape.PriceRecipe(t, file, canonicalVariant)
	if err != nil {
		return nil, badInput(fmt.Errorf("%s: %w", f.with, err))
	}
	out := &recipePriced{Path: f.with, Name: file.Name, RecipePrice: *p, Arms: armCounts(t, p.Counts), Notes: []string{}}
	if file.Source != "" && file.Source != st.Meta.SourceIdentity {
		out.Notes = append(out.Notes, "made for another checkpoint than the session's, of identity "+file.Source)
	}
	if n := len(p.Overlaps); n > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("%s matched by two groups, %s the first: the group that comes first is counted", counted(n, "tensor is", "tensors are"), p.Overlaps[0]))
	}
	if n := len(p.NoMatch); n > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("%s nothing among these targets, the first in %s", counted(n, "pattern matches", "patterns match"), p.NoMatch[0]))
	}
	if p.LeftOut > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("%s no finite figure under the recipe: in the bytes, and in no mean", counted(p.LeftOut, "tensor has", "tensors have")))
	}
	if p.Split > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("%s stored in different schemes", counted(p.Split, "group that servers fuse is", "groups that servers fuse are")))
	}
	var outside *landscape.BudgetError
	least, most := s.Range()
	switch best, err := answer(s, t, min(p.Bytes, most), f); {
	case err == nil:
		out.AtBytes = best
	case errors.As(err, &outside):
		out.Notes = append(out.Notes, fmt.Sprintf("smaller than any answer of these arms (%d bytes)", least))
	default:
		return nil, err
	}
	return out, nil
}

// writeRecipe writes the answer as a recipe: whole or not at all, and over
// another file only with --force.
func writeRecipe(ctx context.Context, t *landscape.Table, st *sessions.State, session string, a *priceAnswer, f priceFlags) (*recipeWritten, error) {
	file, err := landscape.RecipeOf(t, a.Assignment)
	if err != nil {
		return nil, err
	}
	if len(file.Groups) == 0 {
		return nil, usage(fmt.Errorf("--recipe: the answer quantizes nothing, so there is no recipe of it"))
	}
	file.Source = st.Meta.SourceIdentity
	file.Comment = "Written by quantscope price from " + session + "\n" + file.Comment + "\n" + a.Sentence
	text, err := file.Encode()
	if err != nil {
		return nil, err
	}
	err = sessions.WriteFile(ctx, session, f.recipe, f.force, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
	if errors.Is(err, fs.ErrExist) {
		return nil, usage(fmt.Errorf("%s is there already; --force overwrites it", f.recipe))
	}
	if err != nil {
		return nil, err
	}
	out := &recipeWritten{Path: f.recipe, Bytes: int64(len(text)), Groups: len(file.Groups), Patterns: len(file.Exemptions) + len(file.Ignore)}
	for _, g := range file.Groups {
		out.Patterns += len(g.Targets)
	}
	return out, nil
}
