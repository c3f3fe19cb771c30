package inspect

import (
	"context"
	"fmt"
	"math"

	"quantscope/quant/checkpoint"
)

// Values is what one tensor holds. Min, Max, Mean and Std are over its finite
// elements; they are absent where there is none.
type Values struct {
	Tensor
	NaN       int64    `json:"nan"`
	Inf       int64    `json:"inf"`
	Zeros     int64    `json:"zeros"`
	Positions []int64  `json:"nonfinite_at"` // of the first non-finite elements, in row-major order
	Min       *float64 `json:"min,omitempty"`
	Max       *float64 `json:"max,omitempty"`
	Mean      *float64 `json:"mean,omitempty"`
	Std       *float64 `json:"std,omitempty"`
	First     []string `json:"first"` // values of the first elements
}

// most bounds the lists of Values.
const most = 16

// chunk is how many elements are decoded at a time; even, since F4 holds two a byte.
const chunk = 1 << 16

// ReadValues reads one tensor in pieces and says what it holds.
func ReadValues(ctx context.Context, c *checkpoint.Checkpoint, name string) (*Values, error) {
	t, ok := c.Lookup(name)
	if !ok {
		return nil, &checkpoint.FileError{File: c.Path, Tensor: name, Reason: "no such tensor"}
	}
	v := &Values{
		Tensor:    Tensor{Name: t.Name, DType: t.DType.String(), Shape: append([]int64{}, t.Shape...), Elements: t.Elements(), Bytes: t.Size, File: c.Files[t.File].Name},
		Positions: []int64{}, First: []string{},
	}
	bits := int64(t.DType.Bits())
	n := t.Elements()
	raw := make([]byte, min(n, chunk)*bits/8)
	vals := make([]float32, min(n, chunk))
	var s moments
	for at := int64(0); at < n; at += chunk {
		k := min(n-at, chunk)
		raw, vals := raw[:k*bits/8], vals[:k]
		if err := c.ReadAt(ctx, t, at*bits/8, raw); err != nil {
			return nil, err
		}
		if at == 0 {
			for i := range int(min(k, most)) {
				text, err := checkpoint.AppendElement(nil, t.DType, raw, i)
				if err != nil {
					return nil, fmt.Errorf("%s: tensor %q: %w", v.File, name, err)
				}
				v.First = append(v.First, string(text))
			}
		}
		if !t.DType.HasF32() {
			return v, nil // complex numbers have no order; the first ones are shown
		}
		if err := checkpoint.DecodeF32(vals, t.DType, raw); err != nil {
			return nil, fmt.Errorf("%s: tensor %q: %w", v.File, name, err)
		}
		for i, x := range vals {
			v.take(float64(x), at+int64(i), &s)
		}
	}
	v.summarize(&s)
	return v, nil
}

// summarize takes over what is known of the finite elements.
func (v *Values) summarize(s *moments) {
	if s.n > 0 {
		mean, std := s.mean, math.Sqrt(s.m2/float64(s.n))
		v.Min, v.Max, v.Mean, v.Std = &s.min, &s.max, &mean, &std
	}
}

func (v *Values) take(x float64, at int64, s *moments) {
	switch {
	case math.IsNaN(x):
		v.NaN++
	case math.IsInf(x, 0):
		v.Inf++
	default:
		if x == 0 {
			v.Zeros++
		}
		s.add(x)
		return
	}
	if len(v.Positions) < most {
		v.Positions = append(v.Positions, at)
	}
}

// moments is Welford's running mean and sum of squared deviations.
type moments struct {
	n                  int64
	mean, m2, min, max float64
}

func (s *moments) add(x float64) {
	if s.n == 0 {
		s.min, s.max = x, x
	}
	s.n++
	s.min, s.max = min(s.min, x), max(s.max, x)
	d := x - s.mean
	s.mean += d / float64(s.n)
	s.m2 += d * (x - s.mean)
}
