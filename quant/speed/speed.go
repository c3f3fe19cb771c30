// Package speed measures what this machine can do: each quantizer, the matrix
// products, copying, multiply-adds, reading a checkpoint.
//
// Promises: a kernel's rate and what it is compared with are measured in the
// same run; memory is bounded by MaxBytes; a cancelled context ends a
// measurement within one matrix.
package speed

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"quantscope/kernels"
	"quantscope/quant/method"
)

// Of names what a kernel's rate is compared with.
const (
	OfMemcpy = "memcpy"
	OfFMA    = "fma"
)

// Kernel is the rate of one kernel.
type Kernel struct {
	Name    string  `json:"name"` // a variant, or gemm-f32, gemm-bf16, syrk-f32
	Set     string  `json:"set"`
	Threads int     `json:"threads"`
	GBs     float64 `json:"gb_s"`      // source bytes; 0 for products
	Weights float64 `json:"weights_s"` // 0 for products
	GFLOPs  float64 `json:"gflops"`    // 0 for quantizers
	Of      string  `json:"of"`        // what ratio is over: memcpy of one thread, or multiply-adds of as many threads
	Ratio   float64 `json:"ratio"`
	// Seconds200GB is how long the weights of a 200 GB checkpoint keep the
	// kernel busy at this rate; 0 for products.
	Seconds200GB float64 `json:"seconds_200gb"`
}

// Report is what was measured.
type Report struct {
	CPU       string   `json:"cpu"`
	Cores     int      `json:"cores"` // that the program may use
	Go        string   `json:"go"`
	Sets      []string `json:"sets"`        // that this machine can run, fastest last
	MemcpyGBs float64  `json:"memcpy_gb_s"` // bytes copied a second by one thread
	FMAGFLOPs float64  `json:"fma_gflops"`  // f32, all threads, best set
	Kernels   []Kernel `json:"kernels"`
	Read      *Read    `json:"read,omitempty"`
}

// Options say what is measured.
type Options struct {
	Variants   []method.Variant
	Sets       []kernels.Set // none: the best of this machine
	Threads    int           // of the second measurement of each kernel; 0 is GOMAXPROCS
	Each       time.Duration // how long each measurement takes at least; 0 is 300 ms
	MaxBytes   int64         // of source matrices; 0 is 512 MiB
	Products   bool          // measure the matrix products too
	Checkpoint string        // not empty: the rate at which its files are read
}

const (
	matrixRows, matrixCols = 1024, 8192
	matrixBytes            = 2 * matrixRows * matrixCols
	defaultEach            = 300 * time.Millisecond
	defaultBytes           = 512 << 20
	perThread              = 8 // matrices, so that no cache holds what a thread works on
	productSize            = 1024
	checkpointBytes        = 200e9
)

// Measure measures. done is called with each kernel as it comes and may be nil.
func Measure(ctx context.Context, o Options, done func(Kernel)) (Report, error) {
	if o.Threads <= 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	if o.Each <= 0 {
		o.Each = defaultEach
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultBytes
	}
	if o.MaxBytes < int64(o.Threads)*matrixBytes {
		return Report{}, fmt.Errorf("speed: %d threads need %d bytes of matrices, the bound is %d", o.Threads, int64(o.Threads)*matrixBytes, o.MaxBytes)
	}
	if len(o.Sets) == 0 {
		o.Sets = []kernels.Set{kernels.Best()}
	}
	r := Report{CPU: cpuName(), Cores: runtime.GOMAXPROCS(0), Go: runtime.Version(), Kernels: []Kernel{}}
	for _, s := range kernels.Available() {
		r.Sets = append(r.Sets, s.Name)
	}
	if o.Checkpoint != "" { // first, since it may be refused
		read, err := measureRead(ctx, o.Checkpoint, o.Each)
		if err != nil {
			return Report{}, err
		}
		r.Read = &read
	}
	counts := []int{1}
	if o.Threads > 1 {
		counts = append(counts, o.Threads)
	}
	r.MemcpyGBs = kernels.MeasureMemcpy(perThread*matrixBytes, o.Each) / 1e9
	r.FMAGFLOPs = kernels.MeasureFMA(o.Threads, o.Each)
	add := func(k Kernel) {
		r.Kernels = append(r.Kernels, k)
		if done != nil {
			done(k)
		}
	}
	if len(o.Variants) > 0 {
		sources := makeMatrices(o.Threads, o.MaxBytes)
		for _, v := range o.Variants {
			for _, set := range o.Sets {
				for _, threads := range counts {
					k, err := measureVariant(ctx, v, set, sources[:threads], o.Each)
					if err != nil {
						return Report{}, err
					}
					k.Ratio = k.GBs / r.MemcpyGBs
					add(k)
				}
			}
		}
	}
	if o.Products {
		for _, set := range o.Sets {
			for _, threads := range counts {
				peak := set.MeasureFMA(threads, o.Each)
				for _, p := range products {
					k, err := p.measure(ctx, set, threads, o.Each)
					if err != nil {
						return Report{}, err
					}
					k.Ratio = k.GFLOPs / peak
					add(k)
				}
			}
		}
	}
	return r, ctx.Err()
}
