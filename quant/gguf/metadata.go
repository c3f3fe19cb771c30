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
	geo   geometry
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

// wanted is a count that has but one value.
type wanted struct {
	key string
	n   int
}

// wants refuses counts that are there and others.
func (m *metadata) wants(why string, list []wanted) {
	for _, w := range list {
		if n := m.count(w.key, w.n); n != w.n {
			m.refuse("%s.%s is %d %s %d", m.arch, w.key, n, why, w.n)
		}
	}
}

// blocks is the number of layers, MTP layers among them.
func (m *metadata) blocks() int {
	n := m.need("block_count")
	if n > maxBlocks {
		m.broken("%s.block_count is %d", m.arch, n)
		return 1
	}
	return n
}

// counts are the values of a list, or so many times one value; otherwise where the key
// is absent.
func (m *metadata) counts(key string, n int, otherwise []int) []int {
	v, ok := m.value(key)
	if !ok {
		return otherwise
	}
	out := make([]int, n)
	var list []int64
	switch x := v.List.(type) {
	case nil:
		one := m.count(key, 0)
		for i := range out {
			out[i] = one
		}
		return out
	case []int64:
		list = x
	case []uint64:
		for _, u := range x {
			list = append(list, int64(min(u, maxCount+1)))
		}
	default:
		m.broken("%s.%s is a list of %s", m.arch, key, v.Elem)
		return out
	}
	if len(list) < n {
		m.broken("%s.%s has %d values, want %d", m.arch, key, len(list), n)
		return out
	}
	for i := range out {
		if list[i] < 0 || list[i] > maxCount {
			m.broken("%s.%s: value %d is %d, want an integer from 0 to %d", m.arch, key, i, list[i], maxCount)
			return make([]int, n)
		}
		out[i] = int(list[i])
	}
	return out
}

// reals are the values of a list, or so many times one value; zeros where the key is
// absent.
func (m *metadata) reals(key string, n int) []float32 {
	out := make([]float32, n)
	v, ok := m.value(key)
	if list, is := v.List.([]float64); ok && is {
		if len(list) < n {
			m.broken("%s.%s has %d values, want %d", m.arch, key, len(list), n)
			return out
		}
		for i := range out {
			if out[i] = float32(list[i]); out[i]-out[i] != 0 {
				m.broken("%s.%s: value %d is %g", m.arch, key, i, out[i])
				return make([]float32, n)
			}
		}
		return out
	}
	one := m.real(key, 0)
	for i := range out {
		out[i] = one
	}
	return out
}

// flags are the values of a list, or what otherwise says where the key is absent.
func (m *metadata) flags(key string, n int, otherwise func(i int) bool) []bool {
	out := make([]bool, n)
	v, ok := m.value(key)
	list, is := v.List.([]bool)
	switch {
	case ok && !is:
		m.broken("%s.%s is no list of truths", m.arch, key)
	case ok && len(list) < n:
		m.broken("%s.%s has %d values, want %d", m.arch, key, len(list), n)
	case ok:
		copy(out, list)
	default:
		for i := range out {
			out[i] = otherwise(i)
		}
	}
	return out
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
