package candidate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"quantscope/quant/checkpoint"
	"quantscope/quant/codes"
	"quantscope/quant/demo"
	"quantscope/quant/method"
	"quantscope/quant/recipe"
	"quantscope/quant/tokenizer"
)

// ErrSpec is wrapped by errors about what a SPEC asks for, as opposed to what the
// files that it names hold.
var ErrSpec = errors.New("candidate")

// forms are what a SPEC may be.
const forms = "ref, a variant such as nvfp4+mse or int4-g128@linear, FILE.yaml, recipe:NAME, tier:MAP, FILE.qscope, a folder of a checkpoint or of codes, FILE.safetensors, FILE.gguf, demo"

// Parse opens what a SPEC names, against the reference ref:
//
//	[LABEL=]SPEC      SPEC is one of
//	ref               the reference itself
//	VARIANT[@TARGETS] made on the fly: nvfp4+mse, int4-g128@linear; TARGETS is default, linear
//	                  (all linear maps of the decoder layers), all (and head and embedding) or patterns;
//	                  a calibrated one, int4-g128+gptq, is what Options.Calibrate makes or finds
//	FILE.yaml         a recipe, made on the fly
//	[recipe:]NAME     a built-in recipe, the same way; one that is called as a variant is stands with recipe:, and so
//	                  does one that the session follows
//	tier:MAP          routed experts as a precision map says, which the session holds or a file
//	FILE.qscope       the newest whole export of a session
//	FOLDER            of a checkpoint, or of the codes that calibration of ref chose
//	FILE.safetensors, FILE.gguf
//
// A folder that is called as a variant is stands as ./nvfp4. An unknown SPEC is refused with the known forms.
func Parse(ctx context.Context, ref *Candidate, spec string, o Options) (*Candidate, error) {
	label, what := cutLabel(spec)
	c, err := parse(ctx, ref, what, o)
	if err != nil {
		return nil, err
	}
	c.Spec, c.Label = what, what
	if label != "" {
		c.Label = label
	}
	return c, nil
}

// cutLabel takes LABEL= off a spec. What is there as a file is no label.
func cutLabel(spec string) (label, rest string) {
	label, rest, ok := strings.Cut(spec, "=")
	if !ok || label == "" || strings.ContainsAny(label, `/\@:*?[`) || exists(spec) {
		return "", spec
	}
	return strings.TrimSpace(label), rest
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func parse(ctx context.Context, ref *Candidate, spec string, o Options) (*Candidate, error) {
	if name, ok := strings.CutPrefix(spec, "recipe:"); ok {
		if exists(name) {
			return parseRecipe(ref, name, o)
		}
		if o.Recipe != nil {
			if text, ok := o.Recipe(name); ok {
				return textRecipe(ref, []byte(text), "recipe:"+name, o)
			}
		}
		return builtinRecipe(ref, name, o)
	}
	if name, ok := strings.CutPrefix(spec, tierPrefix); ok {
		return parseTier(ref, name, o)
	}
	switch {
	case spec == "":
		return nil, fmt.Errorf("%w: an empty spec (known forms: %s)", ErrSpec, forms)
	case spec == "ref":
		c := *ref
		c.close = nil
		return &c, nil
	case hasSuffix(spec, ".yaml", ".yml"):
		return parseRecipe(ref, spec, o)
	case hasSuffix(spec, ".qscope"):
		return openExport(ctx, ref, spec, o)
	case spec == demo.Label, hasSuffix(spec, ".gguf", ".safetensors"):
		return openBeside(ctx, ref, spec, o)
	}
	name, targets, given := strings.Cut(spec, "@")
	if !given {
		targets = o.Targets
	}
	v, err := method.Parse(name)
	if err == nil && given && strings.TrimSpace(targets) == "" {
		return nil, fmt.Errorf("%w %q: says no targets behind @ (known: default, linear, all, or patterns)", ErrSpec, spec)
	}
	switch {
	case err == nil && v.Calibrated():
		return newCalibrated(ctx, ref, v, strings.TrimSpace(targets), o)
	case err == nil:
		return newVariant(ref, v, targets, o)
	case codes.IsStore(spec):
		return openCodes(ctx, ref, spec, o)
	case exists(spec):
		return openBeside(ctx, ref, spec, o)
	case slices.Contains(recipe.Builtins(), spec):
		return builtinRecipe(ref, spec, o)
	case strings.ContainsAny(name, `/\`):
		return nil, &checkpoint.FileError{File: spec, Reason: "there is no such file or folder", Err: os.ErrNotExist}
	}
	return nil, fmt.Errorf("%w %q: is no file or folder, and as a variant: %w (known forms: %s)", ErrSpec, spec, err, forms)
}

func hasSuffix(s string, suffixes ...string) bool {
	for _, suffix := range suffixes {
		if strings.HasSuffix(s, suffix) {
			return true
		}
	}
	return false
}

// openExport opens the newest whole export of a session.
func openExport(ctx context.Context, ref *Candidate, path string, o Options) (*Candidate, error) {
	if !exists(path) {
		return nil, &checkpoint.FileError{File: path, Reason: "there is no such session", Err: os.ErrNotExist}
	}
	if o.Export == nil {
		return nil, fmt.Errorf("%w %q: exports of sessions cannot be looked up here; name the exported folder", ErrSpec, path)
	}
	dir, err := o.Export(ctx, path)
	if err != nil {
		return nil, err
	}
	return openBeside(ctx, ref, dir, o)
}

// openBeside opens a candidate with files of its own and holds it against the
// reference: tokenizer, vocabulary, and the order of its rows.
func openBeside(ctx context.Context, ref *Candidate, path string, o Options) (*Candidate, error) {
	c, err := Open(ctx, path, o)
	if err != nil {
		return nil, err
	}
	c.Findings = append(c.Findings, differences(ref, c)...)
	if Compatible(ref, c) != nil {
		return c, nil
	}
	if o.Recover {
		var r *Candidate
		if r, err = Recover(ctx, ref, c); err == nil {
			return r, nil
		}
	} else {
		var found []Finding
		if found, err = Compare(ctx, ref, c); err == nil {
			c.Findings = append(c.Findings, found...)
			return c, nil
		}
	}
	_ = c.Close() // the error that ended it says more
	return nil, err
}

// differences are what a person should know before a candidate is compared with
// the reference.
func differences(ref, c *Candidate) []Finding {
	var out []Finding
	if ref.Arch != nil && c.Arch != nil && ref.Arch.Vocab != c.Arch.Vocab {
		out = append(out, Finding{ID: "vocabulary-differs", Message: fmt.Sprintf("the head has %d columns, the reference's %d", c.Arch.Vocab, ref.Arch.Vocab)})
	}
	if ref.Tokenizer != nil && c.Tokenizer != nil {
		if d := tokenizer.Compare(ref.Tokenizer, c.Tokenizer); d.Vocabulary || d.Rules {
			out = append(out, Finding{ID: "tokenizer-differs", Message: d.Text})
		}
	}
	return append(out, archFindings(ref, c)...)
}
