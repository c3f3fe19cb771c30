package sessions

import (
	"fmt"
	"math"
	"strconv"
)

// Figure is a float64 that JSON can carry: non-finite values are the strings
// "NaN", "Infinity" and "-Infinity". Finite values come back bit for bit.
type Figure float64

// appendFigure appends the JSON of v.
func appendFigure(dst []byte, v float64) []byte {
	switch {
	case math.IsNaN(v):
		return append(dst, `"NaN"`...)
	case math.IsInf(v, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(v, -1):
		return append(dst, `"-Infinity"`...)
	}
	return strconv.AppendFloat(dst, v, 'g', -1, 64)
}

// MarshalJSON implements json.Marshaler.
func (f Figure) MarshalJSON() ([]byte, error) { return appendFigure(nil, float64(f)), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (f *Figure) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case "null":
	case `"NaN"`:
		*f = Figure(math.NaN())
	case `"Infinity"`:
		*f = Figure(math.Inf(1))
	case `"-Infinity"`:
		*f = Figure(math.Inf(-1))
	default:
		v, err := strconv.ParseFloat(string(b), 64)
		if err != nil {
			return fmt.Errorf("sessions: %s is not a figure", b)
		}
		*f = Figure(v)
	}
	return nil
}
