package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
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

// BenchmarkNVFP4Phases measures what one row of a large matrix costs in each
// phase, in ns a block; all of it is in the second-level cache.
func BenchmarkNVFP4Phases(b *testing.B) {
	m := gaussianBF16(1, 14336, 1)
	n := m.Cols / BlockNVFP4
	for _, set := range Available() {
		p := set.beginNVFP4(BF16, m.Cols, ModelOpt, nvfp4Search{top: MaxE4M3}, set.finiteAbsMax(m), 0)
		j := p.job
		scales, codes := make([]byte, n), make([]byte, n*BlockNVFP4/2)
		p.rows(m.Data, 1, &Output{Codes: codes, Scales: scales})
		amax, choices := j.amax[:], j.choices[:]
		chunks := func(phase func(src []byte, amax []uint32, scales, choices, codes []byte)) func() {
			return func() {
				for at := 0; at < n; at += nvfp4Chunk {
					k := min(nvfp4Chunk, n-at)
					phase(m.Data[at*32:(at+k)*32], amax[:k], scales[at:at+k], choices[:k], codes[at*8:(at+k)*8])
				}
			}
		}
		for _, c := range []struct {
			name string
			f    func()
		}{
			{"amax", chunks(func(src []byte, amax []uint32, _, _, _ []byte) { set.blockAmax(BF16, src, amax) })},
			{"choose", chunks(func(src []byte, amax []uint32, scales, choices, _ []byte) {
				set.nvfp4Choose(j, src, amax, scales, choices)
			})},
			{"count", chunks(func(src []byte, amax []uint32, scales, choices, _ []byte) {
				set.nvfp4Count(j, src, amax, scales, choices)
			})},
			{"encode", chunks(func(src []byte, _ []uint32, scales, _, codes []byte) { set.nvfp4Encode(j, src, scales, codes) })},
			{"all", func() { p.rows(m.Data, 1, &Output{Codes: codes, Scales: scales}) }},
		} {
			b.Run(set.Name+"/"+c.name, func(b *testing.B) {
				set.blockAmax(BF16, m.Data[:nvfp4Chunk*32], amax)
				for b.Loop() {
					c.f()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/block")
				b.ReportMetric(0, "ns/op")
			})
		}
		p.finish()
	}
}
