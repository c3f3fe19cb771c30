package model

import "math"

// RopeKind says how positions are stretched.
type RopeKind uint8

// Kinds of rope scaling.
const (
	RopePlain RopeKind = iota
	RopeLinear
	RopeDynamic
	RopeLlama3
	RopeYarn
	RopeProportional // the first Turned pairs rotate, at the frequencies of all Dim channels
)

// Rope is rotary position embedding of Dim channels, which are the first of a
// head or, interleaved or not, the last ones of a low-rank head.
type Rope struct {
	Kind        RopeKind
	Dim         int
	Theta       float64
	Interleaved bool // neighbours rotate together, not halves
	Factor      float64
	OriginalMax int
	Max         int     // max_position_embeddings, for RopeDynamic
	LowFreq     float64 // llama3
	HighFreq    float64
	BetaFast    float64 // yarn
	BetaSlow    float64
	Untruncated bool    // yarn's bounds are not rounded
	Turned      int     // proportional
	Attention   float64 // what cosine and sine are multiplied by
}

// Frequencies are the angles a position, one for each pair of channels, for a
// pass over length tokens.
//
// linear: f/factor. proportional: 0 for pairs that stay. dynamic: θ' = θ·(factor·T/M − (factor−1))^(d/(d−2)) with T
// the larger of M and length. llama3 and yarn as their papers' authors published
// them (Llama 3.1; YaRN, arXiv 2309.00071).
func (r Rope) Frequencies(length int) []float64 {
	n := r.Dim / 2
	theta := r.Theta
	if r.Kind == RopeDynamic && r.Dim > 2 {
		t := float64(max(length, r.Max))
		theta *= math.Pow(r.Factor*t/float64(r.Max)-(r.Factor-1), float64(r.Dim)/float64(r.Dim-2))
	}
	out := make([]float64, n)
	for i := range out {
		f := math.Pow(theta, -2*float64(i)/float64(r.Dim))
		switch r.Kind {
		case RopeLinear:
			f /= r.Factor
		case RopeLlama3:
			f = r.llama3(f)
		case RopeYarn:
			f = r.yarn(f, i)
		case RopeProportional:
			if f /= r.Factor; i >= r.Turned {
				f = 0
			}
		}
		out[i] = f
	}
	return out
}

func (r Rope) llama3(f float64) float64 {
	wave, l := 2*math.Pi/f, float64(r.OriginalMax)
	switch {
	case wave < l/r.HighFreq:
		return f
	case wave > l/r.LowFreq:
		return f / r.Factor
	}
	s := (l/wave - r.LowFreq) / (r.HighFreq - r.LowFreq)
	return (1-s)*f/r.Factor + s*f
}

func (r Rope) yarn(f float64, i int) float64 {
	bound := func(turns float64) float64 {
		return float64(r.Dim) * math.Log(float64(r.OriginalMax)/(2*math.Pi*turns)) / (2 * math.Log(r.Theta))
	}
	low, high := bound(r.BetaFast), bound(r.BetaSlow)
	if !r.Untruncated {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, float64(r.Dim-1))
	if low == high {
		high += 0.001
	}
	ramp := min(max((float64(i)-low)/(high-low), 0), 1)
	return f/r.Factor*ramp + f*(1-ramp)
}

// angles are the cosines and sines of positions, n of each a position: one for each
// pair that rotates.
type angles struct {
	n, length int
	cos, sin  []float32
}

// anglesFrom makes the angles of positions 0 to length−1 in a text of span
// tokens. Like the peers it takes the product of position and frequency in f32.
func (r Rope) anglesFrom(length, span int) *angles {
	freq := r.Frequencies(span)
	if r.Kind == RopeProportional {
		freq = freq[:r.Turned]
	}
	a := &angles{n: len(freq), length: length, cos: make([]float32, length*len(freq)), sin: make([]float32, length*len(freq))}
	for p := range length {
		for i, f := range freq {
			x := float64(float32(p) * float32(f))
			a.cos[p*a.n+i] = float32(math.Cos(x) * r.Attention)
			a.sin[p*a.n+i] = float32(math.Sin(x) * r.Attention)
		}
	}
	return a
}

// ropes are the angles that a pass has made so far, by rope and, where that
// matters, by the length of the text.
type ropes map[ropeOf]*angles

type ropeOf struct {
	rope Rope
	span int
}

func (r *Rope) key(span int) ropeOf {
	if r.Kind != RopeDynamic {
		return ropeOf{*r, 0}
	}
	return ropeOf{*r, max(span, r.Max)}
}

// make makes the angles that sequences need and that are not there yet.
func (m *ropes) make(r *Rope, seqs []sequence) {
	if *m == nil {
		*m = ropes{}
	}
	longest := 0
	for _, s := range seqs {
		longest = max(longest, s.past+s.n)
	}
	for _, s := range seqs {
		span := s.past + s.n
		key := r.key(span)
		if a := (*m)[key]; a != nil && a.length >= span {
			continue
		}
		length := longest
		if s.cache != nil { // room for what is decoded next
			length = (span + 255) / 256 * 256
		}
		if key.span > 0 {
			length = span
		}
		(*m)[key] = r.anglesFrom(length, key.span)
	}
}

// of are the angles of a sequence.
func (m ropes) of(r *Rope, s sequence) *angles { return m[r.key(s.past+s.n)] }

// rotate turns the Dim channels of v by the angles of a position.
func (r Rope) rotate(v []float32, a *angles, position int) {
	cos, sin := a.cos[position*a.n:][:a.n], a.sin[position*a.n:][:a.n]
	if r.Interleaved {
		for i := range cos {
			x, y := v[2*i], v[2*i+1]
			v[2*i], v[2*i+1] = x*cos[i]-y*sin[i], y*cos[i]+x*sin[i]
		}
		return
	}
	half := r.Dim / 2
	for i := range cos {
		x, y := v[i], v[i+half]
		v[i], v[i+half] = x*cos[i]-y*sin[i], y*cos[i]+x*sin[i]
	}
}

// back turns neighbouring pairs of the Dim channels of v back by the angles of a
// position.
func (r Rope) back(v []float32, a *angles, position int) {
	cos, sin := a.cos[position*a.n:][:a.n], a.sin[position*a.n:][:a.n]
	for i := range cos {
		x, y := v[2*i], v[2*i+1]
		v[2*i], v[2*i+1] = float32(x*cos[i])+float32(y*sin[i]), float32(y*cos[i])-float32(x*sin[i])
	}
}
