//go:build amd64 && !noasm

package kernels

import (
	"testing"
	"unsafe"
)

// The generator of the searches knows where the fields of their arguments are.
func TestNVFP4SearchArgs(t *testing.T) {
	var a nvfp4SearchArgs
	for _, f := range []struct {
		name      string
		at, known uintptr
	}{
		{"element", unsafe.Offsetof(a.element), 0},
		{"convention", unsafe.Offsetof(a.convention), 4},
		{"unit", unsafe.Offsetof(a.unit), 8},
		{"divisor", unsafe.Offsetof(a.divisor), 12},
		{"factor", unsafe.Offsetof(a.factor), 16},
		{"divisor2", unsafe.Offsetof(a.divisor2), 20},
		{"zeroScale", unsafe.Offsetof(a.zeroScale), 24},
		{"ascending", unsafe.Offsetof(a.ascending), 28},
		{"candidates", unsafe.Offsetof(a.candidates), 32},
		{"multipliers", unsafe.Offsetof(a.multipliers), 36},
		{"bins", unsafe.Offsetof(a.bins), 36 + 4*16},
	} {
		if f.at != f.known {
			t.Errorf("%s is at %d, the generator has it at %d", f.name, f.at, f.known)
		}
	}
	if BF16 != 1 || F16 != 2 || F32 != 3 || ModelOpt != 0 || ModelOptStatic != 1 || CT32 != 2 || CT != 3 {
		t.Error("the generator has other numbers for elements and conventions")
	}
}
