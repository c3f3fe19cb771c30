package gguf

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"quantscope/quant/checkpoint"
)

// maxRotary bounds the factors of a rope; heads have a few hundred channels.
const maxRotary = 1 << 12

// ropeFactors turns the divisors of rope_freqs.weight, one a frequency, back into
// the rule that they came from, that of Llama 3.1:
//
//	1/d = (1−s)/F + s,  s = (L/w − low)/(high − low) held within 0 and 1,
//
// where w is the wavelength. With a = L/(high−low) and b = low/(high−low) it is
// s = a/w − b, so that the divisors say a, b and F alone; low = 1, as every model
// of that family has it, makes the rest of them. Divisors that follow no such rule
// are refused.
func (c config) ropeFactors(f *File, t *Tensor) error {
	if c["rope_scaling"] != nil {
		return refuseRope(f, t, "divisors of a rope beside a scaling of its own")
	}
	dim, _ := c["head_dim"].(int)
	theta, err := strconv.ParseFloat(string(c["rope_theta"].(json.Number)), 64)
	if err != nil || theta <= 0 {
		return refuseRope(f, t, "rope_theta is %v", c["rope_theta"])
	}
	s, err := llama3Section(f, t, dim/2, dim/2, theta)
	if s != nil {
		c["rope_scaling"] = s
	}
	return err
}

func refuseRope(f *File, t *Tensor, format string, args ...any) error {
	return &checkpoint.FileError{File: f.Path, Tensor: t.Name, Reason: fmt.Sprintf(format, args...), Err: checkpoint.ErrUnsupported}
}

// llama3Section is the section of a config about the rule that so many divisors came
// from, of which the first few belong to frequencies and the others are 1; nil where
// they divide nothing.
func llama3Section(f *File, t *Tensor, all, used int, theta float64) (map[string]any, error) {
	n := t.Elements()
	if n > maxRotary || n != int64(all) {
		return nil, refuseRope(f, t, "%d divisors for heads of %d channels", n, 2*all)
	}
	divisors := make([]float32, n)
	if err := f.Decode(context.Background(), t, 0, divisors); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(divisors, func(d float32) bool { return d != 1 }) {
		return nil, nil
	}
	if slices.ContainsFunc(divisors[used:], func(d float32) bool { return d != 1 }) {
		return nil, refuseRope(f, t, "divisors of channels that do not rotate are not 1")
	}
	r, ok := llama3Of(divisors[:used], theta)
	if !ok {
		return nil, refuseRope(f, t, "its divisors of rope frequencies follow no rule that is known; known is that of Llama 3.1")
	}
	return map[string]any{
		"rope_type": "llama3", "factor": number(float32(r.factor)), "low_freq_factor": r.low, "high_freq_factor": r.high,
		"original_max_position_embeddings": int(r.original),
	}, nil
}

// llama3 are the parameters of the rule.
type llama3 struct{ factor, low, high, original float64 }

// at is the divisor of a frequency of which a turn takes w positions.
func (r llama3) at(w float64) float64 {
	switch {
	case w < r.original/r.high:
		return 1
	case w > r.original/r.low:
		return r.factor
	}
	s := (r.original/w - r.low) / (r.high - r.low)
	return 1 / ((1-s)/r.factor + s)
}

// llama3Of finds the parameters, and holds them against all divisors.
func llama3Of(divisors []float32, theta float64) (llama3, bool) {
	r := llama3{factor: float64(slices.Max(divisors))}
	if r.factor <= 1 || slices.Min(divisors) < 1 {
		return r, false
	}
	wave := func(i int) float64 {
		return 2 * math.Pi * math.Pow(theta, float64(i)/float64(len(divisors)))
	}
	// Least squares of s over 1/w, through the divisors between the bounds.
	var n, sx, sy, sxx, sxy float64
	for i, d := range divisors {
		if d == 1 || float64(d) == r.factor {
			continue
		}
		x, y := 1/wave(i), (1/float64(d)-1/r.factor)/(1-1/r.factor)
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	// Too few divisors between the bounds leave more than one rule: that of the
	// released models, with high = 4, is tried first, then others; any of them that
	// gives the divisors is as good.
	var tries []llama3
	if n >= 2 && n*sxx > sx*sx {
		a := (n*sxy - sx*sy) / (n*sxx - sx*sx)
		if b := (a*sx - sy) / n; b > 0 && a > 0 {
			tries = append(tries, llama3{r.factor, 1, math.Round((1+1/b)*8) / 8, math.Round(a / b)}, llama3{r.factor, 1, 1 + 1/b, math.Round(a / b)})
		}
	}
	for _, high := range []float64{4, 32, 2, 8, 16, 1.5} {
		if n >= 1 {
			tries = append(tries, llama3{r.factor, 1, high, math.Round(((high-1)*sy + n) / sx)})
		} else if first := slices.Index(divisors, float32(r.factor)); first > 0 {
			tries = append(tries, llama3{r.factor, 1, high, math.Round(math.Sqrt(high * wave(first-1) * wave(first)))})
		}
	}
	for _, t := range tries {
		if t.high > t.low && t.original >= 1 && t.original < maxCount && t.meets(divisors, wave) {
			return t, true
		}
	}
	return r, false
}

// meets allows for divisors that were computed in f32.
func (r llama3) meets(divisors []float32, wave func(int) float64) bool {
	for i, d := range divisors {
		if math.Abs(r.at(wave(i))/float64(d)-1) > 1e-4 {
			return false
		}
	}
	return true
}
