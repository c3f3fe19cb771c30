package bias

import (
	"context"
	"fmt"
	"math"
	"slices"

	"quantscope/analysis/model"
	"quantscope/analysis/yardstick"
)

// Rows of logits that are made at once: fewer cost more for expanding the head, more
// cost memory.
const (
	leastSlice = 16
	mostSlice  = 2048
)

// score is what the predictions of a candidate say so far.
type score struct {
	corpora         []int // of each chunk its corpus
	kl              yardstick.Running
	sums            []float64 // by chunk
	counts          []int64
	numbers, agreed int64
	nonFinite       int64
}

func newScore(corpora []int) *score {
	return &score{corpora: corpora, sums: make([]float64, len(corpora)), counts: make([]int64, len(corpora))}
}

// add takes in the positions of one chunk, in order.
func (k *score) add(chunk int, rows []yardstick.Score) {
	list := make([]yardstick.Row, len(rows))
	for i := range rows {
		s := &rows[i]
		list[i] = yardstick.Row{KL: s.KL, Reverse: s.Reverse, NLL: s.NLLQ, Top: s.TopQ}
		if !s.NotANumber {
			k.numbers++
			if s.TopP == s.TopQ {
				k.agreed++
			}
		}
		if math.IsNaN(s.KL) || math.IsInf(s.KL, 0) {
			k.nonFinite++
			continue
		}
		k.sums[chunk] += s.KL
		k.counts[chunk]++
	}
	k.kl.Add(k.corpora[chunk], list)
}

func (k *score) divergence(candidate int) *Divergence {
	d := &Divergence{
		Candidate: candidate, NonFinite: k.nonFinite, KL: k.kl.Mean(), StdErr: k.kl.StdErr(), Top1: float64(k.agreed) / float64(k.numbers),
	}
	for i, n := range k.counts {
		d.Positions += n
		d.Chunks = append(d.Chunks, k.sums[i]/float64(n))
	}
	return d
}

// place is a position whose prediction is compared.
type place struct {
	row    int // of the hidden states
	target int32
}

// heads compares the predictions of a group: all positions of a chunk but the last,
// which predicts nothing that is known.
func (r *running) heads(ctx context.Context, group int, hidden []model.Hidden) error {
	defer r.release()
	h := &open{running: r, heads: make([]*model.Head, len(r.parties)), keep: r.keepHeads()}
	g := r.groups[group]
	slice := r.sliceRows()
	at := 0
	for chunk := g[0]; chunk < g[1]; chunk++ {
		ids := r.chunks[chunk]
		var places []place
		for i := range len(ids) - 1 {
			places = append(places, place{at + i, ids[i+1]})
		}
		at += len(ids)
		rows := make([][]yardstick.Score, len(r.parties))
		for first := 0; first < len(places); first += slice {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := r.slice(ctx, h, places[first:min(first+slice, len(places))], hidden, rows); err != nil {
				return err
			}
		}
		for c, k := range r.scores {
			k.add(chunk, rows[1+c])
		}
		r.progress(Progress{Stage: "heads", Candidate: -1, Layer: r.setup.Layers - 1, Done: int64(chunk + 1), Of: int64(len(r.chunks))})
	}
	return nil
}

// slice scores some positions under all candidates.
func (r *running) slice(ctx context.Context, h *open, places []place, hidden []model.Hidden, rows [][]yardstick.Score) error {
	n, wide := r.setup.Vocab, r.parties[0].spec.Vocab
	ref, err := h.logits(ctx, 0, 0, places, hidden[0].X)
	if err != nil {
		return err
	}
	for c := 1; c < len(r.parties); c++ {
		own, err := h.logits(ctx, c, 1, places, hidden[c].X)
		if err != nil {
			return err
		}
		width, from := r.parties[c].spec.Vocab, len(rows[c])
		rows[c] = slices.Grow(rows[c], len(places))[:from+len(places)]
		share(len(places), r.threads, len(places)*n*8, func(a, b int) {
			for i := a; i < b; i++ {
				rows[c][from+i] = yardstick.Compare(r.set, ref[i*wide:][:n], own[i*width:][:n], places[i].target)
			}
		})
	}
	return nil
}

// sliceRows is how many rows of logits fit: two parties' at a time.
func (r *running) sliceRows() int {
	widest := 1
	for _, p := range r.parties {
		widest = max(widest, p.spec.Vocab)
	}
	return int(min(max(r.mem/16/int64(4*widest), leastSlice), mostSlice))
}

// keepHeads says whether the heads of all parties may be in memory together.
func (r *running) keepHeads() bool {
	var sum int64
	for _, p := range r.parties {
		sum += int64(p.spec.Vocab) * int64(p.spec.Hidden) * 2
	}
	return sum <= r.mem/8
}

// open are the parties' heads, kept where there is room.
type open struct {
	*running
	heads []*model.Head
	keep  bool
	x     []float32
	out   [2][]float32
}

// logits are those of a party for rows of its hidden states, in one of two buffers.
func (h *open) logits(ctx context.Context, party, buffer int, places []place, hidden []float32) ([]float32, error) {
	p := h.parties[party]
	head := h.heads[party]
	if head == nil {
		var err error
		head, err = model.NewHead(ctx, p.spec, p.src, model.Options{Set: h.set, Threads: h.threads, BF16: p.bf16})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.label, err)
		}
		if h.keep {
			h.heads[party] = head
		} else {
			defer p.src.Release()
		}
	}
	width := p.spec.Width()
	h.x = h.x[:0]
	for _, at := range places {
		h.x = append(h.x, hidden[at.row*width:][:width]...)
	}
	var err error
	h.out[buffer], err = head.Logits(h.out[buffer], h.x, len(places))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.label, err)
	}
	return h.out[buffer], nil
}
