package export

import (
	"fmt"
	"math"
	"slices"

	"quantscope/kernels"
)

// Fits says whether a layout can store a rows×cols matrix in a format: nil, or an
// error that wraps ErrUnknown, ErrLayout or ErrMatrix.
func Fits(layout, format string, rows, cols int) error {
	s, err := findScheme(layout, format)
	if err != nil {
		return err
	}
	if err := s.checkShape(rows, cols); err != nil {
		return fmt.Errorf("%w: %w", err, ErrMatrix)
	}
	return nil
}

// StoredBytes is what the tensors of a rows×cols matrix take in a layout, under
// the spec's convention where the layout stores it, else under its default one.
func StoredBytes(layout string, spec kernels.Spec, rows, cols int) (int64, error) {
	s, err := findScheme(layout, spec.Format)
	if err != nil {
		return 0, err
	}
	f, err := kernels.FormatByName(spec.Format)
	if err != nil {
		return 0, err
	}
	convention := spec.Convention
	if !slices.Contains(s.conventions, convention) {
		convention = s.conventions[0]
	}
	if _, err := f.Bytes(rows, cols); err != nil { // the fields of what that takes can be counted
		return 0, err
	}
	total := int64(0)
	for _, x := range s.fields(f, convention, int64(rows), int64(cols)) {
		n := int64(x.dtype.Bits())
		for _, d := range x.shape {
			if d > 0 && n > math.MaxInt64/8/d {
				return 0, fmt.Errorf("%s of %d×%d: too large to count: %w", spec.Format, rows, cols, ErrMatrix)
			}
			n *= d
		}
		total += n / 8
	}
	return total, nil
}

// Together says whether a layout can say these formats in one checkpoint: nil, or an
// error that wraps ErrLayout.
func Together(layout string, formats []string) error {
	stores := make([]stored, len(formats))
	for i, f := range formats {
		stores[i].words.Name = StoredFormat(layout, f)
	}
	return sayable(layout, stores)
}
