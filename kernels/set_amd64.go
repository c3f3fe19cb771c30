//go:build amd64 && !noasm

package kernels

// archSets are the sets in assembly that this machine can run, slowest first.
// Each starts from the reference and replaces what it has a kernel for.
func archSets() []Set { return nil }
