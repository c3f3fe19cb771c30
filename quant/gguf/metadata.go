package gguf

import (
	"fmt"
	"slices"
	"strings"

	"quantscope/quant/checkpoint"
)

// metadata reads the keys of one architecture and keeps the first error. Every
// key that is asked for counts as understood.
type metadata struct {
	f     *File
	arch  string
	asked map[string]bool
	err   error
}

func (m *metadata) refuse(format string, args ...any) {
	if m.err == nil {
		m.err = &checkpoint.FileError{File: m.f.Path, Reason: fmt.Sprintf(format, args...), Err: checkpoint.ErrUnsupported}
	}
}

// broken is for values that no file may have.
func (m *metadata) broken(format string, args ...any) {
	if m.err == nil {
		m.err = &checkpoint.FileError{File: m.f.Path, Reason: fmt.Sprintf(format, args...)}
	}
}

// value finds a key below the architecture's name.
func (m *metadata) value(key string) (Value, bool) {
	m.asked[key] = true
	v, ok := m.f.Metadata[m.arch+"."+key]
	return v, ok
}

// one is a value, or what all values of a list, one a layer, have in common.
func (m *metadata) one(key string) (any, bool) {
	v, ok := m.value(key)
	if !ok {
		return nil, false
	}
	switch list := v.List.(type) {
	case nil:
		return v.V, true
	case []uint64:
		return same(m, key, list)
	case []int64:
		return same(m, key, list)
	case []float64:
		return same(m, key, list)
	case []bool:
		return same(m, key, list)
	}
	m.broken("%s.%s is a list of %s", m.arch, key, v.Elem)
	return nil, false
}

func same[T comparable](m *metadata, key string, list []T) (any, bool) {
	if len(list) == 0 {
		m.broken("%s.%s is an empty list", m.arch, key)
		return nil, false
	}
	for i, x := range list {
		if x != list[0] {
			m.refuse("%s.%s is %v in layer 0 and %v in layer %d: layers of different sizes", m.arch, key, list[0], x, i)
			return nil, false
		}
	}
	return list[0], true
}

// maxCount bounds sizes that metadata state; the widest in use stay below 2^20,
// contexts below 2^24.
const maxCount = 1 << 30

// count is an integer of at least 0, or what is given where the key is absent.
func (m *metadata) count(key string, otherwise int) int {
	v, ok := m.one(key)
	if !ok {
		return otherwise
	}
	n := int64(-1)
	switch x := v.(type) {
	case uint64:
		n = int64(min(x, maxCount+1))
	case int64:
		n = x
	}
	if n < 0 || n > maxCount {
		m.broken("%s.%s is %v, want an integer from 0 to %d", m.arch, key, v, maxCount)
		return otherwise
	}
	return int(n)
}

// need is a count that must be there and not 0.
func (m *metadata) need(key string) int {
	n := m.count(key, -1)
	switch {
	case n < 0:
		m.broken("has no key %s.%s", m.arch, key)
	case n == 0:
		m.broken("%s.%s is 0", m.arch, key)
	}
	return max(n, 1)
}

// real is a number, or what is given where the key is absent.
func (m *metadata) real(key string, otherwise float32) float32 {
	v, ok := m.one(key)
	if !ok {
		return otherwise
	}
	var x float32
	switch n := v.(type) {
	case float32:
		x = n
	case float64:
		x = float32(n)
	case uint64:
		x = float32(n)
	case int64:
		x = float32(n)
	default:
		m.broken("%s.%s is %v, want a number", m.arch, key, v)
		return otherwise
	}
	if x-x != 0 {
		m.broken("%s.%s is %g", m.arch, key, x)
		return otherwise
	}
	return x
}

// needReal is a number above 0 that must be there.
func (m *metadata) needReal(key string) float32 {
	x := m.real(key, 0)
	if x <= 0 {
		m.broken("has no key %s.%s above 0", m.arch, key)
	}
	return x
}

func (m *metadata) flag(key string, otherwise bool) bool {
	v, ok := m.one(key)
	if !ok {
		return otherwise
	}
	b, is := v.(bool)
	if !is {
		m.broken("%s.%s is %v, want true or false", m.arch, key, v)
		return otherwise
	}
	return b
}

func (m *metadata) word(key string) string {
	v, ok := m.one(key)
	if !ok {
		return ""
	}
	s, is := v.(string)
	if !is {
		m.broken("%s.%s is %v, want a word", m.arch, key, v)
	}
	return s
}

// harmless are keys that change no result of a forward pass.
var harmless = []string{
	"vocab_size", "context_length", "rope.scaling.finetuned", "tensor_data_layout", "pooling_type",
	"attention.layer_norm_epsilon",
}

// unknown refuses keys of the architecture that nobody asked for, unless their
// value is one that does nothing: 0, false or an empty word.
func (m *metadata) unknown() {
	for _, key := range m.f.Keys {
		own, ok := strings.CutPrefix(key, m.arch+".")
		if !ok || m.asked[own] || slices.Contains(harmless, own) {
			continue
		}
		v := m.f.Metadata[key]
		switch v.V {
		case uint64(0), int64(0), float32(0), float64(0), false, "":
			continue
		}
		if v.Type == Array {
			m.refuse("key %s, a list of %s, is not known", key, v.Elem)
			return
		}
		m.refuse("key %s is not known; it is %.60q", key, fmt.Sprint(v.V))
		return
	}
}
