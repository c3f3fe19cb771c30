package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Word, Count and Words are the values that most keys have.
func Word(s string) Value     { return Value{Type: String, V: s} }
func Count(n uint32) Value    { return Value{Type: Uint32, V: uint64(n)} }
func Words(s ...string) Value { return Value{Type: Array, Elem: String, List: s} }

func appendText(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

// appendValue encodes what follows the type of a value.
func appendValue(b []byte, v Value, depth int) ([]byte, error) {
	if v.Type == Array {
		return appendArray(b, v, depth)
	}
	return appendScalar(b, v.Type, v.V)
}

// appendScalar encodes a value of a type, held as Value says, within the range of
// that type.
func appendScalar(b []byte, t ValueType, v any) ([]byte, error) {
	switch x := v.(type) {
	case string:
		if t == String {
			return appendText(b, x), nil
		}
	case bool:
		if t == Bool {
			if x {
				return append(b, 1), nil
			}
			return append(b, 0), nil
		}
	case float32:
		if t == Float32 {
			return binary.LittleEndian.AppendUint32(b, math.Float32bits(x)), nil
		}
	case float64:
		switch t {
		case Float64:
			return binary.LittleEndian.AppendUint64(b, math.Float64bits(x)), nil
		case Float32: // as lists hold them
			return binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(x))), nil
		}
	case uint64:
		switch t {
		case Uint8, Uint16, Uint32, Uint64:
			if size := t.size(); size == 8 || x>>(8*size) == 0 {
				return appendLow(b, x, size), nil
			}
			return nil, fmt.Errorf("%d does not fit into %s", x, t)
		}
	case int64:
		switch t {
		case Int8, Int16, Int32, Int64:
			if size := t.size(); x<<(64-8*size)>>(64-8*size) == x {
				return appendLow(b, uint64(x), size), nil
			}
			return nil, fmt.Errorf("%d does not fit into %s", x, t)
		}
	}
	return nil, fmt.Errorf("a %T is no value of %s", v, t)
}

// appendLow appends the low bytes of a number.
func appendLow(b []byte, x uint64, bytes int64) []byte {
	for range bytes {
		b = append(b, byte(x))
		x >>= 8
	}
	return b
}

func appendArray(b []byte, v Value, depth int) ([]byte, error) {
	if depth >= maxNesting {
		return nil, fmt.Errorf("arrays nest more than %d deep", maxNesting)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(v.Elem))
	switch list := v.List.(type) {
	case []Value:
		b = binary.LittleEndian.AppendUint64(b, uint64(len(list)))
		for _, e := range list {
			if e.Type != Array || v.Elem != Array {
				return nil, fmt.Errorf("an array of %s holds a value of %s", v.Elem, e.Type)
			}
			var err error
			if b, err = appendArray(b, e, depth+1); err != nil {
				return nil, err
			}
		}
		return b, nil
	case []string:
		return appendList(b, v.Elem, list)
	case []uint64:
		return appendList(b, v.Elem, list)
	case []int64:
		return appendList(b, v.Elem, list)
	case []float64:
		return appendList(b, v.Elem, list)
	case []bool:
		return appendList(b, v.Elem, list)
	case nil: // an empty list of numbers is read as none
		if v.Elem.size() > 0 {
			return binary.LittleEndian.AppendUint64(b, 0), nil
		}
	}
	return nil, fmt.Errorf("a %T is no list of %s", v.List, v.Elem)
}

func appendList[T any](b []byte, t ValueType, list []T) ([]byte, error) {
	if t != String && t.size() == 0 {
		return nil, fmt.Errorf("a list of %s", t)
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(len(list)))
	for _, x := range list {
		var err error
		if b, err = appendScalar(b, t, x); err != nil {
			return nil, err
		}
	}
	return b, nil
}
