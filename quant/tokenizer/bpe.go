package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// bpe merges the pair of symbols with the lowest rank, of equal ones the first,
// until none is left that has one.
type bpe struct {
	ids          map[string]int32
	ranks        pairs
	unk          int32 // -1 for none
	fuse         bool
	fallback     [256]int32 // ids of <0x00> to <0xFF>, -1 for none
	bytes        bool
	ignoreMerges bool
	lines        bool // a row of line ends that is a token is that token

	asBytes bool       // pieces are text whose bytes the vocabulary spells as characters
	byteIDs [256]int32 // of these, -1 for none
	whole   bool       // all are there
	seams   seams
	vocab   []string // by id
	sum     []byte   // digest of all of it
}

// maxMerges bounds the merges that are read.
const maxMerges = 1 << 22

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
	if len(raw) == 0 || string(raw) == "null" {
		return fmt.Errorf("there is none")
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
	for token, id := range vocab {
		if err := t.setToken(token, id); err != nil {
			return err
		}
	}
	b := newBPE(vocab, t.vocab)
	b.fuse, b.bytes, b.ignoreMerges = m.Fuse, m.ByteFallback, m.IgnoreMerges
	if m.Unk != nil {
		id, ok := vocab[*m.Unk]
		if !ok && !b.whole { // where every byte has a token, none is unknown
			return fmt.Errorf("unk_token %q is not in the vocabulary", *m.Unk)
		}
		if ok {
			b.unk = id
		}
	}
	t.model = b
	err := b.parseMerges(m.Merges)
	t.sum = b.sum
	return err
}

func newBPE(vocab map[string]int32, byID []string) *bpe {
	b := &bpe{ids: vocab, vocab: byID, unk: -1, whole: true}
	for i := range 256 {
		b.fallback[i], b.byteIDs[i] = -1, -1
		if id, ok := vocab[fmt.Sprintf("<0x%02X>", i)]; ok {
			b.fallback[i] = id
		}
		if id, ok := vocab[string(byteRunes[i])]; ok {
			b.byteIDs[i] = id
		} else {
			b.whole = false
		}
	}
	return b
}

// parseMerges reads pairs, or in older files two words in a string.
func (b *bpe) parseMerges(raw json.RawMessage) error {
	var list [][]string
	if err := json.Unmarshal(raw, &list); err != nil {
		var lines []string
		if json.Unmarshal(raw, &lines) != nil {
			return fmt.Errorf("merges: %w", err)
		}
		list = make([][]string, len(lines))
		for i, l := range lines {
			list[i] = strings.Split(l, " ")
		}
	}
	return b.setMerges(list)
}

// setMerges ranks the merges by their order. Of one that is there twice the last
// counts, as in the tokenizers library.
func (b *bpe) setMerges(list [][]string) error {
	if len(list) > maxMerges {
		return fmt.Errorf("%d merges, and at most %d are read", len(list), maxMerges)
	}
	d := newDigest()
	d.text(fmt.Sprintf("BPE unk %d fuse %t bytes %t ignore %t", b.unk, b.fuse, b.bytes, b.ignoreMerges))
	b.ranks = make(pairs, len(list))
	for i, p := range list {
		if len(p) != 2 {
			return fmt.Errorf("merge %d, %q, is no pair", i, strings.Join(p, " "))
		}
		left, ok1 := b.ids[p[0]]
		right, ok2 := b.ids[p[1]]
		into, ok3 := b.ids[p[0]+p[1]]
		if !ok1 || !ok2 || !ok3 {
			return fmt.Errorf("merge %d of %q and %q is not in the vocabulary", i, p[0], p[1])
		}
		b.ranks[pairOf(left, right)] = merge{int32(i), into}
		d.number(int64(left))
		d.number(int64(right))
	}
	b.sum = d.Sum(nil)
	return nil
}

func (b *bpe) encode(dst []int32, piece string) []int32 {
	if b.asBytes {
		if b.whole && !b.ignoreMerges {
			return b.encodeBytes(dst, piece)
		}
		if b.ignoreMerges {
			if id, ok := b.ids[toByteChars(piece)]; ok {
				return append(dst, id)
			}
		}
		if b.whole {
			return b.encodeBytes(dst, piece)
		}
		piece = toByteChars(piece)
	} else if b.ignoreMerges || b.lines && strings.Trim(piece, "\n") == "" {
		if id, ok := b.ids[piece]; ok {
			return append(dst, id)
		}
	}
	return b.ranks.join(dst, b.symbols(make([]int32, 0, len(piece)), piece))
}

func (b *bpe) encodeBytes(dst []int32, piece string) []int32 {
	var few [fewSymbols]int32
	symbols := few[:0]
	if len(piece) > fewSymbols {
		symbols = make([]int32, 0, len(piece))
	}
	for i := range len(piece) {
		symbols = append(symbols, b.byteIDs[piece[i]])
	}
	return b.ranks.join(dst, symbols)
}

// symbols are the characters of a piece: those of the vocabulary, else their
// bytes where there are tokens for them, else the unknown token, one for each or
// one for all in a row. A pending unknown token comes after the bytes of characters
// that follow it, as in the tokenizers library.
func (b *bpe) symbols(ids []int32, piece string) []int32 {
	pending := false
	for at := 0; at < len(piece); {
		_, size := utf8.DecodeRuneInString(piece[at:])
		char := piece[at : at+size]
		at += size
		if id, ok := b.ids[char]; ok {
			if pending {
				ids, pending = append(ids, b.unk), false
			}
			ids = append(ids, id)
			continue
		}
		if b.bytes && b.hasBytes(char) {
			for i := range len(char) {
				ids = append(ids, b.fallback[char[i]])
			}
			continue
		}
		if b.unk < 0 {
			continue
		}
		if pending && !b.fuse {
			ids = append(ids, b.unk)
		}
		pending = true
	}
	if pending {
		ids = append(ids, b.unk)
	}
	return ids
}

func (b *bpe) hasBytes(s string) bool {
	for i := range len(s) {
		if b.fallback[s[i]] < 0 {
			return false
		}
	}
	return true
}
