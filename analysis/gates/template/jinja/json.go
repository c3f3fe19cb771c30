package jinja

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// FromJSON reads one JSON document; keys keep their order, of a key that comes twice
// the last value counts.
func FromJSON(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := fromJSON(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("something follows the JSON document")
	}
	return v, nil
}

func fromJSON(d *json.Decoder, depth int) (any, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("JSON is nested more than %d times", maxNesting)
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '[' {
			l := NewList()
			for d.More() {
				v, err := fromJSON(d, depth+1)
				if err != nil {
					return nil, err
				}
				l.Items = append(l.Items, v)
			}
			_, err := d.Token()
			return l, err
		}
		m := NewDict()
		for d.More() {
			k, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := fromJSON(d, depth+1)
			if err != nil {
				return nil, err
			}
			m.put(k, v)
		}
		_, err := d.Token()
		return m, err
	case json.Number:
		return jsonNumber(string(t)), nil
	}
	return t, nil
}

func jsonNumber(s string) any {
	if !strings.ContainsAny(s, ".eE") {
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			return i
		}
		return bigInt(s)
	}
	f, _ := strconv.ParseFloat(s, 64) // out of range is infinite, as in Python
	return f
}

// From makes a value of what Go's decoders give: maps of strings are taken in the
// order of their keys.
func From(v any) (any, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return FromJSON(b)
}

// jsonForm is how json.dumps is asked to write.
type jsonForm struct {
	ascii     bool
	indent    string
	lines     bool
	item, key string
	sorted    bool
}

func (r *run) toJSON(b *strings.Builder, v any, f *jsonForm, depth int) {
	if depth > maxNesting {
		r.failf("a value is nested more than %d times", maxNesting)
	}
	r.step()
	if b.Len() > maxBytes {
		r.failf("a text is longer than %d bytes", maxBytes)
	}
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case bigInt:
		b.WriteString(string(v))
	case float64:
		b.WriteString(jsonFloat(v))
	case string:
		jsonText(b, v, f.ascii)
	case *Dict:
		r.jsonDict(b, v, f, depth)
	case *List:
		if v.kind > tuple {
			r.failf("Object of type %s is not JSON serializable", kindNames[v.kind])
		}
		if len(v.Items) == 0 {
			b.WriteString("[]")
			return
		}
		b.WriteByte('[')
		for i, x := range v.Items {
			f.between(b, i, depth+1)
			r.toJSON(b, x, f, depth+1)
		}
		f.end(b, depth)
		b.WriteByte(']')
	default:
		r.failf("Object of type %s is not JSON serializable", typeName(v))
	}
}

func (r *run) jsonDict(b *strings.Builder, d *Dict, f *jsonForm, depth int) {
	if len(d.pairs) == 0 {
		b.WriteString("{}")
		return
	}
	pairs := d.pairs
	if f.sorted {
		pairs = append([]pair(nil), pairs...)
		r.sortBy(pairs, func(p pair) any { return p.key })
	}
	b.WriteByte('{')
	for i, p := range pairs {
		f.between(b, i, depth+1)
		switch k := p.key.(type) {
		case string:
			jsonText(b, k, f.ascii)
		case nil, bool, int64, float64, bigInt:
			b.WriteByte('"')
			r.toJSON(b, k, f, depth)
			b.WriteByte('"')
		default:
			r.failf("keys must be str, int, float, bool or None, not %s", typeName(k))
		}
		b.WriteString(f.key)
		r.toJSON(b, p.value, f, depth+1)
	}
	f.end(b, depth)
	b.WriteByte('}')
}

func (f *jsonForm) between(b *strings.Builder, i, depth int) {
	if i > 0 {
		b.WriteString(f.item)
	}
	f.line(b, depth)
}

func (f *jsonForm) end(b *strings.Builder, depth int) { f.line(b, depth) }

func (f *jsonForm) line(b *strings.Builder, depth int) {
	if f.lines {
		b.WriteByte('\n')
		for range depth {
			b.WriteString(f.indent)
		}
	}
}

func jsonFloat(v float64) string {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 1):
		return "Infinity"
	case math.IsInf(v, -1):
		return "-Infinity"
	}
	return floatText(v)
}

func jsonText(b *strings.Builder, s string, ascii bool) {
	b.WriteByte('"')
	for i := 0; i < len(s); {
		c, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == '\b':
			b.WriteString(`\b`)
		case c == '\f':
			b.WriteString(`\f`)
		case c < 0x20 || ascii && c > 0x7e && c < 0x10000:
			fmt.Fprintf(b, `\u%04x`, c)
		case ascii && c >= 0x10000:
			c -= 0x10000
			fmt.Fprintf(b, `\u%04x\u%04x`, 0xd800+c>>10, 0xdc00+c&0x3ff)
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	b.WriteByte('"')
}

// ToJSON writes a value as Python's json.dumps does, without escaping what is not
// ASCII.
func ToJSON(v any) (text string, err error) {
	r := &run{}
	defer func() {
		switch v := recover().(type) {
		case nil:
		case failure:
			text, err = "", v.err
		default:
			panic(v)
		}
	}()
	var b strings.Builder
	r.toJSON(&b, v, &jsonForm{item: ", ", key: ": "}, 0)
	return b.String(), nil
}
