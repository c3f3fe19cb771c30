package tokenizer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// addedToken is found in the text as it is.
type addedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized *bool  `json:"normalized"` // where it is not said, special ones are not
	Special    bool   `json:"special"`
}

func (a *addedToken) normalized() bool {
	if a.Normalized == nil {
		return !a.Special
	}
	return *a.Normalized
}

// maxAdded bounds added tokens and maxAddedText the bytes of one.
const (
	maxAdded     = 1 << 18
	maxAddedText = 1 << 12
)

// parseAdded takes in added tokens, numbered as the tokenizers library does,
// whatever the file says: one that the vocabulary has keeps the vocabulary's id, any other
// comes after all that are there. Where the file says otherwise that is a note.
// An empty token, and one that is there already, is left out.
func (t *Tokenizer) parseAdded(list []addedToken) error {
	if len(list) > maxAdded {
		return fmt.Errorf("%d of them, and at most %d are read", len(list), maxAdded)
	}
	have := map[string]bool{"": true}
	next := int32(len(t.ids))
	moved, first := 0, ""
	for _, a := range list {
		if have[a.Content] {
			continue
		}
		have[a.Content] = true
		if len(a.Content) > maxAddedText {
			return fmt.Errorf("token of id %d has %d bytes, and at most %d are read", a.ID, len(a.Content), maxAddedText)
		}
		said := a.ID
		id, ok := t.ids[a.Content]
		if a.ID = id; !ok {
			a.ID = next
			if err := t.setToken(a.Content, a.ID); err != nil {
				return err
			}
		}
		next = max(next, a.ID+1)
		if a.ID != said {
			if moved++; moved == 1 {
				first = fmt.Sprintf("%q has id %d in the file and %d by the rule", a.Content, said, a.ID)
			}
		}
		t.adds[a.ID] = true
		if a.Special {
			t.silent[a.ID] = true
		}
		t.added = append(t.added, a)
	}
	if moved > 0 {
		t.notes = append(t.notes, fmt.Sprintf("%d added tokens are numbered by the library's rule and not by the file: %s", moved, first))
	}
	return nil
}

// index makes the two searches over added tokens: of those that are looked for in
// the text as it is, and of those in normalized text, whose own text is normalized.
func (t *Tokenizer) index() {
	var m matcher
	t.shown = map[int32]string{}
	for i := range t.added {
		a := &t.added[i]
		if !a.normalized() {
			t.raw.add(a.Content, a)
			continue
		}
		text := a.Content
		for _, n := range t.norms {
			text = n(&m, text)
		}
		t.shown[a.ID] = text
		t.normal.add(text, a)
	}
	t.raw.sort()
	t.normal.sort()
}

// search finds texts: of those that begin first, the longest.
type search struct {
	byStart [256][]needle
	any     bool
}

type needle struct {
	text string
	tok  *addedToken
}

func (s *search) add(text string, tok *addedToken) {
	if text != "" {
		s.byStart[text[0]] = append(s.byStart[text[0]], needle{text, tok})
		s.any = true
	}
}

// sort puts the texts of each first byte in order, so that those which a place can
// have are found by bisection.
func (s *search) sort() {
	for b := range s.byStart {
		slices.SortStableFunc(s.byStart[b], func(x, y needle) int { return cmp.Compare(x.text, y.text) })
	}
}

// at is the longest text at a place.
func (s *search) at(text string, at int) (n needle, ok bool) {
	list := s.byStart[text[at]]
	if len(list) == 0 {
		return n, false
	}
	if len(list) <= 4 {
		for _, x := range list {
			if strings.HasPrefix(text[at:], x.text) { // the longest comes last
				n, ok = x, true
			}
		}
		return n, ok
	}
	// Texts that are prefixes of the rest stand in a chain: each is the last that
	// is not greater than some beginning of it.
	for size := 1; at+size <= len(text); {
		head := text[at : at+size]
		i, exact := slices.BinarySearchFunc(list, head, func(x needle, h string) int { return cmp.Compare(x.text, h) })
		if exact {
			n, ok = list[i], true
			i++
			for i < len(list) && list[i].text == head {
				i++
			}
		}
		if i == len(list) || !strings.HasPrefix(list[i].text, head) {
			break // nothing longer begins so
		}
		size++
	}
	return n, ok
}

// split finds added tokens and hands over what stands between; id is −1 for that.
// A token may take the spaces around it, but none that the one before took.
func (s *search) split(text string, emit func(from, to int, id int32)) {
	done := 0
	for at := 0; at < len(text) && s.any; {
		n, ok := s.at(text, at)
		if !ok {
			at++
			continue
		}
		start, end := at, at+len(n.text)
		at = end
		if n.tok.SingleWord && (aloneSet.inBefore(text, start) || aloneSet.inAfter(text, end)) {
			continue
		}
		if n.tok.LStrip {
			start = max(len(strings.TrimRightFunc(text[:start], isSpace)), done)
		}
		if n.tok.RStrip {
			end = len(text) - len(strings.TrimLeftFunc(text[end:], isSpace))
		}
		if start > done {
			emit(done, start, -1)
		}
		emit(start, end, n.tok.ID)
		done = end
	}
	if done < len(text) {
		emit(done, len(text), -1)
	}
}
