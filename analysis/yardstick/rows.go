package yardstick

import (
	"math"
	"sync"

	"quantscope/kernels"
)

// refRow says what a reference's row of logits says of the next token. The row in
// short is not OK where a logit is not a number.
func refRow(set kernels.Set, logits []float32, target int32) (RefRow, kernels.LogitRow) {
	p := set.LogSum(logits)
	if !p.OK {
		return RefRow{}, p
	}
	return RefRow{
		NLL: p.Max + p.LogSum - float64(logits[target]), MaxP: float32(math.Exp(-p.LogSum)), Top: p.Top,
	}, p
}

// row scores a candidate's row of logits against the reference's.
func row(set kernels.Set, ref, logits []float32, p kernels.LogitRow, target int32) Row {
	q := set.LogSum(logits)
	if !q.OK {
		nan := math.NaN()
		return Row{KL: nan, Reverse: nan, NLL: nan, Top: -1}
	}
	kl, reverse, _ := set.Divergence(ref, logits, p, q)
	return Row{KL: max(kl, 0), Reverse: max(reverse, 0), NLL: q.Max + q.LogSum - float64(logits[target]), Top: q.Top}
}

// inParallel calls do for 0 … n−1, each once, from so many goroutines. What each
// call does must not depend on the others.
func inParallel(n, threads int, do func(i int)) {
	threads = max(min(threads, n), 1)
	var wg sync.WaitGroup
	for t := range threads {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := t * n / threads; i < (t+1)*n/threads; i++ {
				do(i)
			}
		}()
	}
	wg.Wait()
}
