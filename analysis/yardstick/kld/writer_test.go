package kld

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCreateRefuses(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		vocab   int
		tokens  [][]int32
		mention string
	}{
		"no chunks":         {5, nil, "n_ctx is 0"},
		"uneven chunks":     {5, [][]int32{{0, 1, 2, 3}, {0, 1, 2}}, "chunk 1 has 3 tokens and chunk 0 has 4"},
		"a token outside":   {3, [][]int32{{0, 1, 2, 3}}, "token 3 at position 3 of chunk 0"},
		"a negative token":  {3, [][]int32{{0, -1, 2, 1}}, "token -1 at position 1"},
		"no vocabulary":     {0, [][]int32{{0, 1, 2, 3}}, "n_vocab is 0"},
		"chunks of nothing": {5, [][]int32{{0, 1}}, "n_ctx is 2"},
	} {
		if _, err := Create(filepath.Join(dir, "x.kld"), c.vocab, c.tokens); err == nil || !strings.Contains(err.Error(), c.mention) {
			t.Errorf("%s: %v", name, err)
		}
	}
	empty(t, dir)
}

func empty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestWriterRefuses(t *testing.T) {
	dir := t.TempDir()
	tokens := [][]int32{{0, 1, 2, 3, 4}}
	w, err := Create(filepath.Join(dir, "x.kld"), 5, tokens)
	if err != nil {
		t.Fatal(err)
	}
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for name, c := range map[string]struct {
		chunk, i int
		logits   []float32
		mention  string
	}{
		"a NaN":           {0, 1, []float32{0, 1, nan, 3, 4}, "chunk 0, position 3: kld: the logit of token 2 is NaN"},
		"+Inf":            {0, 1, []float32{0, 1, 2, 3, inf}, "token 4 is +Inf"},
		"all −Inf":        {0, 1, []float32{-inf, -inf, -inf, -inf, -inf}, "no finite one"},
		"too few":         {0, 1, []float32{0, 1}, "2 logits for a vocabulary of 5"},
		"a row outside":   {0, 2, make([]float32, 5), "row 2 of chunk 0"},
		"a chunk outside": {1, 0, make([]float32, 5), "row 0 of chunk 1"},
	} {
		if _, err := w.Row(c.chunk, c.i, c.logits); err == nil || !strings.Contains(err.Error(), c.mention) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := w.Row(0, 0, []float32{0, -inf, 2, 3, 4}); err != nil {
		t.Errorf("a single −Inf: %v", err)
	}
	if err := w.Commit(); err == nil || !strings.Contains(err.Error(), "1 of 2 rows were never written") {
		t.Errorf("a file with a row missing: %v", err)
	}
	empty(t, dir)
}

// A row keeps what it can: ln p within half a step of what the logits say, or the
// clamp where they are more than 16 below the largest; codes in their order; the
// same after a round through its bytes.
func TestRowIsWhatTheLogitsSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "n")
		spread := rapid.Float32Range(0, 30).Draw(t, "spread")
		logits := make([]float32, n)
		for i := range logits {
			logits[i] = rapid.Float32Range(-spread, spread).Draw(t, "logit")
		}
		target := rapid.Int32Range(0, int32(n-1)).Draw(t, "target")
		var row Row
		nll, err := row.Set(logits, target)
		if err != nil {
			t.Fatal(err)
		}
		high, sum := math.Inf(-1), 0.0
		for _, x := range logits {
			high = max(high, float64(x))
		}
		for _, x := range logits {
			sum += math.Exp(float64(x) - high)
		}
		if want := high + math.Log(sum) - float64(logits[target]); math.Abs(nll-want) > 1e-5*(1+math.Abs(high)) {
			t.Fatalf("−ln p is %g, want %g", nll, want)
		}
		for i, x := range logits {
			want := max(float64(x), high-16) - high - math.Log(sum)
			if got := float64(row.LogProb(int32(i))); math.Abs(got-want) > 0.5*float64(row.Scale)+1e-5 {
				t.Fatalf("ln p of %d is %g, want %g within half of %g", i, got, want, row.Scale)
			}
		}
		raw := make([]byte, Layout{Vocab: n, NCtx: 3, Chunks: 1}.rowBytes())
		var again Row
		row.encode(raw)
		again.decode(raw, n)
		for i := range row.Codes {
			if row.Codes[i] != again.Codes[i] || row.Scale != again.Scale || row.Least != again.Least {
				t.Fatalf("code %d is %d and then %d", i, row.Codes[i], again.Codes[i])
			}
		}
		if n%2 == 1 && (raw[len(raw)-1] != 0 || raw[len(raw)-2] != 0) {
			t.Fatal("padding is not 0")
		}
		// Against itself the divergence is what 16 bits leave.
		if s := Compare(&row, logits, target); math.Abs(s.KL) > 3e-4+float64(n)*math.Exp(-16)*16 || row.LogProb(s.TopBase)-row.LogProb(s.Top) > row.Scale {
			t.Fatalf("against itself: %+v", s)
		}
	})
}

