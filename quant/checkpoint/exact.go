package checkpoint

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
)

// AppendElement appends element i of raw as text: integers digit by digit,
// booleans as true and false, floats as the shortest decimal that reads back
// to the same value in their own precision (NaN, +Inf, -Inf as such).
func AppendElement(text []byte, dt DType, raw []byte, i int) ([]byte, error) {
	bits := dt.Bits()
	if bits == 0 || i < 0 || i >= len(raw)*8/bits {
		return text, fmt.Errorf("checkpoint: no element %d of %s in %d bytes", i, dt, len(raw))
	}
	at := raw[i*bits/8:]
	switch dt {
	case I8:
		return strconv.AppendInt(text, int64(int8(at[0])), 10), nil
	case I16:
		return strconv.AppendInt(text, int64(int16(binary.LittleEndian.Uint16(at))), 10), nil
	case I32:
		return strconv.AppendInt(text, int64(int32(binary.LittleEndian.Uint32(at))), 10), nil
	case I64:
		return strconv.AppendInt(text, int64(binary.LittleEndian.Uint64(at)), 10), nil
	case U8:
		return strconv.AppendUint(text, uint64(at[0]), 10), nil
	case U16:
		return strconv.AppendUint(text, uint64(binary.LittleEndian.Uint16(at)), 10), nil
	case U32:
		return strconv.AppendUint(text, uint64(binary.LittleEndian.Uint32(at)), 10), nil
	case U64:
		return strconv.AppendUint(text, binary.LittleEndian.Uint64(at), 10), nil
	case Bool:
		return strconv.AppendBool(text, at[0] != 0), nil
	case F64:
		return strconv.AppendFloat(text, math.Float64frombits(binary.LittleEndian.Uint64(at)), 'g', -1, 64), nil
	case C64:
		re := math.Float32frombits(binary.LittleEndian.Uint32(at))
		im := math.Float32frombits(binary.LittleEndian.Uint32(at[4:]))
		return append(text, strconv.FormatComplex(complex(float64(re), float64(im)), 'g', -1, 64)...), nil
	}
	n, k := 1, 0
	if bits < 8 { // decoded with its neighbour
		n, k = 8/bits, i%(8/bits)
	}
	var v [2]float32
	if err := DecodeF32(v[:n], dt, at[:max(1, bits/8)]); err != nil {
		return text, err
	}
	return strconv.AppendFloat(text, float64(v[k]), 'g', -1, 32), nil
}
