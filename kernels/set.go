package kernels

import "slices"

// Set is one complete implementation of the kernels. It is a value that is
// handed to a job, never a global switch; its Name goes into the session
// record, so that a replay can say which code made a number.
type Set struct {
	Name string

	absMax      func(e Element, src []byte) uint32                        // see absMaxRef
	nvfp4Blocks func(j *nvfp4Job, src, codes, scales []byte) (blocks int) // see nvfp4BlocksRef
}

// Reference is the pure-Go set. It is the definition of every kernel and runs
// everywhere.
func Reference() Set { return Set{Name: "go", absMax: absMaxRef, nvfp4Blocks: nvfp4BlocksRef} }

// Available lists what this machine can run, the reference first, the fastest
// last.
func Available() []Set { return slices.Concat([]Set{Reference()}, archSets()) }

// Best is the fastest set that this machine can run.
func Best() Set {
	sets := Available()
	return sets[len(sets)-1]
}

// archSets are the sets for this architecture, slowest first; there is none
// beside the reference.
func archSets() []Set { return nil }
