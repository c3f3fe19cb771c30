//go:build ignore

// Takes prompts of a length through a model and prints tokens a second, the best
// of some runs: what llama-bench calls pp. The last token's logits are made too.
//
//	go run .ci/llama/prompt.go MODEL TOKENS THREADS RUNS
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"quantscope/analysis/candidate"
	"quantscope/analysis/model"
	"quantscope/kernels"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if len(os.Args) != 5 {
		return fmt.Errorf("usage: prompt.go MODEL TOKENS THREADS RUNS")
	}
	var n [3]int
	for i := range n {
		v, err := strconv.Atoi(os.Args[2+i])
		if err != nil || v < 1 {
			return fmt.Errorf("%q is no count", os.Args[2+i])
		}
		n[i] = v
	}
	o := model.Options{Set: kernels.Best(), Threads: n[1]}
	c, err := candidate.Open(ctx, os.Args[1], candidate.Options{Set: o.Set, Threads: o.Threads})
	if err != nil {
		return err
	}
	defer c.Close()
	src, err := c.Source()
	if err != nil {
		return err
	}
	tokens := make([]int32, n[0])
	for i := range tokens {
		tokens[i] = int32((i*7919 + 13) % c.Arch.Vocab)
	}
	pass := model.NewPass(c.Arch, []model.Source{model.NewResident(src)}, o)
	head, err := model.NewHead(ctx, c.Arch, src, o)
	if err != nil {
		return err
	}
	var logits []float32
	best := time.Duration(1 << 62)
	for range n[2] + 1 { // the first reads the file
		begin := time.Now()
		h, err := pass.Run(ctx, [][]int32{tokens})
		if err != nil {
			return err
		}
		if logits, err = head.Logits(logits, h[0].X[(n[0]-1)*c.Arch.Hidden:], 1); err != nil {
			return err
		}
		best = min(best, time.Since(begin))
	}
	fmt.Printf("%.1f\n", float64(n[0])/best.Seconds())
	return nil
}
