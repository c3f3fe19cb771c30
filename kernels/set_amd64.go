//go:build amd64 && !noasm

package kernels

import "golang.org/x/sys/cpu"

//go:generate go -C _gen run .

// What each set in assembly replaces of the reference. The file of each family
// of kernels adds its own in an init.
var avx2Kernels, avx512Kernels []func(*Set)

// archSets are the sets in assembly that this machine can run, slowest first.
// Each starts from the reference and replaces what it has a kernel for.
func archSets() []Set {
	var sets []Set
	if hasAVX2 {
		sets = append(sets, assemble("avx2", avx2Kernels))
	}
	if hasAVX512 {
		sets = append(sets, assemble("avx512", avx512Kernels))
	}
	return sets
}

func assemble(name string, replace []func(*Set)) Set {
	s := Reference()
	s.Name = name
	for _, f := range replace {
		f(&s)
	}
	return s
}

// The features that a set's kernels may use. Those of avx512 came together in
// Ice Lake and Zen 4; a machine that lacks one of them runs avx2.
var (
	hasAVX2   = cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasF16C && cpu.X86.HasBMI2 && cpu.X86.HasPOPCNT
	hasAVX512 = hasAVX2 && cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512CD &&
		cpu.X86.HasAVX512VBMI && cpu.X86.HasAVX512VBMI2 && cpu.X86.HasAVX512BITALG && cpu.X86.HasAVX512VPOPCNTDQ
)
