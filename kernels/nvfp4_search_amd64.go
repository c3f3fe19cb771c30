//go:build amd64 && !noasm

package kernels

// nvfp4SearchArgs is what a search in assembly needs to know of its job. The
// generator knows where its fields are.
type nvfp4SearchArgs struct {
	element    uint32
	convention uint32
	unit       float32 // nvfp4Job.unit
	divisor    float32 // rawScale divides amax by this first: 6, or nvfp4Job.divisor under ModelOpt,
	factor     float32 // multiplies by this (not under ModelOpt),
	divisor2   float32 // and divides by this (ModelOptStatic)
	zeroScale  float32 // the scale where a raw one rounds to 0

	// The candidates of a list as they are tried: the first, those that follow
	// it in the list, those that precede it from the back.
	ascending   uint32 // how many up to the end of the list
	candidates  uint32
	multipliers [MultBins]float32
	bins        [MultBins]uint32 // their places in the list
}

// searchArgs are the job's; ok is false for a search that only the reference
// does.
func (j *nvfp4Job) searchArgs() (a nvfp4SearchArgs, ok bool) {
	list := j.search.multipliers
	if j.divide || j.allZero || len(list) > MultBins {
		return a, false
	}
	a = nvfp4SearchArgs{
		element: uint32(j.element), convention: uint32(j.conv), unit: j.unit,
		divisor: MaxE2M1, factor: j.global, zeroScale: MinE4M3,
		ascending: uint32(len(list) - j.search.first), candidates: uint32(len(list)),
	}
	switch j.conv {
	case ModelOpt:
		a.divisor = j.divisor
	case ModelOptStatic:
		a.factor, a.divisor2 = j.search.top, j.divisor
	default:
		a.zeroScale = e4m3Values[codeCT8th]
	}
	for i, m := range list {
		at := i - j.search.first
		if at < 0 {
			at = len(list) - 1 - i
		}
		a.multipliers[at], a.bins[at] = m, uint32(i)
	}
	return a, true
}

// searchKernel is a search that does whole groups of blocks. It is no function
// value, so that its arguments need not go to the heap.
type searchKernel uint8

const (
	listAVX2 searchKernel = iota
	listAVX512
	sweepAVX2
	sweepAVX512
)

func (k searchKernel) lanes() int {
	if k == listAVX512 || k == sweepAVX512 {
		return 16
	}
	return 8
}

const maxSearchLanes = 16

func (k searchKernel) run(a *nvfp4SearchArgs, src *byte, amax *uint32, scales, choices *byte, groups int) {
	switch k {
	case listAVX2:
		nvfp4ListAVX2(&a.element, src, amax, scales, choices, groups)
	case listAVX512:
		nvfp4ListAVX512(&a.element, src, amax, scales, choices, groups)
	case sweepAVX2:
		nvfp4SweepAVX2(&a.element, src, amax, scales, choices, groups)
	case sweepAVX512:
		nvfp4SweepAVX512(&a.element, src, amax, scales, choices, groups)
	}
}

// choose is nvfp4ChooseRef. What is left over of whole groups goes through one
// more, filled up with zeros.
func (k searchKernel) choose(j *nvfp4Job, src []byte, amax []uint32, scales, choices []byte) {
	args, ok := j.searchArgs()
	if !ok {
		nvfp4ChooseRef(j, src, amax, scales, choices)
		return
	}
	n, lanes := len(amax), k.lanes()
	stride := BlockNVFP4 * j.element.Size()
	src, scales, choices = src[:n*stride], scales[:n], choices[:n]
	groups := n / lanes
	if groups > 0 {
		k.run(&args, &src[0], &amax[0], &scales[0], &choices[0], groups)
	}
	done := groups * lanes
	if done == n {
		return
	}
	var rest struct {
		src             [maxSearchLanes * BlockNVFP4 * 4]byte
		amax            [maxSearchLanes]uint32
		scales, choices [maxSearchLanes]byte
	}
	copy(rest.src[:], src[done*stride:])
	copy(rest.amax[:], amax[done:])
	k.run(&args, &rest.src[0], &rest.amax[0], &rest.scales[0], &rest.choices[0], 1)
	copy(scales[done:], rest.scales[:])
	copy(choices[done:], rest.choices[:])
}

func init() {
	avx2Kernels = append(avx2Kernels, func(s *Set) { s.nvfp4List, s.nvfp4Sweep = listAVX2.choose, sweepAVX2.choose })
	avx512Kernels = append(avx512Kernels, func(s *Set) { s.nvfp4List, s.nvfp4Sweep = listAVX512.choose, sweepAVX512.choose })
}
