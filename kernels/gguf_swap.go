package kernels

import "fmt"

// ggufHalves are the byte offsets of two-byte fields in a block: its f16, and what
// ggml's structures declare as words of 16 bits (indices of IQ2_XXS and IQ2_XS, high
// bits of IQ1_S and IQ4_XS). IQ1_M has its f16 spread over the words of its scales.
var ggufHalves = map[GGUFType][]int{
	GGUFQ4_0: {0}, GGUFQ4_1: {0, 2}, GGUFQ5_0: {0}, GGUFQ5_1: {0, 2}, GGUFQ8_0: {0},
	GGUFQ2_K: {80, 82}, GGUFQ3_K: {108}, GGUFQ4_K: {0, 2}, GGUFQ5_K: {0, 2}, GGUFQ6_K: {208},
	GGUFIQ4NL: {0}, GGUFIQ4XS: {0, 2}, GGUFMXFP4: {}, GGUFNVFP4: {},
	GGUFIQ2XXS: words(0, 33), GGUFIQ2XS: words(0, 33), GGUFIQ2S: {0}, GGUFIQ3XXS: {0}, GGUFIQ3S: {0},
	GGUFIQ1S: append(words(34, 8), 0), GGUFIQ1M: words(48, 4), GGUFTQ1_0: {52}, GGUFTQ2_0: {64},
}

// words are the offsets of n words from the first on.
func words(first, n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = first + 2*i
	}
	return list
}

// SwapGGUF turns blocks of a big-endian file into little-endian ones, in place:
// the f16 fields within blocks, and elements of two, four or eight bytes. Bit
// fields of Q5_0 and Q5_1 are bytes in every file.
func SwapGGUF(t GGUFType, raw []byte) error {
	i, ok := t.info()
	if !ok || len(raw)%i.bytes != 0 {
		return fmt.Errorf("kernels: blocks of GGUF %s cannot be turned", t)
	}
	if i.block == 1 {
		for at := 0; at < len(raw); at += i.bytes {
			e := raw[at : at+i.bytes]
			for a, b := 0, len(e)-1; a < b; a, b = a+1, b-1 {
				e[a], e[b] = e[b], e[a]
			}
		}
		return nil
	}
	halves, ok := ggufHalves[t]
	if !ok {
		return fmt.Errorf("kernels: blocks of GGUF %s cannot be turned", t)
	}
	for at := 0; at < len(raw); at += i.bytes {
		for _, h := range halves {
			raw[at+h], raw[at+h+1] = raw[at+h+1], raw[at+h]
		}
	}
	return nil
}
