package gates

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"

	"quantscope/analysis/gates/chat"
)

// printTokens is how long answers to the fixed questions may get: enough for a
// change of weights to show in their log probabilities, few enough for any server.
const printTokens = 24

// repeats is how often the same question is asked to see whether the answer is.
const repeats = 4

// roundingNats is how far apart log probabilities of one token are where nothing but
// rounding differs: logits of about 20 in bf16 are told to 1/8, and two of them make
// a difference. Likelier tokens change places within it.
const roundingNats = 0.25

// printQuestions are the fixed questions of fingerprints. They ask for different
// things, so that a server that answers them all alike shows.
func printQuestions() []string {
	return []string{
		"What is the capital of Italy?",
		"Count from one to ten in words.",
		"Describe the sea in one sentence.",
		"How much is 17 and 26?",
	}
}

// print asks the fixed questions, and one of them again and again.
func (e *exam) print(ctx context.Context) error {
	var replies []chat.Reply
	questions := printQuestions()
	for _, q := range questions {
		reply, err, stop := e.formed(ctx, q, len(replies) == 0)
		if stop != nil {
			return stop
		}
		if err != nil {
			e.add(CheckDeterminism, CheckUnknown, nil, "fixed questions are not answered: %v", err)
			return nil
		}
		replies = append(replies, reply)
	}
	h := sha256.New()
	for i := range replies {
		fmt.Fprintf(h, "%d:%s%d:%s", len(replies[i].Reasoning), replies[i].Reasoning, len(replies[i].Text), replies[i].Text)
		for _, t := range replies[i].Tokens {
			if t.Known {
				e.m.Print.Logprobs = append(e.m.Print.Logprobs, t.Logprob)
			}
		}
	}
	e.m.Print.Text = hex.EncodeToString(h.Sum(nil))

	longest := 0
	for i := range replies {
		if len(replies[i].Text) > len(replies[longest].Text) {
			longest = i
		}
	}
	same := []chat.Reply{replies[longest]}
	for len(same) < repeats {
		reply, err, stop := e.once(ctx, e.form.request(questions[longest], printTokens))
		if stop != nil {
			return stop
		}
		if err != nil {
			e.add(CheckDeterminism, CheckUnknown, nil, "the same question again is not answered: %v", err)
			return nil
		}
		same = append(same, reply)
	}
	e.determinism(replies, same)
	return nil
}

// formed asks a question; the first finds the form in which the arm answers.
func (e *exam) formed(ctx context.Context, q string, first bool) (reply chat.Reply, err, stop error) {
	if !first {
		return e.once(ctx, e.form.request(q, printTokens))
	}
	var why error
	for _, f := range forms() {
		e.form = f
		if reply, err, stop = e.once(ctx, f.request(q, printTokens)); err == nil || stop != nil {
			return reply, err, stop
		}
		if why == nil {
			why = err
		}
	}
	return reply, why, nil
}

// determinism says how equal answers to the same question are, and by how much their
// log probabilities differ; and that those of different questions do, since figures
// that never move are no figures.
func (e *exam) determinism(different, same []chat.Reply) {
	equal, at := 0, math.MaxInt
	var apart float64
	var known bool
	for i := range same {
		d := differ(&same[0], &same[i])
		if d.at < 0 {
			equal++
		} else {
			at = min(at, d.at)
		}
		known = known || d.known
		apart = max(apart, d.nats)
	}
	f := map[string]float64{"asked": float64(len(same)), "equal": float64(equal)}
	if known {
		f["logprob_difference"] = apart
	}
	if at < math.MaxInt {
		f["first_difference"] = float64(at)
	}
	if why := vacuous(different); why != "" {
		e.add(CheckDeterminism, CheckFailed, f, "%s", why)
		return
	}
	told := "its log probabilities are not told"
	if known {
		told = fmt.Sprintf("log probabilities differ by %.2g nats at most", apart)
	}
	switch {
	case equal == len(same):
		e.add(CheckDeterminism, CheckPassed, f, "the same greedy question %d times has the same answer; %s", len(same), told)
	case known && apart <= roundingNats:
		e.add(CheckDeterminism, CheckPassed, f, "the same greedy question has the same answer in %d of %d, and parts at token %d of the others, where rounding decides: %s", equal, len(same), at, told)
	case known:
		e.add(CheckDeterminism, CheckFailed, f, "the same greedy question has the same answer in %d of %d, parts at token %d of the others, and rounding does not explain it: %s", equal, len(same), at, told)
	default:
		e.add(CheckDeterminism, CheckUnknown, f, "the same greedy question has the same answer in %d of %d; whether rounding decides cannot be seen: %s", equal, len(same), told)
	}
}

// difference is that of two answers to the same question.
type difference struct {
	at    int     // token (byte, where tokens are not told) of the first difference; -1: none
	nats  float64 // largest of log probabilities, up to there; of the first that differs as well
	known bool
}

func differ(a, b *chat.Reply) difference {
	d := difference{at: -1}
	if len(a.Tokens) == 0 || len(b.Tokens) == 0 {
		if a.Text != b.Text {
			d.at = commonBytes(a.Text, b.Text)
		}
		return d
	}
	for i := range min(len(a.Tokens), len(b.Tokens)) {
		x, y := &a.Tokens[i], &b.Tokens[i]
		if x.Known && y.Known {
			d.known = true
			d.nats = max(d.nats, math.Abs(x.Logprob-y.Logprob))
		}
		if !sameToken(x, y) {
			d.at = i
			return d
		}
	}
	if len(a.Tokens) != len(b.Tokens) {
		d.at = min(len(a.Tokens), len(b.Tokens))
	} else if a.Text != b.Text {
		d.at = 0
	}
	return d
}

func commonBytes(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

func sameToken(a, b *chat.Token) bool {
	if a.ID >= 0 && b.ID >= 0 {
		return a.ID == b.ID
	}
	return a.Text == b.Text
}

// vacuous says why answers to different questions cannot be those of a model; "" where
// they can.
func vacuous(replies []chat.Reply) string {
	var lists [][]float64
	zero, known := true, 0
	for i := range replies {
		var of []float64
		for _, t := range replies[i].Tokens {
			if t.Known {
				of = append(of, t.Logprob)
				zero = zero && t.Logprob == 0
				known++
			}
		}
		if len(of) > 0 {
			lists = append(lists, of)
		}
	}
	if known > 0 && zero {
		return fmt.Sprintf("log probabilities of all %d tokens of different answers are exactly 0, which no model gives", known)
	}
	equal := len(lists) > 1
	for _, of := range lists {
		equal = equal && slices.Equal(of, lists[0])
	}
	if equal {
		return fmt.Sprintf("answers to %d different questions have the same log probabilities to the last digit", len(lists))
	}
	return ""
}
