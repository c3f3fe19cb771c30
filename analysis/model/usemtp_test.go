package model

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"
)

// useMTP is what transformers' generate(use_mtp=True) did on the embedded model,
// greedily: .ci/gates/mtp.py.
type useMTP struct {
	New    int `json:"new_tokens"`
	Totals []struct {
		K, Steps, Drafted, Accepted int
		ByPosition                  []int `json:"by_position"`
		Lossless                    int
	}
	Prompts []struct {
		Kind        string
		Prompt, New []int32
		Gap         float64 // between the first and the second logit, at its smallest
		Drafts      []int32 // one before each pass of the main model but the first
		Accepted    string  // of each, 0 or 1
	}
}

// sure is a gap of logits that no order of sums turns around: logits are within
// 1e-4 of the peer's on this model (TestDemo), and two of them make a gap.
const sure = 2e-4

// TestUseMTP: on 100 prompts the text, every draft and whether it stays are those of
// transformers. With one draft a step nothing is left to convention.
func TestUseMTP(t *testing.T) {
	g, f := readUseMTP(t), openedDemo(t)
	src := NewResident(f.source())
	drafted, accepted, doubtful := 0, 0, 0
	for i, p := range g.Prompts {
		got, drafts, _ := drafted1(t, f, src, p.Prompt, g.New, 1)
		if !slices.Equal(got, p.New) {
			if p.Gap < sure {
				doubtful++
				continue
			}
			t.Errorf("prompt %d (%s): %v, want %v", i, p.Kind, got, p.New)
			continue
		}
		at := len(p.Prompt) + 1
		for j, token := range p.Drafts {
			yes := p.Accepted[j] == '1'
			if j < len(drafts) {
				if want := (Draft{at, token, yes}); drafts[j] != want {
					t.Errorf("prompt %d (%s): draft %d is %+v, want %+v", i, p.Kind, j, drafts[j], want)
				}
				drafted++
				if yes {
					accepted++
				}
			} else if at < len(p.Prompt)+g.New-1 {
				t.Errorf("prompt %d: the peer drafts for place %d, and here nothing is", i, at)
			}
			at++
			if yes {
				at++
			}
		}
	}
	total := g.Totals[0]
	t.Logf("%d of %d drafts stay, transformers says %d of %d; %d prompts are too close to call", accepted, drafted, total.Accepted, total.Drafted, doubtful)
	// The peer drafts once more for a place that is the last one or beyond.
	if len(g.Prompts) != 100 || doubtful > 2 || total.Drafted-drafted > len(g.Prompts) {
		t.Errorf("%d prompts, %d doubtful, %d drafts of %d", len(g.Prompts), doubtful, drafted, total.Drafted)
	}
}

// TestUseMTPOfMore: with two to four drafts a step transformers asks as many modules;
// it was given copies of the one. The first of its drafts is made as here, and stays
// as often, within three standard errors of a share of so many steps. Further ones
// differ on purpose: a copy remembers of the text the states of the copy before it,
// where here, as in vLLM, the one module remembers the main model's, which is what it
// was trained on; so they stay here at least as often, and just as often as drafts of
// a chain of the one that was written apart.
func TestUseMTPOfMore(t *testing.T) {
	g, f := readUseMTP(t), openedDemo(t)
	src := NewResident(f.source())
	if len(g.Totals) != 4 {
		t.Fatalf("figures of %d lengths of drafts, want 4", len(g.Totals))
	}
	for _, total := range g.Totals[1:] {
		by, steps := make([]int, total.K), 0
		for i, p := range g.Prompts {
			got, drafts, passes := drafted1(t, f, src, p.Prompt, g.New, total.K)
			if !slices.Equal(got, p.New) && p.Gap >= sure {
				t.Errorf("k %d, prompt %d: %v, want %v", total.K, i, got, p.New)
			}
			steps += passes - 1
			for first := 0; first < len(drafts); {
				n := 1
				for first+n < len(drafts) && n < total.K && drafts[first+n].Position == drafts[first].Position+n {
					n++
				}
				for place := 0; place < n && drafts[first+place].Accepted; place++ {
					by[place]++
				}
				first += n
			}
		}
		if want := chained[total.K]; steps != want.steps || !slices.Equal(by, want.by) {
			t.Errorf("k %d: drafts stay in %v of %d steps, those of a chain written apart in %v of %d", total.K, by, steps, want.by, want.steps)
		}
		for place := range by {
			ours, theirs := float64(by[place])/float64(steps), float64(total.ByPosition[place])/float64(total.Steps)
			se := math.Sqrt(theirs * (1 - theirs) * (1/float64(steps) + 1/float64(total.Steps)))
			t.Logf("k %d, draft %d: stays in %.4f of %d steps, transformers with copies %.4f of %d", total.K, place+1, ours, steps, theirs, total.Steps)
			if d := ours - theirs; d < -3*se || place == 0 && d > 3*se {
				t.Errorf("k %d, draft %d: %.4f, want %.4f ± %.4f", total.K, place+1, ours, theirs, 3*se)
			}
		}
	}
}

// chained are steps, and drafts that stay by place, of one module that is fed its own
// states, written apart in f64: .ci/gates/chain.py.
var chained = map[int]struct {
	steps int
	by    []int
}{2: {2210, []int{1774, 778}}, 3: {2038, []int{1626, 720, 379}}, 4: {1974, []int{1567, 694, 344, 187}}}

func readUseMTP(t testing.TB) (g useMTP) {
	t.Helper()
	data, err := os.ReadFile("testdata/demo_mtp.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

func drafted1(t testing.TB, f *fixture, src Source, prompt []int32, n, k int) ([]int32, []Draft, int) {
	t.Helper()
	d, err := NewDecoder(t.Context(), f.spec, src, quick())
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewMTP(t.Context(), f.spec, src, quick())
	if err != nil {
		t.Fatal(err)
	}
	out, drafts, passes, err := GenerateDrafted(t.Context(), d, m, prompt, n, k, NewSampler(Sampling{}), nil)
	if err != nil {
		t.Fatal(err)
	}
	return out, drafts, passes
}
