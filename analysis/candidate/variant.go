package candidate

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/export"
	"quantscope/quant/method"
	"quantscope/quant/recipe"
)

// newVariant is a variant made on the fly from the reference.
func newVariant(ref *Candidate, v method.Variant, targets string, o Options) (*Candidate, error) {
	chosen, err := choose(ref, v, targets)
	if err != nil {
		return nil, err
	}
	c, err := makeOf(ref, chosen.choices, export.Shared, o)
	if err != nil {
		return nil, err
	}
	c.Kind, c.Effective = Variant, chosen.names()
	c.Fallbacks = append(c.Fallbacks, chosen.fallbacks...)
	at := ""
	if t := strings.TrimSpace(targets); t != "" && t != targetsDefault {
		at = "@" + t
		c.Effective += at
	}
	if v.Name != v.Scheme {
		c.Baseline = v.Scheme + at
	}
	return c, nil
}

// makeOf is a candidate whose matrices are made of the reference's as chosen.
// Matrices that the forward pass does not read are left out; those that cannot be
// stored as asked stay as they are, with the reason.
func makeOf(ref *Candidate, choices []choice, globals export.Globals, o Options) (*Candidate, error) {
	c := &Candidate{
		Path: ref.Path, Topology: ref.Topology, Arch: ref.Arch,
		Tokenizer: ref.Tokenizer, TokenizerErr: ref.TokenizerErr, TokenizerID: ref.TokenizerID, Identity: ref.Identity,
	}
	byPlace := map[model.Place]int{}
	items := append([]item(nil), ref.inventory()...)
	for i := range items {
		if items[i].name == "weight" {
			byPlace[items[i].Place] = i
		}
	}
	var taken []choice
	short, firstShort := 0, ""
	for _, ch := range choices {
		i, ok := byPlace[placeOf(ch.m.Role)]
		if !ok { // of an MTP layer or a tower
			continue
		}
		if ch.fp4 != nil && len(ch.parts) == 0 {
			continue
		}
		if err := fits(ch.v.Scheme, ch.m.Rows, ch.m.Cols); err != nil {
			c.Fallbacks = append(c.Fallbacks, Fallback{ch.m.Name, ch.v.Name, items[i].scheme, err.Error(), items[i].params})
			continue
		}
		if n := ch.v.Bytes(ch.m.Rows, ch.m.Cols); n >= 0 {
			items[i].scheme, items[i].bytes = ch.v.Scheme, n
		}
		if g := group(ch.v.Scheme); g > 0 && ch.m.Cols%g != 0 && ch.fp4 == nil {
			if short++; firstShort == "" {
				firstShort = ch.m.Name
			}
		}
		taken = append(taken, ch)
	}
	if len(taken) == 0 {
		return nil, fmt.Errorf("%w: %w: none of %d matrices is one that the forward pass reads and that can be stored so", ErrSpec, recipe.ErrNothing, len(choices))
	}
	if short > 0 {
		c.Findings = append(c.Findings, Finding{
			ID: "short-blocks", Tensor: firstShort,
			Message: fmt.Sprintf("%d matrices have rows that are no whole blocks: measured with a short last block, which no layout of exports can store", short),
		})
	}
	m := newMade(taken, globals, ref.codes, o)
	c.setInventory(items)
	c.Effective = strings.Join(m.names(), ", ")
	c.Content = madeOf([]string{ref.Content}, func(w io.Writer) {
		for _, ch := range taken {
			fmt.Fprintf(w, "%q %q\n", ch.m.Name, ch.v.Name)
			if ch.from != nil {
				fmt.Fprintf(w, "%s\n", ch.digest)
			}
			if k := kernels.Conventions(ch.v.Scheme); len(k) > 0 && ch.v.Spec.Convention != k[0] {
				fmt.Fprintf(w, "%s\n", ch.v.Spec.Convention)
			}
		}
		if globals != export.Shared {
			fmt.Fprintf(w, "%s\n", globals)
		}
	})
	c.globals = globals
	c.source = func() (model.Source, error) { return newOverlay(ref, m) }
	return c.identified(), nil
}

