package kernels

// The ternary types: values −1, 0 and 1 of one f16 scale a block.

// powersOf3 are what five digits of base 3 in a byte weigh, the first most.
var powersOf3 = [5]byte{1, 3, 9, 27, 81}

// digit is one of five ternary digits of a byte that holds them as a fraction of
// 256, rounded up: the digit is the whole part of three times what is left.
func digit(b byte, n int) int { return int(uint16(b*powersOf3[n])*3>>8) - 1 }

// decodeTQ1 reads digits of 32 bytes, five a byte, then of 16 bytes, then four a
// byte of 4.
func decodeTQ1(dst []float32, src []byte) {
	d := half(src[52:])
	for n := range 5 {
		for j := range 32 {
			dst[32*n+j] = d * float32(digit(src[j], n))
		}
		for j := range 16 {
			dst[160+16*n+j] = d * float32(digit(src[32+j], n))
		}
	}
	for n := range 4 {
		for j := range 4 {
			dst[240+4*n+j] = d * float32(digit(src[48+j], n))
		}
	}
}

func decodeTQ2(dst []float32, src []byte) {
	d := half(src[64:])
	for j, b := range src[:64] {
		for n := range 4 {
			dst[128*(j/32)+32*n+j%32] = d * float32(int(b>>(2*n)&3)-1)
		}
	}
}
