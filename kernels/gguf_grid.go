package kernels

import "math"

// The searches of GGUF's quantizers try pairs of a scale and a minimum on a few
// values and compare squared errors. What a try costs, and what the best pair for
// its codes is, follows from five sums.

// gridTry is what values are tried with: t = (x − min)·inverse is rounded to the
// grid's nearest value l.
type gridTry struct{ inverse, min float32 }

// at is t of a value. Products are converted, here and below, so that none is fused
// with a sum: the same bits on every machine.
func (try *gridTry) at(v float32) float32 { return float32((v - try.min) * try.inverse) }

// gridSums are weighted sums over the values of a try, with r = t − l what rounding
// leaves: of r², r·l, l², r and l. They are in units of the try's scale.
type gridSums struct {
	rr, rl, ll, r, l float32
	_                [3]float32
}

// gridKernels sum tries, out[i] what tries[i] gives. x and w have 16 or 32 elements.
type gridKernels struct {
	uniform func(out []gridSums, tries []gridTry, x, w []float32, low, high float32)  // integers from low to high; see uniformSumsRef
	levels  func(out []gridSums, tries []gridTry, x, w []float32, levels *gridLevels) // see levelSumsRef
}

var gridRef = gridKernels{uniform: uniformSumsRef, levels: levelSumsRef}

// gridLanes are eight partial sums of each kind: element i adds to lane i mod 8.
type gridLanes struct{ rr, rl, ll, r, l [8]float32 }

func (a *gridLanes) add(lane int, t, l, w float32) {
	r := t - l
	wr, wl := float32(w*r), float32(w*l)
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
			t := try.at(v)
			a.add(k%8, t, uniformCode(t, low, high), w[k])
		}
		out[i] = a.sums()
	}
}

// gridLevels are up to sixteen values that rise, with the bounds between them; a value
// on a bound goes up. What is missing of sixteen repeats the last.
type gridLevels struct {
	bounds [16]float32
	values [16]float32
	spread [15][8]float32 // each bound as often as a vector has lanes
}

func newGridLevels(values []float32) *gridLevels {
	l := &gridLevels{}
	for i := range l.values {
		l.bounds[i] = float32(math.Inf(1))
		if i+1 < len(values) {
			l.bounds[i] = (values[i] + values[i+1]) / 2
		}
		l.values[i] = values[min(i, len(values)-1)]
	}
	for i := range l.spread {
		for k := range l.spread[i] {
			l.spread[i][k] = l.bounds[i]
		}
	}
	return l
}

var (
	levelsIQ4  = newGridLevels(iq4Values[:])
	levelsE2M1 = newGridLevels([]float32{-6, -4, -3, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 4, 6})
)

// code is how many bounds are not above t, without a branch.
func (l *gridLevels) code(t float32) byte {
	code := one(t >= l.bounds[7]) << 3
	code += one(t >= l.bounds[(code+3)&15]) << 2
	code += one(t >= l.bounds[(code+1)&15]) << 1
	return code + one(t >= l.bounds[code&15])
}

// one is 1 where b holds, and 0.
func one(b bool) (n byte) {
	if b {
		n = 1
	}
	return n
}

// levelSumsRef is the definition of gridKernels.levels.
func levelSumsRef(out []gridSums, tries []gridTry, x, w []float32, levels *gridLevels) {
	for i, try := range tries {
		var a gridLanes
		for k, v := range x {
			t := try.at(v)
			a.add(k%8, t, levels.values[levels.code(t)], w[k])
		}
		out[i] = a.sums()
	}
}

// loss is the weighted squared error of a try as it is, given its scale.
func (s *gridSums) loss(scale float64) float64 { return float64(float64(s.rr) * scale * scale) }

// The fits below solve for the change of a try's scale and the shift of its minimum, in
// scales, that suit its codes best, and give the error then, in units of the scale
// before.

// fitScale changes the scale alone.
func (s *gridSums) fitScale() (change, rest float64) {
	if s.ll == 0 {
		return 0, float64(s.rr)
	}
	change = float64(s.rl) / float64(s.ll)
	return change, float64(s.rr) - float64(change*float64(s.rl))
}

// fitBoth changes the scale and the minimum; weight is the sum of all weights.
func (s *gridSums) fitBoth(weight float64) (change, shift, rest float64) {
	rl, ll, r, l := float64(s.rl), float64(s.ll), float64(s.r), float64(s.l)
	det := float64(ll*weight) - float64(l*l)
	if !(det > 1e-6*ll*weight) { // one code throughout: only the minimum can move
		shift = r / weight
		return 0, shift, float64(s.rr) - float64(shift*r)
	}
	change, shift = (float64(rl*weight)-float64(r*l))/det, (float64(ll*r)-float64(l*rl))/det
	return change, shift, float64(s.rr) - float64(change*rl) - float64(shift*r)
}

// fitScaleAt changes the scale where the minimum moves by a given shift.
func (s *gridSums) fitScaleAt(shift, weight float64) (change, rest float64) {
	rl, ll, r, l := float64(s.rl), float64(s.ll), float64(s.r), float64(s.l)
	if ll > 0 {
		change = (rl - float64(shift*l)) / ll
	}
	rest = float64(s.rr) - float64(2*change*rl) - float64(2*shift*r)
	rest += float64(change * change * ll)
	rest += float64(2 * change * shift * l)
	return change, rest + float64(shift*shift*weight)
}
