package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// gaussianBF16 is a matrix of normal weights with standard deviation 0.02.
func gaussianBF16(rows, cols int, seed uint64) Matrix {
	rng := rand.New(rand.NewPCG(seed, 1))
	m := Matrix{Element: BF16, Rows: rows, Cols: cols, Data: make([]byte, 2*rows*cols)}
	for i := range rows * cols {
		binary.LittleEndian.PutUint16(m.Data[2*i:], F32ToBF16(float32(0.02*rng.NormFloat64())))
	}
	return m
}

// BenchmarkNVFP4 measures each method with the whole tap record, codes and
// scales written, on one thread. bytes/s are source bytes; "memcpy" is that
// rate over the one of copy() on the same data in the same run.
func BenchmarkNVFP4(b *testing.B) {
	m := gaussianBF16(4096, 14336, 1)
	out := newOutput(m)
	dst := make([]byte, len(m.Data))
	for _, set := range Available() {
		for _, method := range []NVFP4Method{NVFP4RTN, NVFP4MSE, NVFP4MSEGE1, NVFP4Sweep, NVFP4FourOverSix} {
			b.Run(fmt.Sprintf("%s/%v/4096x14336", set.Name, method), func(b *testing.B) {
				b.SetBytes(int64(len(m.Data)))
				copyRate := math.Inf(-1)
				for range 3 {
					start := time.Now()
					copy(dst, m.Data)
					copyRate = max(copyRate, float64(len(m.Data))/time.Since(start).Seconds())
				}
				b.ReportAllocs()
				for b.Loop() {
					if _, err := set.NVFP4(m, NVFP4Options{Method: method}, &out); err != nil {
						b.Fatal(err)
					}
				}
				perSecond := float64(b.N) / b.Elapsed().Seconds()
				b.ReportMetric(perSecond*float64(m.Rows*m.Cols)/1e6, "Mweights/s")
				b.ReportMetric(perSecond*float64(len(m.Data))/copyRate, "memcpy")
			})
		}
	}
}

// BenchmarkNVFP4Small measures one expert-sized matrix of a synthetic
// checkpoint, where what is done once a matrix shows.
func BenchmarkNVFP4Small(b *testing.B) {
	m := gaussianBF16(64, 64, 1)
	for _, set := range Available() {
		for _, method := range []NVFP4Method{NVFP4RTN, NVFP4MSE} {
			b.Run(fmt.Sprintf("%s/%v/64x64", set.Name, method), func(b *testing.B) {
				b.SetBytes(int64(len(m.Data)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := set.NVFP4(m, NVFP4Options{Method: method}, nil); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkAbsMax(b *testing.B) {
	m := gaussianBF16(4096, 14336, 1)
	for _, set := range Available() {
		b.Run(set.Name+"/4096x14336", func(b *testing.B) {
			b.SetBytes(int64(len(m.Data)))
			for b.Loop() {
				set.finiteAbsMax(m)
			}
		})
	}
}

// BenchmarkNVFP4Threads measures two threads with a matrix each: "speedup" is
// their rate over that of one thread in the same run.
func BenchmarkNVFP4Threads(b *testing.B) {
	const threads = 2
	var m [threads]Matrix
	var out [threads]NVFP4Output
	for i := range m {
		m[i] = gaussianBF16(2048, 14336, uint64(i))
		out[i] = newOutput(m[i])
	}
	for _, set := range Available()[1:] {
		for _, method := range []NVFP4Method{NVFP4RTN, NVFP4MSE} {
			b.Run(fmt.Sprintf("%s/%v/2048x14336", set.Name, method), func(b *testing.B) {
				one := func(i int) {
					if _, err := set.NVFP4(m[i], NVFP4Options{Method: method}, &out[i]); err != nil {
						b.Error(err)
					}
				}
				var alone, together time.Duration
				for b.Loop() {
					start := time.Now()
					for i := range threads {
						one(i)
					}
					alone += time.Since(start)
					start = time.Now()
					var wg sync.WaitGroup
					for i := range threads {
						wg.Go(func() { one(i) })
					}
					wg.Wait()
					together += time.Since(start)
				}
				b.ReportMetric(alone.Seconds()/together.Seconds(), "speedup")
				b.ReportMetric(float64(b.N)*threads*float64(m[0].Rows*m[0].Cols)/together.Seconds()/1e6, "Mweights/s")
			})
		}
	}
}

// BenchmarkNVFP4Phases measures what a run of blocks costs in each phase, in ns
// a block; all of it is in the first-level cache.
func BenchmarkNVFP4Phases(b *testing.B) {
	m := gaussianBF16(1, nvfp4Chunk*BlockNVFP4, 1)
	for _, set := range Available() {
		p := set.beginNVFP4(BF16, m.Cols, ModelOpt, nvfp4Search{top: MaxE4M3}, set.finiteAbsMax(m), 0)
		j := p.job
		amax, choices := j.tap.clips.amax[:], j.choices[:]
		scales, codes := j.scales[:], j.codes[:]
		for _, c := range []struct {
			name string
			f    func()
		}{
			{"amax", func() { set.blockAmax(BF16, m.Data, amax) }},
			{"choose", func() { set.nvfp4Choose(j, m.Data, amax, scales, choices) }},
			{"count", func() { set.nvfp4Count(j, m.Data, amax, scales, choices) }},
			{"encode", func() {
				j.tap.clips.counted = true // as in a pass
				set.nvfp4Encode(j, m.Data, scales, codes)
			}},
			{"all", func() { p.rows(m.Data, 1, &Output{Codes: codes, Scales: scales}) }},
		} {
			c.f()
			b.Run(set.Name+"/"+c.name, func(b *testing.B) {
				for b.Loop() {
					c.f()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/nvfp4Chunk, "ns/block")
				b.ReportMetric(0, "ns/op")
			})
		}
		p.finish()
	}
}
