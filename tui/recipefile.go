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
	of := make([]int, len(a.Arms)) // group by arm
	for k, name := range a.Arms {
		of[k] = -1
		if name == sessions.SourceArm {
			continue
		}
		if v := st.VariantByName(name); v >= 0 {
			name = st.Variants[v].Plain()
		}
		m, err := method.Parse(name)
		if err != nil {
			return nil, err
		}
		if of[k] = slices.IndexFunc(groups, func(g recipe.Group) bool { return g.Variant() == m.Name }); of[k] < 0 {
			of[k] = len(groups)
			groups = append(groups, recipe.Group{Scheme: m.Scheme, Methods: m.Methods})
		}
	}
	matrices := make([]topology.Matrix, len(st.Tensors))
	choice := make([]int, len(st.Tensors))
	for i := range st.Tensors {
		t := &st.Tensors[i]
		matrices[i] = topology.Matrix{Name: t.Name, Tensor: t.Source, Role: t.Role, Rows: t.Rows, Cols: t.Cols}
		if k := x.Arm[i]; k < 0 || k >= len(of) {
			choice[i] = -1
		} else {
			choice[i] = of[k]
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
