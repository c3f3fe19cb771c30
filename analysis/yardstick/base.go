package yardstick

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/analysis/yardstick/kld"
)

// FileKind is the kind of a reference that is a file of log probabilities.
const FileKind candidate.Kind = "kld"

// BaseCorpus are the texts that a file of log probabilities is of. bos is the begin
// token that llama-perplexity puts in place of the first token of each chunk where
// the model asks for one, −1 where it does not; the file itself does not say.
func BaseCorpus(r *kld.Reader, bos int32) *corpus.Corpus {
	c := &corpus.Corpus{
		Name: "base", Source: r.Path, BOS: "as-is", Begin: bos,
		Chunking: fmt.Sprintf("%d chunks of %d tokens, as the file has them", r.Chunks, r.NCtx),
	}
	if bos >= 0 {
		c.BOS = "replace"
	}
	h := sha256.New()
	for _, ids := range r.Tokens {
		ids = slices.Clone(ids)
		if bos >= 0 && len(ids) > 0 {
			ids[0] = bos
		}
		c.Chunks = append(c.Chunks, ids)
		for _, id := range ids {
			_, _ = h.Write(binary.LittleEndian.AppendUint32(nil, uint32(id))) // a hash never fails
		}
	}
	c.SHA256 = [sha256.Size]byte(h.Sum(nil))
	return c
}

// fromFile makes the file the reference of a setup, and checks that the corpus is
// the file's. The first token of a chunk may have been replaced.
func (s *Setup) fromFile(r *kld.Reader, corpora []*corpus.Corpus) error {
	if len(corpora) != 1 || len(corpora[0].Chunks) != r.Chunks {
		return fmt.Errorf("%s: %w: it is of %d chunks, which must be the only corpus", r.Path, ErrTokens, r.Chunks)
	}
	for k, ids := range corpora[0].Chunks {
		if len(ids) != r.NCtx {
			return fmt.Errorf("%s: %w: chunk %d has %d tokens there and %d in corpus %s", r.Path, ErrTokens, k, r.NCtx, len(ids), corpora[0].Name)
		}
		own := slices.Clone(r.Tokens[k])
		own[0] = ids[0]
		if err := SameTokens(own, ids); err != nil {
			return fmt.Errorf("%s and corpus %s: chunk %d: %w", r.Path, corpora[0].Name, k, err)
		}
	}
	s.Reference = Party{
		Label: filepath.Base(r.Path), Spec: r.Path, Path: r.Path, Kind: FileKind, Vocab: r.Vocab, Baseline: -1, Of: -1,
		Effective: "log probabilities in 16 bits",
	}
	s.Positions = "half"
	s.Notes = append(s.Notes, "the reference is a file of log probabilities in 16 bits; tokens more than 16 nats below the largest share what the others leave of 1")
	return nil
}

// base is the file that is the reference, with the rows of a slice and what
// llama-perplexity would say of each candidate.
type base struct {
	r     *kld.Reader
	rows  []kld.Row
	x     []float32
	stats []*kld.Statistics
}

func (m *measurement) openBase() {
	if m.o.Base == nil {
		return
	}
	m.base = &base{r: m.o.Base, stats: make([]*kld.Statistics, len(m.setup.Candidates))}
	if m.o.Skip != nil || len(m.o.Prior) > 0 { // they would be of a part
		return
	}
	for i, p := range m.setup.Candidates {
		if p.Vocab == m.o.Base.Vocab {
			m.base.stats[i] = &kld.Statistics{}
		}
	}
}

// read gives the log probabilities of rows, row after row. Tokens that the file
// raised to its clamp share what the others leave of 1.
func (b *base) read(threads int, g []chunkAt, rows []scoredRow) ([]float32, error) {
	for len(b.rows) < len(rows) {
		b.rows = append(b.rows, kld.Row{})
	}
	if need := len(rows) * b.r.Vocab; cap(b.x) < need {
		b.x = make([]float32, need)
	}
	x := b.x[:len(rows)*b.r.Vocab]
	errs := make([]error, len(rows))
	inParallel(len(rows), threads, func(i int) {
		r := rows[i]
		if errs[i] = b.r.Row(g[r.chunk].index, r.i, &b.rows[i]); errs[i] == nil {
			b.rows[i].Spread(x[i*b.r.Vocab:][:b.r.Vocab])
		}
	})
	return x, cmp.Or(errs...)
}

// add scores a candidate's logits by llama-perplexity's arithmetic.
func (b *base) add(threads, candidate int, rows []scoredRow, logits []float32) {
	st := b.stats[candidate]
	if st == nil {
		return
	}
	scores := make([]kld.Score, len(rows))
	inParallel(len(rows), threads, func(i int) {
		scores[i] = kld.Compare(&b.rows[i], logits[i*b.r.Vocab:][:b.r.Vocab], rows[i].target)
	})
	for _, s := range scores {
		st.Add(s)
	}
}

// baseOut writes the reference's log probabilities to a file.
type baseOut struct {
	w     *kld.Writer
	first []int // by corpus: its first chunk in the file
}

// createBase begins the file that was asked for.
func (m *measurement) createBase() error {
	if m.o.BaseOut == "" {
		return nil
	}
	if m.base != nil {
		return errors.New("yardstick: a reference that is a file is not written to another")
	}
	if m.o.Skip != nil || len(m.o.Prior) > 0 {
		return fmt.Errorf("%s: a measurement that goes on where another ended cannot write the whole file", m.o.BaseOut)
	}
	out := &baseOut{}
	var tokens [][]int32
	for _, c := range m.setup.Corpora {
		out.first = append(out.first, len(tokens))
		tokens = append(tokens, c.IDs...)
	}
	var err error
	if out.w, err = kld.Create(m.o.BaseOut, m.parties[0].spec.Vocab, tokens); err != nil {
		return err
	}
	m.out = out
	return nil
}

// write keeps rows of the reference's logits; of a chunk the file holds the second
// half.
func (b *baseOut) write(threads int, g []chunkAt, rows []scoredRow, out []*Chunk, logits []float32) error {
	errs := make([]error, len(rows))
	inParallel(len(rows), threads, func(k int) {
		r := rows[k]
		at := g[r.chunk]
		if i := out[r.chunk].First + r.i - b.w.First(); i >= 0 {
			_, errs[k] = b.w.Row(b.first[at.corpus]+at.index, i, logits[k*b.w.Vocab:][:b.w.Vocab])
		}
	})
	return cmp.Or(errs...) // a full disk says the same of every row
}
