package model

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
)

// Sampling says how a token is chosen from logits.
type Sampling struct {
	Temperature float64 // 0 is greedy: the largest, of equal ones the first
	TopK        int     // 0: all
	TopP        float64 // the fewest tokens that hold this much; 0 and 1: all
	Seed        uint64
}

// Sampler chooses tokens. The same seed and logits give the same tokens.
type Sampler struct {
	s     Sampling
	rand  *rand.Rand
	keys  []uint64
	order []int32
	p     []float64
}

// NewSampler begins a sequence of choices.
func NewSampler(s Sampling) *Sampler {
	return &Sampler{s: s, rand: rand.New(rand.NewPCG(s.Seed, 0x9e3779b97f4a7c15))}
}

// Choose takes one of a row of logits.
func (s *Sampler) Choose(logits []float32) int32 {
	if s.s.Temperature <= 0 {
		return argmax(logits)
	}
	s.sort(logits)
	s.p = s.p[:0]
	if s.s.TopK > 0 {
		s.order = s.order[:min(s.s.TopK, len(s.order))]
	}
	var sum float64
	for _, i := range s.order {
		e := math.Exp(float64(logits[i]-logits[s.order[0]]) / s.s.Temperature)
		s.p, sum = append(s.p, e), sum+e
	}
	if s.s.TopP > 0 && s.s.TopP < 1 {
		held := 0.0
		for i, e := range s.p {
			if held += e; held >= s.s.TopP*sum {
				s.p, s.order, sum = s.p[:i+1], s.order[:i+1], held
				break
			}
		}
	}
	at := s.rand.Float64() * sum
	for i, e := range s.p {
		if at -= e; at < 0 {
			return s.order[i]
		}
	}
	return s.order[len(s.p)-1]
}

// sort orders tokens by falling logit, of equal ones the first, NaN last.
func (s *Sampler) sort(logits []float32) {
	s.keys, s.order = s.keys[:0], s.order[:0]
	for i, v := range logits {
		// The bits of floats, with negative ones turned around, are in their order.
		b := math.Float32bits(v + 0) // one zero
		if v != v {
			b = 0
		} else if b>>31 == 0 {
			b |= 1 << 31
		} else {
			b = ^b
		}
		s.keys = append(s.keys, uint64(^b)<<32|uint64(uint32(i)))
	}
	slices.Sort(s.keys)
	for _, k := range s.keys {
		s.order = append(s.order, int32(uint32(k)))
	}
}

func argmax(x []float32) int32 {
	most := 0
	for i, v := range x {
		if v > x[most] {
			most = i
		}
	}
	return int32(most)
}

// Generate goes on with a text until stop says so of a token or n tokens were
// made.
func Generate(ctx context.Context, d *Decoder, prompt []int32, n int, s *Sampler, stop func(id int32) bool) ([]int32, error) {
	var out []int32
	next := prompt
	var logits []float32
	for len(out) < n {
		x, err := d.Feed(ctx, next)
		if err != nil {
			return out, err
		}
		h := d.spec.Width()
		if logits, err = d.Logits(logits, x[len(x)-h:], 1); err != nil {
			return out, err
		}
		id := s.Choose(logits)
		out = append(out, id)
		if stop != nil && stop(id) {
			break
		}
		next = []int32{id}
	}
	return out, nil
}

// Draft is one token that an MTP module proposed.
type Draft struct {
	Position int // in the whole text
	Token    int32
	Accepted bool
}

// GenerateMTP is greedy Generate with one token drafted by an MTP module after
// every pass of the main model and checked by the next: the text is the same.
// Both must be empty.
func GenerateMTP(ctx context.Context, d *Decoder, m *MTP, prompt []int32, n int) (out []int32, drafts []Draft, passes int, err error) {
	return GenerateDrafted(ctx, d, m, prompt, n, 1, NewSampler(Sampling{}), nil)
}

// GenerateDrafted is Generate with up to k tokens drafted by an MTP module after
// every pass of the main model, and checked by the next, which takes them all: a
// draft stays where the sampler chooses the same token. It chooses of the same
// logits in the same order as without drafts, so the text is the same. No more are
// drafted than tokens are to be made. Both decoder and module must be empty.
func GenerateDrafted(ctx context.Context, d *Decoder, m *MTP, prompt []int32, n, k int, s *Sampler, stop func(id int32) bool) (out []int32, drafts []Draft, passes int, err error) {
	w, v := d.spec.Width(), d.spec.Vocab
	text := slices.Clone(prompt)
	ask := &Drafting{Text: m.text}
	next, more := prompt, n > 0
	var logits, normed []float32
	for more {
		start, rows := d.Len(), len(next)
		x, err := d.Feed(ctx, next)
		if err != nil {
			return out, drafts, passes, err
		}
		passes++
		first := rows - 1 - len(ask.Drafts) // of the prompt only the last
		if logits, err = d.Logits(logits, x[first*w:], rows-first); err != nil {
			return out, drafts, passes, err
		}
		kept := Accept(ask.Drafts, func(row int) (int32, bool) {
			id := s.Choose(logits[row*v:][:v])
			text, out = append(text, id), append(out, id)
			more = len(out) < n && (stop == nil || !stop(id))
			return id, more
		})
		for i, id := range ask.Drafts {
			drafts = append(drafts, Draft{Position: start + 1 + i, Token: id, Accepted: i < kept})
		}
		if !more {
			break
		}
		kept += first + 1
		d.Cut(start + kept)
		// The module sees every position that stays, with the token after it.
		normed = grow(normed, kept*w)
		if err := d.Normed(normed, x[:kept*w]); err != nil {
			return out, drafts, passes, err
		}
		ask.Normed, ask.Next, ask.K = normed, text[start+1:start+kept+1], min(k, n-len(out))
		if err := m.Draft(ctx, []*Drafting{ask}); err != nil {
			return out, drafts, passes, err
		}
		next = append([]int32{text[len(text)-1]}, ask.Drafts...)
	}
	return out, drafts, passes, nil
}