// Of a large vocabulary with next to no chance each the clamp makes something;
// spread out, the row is what the logits were.
func TestSpread(t *testing.T) {
	logits := make([]float32, 50001)
	for i := range logits {
		logits[i] = -20 - float32(i%7)
	}
	logits[7], logits[9], logits[11] = 0, -3, -10
	var row Row
	if _, err := row.Set(logits, -1); err != nil {
		t.Fatal(err)
	}
	total := func(x []float32) (sum float64) {
		for _, v := range x {
			sum += math.Exp(float64(v))
		}
		return sum
	}
	x := make([]float32, len(logits))
	row.LogProbs(x)
	if mass := total(x); mass < 1.005 {
		t.Errorf("the clamp raises the sum to %g", mass)
	}
	row.Spread(x)
	if mass := total(x); math.Abs(mass-1) > 2e-4 {
		t.Errorf("the sum is %g", mass)
	}
	lse := math.Log(total(logits))
	for _, i := range []int{7, 9, 11} {
		if math.Abs(float64(x[i])-(float64(logits[i])-lse)) > 2e-4 {
			t.Errorf("ln p of token %d is %g, want %g", i, x[i], float64(logits[i])-lse)
		}
	}
	if x[0] > row.Least || x[0] < row.Least-16 || x[0] != x[1] {
		t.Errorf("the others have %g and %g, the clamp is %g", x[0], x[1], row.Least)
	}
	// Without a clamp it is the row.
	logits[8], logits[10] = -4, -5
	if _, err := row.Set(logits[7:12], -1); err != nil {
		t.Fatal(err)
	}
	y, z := make([]float32, 5), make([]float32, 5)
	row.LogProbs(y)
	row.Spread(z)
	for i := range y {
		if y[i] != z[i] {
			t.Errorf("token %d: %g and %g", i, y[i], z[i])
		}
	}
	// Where the others leave nothing, the clamped ones are not impossible.
	row = Row{Scale: 16. / 65535, Least: -16, Codes: []uint16{65535, 0, 0}}
	row.Spread(z[:3])
	if z[0] != 0 || z[1] != -32 || z[2] != -32 {
		t.Errorf("%v", z[:3])
	}
}

// A row that reaches less deep than the clamp raised nothing and keeps its bits,
// its smallest token's too; of one that was raised, no token rises further.
func TestSpreadRaisesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	logits, plain, got := make([]float32, 50), make([]float32, 50), make([]float32, 50)
	for range 200 {
		wide := r.Float32() * 30
		for i := range logits {
			logits[i] = wide * r.Float32()
		}
		logits[3] = wide
		var row Row
		if _, err := row.Set(logits, -1); err != nil {
			t.Fatal(err)
		}
		row.LogProbs(plain)
		row.Spread(got)
		for i := range got {
			if raised := row.Codes[i] == 0 && row.Scale*steps >= depth*0.999; got[i] > plain[i] || !raised && got[i] != plain[i] {
				t.Fatalf("range %g: token %d is %g, and %g spread", wide, i, plain[i], got[i])
			}
		}
	}
}
