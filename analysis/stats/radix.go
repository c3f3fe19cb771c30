package stats

// SortKeys sorts keys in ascending order by their bytes, least significant
// first, skipping bytes in which all keys agree. It takes time in proportion to
// the number of keys. scratch is used where it is long enough.
func SortKeys(keys, scratch []uint64) {
	if len(keys) < 2 {
		return
	}
	if len(scratch) < len(keys) {
		scratch = make([]uint64, len(keys))
	}
	var counts [8][256]uint32
	for _, k := range keys {
		for b := range counts {
			counts[b][byte(k>>(8*b))]++
		}
	}
	from, to := keys, scratch[:len(keys)]
	for b := range counts {
		count := &counts[b]
		if int(count[byte(keys[0]>>(8*b))]) == len(keys) {
			continue
		}
		var at uint32
		for v, n := range count {
			count[v], at = at, at+n
		}
		for _, k := range from {
			v := byte(k >> (8 * b))
			to[count[v]] = k
			count[v]++
		}
		from, to = to, from
	}
	if &from[0] != &keys[0] {
		copy(keys, from)
	}
}
