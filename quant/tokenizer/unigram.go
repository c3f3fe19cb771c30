package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// unigram takes the tokens whose scores, logarithms of probabilities, have the
// largest sum (Viterbi).
type unigram struct {
	ids      map[string]int32
	scores   []float64
	longest  int // bytes of a token
	unk      int32
	unkScore float64
	fallback [256]int32
	bytes    bool
}

// unkPenalty is what an unknown character has less than the worst token, as in
// sentencepiece.
const unkPenalty = 10

func (t *Tokenizer) parseUnigram(raw json.RawMessage, unk *int32, bytes bool) error {
	var vocab [][]json.RawMessage
	if err := json.Unmarshal(raw, &vocab); err != nil {
		return fmt.Errorf("vocab: %w", err)
	}
	u := &unigram{ids: make(map[string]int32, len(vocab)), unk: -1, bytes: bytes, unkScore: math.Inf(1)}
	for i, v := range vocab {
		var token string
		var score float64
		if len(v) != 2 {
			return fmt.Errorf("vocab entry %d has %d parts, want a token and its score", i, len(v))
		}
		if err := errors.Join(json.Unmarshal(v[0], &token), json.Unmarshal(v[1], &score)); err != nil {
			return fmt.Errorf("vocab entry %d: %w", i, err)
		}
		if err := t.setToken(token, int32(i)); err != nil {
			return err
		}
		u.ids[token] = int32(i)
		u.scores = append(u.scores, score)
		u.longest = max(u.longest, len(token))
		u.unkScore = min(u.unkScore, score)
	}
	u.unkScore -= unkPenalty
	switch {
	case unk == nil:
		return fmt.Errorf("a Unigram without unk_id, whose unknown characters are errors, is %w", ErrUnknown)
	case *unk < 0 || int(*unk) >= len(vocab):
		return fmt.Errorf("unk_id %d is outside the vocabulary of %d", *unk, len(vocab))
	}
	u.unk = *unk
	for i := range u.fallback {
		id, ok := u.ids[fmt.Sprintf("<0x%02X>", i)]
		if !ok {
			id = -1
		}
		u.fallback[i] = id
	}
	d := newDigest()
	d.text(fmt.Sprintf("Unigram unk %d bytes %t", u.unk, u.bytes))
	for _, s := range u.scores {
		d.number(int64(math.Float64bits(s)))
	}
	t.sum = d.Sum(nil)
	t.model = u
	return nil
}

func (u *unigram) encode(dst []int32, piece string) []int32 {
	type node struct {
		score float64
		from  int
		id    int32
		set   bool
	}
	nodes := make([]node, len(piece)+1)
	nodes[0].set = true
	for at := 0; at < len(piece); {
		_, size := utf8.DecodeRuneInString(piece[at:])
		single := false
		base := nodes[at].score
		try := func(end int, score float64, id int32) {
			if n := &nodes[end]; !n.set || score > n.score {
				*n = node{score, at, id, true}
			}
		}
		for end := at + size; end <= len(piece) && end-at <= u.longest; {
			if id, ok := u.ids[piece[at:end]]; ok {
				try(end, base+u.scores[id], id)
				single = single || end == at+size
			}
			if end == len(piece) {
				break
			}
			_, n := utf8.DecodeRuneInString(piece[end:])
			end += n
		}
		if !single {
			try(at+size, base+u.unkScore, u.unk)
		}
		at += size
	}
	var ends []int
	for end := len(piece); end > 0; end = nodes[end].from {
		ends = append(ends, end)
	}
	// Unknown characters in a row are one piece, and may be bytes.
	from := 0 // of the unknown ones
	for i := len(ends) - 1; i >= 0; i-- {
		n := nodes[ends[i]]
		if n.id != u.unk {
			dst = u.unknown(dst, piece[from:n.from])
			dst = append(dst, n.id)
			from = ends[i]
		}
	}
	return u.unknown(dst, piece[from:])
}

// unknown appends a run of characters without tokens.
func (u *unigram) unknown(dst []int32, s string) []int32 {
	if s == "" {
		return dst
	}
	if id, ok := u.ids[s]; ok {
		return append(dst, id)
	}
	if all, ok := u.asBytes(s); ok {
		return append(dst, all...)
	}
	return append(dst, u.unk)
}

func (u *unigram) asBytes(s string) ([]int32, bool) {
	if !u.bytes {
		return nil, false
	}
	var all []int32
	for i := range len(s) {
		if u.fallback[s[i]] < 0 {
			return nil, false
		}
		all = append(all, u.fallback[s[i]])
	}
	return all, true
}
