package kernels

import "math"

// The oracle quantizes to NVFP4 the slow way: roundings by looking at every
// code, searches by trying every candidate. It shares no code with the kernels
// but the tables of values.

// oracleNearest is the index of the value nearest to x ≥ 0, ties to the even
// index.
func oracleNearest(x float64, values []float32) int {
	best := 0
	for i, v := range values {
		d, b := math.Abs(float64(v)-x), math.Abs(float64(values[best])-x)
		if d < b || d == b && i%2 == 0 && best%2 == 1 {
			best = i
		}
	}
	return best
}

func oracleE4M3(x float32) byte {
	if x > 448 {
		x = 448
	}
	return byte(oracleNearest(float64(x), e4m3Values[:127]))
}

func oracleE2M1(x float32) byte {
	if x != x {
		return 0
	}
	code := byte(oracleNearest(math.Min(math.Abs(float64(x)), 6), e2m1Values[:8]))
	if x < 0 {
		code |= 8
	}
	return code
}

// oracleNearestE2M1 is the E2M1 value nearest to x ≥ 0.
func oracleNearestE2M1(x float64) float32 {
	return e2m1Values[oracleNearest(math.Min(x, 6), e2m1Values[:8])]
}

type oracle struct {
	conv   Convention
	method NVFP4Method
	global float32
	amax   float32 // ModelOptStatic's
	top    float32
	zero   bool // an all-zero matrix without a global scale given
}

func newOracle(w []float32, o NVFP4Options) oracle {
	or := oracle{conv: o.Convention, method: o.Method, top: 448, global: o.GlobalScale}
	if o.Method == NVFP4FourOverSix {
		if or.top = 256; o.Convention == ModelOpt {
			or.conv = ModelOptStatic
		}
	}
	for _, v := range w {
		if a := float32(math.Abs(float64(v))); a <= math.MaxFloat32 && a > or.amax {
			or.amax = a
		}
	}
	or.zero = or.amax == 0 && o.GlobalScale == 0
	switch or.conv {
	case ModelOpt, ModelOptStatic:
		if o.GlobalScale != 0 {
			or.amax = o.GlobalScale * (6 * or.top)
			break
		}
		if or.zero {
			or.amax = 6 * or.top
		}
		if or.global = or.amax / (6 * or.top); or.global == 0 {
			or.global = 0x1p-149
		}
		for 6*or.step(0x7e) > math.MaxFloat32 {
			or.global = math.Nextafter32(or.global, 0)
		}
	case CT32, CT:
		if o.GlobalScale != 0 {
			break
		}
		if or.conv == CT32 {
			or.global = 6 * or.top * (1 / or.amax)
		} else {
			r := BF16ToF32(F32ToBF16(1 / or.amax))
			or.global = BF16ToF32(F32ToBF16(6 * or.top * r))
		}
		if or.global > math.MaxFloat32 {
			or.global = 1
		}
		if 6*or.step(0x7e) > math.MaxFloat32 {
			// Down to where it overflows and back by one, which is the bound
			// wherever this started.
			or.global = 8e-36
			for 6*or.step(0x7e) <= math.MaxFloat32 {
				or.global = math.Nextafter32(or.global, 0)
			}
			or.global = math.Nextafter32(or.global, 1)
		}
	}
	return or
}

// scale is the block scale for an amax.
func (or oracle) scale(amax float32) byte {
	switch or.conv {
	case ModelOpt, ModelOptStatic:
		var t float32
		if or.conv == ModelOpt {
			t = amax / (6 * or.global)
		} else {
			t = amax / 6
		}
		if t == 0 {
			t = 1
		}
		if or.conv == ModelOptStatic {
			t *= or.top
			t /= or.amax / 6
		}
		if t < 0x1p-9 {
			t = 0x1p-9
		}
		return oracleE4M3(t)
	default:
		a := amax / 6
		if or.conv == CT {
			a = BF16ToF32(F32ToBF16(a))
		}
		if c := oracleE4M3(or.global * a); c != 0 {
			return c
		}
		return oracleE4M3(0.125)
	}
}

