package kernels

import (
	"fmt"
	"strings"
)

// EncodeGGUF quantizes a rows×cols matrix, row-major, into blocks of a type; dst has
// what the type's Block makes of it. importance is the weight of each column's
// squared error, cols values that are the same for all rows, or nil; a type that
// cannot use them refuses them (TakesImportance). Rows must be whole blocks. A value
// that is not finite is refused with its place. The result is the same however rows
// are dealt out to calls.
func EncodeGGUF(dst []byte, t GGUFType, rows, cols int, src, importance []float32) error {
	return errNotYetGGUF
}

// Encodes says whether EncodeGGUF can make the type.
func (t GGUFType) Encodes() bool { return false }

// TakesImportance says whether the type's quantizer weights errors.
func (t GGUFType) TakesImportance() bool { return false }

var errNotYetGGUF = fmt.Errorf("kernels: no encoder")

// GGUFTypeByName finds a type by its name, whose case does not matter. An unknown name
// is an error that lists the known ones.
func GGUFTypeByName(name string) (GGUFType, error) {
	var known []string
	for t := range GGUFType(len(ggufTypes)) {
		if !t.Known() {
			continue
		}
		if strings.EqualFold(t.String(), name) {
			return t, nil
		}
		known = append(known, t.String())
	}
	return 0, fmt.Errorf("GGUF type %q: %w (known: %s)", name, ErrUnknownFormat, strings.Join(known, ", "))
}
