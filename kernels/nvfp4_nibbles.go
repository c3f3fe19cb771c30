package kernels

// nibbleCounts counts nibbles by their bits, as is quick with vectors: entry s
// holds, in eight parts, how many have all the bits of s. Entry 0 is not used;
// how many there are in all is in nibbleCounts.total.
type nibbleCounts struct {
	having [16][8]uint64
	total  int64
	rest   [256]byte // for a kernel that takes so many bytes at a time
}

// addTo adds how often each nibble came.
func (c *nibbleCounts) addTo(counts []int64) {
	var n [16]int64
	n[0] = c.total
	for s := 1; s < 16; s++ {
		for _, part := range c.having[s] {
			n[s] += int64(part)
		}
	}
	// Those that have all bits of s less those that have another one too.
	for bit := 1; bit < 16; bit <<= 1 {
		for s := range n {
			if s&bit == 0 {
				n[s] -= n[s|bit]
			}
		}
	}
	for s, v := range n {
		counts[s] += v
	}
}
