//go:build ignore

// Prints what every codebook of code2 would be worth over the matrices of a checkpoint
// that a pass reads and targets name: JSON, an array of 1,365. Second-level scales are of
// each matrix by itself, so that figures may differ from those of bias in the fourth place.
//
//	go run .ci/twobits/books.go CHECKPOINT [TARGETS]
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"

	"quantscope/analysis/candidate"
	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/demo"
	"quantscope/quant/recipe"
	"quantscope/quant/topology"
)

// book is one codebook over all matrices.
type book struct {
	Book string  `json:"book"` // as behind book:
	Rel  float64 `json:"rel_l2"`
	Bias float64 `json:"bias"` // Σ(q−w)/Σ|w|
	Gain float64 `json:"gain"` // Σqw/Σw²: what is left of the weights in what stands for them
	Sym  bool    `json:"symmetric"`
	mask uint16
	e2   float64
	dot  float64
	sum  float64
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "books:", err)
		os.Exit(1)
	}
}

// choose takes the matrices that a variant's targets mean.
func choose(top *topology.Model, targets string) (map[string]bool, error) {
	chosen := map[string]bool{}
	if targets == "linear" {
		for i := range top.Matrices {
			switch m := &top.Matrices[i]; m.Role.Kind {
			case topology.Attention, topology.MLP, topology.Expert, topology.SharedExpert:
				chosen[m.Name] = true
			}
		}
		return chosen, nil
	}
	s, err := recipe.Select(top, targets)
	for i := range s.Matrices {
		chosen[s.Matrices[i].Name] = true
	}
	return chosen, err
}

func run(args []string) error {
	if len(args) < 1 || len(args) > 2 {
		return fmt.Errorf("CHECKPOINT [TARGETS]")
	}
	ctx, targets := context.Background(), ""
	if len(args) > 1 {
		targets = args[1]
	}
	ref, err := candidate.Open(ctx, args[0], candidate.Options{})
	if err != nil {
		return err
	}
	defer ref.Close()
	open := func() (*checkpoint.Checkpoint, error) { return checkpoint.Open(args[0]) }
	if args[0] == demo.Label {
		open = demo.Open
	}
	ck, err := open()
	if err != nil {
		return err
	}
	defer ck.Close()
	chosen, err := choose(ref.Topology, targets)
	if err != nil {
		return err
	}
	var books []book
	var sumW, absW, w2 float64
	for i := range ref.Topology.Matrices {
		m := &ref.Topology.Matrices[i]
		if !chosen[m.Name] || m.Role.MTP {
			continue
		}
		t, ok := ck.Lookup(ref.Topology.Tensors[ref.Topology.MatrixTensor[i]].Name)
		if !ok {
			return fmt.Errorf("%s: not in the checkpoint", m.Name)
		}
		e, ok := map[checkpoint.DType]kernels.Element{checkpoint.BF16: kernels.BF16, checkpoint.F16: kernels.F16, checkpoint.F32: kernels.F32}[t.DType]
		if !ok {
			return fmt.Errorf("%s: is stored as %v", m.Name, t.DType)
		}
		data := make([]byte, t.Size)
		if m.Rows*m.Cols*e.Size() != len(data) {
			return fmt.Errorf("%s: is a part of %s, and whole tensors are read here", m.Name, t.Name)
		}
		if err := ck.ReadAt(ctx, t, 0, data); err != nil {
			return err
		}
		w := make([]float32, m.Rows*m.Cols)
		if err := kernels.DecodeFloats(w, e, data); err != nil {
			return err
		}
		for _, x := range w {
			sumW, absW, w2 = sumW+float64(x), absW+math.Abs(float64(x)), w2+float64(x)*float64(x)
		}
		amax, err := kernels.Best().AbsMax(kernels.Matrix{Element: e, Rows: m.Rows, Cols: m.Cols, Data: data})
		if err != nil {
			return err
		}
		search, err := kernels.Best().BeginCodebook(kernels.Spec{Format: "code2"}, e, m.Cols, amax, nil)
		if err != nil {
			return err
		}
		if err := search.Rows(data); err != nil {
			return err
		}
		for k, x := range search.Worths() {
			if k == len(books) {
				books = append(books, book{mask: x.Codebook})
			}
			books[k].e2, books[k].dot, books[k].sum = books[k].e2+x.Error, books[k].dot+x.Dot, books[k].sum+x.Sum
		}
	}
	for k := range books {
		b := &books[k]
		v := kernels.Codebook(b.mask)
		b.Book = strings.TrimPrefix(kernels.BookMethod(b.mask), "book:")
		b.Rel, b.Bias, b.Gain, b.Sym = math.Sqrt(b.e2/w2), (b.sum-sumW)/absW, b.dot/w2, v[0] == -v[3] && v[1] == -v[2]
	}
	return json.NewEncoder(os.Stdout).Encode(books)
}
