//go:build !amd64 || noasm

package kernels

// archSets are the sets for this architecture beside the reference; there is
// none.
func archSets() []Set { return nil }
