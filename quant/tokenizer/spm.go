package tokenizer

import "unicode/utf8"

// spm merges like sentencepiece's BPE: of all neighbours whose texts joined are a
// token the one with the highest score, of equal ones the first. A character
// that is no token becomes its bytes.
type spm struct {
	ids      map[string]int32
	scores   []float32
	fallback [256]int32
	unk      int32
	seams    seams
}

// offered is a pair of neighbours in the heap.
type offered struct {
	score float32
	at    int32 // left one
	size  int32 // bytes of both, by which a pair that has changed is known
}

func higher(o, p offered) bool { return o.score > p.score || o.score == p.score && o.at < p.at }

// part is a piece of text in a list that is linked both ways; −1 ends it.
type part struct{ from, size, prev, next int32 }

func (e *spm) encode(dst []int32, text string) []int32 {
	var list []part
	for at := 0; at < len(text); {
		_, size := utf8.DecodeRuneInString(text[at:])
		i := int32(len(list))
		list = append(list, part{int32(at), int32(size), i - 1, i + 1})
		at += size
	}
	if len(list) == 0 {
		return dst
	}
	list[len(list)-1].next = -1
	q := heaped[offered]{before: higher}
	look := func(i int32) {
		if i < 0 || list[i].next < 0 {
			return
		}
		l, r := list[i], list[list[i].next]
		if id, ok := e.ids[text[l.from:r.from+r.size]]; ok {
			q.push(offered{e.scores[id], i, l.size + r.size})
		}
	}
	for i := range list {
		look(int32(i))
	}
	for len(q.list) > 0 {
		o := q.pop()
		l := &list[o.at]
		if l.size == 0 || l.next < 0 || l.size+list[l.next].size != o.size {
			continue // one of the two was merged meanwhile
		}
		r := &list[l.next]
		l.size, r.size = o.size, 0
		if l.next = r.next; l.next >= 0 {
			list[l.next].prev = o.at
		}
		look(l.prev)
		look(o.at)
	}
	for i := int32(0); i >= 0; i = list[i].next {
		p := list[i]
		s := text[p.from : p.from+p.size]
		if id, ok := e.ids[s]; ok {
			dst = append(dst, id)
			continue
		}
		for k := range len(s) {
			id := e.fallback[s[k]]
			if id < 0 {
				id = e.unk
			}
			dst = append(dst, id)
		}
	}
	return dst
}

// encodeFragments cuts added tokens out as llama.cpp does: one token after the
// other, the longest first, wherever it stands. A token of GGUF files takes no
// spaces with it.
func (t *Tokenizer) encodeFragments(ids []int32, s *scratch, text string) []int32 {
	special := true // what came before: nothing, or a token that was cut out
	t.fragments(text, func(from, to int, id int32) {
		if id >= 0 {
			ids = append(ids, id)
			special = true
			return
		}
		part := text[from:to]
		if t.prefixSpace && special {
			part = " " + part
		}
		for _, n := range t.norms {
			part = n(&s.m, part)
		}
		ids = t.encodePieces(ids, s, part, from == 0)
		special = false
	})
	return ids
}
