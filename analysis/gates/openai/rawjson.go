package openai

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Bounds of a JSON text: how deep it nests, and of how many values it is. They
// bound what a short hostile text costs in memory.
const (
	maxDepth = 100
	maxNodes = 4 << 20
)

type kind byte

const (
	absent kind = iota // a field that is not there
	null
	boolean
	number
	text
	list
	object
)

// node is a JSON value. The package encoding/json is not used for answers: it puts
// U+FFFD where a string is no UTF-8, and whether it is, is what is being measured.
type node struct {
	kind kind
	text string // of a string, unescaped; of a number, and true or false, as written
	list []node // of a list, and the values of an object
	keys []string
}

var errDepth = errors.New("nests too deep")

// parseJSON reads one JSON text. Bytes in strings that are no UTF-8 stay as they
// are; an escape that is half of a pair becomes the three bytes that UTF-8 would
// have for it, which no valid text holds. NaN, Infinity and -Infinity, which some
// servers write, are numbers.
func parseJSON(data []byte) (node, error) {
	p := parser{data: data, left: maxNodes}
	n, err := p.value(0)
	if err != nil {
		return node{}, err
	}
	if p.space(); p.at < len(data) {
		return node{}, p.bad("something after its end")
	}
	return n, nil
}

type parser struct {
	data []byte
	at   int
	left int // values that there may still be
}

func (p *parser) bad(what string) error { return fmt.Errorf("no JSON: %s at byte %d", what, p.at) }

