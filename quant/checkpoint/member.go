package checkpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// SetMember gives a member of a JSON object a value: the one that it has is
// replaced, a new one comes last. Every other byte of the text stays, Python's
// NaN and Infinity too. The value, which is any JSON, is indented like its
// neighbours.
func SetMember(text []byte, key string, value []byte) ([]byte, error) {
	s, err := newScanner(text)
	if err != nil {
		return nil, err
	}
	s.python = true
	var first, start, end, last int // of the first key, of the value, and after the last value
	err = s.members(func(name []byte) error {
		s.space()
		found := string(name) == key
		if found && start > 0 {
			return fmt.Errorf("key %s stands twice", quoted(key))
		}
		from := s.pos
		if err := s.skip(2); err != nil {
			return err
		}
		if last = s.pos; found {
			start, end = from, s.pos
		}
		return nil
	})
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return nil, err
	}
	open := bytes.IndexByte(text, '{') + 1
	for first = open; isBlank(text[first]); first++ {
	}
	gap := text[open:first] // between brace and first member, or within an empty object
	if last == 0 {          // empty
		gap, last = []byte("\n  "), open
	}
	shown, err := indentLike(gap, value)
	if err != nil {
		return nil, err
	}
	if start > 0 {
		return bytes.Join([][]byte{text[:start], shown, text[end:]}, nil), nil
	}
	member := appendText(nil, key)
	member = append(append(member, ": "...), shown...)
	if last == open {
		return bytes.Join([][]byte{text[:open], gap, member, []byte("\n"), text[first:]}, nil), nil
	}
	if bytes.IndexByte(gap, '\n') < 0 {
		gap = []byte(" ")
	}
	return bytes.Join([][]byte{text[:last], []byte(","), gap, member, text[last:]}, nil), nil
}

// indentLike formats JSON for a member that has gap before it: over several
// lines where its neighbours are.
func indentLike(gap, value []byte) ([]byte, error) {
	var out bytes.Buffer
	value = bytes.TrimSpace(value)
	i := bytes.LastIndexByte(gap, '\n')
	if i < 0 {
		err := json.Compact(&out, value)
		return out.Bytes(), err
	}
	step := string(gap[i+1:])
	if step == "" {
		step = "  "
	}
	err := json.Indent(&out, value, string(gap[i+1:]), step)
	return out.Bytes(), err
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
