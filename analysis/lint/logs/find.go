package logs

import "strings"

// opening finds at once which signs may begin in a line: each by the first two
// bytes of its first word. Logs are long, and lines with a sign in them are few.
type opening struct {
	at    [1 << 16]uint8 // index in words plus 1 of the first word that begins so
	words []openWord
}

// openWord is a first word, the signs that begin with it, and the next word with
// the same two bytes.
type openWord struct {
	word  string
	signs []int
	next  uint8
}

var openings = newOpening(signs)

func newOpening(signs []sign) *opening {
	o := &opening{}
	index := map[string]int{}
	for i := range signs {
		w := signs[i].words[0]
		k, ok := index[w]
		if !ok {
			k = len(o.words)
			index[w] = k
			pair := int(w[0])<<8 | int(w[1])
			o.words = append(o.words, openWord{word: w, next: o.at[pair]})
			o.at[pair] = uint8(k + 1)
		}
		o.words[k].signs = append(o.words[k].signs, i)
	}
	return o
}

// first is the sign of a line that stands first in the table, with its place; -1
// where there is none.
func (o *opening) first(low string) (sign, at int) {
	sign = len(signs)
	for i := 0; i+1 < len(low); i++ {
		for k := o.at[int(low[i])<<8|int(low[i+1])]; k > 0; k = o.words[k-1].next {
			w := &o.words[k-1]
			if w.signs[0] >= sign || !strings.HasPrefix(low[i:], w.word) {
				continue
			}
			for _, s := range w.signs {
				if s >= sign {
					break
				}
				if p := signs[s].find(low); p >= 0 {
					sign, at = s, p
				}
			}
		}
	}
	if sign == len(signs) {
		return -1, 0
	}
	return sign, at
}
