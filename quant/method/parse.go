package method

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"quantscope/kernels"
)

// Errors that callers tell apart.
var (
	ErrUnknown     = errors.New("unknown")          // a scheme, a method or a convention that does not exist
	ErrUnsupported = errors.New("has no quantizer") // a scheme that can only be stored and read
	ErrNotFor      = errors.New("is not for")       // a method that exists, for other schemes
	ErrIncomplete  = errors.New("needs")            // a method that goes with another one, which is not named
	ErrConflict    = errors.New("methods exclude each other")
	ErrDuplicate   = errors.New("named twice")
)

// Methods that read what goes into a matrix. imatrix chooses the parameters of
// a block, or weighs the choice of a codebook; gptq goes on top of whatever
// chooses them, and act on top of gptq.
const (
	imatrix = "imatrix"
	gptq    = "gptq"
	act     = "act"
)

// choosers are the methods that choose the parameters of a block, or the values
// of a codebook; exactly one of them is at work.
func choosers(scheme string) []string {
	return append(kernels.Methods(scheme), kernels.Weighted(scheme)...)
}

// chooser is what a bare scheme means: rtn, or l2 of codebooks.
func chooser(scheme string) string { return kernels.Methods(scheme)[0] }

// Parse reads a variant name, scheme+method+method, its methods in any order.
// Errors wrap one of this package's, or kernels.ErrRange where four values are no
// codebook, and name the variant and what is known. The
// convention is the format's first.
func Parse(name string) (Variant, error) {
	scheme, methods, composed := strings.Cut(name, "+")
	format, err := kernels.FormatByName(scheme)
	if err != nil {
		return Variant{}, fmt.Errorf("variant %q: scheme %q: %w (known variants: %s)", name, scheme, ErrUnknown, knownNames())
	}
	if len(kernels.Methods(scheme)) == 0 {
		return Variant{}, fmt.Errorf("variant %q: scheme %q %w (known variants: %s)", name, scheme, ErrUnsupported, knownNames())
	}
	v := Variant{Scheme: scheme, BitsPerWeight: format.BitsPerWeight(), Spec: kernels.Spec{Format: scheme, Convention: kernels.Conventions(scheme)[0]}}
	if composed {
		if err = v.parse(strings.Split(methods, "+")); err != nil {
			return Variant{}, fmt.Errorf("variant %q: %w", name, err)
		}
	}
	v.settle()
	return v, nil
}

// settle completes a variant from its scheme, its chooser and what it reads.
func (v *Variant) settle() {
	plain := chooser(v.Scheme)
	if v.Spec.Method == "" {
		v.Spec.Method = plain
	}
	v.Methods = []string{v.Spec.Method}
	if v.Importance && v.Spec.Method != imatrix {
		v.Methods = append(v.Methods, imatrix)
	}
	if v.GPTQ {
		v.Methods = append(v.Methods, gptq)
	}
	if v.ActOrder {
		v.Methods = append(v.Methods, act)
	}
	named := v.Methods
	if named[0] == plain {
		named = named[1:]
	}
	v.Name = strings.Join(append([]string{v.Scheme}, named...), "+")
	v.Multipliers = kernels.MultiplierLabels(v.Scheme, v.Spec.Method)
}

// parse takes in the names of methods.
func (v *Variant) parse(names []string) error {
	known := choosers(v.Scheme)
	for i, n := range names {
		if slices.Contains(names[:i], n) {
			return fmt.Errorf("method %q: %w", n, ErrDuplicate)
		}
		if book, ok, err := v.book(n); err != nil {
			return err
		} else if ok {
			n = book
		}
		chooses := slices.Contains(known, n) || kernels.NamesBook(n)
		switch {
		case chooses && v.Spec.Method != "":
			return fmt.Errorf("%w: %s and %s both choose %s", ErrConflict, v.Spec.Method, n, chosenBy(v.Scheme))
		case chooses:
			v.Spec.Method = n
			v.Importance = v.Importance || n == imatrix
		case n == imatrix && whole(v.Scheme):
			v.Importance = true
		case n == gptq && movesErrors(v.Scheme):
			v.GPTQ = true
		case n == act && movesErrors(v.Scheme):
			v.ActOrder = true
		case n == imatrix || n == gptq || n == act:
			return fmt.Errorf("method %q %w %s, %s (known for %s: %s)", n, ErrNotFor, v.Scheme, refusal(n), v.Scheme, strings.Join(methodsFor(v.Scheme), ", "))
		default:
			return fmt.Errorf("method %q: %w (known for %s: %s)", n, ErrUnknown, v.Scheme, strings.Join(methodsFor(v.Scheme), ", "))
		}
	}
	if v.Importance && v.NamesBook() {
		return fmt.Errorf("%w: %s names the codebook, which leaves %s nothing to weigh", ErrConflict, v.Spec.Method, imatrix)
	}
	if v.ActOrder && !v.GPTQ {
		return fmt.Errorf("method %q %w gptq, whose columns it orders: %s+gptq+act", act, ErrIncomplete, v.Scheme)
	}
	return nil
}

// book takes in a method that names a codebook, and gives its canonical name: values
// ascend.
func (v *Variant) book(name string) (canonical string, is bool, err error) {
	switch {
	case !kernels.NamesBook(name):
		return "", false, nil
	case !whole(v.Scheme):
		return "", true, fmt.Errorf("method %q %w %s, which has no codebook (known for %s: %s)", name, ErrNotFor, v.Scheme, v.Scheme, strings.Join(methodsFor(v.Scheme), ", "))
	}
	mask, err := kernels.NamedBook(name)
	if err != nil {
		return "", true, err
	}
	return kernels.BookMethod(mask), true, nil
}

// movesErrors says whether GPTQ has this scheme's grid.
func movesErrors(scheme string) bool {
	return scheme == "nvfp4" || scheme == "mxfp4" || strings.HasPrefix(scheme, "int4-") || whole(scheme)
}

// refusal is why a method that reads inputs is not for a scheme.
func refusal(method string) string {
	if method == imatrix {
		return "which takes its scales from largest magnitudes and leaves nothing to weigh"
	}
	return "but for codes of 4 or 2 bits: nvfp4, mxfp4, int4, code2"
}

// methodsFor are the names that may follow a scheme.
func methodsFor(scheme string) []string {
	names := choosers(scheme)
	if whole(scheme) {
		names = append(names, bookUsage, imatrix)
	}
	if movesErrors(scheme) {
		names = append(names, gptq, act)
	}
	return names
}

// bookUsage stands for the methods that name four values where methods are listed.
const bookUsage = "book:A:B:C:D"

// whole says whether something is chosen once a matrix, from all of it: the four
// values of a codebook.
func whole(scheme string) bool { return scheme == "code2" || scheme == "code2-mxfp4" }

// chosenBy is what choosers of a scheme choose.
func chosenBy(scheme string) string {
	if whole(scheme) {
		return "the codebook"
	}
	return "the block scale"
}

// ParseList reads a comma-separated list of variant names; a variant that
// appears twice, under whatever name, is refused.
func ParseList(comma string) ([]Variant, error) {
	var list []Variant
	for name := range strings.SplitSeq(comma, ",") {
		name = strings.TrimSpace(name)
		if name == "" {
			return nil, fmt.Errorf("variants %q: an empty name: %w (known variants: %s)", comma, ErrUnknown, knownNames())
		}
		v, err := Parse(name)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(list, func(w Variant) bool { return w.Name == v.Name }) {
			return nil, fmt.Errorf("variants %q: %q: %w", comma, v.Name, ErrDuplicate)
		}
		list = append(list, v)
	}
	return list, nil
}
