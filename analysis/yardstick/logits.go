package yardstick

import (
	"context"
	"fmt"

	"quantscope/analysis/model"
	"quantscope/kernels"
)

// Rows of logits that are made at once: fewer cost more for expanding the head,
// more cost memory.
const (
	leastSlice = 16
	mostSlice  = 2048
)

// scoredRow is a position that is scored.
type scoredRow struct {
	chunk  int // of the group
	i      int // row of its Chunk
	from   int // row of the hidden states
	target int32
}

// score makes logits from the final hidden states of a group, in slices of rows,
// and scores them. It hands the chunks over in their order.
func (m *measurement) score(ctx context.Context, g []chunkAt, hidden [][]float32) error {
	m.meter.stage("scoring", -1)
	defer m.release()
	out, rows := m.lay(g)
	h := &heads{m: m, keep: m.keepHeads(), open: make([]*model.Head, len(m.parties))}
	slice := m.sliceRows()
	for first := 0; first < len(rows); first += slice {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.slice(ctx, h, g, rows[first:min(first+slice, len(rows))], hidden, out); err != nil {
			return err
		}
	}
	for _, c := range out {
		c.Texts = m.newTexts(c)
		m.chunks = append(m.chunks, c)
		m.meter.chunk()
		if m.o.Scored != nil {
			m.o.Scored(c)
		}
	}
	return nil
}

// lay makes the chunks that a group fills and lists their rows.
func (m *measurement) lay(g []chunkAt) (out []*Chunk, rows []scoredRow) {
	at := 0
	for k, c := range g {
		n := Scored(len(c.ids), m.setup.half())
		chunk := &Chunk{
			Corpus: c.corpus, Index: c.index, First: len(c.ids) - 1 - n,
			Ref: make([]RefRow, n), Rows: make([][]Row, len(m.setup.Candidates)),
		}
		for i := range chunk.Rows {
			chunk.Rows[i] = make([]Row, n)
		}
		for i := range n {
			p := chunk.First + i
			rows = append(rows, scoredRow{k, i, at + p, c.ids[p+1]})
		}
		at += len(c.ids)
		out = append(out, chunk)
	}
	return out, rows
}

// sliceRows is how many rows of logits fit: two parties' at a time.
func (m *measurement) sliceRows() int {
	widest := 1
	for _, p := range m.parties {
		widest = max(widest, p.spec.Vocab)
	}
	return int(min(max(m.mem/16/int64(4*widest), leastSlice), mostSlice))
}

// keepHeads says whether the heads of all parties may be in memory together.
func (m *measurement) keepHeads() bool {
	var sum int64
	for _, p := range m.parties {
		sum += int64(p.spec.Vocab) * int64(p.spec.Hidden) * 2
	}
	return sum <= m.mem/4
}

// heads opens the parties' heads, and keeps them where there is room.
type heads struct {
	m       *measurement
	keep    bool
	open    []*model.Head
	x       []float32
	logits  [2][]float32
	reduced []kernels.LogitRow
}

// of gives the logits of a party for rows of its hidden states, in one of two
// buffers.
func (h *heads) of(ctx context.Context, party, buffer int, rows []scoredRow, hidden []float32) (logits []float32, err error) {
	p := h.m.parties[party]
	head := h.open[party]
	if head == nil {
		head, err = model.NewHead(ctx, p.spec, p.src, model.Options{Set: h.m.set, Threads: h.m.threads, BF16: p.bf16})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.label, err)
		}
		if h.keep {
			h.open[party] = head
		} else {
			defer p.src.Release()
		}
	}
	width := p.spec.Width()
	if need := len(rows) * width; cap(h.x) < need {
		h.x = make([]float32, need)
	}
	for i, r := range rows {
		copy(h.x[:cap(h.x)][i*width:][:width], hidden[r.from*width:])
	}
	h.logits[buffer], err = head.Logits(h.logits[buffer], h.x[:len(rows)*width], len(rows))
	return h.logits[buffer], err
}

// slice scores some rows of all parties.
func (m *measurement) slice(ctx context.Context, h *heads, g []chunkAt, rows []scoredRow, hidden [][]float32, out []*Chunk) error {
	n, wide := m.setup.VocabRef, m.setup.Reference.Vocab
	ref, err := m.referenceRows(ctx, h, g, rows, hidden[0])
	if err != nil {
		return err
	}
	if cap(h.reduced) < len(rows) {
		h.reduced = make([]kernels.LogitRow, len(rows))
	}
	p := h.reduced[:len(rows)]
	inParallel(len(rows), m.threads, func(i int) {
		r := rows[i]
		out[r.chunk].Ref[r.i], p[i] = refRow(m.set, ref[i*wide:][:n], r.target)
	})
	for i, r := range rows {
		if !p[i].OK {
			at := g[r.chunk]
			return fmt.Errorf("%s: %w: head, corpus %s, chunk %d, position %d: its logits are no numbers",
				m.setup.Reference.Label, ErrReference, m.setup.Corpora[at.corpus].Name, at.index, out[r.chunk].First+r.i)
		}
	}
	if m.out != nil {
		if err := m.out.write(m.threads, g, rows, out, ref); err != nil {
			return err
		}
	}
	for c := range m.setup.Candidates {
		own, err := h.of(ctx, 1+c, 1, rows, hidden[1+c])
		if err != nil {
			return err
		}
		width := m.parties[1+c].spec.Vocab
		inParallel(len(rows), m.threads, func(i int) {
			r := rows[i]
			out[r.chunk].Rows[c][r.i] = row(m.set, ref[i*wide:][:n], own[i*width:][:n], p[i], r.target)
		})
		if m.base != nil {
			m.base.add(m.threads, c, rows, own)
		}
	}
	return nil
}

// referenceRows are the reference's logits, or a file's log probabilities.
func (m *measurement) referenceRows(ctx context.Context, h *heads, g []chunkAt, rows []scoredRow, hidden []float32) ([]float32, error) {
	if m.base != nil {
		return m.base.read(m.threads, g, rows)
	}
	return h.of(ctx, 0, 0, rows, hidden)
}

func (m *measurement) release() {
	for _, p := range m.parties {
		p.src.Release()
	}
}

// newTexts are the texts of tokens that were somebody's first choice in a chunk
// and stand in no corpus.
func (m *measurement) newTexts(c *Chunk) map[int32]string {
	tok := m.parties[0].own.Tokenizer
	if tok == nil {
		return nil
	}
	var out map[int32]string
	add := func(id int32) {
		if id < 0 || m.setup.Texts[id] != "" || m.texts[id] != "" {
			return
		}
		if out == nil {
			out = map[int32]string{}
		}
		m.texts[id] = string(tok.Bytes(id))
		out[id] = m.texts[id]
	}
	for i := range c.Ref {
		add(c.Ref[i].Top)
		for _, rows := range c.Rows {
			add(rows[i].Top)
		}
	}
	return out
}
