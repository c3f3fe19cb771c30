package model

// WalkMemory are the bytes that a walk takes, by what takes them.
type WalkMemory struct {
	States  int64 // what is kept of every row: hidden states, and in layers with experts what goes into and comes out of them
	Weights int64 // of layers without their experts: of the one that comes next, of the one behind it, and of what is passed
	Experts int64 // that are read at a time
	Work    int64 // what a layer is computed in
}

// Total is the sum.
func (m WalkMemory) Total() int64 { return m.States + m.Weights + m.Experts + m.Work }

// WalkNeeds are those of a walk over so many tokens, the longest chunk having
// chunk of them, whose stored weights take bits each at most (0: 16). Wave 0 of the
// options stands for one expert.
func WalkNeeds(s *Spec, rows int64, chunk int, bits float64, o WalkOptions) WalkMemory {
	if bits <= 0 {
		bits = 16
	}
	var m WalkMemory
	h, width, threads := int64(s.Hidden), int64(s.Width()), int64(threads(o.Threads))
	tile, alone := int64(tileRows), int64(aloneRows)
	if o.Tile > 0 {
		tile, alone = int64(o.Tile), int64(o.Tile)
	}
	// Tiles end where a chunk does.
	tile, alone = min(tile+int64(chunk), rows), min(alone+int64(chunk), rows)
	states := int64(1 + min(len(s.MTP), 2))
	along, outer := s.along()
	if s.PerLayer != nil {
		along += 4 * width // a look at maps behind the MLP takes a copy
	}
	var wide, single, row, wave int64
	body := int64(float64(outer) * bits / 8)
	ropes := map[Rope]bool{}
	for _, layers := range [][]Layer{s.Layers, s.MTP} {
		for i := range layers {
			l := &layers[i]
			n, w, one := l.weights(s), l.wide(s, tile), l.wide(s, alone)+4*width*alone // and a look's copy
			if l.MTP {
				in := 4 * (2*h + width + max(2*h, width)) // what goes into the module, and into its projections
				w, one = w+in*tile, one+in*alone
			}
			if e := l.MoE; e != nil {
				w, one = w+4*h*expertRows, one+4*h*expertRows
				row = max(row, 3*4*h+4*int64(e.Experts)+48+16*int64(e.TopK)+l.besideBytes(s))
				each := int64(float64(expertBytes(s, e)) * max(bits/16, 1))
				wave = max(wave, min(max(o.Wave, each), each*int64(e.Experts)))
			}
			body, wide, single = max(body, int64(float64(n)*bits/8)), max(wide, w), max(single, one)
			for _, r := range l.mixer().ropes() {
				ropes[*r] = true
			}
		}
	}
	wide, single = max(wide, s.enteringBytes()), max(single, s.enteringBytes())
	m.States = rows * (states*4*width + 4 + 8 + row + along + s.mixBytes())
	m.Weights, m.Experts = 3*body, 2*wave
	m.Work = max(single, wide) + (threads-1)*wide + threads*workBytes
	for r := range ropes {
		m.Work += 4 * int64(r.Dim) * int64(chunk)
	}
	return m
}
