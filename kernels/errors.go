package kernels

import "errors"

// Errors of this package that callers tell apart.
var (
	ErrShape         = errors.New("length does not fit the shape")
	ErrUnsupported   = errors.New("not supported")
	ErrUnknownFormat = errors.New("unknown format")
)
