package through

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"quantscope/analysis/gates/chat"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const vocabulary = 26

// model is a distribution of the next token after one, made from a seed: it likes
// (7·x + 3) mod 26 after x.
type model struct {
	seed    uint64
	noIDs   bool // takes no prompt of ids, and tells none
	silent  bool // tells no log probabilities of prompts
	asked   []chat.Request
	because func([]chat.Token) []chat.Token // what it makes of what it would tell
}

func (m *model) after(x int32) []float64 {
	r := rand.New(rand.NewPCG(m.seed, uint64(x)))
	l := make([]float64, vocabulary)
	sum := 0.0
	for i := range l {
		l[i] = 2 * r.NormFloat64()
		if i == int(7*x+3)%vocabulary {
			l[i] += 6
		}
		sum += math.Exp(l[i])
	}
	for i := range l {
		l[i] -= math.Log(sum)
	}
	return l
}

func (m *model) Ask(ctx context.Context, r chat.Request, each func(chat.Delta)) (chat.Reply, error) {
	m.asked = append(m.asked, r)
	if m.silent || m.noIDs && r.Tokens != nil {
		return chat.Reply{}, &chat.Error{At: "model", Kind: chat.Refused, Reason: "that", Err: chat.ErrUnsupported}
	}
	ids := r.Tokens
	for _, c := range r.Prompt {
		ids = append(ids, c-'a')
	}
	var out []chat.Token
	for i, id := range ids {
		if i == 0 {
			out = append(out, chat.Token{ID: id, Text: string('a' + id)})
			continue
		}
		out = append(out, tell(m.after(ids[i-1]), r.PromptLogprobs, int(id)))
	}
	if m.because != nil {
		out = m.because(out)
	}
	if m.noIDs {
		for i := range out {
			forget(&out[i])
		}
	}
	return chat.Reply{Prompt: out}, nil
}

func (m *model) Identity(context.Context) (chat.Identity, error) { return chat.Identity{}, nil }
func (m *model) Counters(context.Context) (chat.Counters, error) {
	return chat.Counters{}, chat.ErrNoCounters
}
func (m *model) Close() error { return nil }

// texts are what a model of seed 1 would write, with a surprise now and then.
func texts() [][]int32 {
	r := rand.New(rand.NewPCG(9, 9))
	out := make([][]int32, 5)
	for i := range out {
		ids := []int32{r.Int32N(vocabulary)}
		for len(ids) < 20+10*i {
			next := (7*ids[len(ids)-1] + 3) % vocabulary
			if r.IntN(4) == 0 {
				next = r.Int32N(vocabulary)
			}
			ids = append(ids, next)
		}
		out[i] = ids
	}
	return out
}

func text(ids []int32) string {
	var b strings.Builder
	for _, id := range ids {
		b.WriteRune('a' + id)
	}
	return b.String()
}

// TestMeasurement measures two models whose distributions are known.
func TestMeasurement(t *testing.T) {
	base, cand := &model{seed: 1}, &model{seed: 2}
	var nll, delta, kl, same float64
	n := 0
	for _, ids := range texts() {
		for i := 1; i < len(ids); i++ {
			p, q := base.after(ids[i-1]), cand.after(ids[i-1])
			nll -= p[ids[i]]
			delta -= q[ids[i]] - p[ids[i]]
			kl += divergence(p, q)
			if slices.Index(p, slices.Max(p)) == slices.Index(q, slices.Max(q)) {
				same++
			}
			n++
		}
	}
	f := float64(n)
	for _, top := range []int{3, vocabulary} {
		for _, asText := range []bool{false, true} {
			base.noIDs, cand.noIDs = asText, asText
			done := 0
			o := Options{Top: top, Text: text, Progress: func(d, of int) {
				if done++; d != done || of != 5 {
					t.Errorf("progress %d of %d", d, of)
				}
			}}
			b, err := Ask(t.Context(), base, texts(), o)
			if err != nil {
				t.Fatal(err)
			}
			o.Progress = nil
			c, err := Ask(t.Context(), cand, texts(), o)
			if err != nil {
				t.Fatal(err)
			}
			arm := Sum(b)
			near(t, "nll", arm.NLL, nll/f, 1e-12)
			near(t, "ppl", arm.PPL, math.Exp(nll/f), 1e-9)
			if arm.Positions != n || arm.MedianRank != 1 || arm.Top != top || arm.SE <= 0 || arm.Seen > 1+1e-9 || top == vocabulary && arm.Seen < 1-1e-9 {
				t.Errorf("%+v", arm)
			}
			pair, at, err := Compare(b, c)
			if err != nil {
				t.Fatal(err)
			}
			near(t, "delta", pair.DeltaNLL, delta/f, 1e-12)
			near(t, "top 1", pair.Top1, same/f, 1e-12)
			if pair.KL > kl/f+1e-12 || top == vocabulary && pair.KL < kl/f-1e-4 || pair.KL < 0.1*kl/f {
				t.Errorf("top %d: bound %g, divergence %g", top, pair.KL, kl/f)
			}
			if len(at) != n || pair.Positions != n || at[0].Chunk != 0 || at[0].At != 1 || pair.SE <= 0 || pair.DeltaSE <= 0 {
				t.Errorf("%+v, %+v", pair, at[0])
			}
			self, _, err := Compare(b, b)
			if err != nil || self.KL != 0 || self.SE != 0 || self.DeltaNLL != 0 || self.Top1 != 1 {
				t.Errorf("against itself: %+v, %v", self, err)
			}
		}
	}
}

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within) {
		t.Errorf("%s: %g, want %g", what, got, want)
	}
}

