package kernels

import (
	"encoding/binary"
	"math"
)

// naiveError is the weighted squared error of the plainest quantizer of a type that
// is searched: scales from the extremes of each group, rounded to what is stored,
// and the nearest value. ok is false where its scales cannot be stored.
func naiveError(typ GGUFType, x, w []float32) (sum float64, ok bool) {
	if w == nil {
		w = make([]float32, len(x))
		for i := range w {
			w[i] = 1
		}
	}
	switch typ {
	case GGUFQ4_K, GGUFQ5_K:
		return naiveMinima(x, w, map[GGUFType]float64{GGUFQ4_K: 15, GGUFQ5_K: 31}[typ])
	case GGUFQ6_K:
		values := make([]float64, 64)
		for i := range values {
			values[i] = float64(i - 32)
		}
		return naiveScales(x, w, 16, -128, 127, -32, values)
	case GGUFIQ4XS, GGUFIQ4NL:
		values := make([]float64, 16)
		for i := range values {
			values[i] = float64(iq4Values[i])
		}
		if typ == GGUFIQ4NL { // each block has a scale of its own
			ok = true
			for s := 0; s < len(x); s += 32 {
				e, can := naiveScales(x[s:s+32], w[s:s+32], 32, 1, 1, -127, values)
				sum, ok = sum+e, ok && can
			}
			return sum, ok
		}
		return naiveScales(x, w, 32, -32, 31, -127, values)
	case GGUFNVFP4:
		for s := 0; s < len(x); s += 16 {
			d := float64(E4M3ToF32(F32ToE4M3(largest(x[s:s+16]) / 6)))
			sum += nearestError(x[s:s+16], w[s:s+16], d, 0, []float64{-6, -4, -3, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 4, 6})
		}
		return sum, largest(x) <= 448*6
	}
	// The others have a plain encoder; its blocks are the oracle.
	block, size := typ.Block()
	e := typ.encoderOf()
	for c := 0; c < len(x); c += block {
		dst, out := make([]byte, size), make([]float32, block)
		if !e.plain(dst, x[c:c+block]) || DecodeGGUF(out, typ, dst) != nil {
			return 0, false
		}
		for i, q := range out {
			d := float64(x[c+i]) - float64(q)
			sum += float64(w[c+i]) * d * d
		}
	}
	return sum, true
}

// nearestError is the weighted error of the values nearest to x, by trying all.
func nearestError(x, w []float32, scale, min float64, values []float64) (sum float64) {
	for i, v := range x {
		least := math.Inf(1)
		for _, q := range values {
			d := float64(v) - scale*q - min
			least = math.Min(least, d*d)
		}
		sum += float64(w[i]) * least
	}
	return sum
}

func storedHalf(x float64) (float64, bool) {
	h := F32ToF16(float32(x))
	return float64(F16ToF32(h)), h&0x7fff < 0x7c00
}

// naiveScales has a scale of the utmost value over end in each group, and these in
// units of the largest one.
func naiveScales(x, w []float32, size int, low, high int, end float64, values []float64) (float64, bool) {
	scales := make([]float64, len(x)/size)
	var most float64
	for j := range scales {
		scales[j] = float64(utmost(x[j*size:(j+1)*size])) / end
		if math.Abs(scales[j]) > math.Abs(most) {
			most = scales[j]
		}
	}
	d, ok := storedHalf(most / float64(low))
	var sum float64
	for j, s := range scales {
		if d == 0 {
			s = 0
		} else {
			s = d * math.Max(float64(low), math.Min(float64(high), math.Round(s/d)))
		}
		sum += nearestError(x[j*size:(j+1)*size], w[j*size:(j+1)*size], s, 0, values)
	}
	return sum, ok
}

// naiveMinima has a scale and a minimum of the extremes in each group of 32.
func naiveMinima(x, w []float32, most float64) (float64, bool) {
	var scales, minima [8]float64
	var d, m float64
	for j := range scales {
		low, high := bounds(x[32*j : 32*j+32])
		low, high = min(low, 0), max(high, 0)
		scales[j], minima[j] = (float64(high)-float64(low))/most, -float64(low)
		d, m = math.Max(d, scales[j]/63), math.Max(m, minima[j]/63)
	}
	d, ok := storedHalf(d)
	m, okMin := storedHalf(m)
	values := make([]float64, int(most)+1)
	for i := range values {
		values[i] = float64(i)
	}
	whole := func(v, unit float64) float64 {
		if unit == 0 {
			return 0
		}
		return unit * math.Min(63, math.Round(v/unit))
	}
	var sum float64
	for j := range scales {
		sum += nearestError(x[32*j:32*j+32], w[32*j:32*j+32], whole(scales[j], d), -whole(minima[j], m), values)
	}
	return sum, ok && okMin
}

// floatsOf makes n finite values of bytes, whose first chooses a way: words as they
// are, or small numbers of one magnitude.
func floatsOf(raw []byte, n int) []float32 {
	x := make([]float32, n)
	if len(raw) < 5 {
		return x
	}
	how, raw := raw[0], raw[1:]
	for i := range x {
		var b [4]byte
		for k := range b {
			b[k] = raw[(4*i+k)%len(raw)]
		}
		v := math.Float32frombits(binary.LittleEndian.Uint32(b[:]))
		switch how % 4 {
		case 1:
			v = float32(int8(b[i%4])) / 64
		case 2:
			v = float32(math.Exp2(float64(int8(b[i%4]))/16)) * float32(1-2*int(b[3]&1))
		case 3:
			v = 1000 + float32(int8(b[i%4]))/1000
		}
		if v-v != 0 {
			v = 0
		}
		x[i] = v
	}
	return x
}