func (or oracle) step(scale byte) float32 {
	if or.conv == CT || or.conv == CT32 {
		return E4M3ToF32(scale) / or.global
	}
	return E4M3ToF32(scale) * or.global
}

// divides says whether searches divide by the step.
func (or oracle) divides() bool {
	scale2 := float64(or.global)
	if or.conv == CT || or.conv == CT32 {
		scale2 = 1 / scale2
	}
	return scale2 < 0x1p-100 || scale2 > 0x1p100
}

// zeroed says whether v gets code 0 under a scale, ties included.
func (or oracle) zeroed(v float32, scale byte) bool {
	if or.divides() {
		return v/or.step(scale) <= 0.25
	}
	r := 1 / E4M3ToF32(scale)
	return float64(v*or.unit())*float64(r) <= 0.25
}

func (or oracle) unit() float32 {
	if or.conv == CT || or.conv == CT32 {
		return or.global
	}
	return 1 / or.global
}

// err is the documented error of a block under a scale.
func (or oracle) err(w []float32, scale byte) float32 {
	step, s := or.step(scale), E4M3ToF32(scale)
	if or.divides() && step == 0 {
		return float32(math.Inf(1))
	}
	r := 1 / s
	var p [4]float32
	for i, v := range w {
		var d float32
		if or.divides() {
			x := v / step
			d = x - E2M1ToF32(oracleE2M1(x))
		} else {
			u := float32(math.Abs(float64(v))) * or.unit()
			n := oracleNearestE2M1(float64(u) * float64(r))
			ns := n * s
			d = u - ns
		}
		d2 := d * d
		p[i%4] += d2
	}
	sum := (p[0] + p[1]) + (p[2] + p[3])
	if or.divides() {
		s2 := s * s
		return sum * s2
	}
	return sum
}

// block gives the scale and the codes of one block, and the chosen bin.
func (or oracle) block(w []float32) (scale byte, codes []byte, choice int) {
	full := make([]float32, 16)
	var amax float32
	for i, v := range w {
		if a := float32(math.Abs(float64(v))); a <= math.MaxFloat32 {
			full[i] = v
			amax = max(amax, a)
		}
	}
	var multipliers []float32
	first := 0
	switch or.method {
	case NVFP4MSE:
		multipliers, first = []float32{0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4, 1.5}, 3
	case NVFP4MSEGE1:
		multipliers = []float32{1, 1.1, 1.2, 1.3, 1.4, 1.5}
	case NVFP4FourOverSix:
		multipliers = []float32{1, 1.5}
	}
	scale = or.scale(amax)
	switch {
	case or.zero && or.method == NVFP4Sweep:
		choice = 8
	case or.method == NVFP4Sweep:
		rtn := int(scale)
		best := float32(math.Inf(1))
		scale = 1
		for s := byte(1); s < 127 && !or.zeroed(amax, 1); s++ {
			if e := or.err(full, s); e < best {
				best, scale = e, s
			}
		}
		choice = min(max(int(scale)-rtn, -8), 7) + 8
		if amax == 0 {
			choice = 8
		}
	case len(multipliers) > 0:
		choice = first
		best := or.err(full, scale)
		for i, m := range multipliers {
			a := amax * m
			s := or.scale(a)
			if e := or.err(full, s); e < best {
				best, scale, choice = e, s, i
			}
		}
	}
	step := or.step(scale)
	codes = make([]byte, (len(w)+1)/2)
	for i := range w {
		var c byte
		if step != 0 {
			c = oracleE2M1(full[i] / step)
		}
		codes[i/2] |= c << (i % 2 * 4)
	}
	return scale, codes, choice
}

// oracleNVFP4 quantizes a matrix.
func oracleNVFP4(w []float32, rows, cols int, o NVFP4Options) (codes, scales []byte, global float32, choices [MultBins]int64) {
	or := newOracle(w, o)
	for r := range rows {
		for c := 0; c < cols; c += 16 {
			s, block, choice := or.block(w[r*cols+c : r*cols+min(c+16, cols)])
			scales = append(scales, s)
			codes = append(codes, block...)
			choices[choice]++
		}
	}
	return codes, scales, or.global, choices
}
