package kernels

import (
	"errors"
	"fmt"
)

// ErrCodebook is wrapped by errors about codes that are no codebook.
var ErrCodebook = errors.New("no codebook")

// CodebookCodes are the codes of E2M1 of a codebook, ascending by value: what an index
// of PackCode2 stands for. It is nil of what is no codebook.
func CodebookCodes(mask uint16) []byte {
	var out []byte
	for _, code := range e2m1Ascending {
		if mask&(1<<code) != 0 {
			out = append(out, code)
		}
	}
	if len(out) != CodebookValues {
		return nil
	}
	return out
}

// CodebookMask is the mask of a codebook that is stored as CodebookCodes gives it. An
// error says what is wrong with it, and wraps ErrCodebook.
func CodebookMask(codes []byte) (uint16, error) {
	if len(codes) != CodebookValues {
		return 0, fmt.Errorf("%w: %d codes, want %d", ErrCodebook, len(codes), CodebookValues)
	}
	var mask uint16
	for i, c := range codes {
		switch {
		case c > 15:
			return 0, fmt.Errorf("%w: code %d of %v is none of E2M1", ErrCodebook, c, codes)
		case c == 8:
			return 0, fmt.Errorf("%w: −0 among %v", ErrCodebook, codes)
		case mask&(1<<c) != 0:
			return 0, fmt.Errorf("%w: the value %v twice in %v", ErrCodebook, e2m1Values[c], codes)
		case i > 0 && e2m1Values[c] < e2m1Values[codes[i-1]]:
			return 0, fmt.Errorf("%w: %v after %v in %v, want ascending values", ErrCodebook, e2m1Values[c], e2m1Values[codes[i-1]], codes)
		}
		mask |= 1 << c
	}
	return mask, nil
}

// CodebookBase is the format of four bits whose scales a format of two bits has, and
// whose codes can say its own; false of any other format.
func CodebookBase(format string) (string, bool) {
	switch format {
	case "code2":
		return "nvfp4", true
	case "code2-mxfp4":
		return "mxfp4", true
	}
	return "", false
}
