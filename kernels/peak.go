package kernels

import (
	"sync"
	"time"
)

// fmaLoop does at least steps multiply-adds of f32 on registers, in chains
// enough that each unit of the core has one to start in every cycle, and says
// how many it did.
type fmaLoop func(steps int) (done int)

// fmaLoopRef has eight chains to cover the latency of a multiplication and an
// addition. Their ends are looked at, or the compiler would drop them.
func fmaLoopRef(steps int) int {
	var s [8]float32
	x, y := float32(0.999), float32(1e-3)
	n := max(steps/len(s), 1)
	for range n {
		for i := range s {
			s[i] = s[i]*x + y
		}
	}
	for _, v := range s {
		if v < 0 {
			return 0
		}
	}
	return n * len(s)
}

// MeasureFMA is the best rate of f32 multiply-adds on registers, in GFLOP/s (a
// multiply-add is two), that threads goroutines together reach with the set's
// instructions; 0 threads is GOMAXPROCS. It tries for d, once at least. The rate
// of a product over it is how much of the machine the product uses.
func (s Set) MeasureFMA(threads int, d time.Duration) float64 {
	threads = threadCount(threads)
	const steps = 1 << 22
	best := 0.0
	for end := time.Now().Add(d); ; {
		done := make([]int, threads)
		start := time.Now()
		var wg sync.WaitGroup
		for i := range threads {
			wg.Go(func() { done[i] = s.fmaLoop(steps) })
		}
		wg.Wait()
		seconds, total := time.Since(start).Seconds(), 0
		for _, n := range done {
			total += n
		}
		best = max(best, 2*float64(total)/seconds/1e9)
		if !time.Now().Before(end) {
			return best
		}
	}
}

// MeasureFMA is Best's method of that name.
func MeasureFMA(threads int, d time.Duration) float64 { return Best().MeasureFMA(threads, d) }

// MeasureMemcpy is the best rate, in bytes copied a second, at which one thread
// copies a buffer of so many bytes (a page at least) into another. It tries for
// d, once at least, and allocates both buffers.
func MeasureMemcpy(bytes int, d time.Duration) float64 {
	bytes = max(bytes, 4096)
	src, dst := make([]byte, bytes), make([]byte, bytes)
	for i := 0; i < bytes; i += 4096 { // or all pages read would be one page of zeros
		src[i] = 1
	}
	copy(dst, src)
	best := 0.0
	for end := time.Now().Add(d); ; {
		start := time.Now()
		copy(dst, src)
		best = max(best, float64(bytes)/time.Since(start).Seconds())
		if !time.Now().Before(end) {
			return best
		}
	}
}
