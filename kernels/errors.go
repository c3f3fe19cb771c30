package kernels

import "errors"

// Errors of this package that callers tell apart.
var (
	ErrShape         = errors.New("length does not fit the shape")
	ErrUnsupported   = errors.New("not supported")
	ErrRange         = errors.New("out of range")
	ErrUnknownFormat = errors.New("unknown format")
)
