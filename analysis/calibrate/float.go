package calibrate

// Float is a figure that may be undefined: NaN and infinities are strings in JSON.
type Float float64
