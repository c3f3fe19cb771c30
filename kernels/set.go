package kernels

import "slices"

// Set is one complete implementation of the kernels. It is a value that is
// handed to a job, never a global switch; its Name goes into the session
// record, so that a replay can say which code made a number.
type Set struct {
	Name string

	absMax        func(e Element, src []byte) uint32                                   // see absMaxRef
	blockAmax     func(e Element, src []byte, amax []uint32) (blocks int)              // see blockAmaxRef
	moments       func(e Element, cols int, data []byte, rows []rowMoments)            // see momentsRef
	nvfp4Choose   func(j *nvfp4Job, src []byte, amax []uint32, scales, choices []byte) // round to nearest; see nvfp4ChooseRef
	nvfp4List     func(j *nvfp4Job, src []byte, amax []uint32, scales, choices []byte) // a list of multipliers; see nvfp4ChooseRef
	nvfp4Sweep    func(j *nvfp4Job, src []byte, amax []uint32, scales, choices []byte) // all scales; see nvfp4ChooseRef
	nvfp4Weighted func(j *nvfp4Job, src []byte, amax []uint32, scales, choices []byte) // all scales, errors weighed; see nvfp4ChooseRef
	nvfp4Count    func(j *nvfp4Job, src []byte, amax []uint32, scales, choices []byte) // see nvfp4CountRef
	nvfp4Encode   func(j *nvfp4Job, src, scales, codes []byte)                         // see nvfp4EncodeRef

	rows    *rowKernels
	nibbles *nibbleKernels // none: codes of four bits are decoded by the definition
	gguf    []ggufBlocks   // by type; one without a kernel is decoded by the definition
	blocks  blockKernels
	gemm    gemmKernels
	grid    gridKernels
	convert convertKernels
	delta   deltaKernels
	factor  factorKernels
	gptq    gptqKernels
	fmaLoop fmaLoop
}

// Reference is the pure-Go set. It is the definition of every kernel and runs
// everywhere.
func Reference() Set {
	return Set{
		Name: "go", absMax: absMaxRef, blockAmax: blockAmaxRef, moments: momentsRef,
		nvfp4Choose: nvfp4ChooseRef, nvfp4List: nvfp4ChooseRef, nvfp4Sweep: nvfp4ChooseRef, nvfp4Weighted: nvfp4ChooseRef, nvfp4Count: nvfp4CountRef, nvfp4Encode: nvfp4EncodeRef,
		rows: &rowsRef, blocks: blocksRef, gemm: gemmRef, convert: convertRef, delta: deltaRef, grid: gridRef, factor: factorRef, gptq: gptqRef, fmaLoop: fmaLoopRef,
	}
}

// Available lists what this machine can run, the reference first, the fastest
// last.
func Available() []Set { return slices.Concat([]Set{Reference()}, archSets()) }

// Best is the fastest set that this machine can run.
func Best() Set {
	sets := Available()
	return sets[len(sets)-1]
}
