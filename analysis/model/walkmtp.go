package model

import (
	"context"
	"fmt"
	"sync"
)

// stage is what goes through the multi-token-prediction layer that comes next.
// The first is given the main model's states after the final norm, each later one
// what came out of the one before it, as in DeepSeek-V3 (arXiv 2412.19437, section
// 2.2); and the embeddings of tokens as far ahead as it is deep.
type stage struct {
	seqs []sequence
	from []int     // of each sequence: first row of the states that it is made of
	next []int     // of each sequence: the first token that it is given
	y    []float32 // what came out of the MTP layer before; nil: the main model's states
}

// begin is the stage of the first MTP layer.
func (g *stage) begin(w *Walk) {
	first := make([]int, len(w.main))
	for i, s := range w.main {
		first[i] = s.first
	}
	g.shorten(w.main, first)
}

// shorten makes sequences of one token less, each of rows of the one before.
func (g *stage) shorten(seqs []sequence, token []int) {
	g.seqs, g.from, g.next = nil, nil, nil
	rows := 0
	for i, s := range seqs {
		if s.n < 2 {
			continue
		}
		g.seqs = append(g.seqs, sequence{first: rows, n: s.n - 1, chunk: s.chunk})
		g.from, g.next = append(g.from, s.first), append(g.next, token[i]+1)
		rows += s.n - 1
	}
}

// module takes the text through an MTP layer.
func (w *Walk) module(ctx context.Context, b *body, e *experts, l Looks, look bool) error {
	err := w.moduleOf(ctx, b, e, l, look)
	if err != nil {
		return fmt.Errorf("layer %d: %w", b.l.Index, err)
	}
	return nil
}

func (w *Walk) moduleOf(ctx context.Context, b *body, e *experts, l Looks, look bool) error {
	src := e.lend.get()
	defer e.lend.put(src)
	rd := reader{ctx: ctx, spec: w.spec, src: src}
	enter, err := w.entering(rd, b.l)
	if err != nil {
		return err
	}
	r, h := w.r, w.spec.Width()
	r.tokens = make([]int32, 0, r.rows)
	for i, q := range w.mtp.seqs {
		r.tokens = append(r.tokens, w.tokens[w.mtp.next[i]:][:q.n]...)
	}
	head := b.l.OwnHead()
	own := l.Input != nil && r.wants(head) && src.Has(head, "weight")
	if look && !own {
		r.look, r.rowsOf = true, enter
		return r.layer(ctx, b, &flow{}, e)
	}
	y := make([]float32, r.rows*h)
	if err := r.each(len(r.tiles), r.parallel, func(i int, s *scratch) error {
		t := &r.tiles[i]
		return enter(ctx, s, t, y[t.first*h:][:t.n*h])
	}); err != nil {
		return err
	}
	if err := r.layer(ctx, b, &flow{x: y}, e); err != nil {
		return err
	}
	if own {
		if err := w.moduleHead(rd, b.l, head, y); err != nil {
			return err
		}
	}
	if look {
		return nil
	}
	if err := w.check(y, b.l.Index, "output"); err != nil {
		return err
	}
	w.mtp.y = y
	w.mtp.shorten(w.mtp.seqs, w.mtp.next)
	return nil
}

// moduleHead gives the inputs of an MTP layer's own head.
func (w *Walk) moduleHead(rd reader, l *Layer, head Place, y []float32) error {
	end, err := rd.moduleEnding(l)
	if err != nil {
		return err
	}
	h, width := w.spec.Hidden, w.spec.Width()
	return w.r.each(len(w.r.tiles), false, func(i int, s *scratch) error {
		t := &w.r.tiles[i]
		s.normed = grow(s.normed, t.n*h)
		if err := w.r.ended(s, &end, s.normed, y[t.first*width:], t.n); err != nil {
			return err
		}
		w.r.hook(head, s.normed, t.n)
		return nil
	})
}

// entering makes the states that go into an MTP layer, a tile at a time.
func (w *Walk) entering(rd reader, l *Layer) (func(ctx context.Context, s *scratch, t *tile, x []float32) error, error) {
	e, err := rd.entry(l)
	if err != nil {
		return nil, err
	}
	states, normed := w.mtp.y, w.mtp.y == nil && !w.spec.RawMTP
	if states == nil {
		states = w.x
	}
	var end ending
	if normed {
		if end, err = rd.finalEnding(); err != nil {
			return nil, err
		}
	}
	var reading sync.Mutex // rd.src is used from one goroutine at a time
	r, g, h, width := w.r, &w.mtp, w.spec.Hidden, w.spec.Width()
	return func(ctx context.Context, s *scratch, t *tile, x []float32) error {
		s.before, s.embedded = grow(s.before, t.n*width), grow(s.embedded, t.n*h)
		next := make([]int32, 0, t.n)
		for i, q := range t.seqs {
			before := s.before[(q.first-t.first)*width:][:q.n*width]
			from, token := g.from[t.at+i], g.next[t.at+i]
			of := states[from*width:][:q.n*width]
			if !normed {
				copy(before, of)
			} else if err := r.ended(s, &end, before, of, q.n); err != nil {
				return err
			}
			next = append(next, w.tokens[token:][:q.n]...)
		}
		reading.Lock()
		err := rd.src.Rows(ctx, e.embedding, next, s.embedded)
		reading.Unlock()
		if err != nil {
			return err
		}
		_, err = r.enter(s, l, &e, s.embedded, s.before, x)
		return err
	}, nil
}