// TestCluster holds the standard error against the formula by hand: two texts of sums
// 3 and 9 over 2 and 2 values, mean 3, residuals −3 and 3, se² = 2·18/16.
func TestCluster(t *testing.T) {
	var c cluster
	for _, k := range [][]float64{{1, 2}, nil, {4, 5}} {
		c.next()
		for _, v := range k {
			c.add(v)
		}
	}
	mean, se := c.mean()
	near(t, "mean", mean, 3, 0)
	near(t, "se", se, 1.5, 1e-15)
	var one cluster
	one.next()
	for _, v := range []float64{1, 2, 4, 5} {
		one.add(v)
	}
	_, se = one.mean()
	near(t, "se of one text", se, math.Sqrt(10.0/3/4), 1e-15) // the usual s/√n
}

// TestMisaligned holds that texts cut in other ways are refused, with the place.
func TestMisaligned(t *testing.T) {
	extra := &model{seed: 1, because: func(ts []chat.Token) []chat.Token { return append(ts[:1:1], ts...) }}
	_, err := Ask(t.Context(), extra, texts(), Options{Text: text})
	var m *MisalignedError
	if !errors.As(err, &m) || m.Text != 0 || m.At != 1 {
		t.Errorf("%v", err)
	}
	short := &model{seed: 1, because: func(ts []chat.Token) []chat.Token { return ts[:len(ts)-1] }}
	if _, err := Ask(t.Context(), short, texts(), Options{}); !errors.As(err, &m) || m.At != 19 {
		t.Errorf("%v", err)
	}
	b, err := Ask(t.Context(), &model{seed: 1}, texts(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	other := texts()
	other[3][4] = (other[3][4] + 1) % vocabulary
	for _, asText := range []bool{false, true} {
		c, err := Ask(t.Context(), &model{seed: 1, noIDs: asText}, other, Options{Text: text})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := Compare(b, c); !errors.As(err, &m) || m.Text != 3 || m.At != 4 || !strings.Contains(err.Error(), "text 3") {
			t.Errorf("%v", err)
		}
	}
}

// TestUnsupported holds that what a target cannot do is said and nothing made up.
func TestUnsupported(t *testing.T) {
	for name, m := range map[string]*model{
		"silent": {silent: true},
		"no ids": {noIDs: true},
		"none":   {because: func([]chat.Token) []chat.Token { return nil }},
	} {
		if _, err := Ask(t.Context(), m, texts(), Options{}); !errors.Is(err, chat.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	unknown := &model{because: func(ts []chat.Token) []chat.Token { ts[5].Known = false; return ts }}
	if _, err := Ask(t.Context(), unknown, texts(), Options{}); err == nil || !strings.Contains(err.Error(), "token 5") {
		t.Errorf("%v", err)
	}
	if _, err := Ask(t.Context(), &model{}, [][]int32{{1}}, Options{}); err == nil {
		t.Error("a text of one token")
	}
	m := &model{}
	if _, err := Ask(t.Context(), m, texts(), Options{}); err != nil || m.asked[0].PromptLogprobs != defaultTop || m.asked[0].MaxTokens != 0 || m.asked[0].Stream {
		t.Errorf("%+v, %v", m.asked[0], err)
	}
}

// shift moves what is told by so many places: each token keeps its id.
func shift(by int) func([]chat.Token) []chat.Token {
	return func(ts []chat.Token) []chat.Token {
		out := slices.Clone(ts)
		for i := 1; i < len(ts); i++ {
			from := ts[1+((i-1+by)%(len(ts)-1)+len(ts)-1)%(len(ts)-1)]
			from.ID, from.Text = ts[i].ID, ts[i].Text
			out[i] = from
		}
		return out
	}
}

// TestExamine holds that log probabilities which cannot be right are found, each by
// its own sign, and that right ones are not.
func TestExamine(t *testing.T) {
	for _, c := range []struct {
		name string
		m    *model
		want string
	}{
		{"right", &model{seed: 1}, ""},
		{"of the token after", &model{seed: 1, because: shift(1)}, "shifted by one: the likeliest is the token after"},
		{"of the token before", &model{seed: 1, because: shift(-1)}, "shifted by one: the likeliest is the token before"},
		{"too likely", &model{seed: 1, because: func(ts []chat.Token) []chat.Token {
			for i := range ts {
				for j := range ts[i].Top {
					ts[i].Top[j].Logprob += 0.5
				}
			}
			return ts
		}}, "sum to more than 1"},
		{"of others", &model{seed: 1, because: func(ts []chat.Token) []chat.Token {
			for i := range ts {
				ts[i].Rank = 300 + i
			}
			return ts
		}}, "median rank"},
	} {
		s, err := Ask(t.Context(), c.m, texts(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		e := Examine(s)
		if got := e.Reason(); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q (%+v)", c.name, got, e)
		}
		if c.name == "right" && (e.Own < e.Positions/2 || e.Positions == 0) {
			t.Errorf("%+v", e)
		}
	}
	// A text that repeats a token fits its neighbours as well as itself.
	var same []chat.Token
	for range 30 {
		same = append(same, chat.Token{ID: 5, Known: true, Logprob: -0.1, Top: []chat.Alt{{ID: 5, Logprob: -0.1}, {ID: 6, Logprob: -3}}})
	}
	if e := Examine(&Said{Texts: [][]chat.Token{same}}); e.Reason() != "" || e.Own != 30 || e.After != 29 {
		t.Errorf("repeated: %+v", e)
	}
	// The true token may be beside the likeliest, and its probability is one more.
	over := []chat.Token{{ID: 9, Known: true, Logprob: -1, Top: []chat.Alt{{ID: 5, Logprob: -0.5}, {ID: 6, Logprob: -2}}}}
	if e := Examine(&Said{Texts: [][]chat.Token{over}}); e.OverMass != 1 {
		t.Errorf("0.61, 0.14 and 0.37 beside them: %+v", e)
	}
	// Ranks that are not told are behind what is.
	beyond := []chat.Token{{ID: 7, Known: true, Logprob: -4, Top: same[0].Top}}
	if a := Sum(&Said{Texts: [][]chat.Token{beyond}}); a.MedianRank != 3 {
		t.Errorf("beyond two: %+v", a)
	}
	if e := Examine(&Said{}); e.Reason() != "" || e.Positions != 0 {
		t.Errorf("nothing: %+v", e)
	}
	if a := Sum(&Said{Texts: [][]chat.Token{nil}}); fmt.Sprint(a) != fmt.Sprint(Arm{}) {
		t.Errorf("nothing: %+v", a)
	}
}

// A position counts where both sides tell of it.
func TestCompareWhereBothTell(t *testing.T) {
	said := func(known ...bool) *Said {
		var ts []chat.Token
		for i, k := range known {
			ts = append(ts, chat.Token{ID: int32(i), Known: k, Logprob: -1, Top: []chat.Alt{{ID: int32(i), Logprob: -1}}})
		}
		return &Said{Texts: [][]chat.Token{ts}, Top: 1}
	}
	pair, at, err := Compare(said(false, true, true, false, true), said(false, true, false, true, true))
	if err != nil || pair.Positions != 2 || len(at) != 2 || at[0].At != 1 || at[1].At != 4 || pair.KL != 0 || pair.DeltaNLL != 0 || pair.Top1 != 1 {
		t.Errorf("%+v, %+v: %v", pair, at, err)
	}
}
