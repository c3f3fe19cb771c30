package kernels

// Blocks of 256, the k-quants: sixteen scales of 16 or eight of 32, themselves
// quantized.

func decodeQ2K(dst []float32, src []byte) {
	scales, qs := src[:16], src[16:80]
	d, dmin := half(src[80:]), half(src[82:])
	for g := range 16 {
		dl, ml := d*float32(scales[g]&15), dmin*float32(scales[g]>>4)
		q, shift := qs[32*(g/8)+16*(g%2):], 2*(g%8/2)
		for l := range 16 {
			dst[16*g+l] = float32(dl*float32(q[l]>>shift&3)) - ml
		}
	}
}

func decodeQ3K(dst []float32, src []byte) {
	mask, qs, packed := src[:32], src[32:96], src[96:108]
	d := half(src[108:])
	for g := range 16 {
		low := packed[g%8] >> (4 * (g / 8)) & 15
		up := packed[8+g%4] >> (2 * (g / 4)) & 3
		dl := d * float32(int(low|up<<4)-32)
		q, m, shift := qs[32*(g/8)+16*(g%2):], mask[16*(g%2):], 2*(g%8/2)
		for l := range 16 {
			v := int(q[l] >> shift & 3)
			if m[l]>>(g/2)&1 == 0 {
				v -= 4
			}
			dst[16*g+l] = dl * float32(v)
		}
	}
}

// scaleMin unpacks the six bits of scale and minimum j of Q4_K and Q5_K.
func scaleMin(p []byte, j int) (scale, min byte) {
	if j < 4 {
		return p[j] & 63, p[j+4] & 63
	}
	return p[j+4]&15 | p[j-4]>>6<<4, p[j+4]>>4 | p[j]>>6<<4
}

func decodeQ4K(dst []float32, src []byte) {
	d, dmin := half(src), half(src[2:])
	packed, qs := src[4:16], src[16:]
	for j := range 8 {
		s, m := scaleMin(packed, j)
		dl, ml := d*float32(s), dmin*float32(m)
		shift := 4 * (j % 2)
		for l, b := range qs[32*(j/2) : 32*(j/2)+32] {
			dst[32*j+l] = float32(dl*float32(b>>shift&15)) - ml
		}
	}
}

func decodeQ5K(dst []float32, src []byte) {
	d, dmin := half(src), half(src[2:])
	packed, high, qs := src[4:16], src[16:48], src[48:]
	for j := range 8 {
		s, m := scaleMin(packed, j)
		dl, ml := d*float32(s), dmin*float32(m)
		shift := 4 * (j % 2)
		for l, b := range qs[32*(j/2) : 32*(j/2)+32] {
			dst[32*j+l] = float32(dl*float32(b>>shift&15|high[l]>>j&1<<4)) - ml
		}
	}
}

func decodeQ6K(dst []float32, src []byte) {
	low, high, scales := src[:128], src[128:192], src[192:208]
	d := half(src[208:])
	for n := range 2 {
		for k := range 4 {
			ql, qh := low[64*n+32*(k%2):], high[32*n:]
			for l := range 32 {
				q := int(ql[l]>>(4*(k/2))&15|qh[l]>>(2*k)&3<<4) - 32
				dl := d * float32(int8(scales[8*n+2*k+l/16]))
				dst[128*n+32*k+l] = dl * float32(q)
			}
		}
	}
}
