package jinja

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Values are nil, bool, int64, float64, string, *Dict, *List, and what only templates
// make: undefined values, namespaces, functions, macros, loops.

// List is an ordered collection, of a kind that Python tells apart.
type List struct {
	kind  kind
	Items []any
}

type kind uint8

const (
	list kind = iota
	tuple
	generator // of a filter that is lazy in Jinja: it has no length
	keyView
	valueView
	itemView
	span // of range()
)

var kindNames = [...]string{"list", "tuple", "generator", "dict_keys", "dict_values", "dict_items", "range"}

// NewList is a list of values.
func NewList(items ...any) *List { return &List{Items: items} }

// Dict is a mapping that keeps the order in which keys came.
type Dict struct {
	at    map[string]int
	pairs []pair
}

type pair struct{ key, value any }

// NewDict is an empty mapping.
func NewDict() *Dict { return &Dict{at: map[string]int{}} }

// Set puts a value at a key of type string; an old one keeps its place.
func (d *Dict) Set(key string, value any) *Dict {
	d.put(key, value)
	return d
}

// Get is the value at a key.
func (d *Dict) Get(key string) (any, bool) { return d.lookup(key) }

// Len counts keys.
func (d *Dict) Len() int { return len(d.pairs) }

func (d *Dict) put(key, value any) bool {
	k, ok := hash(key)
	if !ok {
		return false
	}
	if i, ok := d.at[k]; ok {
		d.pairs[i].value = value
		return true
	}
	d.at[k] = len(d.pairs)
	d.pairs = append(d.pairs, pair{key, value})
	return true
}

func (d *Dict) lookup(key any) (any, bool) {
	k, ok := hash(key)
	if !ok {
		return nil, false
	}
	i, ok := d.at[k]
	if !ok {
		return nil, false
	}
	return d.pairs[i].value, true
}

func (d *Dict) keys() []any {
	out := make([]any, len(d.pairs))
	for i, p := range d.pairs {
		out[i] = p.key
	}
	return out
}

// hash is equal for keys that Python takes for the same: 1, 1.0 and True.
func hash(key any) (string, bool) {
	switch k := key.(type) {
	case string:
		return "s" + k, true
	case nil:
		return "none", true
	case bool, int64, float64:
		f, _ := number(k)
		if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return "i" + strconv.FormatInt(int64(f), 10), true
		}
		if i, ok := k.(int64); ok {
			return "i" + strconv.FormatInt(i, 10), true
		}
		return "f" + strconv.FormatFloat(f, 'g', -1, 64), true
	case *List:
		if k.kind != tuple {
			return "", false
		}
		var b strings.Builder
		b.WriteString("t")
		for _, v := range k.Items {
			h, ok := hash(v)
			if !ok {
				return "", false
			}
			fmt.Fprintf(&b, "%d:%s", len(h), h)
		}
		return b.String(), true
	}
	return "", false
}

// undef is a value that is not there; using it as more than nothing is an error,
// which says why.
type undef struct{ why string }

type namespace struct{ vars *Dict }

// function is what a template can call.
type function struct {
	name string
	call func(r *run, a args) any
}

// bigInt is a whole number beyond int64: it can be written, not computed with.
type bigInt string

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// whole is v as an index: an int or a bool.
func whole(v any) (int64, bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case int64:
		return v, true
	}
	return 0, false
}

func truth(v any) bool {
	switch v := v.(type) {
	case nil, *undef:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case marked:
		return v != ""
	case *List:
		return v.kind == generator || len(v.Items) > 0
	case *Dict:
		return len(v.pairs) > 0
	}
	return true
}

func typeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64, bigInt:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case marked:
		return "Markup"
	case *List:
		return kindNames[v.kind]
	case *Dict:
		return "dict"
	case *undef:
		return "Undefined"
	case *namespace:
		return "Namespace"
	case *loop:
		return "LoopContext"
	case *macro:
		return "Macro"
	}
	return "function"
}

// equal is Python's ==.
func equal(a, b any) bool {
	if x, ok := number(a); ok {
		y, ok := number(b)
		if i, both := a.(int64); both {
			if j, both := b.(int64); both {
				return i == j
			}
		}
		return ok && x == y
	}
	switch a := a.(type) {
	case nil:
		return b == nil
	case string:
		s, ok := b.(string)
		return ok && a == s
	case bigInt:
		s, ok := b.(bigInt)
		return ok && a == s
	case *undef:
		_, ok := b.(*undef)
		return ok
	case *List:
		l, ok := b.(*List)
		if !ok || a.kind != l.kind || len(a.Items) != len(l.Items) {
			return false
		}
		if a.kind == generator || a.kind == valueView {
			return a == l
		}
		for i := range a.Items {
			if !equal(a.Items[i], l.Items[i]) {
				return false
			}
		}
		return true
	case *Dict:
		d, ok := b.(*Dict)
		if !ok || len(a.pairs) != len(d.pairs) {
			return false
		}
		for _, p := range a.pairs {
			if v, ok := d.lookup(p.key); !ok || !equal(p.value, v) {
				return false
			}
		}
		return true
	}
	return a == b
}

// order is -1, 0 or 1, and whether Python orders the two at all.
func order(a, b any) (int, bool) {
	if x, ok := number(a); ok {
		y, ok := number(b)
		if !ok {
			return 0, false
		}
		if i, both := a.(int64); both {
			if j, both := b.(int64); both {
				return compare(i, j), true
			}
		}
		return compare(x, y), true
	}
	switch a := a.(type) {
	case string:
		s, ok := b.(string)
		return strings.Compare(a, s), ok
	case *List:
		l, ok := b.(*List)
		if !ok || a.kind != l.kind || a.kind > tuple {
			return 0, false
		}
		for i := range min(len(a.Items), len(l.Items)) {
			if !equal(a.Items[i], l.Items[i]) {
				return order(a.Items[i], l.Items[i])
			}
		}
		return compare(len(a.Items), len(l.Items)), true
	}
	return 0, false
}

func compare[T int | int64 | float64](a, b T) int {
	if a < b {
		return -1
	}
	if a > b {
		return 1
	}
	return 0
}

// length is Python's len, in code points for text.
func (r *run) length(v any) int {
	switch v := v.(type) {
	case string:
		return utf8.RuneCountInString(v)
	case *Dict:
		return len(v.pairs)
	case *undef:
		return 0
	case *List:
		if v.kind != generator {
			return len(v.Items)
		}
	}
	r.failf("object of type '%s' has no len()", typeName(v))
	return 0
}

// each is what iterating over a value brings.
func (r *run) each(v any) []any {
	switch v := v.(type) {
	case *List:
		return v.Items
	case *Dict:
		return v.keys()
	case *undef:
		return nil
	case string:
		r.make(len(v))
		out := make([]any, 0, len(v))
		for i := 0; i < len(v); {
			_, n := utf8.DecodeRuneInString(v[i:])
			out = append(out, v[i:i+n])
			i += n
		}
		return out
	}
	r.failf("'%s' object is not iterable", typeName(v))
	return nil
}
