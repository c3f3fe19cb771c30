package gguf

import "fmt"

// ValueType is the type of a metadata value, by the number that the file has.
type ValueType uint32

// Types of values.
const (
	Uint8 ValueType = iota
	Int8
	Uint16
	Int16
	Uint32
	Int32
	Float32
	Bool
	String
	Array
	Uint64
	Int64
	Float64
)

var valueNames = [...]string{"UINT8", "INT8", "UINT16", "INT16", "UINT32", "INT32", "FLOAT32", "BOOL", "STRING", "ARRAY", "UINT64", "INT64", "FLOAT64"}

// size is the bytes of a value that has a fixed size, 0 for others.
func (t ValueType) size() int64 {
	switch t {
	case Uint8, Int8, Bool:
		return 1
	case Uint16, Int16:
		return 2
	case Uint32, Int32, Float32:
		return 4
	case Uint64, Int64, Float64:
		return 8
	}
	return 0
}

// String is the type's name.
func (t ValueType) String() string {
	if int(t) < len(valueNames) {
		return valueNames[t]
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// Value is one metadata value. Numbers are in V as uint64, int64, float32 or
// float64, texts as string, booleans as bool; arrays are in List as slices of
// these ([]uint64, []int64, []float64, []string, []bool, or []Value of arrays).
type Value struct {
	Type, Elem ValueType
	V          any
	List       any

	raw []byte // of File.Pairs: type and value as a little-endian file has them
}
