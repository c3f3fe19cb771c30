package model

import (
	"fmt"

	"quantscope/quant/topology"
)

// Workload is what a pass is planned for.
type Workload struct {
	Chunk   int     // tokens of the longest chunk
	Parties int     // sources, each with hidden states of its own
	Threads int     // 0: all processors
	Bits    float64 // that a stored weight takes at most, scales included; 0: 16
	PerRow  int64   // bytes that the caller keeps of each token beside the pass
}

// Budget is how a pass stays within its memory: how many tokens go in a group of
// chunks, and values for Options.
type Budget struct {
	Tokens int
	Wave   int64
	Tile   int
}

// Apply sets what a budget says in options.
func (b Budget) Apply(o *Options) { o.Wave, o.Tile = b.Wave, b.Tile }

// MemoryError says that not even one chunk fits.
type MemoryError struct{ Need, Have int64 }

func (e *MemoryError) Error() string {
	return fmt.Sprintf("model: a pass over one chunk takes %d bytes of memory, and may take %d", e.Need, e.Have)
}

// Plan shares mem bytes out among a layer's weights, read twice ahead of their
// use, the experts of a wave, what threads compute in, and the hidden states of as
// many tokens as then fit. Who keeps the program within mem sets the collector's limit to it. The
// head's weights, which are read after the pass, are
// the caller's.
func Plan(spec *Spec, w Workload, mem int64) (Budget, error) {
	w.Threads = threads(w.Threads)
	if w.Bits <= 0 {
		w.Bits = 16
	}
	b, err := planWith(spec, w, mem, tileRows)
	if err == nil && b.Tokens >= 4*tileRows {
		return b, nil
	}
	// With every text alone there is less to compute in, and more room for texts.
	if less, err := planWith(spec, w, mem, 1); err != nil || less.Tokens > b.Tokens {
		return less, err
	}
	return b, err
}

// slack is the part of the memory that is left to what is garbage and not yet
// collected.
const slack = 16

// planWith is Plan with tiles of so many rows.
func planWith(spec *Spec, w Workload, mem int64, tile int) (Budget, error) {
	fixed, row := spec.needs(w, tile)
	least, all, copies := spec.experts(w)
	one := row * int64(max(w.Chunk, 1))
	have := mem - mem/slack
	if need := fixed + copies*least + one; need > have {
		whole := need + need/(slack-1)
		for whole-whole/slack < need {
			whole++
		}
		return Budget{}, &MemoryError{whole, mem}
	}
	b := Budget{Tile: tile, Wave: least}
	// A quarter of what is left lets more experts work beside each other.
	if all > 0 {
		b.Wave = min(max((have-fixed-one)/4/copies, least), all)
	}
	b.Tokens = int(min((have-fixed-copies*b.Wave)/row, 1<<30))
	return b, nil
}

// workBytes is what a thread's products pack into and what its scores take.
const workBytes = 4 << 20

// needs are the bytes of a pass that do not depend on how many tokens it has, and
// those of a token.
func (s *Spec) needs(w Workload, tile int) (fixed, row int64) {
	h := int64(s.Hidden)
	along, outer := s.along()
	row = (4*int64(s.Width())+along)*int64(max(w.Parties, 1)) + 16 + w.PerRow + s.mixBytes() // and the token, and its square
	rows := int64(max(tile, 1) + w.Chunk)
	wide, experts := int64(0), int64(0)
	body := int64(float64(outer) * w.Bits / 8)
	var ropes = map[Rope]bool{}
	for i := range s.Layers {
		l := &s.Layers[i]
		body = max(body, int64(float64(l.weights(s))*w.Bits/8))
		wide = max(wide, l.wide(s, rows))
		if m := l.MoE; m != nil {
			// Normed and mixed rows, a wave's outputs, logits, choices and their lists.
			experts = max(experts, 3*4*h+4*int64(m.Experts)+48+16*int64(m.TopK)+l.besideBytes(s))
			wide = max(wide, l.wide(s, rows)+4*h*expertRows)
		}
		for _, r := range l.mixer().ropes() {
			ropes[*r] = true
		}
	}
	copies := int64(2)
	if w.Parties > 1 {
		copies = 3 // what is lent
	}
	wide = max(wide, s.enteringBytes())
	fixed = copies*body + int64(w.Threads)*(wide+workBytes)
	for r := range ropes {
		fixed += 4 * int64(r.Dim) * int64(w.Chunk)
	}
	return fixed, row + experts
}

// mixBytes are those that a token takes for how streams take up what a part says.
func (s *Spec) mixBytes() int64 {
	if s.Hyper == nil {
		return 0
	}
	return 4 * int64(s.Streams*(s.Streams+1))
}

// weights are how many a layer has beside its routed experts.
func (l *Layer) weights(s *Spec) (n int64) {
	for _, t := range l.Tensors(s) {
		if t.At.Kind != topology.Expert && !t.Table {
			n += int64(max(t.Rows, 1)) * int64(t.Cols)
		}
	}
	return n
}

// wide are the bytes of the activations of so many rows inside a layer.
func (l *Layer) wide(s *Spec, rows int64) int64 {
	n := 2*int64(s.Hidden) + int64(l.mixer().wide())
	if s.Hyper != nil {
		n += int64(s.Hidden + s.mixed())
	}
	inner := l.MLP.Inner
	if l.MoE != nil {
		inner = max(l.MoE.Inner, l.MoE.Shared)
		if l.Beside != nil {
			inner = max(inner, l.MLP.Inner)
		}
	}
	if l.perLayer(s) {
		inner = max(inner, s.PerLayer.Dim)
	}
	return 4*n*rows + 8*int64(inner)*min(rows, int64(gatedRows(inner)))
}

// experts are the bytes of one expert and of all of a layer, and how many waves
// are in memory at a time.
func (s *Spec) experts(w Workload) (one, all, copies int64) {
	for i := range s.Layers {
		if m := s.Layers[i].MoE; m != nil {
			bytes := int64(float64(expertBytes(s, m)) * max(w.Bits/16, 1))
			one, all = max(one, bytes), max(all, bytes*int64(m.Experts))
		}
	}
	if w.Parties > 1 {
		return one, all, 3
	}
	return one, all, 2
}
