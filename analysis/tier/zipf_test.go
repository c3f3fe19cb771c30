package tier

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestZipfLaw: the first expert of a token has the rank's probability, and of two the
// second is drawn among those that are left: both within four standard errors.
func TestZipfLaw(t *testing.T) {
	const experts, tokens, s = 12, 60000, 1.2
	z := zipf{exponent: s, seed: 3, tokens: tokens}
	tr, err := z.trace("z", []int{5}, experts, 2)
	if err != nil {
		t.Fatal(err)
	}
	of := rand.New(rand.NewPCG(3, 0)).Perm(experts)
	p, sum := make([]float64, experts), 0.0
	for r := range p {
		p[r] = math.Pow(float64(r+1), -s)
		sum += p[r]
	}
	for r := range p {
		p[r] /= sum
	}
	var first, second [experts]int
	for token := range tokens {
		c := tr.Of(token, 0)
		first[slices.Index(of, int(c[0]))]++
		second[slices.Index(of, int(c[1]))]++
	}
	for r := range p {
		q := 0.0
		for o := range p {
			if o != r {
				q += p[o] * p[r] / (1 - p[o])
			}
		}
		for i, c := range [][2]float64{{float64(first[r]), p[r]}, {float64(second[r]), q}} {
			if z := (c[0] - tokens*c[1]) / math.Sqrt(tokens*c[1]*(1-c[1])); math.Abs(z) > 4 {
				t.Errorf("rank %d, choice %d: %v of %d, want a share of %.4f (z %.1f)", r, i, c[0], tokens, c[1], z)
			}
		}
	}
}

// TestAmong: drawing among the rest has the same probabilities as drawing again.
func TestAmong(t *testing.T) {
	upTo, taken := []float64{4, 7, 8, 10}, []int{0, 2}
	random, n := rand.New(rand.NewPCG(1, 1)), [4]int{}
	const draws = 40000
	for range draws {
		n[among(random, upTo, taken)]++
	}
	if n[0]+n[2] > 0 || math.Abs(float64(n[1])-draws*0.6) > 4*math.Sqrt(draws*0.24) {
		t.Errorf("%v, want 0, 60 %%, 0, 40 %%", n)
	}
}

// TestZipfEdges: all experts, one expert, a law so steep that draws repeat, drift.
func TestZipfEdges(t *testing.T) {
	for _, c := range []struct {
		text          string
		experts, topK int
	}{{"zipf:0:tokens=500", 4, 4}, {"zipf:8:tokens=500", 40, 8}, {"zipf:1:drift=3:tokens=20", 1, 1}, {"zipf:2:drift=1:seed=9:tokens=50", 3, 2}} {
		z, err := parseZipf(c.text)
		if err != nil {
			t.Fatal(err)
		}
		tr, err := z.trace(c.text, []int{0, 1}, c.experts, c.topK)
		if err != nil {
			t.Fatal(c.text, err)
		}
		again, _ := z.trace(c.text, []int{0, 1}, c.experts, c.topK)
		if tr.SHA256() != again.SHA256() {
			t.Error(c.text, "is another workload the second time")
		}
	}
	z, _ := parseZipf("zipf:3:drift=500:tokens=1000")
	tr, err := z.trace("z", []int{0}, 64, 1)
	if err != nil {
		t.Fatal(err)
	}
	counts := func(from, to int) (n [64]int) {
		for token := from; token < to; token++ {
			n[tr.Of(token, 0)[0]]++
		}
		return n
	}
	if a, b := counts(0, 500), counts(500, 1000); a == b || len(tr.Phases) != 2 || tr.Phases[1].First != 500 {
		t.Error("nothing drifts", tr.Phases)
	}
}

func TestZipfRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"zipf": "no exponent", "zipf:": "exponent", "zipf:-1": "0 to 8", "zipf:NaN": "0 to 8", "zipf:9": "0 to 8", "zipf:1:drift=0": "a whole number from 1",
		"zipf:1:tokens=x": "a whole number from 1", "zipf:1:tokens=0": "a whole number from 1", "zipf:1:drift": "a whole number from 1", "zipf:1:every=3": "not known", "zipf:1:tokens=99999999999": "a whole number from 1",
	} {
		if _, err := parseZipf(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	z := zipf{exponent: 1, tokens: 1 << 30}
	if _, err := z.trace("z", []int{0}, 4, 2); err == nil {
		t.Error("a workload of 4 GiB was made")
	}
}
