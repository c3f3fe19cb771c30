package convert

import (
	"encoding/json"
	"math"
)

// Figure is a number that is a string in JSON where it is not finite.
type Figure float64

// MarshalJSON writes "NaN", "Infinity" and "-Infinity" for what JSON has no
// number for.
func (f Figure) MarshalJSON() ([]byte, error) {
	switch x := float64(f); {
	case math.IsNaN(x):
		return []byte(`"NaN"`), nil
	case math.IsInf(x, 1):
		return []byte(`"Infinity"`), nil
	case math.IsInf(x, -1):
		return []byte(`"-Infinity"`), nil
	default:
		return json.Marshal(x)
	}
}
