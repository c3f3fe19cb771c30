package tui

import (
	"context"
	"errors"

	"quantscope/sessions"
	"quantscope/views"
)

func saveRecipe(ctx context.Context, meta sessions.Meta, tensors []sessions.Tensor, a *views.LandscapeAnswer, path string, overwrite bool) error {
	return errors.New("recipes cannot be written by this version")
}