// inventory is what the pass reads of a candidate, which GGUF files and
// hand-made candidates do not all say themselves.
func (c *Candidate) inventory() []item {
	if c.items == nil && c.Topology != nil && c.Arch != nil {
		return floats(c.Topology, c.Arch, nil)
	}
	return c.items
}

// parseRecipe is a recipe file made on the fly from the reference.
func parseRecipe(ref *Candidate, path string, o Options) (*Candidate, error) {
	text, err := readRecipe(path)
	if err != nil {
		return nil, err
	}
	return textRecipe(ref, text, path, o)
}

// textRecipe is a recipe's text made on the fly. path names it in errors.
func textRecipe(ref *Candidate, text []byte, path string, o Options) (*Candidate, error) {
	if ref.Topology == nil || ref.Arch == nil {
		return nil, fmt.Errorf("%w %s: the reference %s has no topology to choose targets from", ErrSpec, path, ref.Label)
	}
	f, err := recipe.ParseFile(text, path, func(scheme string, methods []string) error {
		g := recipe.Group{Scheme: scheme, Methods: methods}
		v, err := method.Parse(g.Variant())
		if err == nil && v.Calibrated() {
			err = errors.New(v.Name + " is calibrated, and recipes are made on the fly: name the folder of codes that quantize leaves")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return makeRecipe(ref, f, path, o)
}

// builtinRecipe is a recipe that comes with the program, made on the fly from the
// reference.
func builtinRecipe(ref *Candidate, name string, o Options) (*Candidate, error) {
	if ref.Topology == nil || ref.Arch == nil {
		return nil, fmt.Errorf("%w recipe:%s: the reference %s has no topology to choose targets from", ErrSpec, name, ref.Label)
	}
	f, err := recipe.Builtin(name, ref.Topology)
	if err != nil {
		return nil, fmt.Errorf("%w recipe:%s: %w", ErrSpec, name, err)
	}
	return makeRecipe(ref, f, "recipe:"+name, o)
}

// makeRecipe is a recipe made on the fly. path names it in errors.
func makeRecipe(ref *Candidate, f *recipe.File, path string, o Options) (*Candidate, error) {
	top := ref.Topology
	variants := make([]method.Variant, len(f.Groups))
	for g := range f.Groups {
		v, err := method.Parse(f.Groups[g].Variant())
		if err != nil {
			return nil, fmt.Errorf("%w %s: %w", ErrSpec, path, err)
		}
		variants[g] = v
	}
	r, err := f.Resolve(top.Matrices)
	if err == nil {
		err = r.Err()
	}
	if err != nil {
		return nil, &checkpoint.FileError{File: path, Reason: "does not fit the reference", Err: err}
	}
	var choices []choice
	var left []Fallback
	for i := range top.Matrices {
		g := r.Group[i]
		if g < 0 {
			continue
		}
		m := top.Matrices[i]
		v := variants[g]
		if d := top.Tensors[top.MatrixTensor[i]].DType; !quantizable(d) {
			left = append(left, Fallback{m.Name, v.Name, strings.ToLower(d), fmt.Sprintf("stored as %s; BF16, F16 and F32 can be quantized", d), int64(m.Rows) * int64(m.Cols)})
			continue
		}
		choices = append(choices, choice{m: m, v: v})
	}
	c, err := makeOf(ref, choices, export.Shared, o)
	if err != nil {
		return nil, &checkpoint.FileError{File: path, Reason: "makes nothing of the reference", Err: err}
	}
	c.Kind = Recipe
	c.Fallbacks = append(c.Fallbacks, left...)
	if f.Source != "" && f.Source != ref.Identity {
		c.Findings = append(c.Findings, Finding{ID: "recipe-source", Message: fmt.Sprintf("%s was made for checkpoint %.12s, the reference is %.12s", path, f.Source, ref.Identity)})
	}
	return c, nil
}

// maxRecipe is more than recipe.ParseFile takes.
const maxRecipe = 64<<20 + 1

func readRecipe(path string) ([]byte, error) {
	f, _, err := checkpoint.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxRecipe))
	if err != nil {
		return nil, &checkpoint.FileError{File: path, Reason: "recipe cannot be read", Err: err}
	}
	return text, nil
}
