package landscape

import (
	"encoding/json"
	"math"
)

// Confidence is the level of all intervals.
const Confidence = 0.95

// Value is a statistic with its interval, or the reason why it does not exist.
type Value struct {
	V         float64
	Low, High float64 // interval at the level Confidence; both NaN where there is none
	Why       string  // why there is no V; "" where there is one
}

// Exact is a value without an interval.
func Exact(v float64) Value { return Value{V: v, Low: math.NaN(), High: math.NaN()} }

// Undefined is a value that does not exist.
func Undefined(why string) Value {
	return Value{V: math.NaN(), Low: math.NaN(), High: math.NaN(), Why: why}
}

// Defined says whether there is a value.
func (v Value) Defined() bool { return v.Why == "" }

// HasInterval says whether there is an interval.
func (v Value) HasInterval() bool { return v.Defined() && !math.IsNaN(v.Low) && !math.IsNaN(v.High) }

// MarshalJSON writes {"value": …, "low": …, "high": …} or {"value": null,
// "why": …}. An infinite value is the string "Infinity" or "-Infinity".
func (v Value) MarshalJSON() ([]byte, error) {
	if !v.Defined() {
		return json.Marshal(struct {
			Value *float64 `json:"value"`
			Why   string   `json:"why"`
		}{nil, v.Why})
	}
	out := map[string]any{"value": number(v.V)}
	if v.HasInterval() {
		out["low"], out["high"] = number(v.Low), number(v.High)
	}
	return json.Marshal(out)
}

func number(x float64) any {
	switch {
	case math.IsNaN(x):
		return "NaN"
	case math.IsInf(x, 1):
		return "Infinity"
	case math.IsInf(x, -1):
		return "-Infinity"
	}
	return x
}
