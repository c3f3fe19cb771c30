package tier

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// ErrWorkload is wrapped by errors about what a workload is asked to be.
var ErrWorkload = errors.New("workload")

// zipf is a made-up workload: in every layer the expert of rank r is chosen with a
// probability in proportion to r to the power of −exponent, experts of one token
// without replacement; which expert has which rank is drawn layer by layer, and every
// drift tokens a quarter of the experts get each other's ranks.
type zipf struct {
	exponent float64
	drift    int // tokens; 0: ranks stay
	seed     uint64
	tokens   int
}

const zipfTokens = 1 << 14

// parseZipf reads zipf:S[:drift=N][:seed=K][:tokens=N].
func parseZipf(text string) (z zipf, err error) {
	refuse := func(why string) (zipf, error) {
		return z, fmt.Errorf("%w %q: %s (want zipf:S[:drift=TOKENS][:seed=K][:tokens=N])", ErrWorkload, text, why)
	}
	parts := strings.Split(text, ":")
	z = zipf{tokens: zipfTokens, seed: 1}
	if len(parts) < 2 {
		return refuse("says no exponent")
	}
	if z.exponent, err = strconv.ParseFloat(parts[1], 64); err != nil || !(z.exponent >= 0 && z.exponent <= 8) {
		return refuse("the exponent must be from 0 to 8")
	}
	for _, p := range parts[2:] {
		key, value, _ := strings.Cut(p, "=")
		least := 1
		switch key {
		case "drift", "tokens":
		case "seed":
			least = 0
		default:
			return refuse(fmt.Sprintf("%q is not known", p))
		}
		n, err := strconv.ParseUint(value, 10, 31)
		if err != nil || n < uint64(least) {
			return refuse(fmt.Sprintf("%q: a whole number from %d is wanted", p, least))
		}
		switch key {
		case "drift":
			z.drift = int(n)
		case "seed":
			z.seed = n
		default:
			z.tokens = int(n)
		}
	}
	return z, nil
}

// tries is how often a draw that was drawn before is repeated, before it is made among
// the rest; both draw with the same probabilities.
const tries = 32

// trace makes the workload for a model.
func (z zipf) trace(name string, layers []int, experts, topK int) (*Trace, error) {
	t := &Trace{Name: name, Kind: Zipf, Layers: layers, Experts: experts, TopK: topK, Tokens: z.tokens}
	if z.tokens > maxChoices/(len(layers)*topK) {
		return nil, fmt.Errorf("%w %q: %d tokens take %d choices each, of at most %d in all", ErrWorkload, name, z.tokens, len(layers)*topK, maxChoices)
	}
	epochs := 1
	if z.drift > 0 {
		epochs = (z.tokens + z.drift - 1) / z.drift
	}
	if epochs > maxPhases {
		return nil, fmt.Errorf("%w %q: ranks change %d times, of at most %d", ErrWorkload, name, epochs-1, maxPhases)
	}
	t.Choices = make([]uint16, z.tokens*len(layers)*topK)
	upTo := make([]float64, experts) // Σ of weights up to a rank
	sum := 0.0
	for r := range upTo {
		sum += math.Pow(float64(r+1), -z.exponent)
		upTo[r] = sum
	}
	for l := range layers {
		random := rand.New(rand.NewPCG(z.seed, uint64(l)))
		of := random.Perm(experts) // expert by rank
		for token := range z.tokens {
			if z.drift > 0 && token > 0 && token%z.drift == 0 {
				exchange(random, of)
			}
			draw(random, upTo, of, t.Of(token, l))
		}
	}
	for k := range epochs {
		if epochs > 1 {
			t.Phases = append(t.Phases, Phase{fmt.Sprintf("ranks %d", k+1), k * z.drift})
		}
	}
	return t, t.check()
}

// exchange gives a quarter of the experts, two at least, each other's ranks.
func exchange(random *rand.Rand, of []int) {
	n := min(max(len(of)/4, 2), len(of))
	at := random.Perm(len(of))[:n]
	first := of[at[0]]
	for i := range n - 1 {
		of[at[i]] = of[at[i+1]]
	}
	of[at[n-1]] = first
}

// draw fills dst with experts, none twice, each with the probability of its rank among
// those that are left.
func draw(random *rand.Rand, upTo []float64, of []int, dst []uint16) {
	ranks := make([]int, 0, 64)
	for i := range dst {
		rank := -1
		for range tries {
			r, _ := slices.BinarySearch(upTo, random.Float64()*upTo[len(upTo)-1])
			if r = min(r, len(upTo)-1); !slices.Contains(ranks, r) {
				rank = r
				break
			}
		}
		if rank < 0 {
			rank = among(random, upTo, ranks)
		}
		ranks = append(ranks, rank)
		dst[i] = uint16(of[rank])
	}
}

// among draws from the ranks that are not taken.
func among(random *rand.Rand, upTo []float64, taken []int) int {
	weight := func(r int) float64 {
		if slices.Contains(taken, r) {
			return 0
		}
		if r == 0 {
			return upTo[0]
		}
		return upTo[r] - upTo[r-1]
	}
	left := 0.0
	for r := range upTo {
		left += weight(r)
	}
	x, last := random.Float64()*left, -1
	for r := range upTo {
		w := weight(r)
		if w == 0 && slices.Contains(taken, r) {
			continue
		}
		last = r
		if x -= w; x < 0 {
			break
		}
	}
	return last
}
