package kernels

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// The method book:A:B:C:D of formats with codebooks chooses nothing: it names the four
// values, the same in every matrix, in any order; canonically they ascend. They are
// controls: pairs of equal error of which one leans to a side show what leaning does.
// A search for them gives what the best codebooks would have been worth all the same.

// bookPrefix begins the methods that name a codebook.
const bookPrefix = "book:"

// bookUsage stands for them where methods are listed.
const bookUsage = bookPrefix + "A:B:C:D"

// NamesBook says whether a method names a codebook, well or badly.
func NamesBook(method string) bool { return strings.HasPrefix(method, bookPrefix) }

// NamedBook is the codebook of a method that names one: a mask of codes. Values are
// four that differ, of E2M1 but for −0, as shortest decimals; what is wrong with them is
// ErrRange with those that there are.
func NamedBook(method string) (uint16, error) {
	rest, ok := strings.CutPrefix(method, bookPrefix)
	if !ok {
		return 0, fmt.Errorf("method %q names no codebook, as %s does: %w", method, bookUsage, ErrUnsupported)
	}
	names, mask := strings.Split(rest, ":"), uint16(0)
	for _, name := range names {
		code, ok := codeOfValue(name)
		switch {
		case !ok:
			return 0, fmt.Errorf("method %q: %q is no value of a codebook (known: %s): %w", method, name, strings.Join(bookValueNames(), ", "), ErrRange)
		case mask&(1<<code) != 0:
			return 0, fmt.Errorf("method %q: %s is there twice: want %d values that differ (known: %s): %w", method, name, CodebookValues, strings.Join(bookValueNames(), ", "), ErrRange)
		}
		mask |= 1 << code
	}
	if n := bits.OnesCount16(mask); n != CodebookValues {
		return 0, fmt.Errorf("method %q: %d values: want %d that differ (known: %s): %w", method, n, CodebookValues, strings.Join(bookValueNames(), ", "), ErrRange)
	}
	return mask, nil
}

// BookMethod is the method that names a codebook, its values ascending.
func BookMethod(mask uint16) string {
	var values []string
	for _, v := range Codebook(mask) {
		values = append(values, valueName(v))
	}
	return bookPrefix + strings.Join(values, ":")
}

func valueName(v float32) string { return strconv.FormatFloat(float64(v), 'f', -1, 32) }

// codeOfValue finds the code of a value by its name.
func codeOfValue(name string) (byte, bool) {
	i := slices.Index(bookValueNames(), name)
	if i < 0 {
		return 0, false
	}
	return e2m1Ascending[i], true
}

// bookValueNames are the values that codebooks are of, ascending.
func bookValueNames() []string {
	names := make([]string, len(e2m1Ascending))
	for i, code := range e2m1Ascending {
		names[i] = valueName(e2m1Values[code])
	}
	return names
}

// checkBookMethod says whether a method is one of formats with codebooks, and gives the
// mask of one that names its own.
func checkBookMethod(format, method string) (uint16, error) {
	if NamesBook(method) {
		mask, err := NamedBook(method)
		if err != nil {
			err = fmt.Errorf("%s: %w", format, err)
		}
		return mask, err
	}
	if !slices.Contains(codebookMethods, method) {
		return 0, fmt.Errorf("%s: method %q: %w (known: %s, %s)", format, method, ErrUnsupported, strings.Join(codebookMethods, ", "), bookUsage)
	}
	return 0, nil
}
