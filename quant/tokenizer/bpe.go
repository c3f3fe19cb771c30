package tokenizer

import (
	"container/heap"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// bpe merges the pair of symbols with the lowest rank, of equal ones the first,
// until none is left that has one.
type bpe struct {
	ids          map[string]int32
	ranks        map[[2]int32]merge
	unk          int32 // -1 for none
	fuse         bool
	fallback     [256]int32 // ids of <0x00> to <0xFF>
	bytes        bool
	ignoreMerges bool
	sum          []byte // digest of all of it
}

type merge struct{ rank, into int32 }

func (t *Tokenizer) parseModel(raw json.RawMessage) error {
	var m struct {
		Type         string          `json:"type"`
		Vocab        json.RawMessage `json:"vocab"`
		Merges       json.RawMessage `json:"merges"`
		Dropout      *float64        `json:"dropout"`
		Unk          *string         `json:"unk_token"`
		UnkID        *int32          `json:"unk_id"`
		Prefix       *string         `json:"continuing_subword_prefix"`
		Suffix       *string         `json:"end_of_word_suffix"`
		Fuse         bool            `json:"fuse_unk"`
		ByteFallback bool            `json:"byte_fallback"`
		IgnoreMerges bool            `json:"ignore_merges"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return err
	}
	if m.Type == "" && len(m.Merges) > 0 {
		m.Type = "BPE" // older files leave it out
	}
	switch m.Type {
	case "BPE":
	case "Unigram":
		return t.parseUnigram(m.Vocab, m.UnkID, m.ByteFallback)
	default:
		return unknown("model", m.Type, "BPE", "Unigram")
	}
	switch {
	case m.Dropout != nil && *m.Dropout != 0:
		return fmt.Errorf("a dropout of %g makes ids random: %w", *m.Dropout, ErrUnknown)
	case m.Prefix != nil && *m.Prefix != "":
		return fmt.Errorf("continuing_subword_prefix %q is %w", *m.Prefix, ErrUnknown)
	case m.Suffix != nil && *m.Suffix != "":
		return fmt.Errorf("end_of_word_suffix %q is %w", *m.Suffix, ErrUnknown)
	}
	var vocab map[string]int32
	if err := json.Unmarshal(m.Vocab, &vocab); err != nil {
		return fmt.Errorf("vocab: %w", err)
	}
	b := &bpe{ids: map[string]int32{}, unk: -1, fuse: m.Fuse, bytes: m.ByteFallback, ignoreMerges: m.IgnoreMerges}
	for token, id := range vocab {
		if err := t.setToken(token, id); err != nil {
			return err
		}
		b.ids[token] = id
	}
	if m.Unk != nil {
		id, ok := vocab[*m.Unk]
		if !ok {
			return fmt.Errorf("unk_token %q is not in the vocabulary", *m.Unk)
		}
		b.unk = id
	}
	for i := range b.fallback {
		id, ok := vocab[fmt.Sprintf("<0x%02X>", i)]
		if !ok {
			id = -1
		}
		b.fallback[i] = id
	}
	t.model = b
	err := b.parseMerges(m.Merges)
	t.sum = b.sum
	return err
}

// parseMerges reads pairs, or in older files two words in a string.
func (b *bpe) parseMerges(raw json.RawMessage) error {
	var pairs [][2]string
	if err := json.Unmarshal(raw, &pairs); err != nil {
		var lines []string
		if json.Unmarshal(raw, &lines) != nil {
			return fmt.Errorf("merges: %w", err)
		}
		pairs = make([][2]string, len(lines))
		for i, l := range lines {
			left, right, ok := strings.Cut(l, " ")
			if !ok {
				return fmt.Errorf("merge %d, %q, is no pair", i, l)
			}
			pairs[i] = [2]string{left, right}
		}
	}
	d := newDigest()
	d.text(fmt.Sprintf("BPE unk %d fuse %t bytes %t ignore %t", b.unk, b.fuse, b.bytes, b.ignoreMerges))
	b.ranks = make(map[[2]int32]merge, len(pairs))
	for i, p := range pairs {
		left, ok1 := b.ids[p[0]]
		right, ok2 := b.ids[p[1]]
		into, ok3 := b.ids[p[0]+p[1]]
		if !ok1 || !ok2 || !ok3 {
			return fmt.Errorf("merge %d of %q and %q is not in the vocabulary", i, p[0], p[1])
		}
		if _, twice := b.ranks[[2]int32{left, right}]; !twice {
			b.ranks[[2]int32{left, right}] = merge{int32(i), into}
		}
		d.number(int64(left))
		d.number(int64(right))
	}
	b.sum = d.Sum(nil)
	return nil
}

// symbol is one of a list that is linked both ways; −1 ends it.
type symbol struct {
	id         int32
	prev, next int
}

type candidate struct {
	rank  int32
	at    int // left symbol
	left  int32
	right int32
	into  int32
}

type queue []candidate

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].rank < q[j].rank || q[i].rank == q[j].rank && q[i].at < q[j].at
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(candidate)) }
func (q *queue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}

func (b *bpe) encode(dst []int32, piece string) []int32 {
	if b.ignoreMerges {
		if id, ok := b.ids[piece]; ok {
			return append(dst, id)
		}
	}
	list := b.symbols(piece)
	var q queue
	offer := func(i int) {
		if i < 0 || list[i].next < 0 {
			return
		}
		l, r := list[i].id, list[list[i].next].id
		if m, ok := b.ranks[[2]int32{l, r}]; ok {
			heap.Push(&q, candidate{m.rank, i, l, r, m.into})
		}
	}
	for i := range list {
		offer(i)
	}
	for q.Len() > 0 {
		c := heap.Pop(&q).(candidate)
		s := &list[c.at]
		if s.id != c.left || s.next < 0 || list[s.next].id != c.right {
			continue // one of the two was merged meanwhile
		}
		gone := s.next
		s.id, s.next = c.into, list[gone].next
		list[gone].id = -1
		if s.next >= 0 {
			list[s.next].prev = c.at
		}
		offer(s.prev)
		offer(c.at)
	}
	if len(list) == 0 {
		return dst
	}
	for i := 0; i >= 0; i = list[i].next {
		dst = append(dst, list[i].id)
	}
	return dst
}

// symbols are the characters of a piece: those of the vocabulary, else their
// bytes where there are tokens for them, else the unknown token.
func (b *bpe) symbols(piece string) []symbol {
	var ids []int32
	unknown := false
	for at := 0; at < len(piece); {
		_, size := utf8.DecodeRuneInString(piece[at:])
		char := piece[at : at+size]
		at += size
		if id, ok := b.ids[char]; ok {
			ids, unknown = append(ids, id), false
			continue
		}
		if b.bytes {
			var all []int32
			for i := range len(char) {
				if id := b.fallback[char[i]]; id >= 0 {
					all = append(all, id)
				}
			}
			if len(all) == len(char) {
				ids, unknown = append(ids, all...), false
				continue
			}
		}
		if b.unk >= 0 && !(b.fuse && unknown) {
			ids = append(ids, b.unk)
		}
		unknown = b.unk >= 0
	}
	list := make([]symbol, len(ids))
	for i, id := range ids {
		list[i] = symbol{id, i - 1, i + 1}
	}
	if len(list) > 0 {
		list[len(list)-1].next = -1
	}
	return list
}