func (p *parser) space() {
	for p.at < len(p.data) {
		switch p.data[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

func (p *parser) word(w string) bool {
	if len(p.data)-p.at < len(w) || string(p.data[p.at:p.at+len(w)]) != w {
		return false
	}
	p.at += len(w)
	return true
}

func (p *parser) value(depth int) (node, error) {
	if depth > maxDepth {
		return node{}, p.bad(errDepth.Error())
	}
	if p.left--; p.left < 0 {
		return node{}, p.bad(fmt.Sprintf("more than %d values", maxNodes))
	}
	p.space()
	if p.at >= len(p.data) {
		return node{}, p.bad("it ends")
	}
	switch c := p.data[p.at]; {
	case c == '"':
		s, err := p.str()
		return node{kind: text, text: s}, err
	case c == '[':
		return p.array(depth)
	case c == '{':
		return p.fields(depth)
	case p.word("null"):
		return node{kind: null}, nil
	case p.word("true"):
		return node{kind: boolean, text: "true"}, nil
	case p.word("false"):
		return node{kind: boolean, text: "false"}, nil
	case p.word("NaN"):
		return node{kind: number, text: "NaN"}, nil
	case p.word("Infinity"):
		return node{kind: number, text: "Infinity"}, nil
	case p.word("-Infinity"):
		return node{kind: number, text: "-Infinity"}, nil
	case c == '-' || c >= '0' && c <= '9':
		return p.num()
	}
	return node{}, p.bad("an unexpected character")
}

func (p *parser) array(depth int) (node, error) {
	n := node{kind: list}
	p.at++
	for first := true; ; first = false {
		if p.space(); first && p.word("]") {
			return n, nil
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return node{}, err
		}
		n.list = append(n.list, v)
		if p.space(); p.word("]") {
			return n, nil
		}
		if !p.word(",") {
			return node{}, p.bad("no comma")
		}
	}
}

func (p *parser) fields(depth int) (node, error) {
	n := node{kind: object}
	p.at++
	for first := true; ; first = false {
		if p.space(); first && p.word("}") {
			return n, nil
		}
		if p.at >= len(p.data) || p.data[p.at] != '"' {
			return node{}, p.bad("no name of a field")
		}
		k, err := p.str()
		if err != nil {
			return node{}, err
		}
		if p.space(); !p.word(":") {
			return node{}, p.bad("no colon")
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return node{}, err
		}
		n.keys, n.list = append(n.keys, k), append(n.list, v)
		if p.space(); p.word("}") {
			return n, nil
		}
		if !p.word(",") {
			return node{}, p.bad("no comma")
		}
	}
}

func (p *parser) num() (node, error) {
	from := p.at
	for p.at < len(p.data) {
		c := p.data[p.at]
		if (c < '0' || c > '9') && c != '-' && c != '+' && c != '.' && c != 'e' && c != 'E' {
			break
		}
		p.at++
	}
	s := string(p.data[from:p.at])
	if _, err := strconv.ParseFloat(s, 64); err != nil && !errors.Is(err, strconv.ErrRange) {
		p.at = from
		return node{}, p.bad("a number that is none")
	}
	return node{kind: number, text: s}, nil
}

// str reads a string, from its opening quote to behind its closing one.
func (p *parser) str() (string, error) {
	p.at++
	from := p.at
	for p.at < len(p.data) && p.data[p.at] != '"' && p.data[p.at] != '\\' {
		if p.data[p.at] < ' ' {
			return "", p.bad("a control character in a string")
		}
		p.at++
	}
	out := p.data[from:p.at:p.at] // copied by the first append
	for p.at < len(p.data) {
		c := p.data[p.at]
		switch {
		case c == '"':
			p.at++
			return string(out), nil
		case c < ' ':
			return "", p.bad("a control character in a string")
		case c != '\\':
			out = append(out, c)
			p.at++
		default:
			var err error
			if out, err = p.escape(out); err != nil {
				return "", err
			}
		}
	}
	return "", p.bad("a string without an end")
}

func (p *parser) escape(out []byte) ([]byte, error) {
	if p.at+1 >= len(p.data) {
		return nil, p.bad("an escape without an end")
	}
	c := p.data[p.at+1]
	if c != 'u' {
		for i, name := range []byte(`"\/bfnrt`) {
			if c == name {
				p.at += 2
				return append(out, "\"\\/\b\f\n\r\t"[i]), nil
			}
		}
		return nil, p.bad("an unknown escape")
	}
	r, ok := p.hex(p.at)
	if !ok {
		return nil, p.bad("an unknown escape")
	}
	p.at += 6
	if utf16.IsSurrogate(r) {
		if low, ok := p.hex(p.at); ok {
			if both := utf16.DecodeRune(r, low); both != utf8.RuneError {
				p.at += 6
				return utf8.AppendRune(out, both), nil
			}
		}
		return append(out, 0xe0|byte(r>>12), 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f), nil
	}
	return utf8.AppendRune(out, r), nil
}

// hex is the value of an escape \uXXXX that begins at a place.
func (p *parser) hex(at int) (rune, bool) {
	if len(p.data)-at < 6 || p.data[at] != '\\' || p.data[at+1] != 'u' {
		return 0, false
	}
	v, err := strconv.ParseUint(string(p.data[at+2:at+6]), 16, 16)
	return rune(v), err == nil
}

// get is a field of an object; of anything else, and where it is not there, a node
// of kind absent. Of fields of one name the last counts.
func (n node) get(name string) node {
	for i := len(n.keys) - 1; i >= 0; i-- {
		if n.keys[i] == name {
			return n.list[i]
		}
	}
	return node{}
}

func (n node) path(names ...string) node {
	for _, name := range names {
		n = n.get(name)
	}
	return n
}

// first is the first element of a list that has one.
func (n node) first() node {
	if n.kind != list || len(n.list) == 0 {
		return node{}
	}
	return n.list[0]
}

// str is the text of a string, else "".
func (n node) str() string {
	if n.kind != text {
		return ""
	}
	return n.text
}

// float is the value of a number; NaN for what is none.
func (n node) float() float64 {
	if n.kind != number {
		return math.NaN()
	}
	v, _ := strconv.ParseFloat(n.text, 64) // out of range is ±Inf
	return v
}

// integer is the value of a number that is a whole one within 53 bits, else -1.
func (n node) integer() int64 {
	v := n.float()
	if v != math.Trunc(v) || math.Abs(v) > 1<<53 {
		return -1
	}
	return int64(v)
}

// appendJSON writes a value. Strings are escaped where they must be, and otherwise
// keep their bytes.
func appendJSON(b []byte, n node) []byte {
	switch n.kind {
	case text:
		return appendString(b, n.text)
	case list:
		b = append(b, '[')
		for i, v := range n.list {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, v)
		}
		return append(b, ']')
	case object:
		b = append(b, '{')
		for i, v := range n.list {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, n.keys[i]), ':')
			b = appendJSON(b, v)
		}
		return append(b, '}')
	case number, boolean:
		return append(b, n.text...)
	}
	return append(b, "null"...)
}

func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = fmt.Appendf(b, `\u%04x`, c)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
