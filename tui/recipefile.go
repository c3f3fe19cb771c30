package tui

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"quantscope/quant/method"
	"quantscope/quant/recipe"
	"quantscope/quant/topology"
	"quantscope/sessions"
	"quantscope/views"
)

// saveRecipe writes an answer as a recipe file: whole or not at all, over
// another file only when it may, and never over a session.
func saveRecipe(ctx context.Context, st *sessions.State, a *views.LandscapeAnswer, path string, overwrite bool) error {
	f, err := recipeOf(st, a)
	if err != nil {
		return err
	}
	f.Name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	data, err := f.Encode()
	if err != nil {
		return err
	}
	return sessions.WriteFile(ctx, st.Meta.Path, path, overwrite, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// recipeOf is an answer as a recipe. Variants of joined sessions go by what they
// do, not by where they are from.
func recipeOf(st *sessions.State, a *views.LandscapeAnswer) (*recipe.File, error) {
	x := &a.Assignment
	if len(x.Arm) != len(st.Tensors) {
		return nil, fmt.Errorf("the answer is over %d matrices and the session has %d", len(x.Arm), len(st.Tensors))
	}
	var groups []recipe.Group
	group := func(name string) (int, error) { // that has scheme and methods of this name
		m, err := method.Parse(name)
		if err != nil {
			return -1, err
		}
		own := recipe.Group{Scheme: m.Scheme, Methods: m.Methods} // which names the plain method as well
		k := slices.IndexFunc(groups, func(g recipe.Group) bool { return g.Variant() == own.Variant() })
		if k < 0 {
			k = len(groups)
			groups = append(groups, own)
		}
		return k, nil
	}
	of := make([]int, len(a.Arms))      // group by arm
	follows := make([]int, len(a.Arms)) // the variant of an arm that follows a recipe, else -1
	for k, name := range a.Arms {
		of[k], follows[k] = -1, -1
		if name == sessions.SourceArm {
			continue
		}
		if v := st.VariantByName(name); v >= 0 {
			if name = st.Variants[v].Plain(); st.RecipeOf(v) != nil {
				follows[k] = v
				continue
			}
		}
		var err error
		if of[k], err = group(name); err != nil {
			return nil, err
		}
	}
	matrices := make([]topology.Matrix, len(st.Tensors))
	choice := make([]int, len(st.Tensors))
	for i := range st.Tensors {
		t := &st.Tensors[i]
		matrices[i] = topology.Matrix{Name: t.Name, Tensor: t.Source, Role: t.Role, Rows: t.Rows, Cols: t.Cols}
		k := x.Arm[i]
		if choice[i] = -1; k < 0 || k >= len(of) {
			continue
		}
		choice[i] = of[k]
		if follows[k] < 0 {
			continue
		}
		if how, quantized := st.How(follows[k], i); quantized {
			var err error
			if choice[i], err = group(how.Name); err != nil {
				return nil, err
			}
		}
	}
	f, err := recipe.FromAssignment(matrices, choice, groups)
	if err != nil {
		return nil, err
	}
	f.Source = st.Meta.SourceIdentity
	f.Comment = fmt.Sprintf("%.4g bits per weight, %d bytes; mean rel2 %.6g, and no assignment of that size is below %.6g.\n%s", x.Bits, x.Bytes, x.Error, x.Bound, a.Verdict)
	return f, nil
}
