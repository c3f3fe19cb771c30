//go:build ignore

// Makes the blocks that another program made of a GGUF file, and compares errors.
//
//	go run .ci/gguf/compare.go SOURCE PEER [IMATRIX]
//
// SOURCE holds the weights, PEER what a quantizer made of them. Each tensor of PEER
// whose type kernels.EncodeGGUF makes is made here as well; both are decoded, by
// decoders that give gguf-py's bits, and a line for each type says the squared errors,
// weighted by the importance where a tensor has one, as ours over theirs.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"quantscope/kernels"
	"quantscope/quant/gguf"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// tally is what is printed of a type.
type tally struct {
	tensors      int
	weights      int64
	took         time.Duration
	ours, theirs float64 // squared errors
	least, top   float64 // ratios of tensors
}

func run(ctx context.Context, args []string) error {
	if len(args) != 2 && len(args) != 3 {
		return fmt.Errorf("usage: compare.go SOURCE PEER [IMATRIX]")
	}
	source, err := gguf.Open(args[0])
	if err != nil {
		return err
	}
	defer source.Close()
	peer, err := gguf.Open(args[1])
	if err != nil {
		return err
	}
	defer peer.Close()
	importance := map[string][]float32{}
	if len(args) == 3 {
		m, err := gguf.ReadImatrix(args[2])
		if err != nil {
			return err
		}
		for _, e := range m.Entries {
			if e.Matrices == 1 && e.Counts[0] > 0 {
				importance[e.Name] = e.Sum2
			}
		}
	}
	tallies := map[string]*tally{}
	for i := range peer.Tensors {
		if err := compare(ctx, source, peer, &peer.Tensors[i], importance, tallies); err != nil {
			return err
		}
	}
	kinds := make([]string, 0, len(tallies))
	for kind := range tallies {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		t := tallies[kind]
		fmt.Printf("%-18s %4d tensors  ours/theirs %.4f  (%.4f to %.4f)  %6.1f Mweights/s a thread\n",
			kind, t.tensors, t.ours/t.theirs, t.least, t.top, float64(t.weights)/t.took.Seconds()/1e6)
	}
	return nil
}

func compare(ctx context.Context, source, peer *gguf.File, x *gguf.Tensor, importance map[string][]float32, tallies map[string]*tally) error {
	block, size := x.Type.Block()
	from, ok := source.Lookup(x.Name)
	if block <= 1 || !x.Type.Encodes() || !ok || len(x.Shape) != 2 {
		return nil
	}
	n, cols := int(x.Elements()), int(x.Shape[1])
	values, theirs, ours := make([]float32, n), make([]float32, n), make([]float32, n)
	if err := source.Decode(ctx, from, 0, values); err != nil {
		return err
	}
	if err := peer.Decode(ctx, x, 0, theirs); err != nil {
		return err
	}
	w := importance[x.Name]
	kind := x.Type.String()
	if w != nil {
		kind += " weighted"
	}
	used := w
	if !x.Type.TakesImportance() {
		used = nil
	}
	raw := make([]byte, n/block*size)
	start := time.Now()
	if err := kernels.Best().EncodeGGUF(raw, x.Type, n/cols, cols, values, used); err != nil {
		return fmt.Errorf("%s: %s: %w", source.Path, x.Name, err)
	}
	took := time.Since(start)
	if err := kernels.Best().DecodeGGUF(ours, x.Type, raw); err != nil {
		return err
	}
	var a, b float64
	for i, v := range values {
		f := 1.0
		if w != nil {
			f = float64(w[i%cols])
		}
		a += f * square(float64(v)-float64(ours[i]))
		b += f * square(float64(v)-float64(theirs[i]))
	}
	ratio := a / b
	if a == b {
		ratio = 1
	}
	t := tallies[kind]
	if t == nil {
		t = &tally{least: ratio, top: ratio}
		tallies[kind] = t
	}
	t.tensors++
	t.weights += int64(n)
	t.took += took
	t.ours, t.theirs = t.ours+a, t.theirs+b
	t.least, t.top = min(t.least, ratio), max(t.top, ratio)
	return nil
}

func square(x float64) float64 { return x * x }
