package local

import (
	"fmt"
	"slices"

	"quantscope/analysis/gates/chat"
)

// logprobs adds a made token with its log probability: of the logits as the model
// has them, before temperature and what else narrows the choice.
func (e *Engine) logprobs(a *answer, id int32, logits []float32) {
	row := logits
	if e.o.Fault == BadLogprobs && e.o.Speculate > 0 {
		if len(a.before) > 0 {
			row = a.before
		}
		defer func() { a.before = append(a.before[:0], logits...) }()
	}
	t, err := e.token(id, row, a.r.Logprobs)
	if err != nil {
		a.step.Err = err
	}
	a.tokens = append(a.tokens, t)
}

// token is a token by the logits of its place, with the n likeliest ones.
func (e *Engine) token(id int32, logits []float32, n int) (chat.Token, error) {
	sum := e.o.Set.LogSum(logits)
	if !sum.OK {
		return chat.Token{}, fmt.Errorf("local: the logits of a place are not finite")
	}
	of := func(i int32) float64 { return float64(logits[i]) - sum.Max - sum.LogSum }
	t := chat.Token{ID: id, Text: string(e.tok.Bytes(id)), Known: true, Logprob: of(id), Rank: 1}
	for _, v := range logits {
		if v > logits[id] {
			t.Rank++
		}
	}
	for _, i := range likeliest(logits, n) {
		t.Top = append(t.Top, chat.Alt{ID: i, Text: string(e.tok.Bytes(i)), Logprob: of(i)})
	}
	return t, nil
}

// likeliest are the n tokens of the largest logits, by falling logit, of equal ones
// the first.
func likeliest(logits []float32, n int) []int32 {
	n = min(n, len(logits))
	top := make([]int32, 0, n+1)
	for i, v := range logits {
		if len(top) == n && (n == 0 || !(v > logits[top[n-1]])) {
			continue
		}
		at, _ := slices.BinarySearchFunc(top, v, func(t int32, v float32) int {
			if logits[t] >= v {
				return -1
			}
			return 1
		})
		if top = slices.Insert(top, at, int32(i)); len(top) > n {
			top = top[:n]
		}
	}
	return top
}

// logitRows is how many rows of logits of a prompt are in memory at once.
const logitRows = 64

// promptLogprobs adds the tokens of the prompt that a step's rows say something of:
// each row of the token after it.
func (e *Engine) promptLogprobs(a *answer, x []float32) error {
	h, v := e.c.Arch.Width(), e.c.Arch.Vocab
	if a.fed == 0 {
		a.asked = append(a.asked, chat.Token{ID: a.prompt[0], Text: string(e.tok.Bytes(a.prompt[0]))})
	}
	rows := min(len(x)/h, len(a.prompt)-1-a.fed) // of the last one what comes is no prompt
	var logits []float32
	for from := 0; from < rows; from += logitRows {
		n := min(logitRows, rows-from)
		var err error
		if logits, err = e.batch.Logits(logits, x[from*h:], n); err != nil {
			return err
		}
		for k := range n {
			t, err := e.token(a.prompt[a.fed+from+k+1], logits[k*v:][:v], a.r.PromptLogprobs)
			if err != nil {
				a.step.Err = err
				return nil
			}
			a.asked = append(a.asked, t)
		}
	}
	return nil
}
