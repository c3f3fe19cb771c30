package model

import "context"

// Drafting is what an MTP module is told of a text, and what it drafts for it.
type Drafting struct {
	Text   *Text
	Normed []float32 // the main model's hidden states of the positions that the module has not seen, as Batch.Normed gives them
	Next   []int32   // the token after each
	K      int       // tokens to draft; 0: the module only sees
	Drafts []int32   // K of them, fewer where the module says nothing finite

	seen int
}

// drafting is the memory of Draft.
type drafting struct {
	seqs   []sequence
	texts  []*Text
	of     []*Drafting
	next   []int32
	states []float32
	rows   []float32 // that draft: the last of each text
	logits []float32
}

// Draft has the module see positions of several texts, each text once, and draft
// tokens for them, by the largest logit.
//
// The first draft is made of the main model's state of the last position and the token
// after it. Each further one is made of the module's own state, as it leaves its
// layer, before the norm of its head, and of the draft before, at the position after:
// vLLM chains one module so (v1/spec_decode); Qwen's module gives its state on after
// that norm, which is a part of it there. transformers drafts as many tokens as
// there are modules and no more. States of drafts are forgotten: the module has seen
// then what the main model says.
func (m *MTP) Draft(ctx context.Context, list []*Drafting) error {
	w, h := &m.drafting, m.spec.Width()
	w.seqs, w.texts, w.of, w.next, w.states = w.seqs[:0], w.texts[:0], w.of[:0], w.next[:0], w.states[:0]
	for _, d := range list {
		d.Drafts = d.Drafts[:0]
		if len(d.Next) > 0 {
			w.seqs = append(w.seqs, sequence{first: len(w.next), n: len(d.Next), chunk: len(w.of)})
			w.texts, w.of = append(w.texts, d.Text), append(w.of, d)
			w.next, w.states = append(w.next, d.Next...), append(w.states, d.Normed[:len(d.Next)*h]...)
		}
	}
	for j := 1; len(w.next) > 0; j++ {
		silent := map[int]bool{}
		x, err := m.see(ctx, w.seqs, w.texts, w.states, w.next, func(e *NonFiniteError) error {
			silent[e.Chunk] = true
			return nil
		})
		if err != nil {
			return err
		}
		for _, d := range w.of {
			if j == 1 {
				d.seen = d.Text.seen
			}
		}
		// The last row of each text that is to have a draft more.
		w.rows = w.rows[:0]
		n := 0
		for i, q := range w.seqs {
			if d := w.of[i]; d.K >= j && !silent[i] {
				w.rows = append(w.rows, x[(q.first+q.n-1)*h:][:h]...)
				w.of[n], w.texts[n] = d, d.Text
				n++
			}
		}
		w.of, w.texts, w.seqs, w.next = w.of[:n], w.texts[:n], w.seqs[:0], w.next[:0]
		if n == 0 {
			break
		}
		if w.logits, err = m.say(w.logits, w.rows, n); err != nil {
			return err
		}
		for i, d := range w.of {
			d.Drafts = append(d.Drafts, argmax(w.logits[i*m.spec.Vocab:][:m.spec.Vocab]))
		}
		w.states = w.states[:0]
		own := w.rows
		if m.layer.Module == SharedModule {
			own = m.normed
		}
		k := 0
		for i, d := range w.of {
			if d.K > j {
				w.seqs = append(w.seqs, sequence{first: k, n: 1, chunk: k})
				w.states, w.next = append(w.states, own[i*h:][:h]...), append(w.next, d.Drafts[j-1])
				w.of[k], w.texts[k] = d, d.Text
				k++
			}
		}
		w.of, w.texts = w.of[:k], w.texts[:k]
	}
	for _, d := range list {
		if len(d.Next) > 0 {
			d.Text.CutSeen(d.seen)
		}
	}
	return nil
}

// Accept holds drafts against what a sampler chooses: choose is called with the row
// of logits after each token that stays, the first of which is there in any case,
// and says whether the text goes on. It returns how many drafts stay.
func Accept(drafts []int32, choose func(row int) (id int32, more bool)) (kept int) {
	for {
		id, more := choose(kept)
		if kept == len(drafts) || drafts[kept] != id {
			return kept
		}
		kept++
		if !more {
			return kept
		}
	}
}
