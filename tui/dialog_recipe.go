package tui

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/sessions"
	"quantscope/views"
)

// recipeForm asks where the answer to a budget is written as a recipe. What is
// written is the answer that was on the screen when it was asked for.
type recipeForm struct {
	answer  *views.LandscapeAnswer
	file    lineEdit
	refusal string // why the last try came to nothing
}

// askRecipe opens the form, with a name beside the session.
func (m *Model) askRecipe() {
	a := m.landPane().Answer()
	if a == nil {
		return
	}
	m.open(&recipeForm{answer: a, file: newLineEdit(recipePath(m.scene.State.Meta.Path, a))})
}

// recipePath is where a recipe goes unless the person says otherwise: beside the
// session, with the size in its name.
func recipePath(session string, a *views.LandscapeAnswer) string {
	size := fmt.Sprintf("%.2fbpw.yaml", a.Assignment.Bits)
	if session == "" {
		return "recipe-" + size
	}
	return strings.TrimSuffix(session, filepath.Ext(session)) + "-" + size
}

func (f *recipeForm) title() string { return "Write the answer as a recipe" }
func (f *recipeForm) hint() string  { return "enter write · esc close" }
func (f *recipeForm) typing() bool  { return true }
func (f *recipeForm) scroll(int)    {}

func (f *recipeForm) click(*Model, int) tea.Cmd { return nil }

func (f *recipeForm) size(_ *Model, w, _ int) (int, int) {
	want := max(60, views.Width(f.file.text)+8)
	lines := 3
	if f.refusal != "" {
		lines += 1 + len(wrap(views.Clean(f.refusal), min(want, w-6)-2))
	}
	return want, lines
}

func (f *recipeForm) lines(m *Model, w, _ int) []string {
	t, a := m.scene.Theme, &f.answer.Assignment
	var counts []string
	for i, n := range a.Counts {
		if n > 0 && i < len(f.answer.Arms) {
			counts = append(counts, fmt.Sprintf("%s %d", views.Clean(f.answer.Arms[i]), n))
		}
	}
	out := []string{
		t.Text.Render(views.Truncate(fmt.Sprintf("%.2f bits/weight: %s", a.Bits, strings.Join(counts, ", ")), w)),
		"", t.Dim.Render("file  ") + f.file.view(t, w-6),
	}
	if f.refusal != "" {
		out = append(out, "")
		for i, line := range wrap(views.Clean(f.refusal), w-2) {
			mark := "  "
			if i == 0 {
				mark = "✗ "
			}
			out = append(out, t.Bad.Render(mark+views.TruncateMiddle(line, w-2)))
		}
	}
	return out
}

func (f *recipeForm) key(m *Model, k tea.KeyMsg) tea.Cmd {
	switch k.String() {
	case "esc":
		m.closeDialog()
	case "enter":
		if f.file.text == "" {
			m.say("a file name is needed")
			return nil
		}
		m.closeDialog()
		return m.writeRecipe(f.answer, f.file.text, false)
	default:
		if _, changed := m.typed(&f.file, k); changed {
			f.refusal = ""
		}
	}
	return nil
}

// writeRecipe writes an answer as a recipe, outside the loop.
func (m *Model) writeRecipe(a *views.LandscapeAnswer, path string, overwrite bool) tea.Cmd {
	m.exporting++
	m.say("writing %s …", path)
	st := m.scene.State // of which only what does not change is read outside the loop
	asked := &sessions.State{Meta: st.Meta, Tensors: st.Tensors, Variants: slices.Clone(st.Variants)}
	return m.do(m.ctx, "recipe", func(ctx context.Context) tea.Msg {
		return recipeMsg{answer: a, path: path, overwrite: overwrite, err: saveRecipe(ctx, asked, a, path, overwrite)}
	})
}

// recipeMsg ends the writing of a recipe.
type recipeMsg struct {
	answer    *views.LandscapeAnswer
	path      string
	overwrite bool
	err       error
}

func (r recipeMsg) apply(m *Model) tea.Cmd {
	m.exporting--
	m.reviseQuit()
	switch {
	case m.busy() && r.err != nil && !errors.Is(r.err, context.Canceled):
		m.fail(fmt.Errorf("recipe: %w", r.err)) // the person is at something else
	case errors.Is(r.err, fs.ErrExist) && !r.overwrite:
		m.note = note{}
		m.open(newConfirm("Overwrite?", []string{r.path + " is there already."},
			"overwrite", func(m *Model) tea.Cmd { return m.writeRecipe(r.answer, r.path, true) }))
	case errors.Is(r.err, context.Canceled):
	case r.err != nil:
		m.note = note{}
		m.open(&recipeForm{answer: r.answer, file: newLineEdit(r.path), refusal: r.err.Error()})
	default:
		m.say("wrote the recipe %s", r.path)
	}
	return nil
}
