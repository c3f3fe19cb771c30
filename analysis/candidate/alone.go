package candidate

import (
	"context"
	"fmt"
	"os"
	"strings"

	"quantscope/quant/checkpoint"
	"quantscope/quant/codes"
	"quantscope/quant/demo"
	"quantscope/quant/method"
)

// ErrReference is wrapped, with ErrSpec, by the error of a SPEC that is made of
// another checkpoint where none is named.
var ErrReference = fmt.Errorf("%w: it is made of a checkpoint, and none is named", ErrSpec)

// ParseAlone opens what a SPEC names without a reference, as Parse does with one:
// weights of its own, such as a folder, a file, a session's export or the demo.
// Variants, recipes and codes are ErrReference.
func ParseAlone(ctx context.Context, spec string, o Options) (*Candidate, error) {
	label, what := cutLabel(spec)
	path := what
	name, _, _ := strings.Cut(what, "@")
	_, notVariant := method.Parse(name)
	switch {
	case what == "":
		return nil, fmt.Errorf("%w: an empty spec (known forms: %s)", ErrSpec, forms)
	case what == demo.Label:
	case notVariant == nil, strings.HasPrefix(what, "recipe:"), hasSuffix(what, ".yaml", ".yml"), codes.IsStore(what):
		return nil, fmt.Errorf("%q: %w", spec, ErrReference)
	case hasSuffix(what, ".qscope"):
		if !exists(what) {
			return nil, &checkpoint.FileError{File: what, Reason: "there is no such session", Err: os.ErrNotExist}
		}
		if o.Export == nil {
			return nil, fmt.Errorf("%w %q: exports of sessions cannot be looked up here; name the exported folder", ErrSpec, what)
		}
		var err error
		if path, err = o.Export(ctx, what); err != nil {
			return nil, err
		}
	case !exists(what) && !hasSuffix(what, ".gguf", ".safetensors") && !strings.ContainsAny(what, `/\`):
		return nil, fmt.Errorf("%w %q: is no file or folder, and as a variant: %w (known forms: %s)", ErrSpec, spec, notVariant, forms)
	}
	c, err := Open(ctx, path, o)
	if err != nil {
		return nil, err
	}
	c.Spec, c.Label = what, what
	if label != "" {
		c.Label = label
	}
	return c, nil
}
