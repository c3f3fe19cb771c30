package kernels

// The searches of GGUF's quantizers try pairs of a scale and a minimum on a few
// values and compare squared errors. What a try costs, and what the best pair for
// its codes is, follows from five sums.

// gridTry is what values are tried with: t = (x − min)·inverse is rounded to the
// grid's nearest value l.
type gridTry struct{ inverse, min float32 }

// gridSums are weighted sums over the values of a try, with r = t − l what rounding
// leaves: of r², r·l, l², r and l. They are in units of the try's scale.
type gridSums struct {
	rr, rl, ll, r, l float32
	_                [3]float32
}

// gridKernels sum tries, out[i] what tries[i] gives. x and w have 16 or 32 elements.
type gridKernels struct {
	uniform func(out []gridSums, tries []gridTry, x, w []float32, low, high float32) // integers from low to high; see uniformSumsRef
	iq4     func(out []gridSums, tries []gridTry, x, w []float32)                    // iq4Values; see iq4SumsRef
}

var gridRef = gridKernels{uniform: uniformSumsRef, iq4: iq4SumsRef}

// gridLanes are eight partial sums of each kind: element i adds to lane i mod 8.
type gridLanes struct{ rr, rl, ll, r, l [8]float32 }

func (a *gridLanes) add(lane int, t, l, w float32) {
	r := t - l
	wr, wl := w*r, w*l
	a.rr[lane] += float32(wr * r)
	a.rl[lane] += float32(wr * l)
	a.ll[lane] += float32(wl * l)
	a.r[lane] += wr
	a.l[lane] += wl
}

// sums adds the lanes up, in a fixed order.
func (a *gridLanes) sums() gridSums {
	tree := func(v *[8]float32) float32 {
		return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]))
	}
	return gridSums{rr: tree(&a.rr), rl: tree(&a.rl), ll: tree(&a.ll), r: tree(&a.r), l: tree(&a.l)}
}

// roundMagic rounds what is added to it and taken off again to a whole number,
// ties to even.
const roundMagic = 3 << 22

// uniformCode is the whole number within low and high that is nearest to t.
func uniformCode(t, low, high float32) float32 {
	return float32(max(low, min(high, t))+roundMagic) - roundMagic
}

// uniformSumsRef is the definition of gridKernels.uniform.
func uniformSumsRef(out []gridSums, tries []gridTry, x, w []float32, low, high float32) {
	for i, try := range tries {
		var a gridLanes
		for k, v := range x {
			t := float32(v-try.min) * try.inverse
			a.add(k%8, t, uniformCode(t, low, high), w[k])
		}
		out[i] = a.sums()
	}
}

// iq4Halves are the bounds between iq4Values; a value on a bound goes up.
var iq4Halves = [15]float32{-115.5, -93.5, -74, -57, -42, -28.5, -16, -4.5, 7, 19, 31.5, 45.5, 61, 79, 101}

// iq4Indices is how many bounds are not above k/2, for k from −254 on.
var iq4Indices = func() (list [481]byte) {
	for i := range list {
		for _, h := range iq4Halves {
			if 2*h <= float32(i-254) {
				list[i]++
			}
		}
	}
	return list
}()

// iq4Code is the index of the value that is nearest to t.
func iq4Code(t float32) byte {
	t = 2 * max(-127, min(113, t))
	k := int(t)
	if float32(k) > t {
		k-- // towards −∞; the bounds are whole numbers here
	}
	return iq4Indices[k+254]
}

// iq4SumsRef is the definition of gridKernels.iq4.
func iq4SumsRef(out []gridSums, tries []gridTry, x, w []float32) {
	for i, try := range tries {
		var a gridLanes
		for k, v := range x {
			t := float32(v-try.min) * try.inverse
			a.add(k%8, t, iq4Values[iq4Code(t)], w[k])
		}
		out[i] = a.sums()
	}
}

// error is the weighted squared error of a try as it is, given its scale.
func (s *gridSums) error(scale float64) float64 { return float64(s.rr) * scale * scale }

// fitScale is the relative change of the scale that suits the codes of a try best,
// and the error then, in units of the scale before.
func (s *gridSums) fitScale() (change, rest float64) {
	if s.ll == 0 {
		return 0, float64(s.rr)
	}
	change = float64(s.rl) / float64(s.ll)
	return change, float64(s.rr) - change*float64(s.rl)
}

// fitBoth is fitScale where the minimum may move too, by so many scales; weight is
// the sum of all weights.
func (s *gridSums) fitBoth(weight float64) (change, shift, rest float64) {
	rl, ll, r, l := float64(s.rl), float64(s.ll), float64(s.r), float64(s.l)
	det := ll*weight - l*l
	if !(det > 1e-6*ll*weight) { // one code throughout: only the minimum can move
		shift = r / weight
		return 0, shift, float64(s.rr) - shift*r
	}
	change, shift = (rl*weight-r*l)/det, (ll*r-l*rl)/det
	return change, shift, float64(s.rr) - change*rl - shift*r
}

// fitScaleAt is fitScale where the minimum moves by a given shift.
func (s *gridSums) fitScaleAt(shift, weight float64) (change, rest float64) {
	rl, ll, r, l := float64(s.rl), float64(s.ll), float64(s.r), float64(s.l)
	if ll > 0 {
		change = (rl - shift*l) / ll
	}
	return change, float64(s.rr) - 2*change*rl - 2*shift*r + change*change*ll + 2*change*shift*l + shift*shift*weight
}
