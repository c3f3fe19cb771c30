package sessions

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"quantscope/quant/method"
	"quantscope/quant/recipe"
	"quantscope/quant/topology"
)

// RecipeSource is a recipe as it is asked for: a file's text, or one that comes with
// the program, whose text depends on the checkpoint.
type RecipeSource struct {
	Name    string // of the recipe
	File    string // that holds it, for errors; "" where there is none
	Text    string // "" of a built-in one
	Builtin bool

	conventions []string // of its groups, where a session has made some of it; else nil
	known       bool     // a session follows it, and it need not be asked for
}

// ErrRecipe is wrapped by errors of a recipe that is not to be had: no file, and no
// built-in one.
var ErrRecipe = errors.New("no such recipe")

// RecipeError says why a recipe is not run on a checkpoint.
type RecipeError struct {
	Name string
	Err  error
}

func (e *RecipeError) Error() string {
	text := oneLine(e.Err.Error())
	if strings.HasPrefix(text, "recipe ") { // a plan's, which says which
		return text
	}
	return "recipe " + e.Name + ": " + text
}

func (e *RecipeError) Unwrap() error { return e.Err }

// maxRecipe bounds a recipe file, as quant/recipe does.
const maxRecipe = 64 << 20

// OpenRecipe finds a recipe: a file, or a built-in one of that name. An unknown one
// is an error that lists the built-in ones and wraps ErrRecipe; one that is no recipe
// is a *recipe.FileError.
func OpenRecipe(spec string) (RecipeSource, error) {
	info, err := os.Stat(spec)
	switch {
	case err == nil && info.Mode().IsRegular():
		return readRecipe(spec)
	case slices.Contains(recipe.Builtins(), spec):
		return RecipeSource{Name: spec, Builtin: true}, nil
	case err == nil:
		return RecipeSource{}, fmt.Errorf("%s is no file: %w (built in: %s)", spec, ErrRecipe, strings.Join(recipe.Builtins(), ", "))
	case !errors.Is(err, os.ErrNotExist):
		return RecipeSource{}, pathError(spec, err)
	}
	return RecipeSource{}, fmt.Errorf("%q is neither a file nor built in: %w (built in: %s)", spec, ErrRecipe, strings.Join(recipe.Builtins(), ", "))
}

func readRecipe(path string) (RecipeSource, error) {
	f, err := os.Open(path)
	if err != nil {
		return RecipeSource{}, pathError(path, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxRecipe+1))
	if err != nil {
		return RecipeSource{}, pathError(path, err)
	}
	file, err := recipe.ParseFile(text, path, checkGroup)
	if err != nil {
		return RecipeSource{}, err
	}
	base := filepath.Base(path)
	return RecipeSource{Name: nameOf(file, strings.TrimSuffix(base, filepath.Ext(base))), File: path, Text: string(text)}, nil
}

// nameOf is what a recipe is called: what it says, or what its file is called.
func nameOf(f *recipe.File, other string) string {
	if name := strings.TrimSpace(oneLine(f.Name)); name != "" {
		return name
	}
	return other
}

// checkGroup refuses schemes and methods that there are none of.
func checkGroup(scheme string, methods []string) error {
	_, err := method.Parse(strings.Join(append([]string{scheme}, methods...), "+"))
	return err
}

// parse is the recipe over a checkpoint, and its text.
func (r *RecipeSource) parse(model *topology.Model) (*recipe.File, string, error) {
	if r.Builtin && r.Text == "" {
		f, err := recipe.Builtin(r.Name, model)
		if err != nil {
			return nil, "", err
		}
		text, err := f.Encode()
		return f, string(text), err
	}
	name := r.File
	if name == "" {
		name = "recipe " + r.Name
	}
	f, err := recipe.ParseFile([]byte(r.Text), name, checkGroup)
	return f, r.Text, err
}

// asked are the recipes that are asked for, without those that only the session
// follows.
func (o *Options) asked() []RecipeSource {
	var out []RecipeSource
	for _, r := range o.Recipes {
		if !r.known {
			out = append(out, r)
		}
	}
	return out
}

// takeStored adds the recipes that the session follows already and that are not
// asked for again, so that it can be gone on with.
func (o *Options) takeStored(ctx context.Context) error {
	if o.Session == "" {
		return nil
	}
	if info, err := os.Lstat(o.Session); err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return nil // said when it is opened
	}
	if ok, err := IsSession(o.Session); err != nil || !ok {
		return nil
	}
	stored, err := storedRecipes(ctx, o.Session)
	if err == nil {
		o.fp4, err = o.takesFP4(ctx)
	}
	var file *FileError
	if errors.As(err, &file) { // as above
		return nil
	} else if err != nil {
		return err
	}
	o.Recipes = slices.Clone(o.Recipes)
	for _, s := range stored {
		if i := slices.IndexFunc(o.Recipes, func(r RecipeSource) bool { return r.Name == s.Name }); i < 0 {
			o.Recipes = append(o.Recipes, s)
		}
	}
	return nil
}

// source is what a session follows, to be followed again.
func (r *RecipeRun) source() RecipeSource {
	s := RecipeSource{Name: r.Name, Text: r.Text, known: true}
	for i := range r.Groups {
		s.conventions = append(s.conventions, r.Groups[i].convention())
	}
	return s
}

// storedRecipes are the recipes that a session file follows.
func storedRecipes(ctx context.Context, path string) ([]RecipeSource, error) {
	r, err := openReader(ctx, path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var out []RecipeSource
	err = withConn(ctx, r, func(c *sql.Conn) error {
		return each(ctx, c, selectEvents+" where kind <> 'tap' and kind = 'plan' order by seq", func(row []driver.Value) error {
			e, err := scanEvent(row)
			if err == nil {
				out = append(out, e.recipe.source())
			}
			return err
		})
	})
	return out, readError(ctx, path, err)
}
