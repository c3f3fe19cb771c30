package model

import (
	"math"
	"slices"
	"testing"
)

// TestGreedy takes the largest logit, of equal ones the first.
func TestGreedy(t *testing.T) {
	s := NewSampler(Sampling{TopK: 3, TopP: 0.1})
	for _, c := range []struct {
		logits []float32
		want   int32
	}{{[]float32{1, 3, 2}, 1}, {[]float32{-2, -1, -1}, 1}, {[]float32{5, 5, 5}, 0}} {
		if got := s.Choose(c.logits); got != c.want {
			t.Errorf("%v: %d, want %d", c.logits, got, c.want)
		}
	}
}

// TestSampling: frequencies are those of the softmax at the temperature, cut to
// the tokens that TopK and TopP leave; a seed gives the same tokens again.
func TestSampling(t *testing.T) {
	logits := []float32{0, 2, 1, -1, 1}
	const n = 40000
	for _, c := range []struct {
		name string
		s    Sampling
		left []int // by falling logit
	}{
		{"all", Sampling{Temperature: 1, Seed: 1}, []int{1, 2, 4, 0, 3}},
		{"cold", Sampling{Temperature: 0.5, Seed: 1}, []int{1, 2, 4, 0, 3}},
		{"top 2, of equal ones the first", Sampling{Temperature: 1, TopK: 2, Seed: 2}, []int{1, 2}},
		// Shares are .536 .197 .197 .073 .027 rounded down: .9 is reached with three.
		{"top 0.9", Sampling{Temperature: 1, TopP: 0.9, Seed: 3}, []int{1, 2, 4}},
		{"top 0.5", Sampling{Temperature: 1, TopP: 0.5, Seed: 3}, []int{1}},
		{"top 4, of them 0.9", Sampling{Temperature: 1, TopK: 4, TopP: 0.95, Seed: 3}, []int{1, 2, 4, 0}},
	} {
		a, b := NewSampler(c.s), NewSampler(c.s)
		count := make([]float64, len(logits))
		for range n {
			id := a.Choose(logits)
			if id != b.Choose(logits) {
				t.Fatalf("%s: the same seed gives other tokens", c.name)
			}
			count[id]++
		}
		var sum float64
		for _, i := range c.left {
			sum += math.Exp(float64(logits[i]) / c.s.Temperature)
		}
		for i := range logits {
			p := 0.0
			if slices.Contains(c.left, i) {
				p = math.Exp(float64(logits[i])/c.s.Temperature) / sum
			}
			// Five standard deviations.
			if d := math.Abs(count[i]/n - p); d > 5*math.Sqrt(p*(1-p)/n) {
				t.Errorf("%s: token %d came in %.4f, want %.4f", c.name, i, count[i]/n, p)
			}
		}
	}
}

// TestGenerateStops at the token that it is told of, which is the last one.
func TestGenerateStops(t *testing.T) {
	f := opened(t, "llama_tied")
	prompt := texts(f.spec, 1, 5)[0]
	run := func(stop func(int32) bool) []int32 {
		d, err := NewDecoder(t.Context(), f.spec, NewResident(f.source()), quick())
		if err != nil {
			t.Fatal(err)
		}
		out, err := Generate(t.Context(), d, prompt, 12, NewSampler(Sampling{Temperature: 2, Seed: 4}), stop)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	all := run(nil)
	at := slices.IndexFunc(all[1:], func(id int32) bool { return id != all[0] }) + 1
	got := run(func(id int32) bool { return id == all[at] })
	if len(all) != 12 || !slices.Equal(got, all[:at+1]) {
		t.Errorf("%v, want %v", got, all[:at+1])
	}
}

// TestOrderOfChoices: tokens are drawn from by falling logit, of equal ones the
// first, zeros of both signs being equal, and NaN last.
func TestOrderOfChoices(t *testing.T) {
	inf, nan, zero := float32(math.Inf(1)), float32(math.NaN()), float32(0)
	s := NewSampler(Sampling{Temperature: 1})
	s.sort([]float32{nan, -1, -zero, 1e-40, inf, zero, -inf, 3, -1e-40, 3, -2})
	if want := []int32{4, 7, 9, 3, 2, 5, 8, 1, 10, 6, 0}; !slices.Equal(s.order, want) {
		t.Errorf("%v, want %v", s.order, want)
	}
}

func BenchmarkChoose(b *testing.B) {
	logits := make([]float32, 49152)
	for i := range logits {
		logits[i] = float32(i*7919%49152) / 4000
	}
	s := NewSampler(Sampling{Temperature: 0.7, TopP: 0.95})
	for b.Loop() {
		s.Choose(logits)
	}
}
