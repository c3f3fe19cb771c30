package sessions

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// maxLine bounds a line of a JSONL file: some hundred times a tap record.
const maxLine = 1 << 20

// ReadJSONL reads a file of one JSON object a line. Blank lines are skipped. A
// last line that was torn in mid-write is not a record: fragmentBytes is its
// length, so that what is appended next can start on a fresh line. Anything else
// that is not an object is an error with its line number.
func ReadJSONL(r io.Reader) (records []json.RawMessage, fragmentBytes int64, err error) {
	b := bufio.NewReaderSize(r, 1<<16)
	for n := 1; ; n++ {
		text, whole, err := readLine(b)
		if err != nil {
			return records, 0, fmt.Errorf("sessions: line %d: %w", n, err)
		}
		if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 {
			switch {
			case json.Valid(trimmed) && trimmed[0] == '{' && utf8.Valid(trimmed):
				records = append(records, bytes.Clone(trimmed))
			case !whole:
				return records, int64(len(text)), nil
			default:
				return records, 0, fmt.Errorf("sessions: line %d: not a JSON object", n)
			}
		}
		if !whole {
			return records, 0, nil
		}
	}
}

// readLine reads up to and without the next line feed; whole says whether there
// was one.
func readLine(b *bufio.Reader) (text []byte, whole bool, err error) {
	for {
		part, err := b.ReadSlice('\n')
		text = append(text, part...)
		switch {
		case err == nil:
			return text[:len(text)-1], true, nil
		case errors.Is(err, io.EOF):
			return text, false, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, false, err
		case len(text) > maxLine:
			return nil, false, fmt.Errorf("longer than %d bytes", maxLine)
		}
	}
}

// appendJSONString appends a JSON string. Invalid UTF-8 becomes U+FFFD.
func appendJSONString(dst []byte, s string) []byte {
	plain := true
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			plain = false
			break
		}
	}
	if plain {
		dst = append(dst, '"')
		dst = append(dst, s...)
		return append(dst, '"')
	}
	q, err := json.Marshal(s)
	if err != nil { // a string always can be
		return append(dst, `""`...)
	}
	return append(dst, q...)
}
