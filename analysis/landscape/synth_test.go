package landscape

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/demo"
	"quantscope/quant/topology"
)

// fastest is the kernel set that a run would take.
var fastest = func() kernels.Set {
	sets := kernels.Available()
	return sets[len(sets)-1]
}()

// measure makes the matrices of a synthetic checkpoint in memory and measures
// them under nvfp4. Only kinds that are kept are in the table.
func measure(t testing.TB, s demo.Synth, kinds ...topology.Kind) *Table {
	t.Helper()
	ms, err := s.Matrices()
	if err != nil {
		t.Fatal(err)
	}
	table := &Table{Arms: []Arm{{Name: "nvfp4", BitsPerWeight: 4.5}}}
	arm := &table.Arms[0]
	var data []byte
	for i := range ms {
		m := &ms[i]
		keep := len(kinds) == 0
		for _, k := range kinds {
			keep = keep || m.Role.Kind == k
		}
		if !keep {
			continue
		}
		if n := 2 * m.Rows * m.Cols; cap(data) < n {
			data = make([]byte, n)
		}
		data = data[:2*m.Rows*m.Cols]
		if err := m.Fill(data); err != nil {
			t.Fatal(err)
		}
		tap, err := fastest.NVFP4(kernels.Matrix{Element: kernels.BF16, Rows: m.Rows, Cols: m.Cols, Data: data}, kernels.NVFP4Options{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		table.Items = append(table.Items, Item{
			ID: i, Name: m.Name, Role: m.Role, Rows: m.Rows, Cols: m.Cols, SourceBytes: int64(len(data)),
			Amax: tap.Amax, Std: math.NaN(), Kurtosis: math.NaN(),
		})
		arm.Bytes = append(arm.Bytes, int64(m.Rows*m.Cols)*9/16)
		arm.Samples = append(arm.Samples, Sample{
			State: Measured, Rel2: tap.Rel2(), RelL2: tap.RelL2(), Cos: tap.Cos(), W2: tap.SumW2, E2: tap.SumE2,
			Blocks: tap.Blocks, ScaleHigh: tap.ScaleHigh, ScaleLow: tap.ScaleLow, Shallow: tap.Shallow, Deep: tap.Deep,
		})
	}
	return table
}

// each runs f for 0 to n−1 on all cores.
func each(n int, f func(i int)) {
	next := make(chan int, n) // all at once, so that nothing waits for a worker that failed
	for i := range n {
		next <- i
	}
	close(next)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	wg.Wait()
}

func analyzed(t testing.TB, table *Table) *Report {
	t.Helper()
	r, err := Analyze(context.Background(), table, 0)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// plants reads --plant.
func plants(t testing.TB, text string) []demo.Plant {
	t.Helper()
	p, err := demo.ParsePlants(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// drawn is a table of routed experts whose errors are drawn from those of
// measured matrices: flat ones, and planted ones where the plant is. tail are the
// items of a planted tail.
func drawn(seed uint64, size, layers, experts int, p demo.Plant, flat, planted []float64) (table *Table, tail map[int]bool) {
	rng := rand.New(rand.NewPCG(seed, 1))
	var entries []entry
	for l := range layers {
		for e := range experts {
			for _, name := range three {
				entries = append(entries, entry{l, e, name, 0})
			}
		}
	}
	if p.Kind == demo.PlantTail {
		tail = map[int]bool{}
		for _, i := range rng.Perm(len(entries))[:max(1, int(p.Fraction*float64(len(entries))+0.5))] {
			tail[i] = true
		}
	}
	for i := range entries {
		e := &entries[i]
		from := flat
		switch {
		case p.Kind == demo.PlantLayer && e.layer == p.Index, p.Kind == demo.PlantExpert && e.expert == p.Index,
			p.Kind == demo.PlantProjection && e.projection == p.Projection, tail[i]:
			from = planted
		}
		e.rel2 = from[rng.IntN(len(from))]
	}
	return handTable(entries...), tail
}

func allItems(t *Table) []int {
	all := make([]int, len(t.Items))
	for i := range all {
		all[i] = i
	}
	return all
}

// targetName is how an effect of the plant is named.
func targetName(p demo.Plant) string {
	switch p.Kind {
	case demo.PlantLayer:
		return layerKey{layer: p.Index}.String()
	case demo.PlantExpert:
		return expertName(p.Index)
	}
	return p.Projection
}
